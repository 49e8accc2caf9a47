"""How a request that needs no tool is answered: the steps of a sum or date, or what the request says.

Place in the flow: layer 5, used by `experts`, who know the answer and look for what leads to it. Every step is small
enough to be done in the head, as a model that writes them has nothing else to reckon with.
Limits: products, quotients, percentages and sums of two or three numbers of the request, spans of days, weekdays, and
facts that the request states.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import permutations

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"(?<![\w.:-])\d+(?![\w:])")


def workings(request: str, answer: str) -> str:
    """Return how the answer follows from the request, or nothing if no way is found."""
    return next(_dates(request, answer), "") or next(_sums(request, answer), "") or _stated(request, answer)


def _dates(request: str, answer: str) -> Iterator[str]:
    days = [date.fromisoformat(text) for text in _DATE.findall(request)]
    numbers = [int(text) for text in _NUMBER.findall(_DATE.sub(" ", request))]
    for day in days:
        if day.strftime("%A") == answer:
            yield f"{day} is a {answer}."
        for number in numbers:
            if (day + timedelta(days=number)).isoformat() == answer:
                yield _span(day, number)
    for first, last in permutations(days, 2):
        if str((last - first).days) == answer:
            yield _span(first, (last - first).days)


def _span(start: date, days: int) -> str:
    """Return the way to a later day by the ends of months, each with the days up to it."""
    target, end, gone, steps = start + timedelta(days=days), _end_of_month(start), 0, []
    while end < target:
        gone = (end - start).days
        steps.append(f"{gone} days to {end}")
        end = _end_of_month(end + timedelta(days=1))
    last = f"{gone} + {days - gone} = {days} days to {target}" if steps else f"{days} days to {target}"
    return f"From {start}: {', '.join([*steps, last])}."


def _end_of_month(day: date) -> date:
    return day.replace(day=monthrange(day.year, day.month)[1])


def _sums(request: str, answer: str) -> Iterator[str]:
    if not answer.isdecimal():
        return
    wanted = int(answer)
    numbers = [int(text) for text in _NUMBER.findall(_DATE.sub(" ", request.replace("%", " percent")))]
    if len(numbers) > 2 and sum(numbers) == wanted:
        yield _added(numbers)
    for a, b in permutations(numbers, 2):
        if "percent" in request.replace("%", " percent") and a * b == wanted * 100:
            yield _percentage(min(a, b), max(a, b))
        if a * b == wanted:
            yield f"{_product(a, b)}."
        if b and a == wanted * b:
            yield _quotient(a, b)
        if a * 60 + b == wanted:
            yield f"{_product(a, 60)}, {a * 60} + {b} = {wanted}."
        for c in numbers:
            if a * b - c == wanted:
                yield f"{_product(a, b)}, {a * b} - {c} = {wanted}."


def _added(numbers: list[int]) -> str:
    total, steps = numbers[0], []
    for number in numbers[1:]:
        steps.append(f"{total} + {number} = {total + number}")
        total += number
    return f"{', '.join(steps)}."


def _product(a: int, b: int) -> str:
    """Return `a x b` digit by digit: `27 x 50 = 1000 + 350 = 1350, 27 x 5 = 100 + 35 = 135, 1350 + 135 = 1485`."""
    rows = []
    for part in _places(b):
        cells = [place * part for place in _places(a)]
        rows.append(f"{a} x {part} = {f'{_sum(cells)} = ' if len(cells) > 1 else ''}{a * part}")
    if len(rows) > 1:
        rows.append(f"{_sum([a * part for part in _places(b)])} = {a * b}")
    return ", ".join(rows)


def _quotient(a: int, b: int) -> str:
    left, steps = a, []
    for part in _places(a // b):
        steps.append(f"{b} x {part} = {b * part}, {left} - {b * part} = {left - b * part}")
        left -= b * part
    return f"{', '.join(steps)}, so {a} / {b} = {a // b}."


def _percentage(percent: int, base: int) -> str:
    if percent % 10 or base % 10:
        return f"{_product(base, percent)}, {base * percent} / 100 = {base * percent // 100}."
    return f"10 percent of {base} is {base // 10}, {_product(base // 10, percent // 10)}."


def _places(number: int) -> list[int]:
    """Return what the digits of a number stand for: 305 is 300 and 5."""
    digits = str(number)
    return [int(digit) * 10 ** (len(digits) - place) for place, digit in enumerate(digits, 1) if digit != "0"] or [0]


def _sum(numbers: list[int]) -> str:
    return " + ".join(map(str, numbers))


def _stated(request: str, answer: str) -> str:
    """Return the clause of the request that holds the answer."""
    clauses = [clause for clause in re.split(r"[.;,:?] ", request) if answer in clause]
    return f"The request says: {clauses[0].strip().rstrip('.')}." if clauses else ""

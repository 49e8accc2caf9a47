"""How a request that needs no tool is answered: the sum, the date or the sentence that gives the answer.

Place in the flow: layer 5, used by `experts`, who know the answer and look for what leads to it. Limits: sums of two
or three numbers of the request, spans of days, weekdays, and facts that the request states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import permutations

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"(?<![\w.:-])\d+(?![\w:])")


def workings(request: str, answer: str) -> str:
    """Return in a sentence how the answer follows from the request, or nothing if no way is found."""
    return next(_dates(request, answer), "") or next(_sums(request, answer), "") or _stated(request, answer)


def _dates(request: str, answer: str) -> Iterator[str]:
    days = [date.fromisoformat(text) for text in _DATE.findall(request)]
    numbers = [int(text) for text in _NUMBER.findall(_DATE.sub(" ", request))]
    for day in days:
        if day.strftime("%A") == answer:
            yield f"{day} is a {answer}."
        for number in numbers:
            if (day + timedelta(days=number)).isoformat() == answer:
                yield f"{day} plus {number} days is {answer}."
    for first, last in permutations(days, 2):
        if str((last - first).days) == answer:
            yield f"From {first} to {last} it is {answer} days."


def _sums(request: str, answer: str) -> Iterator[str]:
    if not answer.isdecimal():
        return
    wanted = int(answer)
    numbers = [int(text) for text in _NUMBER.findall(_DATE.sub(" ", request.replace("%", " percent")))]
    if len(numbers) > 2 and sum(numbers) == wanted:
        yield f"{' + '.join(map(str, numbers))} = {wanted}."
    for a, b in permutations(numbers, 2):
        if "percent" in request.replace("%", " percent") and a * b == wanted * 100:
            yield f"{a} x {b} / 100 = {wanted}."
        if a * b == wanted:
            yield f"{a} x {b} = {wanted}."
        if b and a == wanted * b:
            yield f"{a} / {b} = {wanted}."
        if a * 60 + b == wanted:
            yield f"{a} x 60 + {b} = {wanted}."
        for c in numbers:
            if a * b - c == wanted:
                yield f"{a} x {b} = {a * b}, minus {c} is {wanted}."


def _stated(request: str, answer: str) -> str:
    """Return the clause of the request that holds the answer."""
    clauses = [clause for clause in re.split(r"[.;,:?] ", request) if answer in clause]
    return f"The request says: {clauses[0].strip().rstrip('.')}." if clauses else ""

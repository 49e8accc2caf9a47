"""Requests that need no tool: arithmetic, dates, and facts that the request itself states.

Place in the flow: layer 3, called by `tasks` for the kind `direct`. A policy that searches or calls here wastes
turns.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from random import Random

Puzzle = Callable[[Random], tuple[str, str]]

_PEOPLE = ("Nadia", "Tomás", "Ingrid", "Kofi", "Mei", "Lukas", "Amara", "Joan", "Pavel", "Rosa", "Idris", "Hanna")
_ROOMS = ("Alder", "Basalt", "Cedar", "Dune", "Ember", "Fjord", "Granite", "Heron", "Iris", "Juniper")
_GOODS = ("pens", "folders", "mugs", "lamps", "badges", "notebooks", "cables", "chairs", "stickers", "batteries")
_CITIES = (
    "Lisbon",
    "Oslo",
    "Nairobi",
    "Quito",
    "Hanoi",
    "Krakow",
    "Dublin",
    "Osaka",
    "Lyon",
    "Tunis",
    "Porto",
    "Graz",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def puzzle(rng: Random) -> tuple[str, str]:
    """Return a request and the text that its answer must hold; the request does not hold it as an answer."""
    return rng.choice(_PUZZLES)(rng)


def _boxes(rng: Random) -> tuple[str, str]:
    boxes, each, goods = rng.randint(6, 48), rng.randint(11, 60), rng.choice(_GOODS)
    gone = rng.randint(5, boxes * each // 3)
    frame = rng.choice(
        (
            "We have {boxes} boxes of {each} {goods} each. If we hand out {gone}, how many {goods} are left?",
            "Suppose {boxes} boxes hold {each} {goods} and {gone} {goods} are taken out. How many remain?",
        )
    )
    return frame.format(boxes=boxes, each=each, goods=goods, gone=gone), str(boxes * each - gone)


def _percent(rng: Random) -> tuple[str, str]:
    percent, base = rng.choice((5, 10, 15, 20, 25, 30, 35, 40, 60, 75, 80)), 20 * rng.randint(12, 400)
    frame = rng.choice(
        (
            "What is {percent} percent of {base}?",
            "Our budget is {base} and {percent}% of it goes to travel. How much is that?",
        )
    )
    return frame.format(percent=percent, base=base), str(base * percent // 100)


def _product(rng: Random) -> tuple[str, str]:
    a, b = rng.randint(13, 98), rng.randint(13, 98)
    return rng.choice(("Quick check: how much is {a} times {b}?", "Can you multiply {a} by {b} for me?")).format(
        a=a, b=b
    ), str(a * b)


def _split(rng: Random) -> tuple[str, str]:
    people, each = rng.randint(3, 14), rng.randint(12, 90)
    return (
        f"A bill of {people * each} euros is shared equally by {people} people. How many euros does each pay?",
        str(each),
    )


def _minutes(rng: Random) -> tuple[str, str]:
    hours, minutes = rng.randint(2, 30), rng.randint(1, 59)
    return f"How many minutes are {hours} hours and {minutes} minutes altogether?", str(hours * 60 + minutes)


def _later(rng: Random) -> tuple[str, str]:
    start, days = _some_day(rng), rng.randint(8, 140)
    frame = rng.choice(
        (
            "Which date is {days} days after {start}?",
            "A parcel left on {start} and takes {days} days. On which date does it arrive?",
        )
    )
    return frame.format(days=days, start=start.isoformat()), (start + timedelta(days=days)).isoformat()


def _between(rng: Random) -> tuple[str, str]:
    start, days = _some_day(rng), rng.randint(20, 300)
    end = start + timedelta(days=days)
    return f"How many days are there from {start.isoformat()} to {end.isoformat()}, not counting the first day?", str(
        days
    )


def _weekday(rng: Random) -> tuple[str, str]:
    day = _some_day(rng)
    return f"Which day of the week is {day.isoformat()}?", _DAYS[day.weekday()]


def _room(rng: Random) -> tuple[str, str]:
    (first, second), rooms, hour = rng.sample(_PEOPLE, 2), rng.sample(_ROOMS, 2), rng.randint(9, 16)
    return (
        f"From my notes: {first} meets the auditors at {hour}:30 in room {rooms[0]}; {second} has a call at {hour}:00"
        f" in room {rooms[1]}. In which room does {second} have the call?",
        rooms[1],
    )


def _cities(rng: Random) -> tuple[str, str]:
    people, cities = rng.sample(_PEOPLE, 3), rng.sample(_CITIES, 3)
    pairs = ", ".join(f"{person} flies to {city}" for person, city in zip(people, cities, strict=True))
    wanted = rng.randrange(3)
    return f"This week {pairs}. Who of them flies to {cities[wanted]}?", people[wanted]


def _most(rng: Random) -> tuple[str, str]:
    cities, counts = rng.sample(_CITIES, 3), rng.sample(range(120, 990), 3)
    pairs = ", ".join(f"{city} sold {count}" for city, count in zip(cities, counts, strict=True))
    return f"Last month {pairs} units. How many units is that in total?", str(sum(counts))


def _some_day(rng: Random) -> date:
    return date(2025, 1, 1) + timedelta(days=rng.randrange(900))


_PUZZLES: tuple[Puzzle, ...] = (
    _boxes,
    _percent,
    _product,
    _split,
    _minutes,
    _later,
    _between,
    _weekday,
    _room,
    _cities,
    _most,
)

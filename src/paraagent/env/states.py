"""Does an answer state a value? Tolerant of formatting, strict about accidents.

Place in the flow: layer 3, used by `verify` and, before that, by the sampler (a fact that the request already states
asks for nothing). Text is compared without case, with `_` and `-` as spaces, at word boundaries: `open` is not stated
by `reopened`. Numbers are compared as numbers with or without thousands separators, and a longer decimal may be
rounded to two or more places. Dates may be written in ISO form or with the month's name; a time needs hour and
minute. Limits: English month names; whether the sentence around a value negates it is not judged.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from paraagent.types import JsonValue

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])(?!\.\d)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SOFT = re.compile(r"[\s_\-\u2010-\u2015]+")
_PLACES = 2


def states(answer: str, value: JsonValue) -> bool:
    """Tell whether `answer` states the scalar `value`; an empty string, null, list or object is never stated."""
    if isinstance(value, bool):
        return _states_text(answer, "true" if value else "false") or _states_text(answer, "yes" if value else "no")
    if isinstance(value, (int, float)):
        return any(_same_number(found, value) for found in numbers(answer))
    if not isinstance(value, str) or not value.strip():
        return False
    if _states_text(answer, value):
        return True
    moment = parse_moment(value)
    return moment is not None and _states_moment(answer, value, moment)


def numbers(text: str) -> list[float]:
    """Return the numbers that stand alone in a text; digits inside identifiers, dates and versions do not count."""
    plain = _DATE.sub(" ", text)
    return [float(match[0].replace(",", "")) for match in _NUMBER.finditer(plain)]


def parse_moment(text: str) -> datetime | None:
    """Return the date or time that an ISO 8601 text names, or None if it is none."""
    if not _DATE.match(text):
        return None
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def _soft(text: str) -> str:
    return _SOFT.sub(" ", text).strip().casefold()


def _states_text(answer: str, value: str) -> bool:
    soft = re.escape(_soft(value))
    before = r"(?<!\w)" if value.strip()[0].isalnum() else ""
    after = r"(?!\w)" if value.strip()[-1].isalnum() else ""
    return re.search(before + soft + after, _soft(answer)) is not None


def _same_number(found: float, value: int | float) -> bool:
    if found == float(value):
        return True
    shown = repr(found).partition(".")[2]
    return isinstance(value, float) and len(shown) >= _PLACES and round(value, len(shown)) == found


def _states_moment(answer: str, value: str, moment: datetime) -> bool:
    if not any(_states_text(answer, form) for form in _date_forms(moment.date())):
        return False
    if len(value.strip()) == len("2026-01-31"):
        return True
    shown = moment.astimezone(UTC) if moment.tzinfo else moment
    return any(_states_clock(answer, time) for time in {moment, shown})


def _states_clock(answer: str, moment: datetime) -> bool:
    hour = moment.hour % 12 or 12
    half = "am" if moment.hour < 12 else "pm"
    forms = rf"{moment.hour:02d}:{moment.minute:02d}|0?{hour}:{moment.minute:02d}(:\d\d)?\s*{half}"
    return re.search(rf"(?<!\d)(?:{forms})", answer, re.IGNORECASE) is not None


def _date_forms(day: date) -> list[str]:
    forms = [day.isoformat()]
    for month in (day.strftime("%B"), day.strftime("%b")):
        forms += [f"{month} {day.day}, {day.year}", f"{month} {day.day} {day.year}", f"{day.day} {month} {day.year}"]
    return forms

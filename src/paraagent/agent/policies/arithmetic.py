"""Answers requests that need no tool: a product, a percentage, a date, a weekday.

Place in the flow: layer 3, used by the `rules` policy before it searches. Limits: one operation, in common words;
anything else is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

_NUMBER = r"(-?\d+(?:\.\d+)?)"
_DATE = r"(\d{4}-\d{2}-\d{2})"


def calculate(request: str) -> str | None:
    """Return the result of the one calculation a request asks for, or None."""
    for pattern, compute in _PATTERNS:
        match = re.search(pattern, request, re.IGNORECASE)
        if match:
            try:
                return compute(*match.groups())
            except ValueError:
                return None
    return None


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.10g}"


def _weekday(day: str) -> str:
    return f"{date.fromisoformat(day):%A}"


def _shifted(days: str, day: str, sign: int = 1) -> str:
    return (date.fromisoformat(day) + timedelta(days=sign * int(days))).isoformat()


def _days_between(first: str, second: str) -> str:
    return str(abs((date.fromisoformat(second) - date.fromisoformat(first)).days))


_PATTERNS: tuple[tuple[str, Callable[..., str]], ...] = (
    (rf"{_NUMBER}\s*(?:percent|%)\s+of\s+{_NUMBER}", lambda p, n: _number(float(p) * float(n) / 100)),
    (rf"{_NUMBER}\s+(?:times|multiplied by|x|\*)\s+{_NUMBER}", lambda a, b: _number(float(a) * float(b))),
    (rf"multiply\s+{_NUMBER}\s+(?:by|with)\s+{_NUMBER}", lambda a, b: _number(float(a) * float(b))),
    (rf"{_NUMBER}\s+(?:divided by|/)\s+{_NUMBER}", lambda a, b: _number(float(a) / (float(b) or float("nan")))),
    (rf"{_NUMBER}\s+(?:plus|\+)\s+{_NUMBER}", lambda a, b: _number(float(a) + float(b))),
    (rf"{_NUMBER}\s+(?:minus)\s+{_NUMBER}", lambda a, b: _number(float(a) - float(b))),
    (rf"day of the week\D*{_DATE}", _weekday),
    (rf"(\d+) days after {_DATE}", _shifted),
    (rf"(\d+) days before {_DATE}", lambda days, day: _shifted(days, day, -1)),
    (rf"days\b.*?\bfrom {_DATE} to {_DATE}", _days_between),
    (rf"days\b.*?\bbetween {_DATE} and {_DATE}", _days_between),
)

"""A calculator within decoding: what a sum, a weekday or a date comes to is worked out where a text asks for it.

Place in the flow: layer 3, optional; part of `engine`, whose guides write the results into answers. A small model
knows which sum to write long before it can do it (Cobbe et al. 2021, arXiv:2110.14168, calculate in the same way).
Known are `27 x 50 =`, `1350 + 135 - 7 =`, `15 percent of 480 is`, `2026-05-12 is a`, `From 2026-01-03: 9 days to`.
Limits: numbers and signs with spaces between them, no brackets; what stands before a sum must be a word or a mark. A
result without an end has ten digits. Behind these beginnings nothing else can be said: no `2026-12-25 is a holiday`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal, Inexact, localcontext
from fractions import Fraction

TAIL = 400
"""Characters at the end of a text that are looked at."""
_DIGITS = 240
"""Of the longest sum of 13 numbers."""
_NUMBER = r"-?[0-9]{1,15}(?:\.[0-9]{1,10})?"
_FREE = r"(?:^|\n|(?<=[(:;,.?!=] )|(?<=[a-z]{2} )|\()(?<!minus )(?<!plus )(?<!times )(?<!by )(?<!over )"
"""What may stand before a sum: not a sign, also in words, nor what a sign may stand behind."""
_DATE = r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
_SIGN = "[-+x*/×÷−]"
_TERMS = re.compile(rf"({_SIGN}) ({_NUMBER})")


def result(text: str) -> str:
    """Return what a text that ends in a question of this kind goes on with; nothing if it does not."""
    for pattern, work_out in _PATTERNS:
        if match := pattern.search(text[-TAIL:]):
            try:
                return ("" if match[0].endswith(" ") else " ") + work_out(*match.groups())
            except (ArithmeticError, ValueError):
                return ""
    return ""


def _sum(terms: str) -> str:
    """Work out products and quotients first, each kind from left to right."""
    first, *_ = terms.split(" ")
    parts = [Fraction(first)]
    for sign, number in _TERMS.findall(terms[len(first) :]):
        value = Fraction(number)
        if sign in "x*×":
            parts[-1] *= value
        elif sign in "/÷":
            parts[-1] /= value
        else:
            parts.append(value if sign == "+" else -value)
    return _written(sum(parts, Fraction(0)))


def _percentage(percent: str, whole: str) -> str:
    return _written(Fraction(percent) * Fraction(whole) / 100)


def _written(value: Fraction) -> str:
    """Return all digits of a decimal that ends, else ten."""
    with localcontext(prec=_DIGITS) as context:
        context.clear_flags()
        found = Decimal(value.numerator) / Decimal(value.denominator)
        return f"{found:.{max(0, 9 - found.adjusted())}f}" if context.flags[Inexact] else f"{found.normalize():f}"


def _weekday(day: str) -> str:
    return f"{date.fromisoformat(day):%A}"


def _later(start: str, days: str) -> str:
    return (date.fromisoformat(start) + timedelta(days=int(days))).isoformat()


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[..., str]], ...] = tuple(
    (re.compile(pattern), work_out)
    for pattern, work_out in (
        (rf"{_FREE}({_NUMBER}(?: {_SIGN} {_NUMBER}){{1,12}}) = ?$", _sum),
        (rf"{_FREE}({_NUMBER})(?: percent|%) of ({_NUMBER}) (?:is|=) ?$", _percentage),
        (rf"(?<![\w-]){_DATE} is a ?$", _weekday),
        (rf"From {_DATE}: (?:[^.:]*[,=] )?([0-9]{{1,5}}) days to ?$", _later),
    )
)

"""What a text asks for is worked out, and nothing else is taken for a question."""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.agent.engine.sums import result


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("27 x 50 =", " 1350"),
        ("27 x 50 = ", "1350"),
        ("so 520 / 13 =", " 40"),
        ("1000 + 350 - 3 x 2 =", " 1344"),
        ("27 x 5 = 100 + 35 =", " 135"),
        ("923 - 1170 =", " -247"),
        ("3 - -4 =", " 7"),
        ("7 / 2 =", " 3.5"),
        ("20 / 3 =", " 6.666666667"),
        ("0.1 + 0.2 =", " 0.3"),
        ("-8 / 2 x 3 =", " -12"),
        ("27 × 50 + 3 =", " 1353"),
        ("10 ÷ 4 =", " 2.5"),
        ("123456789.25 + 0.50 =", " 123456789.75"),
        ("123456789012 + 0.5 =", " 123456789012.5"),
        ("1 / 100000000 =", " 0.00000001"),
        ("0 - 1 / 8 =", " -0.125"),
        ("200000000000 / 3 =", " 66666666667"),
        ("27 x 50 = 1350, 1350 + 135 =", " 1485"),
        ("so (27 x 50 =", " 1350"),
        ("10 percent of 480 is", " 48"),
        ("15% of 3540 =", " 531"),
        ("2026-05-12 is a", " Tuesday"),
        ("From 2026-01-03: 111 days to", " 2026-04-24"),
        ("From 2026-01-03: 28 days to 2026-01-31, 28 + 2 = 30 days to", " 2026-02-02"),
    ],
)
def test_what_is_asked_for_is_worked_out(text: str, wanted: str) -> None:
    assert result(text) == wanted
    assert result(f"Well, {text}") == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "27 x 50",
        "27 x 50 = 1",
        "x = 1350, so y =",
        "1350 =",
        "a2 + 3 =",
        "1,234 + 5 =",
        "v1.2 + 3 =",
        "12:30 + 5 =",
        "2 + 3=",
        "2 ^ 3 + 1 =",
        "2 * 3 ** 2 + 1 =",
        "10% x 5 + 3 =",
        "1 234 + 5 =",
        "10 minus 3 + 2 =",
        "10 divided by 3 + 2 =",
        "10 – 3 + 2 =",
        "$5 + 6 =",
        "2026-05-12 is an",
        "1 / 0 =",
        "1 " + "+ 1 " * 13 + "=",
        "2026-05-12 - 3 =",
        "2026-13-31 is a",
        "2026-05-12 is",
        "From 2026-05-12: 5 days. And 7 days to",
        "From 9999-12-31: 5 days to",
    ],
)
def test_nothing_else_is(text: str) -> None:
    assert result(text) == ""


NUMBERS = st.integers(-(10**6), 10**6)


@given(NUMBERS, st.lists(st.tuples(st.sampled_from("+-x/"), NUMBERS), min_size=1, max_size=8))
def test_sums_are_right(first: int, more: list[tuple[str, int]]) -> None:
    text = " ".join([str(first), *(f"{sign} {number}" for sign, number in more)])
    try:
        right = _right(first, more)
    except ZeroDivisionError:
        assert result(f"{text} =") == ""
        return
    found, rest = Fraction(result(f"{text} =")), right.denominator
    while rest % 10 in (0, 2, 4, 5, 6, 8) and rest > 1:
        rest //= 2 if rest % 2 == 0 else 5
    ends = rest == 1 and right.denominator < 2**30
    assert found == right if ends else abs(found - right) <= abs(right) / 10**9


def _right(first: int, more: list[tuple[str, int]]) -> Fraction:
    """Python's own reading of the sum, on fractions."""
    names = {f"n{place}": Fraction(number) for place, number in enumerate([first, *(number for _, number in more)])}
    signs = ["", *(sign.replace("x", "*") for sign, _ in more)]
    value = eval(" ".join(f"{sign} {name}" for sign, name in zip(signs, names, strict=True)), {}, names)
    return Fraction(value)


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.integers(0, 99999))
def test_dates_are_right(start: date, days: int) -> None:
    later = (start + timedelta(days=days)).isoformat()
    assert result(f"From {start}: {days} days to") == f" {later}"
    assert result(f"{later} is a") == f" {start + timedelta(days=days):%A}"


@given(st.text(st.sampled_from("0123456789 +-x/=.isaFrom:days to"), max_size=60))
def test_any_text_is_read(text: str) -> None:
    result(text)

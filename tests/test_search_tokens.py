"""Terms of texts in several scripts and spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.search.tokens import MAX_CHARACTERS, compounds, parts, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserByID", ["get", "user", "by", "id"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("convert_to_mp3", ["convert", "to", "mp3"]),
        ("S3 bucket, EC2 and IPv4", ["s3", "bucket", "ec2", "and", "ipv4"]),
        ("order12345", ["order", "12345"]),
        ("/users/{userId}/e-mails", ["users", "user", "id", "emails"]),
        ("Café Ångström", ["cafe", "angstrom"]),
        ("GRÖẞE", ["grosse"]),
        ("ｆｕｌｌ ｗｉｄｔｈ", ["full", "width"]),
        ("東京の天気", ["東京", "京の", "の天", "天気"]),
        ("서울", ["서울"]),
        ("", []),
        ("?!… 🎉 \ud800", []),
    ],
)
def test_words_are_taken_apart(text: str, expected: list[str]) -> None:
    assert parts(text) == expected


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("conversions of currencies", "converting a currency"),
        ("NAÏVE résumés", "naive resume"),
        ("погода в городах", "погоду города"),
        ("ΚΑΙΡΟΣ", "καιρός"),
        ("الطَّقْس", "الطقس"),
    ],
)
def test_forms_of_a_word_meet(said: str, written: str) -> None:
    assert set(tokens(said)) & set(tokens(written))


def test_stop_words_and_single_digits_carry_nothing() -> None:
    assert tokens("please could you do this for me 1 2") == []
    assert tokens("Route 53") == ["rout", "53"]


def test_names_of_two_parts_also_count_as_one() -> None:
    assert compounds("PayPal and YouTube but not Paypal or GetUserByName") == ["paypal", "youtube"]


def test_text_beyond_the_limit_is_not_read() -> None:
    assert tokens("a" + " " * MAX_CHARACTERS + "weather") == []


@given(st.text())
def test_any_text_gives_terms_without_spaces(text: str) -> None:
    found = tokens(text) + compounds(text)
    assert all(term and not any(char.isspace() for char in term) for term in found)
    "".join(found).encode()

"""Plausible values by kind: people, places, texts, dates. Made once per process, the same in every process.

Place in the flow: layer 3, under `values`, which decides what kind a field is and picks by a number. Faker supplies
the values; each pool has its own seed, so pools do not depend on which others were made. Limits: English; a new
version of Faker may change the values and with them the answers of the world.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from paraagent.env.ids import digest, mix

if TYPE_CHECKING:
    from faker import Faker

SIZE = 64
_START = datetime(2024, 1, 1, tzinfo=UTC)
_DAYS = 730

_FROM_FAKER = {
    "email": "safe_email",
    "phone": "basic_phone_number",
    "city": "city",
    "country": "country",
    "country_code": "country_code",
    "state": "state",
    "street": "street_address",
    "address": "street_address",
    "zip": "postcode",
    "first_name": "first_name",
    "last_name": "last_name",
    "person": "name",
    "username": "user_name",
    "company": "company",
    "job": "job",
    "word": "word",
    "ipv4": "ipv4_public",
    "ipv6": "ipv6",
    "mac": "mac_address",
    "user_agent": "user_agent",
    "locale": "locale",
    "language": "language_code",
    "timezone": "timezone",
    "color": "safe_color_name",
    "hex_color": "hex_color",
    "mime": "mime_type",
    "file": "file_name",
    "path": "file_path",
    "domain": "domain_name",
    "sha": "sha1",
    "md5": "md5",
    "uuid": "uuid4",
    "iban": "iban",
    "isbn": "isbn13",
    "currency": "currency_code",
    "plate": "license_plate",
    "time": "time",
    "ean": "ean13",
}
_DATES = {"moment": "%Y-%m-%dT%H:%M:%SZ", "date": "%Y-%m-%d"}
_WORDS = {
    "status": "active pending completed open closed paused draft scheduled ready archived",
    "gender": "female male",
    "kind": "standard basic premium custom internal external primary secondary",
    "version": "1.0.0 1.2.0 1.4.2 2.0.1 2.3.0 3.1.4",
    "unit": "piece box kg hour day item",
    "duration": "PT15M PT30M PT1H PT2H P1D P7D",
    "size": "small medium large",
    "bytes": "aGVsbG8= d29ybGQ= c2FtcGxl ZGF0YQ== dGV4dA== dmFsdWU=",
}


@cache
def pool(kind: str) -> tuple[str, ...]:
    """Return the values of a kind; an unknown kind has words."""
    if kind in _WORDS:
        return tuple(_WORDS[kind].split())
    if kind in _DATES:
        return tuple(dict.fromkeys(moment.strftime(_DATES[kind]) for moment in _moments()))
    fake = _faker(kind)
    make = _composed(kind, fake) or getattr(fake, _FROM_FAKER.get(kind, "word"))
    return tuple(dict.fromkeys(str(make()) for _ in range(SIZE)))


@cache
def timestamps(scale: int) -> tuple[int, ...]:
    """Return the times of the kind `moment` as seconds (1) or milliseconds (1000) since 1970."""
    return tuple(int(moment.timestamp()) * scale for moment in _moments())


def _moments() -> list[datetime]:
    """Return times of two years, at whole minutes."""
    step = timedelta(days=_DAYS) / (4 * SIZE)
    times = (_START + index * step + timedelta(minutes=mix(index, 1) % 900) for index in range(4 * SIZE))
    return [time.replace(second=0, microsecond=0) for time in times]


def _faker(kind: str) -> Faker:
    from faker import Faker

    fake = Faker("en_US")
    fake.seed_instance(digest("pool", kind))
    return fake


def _composed(kind: str, fake: Faker) -> Callable[[], str] | None:
    """Return the maker of a kind that Faker has no word for."""
    if kind == "name":
        return lambda: f"{fake.safe_color_name()} {fake.word()}".title()
    if kind == "title":
        return lambda: fake.sentence(nb_words=4).rstrip(".")
    if kind == "sentence":
        return lambda: fake.sentence(nb_words=9)
    if kind == "url":
        return lambda: f"https://{fake.domain_word()}.example.com/{fake.word()}"
    if kind == "image":
        return lambda: f"https://images.example.com/{fake.word()}-{fake.random_int(10, 99)}.png"
    if kind == "token":
        return lambda: fake.hexify("^" * 24)
    return None

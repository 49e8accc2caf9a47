"""Values that a person can state in a request, for a tool's parameters.

Place in the flow: layer 3; `tasks` fills the literal arguments of gold calls with these. What a value looks like
follows from enum, format, the parameter's name, its example, and last its type. Limits: scalars and short lists of
scalars; anything else (objects, files, patterns that nothing here meets) has no literal and its tool is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import jsonschema_rs
from faker import Faker

from paraagent.catalog.names import noun, words
from paraagent.env import patterns
from paraagent.types import JsonObject, JsonValue

_UNSTATABLE = frozenset(
    {
        "token",
        "password",
        "secret",
        "signature",
        "authorization",
        "auth",
        "apikey",
        "nonce",
        "cursor",
        "base64",
        "hash",
    }
    | {
        "credential",
        "cookie",
        "session",
        "checksum",
        "etag",
        "callback",
        "xml",
        "json",
        "html",
        "sql",
        "hmac",
        "csrf",
    }
    | {"certificate", "pem", "binary", "bytes", "file", "image", "script", "jwt", "policy", "template", "yaml"}
)
_TOPICS = tuple(
    " ".join(
        """
    solar panels; coffee beans; city parks; jazz guitar; winter boots; electric bikes; garden tools; board
    games; night trains; olive oil; rock climbing; home office; tea sets; wooden desks; trail running; lake
    houses; used books; green energy; street food; wool blankets
    """.split()
    ).split("; ")
)
_NAMES = tuple(
    " ".join(
        """
    Blue Harbor; North Ridge; Maple Court; Silver Pine; Red Canyon; Amber Field; Quiet River; Stone Bridge;
    Green Valley; Copper Hill; Bright Meadow; Iron Gate; Lakeside; Old Mill; Sunrise; West Pier; Clear Creek;
    Golden Gate; High Peak; Summer Lane
    """.split()
    ).split("; ")
)
_NOTES = tuple(
    " ".join(
        """
    Please handle this before Friday; Requested by the finance team; Follow up with the customer next week;
    Updated after the quarterly review; Needs a second look by support; Agreed on the phone this morning
    """.split()
    ).split("; ")
)


_UNSAYABLE = re.compile(r"[<>{}\[\]\\$\"`|\n\r\t]|^string$|your[-_ ]|xxx|lorem", re.IGNORECASE)
_CALENDAR = {"month": 13, "day": 29, "hour": 24, "week": 53, "quarter": 5}
_PAGING = {"offset": 0, "skip": 0, "page": 1, "limit": 20, "size": 20, "count": 20, "top": 20, "take": 20}


class Literals:
    """Draws values; one instance serves one sampler, `seed` starts a new reproducible sequence."""

    def __init__(self) -> None:
        self._fake = Faker("en_US")
        self._random = Random(0)

    def seed(self, seed: int) -> None:
        """Make what follows depend on `seed` alone."""
        self._random = Random(seed)
        self._fake.seed_instance(seed)

    def identifier(self, schema: JsonObject, thing: tuple[str, ...]) -> JsonValue:
        """Return an id of a thing as services make them, `cus_8f31` or a number, or None if the schema forbids it."""
        rng = self._random
        if schema.get("type") == "integer":
            return self._checked(schema, rng.randrange(1_000, 99_999))
        if schema.get("format") in ("uuid", "guid"):
            return self._fake.uuid4()
        short = "".join(thing)[:3] or "ref"
        forms = [
            f"{short}_{rng.randrange(16**6):06x}",
            f"{rng.randrange(10_000, 99_999)}",
            f"{short}{rng.randrange(1000)}",
            f"{short.upper()}-{rng.randrange(1000, 9999)}",
            str(self._fake.uuid4()),
            f"{rng.randrange(16**8):08x}",
        ]
        if isinstance(schema.get("pattern"), str):
            made = patterns.text(str(schema["pattern"]), rng.getrandbits(32))
            forms += [made] if made is not None and _sayable(made) else []
        return next((form for form in forms if self._checked(schema, form) is not None), None)

    def value(self, name: str, schema: JsonObject) -> JsonValue:
        """Return a value for the parameter `name`, or None if there is none that a person could state."""
        if not _UNSTATABLE.isdisjoint(words(name)):
            return None
        choices = schema.get("enum")
        if isinstance(choices, list):
            fit = [choice for choice in choices if isinstance(choice, (str, int, float)) and _sayable(choice)]
            return self._random.choice(fit) if fit else None
        if schema.get("type") == "array":
            items = schema.get("items")
            item = self.value(name, items) if isinstance(items, dict) and items.get("type") != "array" else None
            return None if item is None else self._checked(schema, [item])
        found = self._scalar(noun(name), schema)
        return self._checked(schema, found)

    def _scalar(self, parts: tuple[str, ...], schema: JsonObject) -> JsonValue:
        kind = schema.get("type")
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind in ("integer", "number"):
            return self._number(parts, schema, whole=kind == "integer")
        if kind != "string":
            return None
        return self._formatted(str(schema.get("format", "")), parts) or self._text(parts) or self._example(schema)

    def _number(self, parts: tuple[str, ...], schema: JsonObject, *, whole: bool) -> JsonValue:
        rng, last = self._random, parts[-1] if parts else ""
        if last in ("lat", "latitude"):
            return round(rng.uniform(-60, 70), 4)
        if last in ("lng", "lon", "long", "longitude"):
            return round(rng.uniform(-170, 170), 4)
        if last == "year" and whole:
            return rng.randrange(2018, 2026)
        if last in _CALENDAR and whole:
            return rng.randrange(1, _CALENDAR[last])
        if last in _PAGING:
            return self._checked(schema, _PAGING[last])
        low, high = _bounds(schema)
        value = rng.randrange(low, high + 1)
        if whole or rng.random() < 0.4:
            return value
        return round(min(value + rng.randrange(1, 100) / 100, high), 2)

    def _formatted(self, form: str, parts: tuple[str, ...]) -> str | None:
        last = parts[-1] if parts else ""
        if form == "date-time":
            return (
                self._date() + f"T{self._random.randrange(7, 20):02d}:{self._random.choice((0, 15, 30, 45)):02d}:00Z"
            )
        if form == "date":
            return self._date()
        if form in ("uuid", "guid"):
            return str(self._fake.uuid4())
        if form in ("uri", "url") or last in ("url", "uri", "website", "homepage"):
            return f"https://{self._random.choice(_NAMES).lower().replace(' ', '-')}.example.com"
        maker = self._maker(last if form in ("", "string") else form, parts)
        return str(maker()) if maker else None

    def _maker(self, last: str, parts: tuple[str, ...]) -> Callable[[], object] | None:
        fake, rng = self._fake, self._random
        makers: dict[str, Callable[[], object]] = {
            "email": lambda: f"{fake.first_name().lower()}.{fake.last_name().lower()}@example.com",
            "phone": lambda: f"+1202555{rng.randrange(100, 9999):04d}",
            "telephone": lambda: f"+1202555{rng.randrange(100, 9999):04d}",
            "mobile": lambda: f"+1202555{rng.randrange(100, 9999):04d}",
            "city": fake.city,
            "country": lambda: rng.choice(("US", "DE", "FR", "GB", "JP", "BR", "CA", "IN")),
            "currency": lambda: rng.choice(("USD", "EUR", "GBP", "JPY", "CHF")),
            "language": lambda: rng.choice(("en", "de", "fr", "es", "it")),
            "lang": lambda: rng.choice(("en", "de", "fr", "es", "it")),
            "locale": lambda: rng.choice(("en-US", "de-DE", "fr-FR", "es-ES")),
            "timezone": lambda: rng.choice(("Europe/Berlin", "America/New_York", "Asia/Tokyo")),
            "domain": lambda: rng.choice(_NAMES).lower().replace(" ", "-") + ".example",
            "hostname": lambda: rng.choice(_NAMES).lower().replace(" ", "-") + ".example",
            "ip": fake.ipv4_public,
            "ipv4": fake.ipv4_public,
            "postcode": fake.postcode,
            "zip": fake.postcode,
            "zipcode": fake.postcode,
            "username": lambda: f"{fake.first_name().lower()}{rng.randrange(10, 99)}",
            "company": fake.company,
            "street": fake.street_address,
            "address": fake.street_address,
            "firstname": fake.first_name,
            "lastname": fake.last_name,
            "surname": fake.last_name,
            "date": self._date,
            "year": lambda: str(rng.randrange(2018, 2026)),
        }
        joined = "".join(parts[-2:])
        pairs = {
            "phonenumber": "phone",
            "countrycode": "country",
            "currencycode": "currency",
            "postalcode": "postcode",
        }
        pairs |= {"languagecode": "language", "timezone": "timezone", "ipaddress": "ip", "emailaddress": "email"}
        pairs |= {"firstname": "firstname", "lastname": "lastname", "username": "username", "companyname": "company"}
        pairs |= {"cityname": "city", "startdate": "date", "enddate": "date", "domainname": "domain"}
        return makers.get(pairs.get(joined, last))

    def _text(self, parts: tuple[str, ...]) -> str | None:
        """Return text for a name that calls for free words; None where any value would be nonsense."""
        last = parts[-1] if parts else ""
        if last in ("q", "query", "search", "term", "keyword", "phrase", "topic", "subject", "tag"):
            return self._random.choice(_TOPICS)
        if last in (
            "description",
            "note",
            "comment",
            "message",
            "reason",
            "text",
            "body",
            "content",
            "summary",
            "memo",
        ):
            return self._random.choice(_NOTES)
        if last in ("name", "title", "label", "caption", "headline", "nickname", "alias"):
            return self._random.choice(_NAMES)
        return None

    def _example(self, schema: JsonObject) -> str | None:
        examples = schema.get("examples")
        first = (
            examples[0] if isinstance(examples, list) and examples else schema.get("example", schema.get("default"))
        )
        return first if isinstance(first, str) and _sayable(first) else None

    def _date(self) -> str:
        rng = self._random
        return f"{rng.choice((2025, 2026))}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"

    def _checked(self, schema: JsonObject, value: JsonValue) -> JsonValue:
        """Return the value if the schema allows it, else None."""
        if value in (None, ""):
            return None
        try:
            return value if jsonschema_rs.is_valid(schema, value) else None
        except (ValueError, jsonschema_rs.ValidationError):
            return None


def _sayable(value: str | int | float) -> bool:
    """Tell whether a person would write this value in a request: short, one line, printable ASCII, no markup."""
    text = str(value)
    return 1 < len(text) <= 40 and text.isascii() and _UNSAYABLE.search(text) is None


def _bounds(schema: JsonObject) -> tuple[int, int]:
    low, high = schema.get("minimum", 2), schema.get("maximum", 60)
    bottom = int(low) if isinstance(low, (int, float)) and abs(low) < 1e9 else 2
    top = int(high) if isinstance(high, (int, float)) and abs(high) < 1e9 else bottom + 58
    bottom = max(bottom, min(2, top)) if bottom < 2 else bottom
    return bottom, max(bottom, min(top, bottom + 60))

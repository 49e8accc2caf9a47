"""Scalar values for a field: what kind it is follows from its schema and name, which value from a number.

Place in the flow: layer 3, under `respond`, which compiles a whole answer from these. `scalar` looks at a field once
and returns a function; calling that is an index into a pool or a little arithmetic. Order of evidence: enum, format,
pattern, the field's name, its example, its type. Limits: bounds, lengths and patterns are met where a value can be
found; a field for which none can is None, and `respond` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from paraagent.catalog.names import noun
from paraagent.env import patterns
from paraagent.env.pools import moments, pool
from paraagent.env.schemas import fits
from paraagent.types import JsonObject, JsonValue

Pick = Callable[[int], JsonValue]
"""Chooses the value that 64 bits stand for."""

_SHIFT = 30
_TRUE_WORDS = frozenset({"success", "successful", "ok", "acknowledged", "succeeded", "enabled", "active", "valid"})
_FALSE_WORDS = frozenset(
    {"more", "deleted", "error", "truncated", "failed", "next", "has_more", "archived", "removed"}
)
_PEOPLE = frozenset(
    {"user", "customer", "person", "contact", "employee", "member", "author", "owner", "patient", "artist", "player"}
    | {"sender", "recipient", "creator", "driver", "guest", "student", "teacher", "agent", "candidate", "account"}
)

_BY_FORMAT = {
    "email": "email", "idn-email": "email", "uri": "url", "url": "url", "uri-reference": "url", "iri": "url",
    "hostname": "domain", "ipv4": "ipv4", "ip": "ipv4", "ipv6": "ipv6", "uuid": "uuid", "guid": "uuid", "time": "time",
    "duration": "duration", "byte": "bytes", "binary": "bytes", "password": "token", "phone": "phone", "mac": "mac",
    "color": "hex_color", "currency": "currency", "country": "country_code",
}  # fmt: skip
_BY_WORD = {
    "email": "email", "mail": "email", "phone": "phone", "mobile": "phone", "telephone": "phone", "fax": "phone",
    "url": "url", "uri": "url", "link": "url", "href": "url", "website": "url", "homepage": "url", "webhook": "url",
    "city": "city", "town": "city", "country": "country", "state": "status", "province": "state", "street": "street",
    "address": "address", "zip": "zip", "zipcode": "zip", "postcode": "zip", "username": "username", "login": "username",
    "firstname": "first_name", "lastname": "last_name", "surname": "last_name", "company": "company", "job": "job",
    "organization": "company", "organisation": "company", "title": "title", "subject": "title", "headline": "title",
    "description": "sentence", "summary": "sentence", "text": "sentence", "body": "sentence", "content": "sentence",
    "comment": "sentence", "message": "sentence", "note": "sentence", "reason": "sentence", "detail": "sentence",
    "currency": "currency", "ip": "ipv4", "mac": "mac", "agent": "user_agent", "locale": "locale", "language": "language",
    "lang": "language", "timezone": "timezone", "color": "color", "colour": "color", "mime": "mime", "filename": "file",
    "file": "file", "path": "path", "domain": "domain", "hostname": "domain", "host": "domain", "sha": "sha",
    "hash": "sha", "etag": "md5", "md5": "md5", "checksum": "sha", "fingerprint": "sha", "token": "token",
    "secret": "token", "iban": "iban", "isbn": "isbn", "status": "status", "gender": "gender", "sex": "gender",
    "type": "kind", "kind": "kind", "category": "kind", "version": "version", "revision": "version", "unit": "unit",
    "image": "image", "avatar": "image", "picture": "image", "photo": "image", "thumbnail": "image", "icon": "image",
    "logo": "image", "duration": "duration", "size": "size", "name": "name", "label": "name", "uuid": "uuid",
    "guid": "uuid", "ean": "ean", "barcode": "ean", "author": "person", "artist": "person", "time": "moment",
    "date": "date", "timestamp": "moment", "at": "moment", "on": "date", "expires": "moment", "expiry": "moment",
    "created": "moment", "updated": "moment", "modified": "moment", "day": "date", "key": "token", "slug": "word",
}  # fmt: skip
_BY_PAIR = {
    "first name": "first_name", "given name": "first_name", "last name": "last_name", "family name": "last_name",
    "full name": "person", "display name": "name", "user name": "username", "company name": "company",
    "country code": "country_code", "postal code": "zip", "zip code": "zip", "currency code": "currency",
    "language code": "language", "time zone": "timezone", "user agent": "user_agent", "file name": "file",
    "content type": "mime", "media type": "mime", "mime type": "mime", "ip address": "ipv4", "mac address": "mac",
    "phone number": "phone", "email address": "email", "address line": "street", "domain name": "domain",
    "host name": "domain", "job title": "job", "home page": "url", "file path": "path", "city name": "city",
}  # fmt: skip
_RANGES: dict[str, tuple[float, float]] = {
    "lat": (-60, 70), "latitude": (-60, 70), "lng": (-170, 170), "lon": (-170, 170), "longitude": (-170, 170),
    "price": (5, 500), "amount": (5, 2000), "total": (5, 2000), "cost": (5, 900), "balance": (0, 9000), "fee": (1, 50),
    "percent": (0, 100), "percentage": (0, 100), "rate": (0, 20), "ratio": (0, 1), "probability": (0, 1),
    "confidence": (0, 1), "score": (0, 100), "rating": (1, 5), "age": (18, 80), "year": (2018, 2026), "month": (1, 12),
    "day": (1, 28), "hour": (0, 23), "minute": (0, 59), "page": (1, 1), "version": (1, 9), "temperature": (-5, 35),
    "humidity": (20, 95), "width": (100, 2000), "height": (100, 2000), "port": (1024, 9000), "quantity": (1, 40),
    "size": (1, 5000), "length": (1, 5000), "duration": (1, 3600), "code": (100, 999),
}  # fmt: skip
_MOMENT_WORDS = frozenset({"at", "time", "timestamp", "date", "created", "updated", "modified", "expires", "on"})


def scalar(name: str, schema: JsonObject, kind: str, owner: tuple[str, ...]) -> Pick | None:
    """Return how to choose values for a field, or None if none that its schema allows can be found.

    Args:
        name: the field's name; its words say what the value is about.
        kind: its JSON type: string, integer, number, boolean or null.
        owner: the noun of the object that the field belongs to.
    """
    if "const" in schema or "enum" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return _choice(choices) if isinstance(choices, list) and choices else None
    if kind == "boolean":
        return _boolean(noun(name))
    if kind in ("integer", "number"):
        return _number(noun(name), schema, whole=kind == "integer")
    return _text(noun(name), schema, owner) if kind == "string" else lambda key: None


def _choice(values: list[JsonValue]) -> Pick:
    """Return a pick from a fixed list; null only if there is nothing else."""
    fixed = tuple(value for value in values if value is not None) or (None,)
    size = len(fixed)
    return lambda key: fixed[(key >> _SHIFT) % size]


def _boolean(parts: tuple[str, ...]) -> Pick:
    if not _FALSE_WORDS.isdisjoint(parts):
        return lambda key: False
    if not _TRUE_WORDS.isdisjoint(parts[-1:]):
        return lambda key: True
    return lambda key: bool(key >> _SHIFT & 1)


def _number(parts: tuple[str, ...], schema: JsonObject, *, whole: bool) -> Pick | None:
    last = parts[-1] if parts else ""
    if whole and last in _MOMENT_WORDS and "maximum" not in schema:
        scale = 1000 if schema.get("format") == "int64" and last != "date" else 1
        return _choice([int(moment.timestamp()) * scale for moment in moments()])
    low, high = _bounds(schema, *_RANGES.get(last, (1, 60) if whole else (1, 200)), whole=whole)
    if low > high:
        return None
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and step > 0:
        return _multiples(low, high, step, whole=whole)
    if whole:
        first, count = int(low), int(high) - int(low) + 1
        return lambda key: first + (key >> 20) % count
    span = high - low
    places = 2 if span > 5 else 4
    return lambda key: min(max(round(low + span * (key >> 44) / 1048576, places), low), high)


def _bounds(schema: JsonObject, low: float, high: float, *, whole: bool) -> tuple[float, float]:
    """Return the range to draw from: the usual one of the name, moved into the one that the schema allows."""
    tiny = 1.0 if whole else 0.001
    least, most = (
        _bound(schema, "minimum", "exclusiveMinimum", tiny),
        _bound(schema, "maximum", "exclusiveMaximum", -tiny),
    )
    span = high - low
    if least is not None and low < least:
        low, high = least, max(high, least + span)
    if most is not None and high > most:
        low, high = max(min(low, most - span), most - span if least is None else least), most
    if whole:
        return -(-low // 1), high // 1
    return low, high


def _bound(schema: JsonObject, inclusive: str, exclusive: str, tiny: float) -> float | None:
    limit, open_limit = schema.get(inclusive), schema.get(exclusive)
    found = [limit] if isinstance(limit, int | float) else []
    if isinstance(open_limit, int | float) and not isinstance(open_limit, bool):
        found.append(open_limit + tiny)
    return None if not found else max(found) if tiny > 0 else min(found)


def _multiples(low: float, high: float, step: float, *, whole: bool) -> Pick | None:
    first, last = -(-low // step), high // step
    if first > last:
        return None
    count = min(int(last - first) + 1, 1000)
    if whole or float(step).is_integer():
        return lambda key: int((first + (key >> 20) % count) * step)
    return lambda key: round((first + (key >> 20) % count) * step, 6)


def _text(parts: tuple[str, ...], schema: JsonObject, owner: tuple[str, ...]) -> Pick | None:
    allowed = fits(schema)
    found = _texts(parts, schema, owner)
    for texts in (found, patterns.texts(schema), _examples(schema), _stretched(found, schema)):
        fitting = [text for text in dict.fromkeys(texts) if allowed(text)]
        if fitting:
            return _choice(cast(list[JsonValue], fitting))
    return None


def _texts(parts: tuple[str, ...], schema: JsonObject, owner: tuple[str, ...]) -> list[str]:
    form = str(schema.get("format", "")).lower()
    kind = {"date-time": "moment", "datetime": "moment", "date": "date"}.get(form) or _BY_FORMAT.get(form)
    kind = kind or _kind(parts, owner)
    if kind == "moment":
        return [moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in moments()]
    if kind == "date":
        return [moment.strftime("%Y-%m-%d") for moment in moments()]
    if kind is None and (given := _examples(schema)):
        return given
    return list(pool(kind or "word"))


def _kind(parts: tuple[str, ...], owner: tuple[str, ...]) -> str | None:
    """Return the kind of text that a name speaks of."""
    last = parts[-1] if parts else ""
    if last == "name" and len(parts) == 1 and owner and owner[-1] in _PEOPLE:
        return "person"
    if last == "name" and len(parts) > 1 and parts[-2] in _PEOPLE - {"user"}:
        return "person"
    return _BY_PAIR.get(" ".join(parts[-2:])) or _BY_WORD.get(last)


def _examples(schema: JsonObject) -> list[str]:
    examples = schema.get("examples")
    given = examples if isinstance(examples, list) else []
    values = [*given, schema.get("example"), schema.get("default")]
    return [value for value in values if isinstance(value, str) and value]


def _stretched(texts: list[str], schema: JsonObject) -> list[str]:
    """Return texts cut or repeated to the schema's length."""
    least, most = schema.get("minLength"), schema.get("maxLength")
    low = least if isinstance(least, int) else 0
    high = most if isinstance(most, int) else max(low, 200)
    return [(text * (low // max(len(text), 1) + 1))[:high].strip().ljust(low, "x") for text in texts[:16]]

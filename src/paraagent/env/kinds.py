"""Which words in a field's name speak of which kind of value: English, as interfaces use it.

Place in the flow: layer 3, tables under `values`; `pools` has the values of each kind.
"""

from __future__ import annotations


def _by_member(groups: dict[str, str]) -> dict[str, str]:
    """Turn kinds and the words for each into words and the kind of each."""
    return {word: kind for kind, members in groups.items() for word in members.split()}


TRUE_WORDS = frozenset({"success", "successful", "ok", "acknowledged", "succeeded", "enabled", "active", "valid"})
FALSE_WORDS = frozenset(
    {"more", "deleted", "error", "truncated", "failed", "next", "has_more", "archived", "removed"}
)
_PEOPLE = frozenset(
    {"user", "customer", "person", "contact", "employee", "member", "author", "owner", "patient", "artist", "player"}
    | {"sender", "recipient", "creator", "driver", "guest", "student", "teacher", "agent", "candidate", "account"}
)

BY_FORMAT = _by_member(
    {
        "email": "email idn-email",
        "url": "uri url uri-reference iri",
        "domain": "hostname",
        "ipv4": "ipv4 ip",
        "ipv6": "ipv6",
        "uuid": "uuid guid",
        "time": "time",
        "moment": "date-time datetime",
        "date": "date",
        "duration": "duration",
        "bytes": "byte binary",
        "token": "password",
        "phone": "phone",
        "mac": "mac",
        "hex_color": "color",
        "currency": "currency",
        "country_code": "country",
    }
)
_BY_WORD = _by_member(
    {
        "email": "email mail",
        "phone": "phone mobile telephone fax",
        "url": "url uri link href website homepage webhook",
        "city": "city town",
        "country": "country",
        "status": "state status",
        "state": "province",
        "street": "street",
        "address": "address",
        "zip": "zip zipcode postcode",
        "username": "username login",
        "first_name": "firstname",
        "last_name": "lastname surname",
        "company": "company organization organisation",
        "job": "job",
        "title": "title subject headline",
        "sentence": "description summary text body content comment message note reason detail",
        "currency": "currency",
        "ipv4": "ip",
        "mac": "mac",
        "user_agent": "agent",
        "locale": "locale",
        "language": "language lang",
        "timezone": "timezone",
        "color": "color colour",
        "mime": "mime",
        "file": "filename file",
        "path": "path",
        "domain": "domain hostname host",
        "sha": "sha hash checksum fingerprint",
        "md5": "etag md5",
        "token": "token secret key",
        "iban": "iban",
        "isbn": "isbn",
        "gender": "gender sex",
        "kind": "type kind category",
        "version": "version revision",
        "unit": "unit",
        "image": "image avatar picture photo thumbnail icon logo",
        "duration": "duration",
        "size": "size",
        "name": "name label",
        "uuid": "uuid guid",
        "ean": "ean barcode",
        "person": "author artist",
        "moment": "time timestamp at expires expiry created updated modified",
        "date": "date on day",
        "word": "slug",
    }
)
_BY_PAIR = {
    "first name": "first_name", "given name": "first_name", "last name": "last_name", "family name": "last_name",
    "full name": "person", "display name": "name", "user name": "username", "company name": "company",
    "country code": "country_code", "postal code": "zip", "zip code": "zip", "currency code": "currency",
    "language code": "language", "time zone": "timezone", "user agent": "user_agent", "file name": "file",
    "content type": "mime", "media type": "mime", "mime type": "mime", "ip address": "ipv4", "mac address": "mac",
    "phone number": "phone", "email address": "email", "address line": "street", "domain name": "domain",
    "host name": "domain", "job title": "job", "home page": "url", "file path": "path", "city name": "city",
}  # fmt: skip
RANGES: dict[str, tuple[float, float]] = {
    word: limits
    for limits, members in {
        (-60, 70): "lat latitude",
        (-170, 170): "lng lon longitude",
        (5, 500): "price",
        (5, 2000): "amount total",
        (5, 900): "cost",
        (0, 9000): "balance",
        (1, 50): "fee",
        (0, 100): "percent percentage score",
        (0, 20): "rate",
        (0, 1): "ratio probability confidence",
        (1, 5): "rating",
        (18, 80): "age",
        (2018, 2026): "year",
        (1, 12): "month",
        (1, 28): "day",
        (0, 23): "hour",
        (0, 59): "minute",
        (1, 1): "page",
        (1, 9): "version",
        (-5, 35): "temperature",
        (20, 95): "humidity",
        (100, 2000): "width height",
        (1024, 9000): "port",
        (1, 40): "quantity",
        (1, 5000): "size length",
        (1, 3600): "duration",
        (100, 999): "code",
    }.items()
    for word in members.split()
}
MOMENT_WORDS = frozenset({"at", "time", "timestamp", "date", "created", "updated", "modified", "expires", "on"})


def kind_of_text(parts: tuple[str, ...], owner: tuple[str, ...]) -> str | None:
    """Return the kind of text that a name speaks of."""
    last = parts[-1] if parts else ""
    if last == "name" and len(parts) == 1 and owner and owner[-1] in _PEOPLE:
        return "person"
    if last == "name" and len(parts) > 1 and parts[-2] in _PEOPLE - {"user"}:
        return "person"
    return _BY_PAIR.get(" ".join(parts[-2:])) or _BY_WORD.get(last)

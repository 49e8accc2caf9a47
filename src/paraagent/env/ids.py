"""Identifiers that the world recognises as its own without remembering them.

Place in the flow: layer 3, under `respond` and `world`. A thing is a number from 10000 to 99999 in the *space* of its
world, API and noun. Every identifier of it, whatever its form (`cus_483924821`, a UUID, a plain integer), ends in
nine digits: the thing's number and four check digits that only this space gives it. So any answer may mention things,
and a later call may use what it saw, while an invented identifier is refused (one in 10,000 passes by chance).
Limits: things whose identifiers have no room for nine digits cannot be recognised; see `shape`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from itertools import islice

from paraagent.env import patterns
from paraagent.env.schemas import fits
from paraagent.types import JsonObject, JsonValue

MASK = 0xFFFFFFFFFFFFFFFF
ODD = 0x9E3779B97F4A7C15
FIRST, COUNT = 10_000, 70_000
"""Things that are there from the seed."""
MADE, MADE_COUNT = 80_000, 20_000
"""Things that the task or a call put there."""
DIGITS = 9
_CHECKS = 10_000
_SOME = (FIRST * _CHECKS, 483_924_821, 999_999_999)

Shape = Callable[[int], JsonValue]
"""Writes a nine-digit number as an identifier of one form."""

_UUID = "{:08x}-{:04x}-4{:03x}-8{:03x}-{:03x}{:d}"
_PLAIN_FORMATS = frozenset(
    {"", "int32", "int64", "id", "string", "number", "numeric", "arn", "uid", "objectid", "int"}
)


def digest(*parts: str | int) -> int:
    """Return 64 bits that depend on nothing but the parts; equal in every process."""
    return digest_bytes("\x1f".join(map(str, parts)).encode(errors="replace"))


def digest_bytes(text: bytes) -> int:
    """Return 64 bits that depend on nothing but the text."""
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


@lru_cache(maxsize=65536)
def salt(text: str) -> int:
    """Return the constant that sets a name apart in `mix`."""
    return digest(text)


def mix(key: int, by: int) -> int:
    """Return 64 new bits from 64 bits and a constant: xor, multiply, fold."""
    key = (key ^ by) * ODD & MASK
    return key ^ (key >> 29)


def pick(key: int) -> int:
    """Return the seeded thing that 64 bits point to."""
    return FIRST + (key >> 24) % COUNT


class Spaces(dict[int, int]):
    """The spaces of one API's part of a world, by the salt of the noun; made when first asked for."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def __missing__(self, by: int) -> int:
        space = self[by] = mix(self.bits, by)
        return space


def modulus(text: str) -> int:
    """Return an odd number near a billion that sets a name apart: 64 bits modulo it are the name's own 30 bits."""
    return salt(text) >> 35 | 1 << 29 | 1


def number(space: int, thing: int) -> int:
    """Return the nine digits of a thing: itself and its check digits."""
    return thing * _CHECKS + (((space ^ thing) * ODD & MASK) >> 32) % _CHECKS


def recognise(space: int, text: str) -> int | None:
    """Return the thing that an identifier of this space names, or None for anything else."""
    tail = text[-DIGITS:]
    if len(tail) < DIGITS or not (tail.isascii() and tail.isdigit()) or tail[0] == "0":
        return None
    thing = int(tail) // _CHECKS
    return thing if number(space, thing) == int(tail) else None


def shape(schema: JsonObject, noun: str, last: str) -> Shape | None:
    """Return how identifiers of a field look, or None if its schema leaves no room for the digits.

    Args:
        noun: what is identified, as `order`.
        last: the last word of the field's name, as `id`, `arn`, `name`.
    """
    if "enum" in schema or "const" in schema:
        return None
    kinds = schema.get("type", "string")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    allowed = fits(schema)
    forms = _texts(schema, noun, last) if "string" in kinds else [_integer] if "integer" in kinds else []
    return next((form for form in forms if not allowed or all(allowed(form(digits)) for digits in _SOME)), None)


def _integer(digits: int) -> JsonValue:
    return digits


def _uuid(digits: int) -> JsonValue:
    bits = mix(digits, ODD)
    return _UUID.format(bits >> 32, bits >> 16 & 0xFFFF, bits >> 4 & 0xFFF, bits & 0xFFF, bits >> 20 & 0xFFF, digits)


def _texts(schema: JsonObject, noun: str, last: str) -> list[Shape]:
    """Return the forms to try, best first."""
    form = str(schema.get("format", "")).lower()
    if form in ("uuid", "guid") or last in ("uuid", "guid"):
        return [_uuid]
    if last == "uri" or form in ("uri", "url"):
        return [f"https://api.example.com/{noun}s/{{}}".format]
    if form not in _PLAIN_FORMATS:
        return []
    short = f"{noun[:3]}_{{}}"
    first = {
        "arn": f"arn:aws:{noun}:us-east-1:123456789012:{noun}/{{}}",
        "name": f"{noun}-{{}}",
        "slug": f"{noun}-{{}}",
        "number": "{}",
        "no": "{}",
        "code": f"{noun[:3].upper()}{{}}",
    }.get(last, _like_example(schema) or short)
    forms: list[Shape] = [first.format, short.format, f"{noun[:3].upper()}{{}}".format, "{}".format]
    return [*forms, *_patterned(schema)]


def _like_example(schema: JsonObject) -> str | None:
    """Return the form of the schema's example: its leading letters before a separator, or digits only."""
    examples = schema.get("examples")
    example = examples[0] if isinstance(examples, list) and examples else schema.get("example")
    if not isinstance(example, str) or not example.isascii():
        return None
    head = example[: max(example.find("_"), example.find("-")) + 1]
    if example.isdigit():
        return "{}"
    return f"{head}{{}}" if head[:-1].isalpha() and len(head) <= 8 else None


def _patterned(schema: JsonObject) -> list[Shape]:
    """Return forms made after the schema's pattern, with the digits in place of their end."""
    made = [text for text in islice(patterns.texts(schema), 16) if len(text) >= DIGITS]
    return [f"{_escaped(text[:-DIGITS])}{{}}".format for text in made]


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

"""Scalar values for a field: what kind it is follows from its schema and name.

Place in the flow: layer 3, under `shown`, which compiles whole objects from these. `scalar` looks at a field once and
returns the values it may have; which one a thing has is then an index. Order of evidence: enum, format, the field's
name, its pattern, its example, its type. Limits: bounds, lengths and patterns are met where a value can be found; a
field for which none can has no values and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from paraagent.catalog.names import noun
from paraagent.env import patterns
from paraagent.env.ids import MASK, mix
from paraagent.env.kinds import BY_FORMAT, FALSE_WORDS, MOMENT_WORDS, RANGES, TRUE_WORDS, kind_of_text
from paraagent.env.pools import pool, timestamps
from paraagent.env.schemas import fits
from paraagent.types import JsonObject, JsonValue

_KINDS = 256
"""How many values are made for a field with endlessly many."""


def scalar(name: str, schema: JsonObject, kind: str, owner: tuple[str, ...]) -> Sequence[JsonValue]:
    """Return the values to choose from for a field; none if none that its schema allows can be found.

    Args:
        name: the field's name; its words say what the value is about.
        kind: its JSON type: string, integer, number, boolean or null.
        owner: the noun of the object that the field belongs to.
    """
    if "const" in schema or "enum" in schema:
        choices = schema.get("enum", [schema.get("const")])
        given = choices if isinstance(choices, list) else []
        return [value for value in given if value is not None] or given
    if kind == "boolean":
        return _booleans(noun(name))
    if kind in ("integer", "number"):
        return _numbers(noun(name), schema, whole=kind == "integer")
    return _texts(noun(name), schema, owner) if kind == "string" else (None,)


def _booleans(parts: tuple[str, ...]) -> Sequence[bool]:
    if not FALSE_WORDS.isdisjoint(parts):
        return (False,)
    return (True,) if not TRUE_WORDS.isdisjoint(parts[-1:]) else (False, True)


def _numbers(parts: tuple[str, ...], schema: JsonObject, *, whole: bool) -> Sequence[float]:
    last = parts[-1] if parts else ""
    if whole and last in MOMENT_WORDS:
        times, allowed = timestamps(1000 if schema.get("format") == "int64" and last != "date" else 1), fits(schema)
        if allowed is None or all(map(allowed, times)):
            return times
    low, high = _bounds(schema, *RANGES.get(last, (1, 60) if whole else (1, 200)), whole=whole)
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and step > 0:
        first, count = -(-low // step), min(int(high // step - -(-low // step)) + 1, _KINDS)
        numbers = [round((first + index) * step, 6) for index in range(count)]
        return [int(number) for number in numbers] if whole or float(step).is_integer() else numbers
    if whole:
        return range(int(low), int(low) + min(int(high) - int(low) + 1, 1 << 30))
    places = 2 if high - low > 5 else 4
    numbers = [round(low + (high - low) * mix(index, 1) / (MASK + 1), places) for index in range(_KINDS)]
    return [min(max(number, low), high) for number in numbers] if low <= high else ()


def _bounds(schema: JsonObject, low: float, high: float, *, whole: bool) -> tuple[float, float]:
    """Return the range to draw from: the usual one of the name, moved into the one that the schema allows."""
    tiny = 1.0 if whole else 0.001
    least = _bound(schema, "minimum", "exclusiveMinimum", tiny)
    most = _bound(schema, "maximum", "exclusiveMaximum", -tiny)
    span = high - low
    if least is not None and least > low:
        low, high = least, high if high >= least else least + span
    if most is not None and most < high:
        low, high = low if low <= most else most - span if least is None else low, most
    return (-(-low // 1), high // 1) if whole else (low, high)


def _bound(schema: JsonObject, inclusive: str, exclusive: str, tiny: float) -> float | None:
    limit, open_limit = schema.get(inclusive), schema.get(exclusive)
    found = [limit] if isinstance(limit, int | float) and not isinstance(limit, bool) else []
    if isinstance(open_limit, int | float) and not isinstance(open_limit, bool):
        found.append(open_limit + tiny)
    return None if not found else max(found) if tiny > 0 else min(found)


def _texts(parts: tuple[str, ...], schema: JsonObject, owner: tuple[str, ...]) -> Sequence[str]:
    allowed = fits(schema)
    found = _plausible(parts, schema, owner)
    if allowed is None:
        return found
    codes = pool("country_code") if found is pool("country") else ()
    for texts in (found, codes, patterns.texts(schema), _examples(schema), _stretched(found, schema)):
        fitting = [text for text in dict.fromkeys(texts) if allowed(text)]
        if fitting:
            return fitting
    return ()


def _plausible(parts: tuple[str, ...], schema: JsonObject, owner: tuple[str, ...]) -> Sequence[str]:
    kind = BY_FORMAT.get(str(schema.get("format", "")).lower()) or kind_of_text(parts, owner)
    if kind is None and (given := _examples(schema)):
        return given
    return pool(kind or "word")


def _examples(schema: JsonObject) -> list[str]:
    examples = schema.get("examples")
    given = examples if isinstance(examples, list) else []
    values = [*given, schema.get("example"), schema.get("default")]
    return [value for value in values if isinstance(value, str) and value]


def _stretched(texts: Sequence[str], schema: JsonObject) -> list[str]:
    """Return texts cut or repeated to the schema's length."""
    least, most = schema.get("minLength"), schema.get("maxLength")
    low = least if isinstance(least, int) else 0
    high = most if isinstance(most, int) else max(low, 200)
    return [(text * (low // max(len(text), 1) + 1))[:high].strip().ljust(low, "x") for text in texts[:16]]

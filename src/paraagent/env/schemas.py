"""Reads JSON schemas that may hold anything: their properties, their types, one schema out of several.

Place in the flow: layer 3, under everything in `env` that looks at an interface. Pure functions; what is not as it
should be reads as empty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import jsonschema_rs

from paraagent.catalog.names import words
from paraagent.types import JsonObject, JsonValue

_NESTED = 6
_LIMITS = (
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)


def properties(schema: JsonValue) -> dict[str, JsonObject]:
    """Return the property schemas of an object schema; whatever is not a schema object is left out."""
    found = schema.get("properties") if isinstance(schema, dict) else None
    return (
        {name: child for name, child in found.items() if isinstance(child, dict)} if isinstance(found, dict) else {}
    )


def types(schema: JsonObject) -> tuple[str, ...]:
    """Return the JSON types that a schema names."""
    kind = schema.get("type")
    return (kind,) if isinstance(kind, str) else tuple(map(str, kind)) if isinstance(kind, list) else ()


def fits(schema: JsonObject) -> Callable[[JsonValue], bool] | None:
    """Return a test of scalars against the schema's limits, or None if it sets none."""
    limits: JsonObject = {key: schema[key] for key in _LIMITS if key in schema}
    return jsonschema_rs.Draft202012Validator(limits).is_valid if limits else None


def count(schema: JsonObject, least: int, most: int) -> tuple[int, int]:
    """Return how many items an array may hold, within the given bounds where it sets none."""
    low, high = schema.get("minItems"), schema.get("maxItems")
    least = low if isinstance(low, int) else least
    return least, max(least, min(high, most) if isinstance(high, int) else most)


def plain(schema: JsonObject) -> JsonObject:
    """Return a schema without alternatives: the first of them is taken, all of `allOf` are put together."""
    for _ in range(_NESTED):
        options = schema.get("anyOf") or schema.get("oneOf")
        parts = schema.get("allOf")
        if isinstance(options, list) and options and isinstance(options[0], dict):
            schema = {**{k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}, **options[0]}
        elif isinstance(parts, list):
            rest = {key: value for key, value in schema.items() if key != "allOf"}
            schema = _joined([part for part in parts if isinstance(part, dict)], rest)
        else:
            break
    return schema


def _joined(parts: list[JsonObject], rest: JsonObject) -> JsonObject:
    joined: JsonObject = {}
    for part in [*parts, rest]:
        own, more = properties(joined), properties(part)
        needed = [
            *cast(list[JsonValue], joined.get("required", [])),
            *cast(list[JsonValue], part.get("required", [])),
        ]
        joined = {**joined, **part}
        if own or more:
            joined |= {"properties": cast(JsonValue, {**own, **more})}
        if needed:
            joined["required"] = needed
    return joined


def kind_of(schema: JsonObject) -> str:
    """Return the JSON type to make; text where the schema says nothing."""
    kinds = [kind for kind in types(schema) if kind != "null"] or list(types(schema))
    if kinds:
        return kinds[0]
    return "object" if properties(schema) else "array" if "items" in schema else "string"


@lru_cache(maxsize=65536)
def same(name: str) -> str:
    """Return a field's name in the one spelling under which requests and answers are compared."""
    return "".join(words(name))

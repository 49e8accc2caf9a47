"""Which keywords of one raw schema survive, by type: formats, bounds, counts, choices, examples.

Place in the flow: layer 1, under `schema`, which handles structure. Values of the wrong type are dropped, numbers
written as text are read, patterns that do not compile are left out. Nothing here follows references.
"""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs
import orjson

from paraagent.types import JsonObject, JsonValue

CHOICES = 200
"""Most enum values; a longer list is dropped and any value of the type allowed."""
VALUE = 200
"""Longest default, example or pattern, in bytes."""

_TYPES: dict[str, tuple[str, str]] = {
    "string": ("string", ""),
    "integer": ("integer", ""),
    "number": ("number", ""),
    "boolean": ("boolean", ""),
    "object": ("object", ""),
    "array": ("array", ""),
    "null": ("null", ""),
    "file": ("string", "binary"),
    "date": ("string", "date"),
    "date-time": ("string", "date-time"),
    "datetime": ("string", "date-time"),
    "uuid": ("string", "uuid"),
    "text": ("string", ""),
    "str": ("string", ""),
    "int": ("integer", ""),
    "long": ("integer", "int64"),
    "float": ("number", "float"),
    "double": ("number", "double"),
    "decimal": ("number", ""),
    "bool": ("boolean", ""),
    "list": ("array", ""),
}
_COUNTS = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}
_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def items_of(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def kind(raw: JsonObject) -> tuple[str, str, bool]:
    """Return the JSON type ("" if unknown), the format that the type's name implied, and whether null is allowed."""
    declared = raw.get("type")
    names = (
        [name for name in items_of(declared) if isinstance(name, str)] if isinstance(declared, list) else [declared]
    )
    null = raw.get("nullable") is True or "null" in names
    for name in names:
        if isinstance(name, str) and name != "null" and name.lower() in _TYPES:
            return (*_TYPES[name.lower()], null)
    return _guess(raw), "", null


def _guess(raw: JsonObject) -> str:
    if "properties" in raw or isinstance(raw.get("additionalProperties"), dict):
        return "object"
    if "items" in raw:
        return "array"
    values = items_of(raw.get("enum")) or [raw[key] for key in ("const", "example", "default") if key in raw]
    if values and all(isinstance(value, str) for value in values):
        return "string"
    if values and all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return "integer"
    if any(key in raw for key in ("pattern", "minLength", "maxLength", "format")):
        return "string"
    return "number" if "minimum" in raw or "maximum" in raw else ""


def stub(raw: JsonValue) -> JsonObject:
    """Stand in for a schema that is cut off: its type and nothing else."""
    found = kind(raw)[0] if isinstance(raw, dict) else ""
    if isinstance(raw, dict) and not found and "allOf" in raw:
        found = "object"
    return {"type": found, "items": {}} if found == "array" else {"type": found} if found else {}


def nullable(schema: JsonObject) -> JsonObject:
    known = schema.get("type")
    if isinstance(known, str) and known != "null":
        schema = {**schema, "type": [known, "null"]}
        choices = schema.get("enum")
        if isinstance(choices, list) and None not in choices:
            schema["enum"] = [*choices, None]
    return schema


def string_keywords(raw: JsonObject, form: str) -> JsonObject:
    found: JsonObject = {}
    declared = raw.get("format")
    if isinstance(declared, str) and 0 < len(declared) <= 40:
        found["format"] = declared
    elif form:
        found["format"] = form
    pattern = raw.get("pattern")
    if isinstance(pattern, str) and 0 < len(pattern) <= VALUE and _compiles(pattern):
        found["pattern"] = pattern
    return found


@lru_cache(maxsize=8192)
def _compiles(pattern: str) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern})
    except ValueError:
        return False
    return True


def number_keywords(raw: JsonObject, form: str) -> JsonObject:
    found: JsonObject = {}
    declared = raw.get("format")
    if isinstance(declared, str) and 0 < len(declared) <= 40:
        found["format"] = declared
    elif form:
        found["format"] = form
    for key in ("minimum", "maximum"):
        value = _numeric(raw.get(key))
        exclusive = "exclusive" + key.capitalize()
        if value is not None:
            found[exclusive if raw.get(exclusive) is True else key] = value
        bound = _numeric(raw.get(exclusive))
        if bound is not None:
            found[exclusive] = bound
    step = _numeric(raw.get("multipleOf"))
    if step is not None and step > 0:
        found["multipleOf"] = step
    return found


def _numeric(value: JsonValue) -> int | float | None:
    """Read a bound; some sources write numbers as text."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 2**63 else None


def counts(raw: JsonObject, kind: str) -> JsonObject:
    """Keep the bounds on a text's or list's length."""
    if kind not in _COUNTS:
        return {}
    low, high = _COUNTS[kind]
    least, most = (value if isinstance(value := raw.get(key), int) else None for key in (low, high))
    if least is not None and most is not None and least > most:
        return {}
    found: JsonObject = {}
    if least is not None and 0 < least < 2**31:
        found[low] = int(least)
    if most is not None and 0 < most < 2**31:
        found[high] = int(most)
    return found


def values(raw: JsonObject, kind: str) -> JsonObject:
    """Keep the enum, default and examples that fit the type."""
    found: JsonObject = {}
    choices = [raw["const"]] if "const" in raw else items_of(raw.get("enum"))
    fitting: list[JsonValue] = [value for value in choices if value is not None and _fits(value, kind)]
    unique = [value for i, value in enumerate(fitting) if value not in fitting[:i]] if len(fitting) <= CHOICES else []
    if unique:
        found["enum"] = unique
    default = raw.get("default")
    if default is not None and _fits(default, kind) and _small(default) and (not unique or default in unique):
        found["default"] = default
    given = raw.get("examples", raw.get("example"))
    examples = given if isinstance(given, list) and "examples" in raw else [given]
    good: list[JsonValue] = [
        value for value in examples[:3] if value is not None and _fits(value, kind) and _small(value)
    ]
    if good and kind != "object":
        found["examples"] = good
    return found


def _fits(value: JsonValue, kind: str) -> bool:
    if kind == "" or isinstance(value, bool):
        return kind in ("", "boolean") and (kind == "boolean" or not isinstance(value, dict | list))
    return isinstance(value, _PYTHON[kind])


def _small(value: JsonValue) -> bool:
    return len(orjson.dumps(value)) <= VALUE

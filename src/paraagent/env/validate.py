"""Arguments checked against a tool's schema before anything runs, with messages an agent can act on.

Place in the flow: layer 3, used by `interface`. A valid call costs a microsecond; only a wrong one is looked at
closely. The message names the argument, says what it must be and what was sent, and gives an example that would do.
Limits: names that the schema does not list are refused unless it allows any; formats are not enforced.
"""

from __future__ import annotations

import difflib
import json

import jsonschema_rs
import orjson

from paraagent.env.respond import example
from paraagent.env.schemas import properties
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, JsonValue

MAX_BYTES = 100_000
"""Largest arguments, as JSON."""
_SHOWN = 60
_CLOSE = 0.6


class Arguments:
    """The compiled parameters of one tool."""

    def __init__(self, parameters: JsonObject) -> None:
        self._schema = parameters
        self._properties = properties(parameters)
        self._closed = "properties" in parameters and not parameters.get("additionalProperties", False)
        self._known = self._properties.keys()
        self._validator = jsonschema_rs.Draft202012Validator(parameters)

    def check(self, arguments: JsonObject) -> bytes:
        """Return the arguments as canonical JSON.

        Raises:
            ToolFailure: `invalid_args`, with what is wrong and how to mend it.
        """
        text = canonical(arguments)
        if self._closed and not arguments.keys() <= self._known:
            raise ToolFailure(
                "invalid_args", self._unknown(next(name for name in arguments if name not in self._known))
            )
        try:
            if self._validator.is_valid(arguments):
                return text
            error = min(self._validator.iter_errors(arguments), key=lambda error: len(error.instance_path))
        except ValueError as problem:
            raise ToolFailure("invalid_args", f"the arguments are not JSON: {problem}") from None
        raise ToolFailure("invalid_args", self._explain(error))

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._known, n=1, cutoff=_CLOSE)
        hint = f'; did you mean "{close[0]}"?' if close else f"; it takes: {', '.join(self._known) or 'no arguments'}"
        return f'unknown argument "{_short(name)}"{hint}'

    def _explain(self, error: jsonschema_rs.ValidationError) -> str:
        """Say where, what was expected, what was sent, and what would do."""
        path = list(error.instance_path)
        keyword = str(error.schema_path[-1]) if error.schema_path else ""
        if keyword == "required" or error.kind.name == "required":
            path = [*path, str(getattr(error.kind, "property", ""))]
        schema = _at(self._schema, path)
        where = _spelled(path)
        fault = "is missing" if error.kind.name == "required" else f"must be {_expected(error, schema)}"
        sent = "" if error.kind.name == "required" else f", you sent {_short(_json(error.instance))}"
        kind = f": {_types(schema)}" if error.kind.name == "required" and _types(schema) else ""
        return f'"{where}" {fault}{kind}{sent}{self._for_example(path)}'

    def _for_example(self, path: list[str | int]) -> str:
        """Return a corrected argument: the top one that the path runs through."""
        name = str(path[0]) if path else ""
        if name not in self._properties:
            return ""
        value = example(name, self._properties[name])
        text = _json({name: value})
        return f"; for example {text}" if value is not None and len(text) <= 200 else ""


def canonical(arguments: JsonObject) -> bytes:
    """Return arguments as JSON with sorted keys: equal bytes exactly if the arguments are equal.

    Raises:
        ToolFailure: `invalid_args` if they are not JSON, nested too deep, or too large.
    """
    try:
        text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError, RecursionError) as problem:
        raise ToolFailure("invalid_args", f"the arguments are not plain JSON: {str(problem).lower()}") from None
    if len(text) > MAX_BYTES:
        raise ToolFailure("invalid_args", f"the arguments are {len(text):,} bytes; send at most {MAX_BYTES:,}")
    return text


def _at(schema: JsonObject, path: list[str | int]) -> JsonObject:
    """Return the schema of an argument, {} where it cannot be told."""
    found: JsonValue = schema
    for step in path:
        if not isinstance(found, dict):
            return {}
        found = found.get("items") if isinstance(step, int) else properties(found).get(step)
    return found if isinstance(found, dict) else {}


def _spelled(path: list[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return text or "the arguments"


def _expected(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    kind = error.kind
    name = kind.name
    if name == "type":
        return " or ".join(sorted(getattr(kind, "types", ()), key=lambda one: one == "null"))
    if name == "enum":
        choices = schema.get("enum")
        return "one of " + ", ".join(map(_json, choices[:12] if isinstance(choices, list) else []))
    if name in ("anyOf", "oneOf", "oneOfNotValid"):
        return _types(schema) or "of one of the allowed forms"
    limit = getattr(kind, "limit", None)
    words = {
        "minimum": f"at least {limit}", "maximum": f"at most {limit}", "minLength": f"at least {limit} characters",
        "maxLength": f"at most {limit} characters", "minItems": f"a list of at least {limit}",
        "maxItems": f"a list of at most {limit}", "exclusiveMinimum": f"above {limit}",
        "uniqueItems": "free of repeats", "exclusiveMaximum": f"below {limit}",
        "pattern": f"text that matches {getattr(kind, 'pattern', '')}",
        "multipleOf": f"a multiple of {getattr(kind, 'multiple_of', schema.get('multipleOf'))}",
    }  # fmt: skip
    return words.get(name, f"as the schema says ({_short(error.message)})")


def _types(schema: JsonObject) -> str:
    """Return the types that a schema allows, in words."""
    kind = schema.get("type")
    options = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(options, list):
        return " or ".join(dict.fromkeys(_types(option) for option in options if isinstance(option, dict)))
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind or "")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"

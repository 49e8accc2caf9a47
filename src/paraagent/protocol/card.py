"""Tools as an agent reads them: a compact one-line card, or the JSON of function calling.

Place in the flow: layer 2; `observe` shows the hits of a search with these. A card reads

    name(order_id: string, state?: "open"|"done", limit?: integer=10) - What it does -> {id, lines[]{sku, count}}

Parameters keep the order and spelling a call must use; all required ones are shown, optional ones as far as they fit.
Of the result the main fields are shown with one level below them, identifiers first to be kept. Everything in a tool
comes from strangers, so the card is neutralised and stays on one line.
"""

from __future__ import annotations

import json
import re

from paraagent.protocol.jsontext import write_json
from paraagent.protocol.neutralise import neutralise
from paraagent.types import JsonObject, JsonValue, Tool

_DESCRIPTION = 120
_OPTIONAL = 110
"""Characters that the optional parameters of a card may take."""
_FIELDS = 6
_INNER_FIELDS = 5
_CHOICES = 5
_VALUE = 24
_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_SENTENCE = re.compile(r"(.+?[.!?])(?:\s|$)")
_PLAIN_NAME = re.compile(r"[\w$@.:/\[\]-]{1,80}")
_IDENTIFIER = re.compile(r"(?:^|.*[_a-z])(?:id|ids|Id|Ids|ID|arn|Arn|key|Key|name|Name)$|^(?:id|key|name)$")


def card(tool: Tool) -> str:
    """Return the tool on one line."""
    signature = f"{_name(tool.name)}({_parameters(tool.parameters)})"
    return neutralise(f"{signature} - {_one_line(tool.description)} -> {_result(tool.returns)}")


def schema_card(tool: Tool) -> str:
    """Return the tool as one line of function-calling JSON, with the complete schema of its parameters."""
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return write_json({"type": "function", "function": function})


def _parameters(schema: JsonObject) -> str:
    properties, required = _object(schema)
    shown: list[str] = []
    left, hidden = _OPTIONAL, 0
    for name, value in properties.items():
        text = _parameter(name, value, name in required)
        if name in required:
            shown.append(text)
        elif len(text) <= left:
            shown.append(text)
            left -= len(text)
        else:
            hidden += 1
            left = 0
    return ", ".join(shown + [f"+{hidden} optional"] * bool(hidden))


def _parameter(name: str, schema: JsonValue, required: bool) -> str:
    default = schema.get("default") if isinstance(schema, dict) else None
    value = "" if default is None or required else _value(default)
    return f"{_name(name)}{'' if required else '?'}: {_type(schema)}" + (f"={value}" if value else "")


def _type(schema: JsonValue, depth: int = 1) -> str:
    """Return the type of a value in a few characters, objects with the fields they require."""
    if not isinstance(schema, dict):
        return "any"
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and choices:
        return _choices(choices)
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list):
        return "|".join(dict.fromkeys(_type(option, 0) for option in options[:3] if not _is_null(option))) or "any"
    kind = _kind(schema)
    if kind == "array":
        item = _type(schema.get("items"), depth)
        return f"({item})[]" if "|" in item and not item.startswith("{") else f"{item}[]"
    if kind == "object" and depth:
        properties, required = _object(schema)
        inner = [f"{_name(name)}: {_type(properties[name], 0)}" for name in properties if name in required]
        return _braces(inner[:_FIELDS], len(properties)) if inner else "object"
    form = schema.get("format")
    return f"{kind}({form})" if kind == "string" and form in ("date", "date-time", "time", "uuid") else kind


def _choices(values: list[JsonValue]) -> str:
    shown = [text for value in values[:_CHOICES] if (text := _value(value))]
    more = f"|+{len(values) - len(shown)}" if len(values) > len(shown) else ""
    return "|".join(shown) + more if shown else "any"


def _result(schema: JsonObject) -> str:
    """Return the main fields of a result: `{id, lines[]{sku, count}}`."""
    return _fields(schema, _FIELDS) or _kind(schema)


def _fields(schema: JsonValue, limit: int) -> str:
    if not isinstance(schema, dict):
        return ""
    if _kind(schema) == "array":
        return f"[]{_fields(schema.get('items'), limit)}"
    properties, required = _object(schema)
    if not properties:
        return ""
    names = _main(list(properties), required, limit)
    inner = [f"{_name(n)}{_fields(properties[n], _INNER_FIELDS) if limit == _FIELDS else ''}" for n in names]
    return _braces(inner, len(properties))


def _braces(shown: list[str], total: int) -> str:
    return "{" + ", ".join(shown + ["..."] * (total > len(shown))) + "}"


def _main(names: list[str], required: set[str], limit: int) -> list[str]:
    """Choose the fields worth showing: identifiers, then required ones, then the first; in their own order."""
    rank = {name: (not _IDENTIFIER.match(name), name not in required) for name in names}
    return sorted(sorted(names, key=rank.__getitem__)[:limit], key=names.index)


def _object(schema: JsonObject) -> tuple[JsonObject, set[str]]:
    """Return the properties of an object schema and the names of those it requires."""
    properties, required = schema.get("properties"), schema.get("required")
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return properties if isinstance(properties, dict) else {}, names


def _kind(schema: JsonObject) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((entry for entry in kind if entry != "null"), None)
    if kind in _TYPES:
        return str(kind)
    return "object" if "properties" in schema else "any"


def _is_null(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _value(value: JsonValue) -> str:
    """Return a short value as JSON, or nothing if it is long."""
    text = "" if isinstance(value, dict | list) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE else ""


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _one_line(text: str) -> str:
    """Return the first sentence, cut to fit."""
    text = " ".join(text.split())
    first = match[1] if (match := _SENTENCE.match(text)) and len(match[1]) > 10 else text
    if len(first) > _DESCRIPTION:
        first = first[: _DESCRIPTION - 3].rsplit(" ", 1)[0].rstrip(" ,;:") + "..."
    return first.removesuffix(".") if not first.endswith("...") else first

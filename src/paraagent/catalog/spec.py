"""The tool record: what makes one good, how it becomes bytes and back, and its content digest.

Place in the flow: layer 1. A source yields `Operation`s; the build asks each for its tool, which `check` must accept,
and `store` keeps it. A good tool says what it does, has typed parameters that form a valid JSON Schema (Draft
2020-12), and says what it answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import jsonschema_rs
import orjson

from paraagent.catalog.text import clean
from paraagent.types import JsonObject, JsonValue, Tool

DESCRIPTION = 400
"""Longest tool description, in characters."""
SHORTEST = 10
"""Shortest description that still says something."""

Rule = Literal[
    "no_description",
    "untyped_parameter",
    "invalid_schema",
    "no_response_schema",
    "same_operation",
    "same_content",
    "same_interface",
]
"""Why an operation is not in the catalog: four rules of quality, three of repetition."""


class Rejected(Exception):
    """An operation that does not make a good tool."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.rule: Rule = rule


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one API definition, not yet normalised: that is costly and may prove needless."""

    key: tuple[str, ...]
    """Equal for the same operation in other versions or packages of the same provider."""
    build: Callable[[], Tool]
    """Makes the tool, with a proposed name."""
    aliases: tuple[tuple[str, ...], ...] = ()
    """Further keys under which other packages know it."""


def canonical(value: JsonValue) -> bytes:
    """Return JSON bytes that are the same for equal values: sorted keys, no spaces."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def tool_digest(tool: Tool) -> str:
    """Return 32 hex digits that change when anything in the tool changes except its name."""
    fields = asdict_shallow(tool)
    del fields["name"]
    return hashlib.sha256(canonical(fields)).hexdigest()[:32]


def asdict_shallow(tool: Tool) -> JsonObject:
    """Return the tool's fields without copying the schemas inside."""
    return {name: getattr(tool, name) for name in Tool.__slots__}


def describe(summary: JsonValue, description: JsonValue) -> str:
    """Return one paragraph from an operation's summary and description, without saying anything twice."""
    short, full = clean(summary, DESCRIPTION), clean(description, DESCRIPTION)
    if not short or full.lower().startswith(short.lower().rstrip(". ")):
        return full
    if not full:
        return short
    return clean(short + ("" if short.endswith((".", "!", "?")) else ".") + " " + full, DESCRIPTION)


def with_answer(tool: Tool, identifiers: list[str]) -> Tool:
    """Give an operation that changes something but answers without a (described) body an acknowledgement as answer.

    It says that the thing was done and repeats the identifiers it was given.
    """
    if tool.effect == "read" or answers(tool.returns):
        return tool
    status: JsonObject = {"type": "string", "enum": ["ok"], "description": "The operation was done."}
    properties: JsonObject = {"status": status}
    given = tool.parameters["properties"]
    for name in identifiers:
        schema = given.get(name) if isinstance(given, dict) else None
        if isinstance(schema, dict) and schema.get("type") in ("string", "integer"):
            properties[name] = {key: schema[key] for key in ("type", "format") if key in schema}
    returns: JsonObject = {"type": "object", "properties": properties, "required": list(properties)}
    return replace(tool, returns=returns, synthetic_returns=True)


def check(tool: Tool) -> None:
    """Raise `Rejected` unless the tool is good."""
    if len(tool.description) < SHORTEST or not any(c.isalpha() for c in tool.description):
        raise Rejected("no_description")
    properties = tool.parameters.get("properties")
    if not isinstance(properties, dict) or not all(_typed(schema) for schema in properties.values()):
        raise Rejected("untyped_parameter")
    if not answers(tool.returns):
        raise Rejected("no_response_schema")
    # Draft 2020-12 is what the metaschema check assumes; that patterns compile was seen to when they were kept.
    if not (jsonschema_rs.meta.is_valid(tool.parameters) and jsonschema_rs.meta.is_valid(tool.returns)):
        raise Rejected("invalid_schema")


def _typed(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and any(key in schema for key in ("type", "enum", "anyOf"))


def answers(schema: JsonValue) -> bool:
    """Tell whether an answer's schema says what is in it."""
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds:
        return bool(schema.get("properties") or schema.get("additionalProperties"))
    if "array" in kinds:
        return answers(schema.get("items"))
    return "type" in schema or "enum" in schema or bool(schema.get("anyOf"))

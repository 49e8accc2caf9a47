"""The schema normaliser: what survives, what is cut off, and that nothing makes it fail."""

from __future__ import annotations

import jsonschema_rs
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraagent.catalog import schema as limits
from paraagent.catalog.schema import Schemas
from paraagent.types import JsonObject, JsonValue

KEPT = {
    *("type", "description", "properties", "required", "items", "uniqueItems", "additionalProperties", "anyOf"),
    *("enum", "default", "examples", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def convert(raw: JsonValue, *, output: bool = False, **definitions: JsonValue) -> JsonObject:
    return Schemas(definitions.get, output=output).convert(raw)


def test_references_are_inlined_and_their_own_description_wins() -> None:
    raw = {"type": "object", "properties": {"home": {"$ref": "Address", "description": "Where they live."}}}
    address = {"type": "object", "description": "An address.", "properties": {"city": {"type": "string"}}}
    found = convert(raw, Address=address)
    assert found["properties"] == {
        "home": {"type": "object", "description": "Where they live.", "properties": {"city": {"type": "string"}}}
    }


def test_recursion_is_cut_off_where_it_starts() -> None:
    node = {"type": "object", "properties": {"name": {"type": "string"}, "children": {"items": {"$ref": "Node"}}}}
    assert convert({"$ref": "Node"}, Node=node) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"type": "object"}}},
    }


@pytest.mark.parametrize(
    "definitions",
    [
        {"A": {"$ref": "A"}},
        {"A": {"$ref": "B"}, "B": {"$ref": "A"}},
        {"A": {"allOf": [{"$ref": "A"}, {"$ref": "B"}]}, "B": {"allOf": [{"$ref": "A"}]}},
        {"A": {"type": "array", "items": {"$ref": "B"}}, "B": {"type": "array", "items": {"$ref": "A"}}},
        {"A": {"oneOf": [{"$ref": "B"}, {"type": "string"}]}, "B": {"anyOf": [{"$ref": "A"}]}},
        {"A": {"type": "object", "additionalProperties": {"$ref": "A"}}},
    ],
)
def test_cycles_of_every_kind_end(definitions: JsonObject) -> None:
    for output in (False, True):
        assert jsonschema_rs.meta.is_valid(convert({"$ref": "A"}, output=output, **definitions))


def test_all_of_is_merged_and_doubled_references_cost_nothing() -> None:
    chain: JsonObject = {f"A{n}": {"allOf": [{"$ref": f"A{n + 1}"}] * 8} for n in range(40)}
    chain["A40"] = {"type": "object", "properties": {"deep": {"type": "integer"}}, "required": ["deep"]}
    own = {"allOf": [{"$ref": "A0"}, {"properties": {"near": {"type": "string"}}, "required": ["near"]}]}
    found = convert(own, **chain)
    assert found["type"] == "object"
    assert set(found["properties"]) == {"deep", "near"} == set(found["required"])


def test_depth_width_and_size_are_limited() -> None:
    nested: JsonObject = {"type": "string"}
    for _ in range(limits.DEPTH + 3):
        nested = {"type": "object", "properties": {"next": nested}}
    found, depth = convert(nested), 0
    while "properties" in found:
        found, depth = found["properties"]["next"], depth + 1
    assert depth == limits.DEPTH
    assert found == {"type": "object"}

    many: JsonObject = {f"p{n:03}": {"type": "string"} for n in range(100)}
    wide = convert({"type": "object", "properties": many, "required": ["p099"]})
    assert len(wide["properties"]) == limits.WIDTH
    assert "p099" in wide["properties"]

    leaf = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "x " * 90} for n in range(40)},
    }
    huge = {"type": "object", "properties": {f"o{n}": leaf for n in range(40)}}
    assert len(orjson.dumps(convert(huge))) <= limits.SIZE


def test_what_is_read_only_is_no_input_and_what_is_write_only_no_output() -> None:
    raw = {
        "type": "object",
        "properties": {"id": {"type": "string", "readOnly": True}, "secret": {"type": "string", "writeOnly": True}},
        "required": ["id", "secret"],
    }
    assert convert(raw)["required"] == ["secret"]
    assert convert(raw, output=True)["required"] == ["id"]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            {"type": "string", "nullable": True, "enum": ["a", "b"]},
            {"type": ["string", "null"], "enum": ["a", "b", None]},
        ),
        ({"type": ["integer", "null"]}, {"type": ["integer", "null"]}),
        ({"enum": ["x", "y", "x"]}, {"type": "string", "enum": ["x", "y"]}),
        ({"const": 3}, {"type": "integer", "enum": [3]}),
        ({"type": "integer", "enum": ["1", "2"]}, {"type": "integer"}),
        ({"type": "string", "pattern": "[a-"}, {"type": "string"}),
        ({"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^a$"}),
        ({"type": "integer", "minimum": "1", "maximum": "9"}, {"type": "integer", "minimum": 1, "maximum": 9}),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 0}),
        ({"type": "string", "minLength": 9, "maxLength": 3}, {"type": "string"}),
        ({"type": "string", "default": 5, "example": "good"}, {"type": "string", "examples": ["good"]}),
        ({"type": "string", "enum": ["a"], "default": "b"}, {"type": "string", "enum": ["a"]}),
        ({"type": "file"}, {"type": "string", "format": "binary"}),
        ({"type": "boolean", "default": False}, {"type": "boolean", "default": False}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"title": "Anything"}, {}),
        (True, {}),
        ("string", {}),
    ],
)
def test_keywords(raw: JsonValue, expected: JsonObject) -> None:
    assert convert(raw) == expected


def test_an_answer_keeps_the_first_alternative_only() -> None:
    assert convert({"oneOf": [{"type": "string"}, {"type": "integer"}]}, output=True) == {"type": "string"}


def test_descriptions_are_plain_and_short() -> None:
    found = convert({"type": "string", "description": "<p>The <b>name</b>.</p>" + " More." * 200})
    assert found["description"].startswith("The name. More.")
    assert len(found["description"]) <= limits.TEXT


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["A", "B", "missing", "#/x"])


def schemas(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    kinds = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null", "file", "nonsense"])
    keywords: dict[str, st.SearchStrategy[JsonValue]] = {
        "type": kinds | st.lists(kinds, max_size=3) | values,
        "properties": st.dictionaries(st.text(max_size=5), inner, max_size=4) | values,
        "required": st.lists(st.text(max_size=5) | values, max_size=4) | values,
        "items": inner,
        "additionalProperties": inner,
        "allOf": st.lists(inner, max_size=3) | values,
        "anyOf": st.lists(inner, max_size=6) | values,
        "oneOf": st.lists(inner, max_size=3),
        "$ref": names | values,
        "enum": st.lists(values, max_size=4) | values,
        "pattern": st.text(max_size=6) | st.just("(?<=") | values,
    }
    plain = [
        "default",
        "example",
        "examples",
        "const",
        "format",
        "description",
        "nullable",
        "readOnly",
        "uniqueItems",
    ]
    plain += ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
    plain += ["minLength", "maxLength", "minItems", "maxItems"]
    return st.fixed_dictionaries({}, optional={**keywords, **dict.fromkeys(plain, values)})


anything = st.recursive(values, schemas, max_leaves=12)


@settings(max_examples=100)
@given(raw=anything, a=anything, b=anything, output=st.booleans())
def test_any_input_gives_a_small_valid_schema(raw: JsonValue, a: JsonValue, b: JsonValue, output: bool) -> None:
    found = convert(raw, output=output, A=a, B=b)
    jsonschema_rs.Draft202012Validator(found)
    for part in walk(found):
        assert set(part) <= KEPT
        assert len(part.get("properties", {})) <= limits.WIDTH
        assert set(part.get("required", [])) <= set(part.get("properties", {}))
    assert found == convert(raw, output=output, A=a, B=b)


def walk(schema: JsonObject) -> list[JsonObject]:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inner += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [schema, *(part for child in inner for part in walk(child))]


def test_deep_nesting_without_objects_is_cut_off() -> None:
    deep: JsonObject = {"type": "string"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    assert len(orjson.dumps(convert(deep))) < 1000

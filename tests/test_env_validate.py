"""Arguments are checked before anything runs, and the message says how to mend them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.env.validate import MAX_BYTES, Arguments, canonical
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject

PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 2},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50},
        "status": {"type": "string", "enum": ["open", "closed"]},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]},
        },
        "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "anything": {},
    },
    "required": ["query"],
}


def message(arguments: Any, parameters: JsonObject = PARAMETERS) -> str:
    with pytest.raises(ToolFailure) as caught:
        Arguments(parameters).check(arguments)
    assert caught.value.kind == "invalid_args"
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_valid_arguments_come_back_in_canonical_form() -> None:
    check = Arguments(PARAMETERS).check
    assert check({"query": "tea", "limit": 5}) == check({"limit": 5, "query": "tea"}) == b'{"limit":5,"query":"tea"}'


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"query": "tea", "limit": "ten"}, '"limit" must be integer, you sent "ten"; for example {"limit": '),
        ({"query": "tea", "limit": 99}, '"limit" must be at most 50, you sent 99; for example {"limit": '),
        ({"query": "t"}, '"query" must be at least 2 characters, you sent "t"; for example {"query": "'),
        ({}, '"query" is missing: string; for example {"query": "'),
        (
            {"query": "tea", "status": "shut"},
            '"status" must be one of "open", "closed", you sent "shut"; for example',
        ),
        ({"query": "tea", "code": "x"}, '"code" must be text that matches ^[A-Z]{3}$, you sent "x"; for example'),
        ({"query": "tea", "lines": [{"sku": 1}]}, '"lines[0].sku" must be string, you sent 1; for example {"lines"'),
        ({"query": "tea", "lines": [{}]}, '"lines[0].sku" is missing: string; for example {"lines"'),
        ({"query": "tea", "either": "x"}, '"either" must be integer or boolean, you sent "x"; for example {"either"'),
        ({"query": "tea", "limti": 3}, 'unknown argument "limti"; did you mean "limit"?'),
        ({"query": "tea", "zzz": 3}, 'unknown argument "zzz"; it takes: query, limit, status'),
        ({"query": None}, '"query" must be string, you sent null; for example {"query"'),
    ],
)
def test_the_message_names_the_argument_and_what_would_do(arguments: JsonObject, told: str) -> None:
    assert message(arguments).startswith(told)


def test_the_example_in_the_message_is_itself_valid() -> None:
    import orjson

    example = orjson.loads(message({"query": "tea", "limit": "ten"}).partition("for example ")[2])
    Arguments(PARAMETERS).check({"query": "tea", **example})


def test_a_tool_without_parameters_takes_none() -> None:
    assert message({"x": 1}, {"type": "object", "properties": {}}).endswith("it takes: no arguments")
    assert Arguments({"type": "object"}).check({"x": 1})
    assert Arguments({"type": "object", "properties": {}, "additionalProperties": True}).check({"x": 1})


def deep(levels: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("anything", "told"),
    [
        (deep(100_000), "recursion"),
        ("x" * (MAX_BYTES + 1), "bytes"),
        (2**70, "64-bit"),
        ("\ud800", "utf-8"),
        ({1, 2}, "json"),
        (object(), "json"),
        ({1: 2}, "str"),
    ],
    ids=["deep", "large", "huge-number", "half-surrogate", "set", "object", "number-as-key"],
)
def test_what_is_not_plain_json_is_refused(anything: Any, told: str) -> None:
    assert told in message({"query": "tea", "anything": anything}).lower()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    assert '"limit" must be integer' in message({"query": "tea", "limit": value})


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(message({"query": "tea", "limit": "x" * 50_000})) < 300
    assert len(message({"query": "tea", "x" * 50_000: 1})) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*PARAMETERS["properties"], "other"]), JSON))
def test_any_arguments_either_pass_or_are_told_in_one_line(arguments: JsonObject) -> None:
    try:
        text = Arguments(PARAMETERS).check(arguments)
    except ToolFailure:
        assert message(arguments)
    else:
        assert text == canonical(arguments)

"""Tool cards and the system prompt."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paraagent.protocol.card import card, schema_card
from paraagent.protocol.grammar import parse
from paraagent.protocol.monitor import PlanMonitor
from paraagent.protocol.prompt import system_prompt
from paraagent.types import Tool


def tool(properties=None, required=(), returns=None, description="Get an order."):
    parameters = {"type": "object", "properties": properties or {}, "required": list(required)}
    return Tool("get_order", description, parameters, returns or {}, "read")


def signature(*args, **kwargs):
    return card(tool(*args, **kwargs)).split(" - ")[0]


def fields(returns):
    return card(tool(returns=returns)).split(" -> ")[1]


def test_a_card_says_what_a_call_must_contain():
    shown = card(
        tool(
            {
                "state": {"type": "string", "enum": ["open", "done"]},
                "order_id": {"type": "string"},
                "limit": {"type": "integer", "default": 10},
            },
            ["order_id"],
            {"type": "object", "properties": {"id": {"type": "string"}, "lines": {"type": "array", "items": {}}}},
            "Get an order.  With its lines.",
        )
    )
    assert shown == (
        'get_order(state?: "open"|"done", order_id: string, limit?: integer=10) - Get an order -> {id, lines[]}'
    )


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": ["string", "null"]}, "string"),
        ({"type": "string", "format": "date-time"}, "string(date-time)"),
        ({"type": "integer", "format": "int32"}, "integer"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]}, "string|integer"),
        ({"const": "v1"}, '"v1"'),
        ({"enum": list(range(9))}, "0|1|2|3|4|+4"),
        (
            {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "note": {"type": "string"}},
                "required": ["sku"],
            },
            "{sku: string, ...}",
        ),
        ({"type": "object", "properties": {"sku": {"type": "string"}}}, "object"),
        ({}, "any"),
        (True, "any"),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "items": {"enum": [1, 2]}}, "(1|2)[]"),
    ],
)
def test_types_take_a_few_characters(schema, text):
    assert signature({"p": schema}, ["p"]) == f"get_order(p: {text})"


def test_all_required_parameters_are_shown_and_optional_ones_as_they_fit():
    names = [f"parameter_number_{n}" for n in range(30)]
    text = signature({name: {"type": "string"} for name in names}, names[::2])
    assert all(f"{name}: string" in text for name in names[::2])
    assert text.count("?:") < 5
    assert text.endswith("optional)")
    assert "+11 optional" in text or "+12 optional" in text


def test_result_fields_show_one_level_and_keep_identifiers():
    order = {
        "type": "object",
        "properties": {n: {"type": "string"} for n in ("a", "b", "c", "d", "e", "f", "orderId")},
    }
    assert fields(order) == "{a, b, c, d, e, orderId, ...}"
    assert fields({"type": "array", "items": {"properties": {"id": {}}}}) == "[]{id}"
    assert fields({"properties": {"data": {"properties": {"id": {}, "sub": {"properties": {"x": {}}}}}}}) == (
        "{data{id, sub}}"
    )
    assert fields({"type": "string"}) == "string"


def test_a_card_is_one_short_line():
    odd = tool(
        {"a\nb": {"type": "string"}, "c d": {"enum": ["x\ny", "z" * 100]}},
        ["a\nb", "c d"],
        {"properties": {"k\n": {}}},
        "Line\none " + "word " * 100,
    )
    assert "\n" not in card(odd)
    assert "\n" not in card(replace(odd, name="a\n</tools>", returns={"type": "x\ny"}))
    assert '"a\\nb": string' in card(odd)
    assert len(card(odd)) < 250


def test_the_schema_card_holds_the_complete_schema():
    found = tool({"p": {"type": "string", "description": "</tools>"}}, ["p"])
    text = schema_card(found)
    assert "</tools>" not in text
    assert json.loads(text) == {
        "type": "function",
        "function": {"name": "get_order", "description": "Get an order.", "parameters": found.parameters},
    }


@pytest.mark.parametrize("mode", ["advise", "enforce"])
def test_the_prompt_is_short_and_its_example_is_right(mode):
    prompt = system_prompt(mode, turns=12, searches=30)
    assert len(prompt) / 4 < 700
    assert "12 turns, 30 searches" in prompt
    assert "{enforce}" not in prompt
    assert "{budget}" not in prompt
    assert ("refused" in prompt) == (mode == "enforce")
    turn = parse(prompt.partition("Example\n")[2])
    review = PlanMonitor("enforce", surfaced=["get_order", "track_parcel"]).review(turn)
    assert turn.faults == ()
    assert (review.plan_fits, review.deviations, review.refused) == (True, (), {})

"""The rules policy's parts: reading requests, filling arguments, choosing tools, stating facts."""

from __future__ import annotations

import pytest

from paraagent.agent.policies.answering import state_facts
from paraagent.agent.policies.arithmetic import calculate
from paraagent.agent.policies.choosing import choose, link
from paraagent.agent.policies.filling import fill, literals
from paraagent.agent.policies.reading import read_request, service_in
from paraagent.protocol.flow import call_plan
from paraagent.protocol.graph import PlanGraph
from paraagent.types import Call, Hit, JsonObject, Tool


def tool(name: str, properties: JsonObject, required: list[str], **fields: str) -> Tool:
    parameters: JsonObject = {"type": "object", "properties": properties, "required": list(required)}
    returns: JsonObject = {"type": "object", "properties": {"id": {"type": "string"}, "status": {"type": "string"}}}
    known: dict[str, str] = {"effect": "read", "provider": "shop.com", "api": "v1", "api_title": "Shop"} | fields
    return Tool(name, f"{name.replace('_', ' ')}.", parameters, returns, **known)  # type: ignore[arg-type]


GET = tool("get_order", {"order_id": {"type": "string"}}, ["order_id"], resource="order", path="/orders/{order_id}")
MAKE = tool(
    "create_order",
    {"sku": {"type": "string"}, "quantity": {"type": "integer"}, "express": {"type": "boolean"}},
    ["sku", "quantity"],
    resource="order",
    effect="create",
    path="/orders",
)


def test_a_request_is_read_as_parts_with_steps_and_facts() -> None:
    request = (
        "I need two things done. On Shop Direct, first create an order with sku A-17; then get the new order. "
        "I need to know the status and the total amount. Also, please delete the note n_5 using Notely."
    )
    first, second = read_request(request)
    assert (first.service, first.steps) == ("Shop Direct", ("create an order with sku A-17", "get the new order"))
    assert first.facts == ("status", "total amount")
    assert (second.service, second.steps, second.facts) == ("Notely", ("delete the note n_5",), ())


@pytest.mark.parametrize(
    ("sentence", "service"),
    [
        ("Please get the order A1 using Shop Direct and report the status.", "Shop Direct"),
        ("With Vtex Orders, get the order ord_1.", "Vtex Orders"),
        ("Create a subscription with URL https://a.example on Increase.", "Increase"),
        ("Could you get all templates in www.zoomconnect.com?", "www.zoomconnect.com"),
        ("Update the brand with ID 20.", ""),
        ("Please send a note about A1 on opendatasoft.", "opendatasoft"),
        ('Send "Greetings from Oslo" to A1.', ""),
    ],
)
def test_the_service_is_the_name_after_on_in_with_or_using(sentence: str, service: str) -> None:
    assert service_in(sentence) == service


def test_sentences_that_leave_something_alone_are_no_part_of_the_work() -> None:
    parts = read_request("On Shop, get the order A1. Please leave the order A2 as it is.")
    assert [part.steps for part in parts] == [("get the order A1",)]


def test_arguments_come_from_names_types_and_what_is_left_over() -> None:
    filled = fill(MAKE, "create an order with sku A-17, quantity 3 and express set to true")
    assert filled.arguments == {"sku": "A-17", "quantity": 3, "express": True}
    assert filled.missing == ()
    assert fill(GET, "get the order ord_9's details").arguments == {"order_id": "ord_9"}
    assert fill(GET, "look at ord_9").arguments == {"order_id": "ord_9"}
    assert fill(GET, "get the order").missing == ("order_id",)


def test_a_value_of_the_wrong_type_is_not_taken() -> None:
    filled = fill(MAKE, "create an order with sku A-17 and quantity many")
    assert filled.missing == ("quantity",)


def test_enum_formats_and_lists_are_respected() -> None:
    many = tool(
        "many",
        {
            "state": {"type": "string", "enum": ["open", "closed"]},
            "day": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        ["state", "day"],
    )
    filled = fill(many, "list closed ones for 2025-03-04 with tags X1 and Y2")
    assert filled.arguments == {"state": "closed", "day": "2025-03-04", "tags": ["X1", "Y2"]}


def test_literals_are_quoted_text_numbers_ids_and_addresses() -> None:
    assert literals('send "a b" to joe@x.org with id_7, 3 and plain words') == ["a b", "joe@x.org", "id_7", "3"]


def test_a_chain_links_the_second_call_to_the_first() -> None:
    (part,) = read_request("On Shop, create an order with sku A-17 and quantity 3. Then get the new order.")
    chosen = choose(part, "a", [[Hit(MAKE, 0.9, "")], [Hit(GET, 0.9, "")]])
    assert chosen is not None
    assert chosen.complete
    assert chosen.calls[1] == Call("get_order", {"order_id": "$a1.id"}, "a2")
    graph = PlanGraph.of(call_plan(chosen.calls))
    assert len(graph.layers) == 2


def test_the_named_service_and_the_verb_decide_between_equal_tools() -> None:
    other = tool(
        "get_order_elsewhere", {"order_id": {"type": "string"}}, ["order_id"], provider="other.io", api_title="Other"
    )
    delete = tool("delete_order", {"order_id": {"type": "string"}}, ["order_id"], effect="delete")
    (part,) = read_request("On Shop, get the order ord_1.")
    chosen = choose(part, "a", [[Hit(other, 0.9, ""), Hit(delete, 0.9, ""), Hit(GET, 0.8, "")]])
    assert chosen is not None
    assert chosen.tools == (GET,)
    assert choose(part, "a", [[Hit(GET, 0.8, "")]], frozenset({"get_order"})) is None


def test_links_need_the_same_type() -> None:
    numbered = tool("by_number", {"order_id": {"type": "integer"}}, ["order_id"])
    found = link("order_id", GET, [MAKE])
    assert found is not None
    assert (found.step, found.path) == (0, "id")
    assert link("order_id", numbered, [MAKE]) is None


def test_facts_are_read_from_the_result_nearest_to_the_top() -> None:
    value = {"status": "sent", "courier": {"name": "Ann", "status": "busy"}, "createdAt": "2025-01-02"}
    assert state_facts(["status", "courier name", "creation time"], value) == [
        "The status is sent.",
        "The courier name is Ann.",
        "The creation time is 2025-01-02.",
    ]
    assert state_facts(["colour"], value) == ["The colour was not reported."]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("What is 15 percent of 240?", "36"),
        ("Quick check: how much is 17 times 23?", "391"),
        ("Which date is 30 days after 2025-01-15?", "2025-02-14"),
        ("Which day of the week is 2025-01-15?", "Wednesday"),
        ("On Shop, get the order 17.", None),
        ("Which day of the week is 2025-13-45?", None),
    ],
)
def test_small_sums_need_no_tool(request_: str, answer: str | None) -> None:
    assert calculate(request_) == answer

"""What the experts say and the mistakes they make on purpose."""

from __future__ import annotations

from random import Random

import pytest

from paraagent.demos.reading import Solution
from paraagent.demos.shown import holds, reachable, scalars
from paraagent.demos.style import Mistake, Style, draw, spoil
from paraagent.demos.voice import Voice
from paraagent.demos.workings import workings
from paraagent.env import direct
from paraagent.env.task import Fact, GoldCall, GoldSlot, Task
from paraagent.types import JsonObject, Tool

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"orderId": {"type": "integer"}, "item_name": {"type": "string"}, "note": {"type": "string"}},
    "required": ["orderId", "item_name"],
}
RETURNS: JsonObject = {
    "type": "object",
    "properties": {
        "orders": {"type": "array", "items": {"type": "object", "properties": {"id": {}, "sku": {}}}},
        "total": {"type": "integer"},
    },
}
TOOL = Tool("shop_add", "Adds.", SCHEMA, RETURNS, "create", provider="shop.example", api_title="Shop")


def test_every_puzzle_is_explained_and_the_explanation_ends_in_the_answer() -> None:
    for seed in range(300):
        request, answer = direct.puzzle(Random(seed))
        assert answer in workings(request, answer), request


@pytest.mark.parametrize(
    ("request_text", "answer", "said"),
    [
        ("What is 20 percent of 400?", "80", "400 x 20 / 100 = 80."),
        ("Which day of the week is 2026-01-05?", "Monday", "2026-01-05 is a Monday."),
        ("Which date is 10 days after 2026-01-05?", "2026-01-15", "2026-01-05 plus 10 days is 2026-01-15."),
        ("Ann is in room Fjord. Where is Ann?", "Fjord", "The request says: Ann is in room Fjord."),
        ("Who wrote it?", "Bob", ""),
    ],
)
def test_workings(request_text: str, answer: str, said: str) -> None:
    found = workings(request_text, answer)
    assert found == said or (answer == "80" and found == "20 x 400 / 100 = 80.")


@pytest.mark.parametrize(
    ("mistake", "arguments", "spoiled"),
    [
        ("name", {"orderId": 7, "item_name": "pen"}, {"order_id": 7, "item_name": "pen"}),
        ("name", {"item_name": "pen"}, {"itemName": "pen"}),
        ("type", {"orderId": 7, "item_name": "pen"}, {"orderId": "7", "item_name": "pen"}),
        ("type", {"item_name": "pen"}, None),
        ("missing", {"orderId": 7, "note": "x"}, {"note": "x"}),
        ("missing", {"orderId": "$c1.id"}, None),
        ("link", {"orderId": "$c1.items.0.id"}, {"orderId": "$c1.items.id"}),
        ("link", {"orderId": "$c1.id"}, None),
        ("link", {"orderId": 7}, None),
        ("name", {"note": "x"}, None),
    ],
)
def test_a_mistake_changes_one_required_argument(
    mistake: Mistake, arguments: JsonObject, spoiled: JsonObject | None
) -> None:
    before = dict(arguments)
    found = spoil(arguments, TOOL, mistake)
    assert (found[0] if found else None) == spoiled
    assert arguments == before


def test_styles_follow_the_shares_and_the_seed() -> None:
    styles = [draw(Random(seed), "mix", 0.25, 0.1) for seed in range(400)]
    assert styles == [draw(Random(seed), "mix", 0.25, 0.1) for seed in range(400)]
    assert 0.4 < sum(style.linked for style in styles) / 400 < 0.6
    assert 0.15 < sum(style.vague for style in styles) / 400 < 0.35
    assert 0.04 < sum(style.mistake is not None for style in styles) / 400 < 0.2
    assert all(
        draw(Random(seed), "never", 0, 0) == Style(draw(Random(seed), "never", 0, 0).voice, False)
        for seed in range(9)
    )


def test_a_voice_repeats_itself_for_the_same_seed_only() -> None:
    def speak(seed: int) -> list[str]:
        voice = Voice(seed)
        return [
            voice.picked("slot", "tool", "it fits"),
            voice.together(3),
            voice.finished("a = 1"),
            voice.declined("fly"),
        ]

    assert speak(1) == speak(1)
    assert len({tuple(speak(seed)) for seed in range(30)}) > 10


def test_links_may_only_follow_fields_that_the_card_shows() -> None:
    assert reachable(TOOL, "$c1.orders.0.sku")
    assert reachable(TOOL, "$c1.orders[0].id")
    assert not reachable(TOOL, "$c1.orders.0.price")
    assert not reachable(TOOL, "$c1.data.orders.0.id")


def test_values_inside_arguments_are_found_in_messages() -> None:
    assert list(scalars({"a": [1, {"b": "x"}], "c": True, "d": None})) == [1, "x"]
    assert holds('{"q":"say \\"hi\\""}', 'say "hi"')
    assert holds("costs 3.5 euros", 3.5)
    assert not holds("nothing", 7)


def test_a_solution_names_slots_without_colons_and_each_differently() -> None:
    slots = (
        GoldSlot("get a: b 1", "Shop get a: b of the", ("shop_add",)),
        GoldSlot("get a: b 2", "Shop get a: b of the", ("shop_two",)),
        GoldSlot("fly 3", "Zorvex: fly to the moon", ()),
    )
    calls = (
        GoldCall("c1", "shop_add", {"orderId": 7}),
        GoldCall("c2", "shop_two", {"x": "$c1.id"}),
        GoldCall("c3", "shop_add", {"orderId": 8}),
    )
    task = Task("t", "mixed", "train", 0, "...", slots=slots, calls=calls, facts=(Fact("c2", "total", 5, "total"),))
    tools = {"shop_add": TOOL, "shop_two": Tool("shop_two", "Two.", {}, {}, "read", api_title="Shop")}
    solution = Solution(task, tools.get)
    names = [capability.slot.name for capability in solution.capabilities]
    assert names == ["get a b", "get a b on Shop", "fly to the moon"]
    assert [capability.service for capability in solution.capabilities] == ["Shop", "Shop", "Zorvex"]
    assert [[call.id for call in part.calls] for part in solution.parts] == [["c1", "c2"], ["c3"]]
    assert [len(part.facts) for part in solution.parts] == [1, 0]
    assert solution.literals(solution.parts[0]) == "7"

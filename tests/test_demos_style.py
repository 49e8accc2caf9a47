"""What the experts say and the mistakes they make on purpose."""

from __future__ import annotations

import re
from datetime import date, timedelta
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
        (
            "How much is 27 times 55?",
            "1485",
            "27 x 50 = 1000 + 350 = 1350, 27 x 5 = 100 + 35 = 135, 1350 + 135 = 1485.",
        ),
        ("How much is 30 times 7?", "210", "30 x 7 = 210."),
        ("12 boxes hold 30 pens and 28 are taken out. How many?", "332", "12 x 30 = 300 + 60 = 360, 360 - 28 = 332."),
        (
            "Share 923 euros among 13.",
            "71",
            "13 x 70 = 910, 923 - 910 = 13, 13 x 1 = 13, 13 - 13 = 0, so 923 / 13 = 71.",
        ),
        ("What is 20 percent of 400?", "80", "10 percent of 400 is 40, 40 x 2 = 80."),
        (
            "Take 15% of 60.",
            "9",
            "60 x 10 = 600, 60 x 5 = 300, 600 + 300 = 900, 900 / 100 = 9.",
        ),
        ("How many minutes are 3 hours and 3 minutes?", "183", "3 x 60 = 180, 180 + 3 = 183."),
        ("We sold 284, 156 and 834. How many?", "1274", "284 + 156 = 440, 440 + 834 = 1274."),
        ("Which day of the week is 2026-01-05?", "Monday", "2026-01-05 is a Monday."),
        ("Which date is 10 days after 2026-01-05?", "2026-01-15", "From 2026-01-05: 10 days to 2026-01-15."),
        (
            "Which date is 60 days after 2026-01-03?",
            "2026-03-04",
            "From 2026-01-03: 28 days to 2026-01-31, 56 days to 2026-02-28, 56 + 4 = 60 days to 2026-03-04.",
        ),
        (
            "How many days are there from 2026-01-03 to 2026-03-04?",
            "60",
            "From 2026-01-03: 28 days to 2026-01-31, 56 days to 2026-02-28, 56 + 4 = 60 days to 2026-03-04.",
        ),
        ("Ann is in room Fjord. Where is Ann?", "Fjord", "The request says: Ann is in room Fjord."),
        ("Who wrote it?", "Bob", ""),
    ],
)
def test_workings(request_text: str, answer: str, said: str) -> None:
    assert workings(request_text, answer) == said


def test_every_step_of_every_explanation_is_right() -> None:
    steps = 0
    for seed in range(400):
        said = workings(*direct.puzzle(Random(seed)))
        for part in said.rstrip(".").split(", "):
            sides = part.removeprefix("so ").split(" = ")
            if len(sides) > 1 and all(re.fullmatch(r"[\d +x/-]+", side) for side in sides):
                values = {eval(side.replace("x", "*")) for side in sides}
                assert len(values) == 1, part
                steps += 1
        for start, days, end in re.findall(r"From (\S+):.* (\d+) days to (\S+)\.", said):
            assert date.fromisoformat(start) + timedelta(int(days)) == date.fromisoformat(end)
            steps += 1
    assert steps > 400


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

"""The step level: form, plan and repeats of single turns, with values worked out by hand."""

from __future__ import annotations

import pytest

from paraagent.reward.rules import DEFAULT, REFERENCE, Rules
from paraagent.reward.score import score
from paraagent.types import Call, Search
from reward_play import CUSTOMER, NEEDED, PERFECT, PLAN, WEATHER, do, flow, look, play, render_turn, say

NEWS = Call("get_news", {})


def steps(lines: list[str], rules: Rules = DEFAULT, **options: int) -> list[float]:
    return [turn.reward for turn in score(play(lines, **options), rules).turns]


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE])
def test_clean_turns_with_their_plans_earn_all(rules: Rules) -> None:
    assert steps(PERFECT, rules) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE])
def test_form_and_plan_cost_half_each(rules: Rules) -> None:
    no_think = render_turn("", searches=[Search("n", "get_news")]).replace("<think></think>\n", "")
    assert steps([no_think, *PERFECT], rules)[0] == 0.0
    assert steps([look("get_news", plan=False), *PERFECT], rules)[0] == 0.5
    assert steps(["hm " + look("get_news"), *PERFECT], rules)[0] == 0.5


def test_an_answer_without_a_think_keeps_half_of_its_form() -> None:
    assert steps([*PERFECT[:2], "<answer>31 and 17</answer>"]) == [1.0, 1.0, 0.75]


def test_a_plan_where_none_is_due_costs_the_plan_half() -> None:
    replan = do(WEATHER, plan=flow(("get_weather",)))
    assert steps([look(*NEEDED), do(CUSTOMER, plan=PLAN), replan, say()]) == [1.0, 1.0, 0.5, 1.0]


def test_an_invalid_turn_earns_nothing_but_did_as_published() -> None:
    assert steps(["hm", *PERFECT])[0] == 0.0
    assert steps(["hm", *PERFECT], REFERENCE)[0] == 0.5


def test_the_share_of_repeats_is_taken_off() -> None:
    lines = [
        look(*NEEDED),
        do(WEATHER, plan=flow(("get_weather",), ("find_customer",))),
        do(WEATHER, CUSTOMER),
        say(),
    ]
    assert steps(lines) == [1.0, 1.0, 0.5, 1.0]
    assert steps(lines, REFERENCE) == [1.0, 1.0, 1.0, 1.0]


def test_a_turn_that_only_repeats_is_worth_nothing_and_says_so() -> None:
    again = render_turn("again", searches=[Search("GET_weather", "A tool  LIKE get_weather")])
    reward = score(play([look(*NEEDED), again, *PERFECT[1:]]))
    assert [turn.reward for turn in reward.turns] == [1.0, 0.0, 1.0, 1.0]
    assert [term.reason for term in reward.turns[1].terms] == [
        "well formed",
        "not judged: the turn only repeats",
        "1 of 1 actions repeat an earlier one",
    ]
    reworded = render_turn("again", searches=[Search("other", "something for get_weather")])
    assert steps([look(*NEEDED), reworded, *PERFECT[1:]])[1] == 1.0


def test_two_equal_calls_in_one_turn_are_one_call_and_a_repeat() -> None:
    assert steps(
        [look("get_weather"), do(WEATHER, Call("get_weather", {"city": "Oslo"}), plan=flow(("get_weather",)))]
    )[1] == pytest.approx(0.5)


def test_reading_again_after_a_write_is_no_repeat() -> None:
    tools = ("get_news", "note")
    news, note = do(NEWS), do(Call("note", {"text": "a"}))
    lines = [look(*tools), do(NEWS, plan=flow(("get_news",), ("note",), ("get_news",))), note, news, news, say()]
    assert steps(lines) == [1.0, 1.0, 1.0, 1.0, 0.0, 1.0]


def test_a_failure_may_be_tried_again_only_if_that_can_help() -> None:
    flaky, picky = do(Call("flaky", {})), do(Call("picky", {}))
    lines = [look("flaky"), do(Call("flaky", {}), plan=flow(("flaky",))), flaky, flaky, flaky, say()]
    assert steps(lines) == [1.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    lines = [look("picky"), do(Call("picky", {}), plan=flow(("picky",))), picky, say()]
    assert steps(lines) == [1.0, 1.0, 0.0, 1.0]


def test_a_call_that_works_after_it_was_refused_is_no_repeat() -> None:
    plan = flow(("get_news",))
    lines = [do(NEWS, plan=plan), look("get_news"), do(NEWS, plan=plan), say()]
    assert steps(lines) == [1.0, 1.0, 1.0, 1.0]

"""The phase level: exploration's F1 and execution's windows, with values worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from paraagent.env.task import GoldSlot, Task
from paraagent.protocol.plan import CallPlan
from paraagent.reward.record import PhaseReward
from paraagent.reward.rules import DEFAULT, REFERENCE, Rules
from paraagent.reward.score import score
from paraagent.types import Call, Search
from reward_play import (
    CUSTOMER,
    DIRECT,
    NEEDED,
    ORDER,
    ORDERS,
    PERFECT,
    PLAN,
    TASK,
    UNANSWERABLE,
    WEATHER,
    do,
    flow,
    look,
    play,
    render_turn,
    say,
)

NEWS = Call("get_news", {})


def phases(
    lines: Sequence[str], rules: Rules = DEFAULT, task: Task | None = TASK, **options: int
) -> list[PhaseReward]:
    return list(score(play(lines, task, **options), rules).phases)


def window(lines: Sequence[str], rules: Rules = DEFAULT, number: int = 0, **options: int) -> dict[str, float]:
    """Return the terms and the reward of one window of the first execution phase."""
    phase = next(phase for phase in phases(lines, rules, **options) if phase.kind == "execution")
    found = phase.windows[number]
    return {term.name: term.value for term in found.terms} | {"reward": found.reward, "work": found.work}


def run(plan: CallPlan, *turns: Sequence[Call], rules: Rules = DEFAULT, **options: int) -> dict[str, float]:
    """Return the first window of an episode that searches for everything and then calls."""
    first, *others = turns
    everything = look(*NEEDED, "get_news", "locked", "flaky", "picky")
    return window([everything, do(*first, plan=plan), *(do(*t) for t in others), say()], rules, **options)


# exploration


def test_finding_all_that_is_missing_with_one_search_each_earns_one() -> None:
    assert [phase.reward for phase in phases(PERFECT)] == [1.0, 1.0, None]


def test_exploration_is_the_f1_of_what_was_found_and_of_what_was_asked() -> None:
    found = phases([look("get_weather", "get_news"), say()])[0]
    assert {term.name: term.value for term in found.terms} == {"found": 1 / 3, "precise": 1 / 2}
    assert found.reward == pytest.approx(0.4)


def test_two_searches_for_one_capability_are_not_both_precise() -> None:
    twice = [Search("a", "get_weather now"), Search("b", "get_weather then")]
    found = phases([render_turn("t", searches=twice), say()])[0]
    assert [term.value for term in found.terms] == [1 / 3, 1 / 2]


def test_one_search_may_find_several_capabilities() -> None:
    found = phases([render_turn("t", searches=[Search("a", " ".join(NEEDED))]), say()])[0]
    assert [term.value for term in found.terms] == [1.0, 1.0]


def test_an_equivalent_tool_serves_its_slot_once() -> None:
    first, second = phases([look("lookup_customer"), do(NEWS), look("find_customer"), say()])[::2][:2]
    assert [term.value for term in first.terms] == [1 / 3, 1.0]
    assert [term.value for term in second.terms] == [0.0, 0.0]


def test_a_later_exploration_is_held_against_what_is_still_missing() -> None:
    lines = [look("find_customer"), do(CUSTOMER), look("list_orders", "get_weather"), say()]
    assert [phase.reward for phase in phases(lines) if phase.kind == "exploration"] == [0.5, 1.0]


def test_a_tool_that_failed_for_good_is_missing_again() -> None:
    slots = (GoldSlot("lock", "lock", ("locked", "get_news")),)
    task = Task("t", "recover", "train", 1, "Open.", slots, final_state="s")
    lines = [look("locked"), do(Call("locked", {}), plan=flow(("locked",))), look("get_news"), say()]
    assert [phase.reward for phase in phases(lines, task=task)] == [1.0, 1.0, 1.0, None]


def test_searching_where_nothing_is_needed_earns_nothing_and_not_searching_does() -> None:
    assert phases([look("get_news"), say("42")], task=DIRECT)[0].reward == 0.0
    assert score(play([say("It is 42.")], DIRECT)).levels.phase == 1.0
    assert score(play([say()])).levels.phase == 0.0


def test_asking_once_for_what_no_tool_has_is_right() -> None:
    decline = say("I cannot do this: no tool serves it.")
    once, more = "polish the moon", "make the moon shine"
    ask = render_turn("t", searches=[Search("moon", once)])
    assert phases([ask, decline], task=UNANSWERABLE)[0].reward == 1.0
    ask = render_turn("t", searches=[Search("moon", once), Search("moon", more)])
    assert phases([ask, decline], task=UNANSWERABLE)[0].reward == pytest.approx(2 / 3)


def test_exploration_has_no_score_as_published_or_without_a_task() -> None:
    assert phases(PERFECT, REFERENCE)[0].reward is None
    assert [phase.reward for phase in phases(PERFECT, task=None)] == [None, 1.0, None]


# execution: the plan


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE])
def test_a_plan_of_unseen_tools_is_worth_nothing(rules: Rules) -> None:
    found = window([look("find_customer", "list_orders"), PERFECT[1], say()], rules)
    assert (found["grounded"], found["reward"]) == (0.0, 0.0)


def test_a_tool_listed_twice_costs_its_own_term_and_all_as_published() -> None:
    plan = CallPlan(("get_weather", "get_weather"), (), (("get_weather",),))
    assert run(plan, [WEATHER])["reward"] == pytest.approx(0.9)
    assert run(plan, [WEATHER], rules=REFERENCE)["reward"] == 0.0


def test_a_plan_of_nothing_that_is_needed_is_worth_nothing_but_was_as_published() -> None:
    plan = flow(("get_news",))
    assert run(plan, [NEWS])["reward"] == 0.0
    assert run(plan, [NEWS], rules=REFERENCE)["reward"] == 1.0


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE])
def test_an_order_that_the_task_has_must_be_declared(rules: Rules) -> None:
    plan = flow(("find_customer", "get_weather"), ("list_orders",))
    found = run(plan, [CUSTOMER, WEATHER], [ORDERS], rules=rules)
    assert (found["dependencies"], found["minimal_layers"], found["frontier"]) == (0.0, 1.0, 1.0)
    assert found["reward"] == pytest.approx(0.8)


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE])
def test_an_order_that_the_task_does_not_have_is_wrong_and_waiting_for_it_too(rules: Rules) -> None:
    plan = flow(("find_customer",), ("list_orders", "get_weather"), edges=[ORDER, ("find_customer", "get_weather")])
    found = run(plan, [CUSTOMER], [ORDERS, WEATHER], rules=rules)
    assert (found["dependencies"], found["minimal_layers"]) == (0.0, 0.0)
    assert found["frontier"] == 3 / 4  # get_weather was ready in both turns


def test_an_order_with_a_tool_that_the_task_does_not_name_is_not_judged_but_was_as_published() -> None:
    plan = flow(("get_news",), ("get_weather",), edges=[("get_news", "get_weather")])
    assert run(plan, [NEWS], [WEATHER])["reward"] == pytest.approx(1.0)
    assert run(plan, [NEWS], [WEATHER], rules=REFERENCE)["dependencies"] == 0.0


def test_a_reversed_order_is_neither_declared_nor_layered_right() -> None:
    plan = flow(("list_orders",), ("find_customer",), edges=[("list_orders", "find_customer")])
    found = run(plan, [Call("list_orders", {"customer": "C1"})], [CUSTOMER])
    assert (found["dependencies"], found["minimal_layers"]) == (0.0, 0.0)


def test_a_tool_that_is_listed_but_not_scheduled_is_due_and_not_minimal() -> None:
    plan = flow(("find_customer",), ("list_orders",), edges=[ORDER], extra=["get_weather"])
    found = run(plan, [CUSTOMER, ORDERS])
    assert (found["minimal_layers"], found["frontier"], found["work"]) == (0.0, 2 / 3, 3.0)
    assert run(plan, [CUSTOMER, ORDERS, WEATHER])["frontier"] == 1.0


def test_several_uses_of_a_tool_wait_for_what_each_declares() -> None:
    plan = flow(
        ("find_customer", "find_customer"),
        ("list_orders", "list_orders"),
        edges=[("find_customer#1", "list_orders#1"), ("find_customer#2", "list_orders#2")],
    )
    both = [Call("find_customer", {"name": n}, n) for n in ("Ada", "Bob")]
    orders = [Call("list_orders", {"customer": f"${n}.id", "n": n}) for n in ("Ada", "Bob")]
    assert run(plan, both, orders)["reward"] == pytest.approx(1.0)
    assert run(plan, [*both, *orders])["reward"] == pytest.approx(1.0)


# execution: the run


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE])
def test_a_linked_dag_in_one_turn_or_layer_by_layer_earns_all(rules: Rules) -> None:
    assert run(PLAN, [CUSTOMER, ORDERS, WEATHER], rules=rules)["reward"] == pytest.approx(1.0)
    assert run(PLAN, [CUSTOMER, WEATHER], [ORDERS], rules=rules)["reward"] == pytest.approx(1.0)


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE])
def test_one_call_after_the_other_leaves_what_was_ready(rules: Rules) -> None:
    assert run(PLAN, [CUSTOMER], [WEATHER], [ORDERS], rules=rules)["frontier"] == 3 / 5


def test_what_was_never_reached_was_due() -> None:
    assert run(PLAN, [CUSTOMER, WEATHER])["frontier"] == 2 / 3


def test_repeating_a_call_does_not_carry_out_the_next_use_of_its_tool() -> None:
    plan = flow(("get_weather", "get_weather"))
    assert run(plan, [WEATHER], [WEATHER])["frontier"] == 1 / 2
    assert run(plan, [WEATHER], [WEATHER], rules=REFERENCE)["frontier"] == 2 / 3


def test_a_failure_that_is_not_the_agents_fault_is_not_held_against_it() -> None:
    plan = flow(("get_weather", "locked"))
    assert run(plan, [WEATHER, Call("locked", {})])["frontier"] == 1.0
    plan = flow(("get_weather", "flaky"))
    flaky = Call("flaky", {})
    assert run(plan, [WEATHER, flaky], [flaky], down=4)["frontier"] == 1.0
    assert run(plan, [WEATHER, flaky], [flaky], rules=REFERENCE, down=4)["frontier"] == 2 / 3


def test_a_wrong_call_is_held_against_the_agent_until_it_is_right() -> None:
    plan = flow(("get_weather", "picky"))
    assert run(plan, [WEATHER, Call("picky", {})])["frontier"] == 1 / 2


def test_what_waits_for_a_blocked_use_was_not_due() -> None:
    plan = flow(("locked", "get_weather"), ("get_news",), edges=[("locked", "get_news")])
    assert run(plan, [Call("locked", {}), WEATHER])["frontier"] == 1.0


def test_turns_without_the_plan_that_was_due_are_a_window_worth_nothing() -> None:
    lines = [look(*NEEDED), do(CUSTOMER), do(ORDERS), do(WEATHER, plan=flow(("get_weather",))), say()]
    phase = phases(lines)[1]
    assert [(found.reward, found.work, found.turns) for found in phase.windows] == [
        (0.0, 2.0, (1, 2)),
        (pytest.approx(1.0), 1.0, (3,)),
    ]
    assert phase.reward == pytest.approx(1 / 3)


def test_windows_weigh_by_the_work_they_had_left() -> None:
    lines = [look(*NEEDED), do(CUSTOMER, ORDERS, plan=flow(("find_customer",), ("list_orders",)))]
    lines += [do(WEATHER, plan=flow(("get_weather",))), say()]
    phase = phases(lines)[1]
    assert [(round(w.reward, 6), w.work) for w in phase.windows] == [(0.8, 2.0), (1.0, 1.0)]
    assert phase.reward == pytest.approx((0.8 * 2 + 1.0) / 3)


def test_a_revision_after_a_failure_opens_a_window_for_what_is_left() -> None:
    everything = look(*NEEDED, "locked")
    plan = flow(("locked", "get_weather"))
    again = flow(("find_customer", "get_weather"), ("list_orders",), edges=[ORDER])
    lines = [everything, do(Call("locked", {}), WEATHER, plan=plan), do(CUSTOMER, ORDERS, plan=again), say()]
    phase = phases(lines)[1]
    assert [w.work for w in phase.windows] == [2.0, 2.0]
    assert phase.reward == pytest.approx(1.0)


def test_one_ungrounded_window_voids_the_phase_only_as_published() -> None:
    lines = [
        look("get_weather"),
        do(WEATHER, plan=flow(("get_weather",))),
        do(CUSTOMER, plan=flow(("find_customer",))),
    ]
    assert phases([*lines, say()])[1].reward == pytest.approx(0.5)
    assert phases([*lines, say()], REFERENCE)[1].reward == 0.0


# the level


def test_the_level_is_the_mean_over_scored_phases() -> None:
    lines = [look("get_weather", "get_news"), do(WEATHER, plan=flow(("get_weather",))), say()]
    assert score(play(lines)).levels.phase == pytest.approx((0.4 + 1.0) / 2)


def test_as_published_the_level_is_halved_and_paid_only_with_the_outcome() -> None:
    assert score(play(PERFECT), REFERENCE).levels.phase == pytest.approx(0.5)
    assert score(play([*PERFECT[:2], say("I forgot.")]), REFERENCE).levels.phase == 0.0


def test_a_repeated_search_between_two_call_turns_does_not_split_the_phase() -> None:
    lines = [look(*NEEDED), do(CUSTOMER, WEATHER, plan=PLAN), look("get_weather", plan=False), do(ORDERS), say()]
    found = phases(lines)
    assert [(phase.kind, phase.turns, phase.reward) for phase in found] == [
        ("exploration", (0,), 1.0),
        ("execution", (1, 3), pytest.approx(1.0)),
        ("answer", (4,), None),
    ]
    assert len(phases(lines, REFERENCE)) == 5

"""Every figure on an episode small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paraagent.agent.budget import Budget
from paraagent.agent.settings import Settings
from paraagent.env.task import Task
from paraagent.errors import ModelError
from paraagent.evaluate.metrics import METRICS, EpisodeMetrics, by_kind, episode_metrics, over, pass_k, table
from paraagent.protocol.render import render_turn
from paraagent.trace.events import CallEnd, CallStart, EpisodeEnd, EpisodeStart, Event, SearchDone, TurnText
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Search
from reward_play import (
    CUSTOMER,
    DIRECT,
    NEEDED,
    ORDERS,
    PERFECT,
    PLAN,
    TASK,
    UNANSWERABLE,
    WEATHER,
    do,
    look,
    play,
    say,
)


def figures(*lines: str | ModelError, task: Task | None = TASK, down: int = 1_000) -> EpisodeMetrics:
    found = episode_metrics(play(lines, task, down=down))
    assert found is not None
    return found


def test_a_perfect_episode_has_perfect_figures() -> None:
    found = figures(*PERFECT)
    assert (found.success, found.gold_recall, found.gold_precision, found.search_recall_5) == (1, 1, 1, 1)
    assert (found.turns, found.searches, found.calls, found.phase_switches) == (3, 3, 3, 1)
    assert found.width == 3
    assert (found.repeated, found.wasted, found.protocol_valid, found.plan_followed) == (0, 0, 1, 1)
    assert (found.refused_answerable, found.side_effect) == (0, 0)
    assert found.answered_unanswerable is None
    assert found.recovery is None
    assert found.money is None


def test_a_link_makes_the_critical_path_and_an_unneeded_wait_the_difference() -> None:
    found = figures(*PERFECT)
    assert found.critical_path == pytest.approx(2)
    assert found.makespan == pytest.approx(2)
    assert found.makespan_ratio == pytest.approx(1)


def test_built_in_policies_call_no_model_and_take_no_tokens() -> None:
    found = figures(*PERFECT)
    assert (found.model_calls, found.input_tokens, found.output_tokens) == (0, 0, 0)


def test_model_calls_tokens_and_money_are_what_the_turns_took() -> None:
    events: list[Event] = [
        EpisodeStart(version=1, run="r", episode="e", request="x", policy="p"),
        TurnText(0, "<think>t</think>", 0.0, 2.0, 100, 20, cost=0.5),
        TurnText(1, "<think>t</think>", 2.0, 3.0, 150, 10, cost=0.25),
        EpisodeEnd(at=3.0, stop_reason="answered", terminated=True, truncated=False, answer="y"),
    ]
    found = episode_metrics(EpisodeView(events))
    assert found is not None
    assert (found.model_calls, found.input_tokens, found.output_tokens, found.money) == (2, 250, 30, 0.75)
    assert found.success is None
    assert found.gold_recall is None


def test_recall_counts_what_was_done_and_precision_what_was_called() -> None:
    wrong = Call("get_weather", {"city": "Rome"})
    found = figures(look(*NEEDED), do(CUSTOMER, wrong, WEATHER), say())
    assert found.gold_recall == pytest.approx(2 / 3)
    assert found.gold_precision == pytest.approx(2 / 3)
    assert found.success == 0
    assert found.wasted == pytest.approx(1 / 6)


def test_precision_does_not_count_what_failed_by_no_fault_of_the_agent() -> None:
    flaky, picky = Call("flaky", {}), Call("picky", {})
    assert figures(look(*NEEDED, "flaky"), do(CUSTOMER, ORDERS, WEATHER, flaky), say()).gold_precision == 1
    assert figures(look(*NEEDED, "picky"), do(CUSTOMER, ORDERS, WEATHER, picky), say()).gold_precision == 0.75


def test_an_equivalent_tool_is_as_good() -> None:
    other = replace(CUSTOMER, name="lookup_customer")
    found = figures(look("lookup_customer", "list_orders", "get_weather"), do(other, ORDERS, WEATHER), say())
    assert (found.success, found.gold_recall, found.search_recall_1) == (1, 1, 1)


def test_search_recall_looks_only_at_the_first_hits() -> None:
    events = list(play(PERFECT).events)
    hits = [("get_news", 0.9), ("note", 0.8), ("get_weather", 0.7)]
    searches = [event for event in events if isinstance(event, SearchDone)]
    moved = EpisodeView(
        [
            SearchDone(e.turn, e.index, e.slot, e.query, hits, 9, False, 0, 0) if e is searches[2] else e
            for e in events
        ]
    )
    found = episode_metrics(moved)
    assert found is not None
    assert found.search_recall_1 == pytest.approx(2 / 3)
    assert found.search_recall_3 == 1


def test_a_fault_counts_as_recovered_once_its_call_succeeds() -> None:
    flaky = Call("flaky", {"n": 1})
    seen = look("flaky")
    assert figures(seen, do(flaky), do(flaky), say(), down=3).recovery == 1  # the runtime makes three attempts
    assert figures(seen, do(flaky), say()).recovery == 0
    assert figures(seen, do(flaky, Call("flaky", {"n": 2})), do(flaky), say(), down=6).recovery == 0.5
    assert figures(look("picky"), do(Call("picky", {})), say()).recovery is None  # the agent's own fault


def test_a_call_that_was_never_made_met_no_fault() -> None:
    calls = [Call("get_weather", {"city": str(number)}) for number in range(2)]
    found = episode_metrics(play([look("get_weather"), do(*calls), say()], settings=Settings(budget=Budget(calls=1))))
    assert found is not None
    assert found.calls == 2
    assert found.recovery is None


def test_looking_for_what_is_found_already_is_wasted_in_other_words_too() -> None:
    again = render_turn("look", searches=[Search("rain", "any get_weather")])
    found = figures(look("get_weather"), again, do(WEATHER), say())
    assert found.repeated == 0
    assert found.wasted == pytest.approx(1 / 3)


def test_repeats_are_wasted() -> None:
    found = figures(look("get_weather"), look("get_weather"), do(WEATHER), do(WEATHER), say())
    assert found.repeated == pytest.approx(2 / 4)
    assert found.wasted == pytest.approx(2 / 4)
    assert found.phase_switches == 1


def test_switching_back_and_forth_is_counted() -> None:
    found = figures(look("get_weather"), do(WEATHER), look("find_customer"), do(CUSTOMER), say())
    assert found.phase_switches == 3
    assert found.width == 1


def test_protocol_faults_and_missing_plans_are_shares_of_turns() -> None:
    found = figures("no tags at all", look(*NEEDED, plan=False), do(CUSTOMER, ORDERS, WEATHER, plan=PLAN), say())
    assert found.protocol_valid == pytest.approx(3 / 4)
    assert found.plan_followed == pytest.approx(3 / 4)
    assert found.turns == 4


def test_abstention_goes_wrong_in_two_ways() -> None:
    decline, claim = say("No tool can do that."), say("The moon has been polished.")
    assert figures(look("moon"), decline, task=UNANSWERABLE).answered_unanswerable == 0
    assert figures(look("moon"), claim, task=UNANSWERABLE).answered_unanswerable == 1
    assert figures(decline).refused_answerable == 1
    assert figures(look("moon"), decline, task=UNANSWERABLE).refused_answerable is None
    modest = say("Ada has 31 orders, and Oslo has 17 degrees. I could not find anything else.")
    assert figures(*PERFECT[:2], modest).refused_answerable == 0


def test_one_search_for_what_no_tool_does_is_not_wasted() -> None:
    decline = say("No tool can do that.")
    assert figures(look("moon"), decline, task=UNANSWERABLE).wasted == 0
    assert figures(look("moon"), look("sun"), decline, task=UNANSWERABLE).wasted == 0.5
    assert figures(look("get_weather"), say("42"), task=DIRECT).wasted == 1


def test_a_write_nobody_asked_for_is_a_side_effect_if_the_world_shows_it() -> None:
    view = play([look("note"), do(Call("note", {"text": "hi"})), say()])
    harmless = episode_metrics(view)
    assert harmless is not None
    assert harmless.side_effect == 0  # the desk's world ends as it should
    end = view.end
    assert end is not None
    checks = {**end.checks, "state": "a write too many"}
    spoilt = EpisodeEnd(
        at=end.at, stop_reason="answered", terminated=True, truncated=False, answer="x", success=False, checks=checks
    )
    found = episode_metrics(EpisodeView([*view.events[:-1], spoilt]))
    assert found is not None
    assert found.side_effect == 1


def test_masked_and_unfinished_episodes_have_no_figures() -> None:
    view = play([look("x"), ModelError("down")])
    assert episode_metrics(view) is None
    assert episode_metrics(EpisodeView(play(PERFECT).events[:-1])) is None


def test_an_episode_cut_off_counts_as_a_failure() -> None:
    found = episode_metrics(play([look("x")], settings=Settings(budget=Budget(turns=2))))
    assert found is not None
    assert (found.success, found.turns) == (0, 2)


def test_an_optional_argument_at_its_default_is_taken_from_the_verdict() -> None:
    events = [
        CallEnd(e.turn, e.index, e.name, {**e.arguments, "units": "metric"}, e.started, e.ended, value=e.value)
        if isinstance(e, CallEnd) and e.name == "get_weather"
        else e
        for e in play(PERFECT).events
        if not (isinstance(e, CallStart) and e.name == "get_weather")
    ]
    found = episode_metrics(EpisodeView(events))
    assert found is not None
    assert found.gold_recall == 1


def test_many_episodes_make_a_table_with_intervals() -> None:
    episodes = [figures(*PERFECT), figures(*PERFECT), figures(say("No tool can do that."))]
    found = table(episodes)
    assert found["success"].value == pytest.approx(2 / 3)
    assert found["success"].low == pytest.approx(0.2077, abs=1e-3)
    assert found["gold_precision"].n == 2  # the third called nothing
    assert "recovery" not in found
    assert over("money", episodes) is None
    assert set(found) <= {metric.name for metric in METRICS}


def test_kinds_are_kept_apart() -> None:
    episodes = [figures(*PERFECT), figures(say("42"), task=DIRECT)]
    assert {kind: len(some) for kind, some in by_kind(episodes).items()} == {"direct": 1, "mixed": 1}


def test_pass_at_k_and_pass_all_k_go_up_to_the_fewest_samples() -> None:
    one, two = pass_k({"a": [True, False, True], "b": [False, True]})
    assert (one.at_least_one.value, one.all_of_them.value) == (pytest.approx(7 / 12), pytest.approx(7 / 12))
    assert two.at_least_one.value == 1
    assert two.all_of_them.value == pytest.approx((1 / 3 + 0) / 2)
    assert pass_k({}) == []

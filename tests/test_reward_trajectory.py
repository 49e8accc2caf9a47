"""The trajectory level and the total: outcome, shares, penalties, and masks that are never a reward of 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from paraagent.env.task import GoldCall, GoldSlot, Task
from paraagent.errors import ModelError, TraceError
from paraagent.reward.asking import Unjudged
from paraagent.reward.judge import Judgement
from paraagent.reward.needs import needs
from paraagent.reward.record import Reward
from paraagent.reward.rules import DEFAULT, REFERENCE, Rules
from paraagent.reward.score import score
from paraagent.trace.events import EpisodeStart
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
    flow,
    look,
    play,
    render_turn,
    say,
)


def terms(reward: Reward) -> dict[str, float]:
    return {term.name: term.value for term in reward.trajectory.terms}


def earned(lines: Sequence[str], rules: Rules = DEFAULT, task: Task = TASK) -> dict[str, float]:
    return terms(score(play(lines, task), rules))


def test_a_perfect_episode_earns_the_maximum() -> None:
    reward = score(play(PERFECT))
    assert terms(reward) == {
        "outcome": 1.0,
        "calls_done": 1.0,
        "tools_surfaced": 1.0,
        "protocol": 0.0,
        "repeats": 0.0,
        "order": 0.0,
    }
    assert reward.levels.trajectory == pytest.approx(1.5)
    assert reward.total == pytest.approx(1.5 + 0.5 + 0.25)
    published = score(play(PERFECT), REFERENCE)
    assert published.levels.trajectory == pytest.approx(2.0)
    assert published.total == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        (DIRECT, [say("It is 42.")]),
        (UNANSWERABLE, [render_turn("t", searches=[Search("moon", "polish the moon")], plan=None), say("I cannot.")]),
    ],
)
def test_an_episode_that_rightly_calls_no_tool_earns_the_maximum_of_its_level(task: Task, lines: list[str]) -> None:
    assert score(play(lines, task)).levels.trajectory == pytest.approx(1.5)


def test_a_failed_episode_earns_by_what_it_did() -> None:
    lines = [
        look("find_customer", "get_weather"),
        do(WEATHER, plan=flow(("get_weather",))),
        say("Oslo has 17 degrees."),
    ]
    assert earned(lines) == {
        "outcome": 0.0,
        "calls_done": 1 / 3,
        "tools_surfaced": 2 / 3,
        "protocol": 0.0,
        "repeats": 0.0,
        "order": 0.0,
    }
    assert score(play(lines), REFERENCE).levels.trajectory == pytest.approx(-0.5 + 0.4 / 3 + 0.1 * 2 / 3)


def test_a_call_counts_as_done_only_with_the_right_arguments_but_by_name_as_published() -> None:
    lines = [look("get_weather"), do(Call("get_weather", {"city": "Rome"}), plan=flow(("get_weather",))), say()]
    assert earned(lines)["calls_done"] == 0.0
    assert earned(lines, REFERENCE)["calls_done"] == 1 / 3


def test_without_a_verdict_the_gold_calls_are_matched_here() -> None:
    view = play([*PERFECT[:2], say()], verified=False)
    judged = Judgement("YES", "YES", "YES", "fine")
    assert terms(score(view, DEFAULT, judged))["calls_done"] == 1.0


# protocol


@pytest.mark.parametrize(
    ("lines", "default", "published"),
    [
        ([say("dunno")], 0.5, 0.5),
        ([look("get_weather"), say("dunno")], 0.5, 0.5),
        ([do(WEATHER), say("dunno")], 0.5, 0.5),
        ([look("get_news"), do(Call("get_news", {})), say("dunno")], 0.5, 0.0),
        ([look("get_weather"), do(WEATHER), say("dunno")], 0.0, 0.0),
        (["hm", "hm", "hm"], 0.0, 0.0),
    ],
)
def test_skipping_the_loop_costs_half(lines: list[str], default: float, published: float) -> None:
    assert earned(lines)["protocol"] == default
    assert earned(lines, REFERENCE)["protocol"] == published


def test_a_right_answer_without_tools_costs_nothing_but_did_as_published() -> None:
    assert earned([say("It is 42.")], DEFAULT, DIRECT)["protocol"] == 0.0
    assert earned([say("It is 42.")], REFERENCE, DIRECT)["protocol"] == 0.5
    assert earned([say("It is 43.")], DEFAULT, DIRECT)["protocol"] == 0.0


# repeats


def test_repeats_are_counted_by_kind_up_to_a_cap() -> None:
    again = do(WEATHER)
    lines = [look(*NEEDED), do(CUSTOMER, ORDERS, WEATHER, plan=PLAN), *[again] * 3, look("get_weather"), say()]
    assert earned(lines)["repeats"] == pytest.approx(0.2 * 3 / 7 + 0.2 * 1 / 7)
    lines = [look(*NEEDED), do(CUSTOMER, ORDERS, WEATHER, plan=PLAN), *[again] * 10, say()]
    assert earned(lines)["repeats"] == pytest.approx(0.2)


def test_as_published_one_repeat_of_a_call_is_free_and_whole_turns_of_searches_count() -> None:
    again = do(WEATHER)
    lines = [look(*NEEDED), do(CUSTOMER, ORDERS, WEATHER, plan=PLAN), *[again] * 3, look("get_weather"), say()]
    assert earned(lines, REFERENCE)["repeats"] == pytest.approx(0.2 * 2 / 7)
    lines = [look(*NEEDED), look(*NEEDED[::-1], plan=False), *PERFECT[1:]]
    assert earned(lines, REFERENCE)["repeats"] == pytest.approx(0.2 * 1 / 7)
    picky = do(Call("picky", {}))
    lines = [look("picky"), do(Call("picky", {}), plan=flow(("picky",))), picky, say()]
    assert earned(lines, REFERENCE)["repeats"] == pytest.approx(0.2 * 1 / 7)


def test_the_same_plan_again_is_a_repeat() -> None:
    lines = [look(*NEEDED), do(CUSTOMER, plan=PLAN), do(WEATHER, plan=PLAN), do(ORDERS), say()]
    assert earned(lines)["repeats"] == pytest.approx(0.2 / 7)
    assert earned(lines, REFERENCE)["repeats"] == pytest.approx(0.2 / 7)


# order


GUESS = Call("list_orders", {"customer": "C7"})


@pytest.mark.parametrize(
    ("lines", "default", "published"),
    [
        (PERFECT, 0.0, 0.0),
        ([look(*NEEDED), do(CUSTOMER), do(GUESS), say()], 0.0, 0.0),
        ([look(*NEEDED), do(CUSTOMER, GUESS), say()], 0.3, 0.3),
        ([look(*NEEDED), do(GUESS), do(CUSTOMER), say()], 0.3, 0.0),
        ([look(*NEEDED), do(CUSTOMER, GUESS), do(ORDERS), say()], 0.3, 0.0),
        ([look(*NEEDED), do(CUSTOMER), say()], 0.0, 0.0),
    ],
)
def test_a_call_before_what_it_needs_breaks_the_order(lines: list[str], default: float, published: float) -> None:
    assert earned(lines)["order"] == pytest.approx(default)
    assert earned(lines, REFERENCE)["order"] == pytest.approx(published)


def test_as_published_an_identifier_from_the_request_excuses_the_order() -> None:
    given = Call("list_orders", {"customer": "CUS-77"})
    task = replace(TASK, request="Orders of CUS-77?")
    assert earned([look(*NEEDED), do(CUSTOMER, given), say()], REFERENCE, task)["order"] == 0.0


def test_an_order_binds_only_if_every_use_of_the_later_tool_has_it() -> None:
    calls = (
        GoldCall("c1", "find_customer", {}),
        GoldCall("c2", "list_orders", {"customer": "$c1.id"}),
        GoldCall("c3", "get_weather", {"city": "$c2.city"}),
        GoldCall("c4", "list_orders", {"customer": "C1"}),
    )
    slots = tuple(GoldSlot(name, name, (name,)) for name in NEEDED)
    found = needs(Task("t", "mixed", "train", 1, "", slots, calls))
    assert found.before == {(1, 2)}
    assert found.implied == {(0, 1), (1, 2), (0, 2)}


# masks


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE])
def test_a_broken_episode_is_masked_and_has_no_total(rules: Rules) -> None:
    reward = score(play([PERFECT[0], ModelError("endpoint down")]), rules)
    assert (reward.masked, reward.failure_kind, reward.total, reward.levels.trajectory) == (
        True,
        "endpoint down",
        None,
        None,
    )
    assert reward.turns[0].reward == 1.0


def test_an_episode_without_an_end_is_masked() -> None:
    whole = play(PERFECT)
    reward = score(EpisodeView(whole.events[:-1]))
    assert (reward.masked, reward.failure_kind) == (True, "unfinished")


def test_nobodys_verdict_is_no_verdict() -> None:
    view = play(PERFECT, None)
    reward = score(view)
    assert (reward.masked, reward.failure_kind, reward.total) == (True, "not_judged", None)
    reward = score(view, DEFAULT, Unjudged("judge_failed", "no answer"))
    assert (reward.masked, reward.failure_kind) == (True, "judge_failed")


def test_an_episode_that_ran_out_of_turns_is_a_failure_and_not_masked() -> None:
    reward = score(play(["hm", "hm", "hm"], None))
    assert (reward.masked, reward.levels.trajectory) == (False, 0.0)
    assert score(play(["hm", "hm", "hm"], None), REFERENCE).levels.trajectory == -0.5


def test_a_judged_episode_earns_the_judges_outcome() -> None:
    view = play(PERFECT, None)
    assert score(view, DEFAULT, Judgement("YES", "YES", "YES", "")).levels.trajectory == 1.0
    assert score(view, DEFAULT, Judgement("PARTIAL", "YES", "YES", "")).levels.trajectory == 0.75
    assert score(view, DEFAULT, Judgement("YES", "NO", "YES", "")).levels.trajectory == 0.0
    assert score(view, REFERENCE, Judgement("YES", "YES", "YES", "")).levels.trajectory == 1.5
    assert score(view, REFERENCE, Judgement("PARTIAL", "YES", "YES", "")).levels.trajectory == 0.5


def test_as_published_no_result_is_a_failure_whatever_the_judge_says() -> None:
    view = play([look("get_weather"), say()], None)
    judged = Judgement("YES", "YES", "YES", "")
    assert terms(score(view, REFERENCE, judged))["outcome"] == -0.5
    assert score(view, DEFAULT, judged).levels.trajectory == 1.0


def test_a_foreign_task_record_is_refused() -> None:
    start = EpisodeStart(version=1, run="r", episode="e7", request="x", policy="p", task={"id": 7})
    with pytest.raises(TraceError, match="e7: its task record cannot be read"):
        score(EpisodeView([start]))


def test_a_reward_goes_to_json_with_its_constants() -> None:
    record = score(play(PERFECT), REFERENCE).to_json()
    assert record["rules"] == REFERENCE.to_json()
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(record)), Reward) == score(
        play(PERFECT), REFERENCE
    )

"""How an agent explores, and each rule of the failure taxonomy on an episode that breaks just it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paraagent.agent.budget import Budget
from paraagent.agent.settings import Settings
from paraagent.env.task import Task
from paraagent.errors import ModelError
from paraagent.evaluate.behaviour import behaviour, behaviour_by_kind, exploration, failed
from paraagent.evaluate.failures import FAILURE_KINDS, Failure, failure
from paraagent.protocol.render import render_turn
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Search
from reward_play import CUSTOMER, DIRECT, NEEDED, ORDERS, PERFECT, TASK, UNANSWERABLE, WEATHER, do, look, play, say


def cause(*lines: str, task: Task = TASK, settings: Settings | None = None) -> Failure:
    found = failure(play(lines, task, settings=settings))
    assert found is not None
    return found


DONE = do(CUSTOMER, ORDERS, WEATHER)
CLAIM, DECLINE = say("Ada has 3 orders, and Oslo has 5 degrees."), say("I could not find that out.")


@pytest.mark.parametrize(
    ("kind", "lines", "says"),
    [
        ("malformed", ["what", "what", "what"], "could not be read"),
        ("no_evidence", [CLAIM], "without a search"),
        ("no_evidence", [look(*NEEDED), CLAIM], "without calling find_customer"),
        ("not_found", [look("list_orders", "get_weather"), do(WEATHER), CLAIM], "find_customer"),
        ("not_found", [look("get_weather"), do(CUSTOMER, WEATHER), CLAIM], "no search showed find_customer"),
        ("wrong_argument", [look("lookup_customer"), do(Call("lookup_customer", {"name": "Bob"})), CLAIM], "name"),
        ("wrong_tool", [look(*NEEDED, "get_news"), do(WEATHER, Call("get_news", {})), CLAIM], "get_news instead of"),
        ("wrong_tool", [look(*NEEDED), do(WEATHER, Call("", {})), CLAIM], "called what cannot be read instead of"),
        ("wrong_argument", [look(*NEEDED), do(replace(CUSTOMER, arguments={"name": "Bob"})), CLAIM], "another name"),
        ("wrong_argument", [look(*NEEDED), do(replace(CUSTOMER, arguments={})), CLAIM], "another name"),
        ("wrong_argument", [look(*NEEDED), do(CUSTOMER, Call("list_orders", {"customer": "C8"})), CLAIM], "customer"),
        (
            "wrong_argument",
            [look(*NEEDED), do(replace(CUSTOMER, arguments={"name": "Ada", "x": 1})), CLAIM],
            "an argument more",
        ),
        (
            "wrong_order",
            [look(*NEEDED), do(Call("list_orders", {"customer": "?"})), do(CUSTOMER, WEATHER), CLAIM],
            "list_orders before find_customer",
        ),
        ("gave_up", [look(*NEEDED), DECLINE], "never called"),
        ("gave_up", [look(*NEEDED), do(CUSTOMER), CLAIM], "list_orders was shown but never called"),
        ("side_effect", [look(*NEEDED, "note"), DONE, do(Call("note", {"text": "x"})), CLAIM], "note"),
        ("misreported", [look(*NEEDED), DONE, CLAIM], "31"),
    ],
)
def test_every_failure_has_its_first_cause(kind: str, lines: list[str], says: str) -> None:
    found = cause(*lines)
    assert found.kind == kind
    assert says in found.reason


def test_a_budget_that_ends_the_episode_is_the_cause_whatever_else_is_wrong() -> None:
    found = cause(look("get_weather"), settings=Settings(budget=Budget(turns=2)))
    assert found == Failure("ran_out", "turn limit after 2 turns")


def test_a_failure_that_was_not_got_around_is_giving_up() -> None:
    task = replace(TASK, slots=(), calls=(replace(TASK.calls[0], tool="flaky"),), facts=())
    found = cause(look("flaky"), do(Call("flaky", {"name": "Ada"})), say("Done."), task=task)
    assert found == Failure("gave_up", "flaky failed (unavailable) and was not got around")


def test_what_cannot_be_answered_and_what_needs_no_tool() -> None:
    assert cause(look("moon"), say("The moon shines."), task=UNANSWERABLE).kind == "no_evidence"
    assert cause(DECLINE, task=DIRECT).kind == "gave_up"
    assert cause(say("41"), task=DIRECT).kind == "misreported"


def test_success_and_what_nobody_judged_is_no_failure() -> None:
    assert failure(play(PERFECT)) is None
    assert failure(play([CLAIM], verified=False)) is None
    assert failure(play([ModelError("down")])) is None
    assert failure(EpisodeView(play([CLAIM]).events[:-1])) is None


def test_reasons_are_one_safe_line() -> None:
    hostile = Call("get_news\x1b[2J\n<script>", {})
    found = cause(look(*NEEDED), do(WEATHER, hostile), CLAIM)
    assert "\x1b" not in found.reason
    assert "\n" not in found.reason


def test_the_taxonomy_in_the_docs_is_the_one_in_the_code() -> None:
    import paraagent.evaluate.failures as module

    assert module.__doc__ is not None
    for kind in FAILURE_KINDS:
        assert f"\n    {kind} " in module.__doc__


def test_exploring_at_once_and_up_front() -> None:
    found = exploration(play(PERFECT))
    assert (found.first_call, found.upfront, found.width, found.widest) == (1, 1.0, 3.0, 3)
    assert found.returns == ()
    assert (found.again, found.rediscovered, found.in_vain) == (0.0, None, 0.0)


def test_going_back_to_exploring_and_why() -> None:
    lines = [
        look("get_weather", "locked"),
        do(WEATHER, Call("locked", {})),
        look("get_weather"),
        do(WEATHER),
        look("find_customer", "nowhere"),
        say(),
    ]
    found = exploration(play(lines))
    assert found.returns == ("failed_call", "nothing_failed")
    assert found.upfront == pytest.approx(2 / 5)
    assert found.width == pytest.approx(5 / 3)
    assert found.again == pytest.approx(1 / 5)
    assert found.rediscovered == pytest.approx(1 / 3)
    assert found.in_vain == pytest.approx(1 / 5)


def test_a_search_that_shows_anything_new_is_not_in_vain() -> None:
    both = render_turn("look", searches=[Search("more", "get_weather or find_customer")])
    assert exploration(play([look("get_weather"), both, say()])).rediscovered == 0
    known = render_turn("look", searches=[Search("again", "that get_weather")])
    assert exploration(play([look("get_weather"), known, say()])).rediscovered == 1


def test_episodes_are_summed_up_by_kind() -> None:
    views = [play(PERFECT), play([CLAIM]), play([say("41")], DIRECT), play([ModelError("down")])]
    kinds = behaviour_by_kind(views)
    assert {kind: found.episodes for kind, found in kinds.items()} == {"direct": 1, "mixed": 2}
    assert kinds["mixed"].failures == {"no_evidence": 1}
    assert kinds["mixed"].width is not None
    assert kinds["mixed"].width.n == 1
    assert kinds["direct"].width is None
    everything = behaviour(views)
    assert everything.episodes == 3
    assert everything.failures == {"no_evidence": 1, "misreported": 1}
    assert [found.kind for _, found in failed(views)] == ["no_evidence", "misreported"]

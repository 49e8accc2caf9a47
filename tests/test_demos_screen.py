"""What is kept and what is not: each reason by an episode that has just this flaw."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from paraagent.agent.budget import Budget
from paraagent.agent.context import Context
from paraagent.agent.settings import Settings
from paraagent.catalog.store import Catalog
from paraagent.demos.demo import Demo, from_view
from paraagent.demos.screen import Refusal, refusal
from paraagent.env.shapes import Dials
from paraagent.env.task import FaultSpec, Task
from paraagent.env.tasks import TaskSampler
from paraagent.errors import ModelError
from paraagent.evaluate.arena import Arena
from paraagent.protocol.plan import CallPlan, SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Reply, Search

LONG = 100_000


class Script:
    """Says its lines one after the other; the last one for ever."""

    name = "script"

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = list(lines)

    async def act(self, context: Context) -> Reply:
        if not self._lines:
            raise ModelError("endpoint down")
        return Reply(self._lines.pop(0) if len(self._lines) > 1 else self._lines[0])


class Case:
    """A single task and the turns of a perfect episode."""

    def __init__(self, catalog: Catalog, index: SearchIndex) -> None:
        self.arena = Arena(catalog, index)
        tasks = (TaskSampler(catalog, index).sample("train", "single", n, Dials(writes=0)) for n in range(99))
        self.task = next(t for t in tasks if isinstance(t, Task) and t.calls[0].arguments and t.facts)
        slot, gold = self.task.slots[0], self.task.calls[0]
        self.query, self.tool, self.arguments = slot.query, gold.tool, gold.arguments
        self.plan = CallPlan((gold.tool,), (), ((gold.tool,),))
        self.search = render_turn("s", plan=SearchPlan(("it",)), searches=[Search("it", slot.query)])
        self.call = render_turn("c", plan=self.plan, calls=[Call(gold.tool, gold.arguments)])
        self.answer = render_turn("a", answer=". ".join(f"{f.label}: {f.value}" for f in self.task.facts))

    def play(self, *lines: str, task: Task | None = None) -> tuple[EpisodeView, Demo]:
        recorder = Recorder()
        asyncio.run(self.arena.play(task or self.task, Script(lines), recorder))
        view = EpisodeView(recorder.events)
        return view, from_view(view, self.task, experts="script")

    def judge(self, *lines: str, max_tokens: int = LONG) -> Refusal | None:
        view, demo = self.play(*lines)
        return refusal(view, self.task, demo, max_tokens)


@pytest.fixture(scope="module")
def case(catalog: Catalog, index: SearchIndex) -> Case:
    return Case(catalog, index)


def test_a_perfect_episode_is_kept_and_learned_whole(case: Case) -> None:
    view, demo = case.play(case.search, case.call, case.answer)
    assert refusal(view, case.task, demo, LONG) is None
    assert demo.loss == (False, False, True, False, True, False, True)
    assert (demo.meta["searches"], demo.meta["calls"], demo.meta["turns"]) == (1, 1, 3)
    assert demo.meta["recovery"] == []
    assert demo.meta["tools"] == [case.tool]


def test_a_wrong_answer_is_unsolved(case: Case) -> None:
    assert case.judge(case.search, case.call, render_turn("a", answer="No idea.")) == "unsolved"


def test_a_dead_model_is_told_apart(case: Case) -> None:
    assert case.judge() == "model_failed"


def test_a_turn_without_think_breaks_the_protocol(case: Case) -> None:
    assert case.judge(case.search, case.call.replace("<think>c</think>\n", ""), case.answer) == "protocol"


def test_a_phase_without_a_plan_departs_from_the_plan(case: Case) -> None:
    bare = render_turn("c", calls=[Call(case.tool, case.arguments)])
    assert case.judge(case.search, bare, case.answer) == "plan"


def test_a_call_made_twice_is_a_repeat(case: Case) -> None:
    twice = CallPlan((case.tool,), (), ((case.tool, case.tool),))
    calls = [Call(case.tool, case.arguments)] * 2
    assert case.judge(case.search, render_turn("c", plan=twice, calls=calls), case.answer) == "repeated"


def test_a_search_for_what_is_not_needed_is_wasted(case: Case) -> None:
    plan = SearchPlan(("it", "more"))
    searches = [Search("it", case.query), Search("more", "weather forecast for tomorrow")]
    assert case.judge(render_turn("s", plan=plan, searches=searches), case.call, case.answer) == "wasted_search"


def test_a_search_that_is_put_right_is_not_wasted_but_not_learned(case: Case) -> None:
    lost = render_turn("s", plan=SearchPlan(("it",)), searches=[Search("it", "quantum horseshoe xylophone")])
    again = render_turn("s", searches=[Search("it", case.query)])
    view, demo = case.play(lost, again, case.call, case.answer)
    assert refusal(view, case.task, demo, LONG) is None
    assert demo.loss[2::2] == (False, True, True, True)
    assert demo.meta["recovery"] == ["requery"]


def test_asking_again_and_again_is_wasted(case: Case) -> None:
    lost = [render_turn("s", searches=[Search("it", f"horseshoe {n}")]) for n in range(2)]
    first = render_turn("s", plan=SearchPlan(("it",)), searches=[Search("it", "quantum xylophone")])
    again = render_turn("s", searches=[Search("it", case.query)])
    assert case.judge(first, *lost, again, case.call, case.answer) == "wasted_search"


def test_a_call_that_the_task_does_not_need_is_wasted(case: Case) -> None:
    view, _ = case.play(case.search, case.call, case.answer)
    found = next(iter(view.searches)).hits
    tools = [tool for name, _ in found if (tool := case.arena.catalog.get(name)) and name != case.tool]
    other = next(t for t in tools if t.effect == "read" and not t.parameters.get("required"))
    plan = CallPlan((case.tool, other.name), (), ((case.tool, other.name),))
    calls = [Call(case.tool, case.arguments), Call(other.name, {})]
    assert case.judge(case.search, render_turn("c", plan=plan, calls=calls), case.answer) == "wasted_call"


def test_one_corrected_mistake_is_kept_but_not_learned_and_two_are_too_many(case: Case) -> None:
    def wrong(name: str, first: bool) -> str:
        return render_turn("c", plan=case.plan if first else None, calls=[Call(case.tool, {name: 1})])

    right = render_turn("c", calls=[Call(case.tool, case.arguments)])
    view, demo = case.play(case.search, wrong("nonsense", True), right, case.answer)
    assert refusal(view, case.task, demo, LONG) is None
    assert demo.loss[2::2] == (True, False, True, True)
    assert demo.meta["recovery"] == ["correction"]
    assert case.judge(case.search, wrong("a", True), wrong("b", False), right, case.answer) == "wasted_call"


def test_a_value_that_no_message_has_shown_is_refused(case: Case) -> None:
    view, demo = case.play(case.search, case.call, case.answer)
    events = [replace_request(event) if index == 2 else event for index, event in enumerate(view.events)]
    assert refusal(EpisodeView(events), case.task, demo, LONG) == "unshown"


def replace_request(event: object) -> object:
    """Return the user's message without the values in it."""
    import msgspec

    return msgspec.structs.replace(event, content="Do it.")  # type: ignore[type-var]


def test_a_fact_that_was_cut_out_of_the_shown_result_is_refused(case: Case) -> None:
    short = Arena(case.arena.catalog, case.arena.index, Settings(durable=False, result_chars=20))
    recorder = Recorder()
    asyncio.run(short.play(case.task, Script([case.search, case.call, case.answer]), recorder))
    view = EpisodeView(recorder.events)
    assert refusal(view, case.task, from_view(view, case.task, experts="x"), LONG) == "unseen_fact"


def test_what_is_too_long_is_left_out(case: Case) -> None:
    assert case.judge(case.search, case.call, case.answer, max_tokens=50) == "too_long"


def test_a_budget_note_is_refused(case: Case) -> None:
    tight = Arena(case.arena.catalog, case.arena.index, Settings(durable=False, budget=Budget(turns=3)))
    recorder = Recorder()
    asyncio.run(tight.play(case.task, Script([case.search, case.call, case.answer]), recorder))
    view = EpisodeView(recorder.events)
    assert refusal(view, case.task, from_view(view, case.task, experts="x"), LONG) == "budget"


def test_a_passing_failure_that_is_retried_counts_as_recovery_and_is_learned(case: Case) -> None:
    faulty = replace(case.task, faults=(FaultSpec(case.tool, "unavailable", 3),))
    again = render_turn("c", calls=[Call(case.tool, case.arguments)])
    view, demo = case.play(case.search, case.call, again, case.answer, task=faulty)
    assert refusal(view, faulty, demo, LONG) is None
    assert demo.meta["recovery"] == ["retry"]
    assert all(demo.loss[2::2])


def test_searching_for_what_needs_no_tool_is_waste(case: Case, catalog: Catalog, index: SearchIndex) -> None:
    direct = TaskSampler(catalog, index).sample("train", "direct", 0)
    assert isinstance(direct, Task)
    answer = render_turn("a", answer=str(direct.literal_answer))
    for lines, verdict in (([answer], None), ([case.search, answer], "wasted_search")):
        view, demo = case.play(*lines, task=direct)
        assert refusal(view, direct, demo, LONG) == verdict

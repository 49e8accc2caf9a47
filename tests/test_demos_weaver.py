"""The weaver: six roles become one trajectory, and what comes back tells which of them works next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from paraagent.agent.loop import Loop
from paraagent.clock import VirtualClock
from paraagent.demos.roles import (
    Answer,
    AnswererBrief,
    Arrangement,
    Ask,
    Assignment,
    Cast,
    CoordinatorBrief,
    CriticBrief,
    ExecutorBrief,
    ExplorerBrief,
    Filled,
    GiveUp,
    Lead,
    Outline,
    Pick,
    PlannerBrief,
    Review,
    Slot,
)
from paraagent.demos.weaver import Weaver
from paraagent.errors import ModelError, ToolFailure
from paraagent.protocol.grammar import Turn, parse
from paraagent.protocol.plan import CallPlan, SearchPlan, Subgoal
from paraagent.trace.events import EpisodeEnd, EpisodeStart, Note
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Effects, Found, Hit, JsonObject, JsonValue, Search, Tool, Usage

SCHEMA: JsonObject = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
TOOLS = {
    name: Tool(name, f"Does {name}.", SCHEMA, {"type": "object", "properties": {"ref": {}}}, "read", provider="p")
    for name in ("orders", "parcels", "parcels_too", "weather")
}


@dataclass
class Desk:
    """A toolbox that finds tools by a word of the query and fails as it is told."""

    clock: VirtualClock
    failing: dict[str, list[ToolFailure]] = field(default_factory=dict)
    called: list[tuple[str, JsonObject]] = field(default_factory=list)

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        found = []
        for search in searches:
            hits = tuple(Hit(tool, 0.9, "") for name, tool in TOOLS.items() if name.startswith(search.query))
            found.append(Found(search, hits, len(TOOLS), not hits))
        return found

    def tool(self, name: str) -> Tool | None:
        return TOOLS.get(name)

    def suggestions(self, name: str) -> list[str]:
        return []

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        return Effects(writes=frozenset({f"p/{tool.name}"}))  # writes, so that the runtime repeats nothing

    def server(self, tool: Tool) -> str:
        return "p"

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        await self.clock.sleep(0.1)
        if "id" not in arguments:
            raise ToolFailure("invalid_args", '"id" is missing')
        if self.failing.get(tool.name):
            raise self.failing[tool.name].pop(0)
        self.called.append((tool.name, arguments))
        return {"ref": f"{tool.name}-{arguments['id']}"}


@dataclass
class Script:
    """A cast that finds `orders` and then `parcels`, which needs the order's reference."""

    linked: bool = True
    seen: list[object] = field(default_factory=list)
    queries: dict[str, list[str]] = field(default_factory=lambda: {"orders": ["orders"], "parcels": ["parcels"]})
    reviews: list[Review] = field(default_factory=list)
    arguments: Callable[[ExecutorBrief], JsonObject | None] | None = None

    def cast(self) -> Cast:
        return Cast(
            "script", self.plan, self.explore, self.coordinate, self.execute, self.answer, self.criticise, self.spent
        )

    def spent(self) -> Usage:
        return Usage(10, 1)

    async def plan(self, brief: PlannerBrief) -> Outline:
        self.seen.append(brief)
        slots = tuple(Slot(name, f"find {name}") for name in self.queries)
        return Outline(slots, (Subgoal("g1", "all of it"),), "plan it")

    async def explore(self, brief: ExplorerBrief) -> Lead:
        self.seen.append(brief)
        asked = self.queries[brief.slot.name]
        gone = {r.call.name for r in brief.failed if r.error and r.error.kind == "permission"}
        for hit in (hit for found in reversed(brief.found) for hit in found.hits):
            if hit.tool.name not in gone:
                return Pick(hit.tool, f"pick {hit.tool.name}")
        return Ask(asked[len(brief.found)], "ask") if len(brief.found) < len(asked) else GiveUp("give up")

    async def coordinate(self, brief: CoordinatorBrief) -> Arrangement:
        self.seen.append(brief)
        calls = [
            Assignment("o", "orders", "get the order"),
            Assignment("p", "parcels", "find its parcel", ("o",)),
        ]
        return Arrangement(tuple(a for a in calls if a.slot in brief.picks and a.id not in brief.done), "arrange")

    async def execute(self, brief: ExecutorBrief) -> Filled:
        self.seen.append(brief)
        if self.arguments is not None:
            return Filled(self.arguments(brief), "fill")
        if brief.assignment.id == "o":
            return Filled({"id": "A1"})
        return Filled({"id": brief.done["o"]["ref"] if "o" in brief.done else "$o.ref"})  # type: ignore[index,call-overload]

    async def answer(self, brief: AnswererBrief) -> Answer:
        self.seen.append(brief)
        return Answer(f"done {sorted(brief.done)}, without {[slot.name for slot in brief.given_up]}", "answer it")

    async def criticise(self, brief: CriticBrief) -> Review:
        self.seen.append(brief)
        return self.reviews.pop(0) if self.reviews else Review()

    def briefs(self, kind: type) -> list[object]:
        return [brief for brief in self.seen if isinstance(brief, kind)]


@dataclass
class Played:
    view: EpisodeView
    end: EpisodeEnd
    desk: Desk
    weaver: Weaver

    @property
    def turns(self) -> list[Turn]:
        return [parse(turn.text) for turn in self.view.turns]

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.view.events if isinstance(event, Note)]


def play(script: Script, failing: dict[str, list[ToolFailure]] | None = None) -> Played:
    async def run() -> Played:
        clock, recorder = VirtualClock(), Recorder()
        desk, weaver = Desk(clock, failing or {}), Weaver(script.cast(), linked=script.linked)
        start = EpisodeStart(version=1, run="r", episode="e", request="Where is the parcel of A1?", policy="x")
        end = await Loop(start, weaver, desk, clock, recorder).run()
        return Played(EpisodeView(recorder.events), end, desk, weaver)

    return asyncio.run(run())


def test_all_slots_are_searched_at_once_and_a_linked_chain_runs_in_one_turn() -> None:
    played = play(Script())
    search, calls, answer = played.turns
    assert search.plan == SearchPlan(("orders", "parcels"), (Subgoal("g1", "all of it"),))
    assert [s.query for s in search.searches] == ["orders", "parcels"]
    assert isinstance(calls.plan, CallPlan)
    assert calls.plan.execution_flow == (("orders",), ("parcels",))
    assert [(c.name, c.id) for c in calls.calls] == [("orders", "o"), ("parcels", None)]
    assert answer.answer == "done ['o', 'p'], without []"
    assert played.desk.called == [("orders", {"id": "A1"}), ("parcels", {"id": "orders-A1"})]
    assert played.notes == []


def test_without_links_each_layer_waits_for_the_one_before_and_the_plan_is_written_once() -> None:
    played = play(Script(linked=False))
    _, first, second, _ = played.turns
    assert [c.name for c in first.calls] == ["orders"]
    assert isinstance(first.plan, CallPlan)
    assert first.plan.execution_flow == (("orders",), ("parcels",))
    assert [(c.name, c.arguments) for c in second.calls] == [("parcels", {"id": "orders-A1"})]  # type: ignore[union-attr]
    assert not second.has_plan
    assert played.notes == []


def test_an_executor_that_cannot_know_the_link_waits_for_the_result() -> None:
    def arguments(brief: ExecutorBrief) -> JsonObject | None:
        if brief.assignment.id == "o":
            return {"id": "A1"}
        return {"id": "seen"} if "o" in brief.done else None

    played = play(Script(arguments=arguments))
    assert [[c.name for c in turn.calls] for turn in played.turns] == [[], ["orders"], ["parcels"], []]
    assert played.notes == []


def test_thoughts_of_the_roles_whose_work_is_in_a_turn_are_in_its_think() -> None:
    played = play(Script())
    assert [turn.think for turn in played.turns] == [
        "plan it\nask\nask",
        "pick orders\npick parcels\narrange",
        "answer it",
    ]


def test_explorers_and_executors_work_side_by_side() -> None:
    class Meeting(Script):
        async def explore(self, brief: ExplorerBrief) -> Lead:
            await asyncio.wait_for(both.wait(), 5)  # alone, an explorer would wait here in vain
            return await super().explore(brief)

    both = asyncio.Barrier(2)
    assert play(Meeting()).end.stop_reason == "answered"


def test_an_explorer_asks_again_and_gives_up_in_the_end() -> None:
    played = play(Script(queries={"orders": ["orders"], "parcels": ["letters", "boats"]}))
    first, second, calls, answer = played.turns
    assert [(s.slot, s.query) for s in second.searches] == [("parcels", "boats")]
    assert not second.has_plan
    assert [c.name for c in calls.calls] == ["orders"]
    assert answer.answer == "done ['o'], without ['parcels']"
    assert played.notes == []
    assert len(first.searches) == 2


def test_nothing_is_searched_for_ever() -> None:
    queries = {"orders": [f"nothing {number}" for number in range(50)]}
    played = play(Script(queries=queries))
    assert [turn.kind for turn in played.turns] == ["exploration"] * 4 + ["answer"]


def test_a_passing_failure_is_repeated_with_what_hangs_on_it_and_no_new_plan() -> None:
    failing = {"orders": [ToolFailure("unavailable", "try later", injected=True)]}
    played = play(Script(), failing)
    _, first, second, answer = played.turns
    assert [c.name for c in first.calls] == [c.name for c in second.calls] == ["orders", "parcels"]
    assert not second.has_plan
    assert answer.kind == "answer"
    assert played.notes == []


def test_a_lasting_failure_leads_to_another_tool_and_a_revised_plan() -> None:
    failing = {"parcels": [ToolFailure("permission", "no", injected=True)] * 9}
    script = Script()
    played = play(script, failing)
    _, _, second, answer = played.turns
    assert [c.name for c in second.calls] == ["parcels_too"]
    assert isinstance(second.plan, CallPlan)
    assert second.plan.execution_flow == (("parcels_too",),)
    assert answer.answer == "done ['o', 'p'], without []"
    assert played.notes == []
    last = script.briefs(ExplorerBrief)[-1]
    assert isinstance(last, ExplorerBrief)
    assert [r.call.name for r in last.failed] == ["parcels"]


def test_a_tool_with_no_substitute_at_hand_is_searched_for_in_a_new_phase() -> None:
    class Narrow(Script):
        async def explore(self, brief: ExplorerBrief) -> Lead:
            lead = await super().explore(brief)
            if brief.slot.name == "parcels" and brief.failed and len(brief.found) < 2:
                return Ask("parcels_too", "look for another")
            return lead

    failing = {"parcels": [ToolFailure("permission", "no", injected=True)] * 9}
    played = play(Narrow(), failing)
    assert [turn.kind for turn in played.turns] == ["exploration", "execution", "exploration", "execution", "answer"]
    assert played.turns[2].plan == SearchPlan(("parcels",))
    assert played.notes == []


def test_wrong_arguments_go_back_to_the_executor_with_what_the_tool_said() -> None:
    def arguments(brief: ExecutorBrief) -> JsonObject:
        return {"id": "A1"} if brief.feedback else {}

    script = Script(arguments=arguments, queries={"orders": ["orders"]})
    played = play(script)
    assert [[c.arguments for c in turn.calls] for turn in played.turns[1:3]] == [[{}], [{"id": "A1"}]]  # type: ignore[union-attr]
    brief = script.briefs(ExecutorBrief)[-1]
    assert isinstance(brief, ExecutorBrief)
    assert brief.feedback == ('"id" is missing',)
    assert not any(isinstance(b, ExplorerBrief) and b.failed for b in script.seen)


@pytest.mark.parametrize("role", ["planner", "explorer", "coordinator", "executor", "answerer"])
def test_the_critic_sends_work_back_to_a_role_with_the_reason(role: str) -> None:
    at = {"planner": 0, "explorer": 0, "coordinator": 1, "executor": 1, "answerer": 2}[role]
    reviews = [Review()] * at + [Review(role, "not good")]  # type: ignore[arg-type]
    script = Script(reviews=reviews)
    played = play(script)
    assert len(played.turns) == 3
    kinds = {
        "planner": PlannerBrief,
        "explorer": ExplorerBrief,
        "coordinator": CoordinatorBrief,
        "executor": ExecutorBrief,
        "answerer": AnswererBrief,
    }
    told = [b for b in script.briefs(kinds[role]) if b.feedback == ("not good",)]  # type: ignore[attr-defined]
    assert len(told) == {"explorer": 2, "executor": 2}.get(role, 1)
    assert played.weaver.refused is None
    thinks = [turn.think.splitlines() for turn in played.turns]
    assert all(len(lines) == len(set(lines)) or lines == ["plan it", "ask", "ask"] for lines in thinks)


def test_a_critic_that_is_never_satisfied_does_not_hang_the_episode_but_is_remembered() -> None:
    played = play(Script(reviews=[Review("planner", "no")] * 3))
    assert played.end.stop_reason == "answered"
    assert played.weaver.refused == Review("planner", "no")


def test_no_slots_mean_an_answer_at_once() -> None:
    class Wise(Script):
        async def plan(self, brief: PlannerBrief) -> Outline:
            return Outline((), thought="no tool needed")

    played = play(Wise())
    assert [turn.kind for turn in played.turns] == ["answer"]


def test_a_role_that_cannot_be_played_masks_the_episode() -> None:
    class Dead(Script):
        async def coordinate(self, brief: CoordinatorBrief) -> Arrangement:
            raise ModelError("endpoint down")

    end = play(Dead()).end
    assert (end.stop_reason, end.mask_sample, end.failure_kind) == ("model_error", True, "endpoint down")


def test_tokens_of_all_roles_are_charged_to_the_turn() -> None:
    played = play(Script())
    assert played.view.measures.input_tokens == 30
    assert played.view.measures.output_tokens == 3


def test_an_executor_is_told_whose_results_it_waits_for_and_those_that_are_there() -> None:
    script = Script(linked=False)
    play(script)
    first, last = script.briefs(ExecutorBrief)
    assert isinstance(first, ExecutorBrief)
    assert isinstance(last, ExecutorBrief)
    assert (first.producers, last.producers) == ({}, {"o": TOOLS["orders"]})
    assert last.done == {"o": {"ref": "orders-A1"}}

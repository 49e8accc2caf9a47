"""The loop: what a policy writes is run, recorded and told back, whatever it writes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from paraagent.agent.budget import Budget
from paraagent.agent.context import Context
from paraagent.agent.loop import Loop
from paraagent.agent.settings import Settings
from paraagent.clock import VirtualClock
from paraagent.errors import ModelError, ToolFailure, UsageError
from paraagent.protocol.plan import CallPlan, Dependency, SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.trace.events import CallEnd, CallStart, EpisodeEnd, EpisodeStart, Note, Prompt
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Effects, Found, Hit, JsonObject, JsonValue, Reply, Search, Tool, Usage

TOOLS = {
    name: Tool(name, f"Does {name}.", {"type": "object", "properties": {}}, {"type": "object"}, effect, provider="p")
    for name, effect in [("get_order", "read"), ("track", "read"), ("pay", "create"), ("broken", "read")]
}


class Shop:
    """A toolbox whose calls take a second of virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.called: list[tuple[str, JsonObject]] = []

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        hits = tuple(Hit(tool, 0.9, "name") for tool in TOOLS.values() if tool.name != "pay")
        return [Found(s, () if s.slot == "none" else hits, len(TOOLS), s.slot == "none") for s in searches]

    def tool(self, name: str) -> Tool | None:
        return TOOLS.get(name)

    def suggestions(self, name: str) -> list[str]:
        return ["get_order"]

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        return Effects(reads=frozenset({"p"})) if tool.effect == "read" else Effects(writes=frozenset({"p"}))

    def server(self, tool: Tool) -> str:
        return tool.provider

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        self.called.append((tool.name, arguments))
        await self.clock.sleep(1.0)
        if tool.name == "broken":
            raise ToolFailure("tool_error", "out of paper", injected=True)
        return {"parcel": "P7", "echo": arguments}


class Script:
    """Says its lines one after the other."""

    name = "script"

    def __init__(self, lines: Sequence[str | Exception]) -> None:
        self.lines = list(lines)
        self.seen: list[list[str]] = []

    async def act(self, context: Context) -> Reply:
        self.seen.append([message.content for message in context.messages])
        line = self.lines[min(len(self.seen), len(self.lines)) - 1]
        if isinstance(line, Exception):
            raise line
        return Reply(line, Usage(100, 10))


def play(
    lines: Sequence[str | Exception], settings: Settings | None = None
) -> tuple[EpisodeView, EpisodeEnd, Shop, Script]:
    async def run() -> tuple[EpisodeView, EpisodeEnd, Shop, Script]:
        clock = VirtualClock()
        shop, script, recorder = Shop(clock), Script(lines), Recorder(None)
        start = EpisodeStart(version=1, run="r", episode="e", request="Where is order A1?", policy="script")
        end = await Loop(start, script, shop, clock, recorder, settings).run()
        return EpisodeView(recorder.events), end, shop, script

    return asyncio.run(run())


SEARCH = render_turn("look", plan=SearchPlan(("order",)), searches=[Search("order", "find an order")])
ANSWER = render_turn("done", answer="It is in parcel P7.")
CHAIN = render_turn(
    "both",
    plan=CallPlan(("get_order", "track"), (Dependency(("get_order",), "track"),), (("get_order",), ("track",))),
    calls=[Call("get_order", {"id": "A1"}, "o"), Call("track", {"parcel": "$o.parcel"})],
)


def test_a_linked_chain_runs_in_one_turn_and_its_results_come_in_call_order() -> None:
    view, end, shop, _ = play([SEARCH, CHAIN, ANSWER])
    assert end.stop_reason == "answered"
    assert end.terminated
    assert end.answer == "It is in parcel P7."
    assert shop.called == [("get_order", {"id": "A1"}), ("track", {"parcel": "P7"})]
    calls = list(view.calls)
    assert [call.name for call in calls] == ["get_order", "track"]
    assert calls[1].started == pytest.approx(1.0)
    assert [phase.kind for phase in view.phases] == ["exploration", "execution", "answer"]
    assert not [event for event in view.events if isinstance(event, Note)]


def test_the_prompt_only_grows_and_the_trace_holds_exactly_what_the_model_saw() -> None:
    view, _, _, script = play([SEARCH, CHAIN, ANSWER])
    for before, after in zip(script.seen, script.seen[1:], strict=False):
        assert after[: len(before)] == before
    assert [message.content for message in view.messages] == [*script.seen[-1], ANSWER]


def test_a_failed_call_leaves_its_sibling_its_result() -> None:
    turn = render_turn("t", calls=[Call("broken", {}), Call("get_order", {"id": "A1"})])
    view, _, _, script = play([SEARCH, turn, ANSWER])
    assert [call.ok for call in view.calls] == [False, True]
    observation = script.seen[-1][-1]
    assert observation.index("out of paper") < observation.index('"parcel":"P7"')


def test_a_tool_no_search_has_shown_is_refused_with_its_card_and_its_sibling_runs() -> None:
    turn = render_turn("t", calls=[Call("pay", {}), Call("get_order", {})])
    view, _, shop, script = play([SEARCH, turn, ANSWER])
    assert [name for name, _ in shop.called] == ["get_order"]
    assert "no search has shown this tool" in script.seen[-1][-1]
    assert "Does pay" in script.seen[-1][-1]
    assert [call.end.error if call.end else None for call in view.calls] == ["tool_not_found", None]


def test_an_unknown_tool_and_a_broken_call_get_one_answer_each_in_order() -> None:
    turn = (
        "<think>t</think><tool_call>{nope</tool_call>" + render_turn("", calls=[Call("fly", {})]).split("</think>")[1]
    )
    view, _, _, script = play([SEARCH, turn, ANSWER])
    ends = [event for event in view.events if isinstance(event, CallEnd)]
    assert sorted(event.index for event in ends) == [0, 1]
    observation = script.seen[-1][-1]
    assert observation.count("<tool_response>") == 2
    assert "get_order" in observation


def test_malformed_turns_are_told_and_end_the_episode_only_when_they_go_on() -> None:
    _, end, _, script = play(["hm", "hm", ANSWER])
    assert end.stop_reason == "answered"
    assert "Note:" in script.seen[1][-1]
    _, end, _, script = play(["hm", "hm", "hm", ANSWER])
    assert (end.stop_reason, end.terminated, end.truncated) == ("invalid_turns", False, True)
    assert len(script.seen) == 3


def test_the_last_turn_is_announced_and_then_the_episode_is_truncated() -> None:
    _, end, _, script = play([SEARCH], Settings(budget=Budget(turns=3)))
    assert (end.stop_reason, end.truncated, end.mask_sample) == ("turn_limit", True, False)
    assert len(script.seen) == 3
    assert "last turn" in script.seen[2][-1]
    assert "last turn" not in script.seen[1][-1]


def test_searches_and_calls_beyond_the_budget_are_refused_and_insisting_ends() -> None:
    _, end, _, script = play([SEARCH], Settings(budget=Budget(searches=1)))
    assert end.stop_reason == "search_limit"
    assert "search budget is used up" in script.seen[2][-1]
    calls = render_turn("t", calls=[Call("get_order", {"n": n}) for n in range(3)])
    _, end, shop, script = play([SEARCH, calls], Settings(budget=Budget(calls=2)))
    assert end.stop_reason == "call_limit"
    assert len(shop.called) == 2
    assert script.seen[2][-1].count("<tool_response>") == 3


def test_the_time_budget_cuts_a_group_and_keeps_what_was_done() -> None:
    view, end, _, _ = play([SEARCH, CHAIN, ANSWER], Settings(budget=Budget(seconds=1.5)))
    assert end.stop_reason == "time_limit"
    assert [call.end.error if call.end else "?" for call in view.calls] == [None, "cancelled"]


def test_the_token_budget_ends_the_episode() -> None:
    _, end, _, _ = play([SEARCH], Settings(budget=Budget(tokens=200)))
    assert end.stop_reason == "token_limit"


def test_a_dead_model_masks_the_episode_and_is_no_failure_of_the_agent() -> None:
    _, end, _, _ = play([SEARCH, ModelError("endpoint down")])
    assert (end.stop_reason, end.mask_sample, end.success) == ("model_error", True, None)
    assert end.failure_kind == "endpoint down"


@pytest.mark.parametrize(
    ("answer", "says"),
    [(OSError("index is gone"), "index is gone"), (OSError(), "OSError"), ([], "1 queries got 0 answers")],
)
def test_a_toolbox_that_cannot_search_masks_the_episode(
    monkeypatch: pytest.MonkeyPatch, answer: Exception | list[Found], says: str
) -> None:
    async def search(self: object, searches: object) -> list[Found]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Shop, "search", search)
    view, end, _, _ = play([SEARCH, ANSWER])
    assert (end.stop_reason, end.mask_sample, end.success) == ("search_error", True, None)
    assert end.failure_kind == f"the search failed: {says}"
    assert view.end == end


def test_cancelling_closes_the_trace_as_cancelled() -> None:
    async def run() -> Recorder:
        clock, recorder = VirtualClock(), Recorder(None)

        class Stuck:
            name = "stuck"

            async def act(self, context: Context) -> Reply:
                await asyncio.Event().wait()
                raise AssertionError

        start = EpisodeStart(version=1, run="r", episode="e", request="x", policy="stuck")
        task = asyncio.create_task(Loop(start, Stuck(), Shop(clock), clock, recorder).run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return recorder

    end = asyncio.run(run()).events[-1]
    assert isinstance(end, EpisodeEnd)
    assert (end.stop_reason, end.mask_sample) == ("cancelled", True)


def test_enforced_plans_refuse_what_is_not_ready() -> None:
    turn = render_turn("t", calls=[Call("track", {})])
    _, _, shop, script = play([SEARCH, turn, ANSWER], Settings(plan="enforce"))
    assert shop.called == []
    assert "plan" in script.seen[-1][-1]


def test_repeated_identical_calls_have_different_idempotency_keys() -> None:
    turn = render_turn("t", calls=[Call("get_order", {"id": "A1"})])
    view, _, _, _ = play([SEARCH, turn, turn, ANSWER])
    keys = [event.key for event in view.events if isinstance(event, CallStart)]
    assert len(keys) == len(set(keys)) == 2
    again, _, _, _ = play([SEARCH, turn, turn, ANSWER])
    assert keys == [event.key for event in again.events if isinstance(event, CallStart)]


def test_nothing_fits_is_said_to_the_model() -> None:
    search = render_turn("look", plan=SearchPlan(("none",)), searches=[Search("none", "teleport")])
    view, _, _, _ = play([search, ANSWER])
    told = [event.content for event in view.events if isinstance(event, Prompt)]
    assert "nothing fits among 4 tools" in told[-1]


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="turns budget"):
        Budget(turns=0)


def test_a_shared_result_points_at_the_call_that_ran_even_after_a_refused_one() -> None:
    turn = render_turn("t", calls=[Call("pay", {}), Call("get_order", {"n": 1}), Call("get_order", {"n": 1})])
    view, _, shop, _ = play([SEARCH, turn, ANSWER])
    assert len(shop.called) == 1
    assert [call.end.shared_with if call.end else None for call in view.calls] == [None, None, 1]


def test_a_failure_made_on_purpose_is_marked_in_the_trace() -> None:
    turn = render_turn("t", calls=[Call("broken", {}), Call("get_order", {})])
    view, _, _, _ = play([SEARCH, turn, ANSWER])
    assert [call.end.injected if call.end else None for call in view.calls] == [True, False]

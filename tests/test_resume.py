"""Going on after a crash: at whatever event an episode stopped, nothing is done twice and no result is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest

from paraagent.agent.budget import Budget
from paraagent.agent.context import Context
from paraagent.agent.loop import Loop
from paraagent.agent.past import Past
from paraagent.agent.settings import Settings
from paraagent.clock import VirtualClock
from paraagent.errors import ToolFailure, TraceError
from paraagent.protocol.render import render_turn
from paraagent.trace.events import CallEnd, CallStart, EpisodeEnd, EpisodeStart, Event, SearchDone, TurnText
from paraagent.trace.reader import load
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Effects, Found, Hit, JsonObject, JsonValue, Reply, Search, Tool

TOOLS = {
    name: Tool(name, f"Does {name}.", {"type": "object"}, {"type": "object"}, effect, provider="p")
    for name, effect in [("read", "read"), ("write", "create"), ("fail", "read")]
}
START = EpisodeStart(version=1, run="r", episode="e", request="Do it.", policy="script")


class Ledger:
    """A real world: it keeps what was written, whatever becomes of the agent."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.clock = VirtualClock()

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        hits = tuple(Hit(tool, 0.9, "") for tool in TOOLS.values())
        return [Found(search, hits, len(TOOLS), False) for search in searches]

    def tool(self, name: str) -> Tool | None:
        return TOOLS.get(name)

    def suggestions(self, name: str) -> list[str]:
        return []

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        key = frozenset({f"p/{arguments.get('key')}"})
        return Effects(writes=key) if tool.name == "write" else Effects(reads=key)

    def server(self, tool: Tool) -> str:
        return "p"

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        await self.clock.sleep(random.Random(str(arguments)).uniform(0.1, 1.0))
        if tool.name == "write":
            self.written[str(arguments["key"])] += 1
        if tool.name == "fail":
            raise ToolFailure("tool_error", "out of order")
        return {"key": f"{arguments.get('key')}!"}


class Script:
    """Answers by the number of turns so far, as a model that sees the same prompt would."""

    name = "script"

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.prompts: list[list[str]] = []

    async def act(self, context: Context) -> Reply:
        self.prompts.append([message.content for message in context.messages])
        return Reply(self.lines[len(context.exchanges)], seconds=0.2)


LINES = [
    render_turn("look", searches=[Search("a", "read"), Search("b", "write")]),
    render_turn(
        "go",
        calls=[
            Call("write", {"key": "one"}, "w"),
            Call("read", {"key": "$w.key"}),
            Call("write", {"key": "two"}),
            Call("write", {"key": "two"}),
            Call("fail", {}),
        ],
    ),
    render_turn("more", calls=[Call("read", {"key": "x"}, "x"), Call("write", {"key": "$x.key"})]),
    render_turn("done", answer="All done."),
]


def play(
    path: Path,
    world: Ledger,
    lines: Sequence[str] = LINES,
    *,
    resume: bool = False,
    settings: Settings | None = None,
) -> tuple[Script, list[Counter[str]]]:
    """Play or go on; return also what had been written to the world just before each event was recorded."""
    script, history = Script(lines), []

    async def run() -> None:
        recorder = Recorder.resume(path) if resume else Recorder(path)
        past = Past(recorder.events)
        world.clock = VirtualClock()
        world.clock.advance(past.at)
        loop = Loop(START, script, world, world.clock, recorder, settings, past=past)
        write = recorder.write

        def watched(event: Event, durable: bool = False) -> None:
            history.append(world.written.copy())
            write(event, durable)

        recorder.write = watched  # type: ignore[method-assign, assignment]
        with recorder:
            await loop.run()

    asyncio.run(run())
    return script, history


def crash(tmp_path: Path, point: int, late: bool, script: Sequence[str] = LINES) -> tuple[Path, Ledger]:
    """Return the trace and the world of an episode that died after that many events.

    `late` means just before the next event would have been recorded, else right after the last one was.
    """
    path = tmp_path / f"{point}-{late}.jsonl"
    if not (tmp_path / "whole.jsonl").exists():
        whole(tmp_path, script)
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:point]))
    _, history = play(tmp_path / f"{point}-{late}-twin.jsonl", Ledger(), script)
    world = Ledger()
    world.written = history[point if late else point - 1].copy()
    return path, world


def whole(tmp_path: Path, lines: Sequence[str] = LINES) -> EpisodeView:
    play(tmp_path / "whole.jsonl", Ledger(), lines)
    return load(tmp_path / "whole.jsonl")


def after_every_crash(tmp_path: Path, calls: Sequence[Call]) -> Iterator[tuple[EpisodeView, Counter[str]]]:
    """Yield how an episode with one turn of these calls ends after each crash, and what was written."""
    lines = [LINES[0], render_turn("go", calls=calls), render_turn("done", answer="All done.")]
    for point, late in product(range(1, len(whole(tmp_path, lines).events)), (False, True)):
        path, world = crash(tmp_path, point, late, lines)
        play(path, world, lines, resume=True)
        yield load(path), world.written


def unknown(view: EpisodeView) -> int:
    return sum(call.end is not None and call.end.error == "outcome_unknown" for call in view.calls)


def test_at_every_event_a_crash_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    reference = whole(tmp_path)
    for point, late in product(range(1, len(reference.events)), (False, True)):
        path, world = crash(tmp_path, point, late)
        play(path, world, resume=True)
        view = load(path)
        assert view.answer == "All done.", point
        assert max(world.written.values()) == 1, (point, world.written)
        ends = Counter((end.turn, end.index) for end in view.events if isinstance(end, CallEnd))
        assert set(ends.values()) == {1}, point
        assert len(ends) == 7, point
        assert len([event for event in view.events if isinstance(event, TurnText)]) == 4
        unknown = [call for call in view.calls if call.end and call.end.error == "outcome_unknown"]
        assert len(unknown) <= 3, point
        if not unknown:
            assert world.written == {"one": 1, "two": 1, "x!": 1}, point


def test_a_resumed_model_sees_the_prompt_it_would_have_seen(tmp_path: Path) -> None:
    reference = whole(tmp_path)
    after_first_group = next(
        number for number, event in enumerate(reference.events) if isinstance(event, TurnText) and event.turn == 2
    )
    path, world = crash(tmp_path, after_first_group, late=True)
    script, _ = play(path, world, resume=True)
    assert script.prompts[0] == [message.content for message in reference.messages[: len(script.prompts[0])]]
    assert len(script.prompts) == 2


def test_an_unfinished_write_comes_back_as_unknown_and_an_unfinished_read_runs_again(tmp_path: Path) -> None:
    reference = whole(tmp_path)
    first_end = next(number for number, event in enumerate(reference.events) if isinstance(event, CallEnd))
    starts = [event for event in reference.events[:first_end] if isinstance(event, CallStart)]
    path, world = crash(tmp_path, first_end, late=True)
    play(path, world, resume=True)
    errors = {(c.turn, c.index): c.end.error for c in load(path).calls if c.end is not None}
    for start in starts:
        expected = "outcome_unknown" if start.writes else reference_error(reference, start)
        assert errors[start.turn, start.index] == expected


def reference_error(view: EpisodeView, start: CallStart) -> str | None:
    return next(c.end.error for c in view.calls if c.end and (c.turn, c.index) == (start.turn, start.index))


def test_a_torn_last_line_is_repaired_and_a_cancelled_end_is_taken_back(tmp_path: Path) -> None:
    path, world = crash(tmp_path, 9, late=False)
    with path.open("ab") as file:
        file.write(b'{"event":"call_end","turn":1,"ind')
    play(path, world, resume=True)
    assert load(path).answer == "All done."
    cancelled, world = crash(tmp_path, 6, late=False)
    with Recorder.resume(cancelled) as recorder:
        end = EpisodeEnd(at=1.0, stop_reason="cancelled", terminated=False, truncated=False, mask_sample=True)
        recorder.write(end)
    play(cancelled, world, resume=True)
    assert load(cancelled).answer == "All done."


def test_a_finished_episode_and_a_corrupt_middle_are_refused(tmp_path: Path) -> None:
    whole(tmp_path)
    path = tmp_path / "whole.jsonl"
    with pytest.raises(TraceError, match="nothing to resume"):
        Recorder.resume(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"garbage\n", *lines[4:-1]]))
    with pytest.raises(TraceError, match="line 4"):
        Recorder.resume(path)


def test_keys_of_repeated_calls_stay_unique_over_a_resume(tmp_path: Path) -> None:
    reference = whole(tmp_path)
    path, world = crash(tmp_path, len(reference.events) - 6, late=True)
    play(path, world, resume=True)
    keys = [event.key for event in load(path).events if isinstance(event, CallStart)]
    assert len(keys) == len(set(keys))


def test_an_identical_write_after_a_conflicting_call_is_a_second_write_also_after_a_crash(tmp_path: Path) -> None:
    write = Call("write", {"key": "one"})
    for view, written in after_every_crash(tmp_path, [write, Call("read", {"key": "one"}), write]):
        assert written["one"] == 2 or (written["one"] < 2 and unknown(view)), written


def test_an_identical_write_that_a_link_pulled_in_front_is_still_one_write_after_a_crash(tmp_path: Path) -> None:
    calls = [Call("read", {"key": "$w.key"}), Call("write", {"key": "one"}), Call("write", {"key": "one"}, "w")]
    for view, written in after_every_crash(tmp_path, calls):
        assert written["one"] == 1 or (not written and unknown(view)), written


def test_after_a_crash_a_link_to_an_unknown_outcome_takes_no_value_from_an_earlier_turn(tmp_path: Path) -> None:
    lines = [
        LINES[0],
        render_turn("go", calls=[Call("write", {"key": "old"}, "w")]),
        render_turn("go", calls=[Call("write", {"key": "new"}, "w"), Call("write", {"key": "$w.key"})]),
        render_turn("done", answer="All done."),
    ]
    for point in range(1, len(whole(tmp_path, lines).events)):
        path, world = crash(tmp_path, point, True, lines)
        play(path, world, lines, resume=True)
        assert world.written.keys() <= {"old", "new", "new!"}
        assert all(call.end for call in load(path).calls)


def test_a_link_to_a_call_that_may_not_run_takes_no_value_from_an_earlier_turn(tmp_path: Path) -> None:
    broken = '<tool_call>{"id": "w", "name": "write", "arguments": 1}</tool_call>'
    lines = [
        LINES[0],
        render_turn("go", calls=[Call("write", {"key": "old"}, "w")]),
        render_turn("go", calls=[Call("write", {"key": "$w.key"})]) + broken,
        render_turn("done", answer="All done."),
    ]
    world = Ledger()
    play(tmp_path / "trace", world, lines)
    assert world.written == {"old": 1}
    linked = next(call.end for call in load(tmp_path / "trace").calls if (call.turn, call.index) == (2, 0))
    assert linked is not None
    assert linked.message == "not run: it needs the result of $w, which failed (invalid_args)"


def test_a_line_that_lacks_only_its_end_was_not_acted_upon_and_is_written_again(tmp_path: Path) -> None:
    reference = whole(tmp_path)
    for point in range(1, len(reference.events)):
        path, world = crash(tmp_path, point, late=True)
        following = (tmp_path / "whole.jsonl").read_bytes().splitlines()[point]
        path.write_bytes(path.read_bytes() + following)
        play(path, world, resume=True)
        assert load(path).answer == "All done."
        assert max(world.written.values()) == 1, point


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0, 3.0])
def test_recorded_turns_are_judged_by_the_time_they_had_then(tmp_path: Path, seconds: float) -> None:
    settings = Settings(Budget(seconds=seconds))
    play(tmp_path / "whole", Ledger(), settings=settings)
    reference = load(tmp_path / "whole")
    lines = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
    after_calls = max(number for number, event in enumerate(reference.events, 1) if isinstance(event, CallEnd))
    for point in range(after_calls, len(lines)):
        path = tmp_path / str(point)
        path.write_bytes(b"".join(lines[:point]))
        play(path, Ledger(), resume=True, settings=settings)
        assert load(path).end == reference.end
        assert load(path).messages == reference.messages


def test_a_recorded_search_is_not_asked_again_even_if_its_neighbour_is(tmp_path: Path) -> None:
    second = next(n for n, event in enumerate(whole(tmp_path).events) if isinstance(event, SearchDone)) + 1
    path, world = crash(tmp_path, second, late=True)
    asked: list[Search] = []
    search = world.search

    async def watched(searches: Sequence[Search]) -> list[Found]:
        asked.extend(searches)
        return await search(searches)

    world.search = watched  # type: ignore[method-assign]
    play(path, world, resume=True)
    assert asked == [Search("b", "write")]
    assert [done.slot for done in load(path).searches] == ["a", "b"]

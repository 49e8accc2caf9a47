"""Plays episodes, kills them at every moment, goes on from what is left, and counts what went wrong.

A crash leaves the trace file, cut after any event or inside its next line, and the world as it was at any moment
between the two events. What a dead process held in memory is gone.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from faults_script import Script
from faults_world import TOOLS, Key, World, key_of, turn_of
from paraagent.agent.loop import Loop
from paraagent.agent.past import Past
from paraagent.clock import VirtualClock
from paraagent.protocol.grammar import parse
from paraagent.protocol.observe import render_result
from paraagent.trace.events import CallEnd, CallStart, EpisodeStart, Event, Prompt, TurnText
from paraagent.trace.reader import load
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Result, ToolError

Problem = Literal[
    "duplicate_effects",  # a side effect more often than in an episode without a crash
    "lost_results",  # a success without its effect, or an answer that the model was not shown as recorded
    "missing_results",  # a call without exactly one answer
    "not_durable",  # a write whose start was not asked to reach the disk first
    "different",  # nothing was unknown, and yet the model was shown something else
]
START = EpisodeStart(version=1, run="campaign", episode="e", request="Do it.", policy="script")


class Watched(Recorder):
    """Notes how far the world had come before each event; leaves out the wait for the disk."""

    world: World
    marks: list[int]
    unsafe: int = 0

    def write(self, event: Event, durable: bool = False) -> None:
        self.marks.append(len(self.world.log))
        self.unsafe += isinstance(event, CallStart) and (bool(event.writes) or event.exclusive) and not durable
        super().write(event, durable)

    def _sync(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Played:
    """One process's share of an episode."""

    path: Path
    world: World
    marks: list[int]
    """Length of the world's log just before each event that this process wrote."""
    unsafe: int
    begin: int
    """Length of the world's log when this process began."""

    def view(self) -> EpisodeView:
        return load(self.path)


def play(path: Path, script: Script, world: World, *, resume: bool = False, stop: float | None = None) -> Played:
    """Play an episode from its start, or on from its trace; `stop` cancels it after so many virtual seconds."""
    recorder = Watched.resume(path) if resume else Watched(path)
    assert isinstance(recorder, Watched)
    recorder.world, recorder.marks = world, []
    begin = len(world.log)

    async def run() -> None:
        past = Past(recorder.events)
        world.clock = VirtualClock()
        world.clock.advance(past.at)
        loop = Loop(START, script, world, world.clock, recorder, script.settings, past=past)
        task = asyncio.get_running_loop().create_task(loop.run())
        if stop is not None:
            world.clock.call_later(stop, task.cancel)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    with recorder:
        asyncio.run(run())
    return Played(path, world, recorder.marks, recorder.unsafe, begin)


def last_turn(view: EpisodeView, events: int | None = None) -> int:
    """Return the turn in which an episode was after that many events."""
    return max((event.turn for event in view.events[:events] if isinstance(event, TurnText)), default=-1)


@dataclass(frozen=True, slots=True)
class Crash:
    """A moment at which an episode dies."""

    events: int
    """How many events the trace holds."""
    changes: int
    """How many of the world's changes had happened."""


def moments(played: Played) -> Iterator[Crash]:
    """Yield every moment: after each event that was written, with each state the world had before the next one."""
    total = len(played.view().events)
    first = total - len(played.marks)
    for number in range(max(first, 1), total):
        early = played.marks[number - 1 - first] if number > first else played.begin
        for changes in range(early, played.marks[number - first] + 1):
            yield Crash(number, changes)


def crash(played: Played, at: Crash, path: Path, rng: random.Random) -> World:
    """Leave at `path` what a crash leaves of the trace, in half of all cases with a torn line; return the world."""
    lines = played.path.read_bytes().splitlines(keepends=True)
    torn = b""
    if at.changes == played.marks[at.events - len(lines)] and rng.random() < 0.5:
        following = lines[at.events]
        torn = following[: rng.choice([rng.randrange(1, len(following)), len(following) - 1])]
    path.write_bytes(b"".join(lines[: at.events]) + torn)
    return World(played.world.seed, played.world.fault_rate, played.world.log[: at.changes])


@dataclass
class Tally:
    """What a campaign counted."""

    problems: Counter[Problem] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    episodes: int = 0
    crash_points: int = 0
    calls: int = 0
    unknown_done: int = 0
    """Writes of unknown outcome because of a crash whose effect had happened."""
    unknown_not_done: int = 0
    first: dict[Problem, str] = field(default_factory=dict)
    """Where each problem was seen first."""

    def add(self, problem: Problem, count: int, where: str) -> None:
        if count > 0:
            self.problems[problem] += count
            self.first.setdefault(problem, where)


def check(played: Played, whole: Played, crashed_in: int, same: bool, tally: Tally, where: str) -> None:
    """Count what is wrong with an episode that has come to its end.

    Args:
        whole: the same episode without a crash.
        crashed_in: the turn of the first crash.
        same: whether the episode should go on as the whole one did unless the outcome of something is unknown.
    """
    view, reference = played.view(), whole.view()
    done = played.world.effects_done()
    tally.add("not_durable", played.unsafe, where)
    tally.add("duplicate_effects", (done - _allowed(view, reference, crashed_in)).total(), where)
    tally.add("missing_results", _unanswered(view), where)
    tally.add("lost_results", _without_effect(view, done) + _not_shown(view), where)
    tally.faults += played.world.injected
    crashed = _crashed(view)
    for end in crashed:
        if end.shared_with is not None:
            continue
        happened = done[key_of(end.name, end.arguments)] > 0
        tally.unknown_done += happened
        tally.unknown_not_done += not happened
    if same and not crashed:
        tally.add("different", _prompts(view) != _prompts(reference), where)
        tally.add("different", done != whole.world.effects_done(), where)


def _allowed(view: EpisodeView, reference: EpisodeView, crashed_in: int) -> Counter[Key]:
    """Return how often each call may have had its effect: once for every start that the trace tells of.

    Up to the turn of the crash all calls were the same as in the whole episode, so that no more of them may have run
    than did not share another's result there.
    """
    allowed = Counter(key_of(e.name, e.arguments) for e in view.events if isinstance(e, CallStart))
    for key in allowed:
        if turn_of(key) <= crashed_in:
            own = sum(e.shared_with is None for e in _ends(reference) if key_of(e.name, e.arguments) == key)
            allowed[key] = min(allowed[key], own)
    return allowed


def _ends(view: EpisodeView) -> list[CallEnd]:
    return [event for event in view.events if isinstance(event, CallEnd)]


def _unanswered(view: EpisodeView) -> int:
    """Return how many calls did not get exactly one answer."""
    ends = Counter((event.turn, event.index) for event in _ends(view))
    expected: set[tuple[int, int]] = set()
    for turn in view.turns:
        parsed = parse(turn.text)
        if parsed.kind == "execution" and not (_refused_whole(view) and turn is view.turns[-1]):
            expected |= {(turn.index, n) for n in range(len(parsed.calls))}
    return len(expected ^ ends.keys()) + sum(count - 1 for count in ends.values())


def _refused_whole(view: EpisodeView) -> bool:
    """Whether the episode ended because its last turn asked for calls after it was told that none are left."""
    return view.end is not None and view.end.stop_reason == "call_limit"


def _without_effect(view: EpisodeView, done: Counter[Key]) -> int:
    """Return how many writes are said to have succeeded but left nothing in the world."""
    ends = [end for end in _ends(view) if end.error is None and end.shared_with is None]
    said = Counter(key_of(end.name, end.arguments) for end in ends if TOOLS[end.name].effect != "read")
    return (said - done).total()


def _not_shown(view: EpisodeView) -> int:
    """Return how many turns did not show the model exactly their recorded results."""
    prompts = _prompts(view)[2:]
    wrong = 0
    for number, turn in enumerate(view.turns):
        blocks = [render_result(_result(call.end)) for call in turn.calls if call.end is not None]
        if blocks and number < len(prompts):
            wrong += not prompts[number].startswith("\n".join(blocks))
            wrong += prompts[number].count("<tool_response>") != len(blocks)
    return wrong


def _result(end: CallEnd) -> Result:
    error = end.error and ToolError(end.error, end.message or "", end.retry_after)
    return Result(Call(end.name, end.arguments, end.id), end.arguments, end.value, error or None)


def _prompts(view: EpisodeView) -> list[str]:
    return [event.content for event in view.events if isinstance(event, Prompt)]


def _crashed(view: EpisodeView) -> list[CallEnd]:
    """Return the calls whose outcome is unknown because of a crash."""
    return [end for end in _ends(view) if (end.message or "").startswith("the run stopped")]

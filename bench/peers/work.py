"""The work that every runtime is given, and the talk with the bench: JSON requests in, answers out, one a line.

Runs inside the interpreter of each runtime, so it needs the standard library only. A runtime is a function
`run(work, resume)`: it starts an agent with the one tool `work.tool` (or `work.tool_now`, for runtimes without
asyncio), whose model answers by `work.next_calls`, and returns when the agent has given its answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

PATIENCE = 1.5
"""Seconds after which a run counts as one that never ends."""
WARM = 3


class Crash(BaseException):
    """The process died; nobody may catch this."""


@dataclass
class Work:
    """One agent run.

    Args:
        calls: what the model asks for in each turn: `id`, `seconds`, and `fault`, None for a call that works.
        turns: how many turns with these calls; then it answers.
        crash_after: how many side effects happen before the process dies.
    """

    calls: list[dict[str, Any]]
    turns: int = 1
    crash_after: int | None = None
    effects: Counter[str] = field(default_factory=Counter)
    shown: dict[int, list[str]] = field(default_factory=dict)
    """By turn, the texts of all tool results that the model had been shown."""
    asked: list[float] = field(default_factory=list)
    """When the model was asked."""
    dead: bool = False
    """What a dead process left running does nothing any more."""
    state: dict[str, Any] = field(default_factory=dict)
    """What a runtime keeps over a crash, as its checkpoints."""

    def __post_init__(self) -> None:
        self._by_id = {call["id"]: call for call in self.calls}
        self.on_crash: Callable[[], None] = lambda: None

    def next_calls(self, turn: int, results: list[str]) -> list[tuple[str, str]]:
        """Return the calls of a turn: an id for the call, and the argument; none if it is time to answer."""
        self.asked.append(time.perf_counter())
        self.shown[turn] = results
        return [(f"t{turn}c{n}", call["id"]) for n, call in enumerate(self.calls)] if turn < self.turns else []

    async def tool(self, id: str) -> str:
        """Do a piece of work."""
        call = self._by_id[id]
        self._maybe_die()
        if call["seconds"]:
            await asyncio.sleep(call["seconds"])
        if call["fault"] == "cancels":
            raise asyncio.CancelledError
        return self._end(id, call["fault"])

    def tool_now(self, id: str) -> str:
        """Do a piece of work."""
        call = self._by_id[id]
        self._maybe_die()
        if call["seconds"]:
            time.sleep(call["seconds"])
        if call["fault"] == "cancels":
            raise asyncio.CancelledError
        return self._end(id, call["fault"])

    def _end(self, id: str, fault: str | None) -> str:
        if fault == "raises":
            raise ValueError(f"{id} is out of order")
        self._maybe_die()
        self.effects[id] += 1
        self._maybe_die()
        return object() if fault == "garbage" else f"value-{id}"  # type: ignore[return-value]

    def _maybe_die(self) -> None:
        if not self.dead and self.crash_after is not None and self.effects.total() >= self.crash_after:
            self.dead = True
            self.on_crash()
        if self.dead:
            raise Crash


Run = Callable[[Work, bool], Awaitable[None]]


async def case(run: Run, work: Work) -> dict[str, Any]:
    """Play one turn of calls and say what the model saw of it."""
    ended = "answered"
    try:
        await asyncio.wait_for(run(work, False), PATIENCE)
    except TimeoutError:
        ended = "never ends"
    except (Exception, asyncio.CancelledError) as problem:
        ended = f"aborted: {type(problem).__name__}"
    shown = "\n".join(work.shown.get(1, []))
    good = [call["id"] for call in work.calls if call["fault"] is None]
    return {
        "ended": ended,
        "results": len(work.shown.get(1, [])),
        "kept": sum(f"value-{id}" in shown for id in good),
        "good": len(good),
    }


async def crash(run: Run, work: Work) -> dict[str, Any]:
    """Kill a run after some side effects, go on as the runtime's documentation says, and count the effects."""
    loop = asyncio.get_running_loop()
    died = asyncio.Event()

    def on_crash() -> None:
        loop.call_soon_threadsafe(died.set)

    work.on_crash = on_crash
    first = asyncio.ensure_future(run(work, False))
    watch = asyncio.ensure_future(died.wait())
    await asyncio.wait([first, watch], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    watch.cancel()
    first.cancel()
    await asyncio.wait([first], timeout=PATIENCE)
    with suppress(BaseException):
        first.exception()
    before = work.effects.total()
    work = replace(work, crash_after=None, dead=False, shown={})
    ended = "answered"
    try:
        await asyncio.wait_for(run(work, True), PATIENCE)
    except (Exception, asyncio.CancelledError) as problem:
        ended = f"aborted: {type(problem).__name__}"
    twice = sum(count - 1 for count in work.effects.values())
    missing = sum(call["id"] not in work.effects for call in work.calls)
    results = len(work.shown.get(1, []))
    return {"ended": ended, "results": results, "before": before, "duplicates": twice, "not_done": missing}


async def timed(run: Run, calls: list[dict[str, Any]], turns: int) -> dict[str, Any]:
    """Play many turns and return the seconds from one question to the model to the next; the first turns warm up."""
    work = Work(calls, turns + WARM)
    await run(work, False)
    assert work.effects.total() == (turns + WARM) * len(calls), work.effects
    assert len(work.shown[turns + WARM]) == (turns + WARM) * len(calls), len(work.shown[turns + WARM])
    return {"turns": [after - before for before, after in pairwise(work.asked[WARM:])]}


async def _answer(run: Run, request: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "time":
        return await timed(run, request["calls"], request["turns"])
    if request["do"] == "case":
        return await case(run, Work(request["calls"]))
    return await crash(run, Work(request["calls"], crash_after=request["crash_after"]))


def serve(run: Run) -> None:
    """Answer requests until the input ends; what a runtime prints goes to the error stream."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = asyncio.run(_answer(run, json.loads(line)))
        except BaseException as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"[:300]}
        print(json.dumps(answer), file=out, flush=True)

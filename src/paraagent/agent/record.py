"""Writes what the scheduler reports into the trace: each call's start before it runs, and its one answer.

Place in the flow: layer 3, between `schedule` and `trace.recorder`; `loop` owns one per episode.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from paraagent.agent.prepare import canonical
from paraagent.trace.events import CallEnd, CallStart, Event
from paraagent.types import Call, Effects, JsonObject, Result, Tool


class Emit(Protocol):
    """Writes an event; `durable` returns only once it is on disk."""

    def __call__(self, event: Event, durable: bool = False) -> None: ...


class CallRecorder:
    """The scheduler's observer for one episode.

    Args:
        run: names the episode in idempotency keys, so that no other episode ever shares one.
        durable: whether the start of a write must be on disk before it runs.
    """

    def __init__(self, emit: Emit, run: str, *, durable: bool) -> None:
        self._emit = emit
        self._run = run
        self._durable = durable
        self._seen: Counter[str] = Counter()
        self._turn = 0

    def begin(self, turn: int, repeated: Iterable[CallStart]) -> None:
        """Start the group of a turn.

        Args:
            repeated: calls of it that an earlier run of the episode dispatched; later keys differ from theirs.
        """
        self._turn = turn
        for start in repeated:
            self._key(start.name, start.arguments)

    def call_started(
        self, index: int, call: Call, tool: Tool, arguments: JsonObject, effects: Effects, at: float
    ) -> None:
        event = CallStart(
            turn=self._turn,
            index=index,
            name=call.name,
            arguments=arguments,
            effect=tool.effect,
            reads=sorted(effects.reads),
            writes=sorted(effects.writes),
            exclusive=effects.exclusive,
            key=self._key(tool.name, arguments),
            at=at,
        )
        self._emit(event, durable=self._durable and not effects.read_only)

    def call_ended(self, index: int, result: Result) -> None:
        self._emit(_end(self._turn, index, result))

    def _key(self, tool: str, arguments: JsonObject) -> str:
        """Return the idempotency key: run, tool, canonical arguments, and which repetition of that this is."""
        what = f"{self._run}\n{tool}\n{canonical(arguments)!r}"
        self._seen[what] += 1
        return hashlib.blake2b(f"{what}\n{self._seen[what]}".encode(), digest_size=16).hexdigest()


def _end(turn: int, index: int, result: Result) -> CallEnd:
    error = result.error
    return CallEnd(
        turn=turn,
        index=index,
        name=result.call.name,
        arguments=result.arguments,
        started=result.started,
        ended=result.ended,
        id=result.call.id,
        raw_arguments=None if result.call.arguments == result.arguments else result.call.arguments,
        value=result.value,
        error=error.kind if error else None,
        message=error.message if error else None,
        retry_after=error.retry_after if error else None,
        attempts=result.attempts,
        shared_with=result.shared_with,
        injected=error.injected if error else False,
    )

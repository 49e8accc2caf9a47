"""The seam through which a call group tells what happens in it.

Place in the flow: layer 3; `schedule` calls it, the loop implements it and writes the trace. Both methods are plain
functions and hold the group up while they run: that is what makes the record of a write durable before its dispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from paraagent.agent.prepare import Run
from paraagent.types import Call, Effects, JsonObject, Result, Tool


class Observer(Protocol):
    """Is told what happens as it happens; whatever it raises ends the group, since nothing may run unrecorded."""

    def call_started(
        self, index: int, call: Call, tool: Tool, arguments: JsonObject, effects: Effects, at: float
    ) -> None:
        """A call is about to be invoked for the first time; it is invoked only after this returns."""
        ...

    def call_ended(self, index: int, result: Result) -> None:
        """A call has its result, in order of completion; one that never ran ends without a start."""
        ...


class Guarded:
    """Tells an observer, if there is one, and hands what it raises to `abort`."""

    def __init__(self, observer: Observer | None, abort: Callable[[Exception], None]) -> None:
        self._observer = observer
        self._abort = abort

    def started(self, run: Run, at: float) -> None:
        if self._observer is None:
            return
        assert run.tool is not None
        try:
            self._observer.call_started(run.index, run.call, run.tool, run.arguments, run.effects, at)
        except Exception as problem:
            self._abort(problem)

    def ended(self, run: Run, result: Result) -> None:
        if self._observer is None:
            return
        try:
            self._observer.call_ended(run.index, result)
        except Exception as problem:
            self._abort(problem)

"""The seam through which a call group tells what happens in it.

Place in the flow: layer 3; `schedule` calls it, the loop implements it and writes the trace. Both methods are plain
functions and hold the group up while they run: that is what makes the record of a write durable before its dispatch.
"""

from __future__ import annotations

from typing import Protocol

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

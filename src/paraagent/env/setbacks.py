"""Failures that a `recover` task is about: ones that pass, and ones that only another tool gets around.

Place in the flow: layer 3, called by `tasks`. A passing failure outlasts the repeats that the runtime makes by
itself, so the agent sees it and must call again. A lasting one stays, and the tool has an equivalent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from paraagent.env.task import FaultSpec, Task
from paraagent.errors import ErrorKind
from paraagent.types import Tool

REPEATS = 3
"""How often the runtime's default limits invoke a call that is safe to repeat."""
LASTING = 1_000_000
"""Invocations that a lasting failure spoils."""


def setback(task: Task, replaceable: Sequence[str], find: Callable[[str], Tool | None], rng: Random) -> FaultSpec:
    """Return a failure of one of a task's gold tools; a lasting one if some of them are replaceable."""
    if replaceable:
        lasting: tuple[ErrorKind, ...] = ("permission", "unavailable")
        return FaultSpec(rng.choice(replaceable), rng.choice(lasting), LASTING)
    name = rng.choice(task.calls).tool
    tool = find(name)
    if tool is not None and tool.effect == "read":
        passing: tuple[ErrorKind, ...] = ("rate_limited", "unavailable", "timeout")
        return FaultSpec(name, rng.choice(passing), rng.randint(REPEATS, REPEATS + 2))
    if rng.random() < 0.5:
        return FaultSpec(name, "rate_limited", rng.randint(REPEATS, REPEATS + 2), retry_after=1.0)
    return FaultSpec(name, "unavailable", rng.randint(1, 2))

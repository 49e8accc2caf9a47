"""What a task needs, as the rewards see it: classes of accepted tools, and which class must come before which.

Place in the flow: layer 4; read off the task record in the trace. A class is the tools that serve one slot; names are
compared without case. An order between two classes counts only if *every* gold call of the later class takes a value
from the earlier one, so a tool that is used both with and without an upstream call is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from paraagent.env.task import Task, upstream
from paraagent.errors import TraceError
from paraagent.protocol.graph import normal
from paraagent.trace.view import EpisodeView

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Needs:
    """Nothing is needed by default, as in a task that no tool helps with."""

    known: bool = True
    """False for an episode without a task record: then nothing can be said about what it needed."""
    classes: tuple[frozenset[str], ...] = ()
    """The accepted tools of every capability that some tool has."""
    absent: int = 0
    """How many needed capabilities no tool has."""
    before: frozenset[Pair] = frozenset()
    """Pairs of classes, by position, of which the first must come before the second."""
    implied: frozenset[Pair] = frozenset()
    """All pairs of classes that some gold chain leads through in this order, over any distance."""

    def serving(self, tool: str) -> frozenset[int]:
        """Return the classes a tool belongs to."""
        return frozenset(index for index, tools in enumerate(self.classes) if normal(tool) in tools)


def needs(task: Task | None) -> Needs:
    """Return what a task needs."""
    if task is None:
        return Needs(known=False)
    accepted = {slot.tools[0]: slot.tools for slot in task.slots if slot.tools}
    for call in task.calls:
        accepted.setdefault(call.tool, (call.tool,))
    place = {tool: index for index, tool in enumerate(accepted)}
    class_of = {call.id: place[call.tool] for call in task.calls}
    direct: dict[str, set[int]] = {}
    reached: dict[str, set[int]] = {}
    for call in task.calls:  # upstream calls come first
        ups = [up for up in upstream(call.arguments) if up in direct]
        direct[call.id] = {class_of[up] for up in ups}
        reached[call.id] = direct[call.id].union(*(reached[up] for up in ups))
    return Needs(
        classes=tuple(frozenset(map(normal, tools)) for tools in accepted.values()),
        absent=sum(not slot.tools for slot in task.slots),
        before=frozenset(
            (up, down)
            for down in class_of.values()
            for up in set.intersection(*(direct[call] for call, own in class_of.items() if own == down)) - {down}
        ),
        implied=frozenset((up, down) for call, down in class_of.items() for up in reached[call] - {down}),
    )


def task_of(view: EpisodeView) -> Task | None:
    """Return the task record of an episode, or None if it has none.

    Raises:
        TraceError: the record in the trace is not a task's.
    """
    if view.start.task is None:
        return None
    try:
        return msgspec.convert(view.start.task, Task)
    except msgspec.ValidationError as error:
        raise TraceError(f"episode {view.start.episode}: its task record cannot be read ({error})") from error

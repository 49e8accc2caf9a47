"""A task's solution the way the built-in experts look at it: independent parts, capabilities, services, chains.

Place in the flow: layer 5, used by `experts`. It reads the gold record of a task, which an agent never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from paraagent.demos.roles import Slot
from paraagent.env.labels import said
from paraagent.env.service import service_name
from paraagent.env.task import Fact, GoldCall, GoldSlot, Task
from paraagent.protocol.links import upstream
from paraagent.types import Tool

_LOOSE = frozenset("a an the of for to in on with and or by from at into as all".split())
SLOT_WORDS = 8


@dataclass(frozen=True, slots=True)
class Capability:
    """One slot of the task, and what the experts know about it."""

    slot: Slot
    service: str
    what: str
    """The operation in words, without the service."""
    tools: tuple[str, ...]
    """Those that serve it, the gold one first; none for what no tool can do."""


@dataclass(frozen=True, slots=True)
class Part:
    """Gold calls that hang together, and what the answer has to state about them."""

    calls: tuple[GoldCall, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Solution:
    """One task, read."""

    task: Task
    find: Callable[[str], Tool | None]

    @cached_property
    def capabilities(self) -> tuple[Capability, ...]:
        taken: set[str] = set()
        return tuple(self._capability(slot, taken) for slot in self.task.slots)

    @cached_property
    def by_slot(self) -> dict[str, Capability]:
        return {capability.slot.name: capability for capability in self.capabilities}

    @cached_property
    def by_tool(self) -> dict[str, Capability]:
        """By gold tool."""
        return {capability.tools[0]: capability for capability in self.capabilities if capability.tools}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        groups: list[list[GoldCall]] = []
        for call in self.task.calls:
            above = [group for group in groups if any(one.id in upstream(call.arguments) for one in group)]
            merged = [one for group in above for one in group] + [call]
            groups = [group for group in groups if group not in above] + [merged]
        return tuple(self._part(group) for group in groups)

    def steps(self, part: Part) -> str:
        """Return what a part does, as `get all devices, then update the device`."""
        whats = [self.by_tool[call.tool].what for call in part.calls]
        return ", then ".join(dict.fromkeys(whats))

    def service(self, part: Part) -> str:
        return self.by_tool[part.calls[-1].tool].service

    def literals(self, part: Part) -> str:
        """Return the values that the request gives for a part, as it writes them."""
        values = [value for call in part.calls for value in call.arguments.values() if not upstream(value)]
        return ", ".join(map(said, values))

    def _part(self, calls: Sequence[GoldCall]) -> Part:
        ids = {call.id for call in calls}
        return Part(tuple(calls), tuple(fact for fact in self.task.facts if fact.call in ids))

    def _capability(self, gold: GoldSlot, taken: set[str]) -> Capability:
        tool = self.find(gold.tools[0]) if gold.tools else None
        if tool is not None:
            service = service_name(tool)
            what = gold.query.removeprefix(service).strip()
        else:
            service, _, what = (text.strip() for text in gold.query.rpartition(":"))
        name = _slot_name(what, service, taken)
        taken.add(name)
        return Capability(Slot(name, f"{service} {what}".strip()), service, what, gold.tools)


def _slot_name(what: str, service: str, taken: set[str]) -> str:
    """Return a short name: the first words of the operation, with the service or a number if that name is taken."""
    parts = what.replace(":", " ").split()[:SLOT_WORDS]
    while len(parts) > 1 and parts[-1].lower() in _LOOSE:
        parts.pop()
    name = " ".join(parts) or "tool"
    if name not in taken:
        return name
    names = [f"{name} on {service.replace(':', ' ')}", *(f"{name} {number}" for number in range(2, 99))]
    return next(other for other in names if other not in taken)

"""Which step of the plan each call of a turn carries out.

Place in the flow: layer 2, part of `monitor`. A call takes the next ready use of its tool; a further call of the same
tool in the same turn joins the use taken last, so one planned step may be carried out by several calls. A use also
counts as ready if what it needs is done by calls of the same turn that this call links to (`$id...`, directly or
through others): the scheduler runs those first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from paraagent.protocol.call import BrokenCall
from paraagent.protocol.graph import Occurrence, PlanGraph, normal
from paraagent.protocol.lifecycle import Execution
from paraagent.protocol.links import upstream
from paraagent.types import Call

StrayKind = Literal["outside_plan", "already_done", "not_ready"]


@dataclass(frozen=True, slots=True)
class Stray:
    """Why a call is not part of the ready frontier."""

    kind: StrayKind
    message: str


Match = Occurrence | Stray | None
"""None for a broken call, and for a repeat visit that a revised plan allows."""


def match_calls(calls: Sequence[Call | BrokenCall], state: Execution) -> tuple[Match, ...]:
    """Match the calls of one turn to the current plan, one result per call in order; the state has a plan."""
    assert state.graph is not None
    matcher = _Matcher(state.graph, state)
    links = _links(calls)
    for index in _order(links):
        matcher.match(index, calls[index], links[index])
    return tuple(matcher.matches[index] for index in range(len(calls)))


class _Matcher:
    def __init__(self, graph: PlanGraph, state: Execution) -> None:
        self.matches: dict[int, Match] = {}
        self._graph = graph
        self._state = state
        self._reach: dict[int, frozenset[Occurrence]] = {}
        """By call: the uses that it waits for through links."""
        self._last: dict[str, Occurrence] = {}

    def match(self, index: int, call: Call | BrokenCall, links: Sequence[int]) -> None:
        reach: set[Occurrence] = set()
        for link in links:
            match = self.matches.get(link)
            reach |= self._reach.get(link, frozenset()) | ({match} if isinstance(match, Occurrence) else set())
        self._reach[index] = frozenset(reach)
        self.matches[index] = None if isinstance(call, BrokenCall) else self._find(normal(call.name), reach)

    def _find(self, tool: str, reach: set[Occurrence]) -> Match:
        taken = {match for match in self.matches.values() if isinstance(match, Occurrence)}
        met = self._state.done | reach
        uses = self._graph.uses(tool)
        for use in uses:
            if use not in self._state.done and use not in taken and self._graph.needs[use] <= met:
                self._last[tool] = use
                return use
        last = self._last.get(tool)
        if last is not None and self._graph.needs[last] <= met:
            return last
        return self._stray(tool, uses, met)

    def _stray(self, tool: str, uses: Sequence[Occurrence], met: set[Occurrence]) -> Stray | None:
        name = tool[:80]
        if not uses:
            return Stray("outside_plan", f"{name} is not in the plan's execution_flow.")
        waiting = [use for use in uses if use not in self._state.done]
        if not waiting and tool in self._state.carried:
            return None
        if not waiting:
            return Stray("already_done", f"{name} is done; to call it again, list it once more in a new plan.")
        needs = ", ".join(self._graph.ref(need) for need in self._graph.needs if need in self._missing(waiting, met))
        return Stray("not_ready", f"{name} must wait for {needs}: call it after their results or link to them.")

    def _missing(self, waiting: Sequence[Occurrence], met: set[Occurrence]) -> frozenset[Occurrence]:
        blocked = (self._graph.needs[use] - met for use in waiting)
        return next((missing for missing in blocked if missing), frozenset())


def _links(calls: Sequence[Call | BrokenCall]) -> list[list[int]]:
    """Return for every call the calls of this turn that it links to."""
    index = {call.id: number for number, call in enumerate(calls) if call.id is not None}
    return [
        [] if isinstance(call, BrokenCall) else [index[up] for up in upstream(call.arguments) if up in index]
        for call in calls
    ]


def _order(links: Sequence[Sequence[int]]) -> list[int]:
    """Order the calls so that linked ones come after what they link to; calls in a circle keep their order."""
    graph: Mapping[int, Sequence[int]] = dict(enumerate(links))
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError:
        return list(graph)

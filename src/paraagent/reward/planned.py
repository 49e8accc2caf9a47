"""A call plan held against what the task needs: which order it misses or invents, and how early each use could run.

Place in the flow: layer 4, part of `window`. The *canonical* graph of a plan has the plan's uses of tools and, as
edges, the orders that the task requires, the declared ones that it does not contradict, and the implicit ones between
uses of one tool; tools that are listed but not scheduled stand in it too. An order that the plan invents between two
needed tools is not in it, so waiting for that is no excuse. Where the task is unknown every declared order counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from paraagent.protocol.graph import Occurrence, PlanGraph, normal
from paraagent.protocol.plan import CallPlan
from paraagent.reward.needs import Needs


@dataclass(frozen=True, slots=True)
class Planned:
    """One plan, measured."""

    tools: tuple[str, ...]
    """As listed, lower case."""
    canonical: PlanGraph
    undeclared: tuple[str, ...]
    """Orders the task requires and the plan does not declare, in words."""
    invented: tuple[str, ...]
    """Orders the plan declares and the task does not have, in words."""
    badly_layered: tuple[str, ...]
    """Tools that are not scheduled, or not in the earliest step they can be in, in words."""


def measure_plan(plan: CallPlan, graph: PlanGraph, needs: Needs, *, published: bool) -> Planned:
    """Hold a plan against a task.

    Args:
        graph: the plan's own graph.
        published: count a declared order of a tool that the task does not name as invented, and only direct
            declarations of a required order.
    """
    return _Measure(plan, graph, needs, published).planned()


class _Measure:
    def __init__(self, plan: CallPlan, graph: PlanGraph, needs: Needs, published: bool) -> None:
        self._tools = tuple(map(normal, plan.available_tools))
        self._graph = graph
        self._needs = needs
        self._published = published
        self._classes = {tool: needs.serving(tool) for tool in self._tools}
        self._layer = {use: number for number, layer in enumerate(graph.layers, 1) for use in layer}

    def planned(self) -> Planned:
        scheduled = tuple(dict.fromkeys(use.tool for use in self._layer))
        left_out = [tool for tool in dict.fromkeys(self._tools) if tool not in scheduled]
        wanted = {use: self._canonical_needs(use) for use in self._layer}
        extra = {Occurrence(tool, 1): self._required(Occurrence(tool, 1)) for tool in left_out}
        badly_layered = [f"{tool} is listed but not scheduled" for tool in left_out]
        badly_layered += self._misplaced()
        badly_layered += self._late(wanted)
        return Planned(
            self._tools,
            PlanGraph(self._graph.layers, wanted | extra),
            tuple(self._undeclared(self._tools if self._published else scheduled)),
            tuple(dict.fromkeys(f"{up} before {down}" for up, down in self._declared() if not self._fits(up, down))),
            tuple(badly_layered),
        )

    def _declared(self) -> Iterator[tuple[str, str]]:
        for use, ups in self._graph.needs.items():
            yield from ((up.tool, use.tool) for up in ups if up.tool != use.tool)

    def _fits(self, up: str, down: str) -> bool:
        """Tell whether the task has, or does not speak against, a declared order."""
        ups, downs = self._classes[up], self._classes[down]
        if not self._needs.known or not (self._published or (ups and downs)):
            return True
        return any((a, b) in self._needs.implied for a in ups for b in downs)

    def _first(self, tool: str) -> Iterator[frozenset[str]]:
        """Yield, for every class that must come before this tool, the tools of the plan in it."""
        for up, down in self._needs.before:
            if down in self._classes[tool]:
                yield frozenset(other for other in self._tools if up in self._classes[other])

    def _undeclared(self, tools: Iterable[str]) -> Iterator[str]:
        tools = dict.fromkeys(tools)
        for tool in tools:
            before = self._before(tool)
            for first in map(tools.keys().__and__, self._first(tool)):
                if first and not first & before:
                    yield f"{' or '.join(sorted(first))} before {tool}"

    def _before(self, tool: str) -> set[str]:
        """Return the tools declared to come before a tool, by default also through others."""
        reached: set[Occurrence] = set()
        border = set().union(*(self._graph.needs[use] for use in self._graph.uses(tool)))
        while border - reached and not (self._published and reached):
            reached |= border
            border = set().union(*(self._graph.needs[use] for use in border))
        return {use.tool for use in reached}

    def _canonical_needs(self, use: Occurrence) -> frozenset[Occurrence]:
        kept = {up for up in self._graph.needs[use] if up.tool == use.tool or self._fits(up.tool, use.tool)}
        return frozenset(kept | self._required(use, kept))

    def _required(self, use: Occurrence, declared: Iterable[Occurrence] = ()) -> frozenset[Occurrence]:
        """Return what a use has to wait for: the uses it declares, else those in the nearest step before it."""
        required: set[Occurrence] = set()
        for first in self._first(use.tool):
            own = {up for up in declared if up.tool in first}
            required |= own or self._nearest(first, self._layer.get(use, len(self._graph.layers) + 1))
        return frozenset(required)

    def _nearest(self, tools: frozenset[str], layer: int) -> set[Occurrence]:
        earlier = [use for use, own in self._layer.items() if use.tool in tools and own < layer]
        nearest = max((self._layer[use] for use in earlier), default=0)
        return {use for use in earlier if self._layer[use] == nearest}

    def _misplaced(self) -> Iterator[str]:
        """Say which uses come no later than all uses of a tool that must come before them."""
        for use, layer in self._layer.items():
            for first in self._first(use.tool):
                if any(other.tool in first for other in self._layer) and not self._nearest(first, layer):
                    yield f"{self._graph.ref(use)} comes before {' or '.join(sorted(first))}"

    def _late(self, wanted: Mapping[Occurrence, frozenset[Occurrence]]) -> Iterator[str]:
        """Say which uses could be in an earlier step."""
        depth: dict[Occurrence, int] = {}
        for use in sorted(wanted, key=self._layer.__getitem__):  # every edge leads to a later step
            depth[use] = 1 + max((depth[up] for up in wanted[use]), default=0)
            if depth[use] < self._layer[use]:
                yield f"{self._graph.ref(use)} is in step {self._layer[use]} but could be in step {depth[use]}"

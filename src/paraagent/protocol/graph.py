"""A call plan as a dependency graph: which uses of which tools wait for which others.

Place in the flow: layer 2; `monitor` follows one, the phase reward measures one. A tool that stands n times in the
flow has n *occurrences*, written `tool#1` to `tool#n` in flow order. Names compare without case. Steps only order
the writing: an occurrence is ready once all it needs has succeeded, whatever its step. Edges are the declared
dependencies and one implicit rule: the occurrences of a tool in one step precede those in that tool's next step.
Every edge must lead to a later step, so the graph has no cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from paraagent.protocol.plan import CallPlan, Dependency, PlanError

MAX_OCCURRENCES = 100
MAX_ENDPOINTS = 500
"""Sources of all dependencies together; both limits keep a hostile plan cheap."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One use of a tool in a plan."""

    tool: str
    """The name in lower case."""
    number: int
    """Counts the uses of this tool from 1, in flow order."""

    def __str__(self) -> str:
        return f"{self.tool}#{self.number}"


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """The occurrences of a plan by step, and what each one needs."""

    layers: tuple[tuple[Occurrence, ...], ...]
    needs: Mapping[Occurrence, frozenset[Occurrence]]
    """Direct predecessors of every occurrence, in flow order of the keys."""

    @classmethod
    def of(cls, plan: CallPlan) -> PlanGraph:
        """Build the graph of a plan.

        Raises:
            PlanError: a step names an unlisted tool, or a dependency is unclear or does not lead to a later step.
        """
        _check(plan)
        layers = _number(plan.execution_flow)
        names = _Names(layers)
        needs: dict[Occurrence, set[Occurrence]] = {occurrence: set() for layer in layers for occurrence in layer}
        for dependency in plan.dependencies:
            target, sources = names.resolve(dependency)
            needs[target] |= sources
        for occurrences in names.by_tool.values():
            for occurrence in occurrences:
                needs[occurrence] |= names.previous_uses(occurrence)
        return cls(layers, {occurrence: frozenset(before) for occurrence, before in needs.items()})

    def uses(self, tool: str) -> list[Occurrence]:
        """Return the occurrences of a tool, in flow order."""
        return [occurrence for occurrence in self.needs if occurrence.tool == normal(tool)]

    def ready(self, done: Set[Occurrence]) -> list[Occurrence]:
        """Return the frontier: unfinished occurrences whose predecessors all succeeded, in flow order."""
        return [occurrence for occurrence, needs in self.needs.items() if occurrence not in done and needs <= done]

    def ref(self, occurrence: Occurrence) -> str:
        """Return how a plan writes an occurrence: the bare name if the tool stands only once."""
        return occurrence.tool if len(self.uses(occurrence.tool)) == 1 else str(occurrence)


def normal(name: str) -> str:
    """Return a name in the form in which names compare."""
    return name.strip().lower()


def _check(plan: CallPlan) -> None:
    available = {normal(tool) for tool in plan.available_tools}
    for tool in (tool for step in plan.execution_flow for tool in step):
        if normal(tool) not in available:
            base, mark, _ = tool.rpartition("#")
            if mark and normal(base) in available:
                raise PlanError(f"execution_flow: write {base!r} without #n; only dependencies number the uses")
            raise PlanError(f"execution_flow names {tool[:80]!r}, which is not in available_tools")
    if sum(map(len, plan.execution_flow)) > MAX_OCCURRENCES:
        raise PlanError(f"execution_flow holds more than {MAX_OCCURRENCES} calls; plan fewer at once")
    if sum(len(dependency.sources) for dependency in plan.dependencies) > MAX_ENDPOINTS:
        raise PlanError(f"dependencies hold more than {MAX_ENDPOINTS} sources; plan fewer at once")


def _number(flow: Sequence[Sequence[str]]) -> tuple[tuple[Occurrence, ...], ...]:
    count: dict[str, int] = {}
    layers: list[tuple[Occurrence, ...]] = []
    for step in flow:
        layer: list[Occurrence] = []
        for tool in map(normal, step):
            count[tool] = count.get(tool, 0) + 1
            layer.append(Occurrence(tool, count[tool]))
        layers.append(tuple(layer))
    return tuple(layers)


class _Names:
    """Finds the occurrences that the names in a dependency mean."""

    def __init__(self, layers: Sequence[Sequence[Occurrence]]) -> None:
        self._layer = {occurrence: number for number, layer in enumerate(layers) for occurrence in layer}
        self.by_tool: dict[str, list[Occurrence]] = {}
        for occurrence in self._layer:
            self.by_tool.setdefault(occurrence.tool, []).append(occurrence)

    def resolve(self, dependency: Dependency) -> tuple[Occurrence, set[Occurrence]]:
        """Return the target and sources: of the targets that fit all sources, the one in the earliest step."""
        feasible: list[tuple[Occurrence, set[Occurrence]]] = []
        for target in self._meant(dependency.target):
            sources = [self._latest_before(source, target) for source in dependency.sources]
            known = {source for source in sources if source is not None}
            if None not in sources:
                feasible.append((target, known))
        first = min((self._layer[target] for target, _ in feasible), default=-1)
        earliest = [pair for pair in feasible if self._layer[pair[0]] == first]
        if len(earliest) != 1:
            edge = f"from {list(dependency.sources)} to {dependency.target!r}"[:200]
            why = (
                "could mean several uses; write tool#n" if earliest else "must lead from earlier steps to a later one"
            )
            raise PlanError(f"the dependency {edge} {why}")
        return earliest[0]

    def previous_uses(self, occurrence: Occurrence) -> set[Occurrence]:
        """Return the uses of the same tool in the nearest earlier step that has any."""
        return set(self._nearest_layer(self.by_tool[occurrence.tool], occurrence))

    def _meant(self, name: str) -> list[Occurrence]:
        """Return the occurrences a name may mean: one for `tool#n`, all of the tool for a bare name."""
        if normal(name) in self.by_tool:
            return self.by_tool[normal(name)]
        base, _, number = normal(name).rpartition("#")
        meant = [o for o in self.by_tool.get(base, []) if str(o.number) == number]
        if not meant:
            raise PlanError(f"a dependency names {name[:80]!r}, which is not in execution_flow")
        return meant

    def _latest_before(self, name: str, target: Occurrence) -> Occurrence | None:
        """Return the one latest occurrence of a source before the target, or None if there is none or several."""
        latest = self._nearest_layer(self._meant(name), target)
        return latest[0] if len(latest) == 1 else None

    def _nearest_layer(self, occurrences: Sequence[Occurrence], target: Occurrence) -> list[Occurrence]:
        before = [o for o in occurrences if self._layer[o] < self._layer[target]]
        nearest = max((self._layer[o] for o in before), default=-1)
        return [o for o in before if self._layer[o] == nearest]

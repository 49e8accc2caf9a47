"""When a plan is due and which plans are taken, inside one phase.

Place in the flow: layer 2, part of `monitor`, which makes a fresh state whenever the kind of turn changes. At most
two plans are taken per phase: the first and one refresh.

    state before the turn                                     a plan is
    no plan taken yet in this phase                           required
    exploration, refresh left / used up                       optional / forbidden
    execution, plan finished, refresh left / used up          required / forbidden
    execution, unfinished, the last calls failed or strayed   optional while the refresh is left
    anything else, and every answer or invalid turn           forbidden
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from paraagent.protocol.graph import Occurrence, PlanGraph, normal
from paraagent.protocol.plan import SearchPlan

Requirement = Literal["required", "optional", "forbidden"]
PlanOutcome = Literal[
    "none",  # the turn has no plan
    "initial",  # taken: the first of the phase
    "revise",  # taken: replaces an unfinished plan and keeps its progress
    "restart",  # taken: follows a finished plan
    "redundant",  # says the same as the current plan
    "invalid",  # cannot be read or makes no sense
    "forbidden",  # none is due
    "limited",  # the phase has used its plans
    "unsupported",  # drops unfinished work without a replacement
]
TAKEN: frozenset[PlanOutcome] = frozenset({"initial", "revise", "restart"})
PLANS_PER_PHASE = 2


@dataclass(slots=True)
class Exploration:
    """The state of a run of turns that search."""

    plan: SearchPlan | None = None
    taken: int = 0

    @property
    def requirement(self) -> Requirement:
        if self.plan is None:
            return "required"
        return "optional" if self.taken < PLANS_PER_PHASE else "forbidden"

    def submit(self, plan: SearchPlan) -> PlanOutcome:
        """Take the plan if it is due."""
        if self.plan is not None and self.slots() == Counter(map(normal, plan.capacity_slots)):
            return "redundant"
        if self.requirement == "forbidden":
            return "limited"
        outcome: PlanOutcome = "initial" if self.plan is None else "revise"
        self.plan = plan
        self.taken += 1
        return outcome

    def slots(self) -> Counter[str]:
        """Return how many searches each slot allows in one turn."""
        return Counter(map(normal, self.plan.capacity_slots if self.plan else ()))


@dataclass(slots=True)
class Execution:
    """The state of a run of turns that call tools."""

    graph: PlanGraph | None = None
    done: set[Occurrence] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    """Tools whose success a revision kept: the revised plan may call them again for something else."""
    recovering: bool = False
    """Whether the last calls gave a reason to plan anew: a failure, or a call outside the plan."""
    taken: int = 0

    @property
    def finished(self) -> bool:
        return self.graph is not None and self.done >= self.graph.needs.keys()

    @property
    def requirement(self) -> Requirement:
        if self.graph is None:
            return "required"
        if self.taken >= PLANS_PER_PHASE:
            return "forbidden"
        if self.finished:
            return "required"
        return "optional" if self.recovering else "forbidden"

    def submit(self, graph: PlanGraph) -> PlanOutcome:
        """Take the plan if it is due and keeps unfinished work."""
        outcome = self._judge(graph)
        if outcome in TAKEN:
            self.done = self.done & graph.needs.keys() if outcome == "revise" else set()
            self.carried = {occurrence.tool for occurrence in self.done}
            self.graph = graph
            self.recovering = False
            self.taken += 1
        return outcome

    def unfinished(self) -> list[Occurrence]:
        """Return what is left of the current plan, in flow order."""
        return [occurrence for occurrence in (self.graph.needs if self.graph else ()) if occurrence not in self.done]

    def _judge(self, graph: PlanGraph) -> PlanOutcome:
        if self.graph is None:
            return "initial"
        if self.finished:
            return "restart" if self.taken < PLANS_PER_PHASE else "limited"
        if _same(graph, self.graph):
            return "redundant"
        if self.requirement == "forbidden":
            return "limited" if self.taken >= PLANS_PER_PHASE else "forbidden"
        return "unsupported" if self._drops_work(graph) else "revise"

    def _drops_work(self, graph: PlanGraph) -> bool:
        """Tell whether more unfinished uses vanish than new tools come in their place."""
        assert self.graph is not None
        left = Counter(occurrence.tool for occurrence in self.unfinished())
        planned = Counter(occurrence.tool for occurrence in graph.needs if occurrence not in self.done)
        new = {occurrence.tool for occurrence in graph.needs} - {occurrence.tool for occurrence in self.graph.needs}
        return (left - planned).total() > len(new)


def _same(one: PlanGraph, other: PlanGraph) -> bool:
    """Tell whether two plans order the same calls in the same way, whatever else they list as available."""
    return [set(layer) for layer in one.layers] == [set(layer) for layer in other.layers] and one.needs == other.needs

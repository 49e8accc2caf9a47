"""The one state machine of plans: what a turn's plan must be, whether its actions follow the plan, what is left.

Place in the flow: layer 2. The runtime asks it before it runs a turn, rewards and evaluation replay it over a trace,
so all of them judge alike. For each turn call `review(turn)`, run the turn, then `record_searches` or
`record_calls`. It depends on nothing but these calls. `lifecycle` holds the table of when a plan is due. A phase is a
maximal run of turns of one kind; an invalid turn neither ends a phase nor starts one.
Limits: it knows names and order, not meaning; whether a tool suits the task is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from paraagent.protocol.grammar import PLAN_FAULTS, Turn
from paraagent.protocol.graph import Occurrence, PlanGraph, normal
from paraagent.protocol.lifecycle import PLANS_PER_PHASE, TAKEN, Execution, Exploration, PlanOutcome, Requirement
from paraagent.protocol.matching import Match, Stray, StrayKind, match_calls
from paraagent.protocol.plan import CallPlan, PlanError, SearchPlan
from paraagent.types import TurnKind

PlanMode = Literal["advise", "enforce", "off"]
"""`advise` records and tells deviations; `enforce` also refuses calls outside the ready frontier; `off` wants no
plans and says nothing of them."""
DeviationKind = (
    Literal["missing_plan", "invalid_plan", "unneeded_plan", "unsurfaced_tool", "outside_slots"] | StrayKind
)

_MISSING: dict[str, str] = {
    "exploration": "This search phase has no plan: write <plan> with capacity_slots before the searches.",
    "execution": "This call phase has no plan: write <plan> with available_tools, dependencies and execution_flow.",
    "finished": "The plan is finished but you go on calling: write a new <plan> first.",
}
_NOT_TAKEN: dict[PlanOutcome, str] = {
    "redundant": "The plan says the same as the current one: leave it out.",
    "forbidden": "The plan was not taken: a new one is due only after a failure or when the plan is finished.",
    "limited": f"The plan was not taken: a phase has at most {PLANS_PER_PHASE} plans.",
}


@dataclass(frozen=True, slots=True)
class Deviation:
    """One way in which a turn departs from the plan."""

    kind: DeviationKind
    message: str
    """One sentence for the agent."""
    index: int | None = None
    """Which search or call of the turn it is about; None if it is about the plan."""


@dataclass(frozen=True, slots=True)
class Review:
    """What the monitor says about one turn before it runs."""

    kind: TurnKind
    phase: int
    """Number of the phase this turn belongs to, from 1; 0 for an invalid turn before the first."""
    requirement: Requirement
    """What the turn's plan had to be, decided before reading it."""
    outcome: PlanOutcome
    ready: tuple[str, ...] = ()
    """The frontier at the start of the turn, its own plan included, as the plan writes it."""
    matched: tuple[str | None, ...] = ()
    """For each call the step of the plan that it carries out, or None."""
    deviations: tuple[Deviation, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    """In `enforce` mode the calls that must not run, with the reason."""

    @property
    def plan_fits(self) -> bool:
        """Whether presence and validity of the turn's plan fit the requirement: `plan_slot` of the step reward."""
        if self.requirement == "required":
            return self.outcome in TAKEN
        return self.outcome == "none" or (self.requirement == "optional" and self.outcome in TAKEN | {"redundant"})

    @property
    def follows_plan(self) -> bool:
        """Whether no search or call departs from the plan."""
        return all(deviation.index is None for deviation in self.deviations)


class PlanMonitor:
    """Follows the plans of one episode.

    Args:
        mode: see `PlanMode`.
        surfaced: names of tools the agent was given at the start.
    """

    def __init__(self, mode: PlanMode = "advise", surfaced: Iterable[str] = ()) -> None:
        self.mode = mode
        self._surfaced = {normal(name) for name in surfaced}
        self._phase: Exploration | Execution | None = None
        self._number = 0
        self._matches: tuple[Match, ...] = ()

    @property
    def graph(self) -> PlanGraph | None:
        """The call plan in force, if the current phase has one."""
        return self._phase.graph if isinstance(self._phase, Execution) else None

    @property
    def done(self) -> frozenset[Occurrence]:
        """The uses of tools in the current call plan that have succeeded."""
        return frozenset(self._phase.done) if isinstance(self._phase, Execution) else frozenset()

    def requirement(self, kind: TurnKind) -> Requirement:
        """Return what the plan of the next turn must be if that turn is of this kind."""
        if kind not in ("exploration", "execution"):
            return "forbidden"
        wanted = Exploration if kind == "exploration" else Execution
        return self._phase.requirement if isinstance(self._phase, wanted) else "required"

    def review(self, turn: Turn) -> Review:
        """Judge a turn before it runs, and take its plan if it is due."""
        review = self._review(turn)
        return replace(review, deviations=()) if self.mode == "off" else review

    def _review(self, turn: Turn) -> Review:
        requirement = self.requirement(turn.kind)
        self._enter(turn.kind)
        if turn.kind == "exploration":
            return self._review_searches(turn, requirement)
        if turn.kind == "execution":
            return self._review_calls(turn, requirement)
        outcome: PlanOutcome = "forbidden" if turn.has_plan else "none"
        message = "A plan belongs to a turn that searches or calls."
        deviations = (Deviation("unneeded_plan", message),) if turn.has_plan else ()
        return Review(turn.kind, self._number, requirement, outcome, deviations=deviations)

    def record_searches(self, found: Iterable[Iterable[str]]) -> None:
        """Note the names of the tools that each search of the reviewed turn has shown."""
        self._surfaced.update(normal(name) for names in found for name in names)

    def record_calls(self, ok: Sequence[bool]) -> None:
        """Note which calls of the reviewed turn succeeded; refused and broken ones did not.

        A step of the plan is done once every call that carried it out succeeded.

        Raises:
            ValueError: not one value per call of the reviewed turn.
        """
        if not isinstance(self._phase, Execution) or len(ok) != len(self._matches):
            raise ValueError(f"{len(ok)} outcomes for {len(self._matches)} calls under review")
        steps = {match for match in self._matches if isinstance(match, Occurrence)}
        failed = {match for match, good in zip(self._matches, ok, strict=True) if not good}
        self._phase.done |= steps - failed
        self._phase.recovering = not all(ok) or any(isinstance(match, Stray) for match in self._matches)
        self._matches = ()

    def _enter(self, kind: TurnKind) -> None:
        """Start a new phase when the kind of turn changes."""
        self._matches = ()
        if kind == "invalid":
            return
        phases: dict[TurnKind, type[Exploration | Execution]] = {"exploration": Exploration, "execution": Execution}
        phase = phases.get(kind)
        if phase is None or not isinstance(self._phase, phase):
            self._phase = phase() if phase else None
            self._number += 1

    def _review_searches(self, turn: Turn, requirement: Requirement) -> Review:
        state = self._phase
        assert isinstance(state, Exploration)
        outcome: PlanOutcome = "none"
        if turn.has_plan:
            outcome = state.submit(turn.plan) if isinstance(turn.plan, SearchPlan) else "invalid"
        deviations = self._plan_deviations(turn, requirement, outcome, "")
        if state.plan is not None:
            free = state.slots()
            for index, search in enumerate(turn.searches):
                slot = normal(search.slot)
                if free[slot] == 0:
                    message = f"The plan has no free slot {search.slot[:80]!r} in this turn."
                    deviations.append(Deviation("outside_slots", message, index))
                free[slot] -= 1
        return Review(turn.kind, self._number, requirement, outcome, deviations=tuple(deviations))

    def _review_calls(self, turn: Turn, requirement: Requirement) -> Review:
        state = self._phase
        assert isinstance(state, Execution)
        outcome, reason = self._submit(turn, state)
        deviations = self._plan_deviations(turn, requirement, outcome, reason)
        if state.graph is None:
            self._matches = (None,) * len(turn.calls)
            refused = dict.fromkeys(range(len(turn.calls)), deviations[0].message)
        else:
            self._matches = match_calls(turn.calls, state)
            strays = {index: match for index, match in enumerate(self._matches) if isinstance(match, Stray)}
            deviations += (Deviation(stray.kind, stray.message, index) for index, stray in strays.items())
            refused = {index: stray.message for index, stray in strays.items()}
        graph = state.graph
        return Review(
            turn.kind,
            self._number,
            requirement,
            outcome,
            ready=tuple(graph.ref(use) for use in graph.ready(state.done)) if graph else (),
            matched=tuple(graph.ref(m) if graph and isinstance(m, Occurrence) else None for m in self._matches),
            deviations=tuple(deviations),
            refused=refused if self.mode == "enforce" else {},
        )

    def _submit(self, turn: Turn, state: Execution) -> tuple[PlanOutcome, str]:
        """Hand the turn's plan to the phase; the text says what is wrong with one that was not taken."""
        if not turn.has_plan:
            return "none", ""
        if not isinstance(turn.plan, CallPlan):
            return "invalid", ""
        try:
            graph = PlanGraph.of(turn.plan)
        except PlanError as error:
            return "invalid", f"The plan was not taken: {error}."
        left = ", ".join(state.graph.ref(use) for use in state.unfinished()) if state.graph else ""
        outcome = state.submit(graph)
        return (
            outcome,
            f"The plan was not taken: it drops unfinished work ({left}); keep it or name other tools for it.",
        )

    def _plan_deviations(
        self, turn: Turn, requirement: Requirement, outcome: PlanOutcome, reason: str
    ) -> list[Deviation]:
        if outcome in TAKEN:
            return self._unsurfaced(turn.plan) if isinstance(turn.plan, CallPlan) else []
        if outcome == "none":
            finished = isinstance(self._phase, Execution) and self._phase.finished
            message = _MISSING["finished" if finished else turn.kind]
            return [Deviation("missing_plan", message)] if requirement == "required" else []
        if outcome in _NOT_TAKEN:
            return [Deviation("unneeded_plan", _NOT_TAKEN[outcome])]
        return [Deviation("invalid_plan", reason or _unreadable(turn))]

    def _unsurfaced(self, plan: CallPlan) -> list[Deviation]:
        unknown = [tool[:80] for tool in plan.available_tools if normal(tool) not in self._surfaced]
        message = f"No search has shown {', '.join(unknown[:5])}: plan with tools you have found."
        return [Deviation("unsurfaced_tool", message)] if unknown else []


def _unreadable(turn: Turn) -> str:
    """Return the grammar's own words for a plan that could not be read."""
    faults = [fault for fault in turn.faults if fault.kind in PLAN_FAULTS | {"unclosed_tag", "unopened_tag"}]
    return faults[0].message if faults else "The plan was not taken: it could not be read."

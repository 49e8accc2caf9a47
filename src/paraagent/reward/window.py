"""The windows of an execution phase: each taken plan, the turns it was in force, and how well it was made and run.

Place in the flow: layer 4, part of `phase`. A turn that needed a plan and got none is in a window worth 0. Else

    reward = grounded + dependencies + minimal_layers + frontier     (weights 0.1, 0.2, 0.2, 0.5)

and 0 if a listed tool had not been found. `frontier` is what ran of what was due: in every turn the uses that were
ready when it began (and those it ran behind them through links) are due; a use that never became ready is due once.
By default only success closes a use, a use that failed through no fault of the agent's is not held against it, a
plan that lists no needed tool is worth 0, and a tool listed twice costs only its own term. As published, a definite
failure closes a use too, and a tool listed twice makes the window worth 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from paraagent.errors import ERROR_TRAITS, ErrorKind
from paraagent.protocol.graph import Occurrence
from paraagent.protocol.lifecycle import TAKEN, Execution
from paraagent.protocol.matching import match_calls
from paraagent.protocol.plan import CallPlan
from paraagent.reward.needs import Needs
from paraagent.reward.past import error_kind
from paraagent.reward.planned import Planned, measure_plan
from paraagent.reward.record import Term, WindowReward
from paraagent.reward.replay import Played, PlayedCall
from paraagent.reward.rules import Rules

_BLOCKING: frozenset[ErrorKind] = frozenset({"permission", "tool_error"})
"""Failures that calling again cannot mend, and that are not the agent's fault."""
_DEFINITE: frozenset[ErrorKind] = frozenset({"tool_not_found", "not_found", "permission", "conflict"})
"""Failures that close a use as published, unless injected."""


def reward_windows(phase: Sequence[Played], needs: Needs, rules: Rules) -> tuple[WindowReward, ...]:
    """Return the windows of one execution phase, in order."""
    windows: list[WindowReward] = []
    unplanned: list[Played] = []
    open_window: _Window | None = None
    for played in phase:
        review = played.review
        if played.kind != "execution" or review is None:
            continue
        taken = review.outcome in TAKEN
        missing = not taken and (played.graph is None or review.requirement == "required")
        if taken or missing:
            windows += [open_window.close(revised=review.outcome == "revise")] if open_window else []
            open_window = None
        if unplanned and not missing:
            windows.append(_unplanned(unplanned))
            unplanned = []
        if missing:
            unplanned.append(played)
        elif taken:
            open_window = _Window.open(played, needs, rules)
        if open_window is not None:
            open_window.run(played)
    windows += [_unplanned(unplanned)] if unplanned else []
    windows += [open_window.close(revised=False)] if open_window else []
    return tuple(windows)


def _unplanned(turns: Sequence[Played]) -> WindowReward:
    calls = sum(len(played.calls) for played in turns)
    reason = "no plan was taken though one was due"
    positions = tuple(played.position for played in turns)
    return WindowReward(positions, 0.0, max(1.0, calls), (Term("planned", 0.0, 1.0, reason),))


@dataclass(slots=True)
class _Window:
    rules: Rules
    planned: Planned
    grounded: Term
    void: bool
    """Whether the window is worth nothing, whatever else."""
    done: set[Occurrence]
    work: float
    turns: list[int] = field(default_factory=list)
    blocked: set[Occurrence] = field(default_factory=set)
    """Failed, and not to be called again."""
    seen: set[Occurrence] = field(default_factory=set)
    """Was due in some turn."""
    due: int = 0
    closed: int = 0

    @classmethod
    def open(cls, played: Played, needs: Needs, rules: Rules) -> _Window:
        plan, graph = played.turn.plan, played.graph
        assert isinstance(plan, CallPlan)
        assert graph is not None
        planned = measure_plan(plan, graph, needs, published=rules.published)
        grounded, void = _grounded(planned, played.surfaced, needs, rules)
        work = len(planned.canonical.needs.keys() - played.done)
        return cls(rules, planned, grounded, void, set(played.done), max(1.0, work))

    def run(self, played: Played) -> None:
        """Follow one turn."""
        self.turns.append(played.position)
        graph = self.planned.canonical
        calls = played.calls if self.rules.published else played.fresh
        matches = match_calls([call.call for call in calls], Execution(graph=graph, done=set(self.done)))
        runs: dict[Occurrence, list[PlayedCall]] = {}
        for match, call in zip(matches, calls, strict=True):
            if isinstance(match, Occurrence) and match not in self.done:
                runs.setdefault(match, []).append(call)
        given_up = set() if self.rules.published else {use for use in graph.needs if use.tool in played.given_up}
        ready = set(graph.ready(self.done)) - self.blocked - given_up
        self.blocked |= given_up - self.done
        succeeded = {use for use, own in runs.items() if all(call.ok for call in own)}
        closed, excused = self._failures(runs, succeeded)
        due = (ready | closed) - excused
        self.due += len(due)
        self.closed += len(closed)
        self.seen |= due | excused
        self.done |= succeeded

    def _failures(
        self, runs: dict[Occurrence, list[PlayedCall]], succeeded: set[Occurrence]
    ) -> tuple[set[Occurrence], set[Occurrence]]:
        """Return what this turn closed and what is not held against it; note what is blocked from now on."""
        kinds = {use: _kinds(own, self.rules) for use, own in runs.items() if use not in succeeded}
        if self.rules.published:
            definite = {use for use, found in kinds.items() if found and _DEFINITE.issuperset(found)}
            self.blocked |= definite
            return succeeded | definite, set()
        excused = {use for use, found in kinds.items() if found and all(_foreign(kind) for kind in found)}
        self.blocked |= {use for use in excused if _BLOCKING.intersection(kinds[use])}
        return succeeded, excused

    def close(self, *, revised: bool) -> WindowReward:
        """Return the reward; `revised` tells that a new plan took over before this one was finished."""
        unreached = self.planned.canonical.needs.keys() - self.seen - self.done - self.blocked
        if revised or not self.rules.published:
            unreached -= self._behind_blocked()
        terms = (self.grounded, *self._plan_terms(), self._frontier(self.due + len(unreached)))
        reward = 0.0 if self.void else sum(term.points for term in terms)
        return WindowReward(tuple(self.turns), reward, self.work, terms)

    def _behind_blocked(self) -> set[Occurrence]:
        """Return the uses that wait, directly or through others, for one that cannot be done any more."""
        behind: set[Occurrence] = set()
        for use, ups in self.planned.canonical.needs.items():  # what a use needs stands before it
            if ups & (self.blocked | behind):
                behind.add(use)
        return behind

    def _plan_terms(self) -> tuple[Term, Term]:
        planned, rules = self.planned, self.rules
        wrong = [f"not declared: {pair}" for pair in planned.undeclared]
        wrong += [f"not needed: {pair}" for pair in planned.invented]
        return (
            _all_right("dependencies", wrong, rules.dependencies, "declared as the task has them"),
            _all_right("minimal_layers", planned.badly_layered, rules.minimal_layers, "as early as possible"),
        )

    def _frontier(self, due: int) -> Term:
        value = self.closed / due if due else 1.0
        return Term("frontier", value, self.rules.frontier, f"{self.closed} done of {due} due")


def _grounded(planned: Planned, surfaced: frozenset[str], needs: Needs, rules: Rules) -> tuple[Term, bool]:
    """Return the term, and whether the window is void."""
    unknown = [tool for tool in planned.tools if tool not in surfaced]
    twice = len(set(planned.tools)) < len(planned.tools)
    useless = needs.known and not rules.published and not any(map(needs.serving, planned.tools))
    wrong = [f"no search had shown {', '.join(unknown[:3])}"] if unknown else []
    wrong += ["a tool is listed twice"] if twice else []
    wrong += ["lists no tool that the task needs"] if useless else []
    term = _all_right("grounded", wrong, rules.grounded, "every listed tool had been found")
    return term, bool(unknown or useless or (twice and rules.published))


def _all_right(name: str, wrong: Sequence[str], weight: float, right: str) -> Term:
    return Term(name, float(not wrong), weight, "; ".join(wrong[:3]) or right)


def _kinds(calls: Iterable[PlayedCall], rules: Rules) -> list[ErrorKind | None]:
    """Return why calls failed, None for one whose failure excuses or settles nothing."""
    failed = [call for call in calls if not call.ok]
    ended = [call.view.end if call.view else None for call in failed]
    injected = [rules.published and end is not None and end.injected for end in ended]
    kinds = [error_kind(call.view) if call.view else None for call in failed]
    return [None if made else kind for kind, made in zip(kinds, injected, strict=True)]


def _foreign(kind: ErrorKind | None) -> bool:
    """Tell whether a failure was not the agent's fault."""
    return kind is not None and ERROR_TRAITS[kind].fault != "agent"

"""An episode beside the task it was about: which calls did gold ones, what searches found, what was repeated.

Place in the flow: layer 5, between a trace and `metrics` and `behaviour`, which both judge from here. Gold calls are
matched by the verifier's own rules. Limits: a trace does not hold the tools' schemas, so that an optional argument
given at its default value is accepted only where the recorded verdict says that the call was done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paraagent.env.task import Task
from paraagent.env.verify import matched
from paraagent.errors import ERROR_TRAITS, ErrorKind
from paraagent.protocol.graph import normal
from paraagent.reward.needs import Needs, needs, task_of
from paraagent.reward.replay import Played, replay
from paraagent.reward.rules import DEFAULT
from paraagent.trace.view import CallView, EpisodeView
from paraagent.types import Call, Result, ToolError


@dataclass(frozen=True, slots=True)
class Hindsight:
    """What only one who knows the task can say about an episode."""

    view: EpisodeView
    task: Task | None
    needs: Needs
    calls: tuple[CallView, ...]
    """All calls in the order they were asked for."""
    matches: Mapping[str, int]
    """Gold call id to the position in `calls` of the successful call that did it."""
    played: tuple[Played, ...]

    @property
    def done(self) -> frozenset[int]:
        """Positions of the calls that did a gold call."""
        return frozenset(self.matches.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of the gold calls that were not done, upstream ones first."""
        return tuple(call.id for call in self.task.calls if call.id not in self.matches) if self.task else ()

    def classes_shown(self, first: int | None = None) -> frozenset[int]:
        """Return the needed classes of tools that some search showed, among its `first` hits if that is given."""
        shown = {name for search in self.view.searches for name, _ in search.hits[:first]}
        return frozenset().union(*map(self.needs.serving, shown))

    def check(self, name: str) -> bool | None:
        """Return what the recorded verdict says of one check; None if it says nothing."""
        checks = self.view.end.checks if self.view.end else {}
        return checks[name] is True if name in checks else None


def look_back(view: EpisodeView) -> Hindsight:
    """Put an episode beside its task.

    Raises:
        TraceError: the task record in the trace cannot be read.
    """
    task = task_of(view)
    calls = tuple(view.calls)
    matches = _matches(view, task, calls) if task else {}
    return Hindsight(view, task, needs(task), calls, matches, replay(view, DEFAULT))


def failed_by_agent(call: CallView) -> bool:
    """Tell whether a call failed through the agent's own fault, an unreadable one included."""
    kind = error_of(call)
    return kind is not None and ERROR_TRAITS[kind].fault == "agent" and not (call.end and call.end.injected)


def failed_by_fate(call: CallView) -> bool:
    """Tell whether a call was really made and failed through no fault of the agent."""
    return call.ran and error_of(call) is not None and not failed_by_agent(call)


def error_of(call: CallView) -> ErrorKind | None:
    return call.end.error if call.end else None


def writes(call: CallView) -> bool:
    """Tell whether a call changed something, as far as its tool declares."""
    return call.ok and call.start is not None and call.start.effect != "read"


def same_call(one: CallView, other: CallView) -> bool:
    return normal(one.name) == normal(other.name) and one.arguments == other.arguments


def _matches(view: EpisodeView, task: Task, calls: Sequence[CallView]) -> Mapping[str, int]:
    results = [_result(call) for call in calls]
    strict = matched(task, results, lambda name: None)
    checks = view.end.checks if view.end else {}
    done = {gold.id for gold in task.calls if checks.get(f"call {gold.id}") is True}
    if done <= strict.keys():
        return strict
    names = {name for gold in task.calls for name in gold.arguments}
    cut = [replace(one, arguments={k: v for k, v in one.arguments.items() if k in names}) for one in results]
    loose = matched(task, cut, lambda name: None)
    return {gold: index for gold, index in loose.items() if gold in done}


def _result(call: CallView) -> Result:
    end = call.end
    error = ToolError(error_of(call) or "cancelled", "") if not call.ok else None
    return Result(
        Call(call.name, call.arguments, end.id if end else None),
        call.arguments,
        value=end.value if end else None,
        error=error,
    )

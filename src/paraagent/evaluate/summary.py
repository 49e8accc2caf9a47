"""The figures of a run: success by task kind, turns, searches, calls, width, makespan and tokens.

Place in the flow: layer 5; computed from finished episodes' traces and nothing else, printed by `paraagent run`.
An episode that broke for reasons outside the agent (`mask_sample`) is counted apart and enters no mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject


@dataclass(frozen=True, slots=True)
class Group:
    """Means over some episodes; a mean over none is 0."""

    episodes: int
    success: float
    """Share of episodes the verifier accepted, 0 to 1."""
    turns: float
    searches: float
    calls: float
    failed_calls: float
    width: float
    """Mean number of actions in a turn that acts."""
    makespan_ratio: float
    """Time of all action groups over their critical paths: 1 is the fastest any schedule could be."""
    input_tokens: float
    output_tokens: float

    def to_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in numbers."""

    overall: Group
    by_kind: dict[str, Group]
    masked: int
    """Episodes that failed outside the agent: model endpoint, runtime."""
    first_failure: str | None = None
    """What the first of them failed of."""
    seconds: float = 0.0
    """Wall-clock time of the run."""

    def to_json(self) -> JsonObject:
        return {
            "episodes": self.overall.episodes,
            "success": self.overall.success,
            "by_kind": {kind: group.to_json() for kind, group in self.by_kind.items()},
            "turns_mean": self.overall.turns,
            "searches_mean": self.overall.searches,
            "calls_mean": self.overall.calls,
            "width_mean": self.overall.width,
            "makespan_ratio": self.overall.makespan_ratio,
            "input_tokens_mean": self.overall.input_tokens,
            "output_tokens_mean": self.overall.output_tokens,
            "masked": self.masked,
            "seconds": self.seconds,
        }


def summarise(views: Iterable[EpisodeView], seconds: float = 0.0) -> Summary:
    """Return the figures of finished episodes; those without an end are left out."""
    finished = [view for view in views if view.end is not None]
    counted = [view for view in finished if view.end is not None and not view.end.mask_sample]
    kinds: dict[str, list[EpisodeView]] = {}
    for view in counted:
        kinds.setdefault(kind_of(view), []).append(view)
    return Summary(
        overall=_group(counted),
        by_kind={kind: _group(kinds[kind]) for kind in sorted(kinds)},
        masked=len(finished) - len(counted),
        first_failure=next((v.end.failure_kind for v in finished if v.end and v.end.mask_sample), None),
        seconds=seconds,
    )


def kind_of(view: EpisodeView) -> str:
    """Return the task kind of an episode, `request` for a free-text one."""
    task = view.start.task
    return str(task["kind"]) if task else "request"


def _group(views: Sequence[EpisodeView]) -> Group:
    measures = [view.measures for view in views]
    group_seconds = sum(m.group_seconds for m in measures)
    critical_path = sum(m.critical_path for m in measures)
    return Group(
        episodes=len(views),
        success=_mean([float(bool(view.success)) for view in views]),
        turns=_mean([m.turns for m in measures]),
        searches=_mean([m.searches for m in measures]),
        calls=_mean([m.calls for m in measures]),
        failed_calls=_mean([m.failed_calls for m in measures]),
        width=_mean([m.mean_width for m in measures if m.max_width]),
        makespan_ratio=group_seconds / critical_path if critical_path else 1.0,
        input_tokens=_mean([m.input_tokens for m in measures]),
        output_tokens=_mean([m.output_tokens for m in measures]),
    )


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0

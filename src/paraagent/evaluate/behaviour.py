"""How an agent goes about its work: when it explores, how wide, what it looks for again, and how it fails.

Place in the flow: layer 5, beside `metrics`; read from traces alone, summed up per task kind for `report`. A
*return* is an exploration phase after the first call; what came before it says why: a call that failed, or none that
did. Limits: two searches count as the same only if they are worded the same, slot included.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from paraagent.evaluate.failures import Failure, FailureKind, failure
from paraagent.evaluate.hindsight import Hindsight, look_back
from paraagent.evaluate.intervals import Interval, mean, share
from paraagent.evaluate.summary import kind_of
from paraagent.trace.view import EpisodeView, PhaseView
from paraagent.types import JsonObject

ReturnReason = Literal["failed_call", "nothing_failed"]


@dataclass(frozen=True, slots=True)
class Exploration:
    """How one episode explores."""

    first_call: float | None
    """Turns before the first call; None if there is none."""
    upfront: float | None
    """Share of its searches made before the first call, 0 to 1; None without a search."""
    width: float | None
    """Searches per turn that searches."""
    widest: int
    returns: tuple[ReturnReason, ...]
    """Why it went back to exploring, once for each time."""
    again: float | None
    """Share of searches in earlier words."""
    rediscovered: float | None
    """Share of searches after the first turn of searches all of whose hits had been shown before."""
    in_vain: float | None
    """Share of searches that were answered `nothing fits`."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How many episodes explore and fail; a figure is None where it applies to none of them."""

    episodes: int
    first_call: Interval | None
    upfront: Interval | None
    width: Interval | None
    widest: Interval | None
    returns: Interval | None
    """Returns to exploration per episode."""
    return_reasons: Mapping[ReturnReason, int]
    again: Interval | None
    rediscovered: Interval | None
    in_vain: Interval | None
    failures: Mapping[FailureKind, int]

    def to_json(self) -> JsonObject:
        names = ("first_call", "upfront", "width", "widest", "returns", "again", "rediscovered", "in_vain")
        figures: JsonObject = {name: one.to_json() if (one := getattr(self, name)) else None for name in names}
        return {
            "episodes": self.episodes,
            **figures,
            "return_reasons": {str(reason): times for reason, times in self.return_reasons.items()},
            "failures": {str(kind): times for kind, times in self.failures.items()},
        }


def exploration(view: EpisodeView) -> Exploration:
    """Return how an episode explores.

    Raises:
        TraceError: the task record in the trace cannot be read.
    """
    seen = look_back(view)
    turns = view.turns
    first = next((number for number, turn in enumerate(turns) if turn.kind == "execution"), None)
    widths = [len(turn.searches) for turn in turns if turn.searches]
    before = sum(len(turn.searches) for turn in turns[:first])
    searches = list(view.searches)
    return Exploration(
        first_call=first,
        upfront=_part(before, len(searches)),
        width=_part(sum(widths), len(widths)),
        widest=max(widths, default=0),
        returns=tuple(_returns(view.phases)),
        again=_again(seen),
        rediscovered=_rediscovered(view),
        in_vain=_part(sum(search.nothing_fits or not search.hits for search in searches), len(searches)),
    )


def behaviour(views: Iterable[EpisodeView]) -> Behaviour:
    """Sum up episodes; masked ones and those without an end are left out."""
    counted = [view for view in views if view.end is not None and not view.end.mask_sample]
    each = [exploration(view) for view in counted]
    failures = Counter(found.kind for view in counted if (found := failure(view)))
    return Behaviour(
        episodes=len(each),
        first_call=mean([float(one.first_call) for one in each if one.first_call is not None]),
        upfront=share([one.upfront for one in each if one.upfront is not None]),
        width=mean([one.width for one in each if one.width is not None]),
        widest=mean([float(one.widest) for one in each if one.widest]),
        returns=mean([float(len(one.returns)) for one in each]),
        return_reasons=Counter(reason for one in each for reason in one.returns),
        again=share([one.again for one in each if one.again is not None]),
        rediscovered=share([one.rediscovered for one in each if one.rediscovered is not None]),
        in_vain=share([one.in_vain for one in each if one.in_vain is not None]),
        failures=failures,
    )


def behaviour_by_kind(views: Iterable[EpisodeView]) -> dict[str, Behaviour]:
    """Sum up episodes per task kind."""
    kinds: dict[str, list[EpisodeView]] = defaultdict(list)
    for view in views:
        kinds[kind_of(view)].append(view)
    return {kind: behaviour(kinds[kind]) for kind in sorted(kinds)}


def failed(views: Iterable[EpisodeView]) -> list[tuple[EpisodeView, Failure]]:
    """Return the failed episodes, each with its cause."""
    return [(view, found) for view in views if (found := failure(view))]


def _returns(phases: Sequence[PhaseView]) -> Iterable[ReturnReason]:
    calls: PhaseView | None = None
    for phase in phases:
        if phase.kind == "execution":
            calls = phase
        elif phase.kind == "exploration" and calls is not None:
            went_wrong = any(not call.ok for turn in calls.turns for call in turn.calls)
            yield "failed_call" if went_wrong else "nothing_failed"


def _again(seen: Hindsight) -> float | None:
    searches = [search for turn in seen.played for search in turn.searches]
    return _part(sum(search.repeat for search in searches), len(searches))


def _rediscovered(view: EpisodeView) -> float | None:
    shown: set[str] = set()
    vain = later = 0
    for turn in (turn for turn in view.turns if turn.searches):
        hits = [{name for name, _ in search.hits} for search in turn.searches]
        if shown:
            later += len(hits)
            vain += sum(bool(names) and names <= shown for names in hits)
        shown = shown.union(*hits)
    return _part(vain, later)


def _part(part: float, whole: float) -> float | None:
    return part / whole if whole else None

"""Do the rewards say what they should? Looked at over the episodes of a run, before anybody trains on them.

Place in the flow: layer 4; `paraagent reward audit` prints it. For every term: does it vary at all, and does it pay
in failed episodes as much as in solved ones (then it teaches something else than solving tasks)? For every level:
how often does the sign of an episode's advantage agree with its success, and how many sets hold nothing to compare?
Limits: episodes with a verdict only; with few episodes or one outcome the figures say little, and None says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Literal, cast

import msgspec
import numpy as np

from paraagent.reward.credit import Level, zscores
from paraagent.reward.needs import task_of
from paraagent.reward.record import Levels, Reward, Term
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject

Grouping = Literal["task", "kind"]


@dataclass(frozen=True, slots=True)
class Episode:
    """One scored episode."""

    task: str
    """Its task's id; the request where there is no task."""
    kind: str
    success: bool
    reward: Reward

    @classmethod
    def of(cls, view: EpisodeView, reward: Reward, success: bool) -> Episode:
        task = task_of(view)
        return cls(task.id if task else view.request, task.kind if task else "request", success, reward)


@dataclass(frozen=True, slots=True)
class TermAudit:
    """One term over all episodes; its value in an episode is the mean over turns, phases or windows that have it."""

    level: Level
    name: str
    weight: float
    variance: float
    """Between episodes, of the value."""
    solved: float | None
    """Mean points (weight * value) in solved episodes."""
    failed: float | None
    """Mean points in failed episodes."""

    @property
    def pays_without_success(self) -> bool:
        """Whether failed episodes earn, or lose, no less by it than solved ones, and it is not the same for all."""
        if self.solved is None or self.failed is None or not self.variance:
            return False
        return self.failed >= self.solved and (self.failed > 0 or self.weight < 0)


@dataclass(frozen=True, slots=True)
class LevelAudit:
    """One level over all groups."""

    level: Level
    agreement: float | None
    """Share of episodes, in groups with both outcomes and among advantages that are not 0, whose sign agrees."""
    judged: int
    """How many episodes that share is of."""
    sets: int
    """Sets that `local` credit would compare."""
    singletons: float
    """Share of those that hold one reward: nothing to compare with."""
    constant: float
    """Share of those that hold several equal rewards."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found."""

    episodes: int
    masked: int
    groups: int
    grouping: Grouping
    """Episodes of one task; or, if every task has one episode only, of one kind of task."""
    solved: int
    terms: tuple[TermAudit, ...]
    levels: tuple[LevelAudit, ...]

    def to_json(self) -> JsonObject:
        found = cast(JsonObject, msgspec.json.decode(msgspec.json.encode(self)))
        flags = {f"{term.level}.{term.name}": term.pays_without_success for term in self.terms}
        return found | {"pays_without_success": [name for name, flag in flags.items() if flag]}


def audit(episodes: Sequence[Episode]) -> Audit:
    """Look at the rewards of a run's episodes."""
    counted = [episode for episode in episodes if not episode.reward.masked]
    tasks = {episode.task for episode in counted}
    grouping: Grouping = "task" if len(tasks) < len(counted) else "kind"
    groups: dict[str, list[Episode]] = {}
    for episode in counted:
        groups.setdefault(getattr(episode, grouping), []).append(episode)
    return Audit(
        episodes=len(counted),
        masked=len(episodes) - len(counted),
        groups=len(groups),
        grouping=grouping,
        solved=sum(episode.success for episode in counted),
        terms=tuple(_terms(counted)),
        levels=tuple(_level(level, list(groups.values())) for level in ("trajectory", "phase", "step")),
    )


def _terms(episodes: Sequence[Episode]) -> Iterable[TermAudit]:
    seen: dict[tuple[Level, str], list[tuple[bool, float, float]]] = {}
    for episode in episodes:
        by_name: dict[tuple[Level, str], list[Term]] = {}
        for level, term in _all_terms(episode.reward):
            by_name.setdefault((level, term.name), []).append(term)
        for key, terms in by_name.items():
            mean = fmean(term.value for term in terms)
            seen.setdefault(key, []).append((episode.success, mean, terms[0].weight))
    for (level, name), rows in seen.items():
        weight = rows[0][2]
        points = {won: [weight * value for success, value, _ in rows if success == won] for won in (True, False)}
        yield TermAudit(
            level=level,
            name=name,
            weight=weight,
            variance=pvariance([value for _, value, _ in rows]),
            solved=fmean(points[True]) if points[True] else None,
            failed=fmean(points[False]) if points[False] else None,
        )


def _all_terms(reward: Reward) -> Iterable[tuple[Level, Term]]:
    for term in reward.trajectory.terms:
        yield "trajectory", term
    for phase in reward.phases:
        for term in (*phase.terms, *(term for window in phase.windows for term in window.terms)):
            yield "phase", term
    for turn in reward.turns:
        for term in turn.terms:
            yield "step", term


_VALUES: dict[Level, Callable[[Levels], float | None]] = {
    "trajectory": lambda levels: levels.trajectory,
    "phase": lambda levels: levels.phase,
    "step": lambda levels: levels.step,
}


def _level(level: Level, groups: Sequence[Sequence[Episode]]) -> LevelAudit:
    agreed: list[bool] = []
    for group in groups:
        scored = [
            (episode, value) for episode in group if (value := _VALUES[level](episode.reward.levels)) is not None
        ]
        if len({episode.success for episode, _ in scored}) == 2:
            signs = np.sign(zscores(np.array([value for _, value in scored])))
            agreed += [(sign > 0) == e.success for sign, (e, _) in zip(signs, scored, strict=True) if sign]
    sets = [rewards for group in groups for rewards in _sets(level, group)]
    return LevelAudit(
        level=level,
        agreement=fmean(agreed) if agreed else None,
        judged=len(agreed),
        sets=len(sets),
        singletons=fmean(len(rewards) == 1 for rewards in sets) if sets else 0.0,
        constant=fmean(len(rewards) > 1 and len(set(rewards)) == 1 for rewards in sets) if sets else 0.0,
    )


def _sets(level: Level, group: Sequence[Episode]) -> Iterable[list[float]]:
    """Return the sets of rewards that `local` credit compares inside one group."""
    sets: dict[str, list[float]] = {}
    for reward in (episode.reward for episode in group):
        if level == "trajectory":
            parts: list[tuple[str, float | None]] = [("", reward.levels.trajectory)]
        elif level == "phase":
            parts = [(phase.kind, phase.reward) for phase in reward.phases]
        else:
            parts = [(turn.kind, turn.reward) for turn in reward.turns]
        for kind, value in parts:
            if value is not None:
                sets.setdefault(kind, []).append(value)
    return sets.values()

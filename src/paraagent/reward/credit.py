"""Credit: from the rewards of a batch to one advantage per token, the same for every training engine.

Place in the flow: layer 4, NumPy only; `train` and its engines fill `Rollout`s and hand the arrays to their loss. A
*set* is what a reward is compared with; inside one, an advantage is a z-score, (x - mean) / (std + 1e-6) with ddof 1.
The levels are decoupled: each is normalised in its own sets first, then weighted and added.

    trajectory  the published pipeline: z-score of every level's episode value inside the group (rollouts of one
                task), weighted sum, whitened over the batch with one value per rollout, on all its model tokens
    local       trajectory advantage on all model tokens; phase advantage on the tokens of that phase, set: same
                group and phase kind; step advantage on the tokens of that turn, set: same group and turn kind
    outcome     z-score of the trajectory reward alone inside the group (GRPO), for comparison
    summed      the levels' weighted sum first, then one z-score inside the group, for comparison

A set of one says nothing: its advantage is 0, and it is counted (as published it would be the raw value). Masked
rollouts are in no set and get zeros. Tokens of no turn (observations) always get 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from paraagent.reward.record import Reward
from paraagent.types import TurnKind

Mode = Literal["trajectory", "local", "outcome", "summed"]
Level = Literal["trajectory", "phase", "step"]
Floats = NDArray[np.float64]

EPSILON = 1e-6
"""Added to every standard deviation, as published."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each level counts."""

    trajectory: float = 1.0
    phase: float = 0.5
    step: float = 0.25


@dataclass(frozen=True, slots=True)
class Span:
    """The tokens of one turn in the completion: `start <= token < end`."""

    start: int
    end: int
    kind: TurnKind
    reward: float | None = None
    """The turn's step reward; None if it has none."""


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """One phase: some of the rollout's turns."""

    kind: TurnKind
    turns: tuple[int, ...]
    """Positions in `Rollout.turns`."""
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled episode, ready for credit."""

    group: str
    """Rollouts of one task bear the same name."""
    tokens: int
    """Length of the completion: model tokens and observations."""
    trajectory: float | None
    """Trajectory reward; may be None only if masked."""
    phase: float | None = None
    """The phase level as one number for the episode; None if it has none. `local` mode does not use it."""
    step: float | None = None
    """The step level as one number for the episode; None if it has none. `local` mode does not use it."""
    turns: tuple[Span, ...] = ()
    """In order, without overlap. Turns that were cut off the completion may be missing at the end."""
    phases: tuple[PhaseSpan, ...] = ()
    masked: bool = False


@dataclass(frozen=True, slots=True)
class LevelStats:
    """How much one level says about a batch."""

    members: int
    """Rewards that were compared."""
    sets: int
    singletons: int
    """Sets of one."""
    constant: int
    """Sets of several equal rewards: they say nothing either."""
    mean_abs: float
    """Mean size of its advantages before weighting."""
    positive: float
    """Share of them above 0."""


@dataclass(frozen=True, slots=True)
class Credit:
    """The advantages of a batch."""

    tokens: tuple[Floats, ...]
    """For every rollout, in order, an array of shape (rollout.tokens,)."""
    levels: dict[Level, LevelStats]
    """Of the levels that this mode compares; `summed` and `outcome` report under `trajectory`."""
    masked: int


def assign(rollouts: Sequence[Rollout], mode: Mode = "local", weights: Weights | None = None) -> Credit:
    """Return the advantage of every token of a batch.

    Raises:
        ValueError: a reward is missing or not finite, or a span lies outside its completion or overlaps another.
    """
    weights = weights or Weights()
    for number, rollout in enumerate(rollouts):
        _check(number, rollout)
    batch = [rollout for rollout in rollouts if not rollout.masked]
    ways = {"trajectory": _published, "local": _local, "outcome": _outcome, "summed": _summed}
    advantages, levels = ways[mode](batch, weights)
    live = iter(advantages)
    tokens = tuple(np.zeros(rollout.tokens) if rollout.masked else next(live) for rollout in rollouts)
    return Credit(tokens, levels, len(rollouts) - len(batch))


def as_rollout(reward: Reward, group: str, spans: Sequence[tuple[int, int]], tokens: int) -> Rollout:
    """Return a scored episode as a rollout.

    Args:
        reward: of the episode.
        group: names its task.
        spans: start and end of every turn in the completion, in order; fewer than there are turns if it was cut.
        tokens: length of the completion.
    """
    turns = tuple(
        Span(start, end, turn.kind, turn.reward) for (start, end), turn in zip(spans, reward.turns, strict=False)
    )
    phases = (
        PhaseSpan(phase.kind, tuple(turn for turn in phase.turns if turn < len(turns)), phase.reward)
        for phase in reward.phases
    )
    return Rollout(
        group=group,
        tokens=tokens,
        trajectory=reward.levels.trajectory,
        phase=reward.levels.phase,
        step=reward.levels.step,
        turns=turns,
        phases=tuple(phase for phase in phases if phase.turns),
        masked=reward.masked,
    )


def zscores(values: Floats) -> Floats:
    """Return the z-scores of one set, shape (n,); zeros for a set of one and for equal values."""
    if len(values) < 2 or values.min() == values.max():
        return np.zeros(len(values))
    scores: Floats = (values - values.mean()) / (values.std(ddof=1) + EPSILON)
    return scores


_Made = tuple[list[Floats], dict[Level, LevelStats]]
"""An array of tokens for every unmasked rollout, and what was compared."""


def _published(batch: Sequence[Rollout], weights: Weights) -> _Made:
    groups = [rollout.group for rollout in batch]
    trajectory, first = _compare(groups, [rollout.trajectory for rollout in batch])
    phase, second = _compare(groups, [rollout.phase for rollout in batch])
    step, third = _compare(groups, [rollout.step for rollout in batch])
    values = zscores(weights.trajectory * trajectory + weights.phase * phase + weights.step * step)
    return _everywhere(batch, values), {"trajectory": first, "phase": second, "step": third}


def _outcome(batch: Sequence[Rollout], weights: Weights) -> _Made:
    values, stats = _compare([rollout.group for rollout in batch], [rollout.trajectory for rollout in batch])
    return _everywhere(batch, weights.trajectory * values), {"trajectory": stats}


def _summed(batch: Sequence[Rollout], weights: Weights) -> _Made:
    sums = [
        weights.trajectory * (rollout.trajectory or 0.0)
        + weights.phase * (rollout.phase or 0.0)
        + weights.step * (rollout.step or 0.0)
        for rollout in batch
    ]
    values, stats = _compare([rollout.group for rollout in batch], sums)
    return _everywhere(batch, values), {"trajectory": stats}


def _local(batch: Sequence[Rollout], weights: Weights) -> _Made:
    arrays, whole = _outcome(batch, weights)
    phases = [(place, phase) for place, rollout in enumerate(batch) for phase in rollout.phases]
    sets = [(batch[place].group, phase.kind) for place, phase in phases]
    values, phase_stats = _compare(sets, [phase.reward for _, phase in phases])
    for (place, phase), value in zip(phases, values, strict=True):
        _add(arrays[place], [batch[place].turns[turn] for turn in phase.turns], weights.phase * value)
    turns = [(place, span) for place, rollout in enumerate(batch) for span in rollout.turns]
    sets = [(batch[place].group, span.kind) for place, span in turns]
    values, step_stats = _compare(sets, [span.reward for _, span in turns])
    for (place, span), value in zip(turns, values, strict=True):
        _add(arrays[place], [span], weights.step * value)
    return arrays, whole | {"phase": phase_stats, "step": step_stats}


def _compare(sets: Sequence[Hashable], rewards: Sequence[float | None]) -> tuple[Floats, LevelStats]:
    """Return the z-score of every reward among those of its set, 0 for one that is missing."""
    members: dict[Hashable, list[int]] = {}
    for place, (name, reward) in enumerate(zip(sets, rewards, strict=True)):
        if reward is not None:
            members.setdefault(name, []).append(place)
    values = np.zeros(len(rewards))
    constant = 0
    for places in members.values():
        values[places] = zscores(np.array([rewards[place] for place in places], dtype=np.float64))
        constant += len(places) > 1 and not values[places].any()
    compared = values[[place for places in members.values() for place in places]]
    return values, LevelStats(
        members=len(compared),
        sets=len(members),
        singletons=sum(len(places) == 1 for places in members.values()),
        constant=constant,
        mean_abs=float(np.abs(compared).mean()) if len(compared) else 0.0,
        positive=float((compared > 0).mean()) if len(compared) else 0.0,
    )


def _everywhere(batch: Sequence[Rollout], values: Floats) -> list[Floats]:
    """Return arrays with one value on all model tokens of a rollout."""
    arrays = [np.zeros(rollout.tokens) for rollout in batch]
    for array, rollout, value in zip(arrays, batch, values, strict=True):
        _add(array, rollout.turns, value)
    return arrays


def _add(array: Floats, spans: Iterable[Span], value: float) -> None:
    for span in spans:
        array[span.start : span.end] += value


def _check(number: int, rollout: Rollout) -> None:
    where = f"rollout {number} of group {rollout.group!r}"
    end = 0
    for span in rollout.turns:
        if not end <= span.start <= span.end <= rollout.tokens:
            raise ValueError(f"{where}: turn {span.start}:{span.end} overlaps or leaves its {rollout.tokens} tokens")
        end = span.end
    if any(not 0 <= turn < len(rollout.turns) for phase in rollout.phases for turn in phase.turns):
        raise ValueError(f"{where}: a phase names a turn that it does not have")
    if rollout.masked:
        return
    if rollout.trajectory is None:
        raise ValueError(f"{where}: the trajectory reward is missing; mask the rollout if there is none")
    rewards = [rollout.trajectory, rollout.phase, rollout.step]
    rewards += [span.reward for span in rollout.turns] + [phase.reward for phase in rollout.phases]
    if not all(reward is None or math.isfinite(reward) for reward in rewards):
        raise ValueError(f"{where}: a reward is not finite; mask the rollout if it could not be computed")

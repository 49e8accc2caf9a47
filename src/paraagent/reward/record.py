"""What an episode earned, term by term, each with the reason in words.

Place in the flow: layer 4; `score` makes one `Reward` per trace, the command line prints it, `audit` looks for terms
that mislead, the training adapters turn it into a `credit.Rollout`. Plain data: `to_json` loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import msgspec

from paraagent.reward.rules import Rules
from paraagent.types import JsonObject, TurnKind


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a reward."""

    name: str
    value: float
    weight: float
    """The factor on `value`; negative for what costs."""
    reason: str

    @property
    def points(self) -> float:
        return self.weight * self.value


@dataclass(frozen=True, slots=True)
class TurnReward:
    """The step level: one turn."""

    turn: int
    kind: TurnKind
    reward: float
    """(form + plan) * (1 + repeats), each term's points."""
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class WindowReward:
    """One plan of an execution phase and the turns it was in force."""

    turns: tuple[int, ...]
    reward: float
    work: float
    """Weight in the phase: how many uses of tools were left to do when it opened."""
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class PhaseReward:
    """The phase level: one exploration or execution phase."""

    kind: TurnKind
    number: int
    """Place among the episode's phases, from 1; answers count."""
    turns: tuple[int, ...]
    """Positions in the episode's turns."""
    reward: float | None
    """None where these rules have no score for the phase."""
    terms: tuple[Term, ...] = ()
    """Of an exploration phase."""
    windows: tuple[WindowReward, ...] = ()
    """Of an execution phase."""


@dataclass(frozen=True, slots=True)
class TrajectoryReward:
    """The trajectory level."""

    reward: float | None
    """The sum of all points; None if the outcome is unknown."""
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Levels:
    """One number per level for the whole episode; None where a level has no score."""

    trajectory: float | None
    phase: float | None
    """Mean over the phases."""
    step: float
    """Mean over the turns."""


@dataclass(frozen=True, slots=True)
class Reward:
    """All that one episode earned."""

    rules: Rules
    turns: tuple[TurnReward, ...]
    phases: tuple[PhaseReward, ...]
    trajectory: TrajectoryReward
    levels: Levels
    total: float | None
    """The levels in one number, for people and plain algorithms; None if masked."""
    masked: bool = False
    """The episode says nothing about the agent and must not be learned from: never to be read as a reward of 0."""
    failure_kind: str | None = None
    """Why it is masked."""

    def to_json(self) -> JsonObject:
        return cast(JsonObject, msgspec.json.decode(msgspec.json.encode(self)))

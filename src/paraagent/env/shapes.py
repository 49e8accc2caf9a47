"""How big a task is and how it is built: difficulty dials, and goals made of steps.

Place in the flow: layer 3. `tasks` draws a shape from the dials and fills it with tools; `phrasing` says it in words.
A task has `width` independent goals; a goal is a chain of steps in which each step needs a value from the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from paraagent.catalog.graph import EdgeKind
from paraagent.env.task import Fact
from paraagent.env.wording import Wording
from paraagent.errors import UsageError
from paraagent.types import JsonObject, TaskKind, Tool

MAX_WIDTH, MAX_DEPTH = 5, 3


@dataclass(frozen=True, slots=True)
class Dials:
    """What makes a task hard; every dial can be set alone."""

    width: int = 2
    """Most independent goals, 1 to 5."""
    depth: int = 2
    """Longest chain, 1 to 3."""
    distractors: int = 0
    """Things the request mentions that must be left alone."""
    fault_rate: float = 0.0
    """Probability that a call fails once with a transient error."""
    writes: float = 0.3
    """Share of goals that end in a create, update, delete or action, where the catalog allows."""

    @classmethod
    def at(cls, difficulty: float) -> Dials:
        """Return the dials for a difficulty from 0 (one read) to 1 (five chains of three, with faults)."""
        if not 0 <= difficulty <= 1:
            raise UsageError(f"difficulty {difficulty} is outside 0 to 1")
        return cls(
            width=1 + round(4 * difficulty),
            depth=1 + round(2 * difficulty),
            distractors=int(2 * difficulty),
            fault_rate=round(0.15 * difficulty, 3),
            writes=round(0.2 + 0.4 * difficulty, 3),
        )

    def set(self, **dials: float | int | None) -> Dials:
        """Return these dials with some set to other values; None leaves a dial as it is."""
        return replace(self, **{name: value for name, value in dials.items() if value is not None})  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise UsageError if a dial is outside its range."""
        if not 1 <= self.width <= MAX_WIDTH or not 1 <= self.depth <= MAX_DEPTH:
            raise UsageError(f"width must be 1 to {MAX_WIDTH} and depth 1 to {MAX_DEPTH}")
        if not 0 <= self.fault_rate < 1 or not 0 <= self.writes <= 1 or self.distractors < 0:
            raise UsageError("fault_rate must be in [0, 1), writes in [0, 1], distractors not negative")


@dataclass(frozen=True, slots=True)
class Link:
    """A parameter whose value comes from an earlier step's result."""

    parameter: str
    source: str
    """Id of the step that holds the value."""
    path: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a goal before it is phrased."""

    id: str
    tool: Tool
    wording: Wording
    literals: JsonObject
    link: Link | None = None

    @property
    def arguments(self) -> JsonObject:
        """The gold call's arguments: literals as they are, the linked one as `$id.path`."""
        linked = {self.link.parameter: f"${self.link.source}.{self.link.path}"} if self.link else {}
        return {**self.literals, **linked}


@dataclass(frozen=True, slots=True)
class Goal:
    """One independent part of a task: a chain of steps and what the answer must state about the last."""

    steps: tuple[Step, ...]
    facts: tuple[Fact, ...] = ()


def depths(kind: TaskKind, dials: Dials, rng: Random) -> list[int]:
    """Return the chain length of every goal for a kind of task; the dials are upper bounds that the kind may raise.

    `parallel` and `mixed` have at least two goals, `chain` and `mixed` at least one chain of two.
    """
    wide, deep = max(2, dials.width), max(2, dials.depth)
    if kind == "single":
        return [1]
    if kind == "parallel":
        return [1] * rng.randint(2, wide)
    if kind == "chain":
        return [rng.randint(2, deep)]
    if kind == "mixed":
        rest = [rng.randint(1, dials.depth) for _ in range(rng.randint(1, wide - 1))]
        found = [rng.randint(2, deep), *rest]
        rng.shuffle(found)
        return found
    return [rng.randint(1, dials.depth) for _ in range(rng.randint(1, max(1, dials.width)))]

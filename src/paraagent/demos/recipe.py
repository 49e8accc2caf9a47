"""What a set of demonstrations is made of: how many, of which kinds, how large, and in which manner.

Place in the flow: layer 5; commands build a `Recipe`, `maker` follows it. Each place in the set (a *lot*) draws its
kind, dials and style from the recipe's seed and its own number alone, so any process can make any lot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from paraagent.demos.style import Linking
from paraagent.env.shapes import MAX_DEPTH, MAX_WIDTH, Dials
from paraagent.errors import UsageError
from paraagent.types import JsonObject, Split, TaskKind

SHARES: Mapping[TaskKind, int] = MappingProxyType(
    {"single": 20, "parallel": 20, "chain": 15, "mixed": 15, "recover": 12, "unanswerable": 10, "direct": 8}
)
"""How the kinds of tasks mix, in percent."""
_WIDTHS = (22, 24, 20, 17, 17)
_DEPTHS = (34, 38, 28)
_DISTRACTORS = (85, 10, 5)
"""Relative frequencies of the dials' values, from the smallest on."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides which demonstrations are made; two equal recipes give equal files."""

    limit: int = 1000
    seed: int = 0
    split: Split = "train"
    kinds: tuple[TaskKind, ...] = tuple(SHARES)
    linked: Linking = "mix"
    vague: float = 0.2
    """Share that first asks without naming the service."""
    mistakes: float = 0.08
    """Share in which a call is made with a mistake and then corrected."""
    width: int = MAX_WIDTH
    depth: int = MAX_DEPTH
    writes: float = 0.3
    top_k: int = 5
    """Tools shown per search."""
    max_tokens: int = 12_000
    """Estimated tokens beyond which a demonstration is left out."""
    tries: int = 12
    """Tasks that are tried for one lot before it stays empty."""
    held_out: bool = False
    """Allow test splits, which are for measuring and must not be trained on."""

    def check(self) -> None:
        """Raise UsageError if the recipe makes no sense."""
        if self.split.startswith("test") and not self.held_out:
            raise UsageError(f"{self.split} is for measuring only: make demonstrations of train or validation tasks")
        if not self.kinds:
            raise UsageError("name at least one kind of task")
        if self.limit < 1 or self.tries < 1 or self.top_k < 1:
            raise UsageError("limit, tries and top_k must be at least 1")
        if not (0 <= self.vague <= 1 and 0 <= self.mistakes <= 1):
            raise UsageError("vague and mistakes are shares from 0 to 1")
        Dials(width=self.width, depth=self.depth, writes=self.writes).check()

    def lot(self, number: int) -> Random:
        """Return the source of all choices of one lot."""
        return Random(f"demonstration {self.seed} {number}")

    def kind(self, rng: Random) -> TaskKind:
        return rng.choices(self.kinds, [SHARES[kind] for kind in self.kinds])[0]

    def dials(self, rng: Random) -> Dials:
        return Dials(
            width=_drawn(rng, _WIDTHS[: self.width]),
            depth=_drawn(rng, _DEPTHS[: self.depth]),
            distractors=_drawn(rng, _DISTRACTORS) - 1,
            writes=self.writes,
        )

    def to_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"kinds": [*self.kinds]}


def _drawn(rng: Random, frequencies: tuple[int, ...]) -> int:
    return 1 + rng.choices(range(len(frequencies)), frequencies)[0]

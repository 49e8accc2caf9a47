"""What one episode may spend, and what is left of it.

Place in the flow: layer 3; `loop` asks before every turn and every action. Limits are hard: an action beyond one is
not run, the agent is told, and insisting ends the episode as truncated.
"""

from __future__ import annotations

from dataclasses import dataclass

from paraagent.errors import UsageError
from paraagent.types import StopReason, Usage


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one episode; None means no limit."""

    turns: int = 15
    searches: int | None = 60
    calls: int | None = 100
    tokens: int | None = None
    """Input and output tokens of all model calls together."""
    seconds: float | None = None
    """On the episode's clock."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"the {name} budget must be above 0, not {value}")


class Spending:
    """Keeps count against a budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.turns = 0
        self.searches = 0
        self.calls = 0
        self.tokens = 0
        self._refused: set[StopReason] = set()

    @property
    def turns_left(self) -> int:
        return self.budget.turns - self.turns

    def add_turn(self, usage: Usage) -> None:
        self.turns += 1
        self.tokens += usage.input_tokens + usage.output_tokens

    def exhausted(self, now: float) -> StopReason | None:
        """Return why no further turn may start, if so."""
        if self.turns_left <= 0:
            return "turn_limit"
        if self.budget.tokens is not None and self.tokens >= self.budget.tokens:
            return "token_limit"
        if self.budget.seconds is not None and now >= self.budget.seconds:
            return "time_limit"
        return None

    def take_searches(self, wanted: int) -> int:
        """Reserve searches and return how many of the wanted ones may run."""
        allowed = wanted if self.budget.searches is None else min(wanted, self.budget.searches - self.searches)
        self.searches += allowed
        return allowed

    def take_calls(self, wanted: int) -> int:
        """Reserve calls and return how many of the wanted ones may run."""
        allowed = wanted if self.budget.calls is None else min(wanted, self.budget.calls - self.calls)
        self.calls += allowed
        return allowed

    def insists(self, reason: StopReason) -> bool:
        """Note that nothing was left for a turn's actions; True if the agent had been told so before."""
        told = reason in self._refused
        self._refused.add(reason)
        return told

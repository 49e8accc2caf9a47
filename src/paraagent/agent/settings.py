"""How episodes are run, and what judges their end.

Place in the flow: layer 3; `loop` takes both, commands build them from their flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paraagent.agent.budget import Budget
from paraagent.agent.limits import Limits
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.grammar import Turn
from paraagent.protocol.links import upstream
from paraagent.protocol.monitor import PlanMode
from paraagent.protocol.observe import ToolStyle
from paraagent.protocol.prompt import system_prompt
from paraagent.types import JsonObject, Result, ToolError


class Verdict(Protocol):
    """What a verifier found: success, and its parts with reasons."""

    @property
    def success(self) -> bool: ...

    def to_json(self) -> JsonObject: ...


Verifier = Callable[[Sequence[Result], str | None], Verdict]
"""Judges an episode by its results, in order, and its answer (None if there is none)."""
User = Callable[[str], str | None]
"""One who goes on talking: given an answer, says what else is wanted, or None when nothing is."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How episodes are run; the same values for every episode of a run."""

    budget: Budget = field(default_factory=Budget)
    limits: Limits = field(default_factory=Limits)
    plan: PlanMode = "advise"
    actions: int | None = None
    """Searches or calls that one turn may hold; those beyond are not run. None means no limit."""
    links: bool = True
    """Whether a call may take a value from another call's result as `$id.path`."""
    tools: ToolStyle = "card"
    result_chars: int = 8_000
    """Characters of one result that the model is shown; the trace keeps all of it."""
    invalid_turns: int = 2
    """How many malformed turns in a row are told to the agent before the episode ends."""
    durable: bool = True
    """Whether the start of a write reaches the disk before the tool is invoked; pointless in a simulated world."""

    def system_prompt(self) -> str:
        """Return what the agent is told first."""
        budget = self.budget
        return system_prompt(
            self.plan,
            turns=budget.turns,
            searches=budget.searches,
            calls=budget.calls,
            actions=self.actions,
            links=self.links,
        )

    def most(self, actions: int) -> int:
        """Return how many of so many actions a turn may hold."""
        return actions if self.actions is None else min(actions, self.actions)

    def switched_off(self, turn: Turn) -> dict[int, ToolError]:
        """Return the calls of a turn that may not run under these settings, with the reason the agent is told."""
        most = self.most(len(turn.calls))
        refused = dict.fromkeys(
            range(most, len(turn.calls)), ToolError("cancelled", f"not run: a turn holds at most {most}")
        )
        for index, call in enumerate(turn.calls[:most]):
            if not self.links and not isinstance(call, BrokenCall) and upstream(call.arguments):
                refused[index] = ToolError("invalid_args", "calls cannot be linked here: write the value itself")
        return refused

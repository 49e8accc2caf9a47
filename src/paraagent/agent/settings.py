"""How episodes are run, and what judges their end.

Place in the flow: layer 3; `loop` takes both, commands build them from their flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paraagent.agent.budget import Budget
from paraagent.agent.limits import Limits
from paraagent.protocol.monitor import PlanMode
from paraagent.protocol.observe import ToolStyle
from paraagent.types import JsonObject, Result


class Verdict(Protocol):
    """What a verifier found: success, and its parts with reasons."""

    @property
    def success(self) -> bool: ...

    def to_json(self) -> JsonObject: ...


Verifier = Callable[[Sequence[Result], str | None], Verdict]
"""Judges an episode by its results, in order, and its answer (None if there is none)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How episodes are run; the same values for every episode of a run."""

    budget: Budget = field(default_factory=Budget)
    limits: Limits = field(default_factory=Limits)
    plan: PlanMode = "advise"
    tools: ToolStyle = "card"
    result_chars: int = 8_000
    """Characters of one result that the model is shown; the trace keeps all of it."""
    invalid_turns: int = 2
    """How many malformed turns in a row are told to the agent before the episode ends."""
    durable: bool = True
    """Whether the start of a write reaches the disk before the tool is invoked; pointless in a simulated world."""

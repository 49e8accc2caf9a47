"""What lies on the desks of explorers and executors while an episode is played.

Place in the flow: layer 5, the state of a `weaver`. A desk belongs to a slot, a job to an assignment; what the tools
answer is put there and tells whether its owner has to work again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paraagent.demos.roles import Assignment, ExplorerBrief, Feedback, Filled, GiveUp, Lead, Slot
from paraagent.types import Found, Result, Tool


@dataclass(slots=True)
class Desk:
    """One slot's explorer and what it has to look at."""

    slot: Slot
    found: list[Found] = field(default_factory=list)
    failed: list[Result] = field(default_factory=list)
    lead: Lead | None = None
    seen: tuple[int, int] = (0, 0)
    """How many answers and failures the lead takes into account."""

    @property
    def now(self) -> tuple[int, int]:
        return len(self.found), len(self.failed)

    @property
    def due(self) -> bool:
        """Whether the explorer has something new to look at."""
        return self.lead is None or (self.seen != self.now and not isinstance(self.lead, GiveUp))

    def brief(self, request: str, feedback: Feedback) -> ExplorerBrief:
        return ExplorerBrief(request, self.slot, tuple(self.found), tuple(self.failed), feedback)


@dataclass(slots=True)
class Job:
    """One assignment's executor: its work for one tool, and what the tools said to it."""

    assignment: Assignment
    tool: Tool
    filled: Filled | None = None
    feedback: Feedback = ()
    failure: Result | None = None

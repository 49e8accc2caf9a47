"""The numbers of the reward formulas, in two presets: as published, and with their loopholes closed.

Place in the flow: layer 4; every reward function takes a `Rules` and `score` puts it into its result, so a printed
reward says by which numbers it was made. `REFERENCE` reproduces the published formulas as far as a trace allows,
`DEFAULT` is what we train with. docs/REWARDS.md lists both side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paraagent.types import JsonObject

RulesName = Literal["reference", "default"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Constants of all three levels; the field values are those of the default preset."""

    name: RulesName = "default"

    form: float = 0.5
    """Step: weight of the turn's form."""
    plan: float = 0.5
    """Step: weight of the plan's presence and validity."""
    repeat_cost: float = 1.0
    """Step: the share of repeated actions takes this part of the turn's reward. At 1, a turn that only repeats is
    worth 0 and cannot raise a mean."""
    free_retries: int = 2
    """How often a call that failed for a passing reason may be made again before that is a repeat."""

    grounded: float = 0.1
    """Phase, execution: all tools of the plan had been found."""
    dependencies: float = 0.2
    """Phase, execution: the plan declares the right order."""
    minimal_layers: float = 0.2
    """Phase, execution: every tool is planned, and as early as its dependencies allow."""
    frontier: float = 0.5
    """Phase, execution: what was ready was run."""
    phase_scale: float = 1.0
    """Phase: factor on the mean over phases."""

    solved: float = 1.0
    """Trajectory: outcome of a solved task."""
    failed: float = 0.0
    """Trajectory: outcome of a task that was not."""
    calls_done: float = 0.4
    tools_surfaced: float = 0.1
    penalty: float = 0.25
    """Trajectory: factor on the sum of the three penalties."""
    protocol_penalty: float = 0.5
    repeat_penalty: float = 0.2
    """For each of plans, searches and calls."""
    repeat_cap: int = 7
    """So many repeats cost the whole `repeat_penalty`."""
    order_penalty: float = 0.3

    phase_weight: float = 0.5
    """Total: weight of the phase level beside a trajectory level of weight 1."""
    step_weight: float = 0.25
    """Total: weight of the step level."""

    @property
    def published(self) -> bool:
        """Whether the published semantics hold where the presets differ in more than a number."""
        return self.name == "reference"

    def to_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


DEFAULT = Rules()
REFERENCE = Rules(
    name="reference",
    repeat_cost=0.0,
    free_retries=1,
    phase_scale=0.5,
    solved=1.5,
    failed=-0.5,
    phase_weight=1.0,
    step_weight=1.0,
)


def rules(name: RulesName) -> Rules:
    """Return the preset of this name."""
    return REFERENCE if name == "reference" else DEFAULT

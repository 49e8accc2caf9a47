"""Two runs side by side, task by task.

Place in the flow: layer 5; used by `report`, and by `scaling` for what more budget brings. Only tasks that both runs
have played count, and for each figure only those to which it applies in both. Limits: the p values stand alone; among
twenty figures one is expected to fall under 0.05 by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paraagent.evaluate.intervals import Paired, paired
from paraagent.evaluate.metrics import METRICS, EpisodeMetrics
from paraagent.types import JsonObject


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changes from one run to another."""

    tasks: int
    """How many both have played."""
    figures: Mapping[str, Paired]
    """By the metric's name; one that applies to no task in both is left out."""
    gained: tuple[str, ...]
    """Tasks that only the second run solved."""
    lost: tuple[str, ...]
    """Tasks that only the first run solved."""

    def to_json(self) -> JsonObject:
        return {
            "tasks": self.tasks,
            "figures": {name: found.to_json() for name, found in self.figures.items()},
            "gained": list(self.gained),
            "lost": list(self.lost),
        }


def compare(first: Mapping[str, EpisodeMetrics], second: Mapping[str, EpisodeMetrics]) -> Comparison:
    """Compare two runs.

    Args:
        first, second: the figures of their episodes by task.
    """
    common = sorted(first.keys() & second.keys())
    figures = {}
    for metric in METRICS:
        pairs = [(first[task].value(metric.name), second[task].value(metric.name)) for task in common]
        known = [(one, other) for one, other in pairs if one is not None and other is not None]
        found = paired([one for one, _ in known], [other for _, other in known])
        if found is not None:
            figures[metric.name] = found
    solved = {task: (first[task].success, second[task].success) for task in common}
    return Comparison(
        tasks=len(common),
        figures=figures,
        gained=tuple(task for task in common if solved[task] == (0, 1)),
        lost=tuple(task for task in common if solved[task] == (1, 0)),
    )

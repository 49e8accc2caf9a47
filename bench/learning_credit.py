"""How reinforcement learning by different credit modes compares: what each run's policy achieves on held-out tasks.

Place in the flow: part of bench/learning.py, whose `compare` plays the tasks. A mode's value on a task is the mean
over its seeds; differences are paired by task, so their intervals tell how sure they are for other tasks of the kind,
and the seeds stand beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from statistics import fmean
from typing import Any

from paraagent.evaluate.intervals import Paired, paired

MODES = ("local", "trajectory", "outcome", "summed")
DECOUPLED, PLAIN = MODES[:2], MODES[2:]
START = "start"

Played = Mapping[str, Any]
"""By run (`start`, or a mode and its seed as `local-0`) and split: success and `solved`, a 0 or 1 for each task."""


def runs_of(played: Played, mode: str, split: str) -> list[Any]:
    """Return the figures of a mode's seeds."""
    return [splits[split] for run, splits in played.items() if run.rpartition("-")[0] == mode and split in splits]


def means(runs: list[Any]) -> list[float]:
    """Return the mean over runs of each task."""
    return [fmean(float(one) for one in task) for task in zip(*(run["solved"] for run in runs), strict=True)]


def contrasts(played: Played) -> dict[str, dict[str, Paired]]:
    """Return by split and name (`local - start`) the paired differences of runs that played equal tasks."""
    found: dict[str, dict[str, Paired]] = {}
    for split in sorted(played.get(START, {})):
        start = played[START][split]
        values = {START: means([start])}
        for mode in MODES:
            runs = [run for run in runs_of(played, mode, split) if run["tasks"] == start["tasks"]]
            if runs:
                values[mode] = means(runs)
        for mode, base in [*((mode, START) for mode in MODES), *product(DECOUPLED, PLAIN)]:
            if mode in values and base in values and (pair := paired(values[base], values[mode])):
                found.setdefault(split, {})[f"{mode} - {base}"] = pair
    return found


def page(played: Played) -> list[str]:
    """Return the tables, in Markdown."""
    lines = []
    for split, pairs in contrasts(played).items():
        start = played[START][split]
        lines += [f"Greedy on {start['episodes']} tasks of {split.replace('_', '-')}, before and after.", ""]
        lines += ["| policy | success | of each seed | turns | width |", "|---|--:|---|--:|--:|"]
        for mode in (START, *MODES):
            runs = [start] if mode == START else runs_of(played, mode, split)
            if runs:
                success, turns, width = (fmean(run[what] for run in runs) for what in ("success", "turns", "width"))
                seeds = ", ".join(f"{run['success']:.3f}" for run in runs)
                lines.append(f"| {mode} | {success:.3f} | {seeds} | {turns:.2f} | {width:.2f} |")
        lines += ["", "| difference | value | interval | p |", "|---|--:|---|--:|"]
        for name, pair in pairs.items():
            d = pair.difference
            lines.append(f"| {name} | {d.value:+.3f} | {d.low:+.3f} to {d.high:+.3f} | {pair.p:.3f} |")
        lines.append("")
    return lines

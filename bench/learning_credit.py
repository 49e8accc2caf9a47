"""How reinforcement learning by different credit modes compares: what each run's policy achieves on held-out tasks.

Place in the flow: part of bench/learning.py, whose `compare` plays the tasks. Runs of one seed see the same training
tasks in the same order, so differences are paired by seed and by task; intervals resample both (bootstrap over seeds
and tasks, crossed), since another run of a mode differs, too. With three seeds they are rough, rather too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from paraagent.evaluate.intervals import RESAMPLES, Interval
from paraagent.train.config import difference
from paraagent.types import JsonObject

if TYPE_CHECKING:
    from paraagent.train.runs import RunFolder

MODES = ("local", "trajectory", "outcome", "summed")
START = "start"
CONTRASTS = (*((mode, START) for mode in MODES), *product(MODES[:2], MODES[2:]), MODES[:2])

Played = Mapping[str, Any]
"""By run (`start`, or `start-0` if every seed has its own; a mode and its seed as `local-0`) and split: success and
`solved`, a 0 or 1 for each task."""


def finals(folder: Path, model: str, adapter: str | None) -> dict[str, Path]:
    """Return what the runs in a folder became.

    Raises:
        SystemExit: they have another start, or differ in more than mode and seed.
    """
    from paraagent.train.runs import RunFolder

    runs = {path.parent.name: RunFolder(path.parent) for path in sorted(folder.glob("*/final"))}
    for run in runs.values():
        expect(run, {**next(iter(runs.values())).settings(), "model": model, "adapter": adapter}, any_seed=True)
    return {name: run.final for name, run in runs.items()}


def expect(run: RunFolder, wanted: JsonObject, *, any_seed: bool = False) -> None:
    """Stop if a run was trained with other settings.

    Args:
        any_seed: seeds, credit modes and folders may differ.
    """
    other = difference(*(_settings(one, any_seed) for one in (run.settings(), wanted)))
    if other is not None:
        raise SystemExit(f"{run.path} was trained with another {other}: choose another --work")


def _settings(settings: JsonObject, any_seed: bool) -> JsonObject:
    plain: JsonObject = orjson.loads(orjson.dumps(settings))
    optimisation = plain["optimisation"]
    assert isinstance(optimisation, dict)
    if any_seed:
        plain |= {"credit": None, "out": None, "optimisation": {**optimisation, "seed": None}}
    return plain


def seeds_of(played: Played, mode: str, split: str) -> dict[str, Any]:
    """Return the figures of a mode's seeds, or of the starts; a start of all seeds is under an empty name."""
    found, tasks = {}, _start(played).get(split, {}).get("tasks")
    for run, splits in played.items():
        name, _, seed = run.partition("-")
        if name == mode and split in splits:
            if splits[split]["tasks"] != tasks:
                raise SystemExit(f"{run} has not played the same tasks of {split} as {START}: finish `compare`")
            found[seed] = splits[split]
    return found


def _start(played: Played) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next((one for run, one in played.items() if run.partition("-")[0] == START), {})
    return found


def contrasts(played: Played) -> dict[str, dict[str, Interval]]:
    """Return by split and name (`local - start`) the differences of modes that have seeds in common."""
    found: dict[str, dict[str, Interval]] = {}
    for split in sorted(_start(played)):
        for mode, base in CONTRASTS:
            ones, others = seeds_of(played, mode, split), seeds_of(played, base, split)
            pairs = [(one, others.get(seed, others.get(""))) for seed, one in ones.items()]
            rows = [_solved(one) - _solved(other) for one, other in pairs if other is not None]
            if rows:
                found.setdefault(split, {})[f"{mode} - {base}"] = _crossed(np.stack(rows))
    return found


def _solved(figures: Mapping[str, Any]) -> np.ndarray:
    return np.array([float(one) for one in figures["solved"]])


def _crossed(differences: np.ndarray) -> Interval:
    """Return the mean of (seeds, tasks) with its interval over other seeds and other tasks."""
    random = np.random.default_rng(0)
    seeds, tasks = differences.shape
    drawn = [
        differences[random.integers(seeds, size=seeds)].mean(0)[random.integers(tasks, size=tasks)].mean()
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(float(differences.mean()), float(low), float(high), seeds)


def page(played: Played) -> list[str]:
    """Return the tables, in Markdown."""
    lines = []
    for split, differences in contrasts(played).items():
        tasks = played[START][split]["episodes"]
        lines += [f"Greedy on {tasks} tasks of {split.replace('_', '-')}, before and after.", ""]
        lines += ["| policy | success | of each seed | turns | width |", "|---|--:|---|--:|--:|"]
        for mode in (START, *MODES):
            runs = [*seeds_of(played, mode, split).values()]
            if runs:
                success, turns, width = (fmean(run[what] for run in runs) for what in ("success", "turns", "width"))
                seeds = ", ".join(f"{run['success']:.3f}" for run in runs)
                lines.append(f"| {mode} | {success:.3f} | {seeds} | {turns:.2f} | {width:.2f} |")
        lines += ["", "| difference | value | interval over seeds and tasks | seeds |", "|---|--:|---|--:|"]
        for name, d in differences.items():
            lines.append(f"| {name} | {d.value:+.3f} | {d.low:+.3f} to {d.high:+.3f} | {d.n} |")
        lines.append("")
    return lines

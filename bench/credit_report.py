"""The page, the figures and the plot of bench/credit.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import learning_report
from learning_credit import MODES, START, contrasts
from paraagent.evaluate.intervals import Interval, mean
from paraagent.evaluate.report_plots import Series, curves

Figures = dict[str, Any]
_HOW = {"greedy": "By the likeliest decisions", "chance": "By chance, as in training"}


def write(out: Path, settings: Figures, results: Iterable[tuple[str, Figures, Figures]]) -> None:
    """Write figures, plot and page, anew after every result; what stands under its last heading, "Notes", stays.

    Args:
        out: path of the page without its suffix.
        settings: of the comparison.
        results: of each run its name, what it achieves by how it decides and split, and its log.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    played: Figures = {how: {} for how in _HOW}
    runs: Figures = {}
    for name, tested, log in results:
        for how in _HOW:
            played[how][name] = tested[how]
        mode, _, seed = name.rpartition("-")
        if log:
            runs.setdefault(mode, {})[seed] = log
            _write(out, {"settings": settings, **played, **_compared(played, runs), "runs": runs})
    print(f"wrote {out}.md, .json and .svg")


def _compared(played: Figures, runs: Figures) -> Figures:
    found = {how: contrasts(played[how]) for how in _HOW}
    return {
        "contrasts": {
            how: {split: {name: one.to_json() for name, one in every.items()} for split, every in splits.items()}
            for how, splits in found.items()
        },
        "curves": {mode: _curve([log["validation"] for log in seeds.values()]) for mode, seeds in runs.items()},
    }


def _curve(seeds: Sequence[Mapping[int, float]]) -> list[Figures]:
    """Return the mean over seeds of each step, with its interval."""
    points = {step: mean([successes[step] for successes in seeds]) for step in seeds[0]}
    return [{"step": step, **found.to_json()} for step, found in points.items() if found is not None]


def _write(out: Path, figures: Figures) -> None:
    out.with_name(f"{out.name}.json").write_text(json.dumps(figures, indent=1) + "\n")
    series = [
        Series(mode, tuple((float(one["step"]), _interval(one)) for one in points))
        for mode, points in figures["curves"].items()
    ]
    learning_report.draw(out.with_name(f"{out.name}.svg"), curves(series, "steps", "success on validation tasks"))
    plan = figures["settings"]
    tasks = "the usual tasks" if plan["difficulty"] is None else f"tasks of difficulty {plan['difficulty']}"
    lines = [
        "# Credit modes compared",
        "",
        f"Made by `bench/credit.py`; numbers in {out.name}.json. A small network ({plan['hidden']} hidden units, "
        f"bench/credit_policy.py) on {tasks}: for every seed a start at random, cloned from {plan['demos']} "
        f"demonstrations in {plan['passes']} steps, then per mode {plan['steps']} steps of {plan['prompts']} tasks x "
        f"{plan['rollouts']} episodes, learning rate {plan['lr']}.",
        "",
    ]
    for how, said in _HOW.items():
        for split in figures["contrasts"][how]:
            lines += [f"## {said}, {split.replace('_', '-')}", "", *_tables(figures, how, split), ""]
    lines += ["## On the way", "", f"![validation]({out.name}.svg)", "", *_ways(figures["runs"]), ""]
    page = out.with_name(f"{out.name}.md")
    page.write_text("\n".join(lines) + learning_report.notes(page))


def _tables(figures: Figures, how: str, split: str) -> list[str]:
    tasks = figures[how]["expert"][split]["episodes"]
    lines = [f"{tasks} tasks; levels are mean rewards.", ""]
    lines += ["| policy | success | of each seed | turns | width | trajectory | phase | step |"]
    lines += ["|---|--:|---|--:|--:|--:|--:|--:|"]
    for mode in ("expert", START, *MODES):
        found = [every[split] for name, every in figures[how].items() if name.partition("-")[0] == mode]
        if found:
            success, turns, width = (fmean(one[what] for one in found) for what in ("success", "turns", "width"))
            levels = [fmean(one["levels"][level] for one in found) for level in ("trajectory", "phase", "step")]
            seeds = ", ".join(f"{one['success']:.3f}" for one in found)
            means = " | ".join(f"{level:.3f}" for level in levels)
            lines.append(f"| {mode} | {success:.3f} | {seeds} | {turns:.2f} | {width:.2f} | {means} |")
    lines += ["", "| difference in success | value | interval over seeds and tasks | seeds |", "|---|--:|---|--:|"]
    for name, one in figures["contrasts"][how][split].items():
        lines.append(f"| {name} | {one['value']:+.3f} | {one['low']:+.3f} to {one['high']:+.3f} | {one['n']} |")
    return lines


def _ways(runs: Figures) -> list[str]:
    """Return the table of what training was like: means over the steps and seeds of a mode."""
    lines = ["| mode | validation success, mean of all looks | reward of the last 10 batches | their entropy |"]
    lines += ["|---|--:|--:|--:|"]
    for mode, seeds in runs.items():
        looks = fmean(fmean([*log["validation"].values()][1:]) for log in seeds.values())
        reward, entropy = (fmean(fmean(log[what][-10:]) for log in seeds.values()) for what in ("reward", "entropy"))
        lines.append(f"| {mode} | {looks:.3f} | {reward:.3f} | {entropy:.2f} |")
    return lines


def _interval(found: Figures) -> Interval:
    return Interval(found["value"], found["low"], found["high"], found["n"])

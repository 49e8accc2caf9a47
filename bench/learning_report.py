"""What `bench/learning.py report` writes: the page, its figures and plots, from traces and curves of training.

Figures whose traces or runs are not at hand, as they were made on another machine, stay as learning.json has them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import learning_credit
from paraagent.evaluate.intervals import Interval, mean, paired, rate
from paraagent.evaluate.report_plots import Series, curves, intervals
from paraagent.evaluate.summary import kind_of
from paraagent.trace.reader import load
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject

BEFORE = {"sft_calls": "base", "sft_rl": "sft_calls", "sft_checked": "sft_calls", "sft": "sft_checked"}
"""What each trained policy is compared with. `sft_calls` and `sft_checked` are the adapter of `sft`, played with an
earlier grammar: not checked, as `sft_rl` was, whose training began with it, and checked."""
ORDER = ("rules", "base", *BEFORE)
PART = 5
"""Training steps of one point of a curve."""

_ALONE = (
    "<style>text { font: 12px system-ui, sans-serif; fill: #222 } .grid { stroke: #ddd }</style>"
    '<rect width="100%" height="100%" fill="#fff"/>'
)
"""What a drawing needs outside a report: its letters, its lines and paper."""

Figures = dict[str, Any]
Curve = list[tuple[int, Interval, Interval]]
"""Step, success and reward."""


def write(work: Path, out: Path, turns: int) -> None:
    """Write what there is: figures, tables and plots.

    Args:
        work: folder in which the traces and training runs are.
        out: path of the page without its suffix.
        turns: most turns of an episode, for the page.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = out.with_suffix(".json")
    figures: Figures = json.loads(kept.read_text()) if kept.exists() else {}
    policies, runs, compared = (figures.get(part, {}) for part in ("policies", "runs", "compared"))
    _overlay(policies, _played(work / "eval"))
    compared = _played(work / "compare") or compared
    runs = _trained(work / "rl") or runs
    policies = {name: policies[name] for name in ORDER if name in policies}
    grown = _curves(runs)
    figures = {
        "policies": policies,
        "gain": _gains(policies),
        "curves": {
            mode: [
                {"step": x, "success": success.to_json(), "reward": reward.to_json()} for x, success, reward in points
            ]
            for mode, points in grown.items()
        },
        "runs": runs,
        "compared": compared,
        "contrasts": {
            split: {name: found.to_json() for name, found in differences.items()}
            for split, differences in learning_credit.contrasts(compared).items()
        },
    }
    kept.write_text(json.dumps(figures, indent=1) + "\n")
    _plots(out, policies, grown)
    page = out.with_suffix(".md")
    page.write_text(_markdown(out.name, turns, figures, grown) + notes(page))
    print(f"wrote {out}.md, .json and plots")


def _overlay(kept: Figures, fresh: Figures) -> None:
    for name, parts in fresh.items():
        kept.setdefault(name, {}).update(parts)


def _played(folder: Path) -> Figures:
    """Return what each policy achieved on each split."""
    found: Figures = {}
    for split in sorted(path.parent for path in folder.glob("*/*/traces")):
        views = [load(path) for path in sorted(split.glob("traces/*.jsonl"))]
        ended = {v.start.episode: v for v in views if v.end is not None and not v.end.mask_sample}
        if ended:
            found.setdefault(split.parent.name, {})[split.name.replace("-", "_")] = achieved(ended)
    return found


def achieved(views: Mapping[str, EpisodeView]) -> JsonObject:
    kinds: dict[str, list[bool]] = {}
    for view in views.values():
        kinds.setdefault(kind_of(view), []).append(bool(view.success))
    acting = [view.measures.mean_width for view in views.values() if view.measures.mean_width]
    tasks = sorted(views)
    return {
        **_success([bool(view.success) for view in views.values()]),
        "by_kind": {kind: _success(won) for kind, won in sorted(kinds.items())},
        "turns": fmean(view.measures.turns for view in views.values()),
        "width": fmean(acting) if acting else 0.0,
        "tasks": hashlib.sha256("\n".join(tasks).encode()).hexdigest()[:16],
        "solved": "".join(str(int(bool(views[task].success))) for task in tasks),
    }


def _success(won: Sequence[bool]) -> JsonObject:
    found = rate(sum(won), len(won))
    assert found is not None
    return {"success": found.value, "low": found.low, "high": found.high, "episodes": found.n}


def _trained(folder: Path) -> Figures:
    """Return success and reward of every step by mode and seed."""
    found: Figures = {}
    for path in sorted(folder.glob("*/metrics.jsonl")):
        mode, _, seed = path.parent.name.rpartition("-")
        steps = [json.loads(line) for line in path.read_text().splitlines()]
        if mode in learning_credit.MODES and steps:
            found.setdefault(mode, {})[seed] = {
                name: [round(step[name] or 0.0, 4) for step in steps] for name in ("success", "reward")
            }
    return found


def _curves(runs: Figures) -> dict[str, Curve]:
    """Return per mode the mean over seeds of a few steps each."""
    found: dict[str, Curve] = {}
    for mode in [name for name in learning_credit.MODES if name in runs]:
        seeds = list(runs[mode].values())
        for start in range(0, min(len(run["success"]) for run in seeds), PART):
            parts = [{name: values[start : start + PART] for name, values in run.items()} for run in seeds]
            success = mean([fmean(part["success"]) for part in parts])
            reward = mean([fmean(part["reward"]) for part in parts])
            assert success is not None
            assert reward is not None
            found.setdefault(mode, []).append((start + len(parts[0]["success"]), success, reward))
    return found


def _gains(policies: Figures) -> Figures:
    """Compare each trained policy with the one before it, task by task."""
    found: Figures = {}
    for after, before in BEFORE.items():
        for split, second in policies.get(after, {}).items():
            first = policies.get(before, {}).get(split)
            if first and "tasks" in first and first["tasks"] == second.get("tasks"):
                pair = paired(*([float(one) for one in figures["solved"]] for figures in (first, second)))
                if pair is not None:
                    found.setdefault(after, {})[split] = pair.to_json()
    return found


def _plots(out: Path, policies: Figures, grown: Mapping[str, Curve]) -> None:
    splits = sorted({split for parts in policies.values() for split in parts})
    rows = [(name, [_interval(parts.get(split)) for split in splits]) for name, parts in policies.items()]
    if rows:
        drawn = intervals(rows, [split.replace("_", "-") for split in splits])
        draw(out.with_name(f"{out.name}-success.svg"), drawn)
    for place, what in ((1, "success"), (2, "reward")):
        series = [
            Series(mode, tuple((float(point[0]), point[place]) for point in points))  # type: ignore[misc]
            for mode, points in grown.items()
        ]
        if series:
            drawn = curves(series, "steps", f"{what} of training batches")
            draw(out.with_name(f"{out.name}-{what}-curves.svg"), drawn)


def _interval(figures: Figures | None) -> Interval | None:
    return figures and Interval(figures["success"], figures["low"], figures["high"], figures["episodes"])  # type: ignore[return-value]


def draw(path: Path, svg: str) -> None:
    """Keep an inline drawing as a file of its own."""
    if "xmlns=" not in svg:
        svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    path.write_text(svg.replace(">", f">{_ALONE}", 1) + "\n")


def _markdown(name: str, turns: int, figures: Figures, grown: Mapping[str, Curve]) -> str:
    lines = ["# What training achieves", "", f"Made by `bench/learning.py report`; numbers in {name}.json.", ""]
    lines += ["## Success on held-out tasks", ""]
    lines += [f"Greedy, {turns} turns at most; 95 % Wilson intervals; width is actions per acting turn.", ""]
    lines += [
        "| policy | split | tasks | success | interval | turns | width | by kind |",
        "|---|---|--:|--:|---|--:|--:|---|",
    ]
    lines += [
        _row(policy, split, found)
        for policy, splits in figures["policies"].items()
        for split, found in sorted(splits.items())
    ]
    lines += ["", f"![success]({name}-success.svg)", ""] if figures["policies"] else [""]
    if figures["gain"]:
        lines += ["| step | split | gain | interval | p |", "|---|---|---|---|---|"]
        for policy, splits in figures["gain"].items():
            for split, pair in splits.items():
                d = pair["difference"]
                bounds = f"{d['low']:+.3f} to {d['high']:+.3f}"
                step = f"{BEFORE[policy]} to {policy} | {split.replace('_', '-')}"
                lines.append(f"| {step} | {d['value']:+.3f} | {bounds} | {pair['p']:.3f} |")
        lines.append("")
    if grown:
        lines += ["## Reinforcement learning by credit mode", "", *learning_credit.page(figures["compared"])]
        lines += [f"Training batches, mean over seeds of {PART} steps each.", ""]
        lines += ["| mode | seeds | reward first | reward last | success first | success last |"]
        lines += ["|---|--:|---|---|---|---|"]
        for mode, points in grown.items():
            ends = [points[0][2], points[-1][2], points[0][1], points[-1][1]]
            seeds = len(figures["runs"][mode])
            lines.append(f"| {mode} | {seeds} | {' | '.join(f'{end.value:.3f}' for end in ends)} |")
        lines += ["", f"![reward]({name}-reward-curves.svg)", "", f"![success]({name}-success-curves.svg)", ""]
    return "\n".join(lines)


def _row(policy: str, split: str, found: Figures) -> str:
    kinds = ", ".join(
        f"{kind} {round(one['success'] * one['episodes'])}/{one['episodes']}"
        for kind, one in found["by_kind"].items()
    )
    bounds = f"{found['low']:.2f} to {found['high']:.2f}"
    return (
        f"| {policy} | {split.replace('_', '-')} | {found['episodes']} | {found['success']:.3f} | {bounds} "
        f"| {found['turns']:.1f} | {found['width']:.2f} | {kinds} |"
    )


def notes(page: Path) -> str:
    """Return what was written by hand under the last page's last heading."""
    _, found, notes = (page.read_text() if page.exists() else "").partition("\n## Notes\n")
    return found + notes

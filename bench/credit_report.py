"""The page, the figures and the plot of bench/credit.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import learning_credit
import learning_report
from credit_policy import FEATURES
from paraagent.evaluate.intervals import Interval
from paraagent.evaluate.report_plots import Series, curves

Figures = dict[str, Any]


def write(out: Path, figures: Figures) -> None:
    """Write the figures, a plot and the page; what stands under its last heading, "Notes", stays."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    series = [
        Series(mode, tuple((float(one["step"]), _interval(one)) for one in points))
        for mode, points in figures["curves"].items()
    ]
    learning_report.draw(out.with_suffix(".svg"), curves(series, "steps", "success on validation tasks"))
    plan = figures["settings"]
    episodes = plan["steps"] * plan["prompts"] * plan["rollouts"]
    lines = ["# Credit modes compared", "", f"Made by `bench/credit.py`; numbers in {out.name}.json.", ""]
    lines += [
        f"A small policy (a softmax over {len(FEATURES)} weighed features, bench/credit_policy.py), cloned "
        f"from {plan['demos']} demonstrations in {plan['passes']} steps, then trained for {plan['steps']} steps of "
        f"{plan['prompts']} tasks x {plan['rollouts']} episodes ({episodes} in all) per mode and seed.",
        "",
        f"The expert it was cloned from solves {_successes(figures, 'expert')}; "
        f"the start {_successes(figures, 'start')}.",
        "",
        *learning_credit.page(figures["played"], "Decided by chance, as in training,"),
        f"![validation]({out.name}.svg)",
        "",
    ]
    page = out.with_suffix(".md")
    page.write_text("\n".join(lines) + learning_report.notes(page))
    print(f"wrote {out}.md, .json and .svg")


def _interval(found: Figures) -> Interval:
    return Interval(found["value"], found["low"], found["high"], found["n"])


def _successes(figures: Figures, run: str) -> str:
    """Say what a run achieves on unseen providers."""
    chance, greedy = (figures[how][run]["test_unseen"]["success"] for how in ("played", "greedy"))
    return f"{greedy:.3f} of test-unseen greedily and {chance:.3f} by chance"

"""Reports one run or several side by side: what was achieved, how sure that is, how, and what failed why.

Place in the flow: layer 5, the end of every evaluation; `report_run` opens the runs, `report_html` and
`report_markdown` write out what is composed here. The first run is the one that the others are compared to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import orjson

from paraagent.evaluate.behaviour import Behaviour
from paraagent.evaluate.compare import Comparison, compare
from paraagent.evaluate.intervals import Interval
from paraagent.evaluate.metrics import METRICS, EpisodeMetrics, Metric, PassK, by_kind, over, pass_k, table
from paraagent.evaluate.report_document import Block, Cell, Document, Plot, Section, Table, Text, Tone, figure, number
from paraagent.evaluate.report_failures import failures
from paraagent.evaluate.report_plots import intervals
from paraagent.evaluate.report_run import ScoredRun
from paraagent.trace.plain import one_line
from paraagent.types import JsonObject

_KIND_COLUMNS = (
    "success",
    "gold_recall",
    "search_recall_5",
    "turns",
    "searches",
    "calls",
    "width",
    "phase_switches",
    "wasted",
    "makespan_ratio",
)
_SETTINGS = ("benchmark", "split", "model", "paradigm", "plan", "seed", "turns", "temperature")


@dataclass(frozen=True)
class Report:
    """Runs and everything that is said about them."""

    runs: Sequence[ScoredRun]

    @cached_property
    def comparisons(self) -> Mapping[str, Comparison]:
        """Each further run against the first, by name."""
        first, *others = self.runs
        return {run.name: compare(first.metrics, run.metrics) for run in others}

    @cached_property
    def repeated(self) -> Mapping[str, Sequence[PassK]]:
        """pass@k of runs that were asked the same, by their names."""
        return _repeated(self.runs)

    def to_json(self) -> JsonObject:
        return {
            "runs": [_run_json(run) for run in self.runs],
            "comparisons": {name: found.to_json() for name, found in self.comparisons.items()},
            "repeated": {name: [one.to_json() for one in found] for name, found in self.repeated.items()},
        }

    def document(self, folder: Path) -> Document:
        """Compose the report; `folder` is where it will lie, which its links to traces start from."""
        sections = [
            Section("Runs", tuple(_about(self.runs))),
            Section("Success", tuple(_success(self.runs))),
            *([Section("Comparison", tuple(_compared(self)))] if self.comparisons else []),
            Section("Figures", tuple(_figures(self.runs))),
            *([Section("Repeated runs", tuple(_pass_k(self.repeated)))] if self.repeated else []),
            Section("Task kinds", tuple(block for run in self.runs for block in _kinds(run, len(self.runs) > 1))),
            Section("Exploring", tuple(block for run in self.runs for block in _explores(run, len(self.runs) > 1))),
            Section("Failures", tuple(failures(self.runs, folder))),
            Section("How to read this", tuple(map(Text, _LEGEND))),
        ]
        return Document(f"Report: {', '.join(run.name for run in self.runs)}", tuple(sections))


_LEGEND = (
    "Every figure is a mean over episodes, with its 95 % interval below it: Wilson's for shares of yes and no, else "
    "a seeded bootstrap over episodes. A dash means that it applies to no episode. Times are seconds on the "
    "episode's clock, which is virtual for simulated tools.",
    "Comparisons pair the episodes of the same task: Newcombe's interval and McNemar's exact p for yes and no, else "
    "a bootstrap over pairs and sign flips. Among twenty figures one p falls under 0.05 by chance.",
    "Wasted actions repeat an earlier success, show no needed tool, or do no gold call. Actions over critical path "
    "is 1 if no schedule could have been faster. A failure has one cause, the first that the rules find.",
)


def _run_json(run: ScoredRun) -> JsonObject:
    episodes = list(run.metrics.values())
    return {
        "name": run.name,
        "path": str(run.path),
        "policy": run.policy,
        "config": run.config,
        "catalog": run.catalog,
        "episodes": len(episodes),
        "masked": run.masked,
        "unfinished": run.unfinished,
        "missing": run.missing,
        "metrics": _json(table(episodes)),
        "by_kind": {kind: _json(table(some)) for kind, some in by_kind(episodes).items()},
        "behaviour": run.behaviour.to_json(),
        "behaviour_by_kind": {kind: one.to_json() for kind, one in run.behaviour_by_kind.items()},
    }


def _json(figures: Mapping[str, Interval]) -> JsonObject:
    return {name: found.to_json() for name, found in figures.items()}


def _repeated(runs: Sequence[ScoredRun]) -> dict[str, Sequence[PassK]]:
    alike: dict[bytes, list[ScoredRun]] = defaultdict(list)
    for run in runs:
        alike[orjson.dumps(run.config, option=orjson.OPT_SORT_KEYS)].append(run)
    found: dict[str, Sequence[PassK]] = {}
    for same in (same for same in alike.values() if len(same) > 1):
        tasks = set.intersection(*({name for name, one in run.metrics.items() if one.judged} for run in same))
        samples = {task: [bool(run.metrics[task].success) for run in same] for task in sorted(tasks)}
        if samples:
            found[", ".join(run.name for run in same)] = pass_k(samples)
    return found


def _about(runs: Sequence[ScoredRun]) -> list[Block]:
    rows = [
        ("policy", [run.policy for run in runs]),
        ("episodes", [str(len(run.metrics)) for run in runs]),
        *((name, [_said(run.config.get(name)) for run in runs]) for name in _SETTINGS),
    ]
    cells = [(Cell(name), *(Cell(one_line(one, 40)) for one in said)) for name, said in rows if set(said) != {"–"}]
    blocks: list[Block] = [Table(("", *(run.name for run in runs)), tuple(cells))]
    for run in runs:
        if not run.complete:
            lacks = f"{run.missing} missing, {run.unfinished} unfinished or damaged, {run.masked} failed outside"
            blocks.append(Text(f"{run.name} is incomplete and its figures may mislead: {lacks} the agent."))
    catalogs = sorted({run.catalog for run in runs if run.catalog})
    return [*blocks, Text(f"Catalog {', '.join(one[:12] for one in catalogs)}.", quiet=True)] if catalogs else blocks


def _said(value: object) -> str:
    return "–" if value is None else str(value)


def _success(runs: Sequence[ScoredRun]) -> list[Block]:
    kinds = {run.name: by_kind(run.metrics.values()) for run in runs}
    rows: list[tuple[str, list[Interval | None]]] = [
        ("all", [over("success", run.metrics.values()) for run in runs]),
        *(
            (kind, [over("success", kinds[run.name].get(kind, ())) for run in runs])
            for kind in sorted(set().union(*kinds.values()))
        ),
    ]
    said = [
        f"{run.name} solved {round(found.value * found.n)} of {found.n} tasks: {number(found.value)} "
        f"(95 % interval {number(found.low)} to {number(found.high)})."
        for run, found in zip(runs, rows[0][1], strict=True)
        if found is not None
    ]
    plot = Plot(intervals(rows, [run.name for run in runs]), "success by task kind with 95 % intervals")
    return [*map(Text, said or ["No episode was judged."]), plot]


def _compared(report: Report) -> list[Block]:
    blocks: list[Block] = []
    first = report.runs[0].name
    for name, found in report.comparisons.items():
        if not found.tasks:
            blocks.append(Text(f"{name} and {first} have no task in common."))
            continue
        blocks.append(
            Text(
                f"{name} against {first} on {found.tasks} common tasks: "
                f"{len(found.gained)} solved only by {name}, {len(found.lost)} only by {first}."
            )
        )
        rows = [_difference(metric, found) for metric in METRICS if metric.name in found.figures]
        blocks.append(Table(("figure", first, name, "difference", "p"), tuple(row for row in rows if row)))
        for what, tasks in ((f"Solved only by {name}", found.gained), (f"Solved only by {first}", found.lost)):
            if tasks:
                shown = ", ".join(one_line(task, 64) for task in tasks[:10])
                blocks.append(Text(f"{what}: {shown}{', …' if len(tasks) > 10 else ''}.", quiet=True))
    return blocks


def _difference(metric: Metric, comparison: Comparison) -> tuple[Cell, ...] | None:
    """Return a row of a comparison; None if neither run has anything there."""
    found = comparison.figures[metric.name]
    if not (found.first or found.second):
        return None
    change = found.difference
    tone: Tone = "plain"
    if metric.better != "neither" and (change.low > 0 or change.high < 0) and found.p < 0.05:
        tone = "good" if (change.value > 0) == (metric.better == "more") else "bad"
    sign = "+" if change.value > 0 else ""
    cell = replace(figure(change, tone=tone), text=sign + number(change.value))
    p = "<0.001" if found.p < 0.001 else f"{found.p:.3f}"
    return Cell(metric.title), Cell(number(found.first)), Cell(number(found.second)), cell, Cell(p)


def _figures(runs: Sequence[ScoredRun]) -> list[Block]:
    tables = [table(list(run.metrics.values())) for run in runs]
    rows = tuple(
        (Cell(metric.title), *(figure(found.get(metric.name)) for found in tables))
        for metric in METRICS
        if any(metric.name in found for found in tables)
    )
    return [Table(("figure", *(run.name for run in runs)), rows)]


def _pass_k(repeated: Mapping[str, Sequence[PassK]]) -> list[Block]:
    blocks: list[Block] = []
    for names, found in repeated.items():
        rows = tuple((Cell(str(one.k)), figure(one.at_least_one), figure(one.all_of_them)) for one in found)
        blocks += [Text(f"Runs with equal settings: {names}."), Table(("k", "pass@k", "pass^k"), rows)]
    return blocks


def _kinds(run: ScoredRun, named: bool) -> list[Block]:
    metrics = [metric for metric in METRICS if metric.name in _KIND_COLUMNS]
    rows = [_kind_row(kind, some, metrics) for kind, some in by_kind(run.metrics.values()).items()]
    head = ("kind", "tasks", *(metric.title for metric in metrics))
    return [*([Text(run.name)] if named else []), Table(head, tuple(rows))]


def _kind_row(kind: str, some: Sequence[EpisodeMetrics], metrics: Sequence[Metric]) -> tuple[Cell, ...]:
    return Cell(kind), Cell(str(len(some))), *(figure(over(metric.name, some)) for metric in metrics)


def _explores(run: ScoredRun, named: bool) -> list[Block]:
    head = ("kind", "first call, turn", "searched up front", "width", "widest", "returns")
    rows = tuple(_explore_row(kind, one) for kind, one in run.behaviour_by_kind.items())
    reasons = run.behaviour.return_reasons
    told = (
        f"Back to exploring after the first call: {sum(reasons.values())} times, "
        f"{reasons.get('failed_call', 0)} of them after a failed call."
    )
    columns = (*head, "asked again", "nothing new", "nothing fits")
    return [*([Text(run.name)] if named else []), Table(columns, rows, told)]


def _explore_row(kind: str, one: Behaviour) -> tuple[Cell, ...]:
    found = (
        one.first_call,
        one.upfront,
        one.width,
        one.widest,
        one.returns,
        one.again,
        one.rediscovered,
        one.in_vain,
    )
    return Cell(kind), *map(figure, found)

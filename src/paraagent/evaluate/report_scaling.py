"""Shows what `scaling` measured: curves, plateau, verification gap.

Place in the flow: layer 5, beside `report`.
"""

from __future__ import annotations

from collections.abc import Sequence

from paraagent.evaluate.report_document import Block, Cell, Document, Plot, Section, Table, Text, figure, number
from paraagent.evaluate.report_plots import Series, curves
from paraagent.evaluate.scaling import Curve, Scaling

_LEGEND = (
    "A choice is worth its expected success: where samples tie, their mean, and over all subsets of k samples. "
    "random takes any, majority the answer that agrees best with the others, verifier the one best borne out by its "
    "own results, judge the one a model rates highest, pairs the one a model prefers most often when it compares two "
    "at a time, oracle a solved one if there is any.",
    "The plateau is the smallest budget from which no larger one is better beyond doubt: the paired 95 % interval of "
    "the gain holds 0. With few tasks it comes early.",
    "The verification gap is the oracle's success minus the chosen sample's; recovered is the part of the way from "
    "random to oracle that a selector goes.",
)


def document(scaling: Scaling, title: str) -> Document:
    """Compose the report of an experiment."""
    sections = [Section("Summary", tuple(map(Text, said(scaling))))]
    for curve in scaling.sequential:
        plot = _plot([curve], f"budget: {curve.name}")
        sections.append(Section(f"More {curve.name}", (plot, _points([curve], curve.name))))
    if len(scaling.pass_k) > 1:
        plot = _plot(scaling.parallel, "samples")
        sections.append(Section("More samples", (plot, _points(scaling.parallel, "k"), *_tables(scaling))))
    sections.append(Section("How to read this", tuple(map(Text, _LEGEND))))
    return Document(title, tuple(sections))


def said(scaling: Scaling) -> list[str]:
    """Return the result in sentences."""
    lines = [f"{scaling.tasks} tasks.", *(f"More {curve.name}: {_rise(curve)}" for curve in scaling.sequential)]
    most = len(scaling.pass_k)
    if most > 1:
        lines += [f"Chosen by {curve.name}: {_rise(curve)}" for curve in scaling.parallel]
    for gap in scaling.gaps if most > 1 else ():
        lost = gap.against_oracle.difference
        part = "" if gap.recovered is None else f", {number(gap.recovered.value)} of the way from random recovered"
        lines.append(
            f"Verification gap of {gap.selector} at k={most}: {number(lost.value)} "
            f"({number(lost.low)} to {number(lost.high)}){part}."
        )
    return lines


def _rise(curve: Curve) -> str:
    first, last = curve.points[0], curve.points[-1]
    if len(curve.points) == 1:
        return f"{number(first.success.value)} at {number(first.x)}."
    end = "still rising at the end" if curve.plateau is None else f"plateau from {number(curve.plateau)}"
    span = f"{number(first.success.value)} at {number(first.x)} to {number(last.success.value)} at {number(last.x)}"
    return f"{span}, {end}."


def _plot(found: Sequence[Curve], x_name: str) -> Plot:
    series = [Series(one.name, tuple((point.x, point.success) for point in one.points)) for one in found]
    return Plot(curves(series, x_name, "success"), f"success over {x_name}")


def _points(found: Sequence[Curve], x_name: str) -> Table:
    spent = found[0].points
    rows = tuple(
        (Cell(number(point.x)), *(figure(one.points[place].success) for one in found), figure(point.tokens))
        for place, point in enumerate(spent)
    )
    names = ("success",) if len(found) == 1 else tuple(one.name for one in found)
    return Table((x_name, *names, "tokens"), rows)


def _tables(scaling: Scaling) -> list[Block]:
    gaps = tuple(
        (
            Cell(gap.selector),
            Cell(number(gap.against_oracle.first)),
            figure(gap.against_oracle.difference),
            figure(gap.recovered),
        )
        for gap in scaling.gaps
    )
    blocks: list[Block] = [Table(("selector", "success", "gap to oracle", "recovered"), gaps)]
    if scaling.trust:
        rows = tuple(
            (Cell(one.selector), figure(one.true_positives), figure(one.false_positives)) for one in scaling.trust
        )
        blocks.append(Table(("passes", "of solved", "of failed"), rows, "A sample passes at the highest score, 1."))
    both = tuple((Cell(str(one.k)), figure(one.at_least_one), figure(one.all_of_them)) for one in scaling.pass_k)
    return [*blocks, Table(("k", "pass@k", "pass^k"), both)]

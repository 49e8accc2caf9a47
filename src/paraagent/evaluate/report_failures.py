"""The part of a report that tells what failed, why, and where to look.

Place in the flow: layer 5, called by `report`. Limits: the first `TOLD` failures of a run are told in full, the
others are linked.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from paraagent.evaluate.behaviour import failed
from paraagent.evaluate.failures import FAILURE_KINDS, Failure
from paraagent.evaluate.report_document import Block, Cell, Plot, Story, Table, Text
from paraagent.evaluate.report_plots import stacks
from paraagent.evaluate.report_run import ScoredRun
from paraagent.evaluate.summary import kind_of
from paraagent.trace.plain import one_line
from paraagent.trace.view import EpisodeView

TOLD = 20
_LONGEST = 8_000
"""Characters of a told episode."""

_Failed = Sequence[tuple[EpisodeView, Failure]]


def failures(runs: Sequence[ScoredRun], folder: Path) -> list[Block]:
    """Return the failures of runs: by cause, by task kind, and one by one with links that start from `folder`."""
    found = {run.name: failed(run.views.values()) for run in runs}
    if not any(found.values()):
        return [Text("No judged episode failed.")]
    bars = [(name, _counts([cause for _, cause in some])) for name, some in found.items()]
    blocks: list[Block] = [Plot(stacks(bars, FAILURE_KINDS), "failures by cause")]
    for run in runs:
        some = found[run.name]
        if some:
            blocks += [Text(f"{run.name}, by cause and task kind:"), _table(some), *_stories(run, some, folder)]
        else:
            blocks.append(Text(f"{run.name}: no judged episode failed."))
    return [*blocks, Text("Read a trace with `paraagent view FILE`.", quiet=True)]


def _counts(causes: Sequence[Failure]) -> list[int]:
    counted = Counter(cause.kind for cause in causes)
    return [counted[kind] for kind in FAILURE_KINDS]


def _table(some: _Failed) -> Table:
    kinds = sorted({kind_of(view) for view, _ in some})
    counted = Counter((cause.kind, kind_of(view)) for view, cause in some)
    rows = [
        (Cell(cause.replace("_", " ")), *(Cell(str(counted[cause, kind] or "")) for kind in kinds), Cell(str(total)))
        for cause in FAILURE_KINDS
        if (total := sum(counted[cause, kind] for kind in kinds))
    ]
    return Table(("cause", *kinds, "all"), tuple(rows))


def _stories(run: ScoredRun, some: _Failed, folder: Path) -> list[Block]:
    stories: list[Block] = []
    names = {id(view): name for name, view in run.views.items()}
    for number, (view, cause) in enumerate(some):
        name = names[id(view)]
        trace = Path(os.path.relpath(run.trace(name), folder)).as_posix()
        told = _told(view) if number < TOLD else ""
        title = f"{cause.kind.replace('_', ' ')} · {one_line(name, 80)}"
        stories.append(Story(title, one_line(cause.reason, 240), trace, told))
    return stories


def _told(view: EpisodeView) -> str:
    """Return the episode as the viewer tells it, as plain text."""
    from rich.console import Console

    from paraagent.trace.text import tell

    text = StringIO()
    Console(file=text, width=96, color_system=None, force_terminal=False, legacy_windows=False).print(tell(view))
    lines = "\n".join(line.rstrip() for line in text.getvalue().splitlines())
    return lines if len(lines) <= _LONGEST else f"{lines[:_LONGEST]}\n… (the rest is in the trace)"

"""`paraagent report`: write what one or more runs achieved as HTML and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.errors import EnvironmentFault

if TYPE_CHECKING:
    from paraagent.evaluate.report_document import Document

AllowIncomplete = Annotated[
    bool, typer.Option("--allow-incomplete", help="Score what there is of a run that lacks episodes.")
]
AllowMixed = Annotated[bool, typer.Option("--mixed", help="Report runs of different tasks or settings together.")]


@guarded
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN [RUN ...]", help="Run directories; the others against the first.")
    ],
    out_path: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="FILE.html and FILE.md; report in the first run unless given."),
    ] = None,
    allow_incomplete: AllowIncomplete = False,
    mixed: AllowMixed = False,
    as_json: JsonFlag = False,
) -> None:
    """Report runs side by side: success with intervals, comparison, figures, behaviour, and every failure's trace.

    Writes one HTML page that needs nothing else, and the same as Markdown. A directory that `paraagent scale` has
    written is reported as curves. A run that lacks episodes, or whose traces were not made alike, is refused.
    """
    from paraagent.cli import scale
    from paraagent.evaluate.report import Report
    from paraagent.evaluate.report_run import open_runs

    out = Output(as_json)
    if (runs[0] / scale.RESULT).exists() and len(runs) == 1:
        written = write(scale.load(runs[0]), out_path or runs[0] / "report")
        _tell(written, out)
        out.finish({"written": [str(path) for path in written]})
        return
    found = Report(open_runs(runs, allow_incomplete=allow_incomplete, mixed=mixed))
    base = out_path or runs[0] / "report"
    written = write(found.document(base.parent), base)
    for run in found.runs:
        judged = [one.success for one in run.metrics.values() if one.judged]
        out.text.print(f"{run.name}: {sum(map(bool, judged))} of {len(judged)} solved", markup=False)
    for name, comparison in found.comparisons.items():
        if success := comparison.figures.get("success"):
            change = success.difference
            bounds = f"{change.low:+.3f} to {change.high:+.3f}"
            p = "below 0.001" if success.p < 0.001 else f"{success.p:.3f}"
            out.text.print(f"{name}: {change.value:+.3f} ({bounds}, p {p})", markup=False)
    _tell(written, out)
    out.finish(found.to_json() | {"written": [str(path) for path in written]})


def write(document: Document, base: Path) -> list[Path]:
    """Write a document as HTML and as Markdown beside each other; return both paths.

    Raises:
        EnvironmentFault: they cannot be written.
    """
    from paraagent.evaluate.report_html import to_html
    from paraagent.evaluate.report_markdown import to_markdown

    stem = base.with_suffix("") if base.suffix in (".html", ".md") else base
    texts = {
        stem.with_name(f"{stem.name}.html"): to_html(document),
        stem.with_name(f"{stem.name}.md"): to_markdown(document),
    }
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise EnvironmentFault(f"{path}: cannot write the report there ({error.strerror})") from error
    return list(texts)


def _tell(written: Sequence[Path], out: Output) -> None:
    for path in written:
        out.text.print(f"wrote {path}", markup=False, soft_wrap=True)

"""`paraagent view`: read one episode's trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.errors import UsageError


@guarded
def view(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file, or a run directory with one trace.")],
    text: Annotated[bool, typer.Option("--text", help="Tell it in the terminal (the only form so far).")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Tell one episode readably: its phases, searches and calls on a time axis, its answer and the verdict."""
    import msgspec

    from paraagent.trace.reader import load
    from paraagent.trace.text import tell

    out = Output(as_json)
    found = load(_file(trace))
    out.text.print(tell(found))
    measures = msgspec.to_builtins(found.measures)
    end = msgspec.to_builtins(found.end) if found.end else None
    out.finish({"request": found.request, "measures": measures, "end": end})


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    traces = sorted(path.glob("traces/*.jsonl")) or sorted(path.glob("*.jsonl"))
    if len(traces) == 1:
        return traces[0]
    if not traces:
        raise UsageError(f"{path} holds no traces")
    names = ", ".join(trace.name for trace in traces[:3])
    raise UsageError(f"{path} holds {len(traces)} traces: name one of them, as {traces[0]} (there are {names}, ...)")

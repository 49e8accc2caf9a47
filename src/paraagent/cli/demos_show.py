"""The work behind `paraagent demos inspect` and `paraagent demos convert`.

Place in the flow: layer 7; imported by `demos` only when it runs. Texts of a file come from anywhere and are made
safe before they are printed.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paraagent.cli.output import Output
from paraagent.demos.demo import Demo
from paraagent.demos.formats import Format, OnError, line, read, row
from paraagent.demos.statistics import Statistics, gather, ordered
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.grammar import Turn, parse
from paraagent.protocol.jsontext import write_json
from paraagent.protocol.plan import CallPlan, SearchPlan
from paraagent.trace.plain import one_line, plain

_REPORTED = 5
_LINE = 400


class _Skipped:
    """Reports the rows that were left out, the first few by line."""

    def __init__(self, console: Console) -> None:
        self.count = 0
        self._console = console

    def __call__(self, number: int, reason: str) -> None:
        self.count += 1
        if self.count <= _REPORTED:
            self._console.print(f"line {number} left out: {one_line(reason)}", style="yellow", markup=False)

    def total(self) -> None:
        if self.count > _REPORTED:
            self._console.print(f"{self.count} malformed rows were left out", style="yellow")


def show(file: Path, index: int | None, on_error: OnError, out: Output) -> None:
    """Print the statistics of a file, or one demonstration."""
    skipped = _Skipped(out.text)
    demos = read(file, on_error, skipped)
    if index is not None:
        demo = next(islice(demos, index, None), None)
        if demo is None:
            raise UsageError(f"{file} holds fewer than {index + 1} demonstrations: choose a smaller --index")
        _tell(out.text, demo)
        out.finish(row(demo, "chat") or {})
        return
    with out.text.status(f"reading {file.name}..."):
        statistics = gather(demos)
    skipped.total()
    if not statistics.total:
        raise UsageError(f"{file} holds no demonstrations")
    _print(out.text, statistics)
    out.finish(statistics.to_json() | {"skipped": skipped.count})


def convert(source: Path, target: Path, to: Format, on_error: OnError, overwrite: bool, out: Output) -> None:
    """Write the demonstrations of one file into another format."""
    if target.exists() and (not overwrite or target.samefile(source)):
        raise UsageError(f"{target}: exists already; choose another name" + ("" if overwrite else ", or --overwrite"))
    skipped = _Skipped(out.text)
    lines = [line(demo, to) for demo in read(source, on_error, skipped)]
    written, left_out = sum(text is not None for text in lines), lines.count(None)
    try:
        target.write_bytes(b"".join(filter(None, lines)))
    except OSError as error:
        raise EnvironmentFault(f"{target}: cannot write there ({error.strerror})") from error
    skipped.total()
    out.text.print(f"{written} demonstrations written to {target}", markup=False)
    if left_out:
        out.text.print(f"{left_out} left out: they hold turns not to be learned, which {to} cannot mark")
    out.finish({"written": written, "left_out": left_out, "skipped": skipped.count, "file": str(target)})


def _print(console: Console, statistics: Statistics) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("demonstrations", f"{statistics.total:,}")
    for name, counter in statistics.counts.items():
        if any(counter):
            told = "  ".join(f"{one_line(key, 40) or '?'} {count:,}" for key, count in ordered(counter).items())
            table.add_row(name, told)
    table.add_row("tools", f"{len(statistics.tools):,}")
    table.add_row("providers", f"{len(statistics.providers):,}")
    tokens = "  ".join(f"{key} {count:,}" for key, count in statistics.token_quantiles().items())
    table.add_row(
        "tokens", f"{tokens}  all {sum(statistics.tokens):,}, {statistics.learned_tokens:,} to learn (est.)"
    )
    shown = f"{statistics.assistant_turns:,}, {statistics.unlearned_turns:,} of them not to be learned"
    table.add_row("assistant turns", shown)
    table.add_row("linked calls", f"in {statistics.linked:,}")
    faults = "  ".join(f"{kind} {count:,}" for kind, count in ordered(statistics.faults).items())
    table.add_row("faulty turns", f"{statistics.faulty_turns:,}  {faults}".rstrip())
    console.print(table, markup=False)


def _tell(console: Console, demo: Demo) -> None:
    """Tell one demonstration: each turn by its parts, what came back in a few lines."""
    console.print(plain(f"{demo.task_id}  {demo.kind} {demo.split} {demo.dataset}"), style="bold cyan", markup=False)
    for message, learned in zip(demo.messages, demo.loss, strict=True):
        if message.role == "system":
            console.print(f"system  {len(message.content):,} characters", style="dim")
        elif message.role == "user":
            for text in message.content.splitlines():
                console.print(f"  {one_line(text, _LINE)}", style="dim", markup=False, soft_wrap=True)
        else:
            turn = parse(message.content)
            console.print(turn.kind + ("" if learned else "  (not to be learned)"), style="bold")
            _turn(console, turn)


def _turn(console: Console, turn: Turn) -> None:
    if turn.think:
        console.print(plain(turn.think), style="italic", markup=False)
    if isinstance(turn.plan, SearchPlan):
        console.print(plain(f"plan    slots: {'; '.join(turn.plan.capacity_slots)}"), markup=False, soft_wrap=True)
    elif isinstance(turn.plan, CallPlan):
        steps = "  ->  ".join(" | ".join(step) for step in turn.plan.execution_flow)
        console.print(plain(f"plan    {steps}"), markup=False, soft_wrap=True)
    for search in turn.searches:
        console.print(plain(f"search  {search.slot}: {search.query}"), style="cyan", markup=False, soft_wrap=True)
    for call in turn.calls:
        told = one_line(call.text, _LINE) if isinstance(call, BrokenCall) else write_json(call.arguments)
        name = f"{call.id}=" if call.id else ""
        console.print(plain(f"call    {name}{call.name} {told}"), style="blue", markup=False, soft_wrap=True)
    if turn.answer is not None:
        console.print(plain(f"answer  {turn.answer}"), style="green", markup=False, soft_wrap=True)
    for fault in turn.faults:
        console.print(plain(f"fault   {fault.message}"), style="red", markup=False, soft_wrap=True)

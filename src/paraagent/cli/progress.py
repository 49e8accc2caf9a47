"""Live progress: one line per action of a single episode, or a table of the episodes that a suite is running.

Place in the flow: layer 7; fed with trace events as they are recorded. On a terminal the table redraws itself; into a
file or pipe only finished episodes are reported, so that logs stay readable.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from paraagent.evaluate.summary import kind_of
from paraagent.protocol.grammar import parse
from paraagent.trace.events import CallEnd, CallStart, EpisodeEnd, EpisodeStart, Event, Note, SearchDone, TurnText
from paraagent.trace.plain import one_line
from paraagent.trace.view import EpisodeView

_ROWS = 12


class Narrator:
    """Tells one episode line by line while it runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._kind = ""

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnText):
            self._turn(event)
        elif isinstance(event, SearchDone):
            names = ", ".join(name for name, _ in event.hits[:3]) if not event.nothing_fits else "nothing fits"
            self._line(event.ended, "search", f"{event.slot}: {names}", "cyan")
        elif isinstance(event, CallStart):
            self._line(event.at, "call", event.name, "blue")
        elif isinstance(event, CallEnd):
            told = f"{event.name} {event.error}: {event.message}" if event.error else f"{event.name} ok"
            self._line(event.ended, "done", told, "red" if event.error else "green")
        elif isinstance(event, Note):
            self._line(event.at, "note", event.text, "yellow")

    def _turn(self, event: TurnText) -> None:
        turn = parse(event.text)
        if turn.kind not in (self._kind, "answer"):
            self._kind = turn.kind
            self._console.print(f"{turn.kind}", style="bold")
        if turn.think:
            self._line(event.ended, "think", turn.think, "dim")

    def _line(self, at: float, what: str, text: str, style: str) -> None:
        line = Text(f"{at:7.2f} s  {what:<7}")
        line.append(one_line(text, 200), style=style)
        self._console.print(line, soft_wrap=True)


class Board:
    """The live table of a suite; use as a context manager."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._running: dict[str, str] = {}
        self._done = 0
        self._solved = 0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )
        self._task: TaskID = self._bar.add_task("episodes", total=total)
        self._live = Live(console=console, refresh_per_second=6, transient=True, get_renderable=self._render)

    def __enter__(self) -> Board:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live.is_started:
            self._live.stop()

    def watch(self, name: str, event: Event) -> None:
        """Take note of an event of a running episode."""
        if isinstance(event, EpisodeEnd):
            self._running.pop(name, None)
        elif (doing := _doing(event)) is not None:
            self._running[name] = doing

    def done(self, name: str, view: EpisodeView) -> None:
        """Count a finished episode, kept ones of an earlier run included."""
        self._done += 1
        self._solved += bool(view.success)
        self._bar.update(self._task, completed=self._done, description=f"{self._solved} of {self._done} solved")
        if not self._console.is_terminal and self._console.stderr is False and view.success is False:
            self._console.print(f"failed: {name} ({kind_of(view)})", markup=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, doing in list(self._running.items())[:_ROWS]:
            table.add_row(Text(name, "dim"), Text(doing))
        if len(self._running) > _ROWS:
            table.add_row("", f"and {len(self._running) - _ROWS} more")
        return Group(table, self._bar)


def _doing(event: Event) -> str | None:
    if isinstance(event, EpisodeStart):
        return "thinking"
    if isinstance(event, SearchDone):
        return f"searched {one_line(event.slot, 60)}"
    if isinstance(event, CallStart):
        return f"calling {event.name}"
    if isinstance(event, CallEnd):
        return f"{event.name} {'failed: ' + event.error if event.error else 'done'}"
    return None

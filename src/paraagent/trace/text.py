"""Tells one episode on a terminal: what was asked, tried, found, run and answered, and where the time went.

Place in the flow: layer 1; `paraagent view --text` prints what `tell` returns. Calls stand on one lane each with
their true starts, so overlap is visible; the group's critical path has its own colour and its own glyph, and every
status is a word, so nothing is lost without colour. All text of the trace is untrusted and passes `plain` first.
Limits: excerpts only; the full text of results and thoughts is in the trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from paraagent.trace.events import CallEnd, CallStart, SearchDone
from paraagent.trace.measures import Measures, critical_chain
from paraagent.trace.plain import one_line, plain
from paraagent.trace.view import CallView, EpisodeView, PhaseView, TurnView
from paraagent.types import JsonValue

_HITS_SHOWN = 3
_CRITICAL, _OTHER = "█", "▒"


def tell(view: EpisodeView) -> RenderableType:
    """Return the episode as something a rich console prints at any width of 60 columns or more."""
    parts: list[RenderableType] = [_heading(view), _block(view.request), ""]
    for phase in view.phases:
        parts.append(_rule(_phase_title(phase), _span(phase.turns[0].message.started, _phase_end(phase))))
        for turn in phase.turns:
            parts.extend(_turn(turn))
            if turn.kind != "answer":  # then the answer follows
                parts.append("")
    parts.extend(_ending(view))
    return Group(*parts)


def _heading(view: EpisodeView) -> Text:
    start = view.start
    facts = [f"run {start.run}", f"policy {start.policy}"]
    if start.task is not None:
        facts.append(f"task {start.task.get('id', '?')}")
    if start.seed is not None:
        facts.append(f"seed {start.seed}")
    return Text.assemble((f"Episode {one_line(start.episode, 60)}", "bold"), " · ", one_line(" · ".join(facts), 160))


def _phase_title(phase: PhaseView) -> str:
    return "Answer" if phase.kind == "answer" else f"{phase.kind.capitalize()} {phase.number}"


def _phase_end(phase: PhaseView) -> float:
    last = phase.turns[-1]
    ends = [search.ended for search in last.searches] + [call.ended or call.started for call in last.calls]
    return max(ends, default=last.message.ended)


def _turn(turn: TurnView) -> Iterator[RenderableType]:
    rows = [("turn", Text(f"{turn.index} · {_turn_cost(turn)}", "dim"))]
    if think := _tagged("think", turn.text):
        rows.append(("think", Text(one_line(think, 300), "italic")))
    if plan := _tagged("plan", turn.text):
        rows.append(("plan", Text(one_line(_flow(plan), 300), "cyan")))
    if turn.kind == "invalid":
        rows.append(("text", Text(one_line(turn.text, 300), "yellow")))
    rows.extend(row for search in turn.searches for row in _search(search))
    if turn.calls:
        rows.append(("calls", _axis(turn.calls)))
    yield _labelled(rows)
    if turn.calls:
        yield Padding(_lanes(turn.calls), (0, 0, 0, 2))
        yield _labelled([row for call in turn.calls for row in _call(call)])
    if turn.notes:
        yield _labelled([("note", Text(f"{note.kind}: {one_line(note.text, 300)}", "yellow")) for note in turn.notes])


def _turn_cost(turn: TurnView) -> str:
    message = turn.message
    cost = f"model {_seconds(message.ended - message.started)}"
    if message.input_tokens or message.output_tokens:
        cost += (
            f", {message.input_tokens:,} tokens in ({message.cached_tokens:,} cached), {message.output_tokens:,} out"
        )
    return cost


def _search(search: SearchDone) -> Iterator[tuple[str, Text]]:
    query = search.query if search.slot in search.query else f"{search.slot}: {search.query}"
    yield "search", Text(one_line(query, 200))
    if search.nothing_fits or not search.hits:
        best = f" (best {search.hits[0][1]:.2f} {one_line(search.hits[0][0], 64)})" if search.hits else ""
        yield "", Text(f"nothing fits{best} among {search.total:,} tools", "yellow")
        return
    for name, score in search.hits[:_HITS_SHOWN]:
        yield "", Text.assemble((f"{score:.2f}", "bold"), f" {one_line(name, 64)}")
    if len(search.hits) > _HITS_SHOWN:
        yield "", Text(f"and {len(search.hits) - _HITS_SHOWN} more of {search.total:,} tools", "dim")


def _call(call: CallView) -> Iterator[tuple[str, Text]]:
    number = f"#{call.index + 1}"
    shown = call.arguments if call.end is None or call.end.raw_arguments is None else call.end.raw_arguments
    arguments = ", ".join(f"{key}={_json(value)}" for key, value in shown.items())
    bound = f"${call.end.id} = " if call.end is not None and call.end.id is not None else ""
    yield number, Text(one_line(f"{bound}{call.name}({arguments})", 300))
    if call.end is None:
        yield "", Text("no answer: the episode stopped first", "red")
    elif call.end.error is not None:
        injected = " (injected)" if call.end.injected else ""
        yield "", Text(f"{call.end.error}{injected}: {one_line(call.end.message or 'no message', 300)}", "red")
    elif call.end.shared_with is None:
        yield "", Text.assemble(("→ ", "bold green"), one_line(_json(call.end.value), 200))


@dataclass(frozen=True, slots=True)
class _Bar:
    """One call on its group's time axis; bounds are fractions of the axis."""

    begin: float
    end: float
    glyph: str
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        left = max(0, min(int(self.begin * width), width - 1))
        right = max(left + 1, min(round(self.end * width), width))
        yield Text(" " * left + self.glyph * (right - left), self.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(10, options.max_width)


def _axis(calls: Sequence[CallView]) -> Text:
    legend = f"   {_CRITICAL} critical path  {_OTHER} beside it" if len(calls) > 1 else ""
    return Text(f"{len(calls)} · {_span(*_bounds(calls))}{legend}", "dim")


def _bounds(calls: Sequence[CallView]) -> tuple[float, float]:
    ran = [call for call in calls if call.ran] or calls
    times = [call.started for call in ran] + [call.ended for call in ran if call.ended is not None]
    return min(times), max(times)


def _lanes(calls: Sequence[CallView]) -> Table:
    begin, end = _bounds(calls)
    scale = (end - begin) or 1.0
    critical = {link.index for link in critical_chain(*_ends_and_starts(calls))}
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(justify="right")
    table.add_column(no_wrap=True, max_width=30)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for call in calls:
        glyph, style = (_CRITICAL, "magenta") if call.index in critical else (_OTHER, "blue")
        last = end if call.ended is None else call.ended
        bar = _Bar((call.started - begin) / scale, (last - begin) / scale, glyph, style if call.ok else "red")
        name = Text(one_line(call.name, 64), overflow="ellipsis")
        lane = (bar, _seconds(last - call.started)) if call.ran else ("", "")
        table.add_row(f"#{call.index + 1}", name, *lane, _status(call))
    return table


def _ends_and_starts(calls: Sequence[CallView]) -> tuple[list[CallEnd], list[CallStart]]:
    return [call.end for call in calls if call.end], [call.start for call in calls if call.start]


def _status(call: CallView) -> Text:
    if call.end is None:
        return Text("unanswered", "red")
    if call.end.shared_with is not None:
        return Text(f"same as #{call.end.shared_with + 1}", "dim")
    repeated = f" x{call.end.attempts}" if call.end.attempts > 1 else ""
    return Text(f"{call.end.error or 'ok'}{repeated}", "green" if call.ok else "red")


def _ending(view: EpisodeView) -> Iterator[RenderableType]:
    if view.answer is not None:
        yield _labelled([("answer", Text(plain(view.answer[:4000])))])
        yield ""
    yield _rule("Verdict", "")
    yield _labelled([*_verdict(view), *_worst(view), ("totals", Text(_totals(view.measures)))])


def _verdict(view: EpisodeView) -> Iterator[tuple[str, Text]]:
    if view.torn:
        yield "file", Text("its last line was cut short and left out", "yellow")
    if view.end is None:
        yield "ended", Text("no: the episode was stopped or still runs", "yellow")
        return
    verdict = {True: Text("success", "bold green"), False: Text("failed", "bold red"), None: Text("not verified")}
    yield "result", verdict[view.end.success]
    for key, value in view.end.checks.items():
        yield "", Text(one_line(f"{key}: {value if isinstance(value, str) else _json(value)}", 300))
    yield "ended", Text(f"{view.end.stop_reason}{' (truncated)' if view.end.truncated else ''}")
    if view.end.mask_sample:
        yield "masked", Text(f"not for training: {one_line(view.end.failure_kind or 'no reason given', 200)}")


def _worst(view: EpisodeView) -> Iterator[tuple[str, Text]]:
    """Yield which calls failed and which took longest: what a reader looks for first."""
    calls = list(view.calls)
    for call in [call for call in calls if not call.ok][:8]:
        status = call.end.error if call.end else "unanswered"
        yield "error", Text(f"turn {call.turn} #{call.index + 1} {one_line(call.name, 64)}: {status}", "red")
    timed = [(call.ended - call.started, call) for call in calls if call.ended is not None]
    if len(timed) > 1:
        took, call = max(timed, key=lambda pair: pair[0])
        yield "slowest", Text(f"turn {call.turn} #{call.index + 1} {one_line(call.name, 64)}: {_seconds(took)}")


def _totals(m: Measures) -> str:
    facts = [
        f"{m.turns} turns, {m.searches} searches, {m.calls} calls ({m.failed_calls} failed)",
        f"width {m.mean_width:.1f} (max {m.max_width})",
        f"{_seconds(m.makespan)}, of which model {_seconds(m.model_seconds)}",
    ]
    if m.makespan_ratio is not None:
        facts.append(f"actions {m.makespan_ratio:.2f} x critical path")
    if m.tokens:
        facts.append(f"{m.input_tokens:,} tokens in ({m.cached_tokens / max(1, m.input_tokens):.0%} cached)")
        facts.append(f"{m.output_tokens:,} out")
    return "; ".join(facts)


def _flow(plan: str) -> str:
    """Return a plan in one line, as `slots: a, b` or `a, b → c`; an unreadable one as it is."""
    try:
        data = json.loads(plan)
        if slots := data.get("capacity_slots"):
            return "slots: " + ", ".join(map(str, slots))
        if steps := data.get("execution_flow"):
            return " → ".join(", ".join(map(str, step["parallel"])) for step in steps)
        return ", ".join(map(str, data["available_tools"]))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return plan


def _tagged(tag: str, text: str) -> str:
    match = re.search(rf"<{tag}>(.*?)(?:</{tag}>|\Z)", text, re.DOTALL)
    return match[1].strip() if match else ""


def _json(value: JsonValue) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.2f} s"


def _span(begin: float, end: float) -> str:
    return f"{begin:.2f} to {end:.2f} s"


def _rule(title: str, note: str) -> RenderableType:
    return Rule(Text.assemble((title, "bold"), (f" · {note}" if note else "", "dim")), align="left")


def _block(text: str) -> Padding:
    return Padding(Text(plain(text)), (0, 2))


def _labelled(rows: Sequence[tuple[str, Text]]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=7)
    table.add_column(overflow="fold")
    for label, body in rows:
        table.add_row(Text(label, "bold"), body)
    return Padding(table, (0, 0, 0, 2))

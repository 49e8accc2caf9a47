"""What a stopped episode had done already, so that it can go on without doing anything twice.

Place in the flow: layer 3; `loop` asks it before it asks the policy, a search or a tool; `journal` does not record
again what it knows. Finished calls give their recorded results; a write that was started but not finished gives
`outcome_unknown`, since it may have happened; everything else runs again. Without events it knows nothing.
Limits: the world's own state is not restored; a real one has kept it, a simulated one is replayed by `arena`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paraagent.trace.events import (
    CallEnd,
    CallStart,
    EpisodeEnd,
    EpisodeStart,
    Event,
    Note,
    Prompt,
    SearchDone,
    TurnText,
)
from paraagent.types import Call, Found, Hit, JsonObject, Result, Search, Tool, ToolError

_UNKNOWN = "the run stopped while this write was under way; it may have happened"
_Key = tuple[str, int, int, str]


class Past:
    """The recorded part of an episode; empty for a new one.

    Args:
        events: a trace without its end.
    """

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self._prompts = [event for event in events if isinstance(event, Prompt)]
        self._turns = {event.turn: event for event in events if isinstance(event, TurnText)}
        self._searches = {(e.turn, e.index): e for e in events if isinstance(e, SearchDone)}
        self._starts = {(e.turn, e.index): e for e in events if isinstance(e, CallStart)}
        self._ends = {(e.turn, e.index): e for e in events if isinstance(e, CallEnd)}
        self._known = {key for event in events if (key := _key(event)) is not None}
        self._started = bool(events)
        self.at = max((_time(event) for event in events), default=0.0)
        """Seconds on the episode's clock when it stopped."""

    def knows(self, event: Event) -> bool:
        """Tell whether the trace holds this event already, whatever its times are."""
        if isinstance(event, EpisodeStart) or not self._started:
            return self._started
        key = _key(event)
        return key is not None and key in self._known

    def prompt(self, number: int) -> Prompt | None:
        """Return the prompt message of this number, as the model saw it."""
        return self._prompts[number] if number < len(self._prompts) else None

    def turn(self, number: int) -> TurnText | None:
        """Return what the policy said in a turn."""
        return self._turns.get(number)

    def found(self, turn: int, searches: Sequence[Search], tool: Callable[[str], Tool | None]) -> dict[int, Found]:
        """Return the searches of a turn that need not run again, each with its answer."""
        answers: dict[int, Found] = {}
        for index, search in enumerate(searches):
            event = self._searches.get((turn, index))
            if event is not None:
                pairs = [(tool(name), score) for name, score in event.hits]
                hits = tuple(Hit(known, score, "recorded") for known, score in pairs if known is not None)
                answers[index] = Found(search, hits, event.total, event.nothing_fits)
        return answers

    def results(self, turn: int, calls: Sequence[Call]) -> dict[int, Result]:
        """Return the calls of a turn that must not run again, each with its result, in the order they ended."""
        ended = [index for number, index in self._ends if number == turn]
        places = [index for index in dict.fromkeys([*ended, *range(len(calls))]) if index < len(calls)]
        known = {index: self._result(turn, index, calls[index]) for index in places}
        return {index: result for index, result in known.items() if result is not None}

    def starts(self, turn: int) -> list[CallStart]:
        """Return the calls of a turn that were dispatched, in call order."""
        return [self._starts[key] for key in sorted(self._starts) if key[0] == turn]

    def writes(self) -> list[tuple[str, JsonObject]]:
        """Return the successful calls that may have written, in the order they ended: tool name and arguments."""
        writing = {key for key, start in self._starts.items() if start.writes or start.exclusive}
        return [(end.name, end.arguments) for key, end in self._ends.items() if key in writing and end.error is None]

    def _result(self, turn: int, index: int, call: Call) -> Result | None:
        end, start = self._ends.get((turn, index)), self._starts.get((turn, index))
        if end is not None:
            error = None
            if end.error is not None:
                error = ToolError(end.error, end.message or "", end.retry_after, end.injected)
            times = (end.started, end.ended, end.attempts)
            return Result(call, end.arguments, end.value, error, *times, shared_with=end.shared_with)
        if start is not None and (start.writes or start.exclusive):
            error = ToolError("outcome_unknown", _UNKNOWN)
            return Result(call, start.arguments, error=error, started=start.at, ended=self.at, attempts=1)
        return None


def _key(event: Event) -> _Key | None:
    """Return what makes an event the same one when it is recorded again; None for one that never is."""
    if isinstance(event, TurnText):
        return "turn", event.turn, 0, ""
    if isinstance(event, SearchDone):
        return "search", event.turn, event.index, ""
    if isinstance(event, CallStart):
        return "start", event.turn, event.index, ""
    if isinstance(event, CallEnd):
        return "end", event.turn, event.index, ""
    if isinstance(event, Note):
        return "note", event.turn, 0, f"{event.kind} {event.text}"
    return None


def _time(event: Event) -> float:
    if isinstance(event, EpisodeStart | Prompt | Note | CallStart | EpisodeEnd):
        return event.at
    return event.ended

"""Reads an episode back from its events: turns, phases, calls, messages and how it ended.

Place in the flow: layer 1; rewards, demonstrations, evaluation, resume and viewers see an episode only through
`EpisodeView`, whether it comes from a file (`reader.load`) or still runs. Text stays raw here: parsing a turn is the
protocol's business, so a turn's kind is derived from what happened in it.
Limits: a whole trace is held in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from paraagent.errors import TraceError
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
from paraagent.trace.measures import Measures, measure
from paraagent.types import JsonObject, Message, TurnKind


@dataclass(frozen=True, slots=True)
class CallView:
    """One call: its start if it was dispatched, its end unless the episode stopped before."""

    start: CallStart | None
    end: CallEnd | None

    @property
    def _known(self) -> CallStart | CallEnd:
        known = self.end or self.start
        assert known is not None
        return known

    @property
    def turn(self) -> int:
        return self._known.turn

    @property
    def index(self) -> int:
        """Position in its call group."""
        return self._known.index

    @property
    def name(self) -> str:
        return self._known.name

    @property
    def arguments(self) -> JsonObject:
        """After links were resolved."""
        return self._known.arguments

    @property
    def ok(self) -> bool:
        return self.end is not None and self.end.error is None

    @property
    def ran(self) -> bool:
        """Whether the tool was invoked for it, or an identical call's run was shared."""
        return self.start is not None or (self.end is not None and self.end.shared_with is not None)

    @property
    def started(self) -> float:
        """Seconds on the episode's clock."""
        if self.end is not None:
            return self.end.started
        assert self.start is not None
        return self.start.at

    @property
    def ended(self) -> float | None:
        return None if self.end is None else self.end.ended


@dataclass(frozen=True, slots=True)
class TurnView:
    """One assistant message and everything it caused."""

    message: TurnText
    kind: TurnKind
    """`execution` if it has calls, `exploration` if searches, `answer` if it ended the episode with one."""
    searches: tuple[SearchDone, ...]
    calls: tuple[CallView, ...]
    """In call order."""
    notes: tuple[Note, ...]

    @property
    def index(self) -> int:
        return self.message.turn

    @property
    def text(self) -> str:
        return self.message.text


@dataclass(frozen=True, slots=True)
class PhaseView:
    """A maximal run of turns of one kind, with the invalid turns in between."""

    kind: TurnKind
    number: int
    """Counts the phases of this kind from 1."""
    turns: tuple[TurnView, ...]


class EpisodeView:
    """One episode, read only.

    Args:
        events: in the order they were written, `EpisodeStart` first.
        torn: the file's last line was cut short and left out.

    Raises:
        TraceError: the events are not one episode.
    """

    def __init__(self, events: Sequence[Event], *, torn: bool = False) -> None:
        for number, event in enumerate(events, 1):
            if isinstance(event, EpisodeStart) != (number == 1):
                raise TraceError(f"event {number}: an episode has exactly one episode_start, as its first event")
            if isinstance(event, EpisodeEnd) and number < len(events):
                raise TraceError(f"event {number + 1}: stands after the end of the episode")
        if not events:
            raise TraceError("no events: an episode has at least its episode_start")
        self.events = tuple(events)
        self.torn = torn

    @property
    def start(self) -> EpisodeStart:
        first = self.events[0]
        assert isinstance(first, EpisodeStart)
        return first

    @property
    def end(self) -> EpisodeEnd | None:
        """None while the episode runs or if it was killed."""
        last = self.events[-1]
        return last if isinstance(last, EpisodeEnd) else None

    @property
    def request(self) -> str:
        return self.start.request

    @property
    def answer(self) -> str | None:
        return self.end.answer if self.end else None

    @property
    def success(self) -> bool | None:
        """The verifier's verdict; None when there is none."""
        return self.end.success if self.end else None

    @cached_property
    def messages(self) -> list[Message]:
        """The chat as the model saw it, in order."""
        return list(self._messages())

    @cached_property
    def turns(self) -> tuple[TurnView, ...]:
        return tuple(self._turns())

    @property
    def searches(self) -> Iterator[SearchDone]:
        return (search for turn in self.turns for search in turn.searches)

    @property
    def calls(self) -> Iterator[CallView]:
        return (call for turn in self.turns for call in turn.calls)

    @cached_property
    def phases(self) -> tuple[PhaseView, ...]:
        """Maximal runs of turns of one kind; an invalid turn neither ends a phase nor starts one.

        Invalid turns before the first phase make up one of kind `invalid`.
        """
        runs: list[tuple[TurnKind, list[TurnView]]] = []
        for turn in self.turns:
            if runs and turn.kind in (runs[-1][0], "invalid"):
                runs[-1][1].append(turn)
            else:
                runs.append((turn.kind, [turn]))
        counts: Counter[TurnKind] = Counter()
        phases = []
        for kind, turns in runs:
            counts[kind] += 1
            phases.append(PhaseView(kind, counts[kind], tuple(turns)))
        return tuple(phases)

    @cached_property
    def measures(self) -> Measures:
        return measure(self.events)

    def _messages(self) -> Iterator[Message]:
        for event in self.events:
            if isinstance(event, Prompt):
                yield Message(event.role, event.content)
            elif isinstance(event, TurnText):
                yield Message("assistant", event.text)

    def _turns(self) -> Iterator[TurnView]:
        by_turn: dict[int, list[Event]] = {}
        for event in self.events:
            if isinstance(event, TurnText | SearchDone | CallStart | CallEnd | Note):
                by_turn.setdefault(event.turn, []).append(event)
        messages = [event for event in self.events if isinstance(event, TurnText)]
        for message in messages:
            caused = by_turn[message.turn]
            calls = _join(caused)
            searches = tuple(sorted((e for e in caused if isinstance(e, SearchDone)), key=lambda e: e.index))
            answers = message is messages[-1] and self.answer is not None
            kind: TurnKind = (
                "execution" if calls else "exploration" if searches else "answer" if answers else "invalid"
            )
            yield TurnView(message, kind, searches, calls, tuple(e for e in caused if isinstance(e, Note)))


def _join(events: Sequence[Event]) -> tuple[CallView, ...]:
    starts = {event.index: event for event in events if isinstance(event, CallStart)}
    ends = {event.index: event for event in events if isinstance(event, CallEnd)}
    return tuple(CallView(starts.get(index), ends.get(index)) for index in sorted(starts.keys() | ends.keys()))

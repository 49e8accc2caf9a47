"""An episode played again through the one plan state machine, turn by turn, for all reward levels to look at.

Place in the flow: layer 4; between `trace.view`, which says what happened, and `step`, `phase` and `trajectory`,
which say what it was worth. Under the default rules repeated actions are left out of the replay: they neither open a
phase nor carry out a step of a plan, so repeating can never turn a wrong plan into a right one.
Limits: after a turn of repeats the agent may have been told by the runtime that another plan was due than is judged
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

from paraagent.protocol.call import BrokenCall
from paraagent.protocol.grammar import Turn, parse
from paraagent.protocol.graph import Occurrence, PlanGraph, normal
from paraagent.protocol.monitor import PlanMonitor, Review
from paraagent.reward.past import Past
from paraagent.reward.rules import Rules
from paraagent.trace.view import CallView, EpisodeView, TurnView
from paraagent.types import Call, Search, TurnKind


@dataclass(frozen=True, slots=True)
class PlayedSearch:
    """One search of a turn and what it showed."""

    search: Search
    shown: tuple[str, ...]
    """Tool names, lower case."""
    repeat: bool


@dataclass(frozen=True, slots=True)
class PlayedCall:
    """One call of a turn and how it went."""

    call: Call | BrokenCall
    view: CallView | None
    """None if it got no answer."""
    repeat: bool

    @property
    def ok(self) -> bool:
        return self.view is not None and self.view.ok


@dataclass(frozen=True, slots=True)
class Played:
    """One turn as it was replayed."""

    position: int
    """Among the episode's turns, from 0."""
    view: TurnView
    turn: Turn
    searches: tuple[PlayedSearch, ...]
    calls: tuple[PlayedCall, ...]
    review: Review | None
    """None if the turn was left out because all it does are repeats."""
    surfaced: frozenset[str]
    """Tools that searches had shown before this turn, lower case."""
    given_up: frozenset[str]
    """Tools that had failed for good before this turn through no fault of the agent's."""
    graph: PlanGraph | None = None
    """The call plan in force while the turn ran."""
    done: frozenset[Occurrence] = frozenset()
    """What of that plan had been done when the turn began."""

    @property
    def kind(self) -> TurnKind:
        return self.turn.kind

    @property
    def phase(self) -> int:
        """Number of the phase, from 1; 0 for a turn that belongs to none."""
        return self.review.phase if self.review else 0

    @property
    def actions(self) -> Sequence[PlayedSearch | PlayedCall]:
        return self.searches or self.calls

    @property
    def repeats(self) -> int:
        return sum(action.repeat for action in self.actions)

    @property
    def fresh(self) -> tuple[PlayedCall, ...]:
        """The calls that the replay did not leave out."""
        return tuple(call for call in self.calls if not call.repeat)


def replay(view: EpisodeView, rules: Rules) -> tuple[Played, ...]:
    """Play an episode again; one entry per turn, in order."""
    player = _Player(rules)
    return tuple(player.play(position, turn) for position, turn in enumerate(view.turns))


class _Player:
    def __init__(self, rules: Rules) -> None:
        self._keep_repeats = rules.published
        self._monitor = PlanMonitor()
        self._past = Past(rules.free_retries)
        self._surfaced: frozenset[str] = frozenset()

    def play(self, position: int, view: TurnView) -> Played:
        turn = parse(view.text)
        if turn.kind == "invalid":
            turn = replace(turn, searches=(), calls=())  # of two families in one turn, none was run
        surfaced, given_up = self._surfaced, self._past.given_up
        searches = self._searches(turn, view)
        calls = self._calls(turn, view)
        kept = [self._keep_repeats or not action.repeat for action in searches or calls]
        left_out = bool(kept) and not any(kept)
        played = Played(position, view, turn, searches, calls, None, surfaced, given_up)
        if not left_out:
            review = self._monitor.review(_only(turn, kept))
            played = replace(played, review=review, graph=self._monitor.graph, done=self._monitor.done)
            if calls:
                self._monitor.record_calls([call.ok for call in compress(calls, kept)])
        self._monitor.record_searches(search.shown for search in searches)
        self._surfaced |= {name for search in searches for name in search.shown}
        return played

    def _searches(self, turn: Turn, view: TurnView) -> tuple[PlayedSearch, ...]:
        done = {event.index: event for event in view.searches}
        played = []
        for index, search in enumerate(turn.searches):
            shown = tuple(normal(name) for name, _ in done[index].hits) if index in done else ()
            repeat = self._past.search(search, ran=index in done)
            played.append(PlayedSearch(search, shown, repeat))
        return tuple(played)

    def _calls(self, turn: Turn, view: TurnView) -> tuple[PlayedCall, ...]:
        done = {call.index: call for call in view.calls}
        views = [done.get(index) for index in range(len(turn.calls))]
        read = [None if isinstance(call, BrokenCall) else call for call in turn.calls]
        repeats = self._past.calls(zip(read, views, strict=True))
        return tuple(map(PlayedCall, turn.calls, views, repeats))


def _only(turn: Turn, kept: Sequence[bool]) -> Turn:
    """Return a turn without the actions that are left out."""
    if turn.searches:
        return replace(turn, searches=tuple(compress(turn.searches, kept)))
    return replace(turn, calls=tuple(compress(turn.calls, kept)))

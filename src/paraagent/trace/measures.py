"""The figures of one episode: how much was done, how parallel it was, and how close to the fastest possible.

Place in the flow: layer 1; computed from events alone, read through `EpisodeView.measures`, used by evaluation,
rewards and viewers.

Times are seconds on the episode's clock. A *group* is the searches or the calls of one turn. Its **chain** is the
longest path, summed over durations (dispatch to answer, retries included), through the actions that had to wait for
each other: a call that links to another's result waits for it, and of two calls whose effects conflict the later one
waits for the earlier. Searches and unrelated calls wait for nothing, and a call that never ran takes no time. No
schedule of unlimited width runs a group faster than its chain, and turns follow each other, so `critical_path`, the
sum of all chains, is a lower bound of the time this episode's groups take, and `model_seconds + critical_path` of
the whole episode.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from paraagent.trace.events import CallEnd, CallStart, Event, SearchDone, TurnText
from paraagent.types import JsonValue

_LINK = re.compile(r"\$([A-Za-z_][A-Za-z0-9_-]*)(?:[.\[]|\Z)")

Span = TypeVar("Span", SearchDone, CallEnd)


@dataclass(frozen=True, slots=True)
class Measures:
    """Counts and times of one episode."""

    turns: int = 0
    searches: int = 0
    calls: int = 0
    failed_calls: int = 0
    """Calls whose answer is an error, and calls that got no answer."""
    mean_width: float = 0.0
    """Searches and calls per turn that has any; 0 if none has."""
    max_width: int = 0
    makespan: float = 0.0
    """From the first event to the last."""
    model_seconds: float = 0.0
    """Spent waiting for the policy's turns."""
    group_seconds: float = 0.0
    """Sum over groups of first start to last end."""
    critical_path: float = 0.0
    """Sum over groups of the longest chain."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of `input_tokens` that the provider served from its cache."""

    @property
    def makespan_ratio(self) -> float | None:
        """`group_seconds / critical_path`: 1 is the fastest possible; None if no action took time."""
        return self.group_seconds / self.critical_path if self.critical_path > 0 else None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def measure(events: Sequence[Event]) -> Measures:
    """Compute the figures of one episode, finished or not."""
    turns = [event for event in events if isinstance(event, TurnText)]
    searches = [event for event in events if isinstance(event, SearchDone)]
    starts = [event for event in events if isinstance(event, CallStart)]
    ends = [event for event in events if isinstance(event, CallEnd)]
    started = {(e.turn, e.index) for e in starts}
    unanswered = started - {(e.turn, e.index) for e in ends}
    widths: dict[int, int] = {}
    for turn in [e.turn for e in searches] + [e.turn for e in ends] + [turn for turn, _ in unanswered]:
        widths[turn] = widths.get(turn, 0) + 1
    queries = _by_turn(searches)
    batches = _by_turn([end for end in ends if (end.turn, end.index) in started or end.shared_with is not None])
    return Measures(
        turns=len(turns),
        searches=len(searches),
        calls=len(ends) + len(unanswered),
        failed_calls=sum(end.error is not None for end in ends) + len(unanswered),
        mean_width=sum(widths.values()) / len(widths) if widths else 0.0,
        max_width=max(widths.values(), default=0),
        makespan=max(map(_last, events)) - _first(events[0]) if events else 0.0,
        model_seconds=sum(turn.ended - turn.started for turn in turns),
        group_seconds=sum(map(_spread, queries)) + sum(map(_spread, batches)),
        critical_path=sum(max(map(seconds, group)) for group in queries)
        + sum(seconds(end) for group in batches for end in critical_chain(group, starts)),
        input_tokens=sum(turn.input_tokens for turn in turns),
        output_tokens=sum(turn.output_tokens for turn in turns),
        cached_tokens=sum(turn.cached_tokens for turn in turns),
    )


def critical_chain(group: Sequence[CallEnd], starts: Iterable[CallStart]) -> tuple[CallEnd, ...]:
    """Return the calls on the longest chain of one call group, first to last.

    Args:
        group: the ends of the calls of one turn.
        starts: holds the starts of these calls, which tell their effects; others are ignored.
    """
    own = [end for end in group if end.shared_with is None]  # the others take no time of their own
    waits = list(_waits(own, group, starts))
    longest = {end.index: seconds(end) for end in own}
    before: dict[int, CallEnd] = {}
    settled = False
    while not settled:  # ends: `_waits` points forward in time, so there is no circle of calls that took time
        settled = True
        for up, down in waits:
            if longest[up.index] + seconds(down) > longest[down.index]:
                longest[down.index] = longest[up.index] + seconds(down)
                before[down.index] = up
                settled = False
    chain: list[CallEnd] = []
    last = max(own, key=lambda end: longest[end.index], default=None)
    while last is not None:
        chain.append(last)
        last = before.get(last.index)
    return tuple(reversed(chain))


def seconds(span: CallEnd | SearchDone) -> float:
    """Return how long a call or search took."""
    return max(0.0, span.ended - span.started)


def _waits(
    own: Sequence[CallEnd], group: Sequence[CallEnd], starts: Iterable[CallStart]
) -> Iterator[tuple[CallEnd, CallEnd]]:
    """Yield (upstream, downstream) where the downstream call had to wait, and by the clock did."""
    effects = {start.index: start for start in starts if group and start.turn == group[0].turn}
    runs = {end.id: end.index if end.shared_with is None else end.shared_with for end in group if end.id is not None}
    for down in own:
        written = down.arguments if down.raw_arguments is None else down.raw_arguments
        linked = {runs.get(name) for name in _linked_ids(written)}
        for up in own:
            if up is down or max(up.started, up.ended) > down.started:
                continue
            if up.index in linked or _conflict(effects.get(up.index), effects.get(down.index)):
                yield up, down


def _linked_ids(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        if match := _LINK.match(value):
            yield match[1]
        return
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _linked_ids(child)


def _conflict(one: CallStart | None, other: CallStart | None) -> bool:
    """Tell whether two calls must not overlap; one that never started touches nothing."""
    if one is None or other is None:
        return False
    if one.exclusive or other.exclusive:
        return True
    return _overlap(one.writes, other.reads + other.writes) or _overlap(one.reads, other.writes)


def _overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    return any(f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/") for a in some for b in others)


def _by_turn(spans: Sequence[Span]) -> list[list[Span]]:
    groups: dict[int, list[Span]] = {}
    for span in spans:
        groups.setdefault(span.turn, []).append(span)
    return list(groups.values())


def _spread(group: Sequence[Span]) -> float:
    return max(span.ended for span in group) - min(span.started for span in group)


def _first(event: Event) -> float:
    return event.started if isinstance(event, TurnText | SearchDone | CallEnd) else event.at


def _last(event: Event) -> float:
    return event.ended if isinstance(event, TurnText | SearchDone | CallEnd) else event.at

"""What an episode has done so far, and whether one more action only repeats it.

Place in the flow: layer 4, part of `replay`. A search repeats an earlier one in the same words, slot included. A call
repeats an identical one (same tool, same arguments after links were resolved) of the same turn; or an earlier one
that succeeded, unless something was written since; or an earlier failure, if it fails again and that failure could
not pass by itself or was retried often enough. A repeat leaves no trace here: it changes the judgement of nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paraagent.agent.prepare import canonical
from paraagent.errors import ERROR_TRAITS, ErrorKind
from paraagent.protocol.graph import normal
from paraagent.trace.view import CallView
from paraagent.types import Call, Search

_Key = tuple[str, bytes]


@dataclass(slots=True)
class _Tried:
    """How one exact call went last."""

    ok: bool
    for_good: bool
    """It failed, and making it again cannot help."""
    failures: int
    writes: int
    """How many writes had succeeded by then, its own included."""


class Past:
    """Grows turn by turn.

    Args:
        free_retries: how often a call that failed for a passing reason may be made again.
    """

    def __init__(self, free_retries: int) -> None:
        self._free_retries = free_retries
        self._queries: set[str] = set()
        self._tried: dict[_Key, _Tried] = {}
        self._writes = 0
        self._broken: dict[str, int] = {}
        """By tool: failures in a row that were not the agent's fault."""

    @property
    def given_up(self) -> frozenset[str]:
        """The tools that failed for good, through no fault of the agent's: it has to find others."""
        return frozenset(tool for tool, failures in self._broken.items() if failures > self._free_retries)

    def search(self, search: Search, *, ran: bool) -> bool:
        """Note a search; return whether it is a repeat."""
        words = asked(search)
        repeat = words in self._queries
        if ran:
            self._queries.add(words)
        return repeat

    def calls(self, group: Iterable[tuple[Call | None, CallView | None]]) -> list[bool]:
        """Note the calls of one turn, with how they went; return for each whether it is a repeat.

        A call that could not be read is None, and so is how a call went that was not answered.
        """
        here: set[_Key] = set()
        repeats = []
        for call, view in group:
            if call is None:
                repeats.append(False)
                continue
            key = (normal(call.name), canonical(view.arguments if view else call.arguments))
            repeat = key in here or self._repeats(key, view)
            here.add(key)
            repeats.append(repeat)
            if not repeat and view is not None:
                self._note(key, view)
        return repeats

    def _repeats(self, key: _Key, view: CallView | None) -> bool:
        tried = self._tried.get(key)
        if tried is None or tried.writes < self._writes:
            return False
        if tried.ok:
            return True
        again = view is not None and not view.ok
        return again and (tried.for_good or tried.failures > self._free_retries)

    def _note(self, key: _Key, view: CallView) -> None:
        if view.ok and (view.start is None or view.start.effect != "read"):
            self._writes += 1
        kind = error_kind(view)
        before = self._tried.get(key)
        self._tried[key] = _Tried(
            ok=view.ok,
            for_good=kind is not None and not ERROR_TRAITS[kind].retry_helps,
            failures=(before.failures if before else 0) + (not view.ok),
            writes=self._writes,
        )
        if view.ok:
            self._broken[key[0]] = 0
        elif view.ran and kind is not None and ERROR_TRAITS[kind].fault != "agent":
            lasting = kind in ("permission", "tool_error")
            self._broken[key[0]] = self._broken.get(key[0], 0) + (1 + self._free_retries if lasting else 1)


def asked(search: Search) -> str:
    """Return what a search asks for, slot included, in the form in which searches compare."""
    return " ".join(f"{search.slot} {search.query}".casefold().split())


def error_kind(view: CallView) -> ErrorKind | None:
    """Return why a call failed; None if it did not, or if that is not known."""
    return view.end.error if view.end is not None else None

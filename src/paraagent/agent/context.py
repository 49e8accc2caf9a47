"""What a policy sees: the request, an append-only list of chat messages, and the same history as structured data.

Place in the flow: layer 3; `loop` owns one context per episode and only ever appends to it, so the prompt's prefix is
byte-identical across turns (prompt caches hold, token ids can be stored once). Model policies read `messages`;
built-in policies read `exchanges`. Both tell the same story.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from paraagent.protocol.grammar import Turn
from paraagent.types import Found, JsonValue, Message, Result, Tool


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn and what came back."""

    turn: Turn
    found: tuple[Found, ...] = ()
    """One per search, in order."""
    results: tuple[Result, ...] = ()
    """One per call, in order; broken calls included."""
    notes: tuple[str, ...] = ()
    reply: str = ""
    """What the user said to an answer."""


@dataclass(slots=True)
class Context:
    """The state of one episode from the agent's point of view."""

    request: str
    messages: list[Message] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    turns_left: int = 0
    """1 means that the next turn must be the answer, whichever budget is the reason."""
    reply_tokens: int | None = None
    """The most tokens that the next turn may take, if a budget limits them."""
    _read: int = 0
    """How many exchanges `_tools` and `_values` tell of; a long episode is not read anew in every turn."""
    _tools: dict[str, Tool] = field(default_factory=dict)
    _values: dict[str, JsonValue] = field(default_factory=dict)

    def surfaced(self) -> Mapping[str, Tool]:
        """Return every tool a search has shown so far, by name, in the order of first appearance."""
        self._catch_up()
        return self._tools

    def said(self) -> str:
        """Return the request and what else the user said."""
        return "\n".join([self.request, *(exchange.reply for exchange in self.exchanges if exchange.reply)])

    def results(self) -> Iterator[Result]:
        """Yield every result so far, oldest first."""
        for exchange in self.exchanges:
            yield from exchange.results

    def values(self) -> Mapping[str, JsonValue]:
        """Return the values of successful calls that carried an id: what a later turn may link to."""
        self._catch_up()
        return self._values

    def _catch_up(self) -> None:
        for exchange in self.exchanges[self._read :]:
            for found in exchange.found:
                for hit in found.hits:
                    self._tools.setdefault(hit.tool.name, hit.tool)
            for result in exchange.results:
                if result.ok and result.call.id is not None:
                    self._values[result.call.id] = result.value
        self._read = len(self.exchanges)

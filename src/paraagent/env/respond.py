"""Whole answers of one tool: a frame and, at its hole, the thing or the list of things.

Place in the flow: layer 3; `behave` decides which thing a call is about, `shown` knows what it looks like, this puts
it where the tool's response schema has it.
"""

from __future__ import annotations

from typing import cast

from paraagent.catalog.names import thing_noun
from paraagent.env.identity import Identity
from paraagent.env.ids import Spaces, mix, pick
from paraagent.env.schemas import count, properties, same, types
from paraagent.env.shown import MANY, Compiler, Shown, Width
from paraagent.types import JsonObject, JsonValue, Tool

_COUNTS = frozenset({"total", "count", "totalcount", "totalresults", "totalitems", "size", "resultcount", "found"})
_EXAMPLE = 0x5DEECE66D1234567


class Answers:
    """How one tool answers; compiled from its `returns`."""

    def __init__(self, tool: Tool, identity: Identity, width: Width = ()) -> None:
        """Compile; `width` says how much to show, see `Compiler`."""
        compiler = Compiler(width)
        owner = thing_noun(tool)
        self.hole = identity.hole
        self.many = identity.many
        self.shown: Shown | None = None
        """The thing at the hole; None if the tool shows none."""
        self.frame: Shown | None = None
        """The object around the hole; None if there is none."""
        self.least, self.most = 0, MANY
        """How many things a list may hold."""
        if self.hole is not None:
            target = _below(tool.returns, self.hole)
            self.least, self.most = count(target, 0, MANY)
            self.shown = compiler.shown(_items(target) if self.many else target, owner, 0)
        self._value = compiler.value(tool.returns, "", owner, 0) if self.hole is None else None
        if self.hole:
            *self._above, self._place = self.hole
            self.frame = compiler.shown(tool.returns, owner, 0, self.hole)
        top = properties(tool.returns) if self.many and self.hole else {}
        self._counts = [name for name, schema in top.items() if same(name) in _COUNTS and "integer" in types(schema)]

    def write(self, key: int, world: Spaces, content: JsonValue) -> JsonValue:
        """Return the whole answer with the thing or the list of things in its place."""
        if self._value is not None:
            return self._value(key, world)
        if self.frame is None:
            return content
        answer = self.frame.linked(key, world) if self.frame.own else self.frame.fill(key, world)
        node: JsonValue = answer
        for name in self._above:
            node = node[name]  # type: ignore[call-overload, index]
        node[self._place] = content  # type: ignore[call-overload, index]
        if self._counts and isinstance(content, list):
            answer.update((name, len(content)) for name in self._counts if name in answer)
        return answer

    def sample(self, key: int) -> JsonValue:
        """Return an answer about things of no world in particular."""
        if self.shown is None:
            return self.write(key, Spaces(key), None)
        count = min(max(2, self.least), self.most) if self.many else 1
        things = [self.shown.thing(pick(mix(key, index)), Spaces(key)) for index in range(count)]
        return self.write(key, Spaces(key), cast(JsonValue, things if self.many else things[0]))


def _items(schema: JsonObject) -> JsonObject:
    items = schema["items"]
    return items if isinstance(items, dict) else {}


def _below(schema: JsonObject, path: tuple[str, ...]) -> JsonObject:
    for name in path:
        schema = properties(schema)[name]
    return schema


def example(name: str, schema: JsonObject) -> JsonValue:
    """Return a small value that an argument could have."""
    return Compiler(()).value(schema, name, (), 0)(_EXAMPLE, Spaces(0))

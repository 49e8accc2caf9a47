"""A toolbox of recorded answers: tools that are found by search, and calls that are answered if they were recorded.

Place in the flow: layer 5, what `apibank` is played on. There is no world behind it: a call's answer depends on its
tool and arguments alone. A call that was not recorded fails and says what is wrong with it, or that nothing is known.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache

from paraagent.env.simulator import Searcher
from paraagent.env.validate import Arguments, canonical
from paraagent.errors import ToolFailure
from paraagent.types import Effects, Found, JsonObject, JsonValue, Search, Tool

Records = Mapping[tuple[str, bytes], JsonValue]
"""Answers by tool and canonical arguments."""


def key(name: str, arguments: JsonObject) -> tuple[str, bytes]:
    """Return the key of a call in `Records`; a whole number is the same as its decimal form."""
    whole = _whole(arguments)
    assert isinstance(whole, dict)
    return name, canonical(whole)


class RecordedToolbox:
    """Implements `types.Toolbox`.

    Args:
        tools: those that can be called.
        index: finds tools; may know more than can be called.
        k: hits per search.
    """

    def __init__(self, tools: Mapping[str, Tool], index: Searcher, records: Records, k: int = 5) -> None:
        self._tools = tools
        self._index = index
        self._records = records
        self._k = k
        self._others: dict[str, Tool] = {}
        self._arguments = cache(lambda name: Arguments(tools[name].parameters))

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        answers = self._index.search(searches, self._k)
        shown = (hit.tool for found in answers for hit in found.hits)
        self._others.update((tool.name, tool) for tool in shown if tool.name not in self._tools)
        return answers

    def tool(self, name: str) -> Tool | None:
        return self._tools.get(name) or self._others.get(name)

    def suggestions(self, name: str) -> list[str]:
        return difflib.get_close_matches(name[:200], self._tools, n=3, cutoff=0.5)

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        """Recorded answers do not depend on each other, so a write only excludes calls of its own tool."""
        mine = frozenset({f"{tool.api or 'recorded'}/{tool.name}"})
        return Effects(reads=mine) if tool.effect == "read" else Effects(writes=mine)

    def server(self, tool: Tool) -> str:
        return tool.provider

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        found = self._records.get(key(tool.name, arguments), _NOTHING)
        if found is not _NOTHING:
            return found
        if tool.name not in self._tools:
            raise ToolFailure("unavailable", f"nothing was recorded of {tool.name}")
        self._arguments(tool.name).check(arguments)
        raise ToolFailure("not_found", f"{tool.name} has no answer for these arguments: none was recorded")


_NOTHING: JsonObject = {}
"""Told apart from a recorded empty object by identity."""


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(child) for name, child in value.items()}
    return [_whole(child) for child in value] if isinstance(value, list) else value

"""What all toolboxes of real tools share: tools by name, search over them, checked arguments, declared effects.

Place in the flow: layer 3, base of `mcp`, `openapi` and `functions`; `mixed` puts several of them together. Tools of
one source are named `source.tool`. An effect that neither the source nor the user declares is exclusive: such a call
runs alone and counts as a write.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Self, get_args

from paraagent.catalog.spec import tool_digest
from paraagent.env.validate import Arguments
from paraagent.errors import ToolFailure, UsageError
from paraagent.types import EffectKind, Effects, Found, Hit, JsonObject, JsonValue, Search, Tool

if TYPE_CHECKING:
    from paraagent.search.search import SearchIndex

EffectRules = Mapping[str, EffectKind]
"""The user's word on effects, by tool name or pattern (`github.list_*`); the first rule that matches counts."""

EXCLUSIVE = Effects(exclusive=True)

HANDFUL = 8
"""So few tools that they can all be shown."""

_EFFECTS: tuple[EffectKind, ...] = get_args(EffectKind)


class Shelf:
    """Tools that are known in advance: find one by name, search them all."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._index: SearchIndex | None = None
        self.version = 0
        """Counts how often the tools changed."""
        self.put(tools)

    @property
    def tools(self) -> Sequence[Tool]:
        return tuple(self._tools.values())

    def put(self, tools: Iterable[Tool]) -> None:
        """Add tools, in place of those of the same name."""
        self._tools.update((tool.name, tool) for tool in tools)
        self._index = None
        self.version += 1

    def tool(self, name: str) -> Tool | None:
        """Return the tool of this exact name, or None."""
        return self._tools.get(name)

    def suggestions(self, name: str) -> list[str]:
        """Return up to three existing names close to an unknown one."""
        close = difflib.get_close_matches(name[:200], self._tools, n=3, cutoff=0.5)
        tail = name.rpartition(".")[2].lower()
        same = [known for known in self._tools if tail and known.rpartition(".")[2].lower() == tail]
        return list(dict.fromkeys([*same, *close]))[:3]

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        """Answer all queries of a turn, one `Found` per query in order.

        Of a handful of tools all are shown when none matches in words: that costs less than to miss one.
        """
        if not self._tools:
            return [Found(search, (), 0, True) for search in searches]
        if self._index is None:
            from paraagent.search.search import SearchIndex

            self._index = SearchIndex.build_in_memory(self.tools)
        answers = self._index.search(searches)
        if len(self._tools) > HANDFUL:
            return answers
        everything = tuple(Hit(tool, 0.0, f"one of the {len(self._tools)} tools there are") for tool in self.tools)
        return [replace(found, hits=everything, nothing_fits=False) if not found.hits else found for found in answers]


class ListedToolbox(Shelf, ABC):
    """The tools of one source, which is also the unit of rate limits.

    Use it as an async context manager: entering opens what the source needs and makes its tools known.
    """

    def __init__(self, name: str, rules: EffectRules | None = None) -> None:
        super().__init__()
        self.name = name
        self._rules: EffectRules = rules or {}
        self._declared: set[str] = set()
        self._arguments: dict[str, Arguments] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be seen in a prompt or a trace."""
        return frozenset()

    @property
    def digests(self) -> dict[str, str]:
        """The digest of every tool's definition, by name."""
        return {tool.name: tool_digest(tool) for tool in self.tools}

    @property
    def notices(self) -> list[str]:
        """What the user should know about this source, one line each."""
        return []

    def offer(self, tool: Tool, *, declared: bool) -> None:
        """Make a tool known; `declared` says whether its source vouches for the tool's effect."""
        stated = stated_effect(tool.name, self._rules)
        if stated is not None:
            tool = replace(tool, effect=stated)
        if declared or stated is not None:
            self._declared.add(tool.name)
        else:
            self._declared.discard(tool.name)
        self._arguments.pop(tool.name, None)
        self.put([tool])

    def is_declared(self, tool: Tool) -> bool:
        """Tell whether anybody vouches for the tool's effect."""
        return tool.name in self._declared

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        """Return what the call would touch: all of this source, or everything if nobody says."""
        if not self.is_declared(tool):
            return EXCLUSIVE
        area = frozenset({self.server(tool)})
        return Effects(reads=area) if tool.effect == "read" else Effects(writes=area)

    def server(self, tool: Tool) -> str:
        """Return the key under which rate limits apply: the source."""
        return self.name

    def check(self, tool: Tool, arguments: JsonObject) -> None:
        """Check arguments against the tool's schema.

        Raises:
            ToolFailure: `invalid_args`, with what is wrong and how to mend it.
        """
        known = self._arguments.get(tool.name)
        if known is None:
            try:
                known = self._arguments[tool.name] = Arguments(tool.parameters)
            except ValueError as problem:
                raise ToolFailure("tool_error", f"{tool.name} has a broken parameter schema: {problem}") from None
        known.check(arguments)

    @abstractmethod
    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        """Run one call.

        Raises:
            ToolFailure: the call failed; nothing else may escape.
        """


def stated_effect(name: str, rules: EffectRules) -> EffectKind | None:
    """Return the effect that the user states for a tool, or None."""
    return next((effect for pattern, effect in rules.items() if fnmatchcase(name, pattern)), None)


def prefixed(name: str, rules: EffectRules) -> EffectRules:
    """Return rules for a source's own names as rules for full ones."""
    return {f"{name}.{pattern}": effect for pattern, effect in rules.items()}


def effect_rules(value: JsonValue, where: str) -> dict[str, EffectKind]:
    """Return stated effects, by pattern.

    Raises:
        UsageError: an effect is none that exists.
    """
    if not isinstance(value, dict):
        raise UsageError(f'{where}: `effects` must map tool names to effects, as {{"list_*": "read"}}')
    rules: dict[str, EffectKind] = {}
    for pattern, stated in value.items():
        kind = next((effect for effect in _EFFECTS if effect == stated), None)
        if kind is None:
            raise UsageError(f"{where}: the effect of {pattern!r} must be one of {', '.join(_EFFECTS)}")
        rules[pattern] = kind
    return rules

"""Several toolboxes as one: one search over all their tools, writes guarded, secrets kept out of what comes back.

Place in the flow: layer 3; what the loop is given for real tools. However many tools there are, the agent sees only
what its searches find. Calls go to the toolbox that owns the tool. A catalog's simulated world can be mixed in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Self

from paraagent.agent.toolboxes.listed import ListedToolbox, Shelf
from paraagent.agent.toolboxes.secrets import Redactor, spellings
from paraagent.agent.toolboxes.writes import Ask, WriteGuard, WritePolicy
from paraagent.errors import EnvironmentFault, ToolFailure, UsageError
from paraagent.types import Effects, Found, JsonObject, JsonValue, Search, Tool, Toolbox

HITS = 5


class MixedToolbox:
    """Toolboxes of real tools behind one interface.

    Args:
        world: simulated tools to be found and called beside the real ones; its writes need no permission.

    Use it as an async context manager: entering opens all toolboxes at once, leaving closes them.

    Raises:
        UsageError: on entering, if two sources or two tools share a name.
    """

    def __init__(
        self,
        toolboxes: Sequence[ListedToolbox],
        *,
        writes: WritePolicy | None = None,
        ask: Ask | None = None,
        world: Toolbox | None = None,
    ) -> None:
        self._toolboxes = list(toolboxes)
        self._guard = WriteGuard(writes or WritePolicy(), ask)
        self._world = world
        self._open: list[ListedToolbox] = []
        self._shelf = Shelf()
        self._owners: dict[str, ListedToolbox] = {}
        self._versions: list[int] = []
        self._redactor = Redactor(())

    async def __aenter__(self) -> Self:
        async def enter(box: ListedToolbox) -> None:
            await box.__aenter__()
            self._open.append(box)

        try:
            results = await asyncio.gather(*map(enter, self._toolboxes), return_exceptions=True)
            self._redactor = Redactor(self._own_secrets())
            for problem in results:
                if isinstance(problem, EnvironmentFault):
                    raise EnvironmentFault(self._redactor.text(str(problem))) from None
                if problem is not None:
                    raise problem
            _insist_unique([box.name for box in self._toolboxes], "sources")
            _insist_unique([tool.name for box in self._toolboxes for tool in box.tools], "tools")
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        await asyncio.gather(*(box.__aexit__() for box in self._open), return_exceptions=True)
        self._open.clear()

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be seen in a trace, in every spelling; what the agent is shown is already free of it."""
        return spellings(self._own_secrets())

    def _own_secrets(self) -> frozenset[str]:
        return frozenset().union(*(box.secrets for box in self._toolboxes))

    @property
    def tools(self) -> Sequence[Tool]:
        """All real tools."""
        self._arrange()
        return self._shelf.tools

    @property
    def digests(self) -> dict[str, str]:
        """The pinned digest of every real tool's definition."""
        return {name: digest for box in self._toolboxes for name, digest in box.digests.items()}

    @property
    def notices(self) -> list[str]:
        """What the user should know about the sources, one line each."""
        return [self._redactor.text(notice) for box in self._toolboxes for notice in box.notices]

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        """Answer all queries of a turn over all tools, best first whatever their source."""
        self._arrange()
        found = await self._shelf.search(searches)
        if self._world is None:
            return found
        return [_merged(real, other) for real, other in zip(found, await self._world.search(searches), strict=True)]

    def tool(self, name: str) -> Tool | None:
        """Return the tool of this exact name, or None."""
        self._arrange()
        return self._shelf.tool(name) or (self._world.tool(name) if self._world else None)

    def suggestions(self, name: str) -> list[str]:
        """Return up to three existing names close to an unknown one."""
        self._arrange()
        others = self._world.suggestions(name) if self._world else []
        return [*self._shelf.suggestions(name), *others][:3]

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        """Return what the call would touch, as its owner says."""
        return self._owner(tool).effects(tool, arguments)

    def server(self, tool: Tool) -> str:
        """Return the key under which rate limits apply."""
        return self._owner(tool).server(tool)

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        """Run one call, if it only reads or may write.

        Raises:
            ToolFailure: the call failed or was refused.
        """
        box = self._owners.get(tool.name)
        if box is None:
            return await self._owner(tool).call(tool, arguments)
        try:
            if not box.effects(tool, arguments).read_only:
                box.check(tool, arguments)  # nobody is asked about a call that cannot work
                await self._guard.permit(tool, arguments, declared=box.is_declared(tool))
            return self._redactor.value(await box.call(tool, arguments))
        except ToolFailure as failure:
            raise self._redactor.failure(failure) from None
        except Exception as problem:
            message = self._redactor.text(f"{type(problem).__name__}: {problem}")
            raise ToolFailure("tool_error", message) from None

    def _owner(self, tool: Tool) -> Toolbox:
        owner = self._owners.get(tool.name) or self._world
        if owner is None:
            raise ToolFailure("tool_not_found", f"no tool is named {tool.name!r}")
        return owner

    def _arrange(self) -> None:
        """Put all tools on one shelf, again if any toolbox changed."""
        versions = [box.version for box in self._toolboxes]
        if versions == self._versions:
            return
        self._versions = versions
        self._owners = {tool.name: box for box in self._toolboxes for tool in box.tools}
        self._shelf = Shelf(self._redactor.tool(tool) for box in self._toolboxes for tool in box.tools)


def _merged(real: Found, other: Found) -> Found:
    hits = sorted((*real.hits, *other.hits), key=lambda hit: -hit.score)[: max(HITS, len(real.hits))]
    return Found(real.search, tuple(hits), real.total + other.total, real.nothing_fits and other.nothing_fits)


def _insist_unique(names: Sequence[str], what: str) -> None:
    name, count = next(iter(Counter(names).most_common(1)), ("", 0))
    if count > 1:
        raise UsageError(f"two {what} are called {name!r}; give one of them another name")

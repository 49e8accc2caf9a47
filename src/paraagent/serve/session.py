"""One client's use of a world of tools: it searches, looks tools up, and runs groups of calls.

Place in the flow: layer 7; `offer` gives this to clients as three tools. It is the loop without the loop: the client
has the model, plans and prompts. A session has its own clock, and remembers the results that later calls link to. Its
groups run one after the other, so that calls of two groups never conflict; inside a group the scheduler decides.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from paraagent.agent.limits import Limits, Servers
from paraagent.agent.prepare import Run
from paraagent.agent.schedule import run_group
from paraagent.clock import Clock
from paraagent.protocol.card import card
from paraagent.protocol.observe import RESULT_CAP, capped, result_body
from paraagent.types import Call, Found, JsonObject, JsonValue, Search, Tool, Toolbox

ANSWER_CAP = 100_000
"""Characters that the results of one group, or the schemas of one look-up, may take together."""
KEPT = 100
"""Results that later calls can link to; the oldest are forgotten first."""


class Session:
    """What one client works with.

    Args:
        servers: share one between the sessions that press the same real servers, together with the clock.
    """

    def __init__(
        self, toolbox: Toolbox, clock: Clock, limits: Limits | None = None, servers: Servers[Run] | None = None
    ) -> None:
        self._toolbox = toolbox
        self._clock = clock
        self._limits = limits or Limits()
        self._servers = servers or Servers[Run](clock, self._limits.per_server)
        self._values: OrderedDict[str, JsonValue] = OrderedDict()
        self._turn = asyncio.Lock()
        self._groups: set[asyncio.Task[JsonObject]] = set()

    async def search(self, queries: Sequence[str]) -> JsonObject:
        """Return the best tools for each query, as cards, in the order of the queries."""
        searches = [Search("", query) for query in queries]
        found = await self._clock.wait(self._clock.spawn(self._toolbox.search(searches)))
        return {"answers": [_answer(one) for one in found]}

    def describe(self, names: Sequence[str]) -> JsonObject:
        """Return each tool's description and schemas, in the order of the names."""
        cap = ANSWER_CAP // max(1, len(names))
        return {"tools": [self._described(name, cap) for name in names]}

    async def call(self, calls: Sequence[Call]) -> JsonObject:
        """Run a group of calls and return one result for each, in call order.

        A cancelled caller is let go at once; the group's work is cancelled, too, and ends by itself.
        """
        group = asyncio.create_task(self._call(calls))
        self._groups.add(group)
        group.add_done_callback(self._groups.discard)
        try:
            return await asyncio.shield(group)
        except asyncio.CancelledError:
            group.cancel()
            raise

    async def _call(self, calls: Sequence[Call]) -> JsonObject:
        async with self._turn:
            results = await run_group(
                calls,
                self._toolbox,
                self._clock,
                limits=self._limits,
                known=self._values,
                servers=self._servers,
            )
        for result in results:
            if result.ok and result.call.id is not None:
                self._values[result.call.id] = result.value
                self._values.move_to_end(result.call.id)
        while len(self._values) > KEPT:
            self._values.popitem(last=False)
        cap = min(RESULT_CAP, ANSWER_CAP // max(1, len(results)))
        return {"results": [result_body(result, cap) for result in results]}

    def _described(self, name: str, cap: int) -> JsonObject:
        tool = self._toolbox.tool(name)
        if tool is not None:
            return _description(tool, cap)
        close = self._toolbox.suggestions(name)
        hint = f"close names: {', '.join(close)}" if close else "search for one"
        return {"name": name, "error": f"no tool has this name; {hint}"}


def _answer(found: Found) -> JsonObject:
    answer: JsonObject = {"query": found.search.query, "tools": [card(hit.tool) for hit in found.hits]}
    if not found.hits:
        answer["note"] = f"nothing fits among {found.total:,} tools; say it differently once, or do without"
    return answer


def _description(tool: Tool, cap: int) -> JsonObject:
    return {
        "name": tool.name,
        "description": tool.description,
        "effect": tool.effect,
        "parameters": capped(tool.parameters, cap // 2),
        "returns": capped(tool.returns, cap // 2),
    }

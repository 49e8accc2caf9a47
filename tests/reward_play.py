"""Plays scripted episodes at a small desk of tools, so that tests of rewards work on real traces.

The desk's task: find Ada's customer id, list her orders with it, and get the weather in Oslo. A search shows the
tools whose names stand in its query. `locked` never lets anybody in, `flaky` is always down, `picky` never likes its
arguments, `note` writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec

from paraagent.agent.context import Context
from paraagent.agent.loop import Loop
from paraagent.agent.settings import Settings
from paraagent.clock import VirtualClock
from paraagent.env.task import Fact, GoldCall, GoldSlot, Task
from paraagent.env.verify import Outcome, Verdict, verify
from paraagent.errors import ModelError, ToolFailure
from paraagent.protocol.plan import CallPlan, Dependency, Plan, SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.trace.events import EpisodeStart
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Effects, Found, Hit, JsonObject, JsonValue, Reply, Result, Search, Tool

NAMES = [
    "find_customer",
    "lookup_customer",
    "list_orders",
    "get_weather",
    "get_news",
    "note",
    "locked",
    "flaky",
    "picky",
]
TOOLS = {
    name: Tool(
        name, "", {"type": "object", "properties": {}}, {"type": "object"}, "create" if name == "note" else "read"
    )
    for name in NAMES
}
TASK = Task(
    id="t1",
    kind="mixed",
    split="train",
    seed=1,
    request="How many orders has Ada, and how warm is Oslo?",
    slots=(
        GoldSlot("customer", "find_customer", ("find_customer", "lookup_customer")),
        GoldSlot("orders", "list_orders", ("list_orders",)),
        GoldSlot("weather", "get_weather", ("get_weather",)),
    ),
    calls=(
        GoldCall("c1", "find_customer", {"name": "Ada"}),
        GoldCall("c2", "list_orders", {"customer": "$c1.id"}),
        GoldCall("c3", "get_weather", {"city": "Oslo"}),
    ),
    facts=(Fact("c2", "total", 31, "orders"), Fact("c3", "degrees", 17, "temperature")),
    final_state="s",
)
DIRECT = Task("t2", "direct", "train", 1, "What is 6 times 7?", literal_answer="42", final_state="s")
UNANSWERABLE = Task(
    "t3", "unanswerable", "train", 1, "Polish the moon.", (GoldSlot("moon", "polish moon", ()),), final_state="s"
)


class Desk:
    """A toolbox whose answers depend on nothing but the call."""

    def __init__(self, clock: VirtualClock, down: int = 1_000) -> None:
        self.clock = clock
        self.down = down
        """How many more calls of `flaky` fail."""

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        shown = [[Hit(TOOLS[name], 0.9, "") for name in NAMES if name in s.query] for s in searches]
        return [Found(s, tuple(hits), len(NAMES), not hits) for s, hits in zip(searches, shown, strict=True)]

    def tool(self, name: str) -> Tool | None:
        return TOOLS.get(name)

    def suggestions(self, name: str) -> list[str]:
        return []

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        return Effects(writes=frozenset({"desk"})) if tool.name == "note" else Effects(reads=frozenset({"desk"}))

    def server(self, tool: Tool) -> str:
        return "desk"

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        await self.clock.sleep(1.0)
        if tool.name == "locked":
            raise ToolFailure("permission", "you may not")
        if tool.name == "picky":
            raise ToolFailure("invalid_args", "not these")
        if tool.name == "flaky" and self.down > 0:
            self.down -= 1
            raise ToolFailure("unavailable", "down")
        return {"id": "C7", "total": 31, "degrees": 17}


class Script:
    """Says its lines one after the other, the last one for ever."""

    name = "script"

    def __init__(self, lines: Sequence[str | Exception]) -> None:
        self._lines = lines
        self._said = 0

    async def act(self, context: Context) -> Reply:
        self._said += 1
        line = self._lines[min(self._said, len(self._lines)) - 1]
        if isinstance(line, Exception):
            raise line
        return Reply(line)


def play(
    lines: Sequence[str | ModelError],
    task: Task | None = TASK,
    *,
    settings: Settings | None = None,
    verified: bool = True,
    path: Path | None = None,
    down: int = 1_000,
) -> EpisodeView:
    """Play one episode; without a task, or not `verified`, nobody judges it."""

    def judge(results: Sequence[Result], answer: str | None) -> Verdict:
        assert task is not None
        return verify(task, Outcome(tuple(results), "s", answer), TOOLS.get)

    async def run() -> EpisodeView:
        clock, recorder = VirtualClock(), Recorder(path)
        record = cast(JsonObject, msgspec.to_builtins(task)) if task else None
        request = task.request if task else "Do something."
        start = EpisodeStart(version=1, run="r", episode="e", request=request, policy="script", task=record)
        desk = Desk(clock, down)
        loop = Loop(
            start, Script(lines), desk, clock, recorder, settings, verify=judge if task and verified else None
        )
        await loop.run()
        return EpisodeView(recorder.events)

    return asyncio.run(run())


def look(*tools: str, plan: bool = True) -> str:
    """Return a turn that searches for each tool by name."""
    searches = [Search(tool, f"a tool like {tool}") for tool in tools]
    return render_turn("look", plan=SearchPlan(tools) if plan else None, searches=searches)


def do(*calls: Call, plan: Plan | None = None) -> str:
    return render_turn("do", plan=plan, calls=calls)


def say(text: str = "Ada has 31 orders, and Oslo has 17 degrees.") -> str:
    return render_turn("say", answer=text)


def flow(*steps: Sequence[str], edges: Sequence[tuple[str, str]] = (), extra: Sequence[str] = ()) -> CallPlan:
    """Return a plan of these steps; `extra` tools are listed but not scheduled."""
    tools = [*dict.fromkeys(tool for step in steps for tool in step), *extra]
    return CallPlan(tuple(tools), tuple(Dependency((a,), b) for a, b in edges), tuple(map(tuple, steps)))


CUSTOMER = Call("find_customer", {"name": "Ada"}, "c1")
ORDERS = Call("list_orders", {"customer": "$c1.id"}, "c2")
WEATHER = Call("get_weather", {"city": "Oslo"}, "c3")
NEEDED = ("find_customer", "list_orders", "get_weather")
ORDER = ("find_customer", "list_orders")
PLAN = flow(("find_customer", "get_weather"), ("list_orders",), edges=[ORDER])
PERFECT = [look(*NEEDED), do(CUSTOMER, ORDERS, WEATHER, plan=PLAN), say()]

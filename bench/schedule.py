"""How close the call scheduler comes to what is possible: makespan, width, overhead, conflicts.

Real clock and real `asyncio.sleep` tools, so the figures include the event loop. Every ratio is the median over the
rounds of measured time / the bound computed for that very group; new random groups each round, seeded.

    python bench/schedule.py [--json] [--rounds 7]

Keys:
    makespan_ratio    16 linked calls, 20-80 ms each, random DAG: time / critical path
    mixed_ratio       16 calls, a quarter of them writes: time / critical path of the conflict DAG
    barrier_ratio     the same groups under the rule "a write is a barrier", computed: time / the same critical path
    read_group_ratio  16 reads of 50 ms on one entity: time / 50 ms
    wide_ratio        32 calls of 20 ms: time / 20 ms
    overhead_us       microseconds per call, 8 calls without latency, wall clock
    virtual_us        the same, virtual clock, each call sleeping 10 virtual ms
    task_group_us     the same 8 calls under a bare asyncio.TaskGroup: no links, conflicts, limits or time-outs
    sleeps_per_s      sleeps of a virtual clock, 8 tasks
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

from paraagent.agent.conflicts import conflict
from paraagent.agent.limits import Limits
from paraagent.agent.schedule import run_group
from paraagent.clock import Clock, VirtualClock, WallClock
from paraagent.types import Call, Effects, Found, JsonObject, JsonValue, Search, Tool

LIMITS = Limits(per_server=None)


class Sleepers:
    """Tools that take `seconds` and touch `on`; `read` reads it, `write` writes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tools = {"read": Tool("read", "", {}, {}, "read"), "write": Tool("write", "", {}, {}, "update")}

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        return []

    def tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def suggestions(self, name: str) -> list[str]:
        return []

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        keys = frozenset({f"shop/order/{arguments['on']}"})
        return Effects(reads=keys) if tool.effect == "read" else Effects(writes=keys)

    def server(self, tool: Tool) -> str:
        return "shop"

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        if seconds := seconds_of(arguments):
            await self._clock.sleep(seconds)
        return {"id": arguments["on"]}


def seconds_of(arguments: JsonObject) -> float:
    seconds = arguments.get("seconds", 0.0)
    assert isinstance(seconds, float)
    return seconds


def linked_calls(rng: random.Random, count: int) -> tuple[list[Call], float]:
    """Return reads that link to up to three earlier ones, and the seconds of their critical path."""
    calls: list[Call] = []
    ends: list[float] = []
    for n in range(count):
        sources = rng.sample(range(n), min(n, rng.randrange(4)))
        seconds = rng.uniform(0.02, 0.08)
        after: list[JsonValue] = [f"$c{source}.id" for source in sources]
        calls.append(Call("read", {"on": n, "seconds": seconds, "after": after}, f"c{n}"))
        ends.append(seconds + max((ends[source] for source in sources), default=0.0))
    return calls, max(ends)


def mixed_calls(rng: random.Random, count: int) -> tuple[list[Call], float, float]:
    """Return reads and writes on a few entities, the critical path of their conflicts, and the time with barriers."""
    calls = [
        Call(
            "write" if rng.random() < 0.25 else "read",
            {"on": rng.randrange(count // 2), "seconds": rng.uniform(0.02, 0.08), "n": n},
        )
        for n in range(count)
    ]
    box = Sleepers(WallClock())
    effects = [box.effects(box._tools[call.name], call.arguments) for call in calls]
    ends: list[float] = []
    barriers = stage = 0.0
    for n, call in enumerate(calls):
        seconds = seconds_of(call.arguments)
        before = (ends[m] for m in range(n) if conflict(effects[m], effects[n]))
        ends.append(seconds + max(before, default=0.0))
        if call.name == "write":
            barriers, stage = barriers + stage + seconds, 0.0
        else:
            stage = max(stage, seconds)
    return calls, max(ends), barriers + stage


async def seconds_for(calls: Sequence[Call]) -> float:
    clock = WallClock()
    begin = time.perf_counter()
    results = await run_group(calls, Sleepers(clock), clock, limits=LIMITS)
    taken = time.perf_counter() - begin
    assert all(result.ok for result in results)
    return taken


async def per_call_us(once: Callable[[], Awaitable[object]], calls: int, groups: int = 400) -> float:
    begin = time.perf_counter()
    for _ in range(groups):
        await once()
    return (time.perf_counter() - begin) / (groups * calls) * 1e6


async def overheads() -> dict[str, float]:
    virtual, wall = VirtualClock(), WallClock()
    instant = [Call("read", {"on": n}) for n in range(8)]
    sleeping = [Call("read", {"on": n, "seconds": 0.01}) for n in range(8)]
    box, virtual_box = Sleepers(wall), Sleepers(virtual)
    tool = box.tool("read")
    assert tool is not None

    async def bare() -> None:
        async with asyncio.TaskGroup() as group:
            for call in instant:
                group.create_task(box.call(tool, call.arguments))

    async def nap() -> None:
        for _ in range(500):
            await virtual.sleep(0.01)

    async def naps() -> None:
        await virtual.wait(asyncio.gather(*(virtual.spawn(nap()) for _ in range(8))))

    return {
        "overhead_us": await per_call_us(lambda: run_group(instant, box, wall), 8),
        "virtual_us": await virtual.spawn(per_call_us(lambda: run_group(sleeping, virtual_box, virtual), 8)),
        "task_group_us": await per_call_us(bare, 8),
        "sleeps_per_s": 1e6 / await virtual.spawn(per_call_us(naps, 8 * 500, groups=2)),
    }


async def one_round(rng: random.Random) -> dict[str, float]:
    linked, linked_bound = linked_calls(rng, 16)
    mixed, mixed_bound, barriers = mixed_calls(rng, 16)
    reads = [Call("read", {"on": 0, "seconds": 0.05, "n": n}) for n in range(16)]
    wide = [Call("read", {"on": n, "seconds": 0.02}) for n in range(32)]
    return {
        "makespan_ratio": await seconds_for(linked) / linked_bound,
        "mixed_ratio": await seconds_for(mixed) / mixed_bound,
        "barrier_ratio": barriers / mixed_bound,
        "read_group_ratio": await seconds_for(reads) / 0.05,
        "wide_ratio": await seconds_for(wide) / 0.02,
        **await overheads(),
    }


async def measure(rounds: int) -> dict[str, float]:
    rng = random.Random(7)
    await one_round(rng)  # warm
    taken = [await one_round(rng) for _ in range(rounds)]
    return {key: statistics.median(each[key] for each in taken) for key in taken[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the call scheduler.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=7, help="rounds to take the medians of (default 7)")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.rounds))
    if options.json:
        print(json.dumps({key: round(value, 4) for key, value in figures.items()}))
        return
    for key, value in figures.items():
        print(f"{key:18} {value:12,.3f}")


if __name__ == "__main__":
    main()

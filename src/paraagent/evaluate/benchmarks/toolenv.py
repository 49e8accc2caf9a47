"""ToolEnv as a benchmark: sampled tasks of one or more splits and every kind, verified by program.

Place in the flow: layer 5, a `Benchmark` over `arena`. Groups are `split kind`. The same catalog, splits, kinds, seed
and dials give the same tasks everywhere. A unit is a gold call; tasks that need none have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.agent.settings import Settings
from paraagent.catalog.store import Catalog
from paraagent.env.interface import Interfaces
from paraagent.env.task import Task
from paraagent.evaluate.arena import Arena
from paraagent.evaluate.benchmarks.base import Item, OnEvent, Points, Spoilt
from paraagent.evaluate.benchmarks.replays import spoilt
from paraagent.search.search import SearchIndex
from paraagent.trace.events import EpisodeEnd
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy


class ToolEnvBenchmark:
    """Implements `Benchmark`.

    Args:
        k: hits per search.
        hostile_rate: share of results that carry text posing as an instruction.
    """

    name = "toolenv"
    unit = "calls"

    def __init__(
        self, catalog: Catalog, index: SearchIndex, tasks: Iterable[Task], *, k: int = 5, hostile_rate: float = 0.0
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._k = k
        self._hostile_rate = hostile_rate
        self._interfaces = Interfaces(catalog.get)
        self.items: Sequence[Item] = [Item(task, f"{task.split} {task.kind}") for task in tasks]

    async def play(
        self,
        item: Item,
        policy: Policy,
        recorder: Recorder,
        settings: Settings,
        *,
        run: str = "run",
        config: JsonObject | None = None,
        on_event: OnEvent | None = None,
    ) -> EpisodeEnd:
        arena = Arena(self._catalog, self._index, settings, self._k, self._hostile_rate)
        arena.interfaces = self._interfaces
        return await arena.play(item.task, policy, recorder, run=run, config=config, on_event=on_event)

    def gold(self, item: Item) -> Policy:
        return OraclePolicy([item.task])

    def spoil(self, item: Item, rng: Random) -> Spoilt:
        policy, matched = spoilt(item.task, rng)
        return Spoilt(policy, Points(1, 0, matched, len(item.task.calls)))

    def points(self, item: Item, view: EpisodeView) -> Points:
        checks = view.end.checks if view.end else {}
        matched = sum(done is True for name, done in checks.items() if name.startswith("call "))
        return Points(1, int(bool(view.success)), matched, len(item.task.calls))

"""ToolBench: 765 requests over 2,479 APIs, scored by the relevant APIs an agent finds, and by a judge.

Place in the flow: layer 5, a `Benchmark`. A unit is a relevant API that a search has shown; an item is solved if all
of them were. `recall` scores search alone, without an agent. The APIs are simulated by ToolEnv's backends, since
their recorded responses are not public; `completeness` judges what an agent answered.
Limits: labels name relevant APIs, not gold calls, so a gold replay finds and calls them with example arguments.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from statistics import fmean

from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.agent.settings import Settings
from paraagent.clock import VirtualClock
from paraagent.env.backends import Backend
from paraagent.env.interface import Interfaces
from paraagent.env.respond import example
from paraagent.env.schemas import properties
from paraagent.env.simulator import SimulatedToolbox
from paraagent.env.task import GoldCall, GoldSlot, Task
from paraagent.evaluate.benchmarks import base
from paraagent.evaluate.benchmarks.base import Item, OnEvent, Points, Spoilt, Stage
from paraagent.evaluate.benchmarks.toolbench_data import Data, Request
from paraagent.search.search import SearchIndex
from paraagent.trace.events import EpisodeEnd
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy, Search, Tool

CUTS = (1, 5, 10)
"""Ranks at which the recall of search alone is read."""


class ToolBench:
    """Implements `Benchmark`.

    Args:
        others: tools to hide the benchmark's own among; they are simulated, too.
        backend: answers calls; the simulated world itself if None.
        k: hits per search.
    """

    name = "toolbench"
    unit = "apis"

    def __init__(
        self, data: Data, others: Iterable[Tool] = (), *, backend: Backend | None = None, k: int = 5
    ) -> None:
        mixed = [*data.tools.values(), *others]
        self.requests = data.requests
        self.index = SearchIndex.build_in_memory(mixed)
        self.items: Sequence[Item] = [Item(_task(request, data.tools), request.split) for request in data.requests]
        self._tools = _Tools({tool.name: tool for tool in mixed})
        self._relevant = {
            item.task.id: frozenset(request.relevant) for item, request in zip(self.items, data.requests, strict=True)
        }
        self._interfaces = Interfaces(self._tools.get)
        self._backend = backend
        self._k = k

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
        clock = VirtualClock()
        toolbox = SimulatedToolbox(
            self._tools,
            self.index,
            item.task,
            clock,
            interfaces=self._interfaces,
            backend=self._backend,
            k=self._k,
        )
        stage = Stage(toolbox, clock)
        return await base.play(
            stage, item.task, policy, recorder, settings, run=run, config=config, on_event=on_event
        )

    def gold(self, item: Item) -> Policy:
        return OraclePolicy([item.task])

    def spoil(self, item: Item, rng: Random) -> Spoilt:
        """Leave one relevant API out; another's search may show it all the same."""
        victim = rng.choice(item.task.slots)
        slots = tuple(slot for slot in item.task.slots if slot is not victim)
        calls = tuple(call for call in item.task.calls if call.tool not in victim.tools)
        found = self.index.search([Search(slot.name, slot.query) for slot in slots], self._k)
        shown = {hit.tool.name for answer in found for hit in answer.hits}
        policy = OraclePolicy([replace(item.task, slots=slots, calls=calls)])
        return Spoilt(policy, self._points(item, shown))

    def points(self, item: Item, view: EpisodeView) -> Points:
        return self._points(item, {name for search in view.searches for name, _ in search.hits})

    def called(self, item: Item, view: EpisodeView) -> int:
        """Return how many relevant APIs were called with success."""
        done = {call.end.name for call in view.calls if call.end is not None and call.end.error is None}
        return len(self._relevant[item.task.id] & done)

    def _points(self, item: Item, shown: set[str]) -> Points:
        relevant = self._relevant[item.task.id]
        matched = len(relevant & shown)
        return Points(1, int(matched == len(relevant)), matched, len(relevant))


def recall(index: SearchIndex, requests: Sequence[Request]) -> dict[str, float]:
    """Return the mean share of a request's relevant APIs among the best k hits for its whole text."""
    shares: dict[int, list[float]] = {k: [] for k in CUTS}
    for request in requests:
        hits = index.search([Search("", request.text)], max(CUTS))[0].hits
        for k in CUTS:
            shown = {hit.tool.name for hit in hits[:k]}
            shares[k].append(len(shown.intersection(request.relevant)) / len(request.relevant))
    return {f"recall_at_{k}": fmean(found) if found else 0.0 for k, found in shares.items()}


class _Tools:
    """Implements what the simulator needs of a catalog."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def suggestions(self, name: str) -> list[str]:
        return difflib.get_close_matches(name[:200], self._tools, n=3, cutoff=0.5)


def _task(request: Request, tools: Mapping[str, Tool]) -> Task:
    slots = tuple(GoldSlot(f"api {number}", name, (name,)) for number, name in enumerate(request.relevant, 1))
    calls = tuple(
        GoldCall(f"c{number}", name, _arguments(tools[name])) for number, name in enumerate(request.relevant, 1)
    )
    return Task(
        id=f"{request.split}-{request.id}",
        kind="mixed",
        split="test-unseen",
        seed=request.id,
        request=request.text,
        slots=slots,
        calls=calls,
    )


def _arguments(tool: Tool) -> JsonObject:
    """Return examples of all required arguments."""
    required, known = tool.parameters.get("required"), properties(tool.parameters)
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {name: example(name, known[name]) for name in names}

"""What a benchmark is: items to play, a way to play one, and points that a program reads off the trace.

Place in the flow: layer 5; `toolenv`, `apibank`, `toolbench` and `bfcl` are benchmarks, `suite` plays their episodes,
`soundness` proves the harness with policies whose points are known beforehand. Every figure comes from traces, so a
run that was stopped and continued scores the same.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from random import Random
from typing import Protocol, cast

import msgspec

from paraagent.agent.loop import Loop
from paraagent.agent.settings import Settings, User, Verifier
from paraagent.clock import VirtualClock
from paraagent.env.task import Task
from paraagent.errors import EnvironmentFault
from paraagent.evaluate.suite import Episode
from paraagent.trace.events import TRACE_VERSION, EpisodeEnd, EpisodeStart, Event
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy, Toolbox

OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Item:
    """One episode of a benchmark."""

    task: Task
    """Its id names the episode and its trace; it holds the gold calls where the benchmark has them."""
    group: str
    """Split or category."""


@dataclass(frozen=True, slots=True)
class Points:
    """What one episode, or many together, achieved."""

    tasks: int = 0
    solved: int = 0
    matched: int = 0
    """Units done: gold calls, relevant APIs or user turns, as the benchmark says."""
    total: int = 0
    """Units there were."""

    def __add__(self, other: Points) -> Points:
        return Points(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def success(self) -> float:
        """Share of tasks solved, 0 to 1."""
        return self.solved / self.tasks if self.tasks else 0.0

    @property
    def accuracy(self) -> float:
        """Share of units done, 0 to 1."""
        return self.matched / self.total if self.total else 0.0

    def to_json(self, unit: str) -> JsonObject:
        return {
            "tasks": self.tasks,
            "tasks_solved": self.solved,
            "success": self.success,
            f"{unit}_matched": self.matched,
            f"{unit}_total": self.total,
            f"{unit}_accuracy": self.accuracy,
        }


@dataclass(frozen=True, slots=True)
class Spoilt:
    """A gold policy with a known flaw, and the points it must get."""

    policy: Policy
    points: Points


class Benchmark(Protocol):
    """A set of episodes with known solutions."""

    name: str
    unit: str
    """What `Points.matched` counts, as `calls`."""
    items: Sequence[Item]

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
        """Play one item from its first event to its last."""
        ...

    def gold(self, item: Item) -> Policy:
        """Return a policy that replays the item's solution."""
        ...

    def spoil(self, item: Item, rng: Random) -> Spoilt:
        """Return the solution with one thing wrong in it."""
        ...

    def points(self, item: Item, view: EpisodeView) -> Points:
        """Read off a finished episode what it achieved."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """What one episode is played on."""

    toolbox: Toolbox
    clock: VirtualClock
    verify: Verifier | None = None
    user: User | None = None


async def play(
    stage: Stage,
    task: Task,
    policy: Policy,
    recorder: Recorder,
    settings: Settings,
    *,
    run: str = "run",
    config: JsonObject | None = None,
    on_event: OnEvent | None = None,
) -> EpisodeEnd:
    """Play a task on a stage through the loop."""
    start = EpisodeStart(
        version=TRACE_VERSION,
        run=run,
        episode=task.id,
        request=task.request,
        policy=policy.name,
        task=cast(JsonObject, msgspec.to_builtins(task)),
        seed=task.seed,
        config=config or {},
        software={"paraagent": version("paraagent"), "python": platform.python_version()},
    )
    loop = Loop(
        start,
        policy,
        stage.toolbox,
        stage.clock,
        recorder,
        settings,
        verify=stage.verify,
        user=stage.user,
        on_event=on_event,
    )
    return await loop.run()


def episodes(
    benchmark: Benchmark,
    items: Iterable[Item],
    policy_for: Callable[[Item], Policy],
    settings: Settings,
    *,
    run: str,
    config: JsonObject,
    watch: Callable[[str, Event], None] | None = None,
) -> list[Episode]:
    """Return the episodes of some items, ready to be played by a suite."""

    def episode(item: Item) -> Episode:
        name = item.task.id

        async def play_it(recorder: Recorder) -> EpisodeEnd:
            on_event = None if watch is None else lambda event: watch(name, event)
            return await benchmark.play(
                item, policy_for(item), recorder, settings, run=run, config=config, on_event=on_event
            )

        return Episode(name, play_it)

    return [episode(item) for item in items]


@dataclass(slots=True)
class Tally:
    """The points of a run, by group and all together; masked episodes are not counted."""

    benchmark: Benchmark
    groups: dict[str, Points] = field(default_factory=dict)

    @property
    def overall(self) -> Points:
        return sum(self.groups.values(), Points())

    def add(self, item: Item, view: EpisodeView) -> Points:
        """Count a finished episode and return its own points."""
        if view.end is None or view.end.mask_sample:
            return Points()
        points = self.benchmark.points(item, view)
        self.groups[item.group] = self.groups.get(item.group, Points()) + points
        return points

    def to_json(self) -> JsonObject:
        unit = self.benchmark.unit
        by_group: JsonObject = {name: self.groups[name].to_json(unit) for name in sorted(self.groups)}
        return {"benchmark": self.benchmark.name, **self.overall.to_json(unit), "by_group": by_group}


def missing(what: str, paths: Sequence[str], source: str) -> EnvironmentFault:
    """Return the error for benchmark data that is not there: what is expected, where, and where to get it."""
    looked = " or ".join(paths)
    return EnvironmentFault(
        f"{what} is missing: expected {looked}; get it from {source} and pass its folder as --data"
    )

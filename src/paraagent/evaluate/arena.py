"""Turns tasks into episodes: the simulated tools, the loop, the verifier and the trace of each.

Place in the flow: layer 5, between `env` and `suite`. An `Arena` holds what all episodes of a process share: the
catalog, its search index and the compiled interfaces.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import cast

import msgspec

from paraagent.agent.loop import Loop
from paraagent.agent.past import Past
from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.agent.settings import Settings, User
from paraagent.catalog.store import Catalog
from paraagent.clock import VirtualClock
from paraagent.env.interface import Interfaces
from paraagent.env.simulator import SimulatedToolbox
from paraagent.env.task import Task
from paraagent.env.verify import Outcome, Verdict, verify
from paraagent.evaluate.suite import Episode
from paraagent.search.search import SearchIndex
from paraagent.trace.events import TRACE_VERSION, EpisodeEnd, EpisodeStart, Event
from paraagent.trace.recorder import Recorder
from paraagent.types import JsonObject, Policy, Result

PolicyFor = Callable[[Task], Policy]
"""Chooses the policy of a task: the same for all, unless it is the oracle."""
Watch = Callable[[str, Event], None]
"""Told an episode's name and each of its events as it happens."""


@dataclass(slots=True)
class Arena:
    """Where simulated episodes are played."""

    catalog: Catalog
    index: SearchIndex
    settings: Settings = field(default_factory=lambda: Settings(durable=False))
    """A simulated write needs no fsync."""
    top_k: int = 5
    """Hits per search."""
    hostile_rate: float = 0.0
    """Share of results that carry text posing as an instruction."""
    interfaces: Interfaces = field(init=False)

    def __post_init__(self) -> None:
        self.interfaces = Interfaces(self.catalog.get)

    def episode(
        self, task: Task, policy_for: PolicyFor, *, run: str, config: JsonObject, watch: Watch | None = None
    ) -> Episode:
        """Return the episode of a task under a policy, ready to be played by a suite."""

        async def play(recorder: Recorder) -> EpisodeEnd:
            on_event = None if watch is None else lambda event: watch(task.id, event)
            return await self.play(task, policy_for(task), recorder, run=run, config=config, on_event=on_event)

        return Episode(task.id, play)

    async def play(
        self,
        task: Task,
        policy: Policy,
        recorder: Recorder,
        *,
        run: str = "run",
        config: JsonObject | None = None,
        on_event: Callable[[Event], None] | None = None,
        past: Past | None = None,
        user: User | None = None,
    ) -> EpisodeEnd:
        """Play one task; one without checks (`request_task`) gets no verdict.

        With a `past` the episode goes on from there: what it wrote is done again in the new world, and not recorded.
        """
        past = past or Past()
        clock = VirtualClock()
        clock.advance(past.at)
        toolbox = SimulatedToolbox(
            self.catalog,
            self.index,
            task,
            clock,
            interfaces=self.interfaces,
            k=self.top_k,
            hostile_rate=self.hostile_rate,
        )

        for name, arguments in past.writes():
            toolbox.repeat(name, arguments)

        def judge(results: Sequence[Result], answer: str | None) -> Verdict:
            return verify(task, Outcome(tuple(results), toolbox.world.hash(), answer), self.catalog.get)

        verifiable = bool(task.final_state)
        start = episode_start(task, policy, run, config or {}, {"catalog": self.catalog.digest})
        verifier = judge if verifiable else None
        loop = Loop(
            start,
            policy,
            toolbox,
            clock,
            recorder,
            self.settings,
            verify=verifier,
            user=user,
            on_event=on_event,
            past=past,
        )
        return await loop.run()


def episode_start(
    task: Task, policy: Policy, run: str, config: JsonObject, digests: JsonObject | None = None
) -> EpisodeStart:
    """Return the first event of an episode, with the versions and digests that it takes to repeat it."""
    versions: JsonObject = {"paraagent": version("paraagent"), "python": platform.python_version()}
    return EpisodeStart(
        version=TRACE_VERSION,
        run=run,
        episode=task.id,
        request=task.request,
        policy=policy.name,
        task=cast(JsonObject, msgspec.to_builtins(task)) if task.final_state else None,
        seed=task.seed,
        config=config,
        software=versions | (digests or {}),
    )


def request_task(request: str, seed: int = 0) -> Task:
    """Return a task for a free-text request: an open world in which nothing is checked."""
    return Task(id="request", kind="single", split="validation", seed=seed, request=request)


def same_policy(policy: Policy) -> PolicyFor:
    """Return a chooser that gives every task this policy."""
    return lambda task: policy


def oracle(task: Task) -> Policy:
    """Return the policy that has read the task."""
    return OraclePolicy([task])

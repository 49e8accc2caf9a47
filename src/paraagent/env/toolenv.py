"""ToolEnv: one task at a time as a reinforcement learning environment, with Gymnasium's five return values.

Place in the flow: layer 3, over the simulator; for those who bring their own agent loop. An action is a *list*: all
searches or all calls of a turn, run in parallel; or an answer, which ends the episode; or an assistant message in the
protocol's grammar, which may be any of these. An episode is a pure function of (task, seed, actions): time is
virtual, calls take simulated seconds. The reward is 1 for an answer that the verifier accepts, else 0.

    observation                       the request, from `reset`
    results                           one `Found` per search or one `Result` per call, in order
    terminated                        an answer was given
    truncated                         a budget ran out; what was beyond it was not run

Limits: one `ToolEnv` runs one episode at a time; many of them may share a process, and should share `interfaces`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from paraagent.agent.budget import Budget, Spending
from paraagent.agent.limits import Limits, Servers
from paraagent.agent.prepare import Run
from paraagent.agent.schedule import run_group
from paraagent.clock import VirtualClock
from paraagent.env.backends import Backend
from paraagent.env.interface import Interfaces
from paraagent.env.simulator import EpisodeState, Searcher, SimulatedToolbox, Tools
from paraagent.env.task import Task
from paraagent.env.verify import Outcome, verify
from paraagent.errors import UsageError
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.grammar import parse
from paraagent.types import Call, Found, JsonObject, Result, Search, StopReason, Usage

Action = Sequence[Search] | Sequence[Call | BrokenCall] | str
_TAG = re.compile(r"</?(?:think|plan|search_tool|tool_call|answer)>")
Step = tuple[list[Found] | list[Result], float, bool, bool, JsonObject]
"""Results, reward, terminated, truncated, info."""


class ToolEnv:
    """A tool world to act in.

    Args:
        budget: turns, searches, calls and virtual seconds of one episode.
        limits: how hard calls press: time-outs, repeats, calls in flight per server.
        hostile_rate: share of results that carry text posing as an instruction.
    """

    def __init__(
        self,
        catalog: Tools,
        index: Searcher,
        *,
        interfaces: Interfaces | None = None,
        backend: Backend | None = None,
        budget: Budget | None = None,
        limits: Limits | None = None,
        hostile_rate: float = 0.0,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._interfaces = interfaces or Interfaces(catalog.get)
        self._backend = backend
        self._budget = budget or Budget()
        self._limits = limits or Limits()
        self._hostile_rate = hostile_rate
        self._episode: _Episode | None = None

    async def reset(self, task: Task, seed: int | None = None) -> str:
        """Start an episode and return what is asked; `seed` varies latencies and random faults, not the world."""
        clock = VirtualClock()
        toolbox = SimulatedToolbox(
            self._catalog,
            self._index,
            task,
            clock,
            seed=seed,
            interfaces=self._interfaces,
            backend=self._backend,
            hostile_rate=self._hostile_rate,
        )
        self._episode = _Episode(task, toolbox, clock, self._budget, self._limits)
        return task.request

    async def step(self, action: Action) -> Step:
        """Act once.

        Returns:
            results, reward, terminated, truncated, info. The info holds the clock's `seconds`, and where it applies
            `note` (what was wrong with the action), `stop_reason`, and at the end `success` and `checks`.

        Raises:
            UsageError: there is no episode, or it has ended.
        """
        episode = self.episode
        if episode.ended:
            raise UsageError("the episode has ended: call reset for another one")
        return await episode.step(action)

    @property
    def episode(self) -> _Episode:
        if self._episode is None:
            raise UsageError("no episode: call reset first")
        return self._episode

    @property
    def results(self) -> tuple[Result, ...]:
        """All calls of the episode so far, in the order they were asked for."""
        return tuple(self.episode.results)

    def snapshot(self) -> EpisodeState:
        """Return the state of the world and its faults, to `restore` later in this episode; cheap."""
        return self.episode.toolbox.snapshot()

    def restore(self, state: EpisodeState) -> None:
        """Put the world and its faults back; budgets, clock and results go on."""
        self.episode.toolbox.restore(state)

    def hash(self) -> str:
        """Return a digest of the world's state; reading does not change it."""
        return self.episode.toolbox.world.hash()


class _Episode:
    def __init__(
        self, task: Task, toolbox: SimulatedToolbox, clock: VirtualClock, budget: Budget, limits: Limits
    ) -> None:
        self.task = task
        self.toolbox = toolbox
        self.results: list[Result] = []
        self.ended = False
        self._clock = clock
        self._spending = Spending(budget)
        self._limits = limits
        self._servers = Servers[Run](clock, limits.per_server)

    async def step(self, action: Action) -> Step:
        self._spending.add_turn(Usage())
        note = ""
        if isinstance(action, str):
            if not _TAG.search(action):
                return self._answered(action)
            turn = parse(action)
            note = " ".join(fault.message for fault in turn.faults)
            if turn.kind == "answer":
                return self._answered(turn.answer)
            action = turn.searches if turn.kind == "exploration" else turn.calls if turn.kind == "execution" else ()
        searches = [one for one in action if isinstance(one, Search)]
        calls = [one for one in action if not isinstance(one, Search)]
        if searches and calls:
            raise UsageError("an action is all searches or all calls")
        found = await self._explore(searches) if searches else await self._execute(calls)
        wanted = len(searches) or len(calls)
        if len(found) < wanted:
            return self._truncated(found, "search_limit" if searches else "call_limit")
        if reason := self._spending.exhausted(self._clock.now()):
            return self._truncated(found, reason)
        return found, 0.0, False, False, self._info(note)

    async def _explore(self, searches: list[Search]) -> list[Found]:
        return await self.toolbox.search(searches[: self._spending.take_searches(len(searches))])

    async def _execute(self, calls: list[Call | BrokenCall]) -> list[Result]:
        calls = calls[: self._spending.take_calls(len(calls))]
        results = await run_group(
            [call.as_call() if isinstance(call, BrokenCall) else call for call in calls],
            self.toolbox,
            self._clock,
            limits=self._limits,
            servers=self._servers,
            deadline=self._spending.budget.seconds,
            refused={index: call.error for index, call in enumerate(calls) if isinstance(call, BrokenCall)},
        )
        self.results += results
        return results

    def _answered(self, answer: str | None) -> Step:
        self.ended = True
        outcome = Outcome(tuple(self.results), self.toolbox.world.hash(), answer)
        verdict = verify(self.task, outcome, self.toolbox.tool)
        info = self._info("") | {"stop_reason": "answered", "success": verdict.success, "checks": verdict.to_json()}
        return [], float(verdict.success), True, False, info

    def _truncated(self, found: list[Found] | list[Result], reason: StopReason) -> Step:
        self.ended = True
        return found, 0.0, False, True, self._info("") | {"stop_reason": reason}

    def _info(self, note: str) -> JsonObject:
        info: JsonObject = {"seconds": self._clock.now()}
        return info | {"note": note} if note else info

"""The simulated tools of one task: a `Toolbox` over a catalog, a world, faults and a clock.

Place in the flow: layer 3; the loop and `toolenv` run episodes on one of these, the scheduler cannot tell it from
real tools. A call is validated, waits its latency on the clock, fails if a fault is due, and else is answered by the
world or by a backend. Limits: one toolbox serves one episode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson

from paraagent.clock import Clock
from paraagent.env import behave
from paraagent.env.backends import Backend
from paraagent.env.effects import effects
from paraagent.env.faults import Faults
from paraagent.env.ids import digest_bytes, mix, salt
from paraagent.env.interface import Interface, Interfaces
from paraagent.env.task import Task
from paraagent.env.world import Snapshot, World
from paraagent.errors import ToolFailure
from paraagent.types import Effects, Found, JsonObject, JsonValue, Search, Tool


class Tools(Protocol):
    """The part of a catalog that the simulator needs."""

    def get(self, name: str) -> Tool | None: ...

    def suggestions(self, name: str) -> list[str]: ...


class Searcher(Protocol):
    """The part of a search index that the simulator needs."""

    def search(self, searches: Sequence[Search], k: int = 5) -> list[Found]: ...


@dataclass(frozen=True, slots=True)
class EpisodeState:
    """An episode's world and faults at one moment; see `SimulatedToolbox.restore`."""

    world: Snapshot
    faults: tuple[dict[str, int], dict[int, int]]


class SimulatedToolbox:
    """The tools of one episode.

    Args:
        seed: seeds latencies, random faults and hostile text; the task's own seed if None. What exists in the world
            always follows from the task's seed, since the request speaks of it.
        interfaces: share one between the episodes of a process; compiling interfaces costs milliseconds each.
        k: hits per search.
        hostile_rate: share of results that carry text posing as an instruction.
    """

    def __init__(
        self,
        catalog: Tools,
        index: Searcher,
        task: Task,
        clock: Clock,
        *,
        seed: int | None = None,
        interfaces: Interfaces | None = None,
        backend: Backend | None = None,
        k: int = 5,
        hostile_rate: float = 0.0,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._clock = clock
        self._interfaces = interfaces or Interfaces(catalog.get)
        self._backend = backend
        self._k = k
        seed = task.seed if seed is None else seed
        self._faults = Faults(seed, task.faults, rate=task.fault_rate, hostile_rate=hostile_rate)
        self.world = World(task.seed, task.entities)

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        return self._index.search(searches, self._k)

    def tool(self, name: str) -> Tool | None:
        interface = self._interfaces.get(name)
        return interface.tool if interface else None

    def suggestions(self, name: str) -> list[str]:
        return self._catalog.suggestions(name)

    def server(self, tool: Tool) -> str:
        return tool.provider

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        return effects(self.world, self._interface(tool), arguments)

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        interface = self._interface(tool)
        text = interface.arguments.check(arguments)
        key = mix(digest_bytes(text), salt(tool.name))
        fate = self._faults.invoke(tool.name, key)
        await self._clock.sleep(fate.seconds)
        if fate.failure is not None and fate.failure.kind != "outcome_unknown":
            raise fate.failure
        if self._backend is None:
            value = self._carry_out(interface, arguments, text)
        else:
            value = await self._backend.answer(
                interface, arguments, lambda: self._carry_out(interface, arguments, text)
            )
        if fate.failure is not None:
            raise fate.failure
        tainted = self._faults.taint(value, key)
        return value if tainted is value or not interface.returns.is_valid(tainted) else tainted

    def repeat(self, name: str, arguments: JsonObject) -> None:
        """Do to the world what a recorded call did to it; for an episode that goes on in a new process."""
        interface = self._interfaces.get(name)
        if interface is not None:
            with contextlib.suppress(ToolFailure):
                self._carry_out(interface, arguments, interface.arguments.check(arguments))

    def _carry_out(self, interface: Interface, arguments: JsonObject, text: bytes) -> JsonValue:
        if interface.tool.effect != "read":
            arguments = orjson.loads(text)  # the world keeps what is written: a copy of its own, plain JSON
        return behave.answer(self.world, interface, arguments, text)

    def _interface(self, tool: Tool) -> Interface:
        interface = self._interfaces.get(tool.name)
        if interface is None:
            raise ToolFailure("tool_not_found", f"the catalog has no tool {tool.name}")
        return interface

    def snapshot(self) -> EpisodeState:
        """Return the state of the world and of the faults; cheap."""
        return EpisodeState(self.world.snapshot(), self._faults.snapshot())

    def restore(self, state: EpisodeState) -> None:
        """Go back to a snapshot of this episode; its clock goes on."""
        self.world.restore(state.world)
        self._faults.restore(state.faults)

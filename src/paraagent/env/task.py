"""The task record: a request, the world it happens in, and what a program checks afterwards.

Place in the flow: layer 3; `tasks` samples these, `simulator` sets the world up from one, `verify` judges an episode
against one, the oracle policy reads one. A task is plain data: it goes to JSON and back without loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from paraagent.errors import ErrorKind
from paraagent.protocol.links import upstream as upstream
from paraagent.types import JsonObject, JsonValue, Split, TaskKind


@dataclass(frozen=True, slots=True)
class Entity:
    """One thing that exists in the world before the episode."""

    api: str
    """`provider/api`, as `Tool.provider + "/" + Tool.api`."""
    resource: str
    id: str
    value: JsonObject


@dataclass(frozen=True, slots=True)
class GoldSlot:
    """A capability the request needs, a sensible search for it, and the tools that serve it."""

    name: str
    query: str
    tools: tuple[str, ...]
    """The gold tool first, then its equivalents; empty for a capability that no tool has."""


@dataclass(frozen=True, slots=True)
class GoldCall:
    """One call of the gold DAG; arguments are literals or links `$id.path` to an upstream gold call."""

    id: str
    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class Fact:
    """Something the answer must state: the value at `path` in the result of gold call `call`."""

    call: str
    path: str
    value: JsonValue
    label: str
    """How the request names it, as `status`."""


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """A failure the simulator makes on purpose: the first `times` invocations of `tool` fail with `kind`."""

    tool: str
    kind: ErrorKind
    times: int = 1
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One verifiable task."""

    id: str
    kind: TaskKind
    split: Split
    seed: int
    """Seeds responses, latencies and faults of the world."""
    request: str
    slots: tuple[GoldSlot, ...] = ()
    calls: tuple[GoldCall, ...] = ()
    facts: tuple[Fact, ...] = ()
    entities: tuple[Entity, ...] = ()
    faults: tuple[FaultSpec, ...] = ()
    fault_rate: float = 0.0
    """Probability that any further call fails once with a transient kind."""
    literal_answer: str | None = None
    """For `direct` tasks: what the answer must contain."""
    final_state: str = ""
    """Hash of the world after the gold calls, and nothing else, have run."""
    catalog: str = ""
    """Digest of the catalog it was sampled from."""

    @property
    def width(self) -> int:
        """How many calls the widest layer of the gold DAG has."""
        layers = self.layers()
        return max((layers.count(layer) for layer in set(layers)), default=0)

    @property
    def depth(self) -> int:
        """How many layers the gold DAG has."""
        return max(self.layers(), default=0)

    def layers(self) -> list[int]:
        """Return the 1-based layer of every gold call: one more than its deepest upstream call."""
        depth: dict[str, int] = {}
        for call in self.calls:
            depth[call.id] = 1 + max((depth.get(up, 0) for up in upstream(call.arguments)), default=0)
        return list(depth.values())

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Task:
        return msgspec.json.decode(data, type=cls)

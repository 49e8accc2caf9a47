"""Runs gold calls in the simulated world without an agent: what they return and how they leave the world.

Place in the flow: layer 3; `tasks` finds facts in what comes back, keeps a task only if the oracle's answer verifies,
and stores the final state. Faults and latencies play no part: they change when a call succeeds, not what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paraagent.env import behave
from paraagent.env.interface import Interfaces
from paraagent.env.task import Fact, GoldCall, Task
from paraagent.env.world import World
from paraagent.errors import ToolFailure
from paraagent.protocol.links import resolve
from paraagent.types import Call, JsonObject, JsonValue, Result


@dataclass(frozen=True, slots=True)
class Replay:
    """What the gold calls did."""

    results: tuple[Result, ...]
    values: Mapping[str, JsonValue]
    """By gold call id."""
    state: str
    """Hash of the world at the end."""


def replay(world: World, calls: Iterable[GoldCall], interfaces: Interfaces) -> Replay:
    """Run gold calls in their order, which puts upstream calls first.

    Raises:
        ToolFailure: a call failed; the message starts with its id.
    """
    results: list[Result] = []
    values: dict[str, JsonValue] = {}
    for call in calls:
        try:
            result = _run(world, call, values, interfaces)
        except ToolFailure as failure:
            raise ToolFailure(failure.kind, f"{call.id}: {failure}") from None
        results.append(result)
        values[call.id] = result.value
    return Replay(tuple(results), values, world.hash())


def _run(world: World, call: GoldCall, values: Mapping[str, JsonValue], interfaces: Interfaces) -> Result:
    interface = interfaces.get(call.tool)
    if interface is None:
        raise ToolFailure("tool_not_found", f"no tool {call.tool}")
    arguments = resolve(call.arguments, values)
    assert isinstance(arguments, dict)
    text = interface.arguments.check(arguments)
    value = behave.answer(world, interface, arguments, text)
    return Result(Call(call.tool, call.arguments, call.id), arguments, value, attempts=1)


def spoken(facts: Iterable[Fact], values: Mapping[str, JsonValue]) -> str:
    """Return an answer that states facts at their values in the results of gold calls, as `status: shipped`."""
    found: JsonObject = {}
    for fact in facts:
        value = resolve(f"${fact.call}.{fact.path}", values)
        found[fact.label if fact.label not in found else f"{fact.label} ({fact.call})"] = value
    return "; ".join(f"{label}: {value}" for label, value in found.items())


def answer(task: Task, values: Mapping[str, JsonValue]) -> str:
    """Return the answer of one who knows the gold calls' results."""
    if task.kind == "direct":
        return f"The answer is {task.literal_answer}."
    if task.kind == "unanswerable":
        return "I cannot do this: no tool for it was found."
    return f"Done. {spoken(task.facts, values)}".strip()

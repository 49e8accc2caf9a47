"""Policies with known results: one that does nothing, and solutions with one thing wrong in them.

Place in the flow: layer 5, used by the benchmarks to prove that their harness is sound. The wrong solution is the
oracle's, given a task in which a gold call was dropped or one of its arguments changed; it believes in that task.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from paraagent.agent.context import Context
from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.env.task import GoldCall, Task
from paraagent.protocol.links import upstream
from paraagent.protocol.render import render_turn
from paraagent.types import JsonObject, JsonValue, Policy, Reply

WRONG = "wrong on purpose"


class EmptyPolicy:
    """Answers at once and says nothing."""

    name = "empty"

    async def act(self, context: Context) -> Reply:
        return Reply(render_turn("I do nothing.", answer="Done."))


def spoilt(task: Task, rng: Random) -> tuple[Policy, int]:
    """Return the oracle of a task with one gold call dropped or changed, and how many gold calls it can still match.

    A task without gold calls gets the policy that does nothing.
    """
    if not task.calls:
        return EmptyPolicy(), 0
    victim = rng.choice(task.calls)
    lost = _dependent(task, victim.id)
    plain = [name for name, value in victim.arguments.items() if not upstream(value)]
    if plain and rng.random() < 0.5:
        changed = replace(victim, arguments=_changed(victim.arguments, rng.choice(plain)))
        calls = tuple(changed if call is victim else call for call in task.calls)
    else:
        calls = tuple(call for call in task.calls if call.id not in lost)
    facts = tuple(fact for fact in task.facts if fact.call not in lost)
    return OraclePolicy([replace(task, calls=calls, facts=facts)]), len(task.calls) - len(lost)


def _dependent(task: Task, victim: str) -> set[str]:
    """Return a call's id and those of all calls that need its result."""
    lost = {victim}
    for call in task.calls:  # upstream calls come first
        if lost.intersection(upstream(call.arguments)):
            lost.add(call.id)
    return lost


def _changed(arguments: JsonObject, name: str) -> JsonObject:
    return {**arguments, name: _other(arguments[name])}


def _other(value: JsonValue) -> JsonValue:
    """Return a value of the same type that is surely another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 987_654_321
    if isinstance(value, str):
        return f"{WRONG} {value}"
    return [WRONG] if isinstance(value, list) else {WRONG: value}


def gold_calls(calls: list[tuple[str, JsonObject]]) -> tuple[GoldCall, ...]:
    """Return calls as gold calls, numbered in order."""
    return tuple(GoldCall(f"c{number}", name, arguments) for number, (name, arguments) in enumerate(calls, 1))

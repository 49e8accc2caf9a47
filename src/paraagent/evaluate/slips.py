"""Lets a policy make mistakes at a known rate, so that samples of a built-in one differ.

Place in the flow: layer 5, for `scaling`: curves and selectors can be seen at work without a model. A slip spoils one
literal argument of one call. Slips follow from (seed, request, turn) alone. Limits: searches and answers are left as
they are; a call whose arguments are all links is not spoilt.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from paraagent.agent.context import Context
from paraagent.protocol.grammar import parse
from paraagent.protocol.links import upstream
from paraagent.protocol.render import render
from paraagent.types import Call, JsonValue, Policy, Reply


class SlippingPolicy:
    """A policy whose turns with calls are each spoilt with probability `rate`."""

    def __init__(self, policy: Policy, rate: float, seed: int) -> None:
        self.name = f"{policy.name}+slips"
        self._policy = policy
        self._rate = rate
        self._seed = seed

    async def act(self, context: Context) -> Reply:
        reply = await self._policy.act(context)
        turn = parse(reply.text)
        rng = Random(f"{self._seed}/{len(context.exchanges)}/{context.request}")
        chances = [
            (index, name)
            for index, call in enumerate(turn.calls)
            if isinstance(call, Call)
            for name, value in call.arguments.items()
            if not upstream(value)
        ]
        if rng.random() >= self._rate or not chances:
            return reply
        index, name = rng.choice(chances)
        calls = list(turn.calls)
        call = calls[index]
        assert isinstance(call, Call)
        calls[index] = replace(call, arguments=call.arguments | {name: _other(call.arguments[name])})
        return replace(reply, text=render(replace(turn, calls=tuple(calls))))


def _other(value: JsonValue) -> JsonValue:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return f"{value}0" if isinstance(value, str) else None

"""Charges a policy without a model what a model would take: seconds and tokens per turn, alike for every paradigm.

Place in the flow: layer 5, used to compare paradigms on the virtual clock. A turn takes `start` seconds (network,
queue, prompt) and its tokens at `speed` per second; a token is four characters. The input of a turn is the whole
prompt so far. Limits: an estimate; with a real model, use its own time and tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paraagent.agent.context import Context
from paraagent.types import Policy, Reply, Usage

CHARACTERS = 4
"""Of one token, in English text and JSON."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a turn costs."""

    start: float = 1.0
    """Seconds until the first token."""
    speed: float = 50.0
    """Tokens per second."""

    def seconds(self, tokens: int) -> float:
        return self.start + tokens / self.speed


class PricedPolicy:
    """A policy that takes its time.

    Args:
        free_turns: turns at the start of an episode that no model is asked for.
    """

    def __init__(self, policy: Policy, price: Price | None = None, free_turns: int = 0) -> None:
        self.name = policy.name
        self._policy = policy
        self._price = price or Price()
        self._free_turns = free_turns

    async def act(self, context: Context) -> Reply:
        reply = await self._policy.act(context)
        if len(context.exchanges) < self._free_turns:
            return reply
        written = -(-len(reply.text) // CHARACTERS)
        read = sum(len(message.content) for message in context.messages) // CHARACTERS
        return replace(reply, usage=Usage(read, written), seconds=self._price.seconds(written))

"""Charges what a typical model would take for a turn, in seconds and tokens, alike for every paradigm.

Place in the flow: layer 5, used to compare paradigms on the virtual clock. A turn takes

    start + (thought + written) / speed   seconds

where `written` is the turn's own text at four characters a token, and `thought` stands for the reasoning that a model
writes before it, since the thoughts of built-in policies are a few words. Read is the whole prompt so far.
Limits: an estimate, to be varied; `bench/baselines.py` prints where the order of paradigms turns over.
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
    """Seconds until the first token: network, queue, prompt."""
    thought: int = 200
    """Tokens of reasoning per turn."""
    speed: float = 50.0
    """Tokens per second."""

    def seconds(self, written: int) -> float:
        """Return what a turn of so many tokens takes."""
        return self.start + (self.thought + written) / self.speed


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

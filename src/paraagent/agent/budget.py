"""What one episode may spend, and what is left of it.

Place in the flow: layer 3; `loop` asks before every turn and every action. Limits are hard: an action beyond one is
not run, the agent is told, and insisting ends the episode as truncated.
Tokens and money are reserved before they are spent: a turn is asked for only if its whole prompt, as nothing were
cached, and an answer fit into what is left, and its reply is given no more tokens than fit. A prompt's size is known
up to the last reply; what has come since counts one token per byte, which no byte-level tokenizer exceeds. When a
further turn would leave too little for an answer, the agent is told that the turn is its last.
Limits: a model that writes more than it is allowed, and attempts that broke off, are beyond what can be reserved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paraagent.agent.prices import Price
from paraagent.errors import UsageError
from paraagent.types import StopReason, Usage

SHORTEST_ANSWER = 256
"""Output tokens without which it is not worth asking for an answer."""
FIRST_GROWTH = 4_000
"""Tokens by which a prompt is expected to grow in a turn, before that could be seen."""
_FRAME = 16
"""Tokens that a chat template may put around a message."""
_NOTHING = Usage()
_LAST_TURN = "This is the last turn: write the <answer> now, with what is known."
_NEARLY = {
    "token_limit": "The token budget is nearly used up. ",
    "money_limit": "The money budget is nearly used up. ",
    "time_limit": "The time budget is nearly used up. ",
}


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one episode; None means no limit."""

    turns: int = 15
    searches: int | None = 60
    calls: int | None = 100
    tokens: int | None = None
    """Input and output tokens of all model calls together."""
    seconds: float | None = None
    """On the episode's clock."""
    money: float | None = None
    """In the currency of `price`."""
    price: Price | None = None
    """What the model costs; without a money limit it is only recorded."""
    reply_tokens: int = 4_096
    """The most that a model may write in one turn; so much is reserved where tokens or money are limited."""

    def __post_init__(self) -> None:
        for name in ("turns", "searches", "calls", "tokens", "seconds", "money", "reply_tokens"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"the {name} budget must be above 0, not {value}")
        if self.money is not None and self.price is None:
            raise UsageError("a money budget needs the model's price: give a table of prices that has it")


class Spending:
    """Keeps count against a budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.turns = 0
        self.searches = 0
        self.calls = 0
        self.tokens = 0
        self.money = 0.0
        self._known = 0
        """Tokens of the prompt up to and with the last reply."""
        self._unseen = 0
        """The most tokens that came to the prompt since."""
        self._growth = FIRST_GROWTH
        self._longest = 0.0
        """Seconds of the longest turn so far."""
        self._last: StopReason | None = None
        """Which budget the agent was told to make its next turn the last for."""
        self._last_after = 0
        """How many turns there were when it was told."""
        self._refused: set[StopReason] = set()

    @property
    def turns_left(self) -> int:
        return 1 if self._last else self.budget.turns - self.turns

    @property
    def reply_tokens(self) -> int | None:
        """The most tokens that the next reply may take; None if nothing limits it."""
        room, _ = self._room(self._prompt)
        return None if room == math.inf else min(self.budget.reply_tokens, int(room))

    @property
    def deadline(self) -> float | None:
        """Seconds on the clock at which calls must end, so that there is time left for an answer."""
        seconds = self.budget.seconds
        return None if seconds is None else seconds - min(self._longest, seconds / 2)

    def seconds_left(self, now: float) -> float | None:
        return None if self.budget.seconds is None else max(0.0, self.budget.seconds - now)

    def add_prompt(self, text: str) -> None:
        """Count a message that was appended to the prompt."""
        self._unseen += _at_most(text)

    def add_turn(self, usage: Usage, seconds: float = 0.0) -> float | None:
        """Count a model call and return its cost, None without a price.

        If tokens or money are limited and the provider does not report usage, all that was reserved counts as spent.
        """
        if not (usage.input_tokens or usage.output_tokens):
            usage = Usage(self._prompt, self.reply_tokens or 0) if self._reserves else usage
        price = self.budget.price
        cost = None if price is None else price.cost(usage)
        self.turns += 1
        self.tokens += usage.input_tokens + usage.output_tokens
        self.money += cost or 0.0
        if self.turns > 1:
            self._growth = max(self._growth, self._unseen)
        self._known = usage.input_tokens + usage.output_tokens + _FRAME
        self._unseen = 0
        self._longest = max(self._longest, seconds)
        return cost

    def exhausted(self, now: float) -> StopReason | None:
        """Return why no further turn may start, if so."""
        if self.budget.turns <= self.turns:
            return "turn_limit"
        room, reason = self._room(self._prompt)
        if room < SHORTEST_ANSWER:
            return reason
        if self.budget.seconds is not None and now >= self.budget.seconds:
            return "time_limit"
        return self._last if self.turns > self._last_after else None

    def last_turn(self, now: float, coming: str) -> str | None:
        """Return what to tell the agent if its next turn must be the last: the text that announces it.

        Args:
            coming: what will be appended to the prompt.
        """
        if self._last is None:
            self._last, self._last_after = self._why_last(now, _at_most(coming)), self.turns
        return None if self._last is None else _NEARLY.get(self._last, "") + _LAST_TURN

    def _why_last(self, now: float, coming: int) -> StopReason | None:
        """Return why there can be no turn after the next one, if it is as large as it may be."""
        if self.budget.turns - self.turns <= 1:
            return "turn_limit"
        prompt = self._prompt + coming
        room, _ = self._room(prompt)
        reply = max(0, int(min(self.budget.reply_tokens, room)))
        room, reason = self._room(prompt + reply + self._growth, Usage(prompt, reply))
        if room < SHORTEST_ANSWER:
            return reason
        if self.budget.seconds is not None and now + 2 * self._longest > self.budget.seconds:
            return "time_limit"
        return None

    @property
    def _prompt(self) -> int:
        """The most tokens that the prompt may have now."""
        return self._known + self._unseen

    @property
    def _reserves(self) -> bool:
        return self.budget.tokens is not None or self.budget.money is not None

    def _room(self, prompt: int, before: Usage = _NOTHING) -> tuple[float, StopReason]:
        """Return how many output tokens a turn with this prompt may take, and which budget says so.

        Below 0 the prompt alone is too much; infinity if neither tokens nor money are limited. `before` comes first.
        """
        budget = self.budget
        room: float = math.inf
        if budget.tokens is not None:
            room = budget.tokens - self.tokens - before.input_tokens - before.output_tokens - prompt
        if budget.money is not None and budget.price is not None:
            left = budget.money - self.money - budget.price.cost(before) - budget.price.prompt(prompt)
            if (affordable := budget.price.affords(left)) < room:
                return affordable, "money_limit"
        return room, "token_limit"

    def take_searches(self, wanted: int) -> int:
        """Reserve searches and return how many of the wanted ones may run."""
        allowed = wanted if self.budget.searches is None else min(wanted, self.budget.searches - self.searches)
        self.searches += allowed
        return allowed

    def take_calls(self, wanted: int) -> int:
        """Reserve calls and return how many of the wanted ones may run."""
        allowed = wanted if self.budget.calls is None else min(wanted, self.budget.calls - self.calls)
        self.calls += allowed
        return allowed

    def insists(self, reason: StopReason) -> bool:
        """Note that nothing was left for a turn's actions; True if the agent had been told so before."""
        told = reason in self._refused
        self._refused.add(reason)
        return told


def _at_most(text: str) -> int:
    """Return a number of tokens that a message cannot exceed."""
    return len(text.encode("utf-8", "replace")) + _FRAME

"""One demonstration: the chat as the model sees it, which of its turns are to be learned, and what is known about it.

Place in the flow: layer 5; made from a played episode by `from_view`, written and read by `formats`, trained on by
`train`. `loss` marks the assistant messages to learn from. Turns that turned out mistaken stay in the chat, since
what follows mends them, but are not learned: those with a call that failed by the agent's own fault, and searches
that showed nothing the episode used.
Limits: `tokens` is an estimate of four characters each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from paraagent.env.task import Task
from paraagent.errors import ERROR_TRAITS
from paraagent.protocol.links import upstream
from paraagent.trace.view import CallView, EpisodeView, TurnView
from paraagent.types import JsonObject, Message

Recovery = Literal["retry", "switch", "correction", "requery"]
CHARACTERS_PER_TOKEN = 4.0
DATASET = "toolenv"


@dataclass(frozen=True, slots=True)
class Demo:
    """One demonstration; made here or read from a file."""

    task_id: str
    messages: tuple[Message, ...]
    loss: tuple[bool, ...]
    """One per message; True only for assistant messages."""
    kind: str = ""
    """The task's kind; empty where it is not known."""
    split: str = ""
    dataset: str = DATASET
    meta: JsonObject = field(default_factory=dict)
    """What else is known: see `from_view`; for a row from elsewhere, its further fields."""

    @property
    def request(self) -> str:
        return next((message.content for message in self.messages if message.role == "user"), "")

    @property
    def tokens(self) -> int:
        """About how many tokens the whole chat has."""
        return round(sum(len(message.content) for message in self.messages) / CHARACTERS_PER_TOKEN)

    def learned(self) -> Iterator[Message]:
        """Yield the messages to learn from."""
        return (message for message, wanted in zip(self.messages, self.loss, strict=True) if wanted)

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yield the chat in ChatML as (text, learn) pieces, to be tokenised one by one and joined.

        An assistant's text and its end mark are learned, the header before them is not. Tokenised piecewise, a mask
        is exact and no text is ever rendered twice.
        """
        for message, wanted in zip(self.messages, self.loss, strict=True):
            yield f"<|im_start|>{message.role}\n", False
            yield f"{message.content}<|im_end|>", wanted
            yield "\n", False


def from_view(view: EpisodeView, task: Task, *, experts: str) -> Demo:
    """Make a demonstration of an episode; its `meta` says who played it, how large it is and what it shows."""
    turns = iter(view.turns)
    called = {call.name for call in view.calls}
    loss = tuple(message.role == "assistant" and not mistaken(next(turns), called) for message in view.messages)
    tokens = view.measures.tokens
    meta: JsonObject = {
        "experts": experts,
        "links": sum(len(upstream(call.end.raw_arguments)) for call in view.calls if call.end),
        "world_seed": task.seed,
        "width": task.width,
        "depth": task.depth,
        "turns": len(view.turns),
        "searches": view.measures.searches,
        "calls": view.measures.calls,
        "recovery": [*recoveries(view)],
        "tools": [*sorted(called)],
    }
    if tokens:
        meta["model_tokens"] = tokens  # what the model that played roles has read and written
    return Demo(task.id, tuple(view.messages), loss, task.kind, task.split, meta=meta)


def mistaken(turn: TurnView, called: set[str]) -> bool:
    """Tell whether a turn must not be learned.

    Args:
        called: all tools that the episode called; if there are none, no search could have shown a useful one.
    """
    return any(map(blunder, turn.calls)) or (bool(called) and bool(fruitless(turn, called)))


def blunder(call: CallView) -> bool:
    """Tell whether a call failed by the agent's own fault."""
    error = call.end.error if call.end else None
    return error is not None and ERROR_TRAITS[error].fault == "agent" and not (call.end and call.end.injected)


def fruitless(turn: TurnView, called: set[str]) -> list[str]:
    """Return the slots of a turn's searches that showed none of the tools that were called."""
    return [search.slot for search in turn.searches if called.isdisjoint(name for name, _ in search.hits)]


def recoveries(view: EpisodeView) -> Sequence[Recovery]:
    """Return in which ways the episode got over something, each once."""
    calls = list(view.calls)
    well = {call.name for call in calls if call.ok}
    failed = {call.name for call in calls if call.end and call.end.error and call.end.error != "cancelled"}
    blunders = {call.name for call in calls if blunder(call)}
    slots = [search.slot for search in view.searches]
    ways: dict[Recovery, bool] = {
        "retry": bool((failed - blunders) & well),
        "switch": bool(failed - well),
        "correction": bool(blunders & well),
        "requery": bool(calls) and len(slots) > len(set(slots)),
    }
    return [way for way, taken in ways.items() if taken]

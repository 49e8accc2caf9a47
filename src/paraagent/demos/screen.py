"""Decides which played episodes become demonstrations, and says why the others do not.

Place in the flow: layer 5, between playing and writing. Kept is what a program has verified, what breaks no rule of
the protocol, what does nothing in vain, and what an agent could have known: every name and value in a call must stand
in a message before it. Turns that are not learned from (`demo.mistaken`) are exempt from that last rule.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from paraagent.demos.demo import Demo, blunder, fruitless, mistaken
from paraagent.demos.shown import holds, scalars
from paraagent.env.task import Task
from paraagent.protocol.links import upstream
from paraagent.reward.replay import replay
from paraagent.reward.rules import DEFAULT
from paraagent.trace.events import Note
from paraagent.trace.view import CallView, EpisodeView

Refusal = Literal[
    "model_failed",  # a role could not be played
    "unsolved",  # the verifier does not accept it
    "protocol",  # a turn breaks the grammar
    "plan",  # a turn departs from its plan, or a plan is missing or not due
    "budget",  # the agent was told that something is used up
    "repeated",  # an action repeats an earlier one
    "wasted_search",  # a search showed nothing that was used and was not put right, or showed it again
    "wasted_call",  # a call more than the task needs
    "unshown",  # a call holds a name or a value that no message has shown
    "unseen_fact",  # the answer states what was cut out of the result that the model was shown
    "too_long",
]
MAX_ASKS = 2
"""Searches a slot may take, the first included."""


def refusal(view: EpisodeView, task: Task, demo: Demo, max_tokens: int) -> Refusal | None:
    """Return the first reason not to keep an episode, or None if it is a good demonstration."""
    end = view.end
    if end is None or end.mask_sample:
        return "model_failed"
    if not end.success:
        return "unsolved"
    for note in view.events:
        if isinstance(note, Note):
            return note.kind
    if any(played.repeats for played in replay(view, DEFAULT)):
        return "repeated"
    if _wastes_searches(view, task):
        return "wasted_search"
    if _wastes_calls(view, task):
        return "wasted_call"
    if not _calls_are_shown(view):
        return "unshown"
    told = "\n".join(message.content for message in view.messages if message.role == "user")
    if not all(holds(told, value) for fact in task.facts for value in scalars(fact.value)):
        return "unseen_fact"
    return "too_long" if demo.tokens > max_tokens else None


def _wastes_searches(view: EpisodeView, task: Task) -> bool:
    called = {call.name for call in view.calls}
    asked = Counter(search.slot for search in view.searches)
    if any(times > MAX_ASKS for times in asked.values()):
        return True
    if not called:
        return len(asked) > len(task.slots)
    in_vain = Counter(slot for turn in view.turns for slot in fruitless(turn, called))
    fruitful = sum(asked.values()) - sum(in_vain.values())
    return fruitful > len(called) or any(times >= asked[slot] for slot, times in in_vain.items())


def _wastes_calls(view: EpisodeView, task: Task) -> bool:
    calls = list(view.calls)
    succeeded = sum(call.ok for call in calls)
    needless = not task.calls and bool(calls)
    return needless or succeeded > len(task.calls) or sum(map(blunder, calls)) > 1


def _calls_are_shown(view: EpisodeView) -> bool:
    """Tell whether what the calls hold stood in messages before them."""
    called = {call.name for call in view.calls}
    turns = iter(view.turns)
    told = ""
    for message in view.messages:
        if message.role == "user":
            told += message.content + "\n"
        elif message.role == "assistant":
            turn = next(turns)
            if not mistaken(turn, called) and not all(_is_shown(call, told) for call in turn.calls):
                return False
    return True


def _is_shown(call: CallView, told: str) -> bool:
    written = call.end.raw_arguments or call.arguments if call.end else call.arguments
    for name, value in written.items():
        values = () if upstream(value) else scalars(value)
        if name not in told or not all(holds(told, one) for one in values):
            return False
    return True

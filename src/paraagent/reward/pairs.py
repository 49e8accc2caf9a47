"""A language model that compares two attempts at one request: which serves it better?

Place in the flow: layer 4, beside `judge`; `scaling` chooses among samples by it. Every pair is asked about in both
orders, so a liking for the first or the second evens out. A pair of which either order cannot be judged is masked and
is never a verdict. Limits: like any judge it has no reference answer.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from paraagent.reward.asking import Asker, Unjudged
from paraagent.reward.judge_prompt import MATERIAL, WORK_CAP, fenced, work
from paraagent.trace.plain import one_line
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Message, Policy

SYSTEM = f"""\
You are a strict, fair judge. Two assistants were asked the same by a user. Each worked with tools (it searched for
them and called them) and answered. You are given the case as one line of JSON with the keys request, first and
second; first and second each hold one assistant's work and answer. {MATERIAL}

Decide which answer serves the request better: it delivers more of what the request wants to be told or done,
concretely, and the results in its own work bear out what it says. A value that no result bears out counts against an
answer, however plausible it sounds; saying honestly that something failed is better than making it up. Which stands
first, which is longer and which is better phrased does not count.

Reply with one JSON object and nothing else, the verdict being FIRST or SECOND:
{{"reason": "one sentence", "better": "..."}}"""

_VERDICT = re.compile(r'"better"\s*:\s*"(FIRST|SECOND)"', re.IGNORECASE)
_REASON = re.compile(r'"reason"\s*:\s*"((?:[^"\\]|\\.)*)"')
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Preference:
    """A verdict on two attempts in one order."""

    better: Literal["FIRST", "SECOND"]
    reason: str = ""


class PairJudge:
    """Asks a model.

    Args:
        model: writes the verdicts; best at temperature 0.
        cache: a directory; a pair that a model of this name has compared before is not asked about again.
    """

    def __init__(self, model: Policy, cache: Path | None = None) -> None:
        self._asker = Asker(model, Preference, read_preference, cache)

    async def compare(self, one: EpisodeView, other: EpisodeView) -> float | None:
        """Return in which share of both orders the first of two finished episodes is preferred: 0, 0.5 or 1.

        Never raises for what the model does: None if it could not judge. Without an answer an episode has lost.

        Raises:
            EnvironmentFault: the cache cannot be written.
        """
        answered = [bool((view.answer or "").strip()) for view in (one, other)]
        if not all(answered):
            return 0.5 if not any(answered) else float(answered[0])
        forth, back = await asyncio.gather(
            self._asker.verdict(pair(one, other)), self._asker.verdict(pair(other, one))
        )
        if isinstance(forth, Unjudged) or isinstance(back, Unjudged):
            return None
        return ((forth.better == "FIRST") + (back.better == "SECOND")) / 2


def pair(first: EpisodeView, second: EpisodeView) -> list[Message]:
    """Return the messages that ask which of two attempts at the first one's request is better."""
    told: JsonObject = {"request": first.request, "first": _attempt(first), "second": _attempt(second)}
    return [Message("system", SYSTEM), Message("user", fenced(told))]


def read_preference(text: str) -> Preference | None:
    """Read the verdict out of a reply, also out of one cut short; None unless it stands there exactly once."""
    said = _THOUGHT.sub("", text)
    found = _VERDICT.findall(said)
    if len(found) != 1:
        return None
    reason = _REASON.search(said)
    record = {"better": found[0].upper(), "reason": one_line(reason[1], 300) if reason else ""}
    return msgspec.convert(record, Preference)


def _attempt(view: EpisodeView) -> JsonObject:
    return {"work": work(view, WORK_CAP // 2), "answer": view.answer}

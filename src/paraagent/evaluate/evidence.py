"""How well an answer rests on what its own episode found: a verifier that knows no solution.

Place in the flow: layer 5, one of the ways in which `scaling` chooses among samples; any agent could run it on itself
for free. The score is the mean of three parts, each 0 to 1, and 0 without an answer:

    grounded   share of the answer's values (numbers, and words with a digit) that stand in the request or a result
    resolved   share of the called tools whose last call succeeded
    warranted  1 for an answer after successful calls, or one that declines after searches and no successful call;
               0 for one that declines what was found; 1/2 for one that rests on no action

Limits: it sees what an answer claims, not whether that was what was asked for.
"""

from __future__ import annotations

import json
import re

from paraagent.env.states import numbers
from paraagent.env.verify import declines
from paraagent.trace.view import EpisodeView

_WORD_WITH_DIGIT = re.compile(r"\b(?=\w*\d)(?=\w*[^\W\d])[\w.:-]*\w")


def evidence(view: EpisodeView) -> float:
    """Return the score of an episode, 0 to 1."""
    if not (view.answer or "").strip():
        return 0.0
    return (_grounded(view) + _resolved(view) + _warranted(view)) / 3


def _grounded(view: EpisodeView) -> float:
    results = [json.dumps(call.end.value, ensure_ascii=False) for call in view.calls if call.ok and call.end]
    known = "\n".join([view.request, *results])
    answer = view.answer or ""
    words = {word.casefold() for word in _WORD_WITH_DIGIT.findall(answer)}
    values, seen = set(numbers(answer)), set(numbers(known))
    total = len(words) + len(values)
    if not total:
        return 1.0
    return (sum(word in known.casefold() for word in words) + len(values & seen)) / total


def _resolved(view: EpisodeView) -> float:
    last = {call.name: call.ok for call in view.calls}
    return sum(last.values()) / len(last) if last else 1.0


def _warranted(view: EpisodeView) -> float:
    found = any(call.ok for call in view.calls)
    if declines(view.answer or ""):
        return 0.0 if found else 1.0 if any(view.searches) else 0.5
    return 1.0 if found else 0.5

"""A language model as judge, for episodes that no program can verify.

Place in the flow: layer 4; its judgement is an input to `score`. Any `Policy` can judge, so any OpenAI-compatible
endpoint can: `Judge(HttpPolicy(HttpConfig("model", temperature=0)))`. Three verdicts; the one contradictory
combination (the answer delivers all and is borne out by results that hold none of it) is asked about once more. What
cannot be judged masks the episode and is never a verdict. Limits: a judge has no reference answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from paraagent.reward.asking import Asker, Unjudged
from paraagent.reward.judge_prompt import case
from paraagent.trace.plain import one_line
from paraagent.trace.view import EpisodeView
from paraagent.types import Policy

Verdict = Literal["YES", "PARTIAL", "NO"]
"""All, at least half, or less of what was counted."""

_WORTH: dict[Verdict, float] = {"YES": 1.0, "PARTIAL": 0.5, "NO": 0.0}
_PUBLISHED = {
    (False, False, False): -0.5,
    (False, False, True): 0.0,
    (False, True, False): -0.5,
    (False, True, True): 0.5,
    (True, False, False): -0.5,
    (True, False, True): 0.0,
    (True, True, False): 0.5,
    (True, True, True): 1.5,
}
_VERDICT = re.compile(r'"(utility|faithfulness|quality)"\s*:\s*"(YES|PARTIAL|NO)"', re.IGNORECASE)
_REASON = re.compile(r'"reason"\s*:\s*"((?:[^"\\]|\\.)*)"')
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)
_REFUSAL = re.compile(
    r"\b(sorry|cannot|can't|unable|unknown|n/?a|none|no answer|not (?:found|available|possible))\b", re.I
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Three independent verdicts on an episode."""

    quality: Verdict
    """Does the answer deliver what was asked?"""
    faithfulness: Verdict
    """Do results bear out what the answer says?"""
    utility: Verdict
    """Do the results hold what was needed?"""
    reason: str
    rejudged: bool = False
    """The first judgement contradicted itself, and this is the second."""

    @property
    def clean(self) -> bool:
        return self.quality == self.faithfulness == self.utility == "YES"

    @property
    def contradictory(self) -> bool:
        return (self.quality, self.faithfulness, self.utility) == ("YES", "YES", "NO")

    def value(self) -> float:
        """Return the outcome in [0, 1]: faithfulness * (quality + utility) / 2, PARTIAL counting half."""
        return _WORTH[self.faithfulness] * (_WORTH[self.quality] + _WORTH[self.utility]) / 2

    def published_value(self) -> float:
        """Return the outcome of the published table over strict verdicts, PARTIAL counting as NO."""
        return _PUBLISHED[self.quality == "YES", self.faithfulness == "YES", self.utility == "YES"]

    def describe(self) -> str:
        verdicts = f"quality {self.quality}, faithfulness {self.faithfulness}, utility {self.utility}"
        return f"judged: {verdicts} ({self.reason})"


class Judge:
    """Asks a model.

    Args:
        model: writes the judgement; best at temperature 0.
        cache: a directory; a case that was judged before by a model of this name is not asked about again.
    """

    def __init__(self, model: Policy, cache: Path | None = None) -> None:
        self._asker = Asker(model, Judgement, read_judgement, cache)

    async def judge(self, view: EpisodeView) -> Judgement | Unjudged:
        """Judge one finished episode; never raises for what the model does.

        Raises:
            EnvironmentFault: the cache cannot be written.
        """
        answer = (view.answer or "").strip()
        if not answer or (len(answer.split()) <= 4 and _REFUSAL.search(answer)):
            return Judgement("NO", "NO", "NO", "no answer" if not answer else "the answer only declines")
        messages = case(view)
        if (known := self._asker.known(messages)) is not None:
            return known
        judged = await self._asker.ask(messages)
        if isinstance(judged, Judgement) and judged.contradictory:
            second = await self._asker.ask(case(view, contradicted=True))
            judged = replace(second, rejudged=True) if isinstance(second, Judgement) else judged
        if isinstance(judged, Judgement):
            self._asker.keep(messages, judged)
        return judged


def read_judgement(text: str) -> Judgement | None:
    """Read the verdicts out of a reply, also out of one cut short; None unless each stands there exactly once."""
    said = _THOUGHT.sub("", text)
    found = [(match[1].lower(), match[2].upper()) for match in _VERDICT.finditer(said)]
    if sorted(name for name, _ in found) != ["faithfulness", "quality", "utility"]:
        return None
    reason = _REASON.search(said)
    return msgspec.convert(dict(found) | {"reason": one_line(reason[1], 300) if reason else ""}, Judgement)

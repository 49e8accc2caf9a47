"""A language model as judge, for episodes that no program can verify.

Place in the flow: layer 4; its judgement is an input to `score`. Any `Policy` can judge, so any OpenAI-compatible
endpoint can: `Judge(HttpPolicy(HttpConfig("model", temperature=0)))`. Three verdicts; the one contradictory
combination (the answer delivers all and is borne out by results that hold none of it) is asked about once more. What
cannot be judged masks the episode and is never a verdict. Limits: a judge has no reference answer.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from paraagent.agent.context import Context
from paraagent.errors import EnvironmentFault, ModelError
from paraagent.reward.judge_prompt import AGAIN, case
from paraagent.trace.plain import one_line
from paraagent.trace.view import EpisodeView
from paraagent.types import Message, Policy

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


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Why there is no judgement; the episode is masked."""

    failure_kind: str
    """`judge_failed`, `judge_unparseable` or `not_judged`."""
    reason: str


class Judge:
    """Asks a model.

    Args:
        model: writes the judgement; best at temperature 0.
        cache: a directory; a case that was judged before by a model of this name is not asked about again.
    """

    def __init__(self, model: Policy, cache: Path | None = None) -> None:
        self._model = model
        self._cache = cache

    async def judge(self, view: EpisodeView) -> Judgement | Unjudged:
        """Judge one finished episode; never raises for what the model does.

        Raises:
            EnvironmentFault: the cache cannot be written.
        """
        answer = (view.answer or "").strip()
        if not answer or (len(answer.split()) <= 4 and _REFUSAL.search(answer)):
            return Judgement("NO", "NO", "NO", "no answer" if not answer else "the answer only declines")
        messages = case(view)
        path = self._path(messages)
        if path is not None and (known := _read(path)) is not None:
            return known
        judged = await self._ask(messages)
        if isinstance(judged, Judgement) and judged.contradictory:
            second = await self._ask(case(view, contradicted=True))
            judged = replace(second, rejudged=True) if isinstance(second, Judgement) else judged
        if path is not None and isinstance(judged, Judgement):
            _write(path, judged)
        return judged

    async def _ask(self, messages: Sequence[Message]) -> Judgement | Unjudged:
        """Ask, and once more if the reply cannot be read."""
        told = list(messages)
        try:
            for _ in range(2):
                reply = await self._model.act(Context("", messages=told))
                if (judged := read_judgement(reply.text)) is not None:
                    return judged
                told += [Message("assistant", reply.text), Message("user", AGAIN)]
        except ModelError as error:
            return Unjudged("judge_failed", f"the judge could not be asked: {error}")
        return Unjudged("judge_unparseable", f"the judge gave no verdicts: {one_line(reply.text, 120)}")

    def _path(self, messages: Sequence[Message]) -> Path | None:
        if self._cache is None:
            return None
        content = "\n".join([self._model.name, *(message.content for message in messages)])
        return self._cache / f"{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}.json"


def read_judgement(text: str) -> Judgement | None:
    """Read the verdicts out of a reply, also out of one cut short; None unless each stands there exactly once."""
    said = _THOUGHT.sub("", text)
    found = [(match[1].lower(), match[2].upper()) for match in _VERDICT.finditer(said)]
    if sorted(name for name, _ in found) != ["faithfulness", "quality", "utility"]:
        return None
    reason = _REASON.search(said)
    return msgspec.convert(dict(found) | {"reason": one_line(reason[1], 300) if reason else ""}, Judgement)


def _read(path: Path) -> Judgement | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Judgement)
    except (OSError, msgspec.DecodeError):
        return None


def _write(path: Path, judged: Judgement) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(msgspec.json.encode(asdict(judged)))
        part.replace(path)
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot keep the judgement there ({error.strerror})") from error

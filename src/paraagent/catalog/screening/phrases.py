"""How suspicious phrases are written down and looked for.

Place in the flow: layer 1, between `screen` and the tables in `steering` and `taking`. Patterns read
plain text: lower case, one space between words. A phrase is looked for only where one of its needles stands, since
there are millions of texts. A medium phrase alone also occurs in honest text; `screen` takes two different ones in
the same tool for high.
Limits: a list of phrases finds what was thought of; wording that avoids all of them passes. Other languages than
English are known by the commonest phrase only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paraagent.catalog.screening.mark import Mark, Rule, Severity

WHO = r"(?:the |any |your |a )?(?:end[- ])?(?:user|human|operator|person)s?"
GAP = r"[^.!?]"
NOT = (
    r"(?:do not|don't|never|must not|mustn't|should not|shouldn't|may not|cannot|refrain from|avoid|no need to"
    r"|needn't|not to)"
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """One way of saying something suspicious."""

    rule: Rule
    severity: Severity
    needles: tuple[str, ...]
    """One of these stands in every text that the pattern matches."""
    pattern: re.Pattern[str]


def phrase(rule: Rule, severity: Severity, needles: str, *alternatives: str) -> Phrase:
    """Return a phrase; its needles stand apart by spaces, with + for a space inside one."""
    pattern = "|".join(f"(?:{one})" for one in alternatives)
    return Phrase(rule, severity, tuple(needle.replace("+", " ") for needle in needles.split()), re.compile(pattern))


def find(phrases: Sequence[Phrase], texts: Sequence[str]) -> Iterator[tuple[int, Phrase, Mark]]:
    """Yield the phrases in some plain texts, each at most once a text, with the text's index."""
    together = " .! ".join(texts)  # no pattern reaches over the end of a sentence
    for phrase in phrases:
        if any(needle in together for needle in phrase.needles) and phrase.pattern.search(together):
            for index, text in enumerate(texts):
                if match := phrase.pattern.search(text):
                    yield index, phrase, Mark(phrase.rule, phrase.severity, *match.span())

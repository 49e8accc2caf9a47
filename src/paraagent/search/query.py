"""One search as the index sees it: weighted terms, wanted effects, and how much of it is unknown.

Place in the flow: layer 2, between `tokens` and `search`. The slot's name and the query's words count alike.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from paraagent.search.fields import Weights, intents
from paraagent.search.lexical import Lexicon
from paraagent.search.tokens import MAX_CHARACTERS, STOP_WORDS, compounds, parts, stem
from paraagent.types import Search

MAX_TERMS = 96
"""Only so many different terms of a query are looked up: the rarest."""


@dataclass(frozen=True, slots=True)
class Query:
    """A search against one index."""

    terms: tuple[int, ...]
    """Terms of the index, ascending."""
    words: tuple[str, ...]
    """How the query spells each term first."""
    weights: tuple[float, ...]
    effects: tuple[int, ...]
    """Effect terms that the query's verbs ask for."""
    intent: float
    """Weight of each effect."""
    unknown: int
    """Different words that no tool holds; names and numbers aside, since they tend to be arguments."""

    def weighted(self) -> list[tuple[int, float]]:
        return [*zip(self.terms, self.weights, strict=True), *((effect, self.intent) for effect in self.effects)]


def read(search: Search, lexicon: Lexicon, weights: Weights) -> Query:
    """Return what a search asks of an index."""
    text = f"{search.slot} {search.query}"[:MAX_CHARACTERS]
    words = parts(text)
    spelled: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for word in words:
        if word not in STOP_WORDS:
            counts[stem(word)] += 1
            spelled.setdefault(stem(word), word)
    vocabulary = lexicon.vocabulary
    names = {part for word in text.split() if word.lstrip("\"'`([")[:1].isupper() for part in parts(word)}
    unknown = sum(t not in vocabulary and t.isalpha() and spelled[t] not in names for t in counts)
    for name in compounds(text):
        counts[name] += 1
        spelled.setdefault(name, name)
    known = {vocabulary[term]: term for term in counts if term in vocabulary}
    chosen = sorted(sorted(known, key=lambda term: (-lexicon.idf[term], term))[:MAX_TERMS])
    return Query(
        tuple(chosen),
        tuple(spelled[known[term]] for term in chosen),
        tuple(math.pow(counts[known[term]], weights.repeat) for term in chosen),
        tuple(vocabulary[effect] for effect in intents(words) if effect in vocabulary),
        weights.intent,
        unknown,
    )

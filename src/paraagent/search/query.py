"""One search as an index sees it: weighted terms, wanted and ruled-out effects, how much is unknown; and its scores.

Place in the flow: layer 2, between `lexical` and `search`. The slot's name and the query's words count alike. A word
that no tool holds is replaced by one that differs only in its ending, as `conversion` by `convert`, if there is one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paraagent.search.fields import Weights, changes, effect_term, intents, plain_verb
from paraagent.search.lexical import Lexicon
from paraagent.search.tokens import MAX_CHARACTERS, compounds, parts, stem, telling
from paraagent.types import Search

MAX_TERMS = 96
"""Only so many different terms of a query are looked up: the rarest."""


@dataclass(frozen=True, slots=True)
class Query:
    """A search against one index."""

    terms: tuple[int, ...]
    """Terms of the index, ascending."""
    words: tuple[str, ...]
    """How the query spells each term."""
    weights: tuple[float, ...]
    """How much each term counts."""
    verbs: tuple[bool, ...]
    """Whether each term is a plain verb, which only counts for tools that share something else."""
    effects: tuple[int, ...]
    """Effect terms that the query's verbs ask for."""
    opposed: int | None
    """Effect term of the tools that cannot do what the query asks for."""
    unknown: int
    """Different words that no tool holds; names and numbers aside, since they tend to be arguments."""


def scores(query: Query, lexicon: Lexicon, weights: Weights) -> NDArray[np.float32]:
    """Return the score of every tool, (tools,); 0 where nothing but verbs matches."""
    things: list[tuple[int, float]] = []
    verbs = [(effect, weights.intent) for effect in query.effects]
    for term, weight, plain in zip(query.terms, query.weights, query.verbs, strict=True):
        (verbs if plain else things).append((term, weight))
    if not things:
        return lexicon.scores([] if query.unknown else verbs)
    found = lexicon.scores(things)
    found += lexicon.scores(verbs) * (found > 0)
    if query.opposed is not None:
        found[lexicon.holders(query.opposed)] *= weights.opposed
    return found


def read(search: Search, lexicon: Lexicon, weights: Weights) -> Query:
    """Return what a search asks of an index."""
    text = f"{search.slot} {search.query}"[:MAX_CHARACTERS]
    words = parts(text)
    names = {part for word in text.split() if word.lstrip("\"'`([")[:1].isupper() for part in parts(word)}
    counts = Counter(word for word in words if telling(word))
    spelled: dict[int, str] = {}
    weight: dict[int, float] = {}
    unknown = 0
    for word in (*counts, *compounds(text)):
        term = lexicon.find(stem(word))
        if term is None and word.isalpha() and word in counts and word not in names:
            term = lexicon.near(stem(word))
            unknown += term is None
        if term is not None:
            spelled.setdefault(term, word)
            factor = weights.verb if plain_verb(word) else 1.0
            weight[term] = max(weight.get(term, 0.0), factor * max(counts[word], 1) ** weights.repeat)
    terms = tuple(sorted(sorted(spelled, key=lambda term: (-lexicon.idf[term], term))[:MAX_TERMS]))
    asked = (lexicon.find(effect) for effect in intents(words))
    return Query(
        terms,
        tuple(spelled[term] for term in terms),
        tuple(weight[term] for term in terms),
        tuple(plain_verb(spelled[term]) for term in terms),
        tuple(effect for effect in asked if effect is not None),
        lexicon.find(effect_term("read")) if changes(words) else None,
        unknown,
    )

"""How sure a hit is: the probability that a tool fits a query, from absolute evidence.

Place in the flow: layer 2, between `lexical` and `search`. A logistic model over shares of the query and of the tool,
none of them relative to the best hit, so that a list of weak hits is seen to be weak. When no hit reaches `FLOOR`,
nothing fits. The constants were fitted by `bench/search_fit.py` on one half of its labelled queries;
`docs/results/search.md` says how well they do on the other.
Limits: words decide, not meaning; a wrong tool that shares the rare words looks right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paraagent.search.lexical import EFFECT, NAME, SERVICE, SUMMARY, Lexicon
from paraagent.search.query import Query

FEATURES = ("matched", "head", "covered", "named", "rare", "length", "effect")
BIAS = -9.88
COEFFICIENTS = (0.73, 1.49, 4.3, 0.88, 1.17, 1.32, 0.74)
FLOOR = 0.099
"""Below this probability a hit does not count as an answer."""
RAREST = 3


def evidence(
    lexicon: Lexicon, query: Query, docs: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return the features of each tool, (docs, features), and where its terms match, (terms, docs).

    - matched: share of the query's known mass (sum of idf) that the tool holds anywhere
    - head: share of the query's whole mass, unknown words included, in the tool's name, service or summary
    - covered: share of the tool's name or of its summary, whichever is more, that the query holds
    - named: share of the tool's service that the query holds
    - rare: matched share of the query's rarest known terms
    - length: logarithm of the number of different words in the query
    - effect: 1 if the query's verbs ask for what the tool does, or for nothing
    """
    idf = lexicon.idf[list(query.terms)]
    top = np.log1p((lexicon.masses.shape[1] + 0.5) / 0.5)
    known = float(idf.sum()) or 1.0
    whole = known + query.unknown * top / 2
    masks = lexicon.matches([*query.terms, *query.effects], docs)
    masks, effects = masks[: len(query.terms)], masks[len(query.terms) :]
    anywhere = idf @ (masks > 0)
    head = idf @ ((masks & (NAME | SERVICE | SUMMARY)) > 0)
    name, service, summary = (
        idf @ ((masks & field) > 0) / (mass[docs] + top / 5)
        for field, mass in zip((NAME, SERVICE, SUMMARY), lexicon.masses, strict=True)
    )
    rarest = np.argsort(-idf, kind="stable")[:RAREST]
    rare = idf[rarest] @ (masks[rarest] > 0) / (float(idf[rarest].sum()) or 1.0)
    length = np.full(len(docs), np.log1p(len(query.terms) + query.unknown))
    effect = (effects & EFFECT).any(axis=0) if query.effects else np.ones(len(docs), bool)
    columns = (anywhere / known, head / whole, np.maximum(name, summary), service, rare, length, effect)
    return np.stack(columns, axis=1).astype(np.float64), masks


def probability(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that each tool fits, (docs,), from its features, (docs, features)."""
    return np.asarray(1 / (1 + np.exp(-(features @ np.array(COEFFICIENTS) + BIAS))))

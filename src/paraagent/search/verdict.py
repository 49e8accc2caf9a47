"""How sure a hit is: the probability that a tool fits a query, from absolute evidence.

Place in the flow: layer 2, between `lexical` and `search`. A logistic model over a tool's lexical score, none of it
relative to the best hit, so that a list of weak hits is seen to be weak; within a query it rises with the score, so a
better hit is never less sure. When no hit reaches `FLOOR`, nothing fits. The constants were fitted by
`bench/search_fit.py` on one half of its labelled queries; `docs/results/search.md` says how they do on the other.
Limits: words decide, not meaning; a wrong tool that shares the rare words of a query looks right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paraagent.search.lexical import Lexicon
from paraagent.search.query import Query

FEATURES = ("long", "strength", "share")
BIAS = -3.87
COEFFICIENTS = (1.97, 0.83, 2.09)
FLOOR = 0.101
"""Below this probability a hit does not count as an answer."""
SHORT = 5
"""Different words of a query that names a purpose and nothing else."""


def evidence(lexicon: Lexicon, query: Query, scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the features of tools with these positive lexical scores, (tools, features).

    - long: how many times longer than `SHORT` the query is; a long one tells more than the tool's purpose
    - strength: the score in units of the weight (idf) of a word that one tool holds
    - share: the score per weight of all the query's words; one that no tool holds weighs half a rare one

    All three are logarithms.
    """
    rarest = float(np.log1p((lexicon.size + 0.5) / 0.5))
    whole = float(lexicon.idf[list(query.terms)] @ np.minimum(query.weights, 1.0)) + query.unknown * rarest / 2
    long = np.full(len(scores), max(np.log((len(query.terms) + query.unknown or 1) / SHORT), 0.0))
    return np.column_stack((long, np.log(scores / rarest), np.log(scores / max(whole, 1e-6)))).astype(np.float64)


def probability(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that each tool fits, (tools,), from its features, (tools, features)."""
    return np.asarray(1 / (1 + np.exp(-(features @ np.array(COEFFICIENTS) + BIAS))))

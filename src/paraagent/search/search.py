"""Find tools by what they do: the only public entry of search.

Place in the flow: layer 2. An index over a catalog lives in one file beside it, is built once and then mapped; a
small toolbox is indexed in memory. Searching only reads, so threads and tasks may share an index. Every hit carries
the probability that it fits and the words that matched; when no hit is likely enough, the answer says that nothing
fits.
Limits: lexical; words must be shared, except verbs for reading, creating, updating and deleting.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paraagent.catalog.store import Catalog
from paraagent.errors import CatalogError
from paraagent.search import indexfile
from paraagent.search.fields import FIELDS, Weights
from paraagent.search.lexical import Lexicon, collect, weigh
from paraagent.search.query import Query, read, scores
from paraagent.search.tokens import STEMMER
from paraagent.search.verdict import FLOOR, evidence, probability
from paraagent.types import Found, Hit, Search, Tool

VERSION = 1
"""Raise it whenever code would make another index of the same tools; constants are compared by themselves."""
WEIGHTS = Weights()
SURE = 0.99
"""Probability of a tool whose exact name is the query."""
SHOWN_WORDS = 8


class SearchIndex:
    """All tools of a catalog or toolbox, ready to be searched."""

    def __init__(
        self,
        lexicon: Lexicon,
        names: Sequence[str],
        load: Callable[[str], Tool | None],
        hidden: NDArray[np.bool_] | None = None,
    ) -> None:
        """Make an index; use `open` or `build_in_memory` instead.

        Args:
            lexicon: postings over tools 0 to n - 1.
            names: the n tools' names, sorted.
            load: gives the tool of a name.
            hidden: (n,), True for tools that are not to be found.
        """
        self._lexicon = lexicon
        self._names = names
        self._load = load
        self._hidden = hidden

    @classmethod
    def open(cls, catalog: Catalog) -> SearchIndex:
        """Open the index of a catalog; the first time, build it, which takes half a minute for 100,000 tools.

        Raises:
            CatalogError: the index cannot be written beside the catalog, or the catalog cannot be read.
        """
        path = catalog.path.with_suffix(".search")
        meta = {"catalog": catalog.digest, "code": f"{VERSION}, Snowball {STEMMER}", "weights": repr(WEIGHTS)}
        arrays = indexfile.load(path, meta)
        if arrays is None:
            arrays = _pack(*_index(catalog))
            try:
                indexfile.save(path, meta, arrays)
            except OSError as error:
                message = f"cannot write the search index {path}: {error.strerror}; free some space there"
                raise CatalogError(message) from None
        return cls(*_unpack(arrays), catalog.get)

    @classmethod
    def build_in_memory(cls, tools: Iterable[Tool]) -> SearchIndex:
        """Index these tools; their names must differ."""
        known = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        return cls(*_index(known.values()), known.get)

    def __len__(self) -> int:
        return len(self._names) - (0 if self._hidden is None else int(self._hidden.sum()))

    def without(self, names: Iterable[str]) -> SearchIndex:
        """Return the same index in which these tools are not found; unknown names are ignored."""
        hidden = np.zeros(len(self._names), bool) if self._hidden is None else self._hidden.copy()
        hidden[[place for place in map(self._place, names) if place is not None]] = True
        return SearchIndex(self._lexicon, self._names, self._load, hidden)

    def search(self, searches: Sequence[Search], k: int = 5) -> list[Found]:
        """Answer every search with its best k tools; equal scores come in the order of names."""
        return [self._search(search, k) for search in searches]

    def evidence(self, search: Search, k: int) -> tuple[list[str], NDArray[np.float64]]:
        """Return the best k tools' names and the features, (k, features), that `probability` judges them by."""
        query, docs, found = self._rank(search, k)
        return [self._names[doc] for doc in docs], evidence(self._lexicon, query, found)

    def _search(self, search: Search, k: int) -> Found:
        query, docs, found = self._rank(search, k)
        sure = probability(evidence(self._lexicon, query, found)).round(4).tolist()
        masks = self._lexicon.matches(query.terms, docs)
        hits = [Hit(self._tool(doc), sure[i], _reason(query, masks[:, i])) for i, doc in enumerate(docs)]
        exact = self._exact(search)
        if exact is not None:
            rest = [hit for hit in hits if hit.tool.name != self._names[exact]]
            hits = [Hit(self._tool(exact), SURE, "exact name"), *rest][:k]
        fits = any(hit.score >= FLOOR for hit in hits)
        return Found(search, tuple(hits) if fits else (), len(self), not fits)

    def _rank(self, search: Search, k: int) -> tuple[Query, NDArray[np.int64], NDArray[np.float32]]:
        """Return the query as read, the best k tools and their scores."""
        query = read(search, self._lexicon, WEIGHTS)
        found = scores(query, self._lexicon, WEIGHTS)
        if self._hidden is not None:
            found[self._hidden] = 0
        docs = _best(found, k)
        return query, docs, found[docs]

    def _exact(self, search: Search) -> int | None:
        """Return the tool that the query names: as a whole, or as one of its words with an underscore."""
        words = [search.query.strip(), *(word.strip("`'\".,:;()") for word in search.query.split() if "_" in word)]
        places = (self._place(word) for word in words[:20])
        return next((p for p in places if p is not None and (self._hidden is None or not self._hidden[p])), None)

    def _place(self, name: str) -> int | None:
        place = bisect_left(self._names, name)
        return place if place < len(self._names) and self._names[place] == name else None

    def _tool(self, doc: int) -> Tool:
        tool = self._load(self._names[doc])
        if tool is None:
            raise CatalogError(f"the search index names {self._names[doc]}, which is gone: open the catalog again")
        return tool


def _index(tools: Iterable[Tool]) -> tuple[Lexicon, list[str]]:
    names: list[str] = []

    def passing() -> Iterable[Tool]:
        for tool in tools:
            names.append(tool.name)
            yield tool

    return weigh(collect(passing()), WEIGHTS), names


def _pack(lexicon: Lexicon, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    arrays = {
        f.name: getattr(lexicon, f.name) for f in dataclasses.fields(lexicon) if f.name not in ("size", "vocabulary")
    }
    texts = {"vocabulary": lexicon.vocabulary, "names": names}
    return arrays | {key: np.frombuffer("\n".join(text).encode(), np.uint8) for key, text in texts.items()}


def _unpack(arrays: Mapping[str, NDArray[Any]]) -> tuple[Lexicon, list[str]]:
    texts = {key: arrays[key].tobytes().decode() for key in ("vocabulary", "names")}
    terms, names = (text.split("\n") if text else [] for text in texts.values())
    kept = {key: array for key, array in arrays.items() if key not in texts}
    return Lexicon(size=len(names), vocabulary=terms, **kept), names


def _best(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the places of the k highest scores above 0, best first, ties in order of place."""
    found = np.flatnonzero(scores > 0)
    if 0 < k < len(found):
        values = scores[found]
        found = found[values >= np.partition(values, len(values) - k)[len(values) - k]]
    return found[np.lexsort((found, -scores[found]))][: max(k, 0)]


def _reason(query: Query, masks: NDArray[np.uint8]) -> str:
    """Say which words matched, each under the first field that holds it."""
    by_field: dict[int, list[str]] = {}
    for word, mask in list(zip(query.words, masks.tolist(), strict=True)):
        if mask:
            by_field.setdefault((mask & -mask).bit_length() - 1, []).append(word)
    return "; ".join(
        f"{FIELDS[field]}: {', '.join(words[:SHOWN_WORDS])}" for field, words in sorted(by_field.items())
    )

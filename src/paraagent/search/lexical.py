"""The inverted index: which tools hold which term, and what that adds to a tool's score, worked out beforehand.

Place in the flow: layer 2, between `fields` and `search`. Since field weights are fixed, a query costs one addition
per posting of its terms. The score of a tool is BM25F (Robertson and Zaragoza, 2009, section 3.5) plus a bonus for
how much of its name, service, summary and whole description the query covers; both are sums over matched terms.
Limits: arrays are read-only; an index is rebuilt, not changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paraagent.search.fields import FIELDS, Weights, texts
from paraagent.types import Tool

NAME, SERVICE, SUMMARY, DESCRIPTION = (1 << FIELDS.index(f) for f in ("name", "service", "summary", "description"))
_COVERED = (NAME, SERVICE, SUMMARY, NAME | SERVICE, NAME | SERVICE | SUMMARY | DESCRIPTION)
"""Parts of a tool that get a bonus for being covered, in the order of `Weights.coverage`, `head`, `gist`."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Every (term, tool, field) with its count, sorted by term, then tool; independent of weights."""

    vocabulary: list[str]
    """Ascending; terms are places in it."""
    terms: NDArray[np.int32]
    docs: NDArray[np.int32]
    fields: NDArray[np.uint8]
    counts: NDArray[np.float32]
    lengths: NDArray[np.float32]
    """Terms per field and tool, (fields, tools)."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The index proper; postings of term t are `starts[t]` to `starts[t + 1]`, in the order of tools."""

    size: int
    """How many tools there are."""
    vocabulary: Sequence[str]
    """Term i's text; ascending."""
    starts: NDArray[np.int64]
    """(terms + 1,)"""
    docs: NDArray[np.int64]
    """(postings,); as wide as NumPy's own indices, for which `add.at` has a fast path."""
    impacts: NDArray[np.float32]
    """(postings,): what the term adds to the tool's score."""
    masks: NDArray[np.uint8]
    """(postings,): the fields of the tool that hold the term."""
    idf: NDArray[np.float32]
    """(terms,)"""

    def scores(self, terms: Iterable[tuple[int, float]]) -> NDArray[np.float32]:
        """Return the score of every tool, (tools,), for weighted terms."""
        total = np.zeros(self.size, np.float32)
        for term, weight in terms:
            postings = slice(self.starts[term], self.starts[term + 1])
            impacts = self.impacts[postings]
            np.add.at(total, self.docs[postings], impacts if weight == 1 else impacts * np.float32(weight))
        return total

    def find(self, text: str) -> int | None:
        """Return the term of this text, or None."""
        place = bisect_left(self.vocabulary, text)
        return place if place < len(self.vocabulary) and self.vocabulary[place] == text else None

    def near(self, text: str) -> int | None:
        """Return the first term that differs from a text of six letters or more only after all but the last."""
        place = bisect_left(self.vocabulary, text[:-1])
        alike = place < len(self.vocabulary) and self.vocabulary[place].startswith(text[:-1])
        return place if alike and len(text) >= 6 else None

    def holders(self, term: int) -> NDArray[np.int64]:
        """Return the tools that hold a term, ascending."""
        return self.docs[self.starts[term] : self.starts[term + 1]]

    def matches(self, terms: Sequence[int], docs: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return in which fields each tool holds each term, (terms, docs); 0 where it does not."""
        found = np.zeros((len(terms), len(docs)), np.uint8)
        for row, term in enumerate(terms):
            first, last = self.starts[term], self.starts[term + 1]
            places = first + np.searchsorted(self.docs[first:last], docs)
            places = np.minimum(places, last - 1)
            found[row] = np.where(self.docs[places] == docs, self.masks[places], 0)
        return found


def collect(tools: Iterable[Tool]) -> Rows:
    """Read the terms of all tools."""
    numbers: dict[str, int] = {}
    lengths: list[list[int]] = []
    columns = (array("i"), array("i"), array("B"), array("H"))
    for doc, tool in enumerate(tools):
        fields = texts(tool)
        lengths.append([len(terms) for terms in fields])
        for field, terms in enumerate(fields):
            for term, count in Counter(terms).items():
                number = numbers.setdefault(term, len(numbers))
                for column, value in zip(columns, (number, doc, field, min(count, 65535)), strict=True):
                    column.append(value)
    drawn, docs, kinds, counts = (np.frombuffer(column, column.typecode) for column in columns)
    vocabulary = sorted(numbers)
    ranks = np.zeros(len(numbers), np.int32)
    ranks[[numbers[term] for term in vocabulary]] = np.arange(len(numbers))
    terms = ranks[drawn]
    order = np.argsort(terms.astype(np.int64) * max(len(lengths), 1) + docs, kind="stable")
    return Rows(
        vocabulary,
        terms[order],
        docs[order],
        kinds[order],
        counts[order].astype(np.float32),
        np.array(lengths, np.float32).reshape(len(lengths), len(FIELDS)).T,
    )


def weigh(rows: Rows, weights: Weights) -> Lexicon:
    """Turn counts into impacts."""
    tools = rows.lengths.shape[1]
    weight, norm, typical = (
        np.array([getattr(field, name) for field in weights.fields], np.float32)
        for name in ("weight", "norm", "typical")
    )
    longer = rows.lengths[rows.fields, rows.docs] / typical[rows.fields]
    norms = norm[rows.fields]
    frequencies = weight[rows.fields] * rows.counts / (1 - norms + norms * longer)
    first = np.flatnonzero(np.diff(rows.terms, prepend=-1) | np.diff(rows.docs, prepend=-1))
    masks = np.bitwise_or.reduceat(np.uint8(1) << rows.fields, first) if len(first) else np.zeros(0, np.uint8)
    frequency = np.add.reduceat(frequencies, first) if len(first) else np.zeros(0, np.float32)
    terms, docs = rows.terms[first], rows.docs[first]
    holders = np.bincount(terms, minlength=len(rows.vocabulary))
    idf = np.log1p((tools - holders + 0.5) / (holders + 0.5)).astype(np.float32)
    impacts = idf[terms] * frequency * (weights.saturation + 1) / (weights.saturation + frequency)
    for fields, bonus in zip(_COVERED, (*weights.coverage, weights.head, weights.gist), strict=True):
        inside = (masks & fields) > 0
        mass = np.bincount(docs[inside], idf[terms[inside]], tools).astype(np.float32)
        impacts += bonus * idf[terms] * inside / (mass[docs] + weights.slack)
    return Lexicon(
        size=tools,
        vocabulary=rows.vocabulary,
        starts=np.concatenate(([0], np.cumsum(holders))),
        docs=docs.astype(np.int64),
        impacts=impacts.astype(np.float32),
        masks=masks,
        idf=idf,
    )

"""Chooses one of several samples of a task: at random, by majority, by a score, or by the truth.

Place in the flow: layer 5, used by `scaling`. What a choice is worth is its *expected* success: where samples tie,
their mean (the earliest of them by `pairs`). So no luck enters the curves.

    random      any sample
    majority    the one whose answer agrees best with the others', by the words they share (Jaccard index); equal
                answers thereby outvote others
    verifier    the highest score of `evidence`
    judge       the highest value of a judge, the model itself or another one
    pairs       the one that such a judge prefers most often to those with other answers, compared two by two
    oracle      a solved one if there is any
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb
from random import Random
from statistics import fmean
from typing import Literal, get_args

Selector = Literal["random", "majority", "verifier", "judge", "pairs", "oracle"]
SELECTORS: tuple[Selector, ...] = get_args(Selector)
SUBSETS = 64
"""Most subsets of one size that are looked at per task; more are sampled, seeded."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One try at a task."""

    success: bool
    answer: str = ""
    """Empty if there is none."""
    tokens: int = 0
    verifier: float = 0.0
    judge: float | None = None
    """None if nobody judged it."""
    number: int = 0
    """Among the samples of its task."""
    beats: Mapping[int, float] | None = None
    """By the number of another sample, in which share of the comparisons with it this one was preferred; only of
    those with another answer, and that could be judged. None if nobody compared it."""


def choose(selector: Selector, samples: Sequence[Sample]) -> float:
    """Return the expected success of the choice among some samples, 0 to 1.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("nothing to choose from")
    worth = _worth(selector, samples)
    best = max(worth)
    if selector == "pairs":
        return float(samples[worth.index(best)].success)
    return fmean(sample.success for sample, value in zip(samples, worth, strict=True) if value >= best - 1e-9)


def expected(selector: Selector, samples: Sequence[Sample], k: int) -> float:
    """Return what choosing among `k` of the samples is worth, on average over which `k` they are."""
    subsets = _subsets(len(samples), k)
    return fmean(choose(selector, [samples[index] for index in subset]) for subset in subsets)


def agreement(answers: Sequence[str]) -> list[float]:
    """Return for every answer its mean Jaccard index with the others; an empty one agrees with nobody."""
    words = [frozenset(re.findall(r"\w+", answer.casefold())) for answer in answers]
    return [
        sum(_overlap(own, other) for j, other in enumerate(words) if j != i) / max(1, len(words) - 1) if own else -1.0
        for i, own in enumerate(words)
    ]


def _worth(selector: Selector, samples: Sequence[Sample]) -> list[float]:
    if selector == "majority":
        return agreement([sample.answer for sample in samples])
    if selector == "verifier":
        return [sample.verifier for sample in samples]
    if selector == "judge":
        return [-1.0 if sample.judge is None else sample.judge for sample in samples]
    if selector == "pairs":
        return [_preferred(sample, samples) for sample in samples]
    return [float(sample.success) if selector == "oracle" else 0.0 for sample in samples]


def _preferred(sample: Sample, samples: Sequence[Sample]) -> float:
    """Return in which share of its comparisons with the others a sample was preferred; half if there are none."""
    shares = [sample.beats[other.number] for other in samples if sample.beats and other.number in sample.beats]
    return fmean(shares) if shares else 0.5


def _subsets(n: int, k: int) -> list[tuple[int, ...]]:
    if comb(n, k) <= SUBSETS:
        return list(combinations(range(n), k))
    rng = Random(n * 1_000 + k)
    drawn = (tuple(sorted(rng.sample(range(n), k))) for _ in range(20 * SUBSETS))
    return list(islice(dict.fromkeys(drawn), SUBSETS))


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0

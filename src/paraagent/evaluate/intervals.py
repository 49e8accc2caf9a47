"""How sure a figure is: 95 % intervals of rates, means and differences, and the estimators of repeated sampling.

Place in the flow: layer 5, pure numbers; `metrics`, `compare` and `scaling` report nothing without one of these.

    rate        Wilson's score interval (E. B. Wilson, 1927), which holds near 0 and 1 and for few episodes
    mean        percentile bootstrap (B. Efron, 1979) over episodes, seeded, so the same numbers every time
    difference  of yes or no Newcombe's method 10 for pairs (R. G. Newcombe, 1998), which rests on Wilson's; else the
                percentile bootstrap over *pairs*: both runs' values of one task are drawn together
    p           exact McNemar for yes or no (Q. McNemar, 1947), else the share of sign flips at least as extreme

Limits: episodes count as independent; the bootstrap of under ten values is too narrow, and that of equal values has
no width at all, which is why `share` does not use it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
import numpy.typing as npt

from paraagent.types import JsonObject

RESAMPLES = 2_000
_SEED = 20_260
_Z = 1.959963984540054
"""Half-width of the central 95 % of a standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, its 95 % interval and what it rests on."""

    value: float
    low: float
    high: float
    n: int
    """Episodes, or pairs of them. With 1 the bounds of a mean are its value and say nothing."""

    def to_json(self) -> JsonObject:
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


@dataclass(frozen=True, slots=True)
class Paired:
    """What changes from a first run to a second one, over the tasks that both have played."""

    first: float
    second: float
    difference: Interval
    """Second minus first."""
    p: float
    """Two-sided: how often chance alone would show a difference at least as large."""

    def to_json(self) -> JsonObject:
        return {"first": self.first, "second": self.second, "difference": self.difference.to_json(), "p": self.p}


def rate(successes: float, n: int) -> Interval | None:
    """Return a share and its Wilson interval; None for no trials."""
    if n == 0:
        return None
    part, z2 = successes / n, _Z * _Z
    centre = (part + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * sqrt(part * (1 - part) / n + z2 / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(part, low, high, n)


def mean(values: Sequence[float]) -> Interval | None:
    """Return a mean and its bootstrap interval; None for no values."""
    if not values:
        return None
    data = np.asarray(values, dtype=np.float64)
    low, high = _bounds(_resampled(data))
    return Interval(float(data.mean()), low, high, len(values))


def share(values: Sequence[float]) -> Interval | None:
    """Return the mean of values from 0 to 1 and its interval; None for no values.

    That of `rate` if all are 0 or 1, or all equal, since no value in between spreads wider; else that of `mean`.
    """
    if len(set(values)) < 2 or all(value in (0, 1) for value in values):
        return rate(sum(values), len(values))
    return mean(values)


def ratio(parts: Sequence[float], wholes: Sequence[float]) -> Interval | None:
    """Return the sum of parts over the sum of wholes, bootstrapped over pairs; None where the wholes sum to 0.

    Resamples whose wholes sum to 0 are left out.

    Raises:
        ValueError: not one part per whole.
    """
    if len(parts) != len(wholes):
        raise ValueError(f"{len(parts)} parts cannot be paired with {len(wholes)} wholes")
    if not wholes or sum(wholes) <= 0:
        return None
    over, under = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)
    tops, bottoms = _resampled(over), _resampled(under)  # the same seed and size draw the same pairs
    low, high = _bounds(tops[bottoms > 0] / bottoms[bottoms > 0])
    return Interval(float(over.sum() / under.sum()), low, high, len(parts))


def paired(first: Sequence[float], second: Sequence[float]) -> Paired | None:
    """Compare two runs task by task; None for no tasks.

    Args:
        first, second: the values of the same tasks in the same order; of two yes-or-no runs all are 0 or 1.

    Raises:
        ValueError: not one value of each run per task.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values cannot be paired with {len(second)}")
    if not first:
        return None
    gains = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    if all(value in (0, 1) for value in (*first, *second)):
        p = mcnemar(int((gains > 0).sum()), int((gains < 0).sum()))
        return Paired(float(np.mean(first)), float(np.mean(second)), _newcombe(first, second), p)
    low, high = _bounds(_resampled(gains))
    difference = Interval(float(gains.mean()), low, high, len(gains))
    return Paired(float(np.mean(first)), float(np.mean(second)), difference, _sign_flips(gains))


def mcnemar(won: int, lost: int) -> float:
    """Return the exact two-sided p value of so many pairs that only one, or only the other, run has solved."""
    n = won + lost
    tail = sum(comb(n, k) for k in range(min(won, lost) + 1))
    return min(1.0, 2 * tail / float(2**n))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the chance that at least one of `k` samples solves a task of which `c` out of `n` samples did.

    The unbiased estimator of M. Chen et al. (2021): `1 - C(n-c, k) / C(n, k)`.

    Raises:
        ValueError: there are fewer than `k` samples, or `k` is below 1.
    """
    _check(n, c, k)
    return 1.0 - comb(n - c, k) / comb(n, k)


def pass_all_k(n: int, c: int, k: int) -> float:
    """Return the chance that all of `k` samples solve the task, written pass^k: `C(c, k) / C(n, k)`.

    The estimator of S. Yao et al. (2024); raises as `pass_at_k`.
    """
    _check(n, c, k)
    return comb(c, k) / comb(n, k)


def _newcombe(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the difference of two paired rates and its interval."""
    n, one, other = len(first), rate(sum(first), len(first)), rate(sum(second), len(second))
    assert one is not None
    assert other is not None
    both = sum(a * b for a, b in zip(first, second, strict=True))
    neither = n - sum(first) - sum(second) + both
    cross = both * neither - (sum(first) - both) * (sum(second) - both)
    cross = max(cross - n / 2, 0.0) if cross > 0 else cross
    spread = sum(first) * (n - sum(first)) * sum(second) * (n - sum(second))
    phi = cross / sqrt(spread) if spread else 0.0
    difference = other.value - one.value
    down = _apart(other.value - other.low, one.high - one.value, phi)
    up = _apart(other.high - other.value, one.value - one.low, phi)
    return Interval(difference, max(-1.0, difference - down), min(1.0, difference + up), n)


def _apart(one: float, other: float, phi: float) -> float:
    return sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def _check(n: int, c: int, k: int) -> None:
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError(f"no estimate for k={k} of {n} samples with {c} successes")


def _resampled(data: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the means of `RESAMPLES` draws with replacement; shape (RESAMPLES,)."""
    rng = np.random.default_rng(_SEED)
    picks = rng.integers(0, len(data), size=(RESAMPLES, len(data)))
    means: npt.NDArray[np.float64] = data[picks].mean(axis=1)
    return means


def _bounds(means: npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _sign_flips(gains: npt.NDArray[np.float64]) -> float:
    """Return the share of random sign flips whose mean is as far from 0; the observed one counts among them."""
    rng = np.random.default_rng(_SEED)
    signs = rng.choice((-1.0, 1.0), size=(RESAMPLES, len(gains)))
    extreme = np.abs((signs * gains).mean(axis=1)) >= abs(gains.mean()) - 1e-12
    return float((1 + extreme.sum()) / (1 + RESAMPLES))

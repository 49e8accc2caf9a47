"""Test-time scaling: what more turns, more tokens or more samples bring, where that ends, and what choosing loses.

Place in the flow: layer 5; pure functions over samples, `scaling_run` plays them and `report_scaling` shows them.
*Sequential*: one sample a task at growing budgets. *Parallel*: K samples a task, one is chosen. The **plateau** is
the smallest budget from which no larger one is better beyond doubt (the paired 95 % interval of the gain holds 0).
The **verification gap** is the oracle's success minus the chosen sample's, `recovered` the part of the way from
random to oracle that a selector goes. Limits: with few tasks the intervals are wide and the plateau early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from paraagent.evaluate.intervals import Interval, Paired, mean, paired, rate, ratio, share
from paraagent.evaluate.metrics import PassK, pass_k
from paraagent.evaluate.selecting import SELECTORS, Sample, Selector, expected


@dataclass(frozen=True, slots=True)
class Point:
    """One budget, or one number of samples."""

    x: float
    success: Interval
    tokens: Interval
    """Spent per task, all samples together."""


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    points: tuple[Point, ...]
    plateau: float | None
    """The x from which more brings nothing beyond doubt; None if it still rose at the end, or there is one point."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What a selector loses against the oracle, with all samples."""

    selector: Selector
    against_oracle: Paired
    """First the selector's success, second the oracle's."""
    recovered: Interval | None
    """0 is as good as random, 1 as good as the oracle; None if the oracle itself gains nothing over random."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a score tells solved samples from others: one passes at the highest score, 1."""

    selector: Selector
    true_positives: Interval | None
    """Share of solved samples that pass."""
    false_positives: Interval | None
    """Share of failed samples that pass."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """All that was measured; goes to JSON and back without loss."""

    tasks: int
    sequential: tuple[Curve, ...]
    parallel: tuple[Curve, ...]
    gaps: tuple[Gap, ...]
    trust: tuple[Trust, ...]
    pass_k: tuple[PassK, ...]


Samples = Mapping[str, Sequence[Sample]]
"""Samples of each task."""


def measure(samples: Samples, budgets: Mapping[str, Mapping[float, Mapping[str, Sample]]]) -> Scaling:
    """Measure both ways of scaling.

    Args:
        samples: for the parallel way, equally many of each task.
        budgets: for the sequential way: what grows, how large it is, and the sample of each task there.

    Raises:
        ValueError: the tasks do not have equally many samples.
    """
    if len({len(tries) for tries in samples.values()}) > 1:
        raise ValueError("every task needs the same number of samples")
    used = selectors(samples)
    return Scaling(
        tasks=len(samples),
        sequential=tuple(sequential(name, points) for name, points in budgets.items()),
        parallel=tuple(parallel(selector, samples) for selector in used),
        gaps=tuple(gap(selector, samples) for selector in used if selector not in ("oracle", "random")),
        trust=tuple(trust(selector, samples) for selector in used if selector in ("verifier", "judge")),
        pass_k=tuple(pass_k({task: [one.success for one in tries] for task, tries in samples.items()})),
    )


def selectors(samples: Samples) -> list[Selector]:
    """Return the selectors that can be used: a judge only where every sample with an answer was judged.

    Comparisons need at least one that was judged.
    """
    answered = [one for tries in samples.values() for one in tries if one.answer]
    judged = bool(answered) and all(one.judge is not None for one in answered)
    compared = any(one.beats for tries in samples.values() for one in tries)
    usable = {"judge": judged, "pairs": compared}
    return [selector for selector in SELECTORS if usable.get(selector, True)]


def sequential(name: str, budgets: Mapping[float, Mapping[str, Sample]]) -> Curve:
    """Return the curve of success over a growing budget, over the tasks that were played at every size of it."""
    xs = sorted(budgets)
    tasks = sorted(set.intersection(*(set(budgets[x]) for x in xs))) if xs else []
    values = {x: [float(budgets[x][task].success) for task in tasks] for x in xs}
    tokens = {x: [float(budgets[x][task].tokens) for task in tasks] for x in xs}
    return _curve(name, values, tokens)


def parallel(selector: Selector, samples: Samples) -> Curve:
    """Return the curve of a selector's success over the number of samples it chooses from."""
    most = min(map(len, samples.values()), default=0)
    tasks = sorted(samples)
    values = {float(k): [expected(selector, samples[task], k) for task in tasks] for k in range(1, most + 1)}
    each = [fmean(one.tokens for one in samples[task]) for task in tasks] if most else []
    tokens = {float(k): [k * spent for spent in each] for k in range(1, most + 1)}
    return _curve(selector, values, tokens)


def gap(selector: Selector, samples: Samples) -> Gap:
    """Return what a selector loses against the oracle, and how far it gets from random, with all samples.

    Raises:
        ValueError: there are no samples.
    """
    chosen, oracle, anyone = (
        [expected(one, samples[task], len(samples[task])) for task in sorted(samples)]
        for one in (selector, "oracle", "random")
    )
    lost = paired(chosen, oracle)
    if lost is None:
        raise ValueError("no samples to choose from")
    gained = [value - base for value, base in zip(chosen, anyone, strict=True)]
    possible = [value - base for value, base in zip(oracle, anyone, strict=True)]
    return Gap(selector, lost, ratio(gained, possible))


def trust(selector: Selector, samples: Samples) -> Trust:
    """Return how far a score tells solved samples from others; one passes at 1, the highest score."""
    everything = [one for tries in samples.values() for one in tries]
    passed = {True: 0, False: 0}
    total = {True: 0, False: 0}
    for one in everything:
        score = one.verifier if selector == "verifier" else one.judge
        total[one.success] += 1
        passed[one.success] += score is not None and score >= 1.0 - 1e-9
    return Trust(selector, rate(passed[True], total[True]), rate(passed[False], total[False]))


def plateau(values: Mapping[float, Sequence[float]]) -> float | None:
    """Return the smallest x from which no larger one is better beyond doubt; None if only the last one is.

    Args:
        values: by x the success of the same tasks in the same order.
    """
    xs = sorted(values)
    for number, x in enumerate(xs[:-1]):
        gains = [paired(values[x], values[larger]) for larger in xs[number + 1 :]]
        if all(gain is not None and gain.difference.low <= 0 for gain in gains):
            return x
    return None


def _curve(name: str, values: Mapping[float, Sequence[float]], tokens: Mapping[float, Sequence[float]]) -> Curve:
    points = []
    for x, found in values.items():
        success, spent = share(found), mean(tokens[x])
        if success is not None and spent is not None:
            points.append(Point(x, success, spent))
    return Curve(name, tuple(points), plateau(values))

"""Refit the constants of search: `search_fit.py [--data DIR] [--catalog PATH] [--keep SHARE] [--steps N]`.

Uses only the first half of every labelled set of `search_data`; `search.py` reports on the second.

- Verdict (`verdict.BIAS`, `COEFFICIENTS`, `FLOOR`): every set weighs the same, but `category gone`, whose labels are
  too doubtful to learn from, is left out; each query gives its best five tools as samples, labelled by whether they
  are wanted; logistic regression with a small ridge penalty by Newton's method. `FLOOR` is the highest probability at
  which every set of answerable queries keeps an answer for `--keep` of them.
- Weights (`fields.Weights`), with `--steps`: hill climbing by random changes of one constant, on recall at 5 and 10
  over ToolBench alone, ToolBench inside the catalog, and catalog slots. The optimum is flat: take rounded values.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paraagent.catalog.store import Catalog
from paraagent.search.fields import Weights
from paraagent.search.lexical import Rows, collect, weigh
from paraagent.search.query import read, scores
from paraagent.search.verdict import FEATURES
from paraagent.types import Tool
from search_data import ANSWERABLE, Case, Worlds, worlds

SAMPLES = 5
DOUBTFUL = "category gone"
RIDGE = 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of StableToolBench's test_instruction files")
    parser.add_argument("--catalog", type=Path)
    parser.add_argument("--keep", type=float, default=0.96)
    parser.add_argument(
        "--steps", type=int, default=0, help="hill-climbing steps on the weights; 0 leaves them alone"
    )
    options = parser.parse_args()
    world = worlds(options.data, Catalog.open(options.catalog))
    if options.steps:
        print(climb(world, options.steps))
    bias, coefficients, floor = fit(world, options.keep)
    print(f"BIAS = {bias:.2f}\nCOEFFICIENTS = {tuple(round(value, 2) for value in coefficients)}  # {FEATURES}")
    print(f"FLOOR = {floor:.3f}")


def fit(world: Worlds, keep: float) -> tuple[float, list[float], float]:
    """Return bias, coefficients and floor."""
    sets = {name: [samples(case) for case in first] for name, (first, _) in world.sets.items() if name != DOUBTFUL}
    weights = [
        np.full(sum(len(y) for _, y in pairs), 1000 / sum(len(y) for _, y in pairs)) for pairs in sets.values()
    ]
    features = np.concatenate([x for pairs in sets.values() for x, _ in pairs])
    labels = np.concatenate([y for pairs in sets.values() for _, y in pairs])
    solution = logistic(features, labels, np.concatenate(weights))
    best = {
        name: [float(np.max(x @ solution[1:] + solution[0], initial=-20)) for x, _ in sets[name]]
        for name in ANSWERABLE
    }
    floor = np.min([np.quantile(values, 1 - keep) for values in best.values()])
    return float(solution[0]), solution[1:].tolist(), float(1 / (1 + np.exp(-floor)))


def samples(case: Case) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return features and labels of a query's best tools."""
    names, features = case.index.evidence(case.query.search, SAMPLES)
    return features, np.array([float(name in case.query.wanted) for name in names])


def logistic(x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bias and coefficients that maximise the weighted likelihood less a ridge penalty."""
    x = np.column_stack([np.ones(len(x)), x])
    ridge = RIDGE * weights.sum() * np.diag([0.0, *np.ones(x.shape[1] - 1)])
    solution = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ solution))
        gradient = x.T @ (weights * (y - p)) - ridge @ solution
        solution += np.linalg.solve((x * (weights * p * (1 - p))[:, None]).T @ x + ridge, gradient)
    return solution


def climb(world: Worlds, steps: int) -> Weights:
    """Return the best weights that were met."""
    rng = random.Random(1)
    both = sorted([*world.apis, *world.catalog], key=lambda tool: tool.name)
    apis = sorted(world.apis, key=lambda tool: tool.name)
    corpora = [
        (collect(tools), tools, [case for case in world.sets[name][0][:250]])
        for tools, name in ((apis, "toolbench alone"), (both, "toolbench mixed"), (both, "catalog slots"))
    ]
    best, value = Weights(), -1.0
    for step in range(steps + 1):
        weights = changed(best, rng) if step else best
        reached = float(np.mean([quality(*corpus, weights) for corpus in corpora]))
        if reached > value:
            best, value = weights, reached
            print(f"step {step}: {value:.4f} {best}", flush=True)
    return best


def quality(rows: Rows, tools: Sequence[Tool], cases: Sequence[Case], weights: Weights) -> float:
    """Return the mean of recall at 5 and at 10."""
    lexicon, total = weigh(rows, weights), 0.0
    for case in cases:
        found = scores(read(case.query.search, lexicon, weights), lexicon, weights)
        order = np.argpartition(-found, 10)[:10]
        names = [tools[i].name for i in order[np.lexsort((order, -found[order]))]]
        total += sum(len(case.query.wanted & set(names[:k])) / min(len(case.query.wanted), k) for k in (5, 10))
    return total / len(cases) / 2


def changed(weights: Weights, rng: random.Random) -> Weights:
    """Return weights with one constant scaled at random."""
    factor = rng.choice((0.5, 0.7, 0.85, 1.2, 1.4, 2.0))
    name = rng.choice(("fields", "fields", "fields", "coverage", "saturation", "head", "gist", "slack", "repeat"))
    if name == "coverage":
        place = rng.randrange(3)
        return replace(
            weights, coverage=tuple(v * factor if i == place else v for i, v in enumerate(weights.coverage))
        )
    if name != "fields":
        return replace(weights, **{name: getattr(weights, name) * factor})
    place, fields = rng.randrange(len(weights.fields)), list(weights.fields)
    field = fields[place]
    heavier = replace(field, weight=field.weight * factor)
    fields[place] = heavier if rng.random() < 0.7 else replace(field, norm=min(field.norm * factor, 1.0))
    return replace(weights, fields=tuple(fields))


if __name__ == "__main__":
    main()

"""The small network of bench/credit.py: scores options by their features, with its gradient, and Adam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Decision:
    """What could be decided and what was."""

    options: Floats
    """Shape (options, features)."""
    taken: int


@dataclass(frozen=True, slots=True)
class Net:
    """One hidden layer of tanh: all decisions share its weights, as they share those of a language model.

    An option's score is `out @ tanh(into @ features)`; what is decided follows the softmax of the scores.
    """

    into: Floats
    """Shape (hidden, features)."""
    out: Floats
    """Shape (hidden,)."""

    @classmethod
    def random(cls, features: int, hidden: int, seed: int) -> Net:
        """Return a network that knows nothing."""
        random = np.random.default_rng(seed)
        return cls(random.normal(0, 0.5, (hidden, features)), random.normal(0, hidden**-0.5, hidden))

    def __call__(self, options: Floats) -> Floats:
        """Return the scores of options (options, features)."""
        found: Floats = np.tanh(options @ self.into.T) @ self.out
        return found

    def gradient(self, decisions: Sequence[Decision], weights: Sequence[float]) -> Net:
        """Return that of the weighted sum of the decisions' log-probabilities."""
        parts = []
        for decision, weight in zip(decisions, weights, strict=True):
            part = -weight * probabilities(self(decision.options))
            part[decision.taken] += weight
            parts.append(part)
        of_scores, options = np.concatenate(parts), np.concatenate([decision.options for decision in decisions])
        hidden = np.tanh(options @ self.into.T)
        return Net((of_scores[:, None] * (1 - hidden**2) * self.out).T @ options, of_scores @ hidden)


class Adam:
    """Adam with its usual constants, upwards."""

    def __init__(self, lr: float) -> None:
        self._lr, self._steps = lr, 0
        self._moments: list[tuple[Floats | float, Floats | float]] = [(0.0, 0.0)] * 2

    def step(self, net: Net, gradient: Net) -> Net:
        """Return the network one step up the gradient."""
        self._steps += 1
        moved = []
        for place, (weights, slope) in enumerate(((net.into, gradient.into), (net.out, gradient.out))):
            first, second = self._moments[place]
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            self._moments[place] = first, second
            spread = np.sqrt(second / (1 - 0.999**self._steps)) + 1e-8
            moved.append(weights + self._lr * first / (1 - 0.9**self._steps) / spread)
        return Net(*moved)


def probabilities(scores: Floats) -> Floats:
    """Return the softmax, shape (options,)."""
    raised = np.exp(scores - scores.max())
    found: Floats = raised / raised.sum()
    return found

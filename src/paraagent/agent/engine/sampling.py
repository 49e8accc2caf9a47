"""Chooses the next token of every row from its logits: greedy, or at a temperature with an optional top-p cut.

Place in the flow: layer 3, optional; part of `engine`. A row draws one uniform number per token from a generator of
its own, so what it samples does not depend on which other rows share its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray

from paraagent.errors import UsageError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one turn is written."""

    temperature: float = 0.0
    """0 always takes the likeliest token."""
    top_p: float = 1.0
    """Keep the likeliest tokens up to this share of probability; 1 keeps all."""
    max_tokens: int = 512
    """Per turn."""
    stop: tuple[str, ...] = ()
    """The turn also ends with the token that completes one of these texts."""
    grammar: str = ""
    """Keeps the turn within a grammar, in Lark; its probabilities are then those of what is allowed."""
    rest: Callable[[str], str] | None = None
    """Returns the grammar of what may follow, from what the turn has written so far, asked at the end of every line;
    empty if the grammar stays as it is."""
    answer: str = ""
    """How a turn that answers begins in this grammar: results of sums in it are worked out, see `sums`."""

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.max_tokens < 1:
            raise UsageError("temperature must not be negative, top-p in (0, 1], max tokens at least 1")


def narrow(logits: torch.Tensor, masks: NDArray[np.int32] | None) -> torch.Tensor:
    """Return logits (rows, vocabulary), those of tokens whose bits in masks (rows, vocabulary / 32) are 0 ruled out.

    Ruled out is a number so low that its probability is 0, and not minus infinity, which has no entropy.
    """
    if masks is None:
        return logits
    allowed = np.unpackbits(masks.view(np.uint8), axis=1, count=logits.shape[1], bitorder="little")
    return logits.masked_fill(torch.from_numpy(allowed == 0).to(logits.device), torch.finfo(logits.dtype).min / 2)


def choose(
    logits: torch.Tensor, samplings: Sequence[Sampling], randoms: Sequence[Random]
) -> tuple[list[int], list[float]]:
    """Return a token per row of logits (rows, vocabulary), and its log-probability.

    The log-probability is that of the whole distribution at the row's temperature (1 if greedy), before a top-p cut.
    """
    scores = logits.float()
    heat = torch.tensor([s.temperature or 1.0 for s in samplings], device=logits.device)
    logps = torch.log_softmax(scores / heat[:, None], dim=-1)
    tokens = logps.argmax(dim=-1)
    drawn = [row for row, sampling in enumerate(samplings) if sampling.temperature > 0]
    if drawn:
        points = torch.tensor([randoms[row].random() for row in drawn], dtype=torch.float64, device=logits.device)
        keep = torch.tensor([samplings[row].top_p for row in drawn], device=logits.device)
        rows = torch.tensor(drawn, device=logits.device)
        tokens[rows] = _draw(logps[rows].exp(), keep, points)
    return tokens.tolist(), logps.gather(1, tokens[:, None])[:, 0].tolist()


def _draw(probabilities: torch.Tensor, keep: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Return the token at each point of the (cut) cumulative distribution."""
    if bool((keep < 1).any()):
        ranked, order = probabilities.sort(dim=-1, descending=True)
        before = ranked.cumsum(dim=-1) - ranked
        probabilities = probabilities.scatter(1, order, ranked.masked_fill(before >= keep[:, None], 0.0))
    heaped = probabilities.double().cumsum(dim=-1)
    found = torch.searchsorted(heaped, points[:, None] * heaped[:, -1:], right=True)[:, 0]
    return found.clamp(max=probabilities.shape[1] - 1)

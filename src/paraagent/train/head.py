"""Log-probabilities of chosen tokens only: the language model head runs where something is learned, nowhere else.

Place in the flow: layer 6; both trainers use it on a CPU, where the head over a large vocabulary would otherwise cost
a fifth of a step on tokens that nobody looks at. On a GPU the training library's fused kernel does the same, but does
not know grammars, so guided episodes are scored here on any device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from paraagent.agent.engine.sampling import narrow


@dataclass(frozen=True, slots=True)
class Scores:
    """Of every chosen token, in row order: shape (chosen,)."""

    log_probs: torch.Tensor
    entropy: torch.Tensor
    """Of the distribution the token came from, 0 if not asked for; no gradient."""
    top: torch.Tensor
    """Whether the token is the likeliest."""


def score(
    model: PreTrainedModel,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor | None,
    chosen: torch.Tensor,
    temperature: float = 1.0,
    *,
    masks: NDArray[np.int32] | None = None,
    entropy: bool = True,
) -> Scores:
    """Return the scores of the tokens at `chosen`.

    Args:
        model: causal language model, adapters in place.
        input_ids: (batch, tokens).
        attention_mask: of the same shape, or None.
        chosen: True at the tokens to score, (batch, tokens); a row's first token cannot be chosen.
        temperature: the logits are divided by it.
        masks: what could come at the chosen places, as bits (chosen, vocabulary / 32); None if everything could.
        entropy: compute that too, which costs as much as the probabilities.
    """
    hidden = model.base_model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
    picked = hidden[:, :-1][chosen[:, 1:]]
    targets = input_ids[:, 1:][chosen[:, 1:]]
    logits = model.get_output_embeddings()(picked).float()
    if temperature != 1:
        logits = logits / temperature
    logits = narrow(logits, masks)
    every = torch.log_softmax(logits, dim=-1)
    with torch.no_grad():
        spread = -(every.exp() * every).sum(dim=-1) if entropy else logits.new_zeros(len(targets))
        top = logits.argmax(dim=-1) == targets
    return Scores(every.gather(1, targets[:, None])[:, 0], spread, top)

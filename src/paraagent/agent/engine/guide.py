"""Keeps what a model writes within a grammar: tokens that would leave it cannot be chosen.

Place in the flow: layer 3, optional; part of `engine`, which asks the guide of every turn that has one. What has only
one continuation is written without asking the model. The work is done by llguidance, which reads grammars in Lark.
A grammar that cannot be read, or is too large, guides nothing, with a warning.
Probabilities are those of what is left, which learning from a guided turn has to know: masks are kept with the turn.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from paraagent.errors import EnvironmentFault, UsageError

try:
    from llguidance import LLMatcher
    from llguidance.hf import from_tokenizer
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
except ImportError:
    raise EnvironmentFault("local models need the package llguidance: pip install 'paraagent[local]'") from None


class Guide:
    """How far one turn has come in its grammar; a guide that is lost warns once and lets everything pass."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self._lost = False

    def fill(self, masks: NDArray[np.int32], row: int) -> None:
        """Set a row of bit masks, (rows, vocabulary / 32), to the tokens that may come next."""
        if not self._matcher.is_error():
            fill_next_token_bitmask(self._matcher, masks, row)
        if self._matcher.is_error():
            masks[row] = -1
            if not self._lost:
                warnings.warn(f"a turn is written unguided: {self._matcher.get_error()[:300]}", stacklevel=2)
            self._lost = True

    def take(self, token: int) -> list[int]:
        """Take note of a token; return those that can only follow it."""
        if self._matcher.is_error() or self._matcher.is_stopped() or not self._matcher.consume_token(token):
            return []
        forced: list[int] = self._matcher.compute_ff_tokens()
        return forced if not forced or self._matcher.consume_tokens(forced) else []


class Guides:
    """Makes guides for one tokenizer.

    Args:
        vocabulary: how many tokens the model tells apart.

    Raises:
        UsageError: the tokenizer is of a kind that cannot be guided.
    """

    def __init__(self, tokenizer: object, stop_ids: Sequence[int], vocabulary: int) -> None:
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise UsageError(
                f"{type(tokenizer).__name__} has no tokenizer.json, so its turns cannot be guided: take --guide off"
            )
        self._tokenizer = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=list(stop_ids))

    def begin(self, grammar: str) -> Guide:
        """Return the guide of a turn."""
        return Guide(LLMatcher(self._tokenizer, grammar, log_level=0))


def masks_of(guides: Sequence[Guide | None], vocabulary: int) -> NDArray[np.int32] | None:
    """Return which tokens may come next as bits, (guides, vocabulary / 32), all set where there is no guide.

    None if nothing is guided.
    """
    if not any(guides):
        return None
    masks: NDArray[np.int32] = allocate_token_bitmask(len(guides), vocabulary)
    for row, guide in enumerate(guides):
        if guide is not None:
            guide.fill(masks, row)
    return masks

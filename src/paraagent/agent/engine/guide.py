"""Keeps what a model writes within a grammar: tokens that would leave it cannot be chosen.

Place in the flow: layer 3, optional; part of `engine`, which asks the guide of every turn that has one. What has only
one continuation is written without asking the model. The work is done by llguidance, which reads grammars in Lark.
A grammar that cannot be read, or is too large, guides nothing, with a warning. In answers, the results of sums are
worked out (`sums`) and stand there without being chosen.
Probabilities are those of what is left, which learning from a guided turn has to know: masks are kept with the turn.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from paraagent.agent.engine import sums
from paraagent.errors import EnvironmentFault, UsageError

try:
    from llguidance import LLMatcher
    from llguidance.hf import from_tokenizer
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
except ImportError:
    raise EnvironmentFault("local models need the package llguidance: pip install 'paraagent[local]'") from None


_SIGNS = {"+", "-", "x", "*", "/"}


class Sums:
    """Writes results into a text; made for one tokenizer, shared by its guides."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, vocabulary: int) -> None:
        self._tokenizer = tokenizer
        longer = np.zeros(-(-vocabulary // 32) * 32, dtype=np.uint8)
        for token in tokenizer.get_vocab().values():
            text = self.text([token]) if token < vocabulary else ""
            longer[token] = text[:1].isdigit() or (text[:1] == " " and text.strip() in _SIGNS)
        self.after_result: NDArray[np.int32] = ~np.packbits(longer, bitorder="little").view(np.int32)
        """Tokens that lengthen neither a number nor a sum, as bits (vocabulary / 32)."""

    def text(self, tokens: Sequence[int]) -> str:
        found: str = self._tokenizer.decode(list(tokens))
        return found

    def after(self, text: str) -> list[int]:
        """Return the tokens of the result that the end of a text asks for; none if it does not."""
        found: list[int] = self._tokenizer.encode(sums.result(text), add_special_tokens=False)
        return found


class Guide:
    """How far one turn has come in its grammar; a guide that is lost warns once and lets everything pass.

    Args:
        sums: writes results into what follows `answer`.
        answer: how a turn begins that answers; empty if no results are to be written.
    """

    def __init__(self, matcher: LLMatcher, sums: Sums | None = None, answer: str = "") -> None:
        self._matcher = matcher
        self._sums = sums if answer else None
        self._answer = answer
        self._text = ""
        self._settled = False
        """Whether the last token ends a result."""
        self._lost = False

    def fill(self, masks: NDArray[np.int32], row: int) -> None:
        """Set a row of bit masks, (rows, vocabulary / 32), to the tokens that may come next."""
        if not self._matcher.is_error():
            fill_next_token_bitmask(self._matcher, masks, row)
            if self._settled and self._sums is not None:
                masks[row] &= self._sums.after_result
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
        if forced and not self._matcher.consume_tokens(forced):
            return []
        self._note([token, *forced])
        worked_out = self._sums.after(self._text[len(self._answer) :]) if self._sums else []
        self._settled = bool(worked_out) and self._matcher.consume_tokens(worked_out)
        if not self._settled:
            return forced
        self._note(worked_out)
        return [*forced, *worked_out]

    def _note(self, tokens: Sequence[int]) -> None:
        """Take note of the turn's text, as long as it may be an answer."""
        if self._sums is not None:
            self._text += self._sums.text(tokens)
            if not self._text.startswith(self._answer[: len(self._text)]):
                self._sums = None


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
        self._sums = Sums(tokenizer, vocabulary)

    def begin(self, grammar: str, answer: str = "") -> Guide:
        """Return the guide of a turn, which writes results into what follows `answer`."""
        return Guide(LLMatcher(self._tokenizer, grammar, log_level=0), self._sums, answer)


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

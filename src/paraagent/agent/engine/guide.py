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
from paraagent.agent.engine.sampling import Sampling
from paraagent.errors import EnvironmentFault, UsageError

try:
    from llguidance import LLMatcher
    from llguidance.hf import from_tokenizer
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
except ImportError:
    raise EnvironmentFault("local models need the package llguidance: pip install 'paraagent[local]'") from None


_SIGNS = {"+", "-", "x", "*", "/"}


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
        self._texts = tokenizer
        self._tokens = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=list(stop_ids))
        longer = np.zeros(-(-vocabulary // 32) * 32, dtype=np.uint8)
        for token in tokenizer.get_vocab().values():
            text = self.text([token]) if token < vocabulary else ""
            longer[token] = text[:1].isdigit() or (text[:1] == " " and text.strip() in _SIGNS)
        self.after_result: NDArray[np.int32] = ~np.packbits(longer, bitorder="little").view(np.int32)
        """Tokens that lengthen neither a number nor a sum, as bits (vocabulary / 32)."""

    def begin(self, sampling: Sampling) -> Guide:
        """Return the guide of a turn."""
        return Guide(self, sampling)

    def matcher(self, grammar: str) -> LLMatcher:
        return LLMatcher(self._tokens, grammar, log_level=0)

    def text(self, tokens: Sequence[int]) -> str:
        found: str = self._texts.decode(list(tokens), clean_up_tokenization_spaces=False)
        return found

    def result(self, text: str) -> list[int]:
        """Return the tokens of the result that the end of a text asks for; none if it does not."""
        found: list[int] = self._texts.encode(sums.result(text), add_special_tokens=False)
        return found


class Guide:
    """How far one turn has come in its grammar; a guide that is lost warns once and lets everything pass."""

    def __init__(self, guides: Guides, sampling: Sampling) -> None:
        self._guides = guides
        self._sampling = sampling
        self._matcher = guides.matcher(sampling.grammar)
        self._written: list[int] = []
        self._tail = ""
        """The end of an answer."""
        self._settled = False
        """Whether the last token ends a result."""
        self._lost = False

    def fill(self, masks: NDArray[np.int32], row: int) -> None:
        """Set a row of bit masks, (rows, vocabulary / 32), to the tokens that may come next."""
        if not self._matcher.is_error():
            fill_next_token_bitmask(self._matcher, masks, row)
            if self._settled and (ended := masks[row] & self._guides.after_result).any():
                masks[row] = ended
        if self._matcher.is_error():
            masks[row] = -1
            if not self._lost:
                warnings.warn(f"a turn is written unguided: {self._matcher.get_error()[:300]}", stacklevel=2)
            self._lost = True

    def take(self, token: int) -> list[int]:
        """Take note of a token; return those that can only follow it."""
        if self._matcher.is_error() or self._matcher.is_stopped() or not self._matcher.consume_token(token):
            return []
        self._written.append(token)
        self._look_again(token)
        forced = self._up_to_line(self._matcher.compute_ff_tokens())
        if forced and not self._matcher.consume_tokens(forced):
            return []
        self._written += forced
        if forced:
            self._look_again(forced[-1])
        result = self._result([token, *forced])
        self._settled = bool(result) and self._matcher.consume_tokens(result)
        if not self._settled:
            return forced
        self._written += result
        self._tail += self._guides.text(result)
        return [*forced, *result]

    def _up_to_line(self, tokens: list[int]) -> list[int]:
        """Return the tokens up to the first that ends a line, behind which the grammar may be another one."""
        ends = (place for place, token in enumerate(tokens, 1) if self._ends_line(token))
        return tokens[: next(ends, len(tokens))]

    def _ends_line(self, token: int) -> bool:
        return self._sampling.rest is not None and self._guides.text([token]).endswith("\n")

    def _look_again(self, token: int) -> None:
        """Take up the grammar of the rest where a line has ended, if there is one."""
        rest = self._sampling.rest
        if rest is None or not self._ends_line(token):
            return
        try:
            grammar = rest(self._guides.text(self._written))
        except Exception as error:  # other turns are written in the same step
            warnings.warn(f"the grammar of a turn's rest cannot be made: {error!r}", stacklevel=2)
            return
        if grammar and not (matcher := self._guides.matcher(grammar)).is_error():
            self._matcher = matcher

    def _result(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens of the result that an answer asks for at its end, if it does."""
        if not self._answers:
            return []
        self._tail = (self._tail + self._guides.text(tokens))[-sums.TAIL :]
        return self._guides.result(self._tail)

    @property
    def _answers(self) -> bool:
        head = self._sampling.answer
        return bool(head) and self._guides.text(self._written[: len(head)]).startswith(head)


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

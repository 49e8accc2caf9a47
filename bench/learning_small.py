"""A small language model from nothing, for comparisons that need more runs than the shipped model has time for.

Place in the flow: part of bench/learning.py. The tokenizer is fitted to demonstrations (bytes and their frequent
pairs, every digit alone). Copying is what the work asks for most, and what a small model takes longest to find by
itself, so the first two layers begin as an induction head (Olsson et al., 2022, "In-context learning and induction
heads"): one attends to the token before, the next to what followed that token earlier. All else is random. What it
learns it learns by `paraagent train sft --lora-rank 0`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from paraagent.demos.formats import read
from paraagent.train.rows import retell

BEGIN, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
TEMPLATE = (
    "{% for message in messages %}"
    f"{BEGIN}{{{{ message['role'] }}}}\n{{{{ message['content'] }}}}{END}\n"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{BEGIN}assistant\n{{% endif %}}"
)
_HEAD = 64
"""Size of an attention head."""
_BASE = 1e8
"""Of the rotary embedding: so large that half of the pairs hardly turn within a context and can match tokens."""
_FAST, _SLOW = 0.02, 4e-4
"""Radians per token from which on a pair tells positions apart, and below which it does not."""
_BEFORE, _MATCH, _COPY, _SURE = 14.0, 10.0, 1.5, 0.12
"""Sharpness of looking one token back and of matching; strength of the copy; scale of the last norm. Tried on random
sequences that repeat themselves: 0.83 of the repeated tokens are predicted before any training."""


def build(data: Path, out: Path, *, vocabulary: int, width: int, layers: int, seed: int = 0) -> None:
    """Write the folder of an untrained model whose tokenizer knows the words of these demonstrations."""
    if width % (2 * _HEAD) or layers < 2:
        raise SystemExit(f"--width must be a multiple of {2 * _HEAD}, --layers at least 2")
    tokenizer = fit(data, vocabulary)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=width * 3,
        num_hidden_layers=layers,
        num_attention_heads=width // _HEAD,
        num_key_value_heads=width // _HEAD,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": _BASE},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        begin_copying(model)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    print(f"{out}: {sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer):,} tokens")


def begin_copying(model: LlamaForCausalLM) -> None:
    """Set the weights of the first two attentions, the embeddings and the last norm to an induction head's.

    The first half of the residual stream holds the token, but for its last place, which is the same for all; the
    second half, empty at first, will hold the token before.
    """
    half = model.config.hidden_size // 2
    known = half - 1
    turns = [_BASE ** (-pair / (_HEAD // 2)) for pair in range(_HEAD // 2)]
    fast = [pair for pair, turn in enumerate(turns) if turn > _FAST]
    slow = [pair for pair, turn in enumerate(turns) if turn < _SLOW]
    still = [*slow, *(pair + _HEAD // 2 for pair in slow)]
    embeddings = model.get_input_embeddings().weight
    embeddings[:, :known].normal_(0, 0.5)
    embeddings[:, known], embeddings[:, half:] = 0.5, 0.0
    model.model.norm.weight.fill_(_SURE)
    before, match = (layer.self_attn for layer in model.model.layers[:2])
    for head in range(math.ceil(known / _HEAD)):
        query, key = _cleared(before, head)
        for pair in fast:
            key[pair, known] = math.sqrt(_BEFORE)
            query[pair, known] = math.sqrt(_BEFORE) * math.cos(turns[pair])
            query[pair + _HEAD // 2, known] = -math.sqrt(_BEFORE) * math.sin(turns[pair])
        _carry(before, head, known, half, 0.5)
        query, key = _cleared(match, head)
        for place, dimension in enumerate(still):
            compared = (head * len(still) + place) % known
            query[dimension, compared] = key[dimension, half + compared] = math.sqrt(_MATCH)
        _carry(match, head, known, 0, _COPY)


def _cleared(attention: torch.nn.Module, head: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the query and key weights of one head, all 0."""
    rows = slice(head * _HEAD, (head + 1) * _HEAD)
    return attention.q_proj.weight[rows].zero_(), attention.k_proj.weight[rows].zero_()


def _carry(attention: torch.nn.Module, head: int, known: int, to: int, strength: float) -> None:
    """Let a head carry its part of the tokens it looks at to the places from `to` on."""
    places = range(head * _HEAD, (head + 1) * _HEAD)
    attention.v_proj.weight[places.start : places.stop] = 0.0
    attention.o_proj.weight[:, places.start : places.stop] = 0.0
    for place in places:
        if place < known:
            attention.v_proj.weight[place, place] = 1.0
            attention.o_proj.weight[to + place, place] = strength


def fit(data: Path, vocabulary: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer of at most so many tokens for the texts of the demonstrations, told in compact dialect."""
    bare = Tokenizer(models.BPE())
    words = Regex(r" ?\p{L}+|\p{N}|_| ?[^\s\p{L}\p{N}_]+|\s+")
    bare.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    bare.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bare.train_from_iterator(_texts(data), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def _texts(data: Path) -> Iterator[str]:
    for demo in read(data):
        try:
            yield from (message.content for message in retell(demo))
        except ValueError:  # cannot be told in this dialect, so nothing is learned from it
            continue

"""A Llama of a few thousand random weights with a byte-level tokenizer and a ChatML template, made in no time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

torch.set_num_threads(1)

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WARNINGS = [
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::UserWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
]
"""What the libraries below warn of; ours stay errors in the other tests."""


def tokenizer() -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: number for number, token in enumerate([*special, *letters])}
    built = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=built,
        chat_template=TEMPLATE,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
    )


def model(seed: int = 0, **changes: object) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    settings: dict[str, object] = {
        "vocab_size": 259,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.3,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "bos_token_id": 1,
    }
    return LlamaForCausalLM(LlamaConfig(**(settings | changes))).eval()


def folder(path: Path, seed: int = 0) -> Path:
    """Write the model and its tokenizer into a folder."""
    model(seed).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path

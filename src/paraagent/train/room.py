"""Gradient checkpointing as far as memory asks for it: the first layers of a long row are computed again later.

Place in the flow: layer 6; `worker` makes room before it scores rows on a CPU. What a layer keeps for the backward
pass grows with a row's length, in attention with its square, so the longest row of a run decides what a process
takes. Same numbers, bit for bit; where all layers are computed again, a row takes half as long again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

ROOM = 1_000_000_000
"""Bytes that the layers of a process may keep for the backward pass."""
_again = partial(checkpoint, use_reentrant=False)


def make_room(model: PreTrainedModel, lengths: Sequence[int], itemsize: int) -> None:
    """Choose the layers that keep what they compute, as many as there is room for, the last ones.

    Args:
        lengths: tokens of each row that is scored before the backward pass.
        itemsize: bytes of a number that is kept.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    kept = min(len(layers), ROOM // (itemsize * sum(layer_size(model, tokens) for tokens in lengths)))
    for place, layer in enumerate(layers):  # the model's own switch would add a hook to it every time
        layer.gradient_checkpointing = place < len(layers) - kept
        layer._gradient_checkpointing_func = _again


def layer_size(model: PreTrainedModel, tokens: int) -> int:
    """Return about how many numbers a decoder layer keeps for the backward pass over a row.

    Inputs of norms and products and what gates multiply (measured: 16 times the width, 4 times the inner width), and
    the lower half of every head's attention. About right with LoRA; with all weights in training in bfloat16 it is up
    to twice as much. The head over the vocabulary is not counted.
    """
    config = model.config.get_text_config()
    inner = getattr(config, "intermediate_size", 4 * config.hidden_size)
    each = 16 * config.hidden_size + 4 * inner + config.num_attention_heads * tokens / 2
    return int(tokens * each)

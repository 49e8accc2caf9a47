"""The model in training: opened, given an adapter, and made once more for a worker.

Place in the flow: layer 6, shared by both trainers and their workers.
"""

from __future__ import annotations

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel

from paraagent.agent.engine.load import load_model, resolve_folder
from paraagent.errors import UsageError
from paraagent.train.adapter import fuse
from paraagent.train.attention import use_blocks
from paraagent.train.config import Optimisation


def open_model(name: str, optimisation: Optimisation, adapter: str | None = None) -> PreTrainedModel:
    """Return the model to train: with the adapter it starts from, if one is named, still apart from the weights.

    Raises:
        UsageError: the model or the adapter cannot be used.
    """
    short = optimisation.lora_rank > 0 and optimisation.bf16
    model = load_model(resolve_folder(name), dtype="bfloat16" if short else "float32")
    use_blocks(model)
    if adapter is None:
        return model
    if optimisation.lora_rank == 0:
        raise UsageError("an adapter cannot be trained on with --lora-rank 0: merge it into the model first")
    try:
        found = PeftModel.from_pretrained(model, adapter, is_trainable=True)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).split("\n")[0][:200]
        raise UsageError(f"{adapter} holds no adapter that fits this model ({reason})") from error
    kind = found.peft_config["default"]
    if kind.lora_dropout or kind.use_dora or kind.modules_to_save or kind.bias != "none":
        raise UsageError(
            f"{adapter} is no plain LoRA (it has dropout, DoRA, biases or whole modules): merge it first"
        )
    return found


def copy_model(name: str, optimisation: Optimisation, adapter: str | None = None) -> PreTrainedModel:
    """Return the model once more as the trainer has it, for a worker: bare, its adapter in effect."""
    model = open_model(name, optimisation, adapter)
    if optimisation.lora_rank and adapter is None:
        model = get_peft_model(model, lora(optimisation))
    spare_copies(model)
    if optimisation.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return bare(model.train())


def merge(model: PreTrainedModel, plain: PreTrainedModel) -> None:
    """Set the weights of `plain`, the same model without adapters, to those of `model` with its adapter merged."""
    with torch.no_grad():
        for path, layer in model.named_modules():
            if hasattr(layer, "get_delta_weight"):
                merged = layer.get_base_layer().weight.float() + layer.get_delta_weight("default").float()
                plain.get_submodule(path).weight.copy_(merged)


def lora(optimisation: Optimisation) -> LoraConfig:
    """Return the adapter that is trained: every linear layer but the head."""
    return LoraConfig(
        r=optimisation.lora_rank,
        lora_alpha=optimisation.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def bare(model: PreTrainedModel) -> PreTrainedModel:
    """Return the causal language model inside an adapter's wrapper; the adapter stays in effect."""
    found: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
    return found


def spare_copies(model: torch.nn.Module) -> None:
    """Let adapters make no copies of what they read, and no passes over it that can be spared."""
    for layer in model.modules():
        if hasattr(layer, "cast_input_dtype_enabled"):
            layer.cast_input_dtype_enabled = False  # autocast does it
            fuse(layer)

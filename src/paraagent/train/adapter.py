"""A low-rank adapter's layers with fewer passes over memory, for training on a CPU.

Place in the flow: layer 6; `model.spare_copies` puts it into a model. What PEFT computes in four steps (product,
scaling, sum, and their gradients) are matrix products that add to what is there. Same numbers up to rounding.
Limits: one active adapter on a frozen layer without bias, no dropout; other layers stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from peft.tuners.lora.layer import Linear


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """`x W' + x A' B'` for x (tokens, in), a frozen W (out, in), A (rank, in) and B (out, rank)."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, down: torch.Tensor, up: torch.Tensor
    ) -> torch.Tensor:
        narrow = x @ down.t()
        ctx.save_for_backward(x, weight, down, up, narrow)
        return (x @ weight.t()).addmm_(narrow, up.t())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, torch.Tensor, torch.Tensor]:
        x, weight, down, up, narrow = ctx.saved_tensors
        through = gradient @ up
        return (gradient @ weight).addmm_(through, down), None, through.t() @ x, gradient.t() @ narrow


def fuse(layer: torch.nn.Module) -> None:
    """Let an adapter's layer compute this way, if it is one that can."""
    if not isinstance(layer, Linear):
        return
    base = layer.get_base_layer()
    if base.weight.device.type == "cpu" and base.bias is None:
        layer.forward = MethodType(_forward(layer.forward), layer)


def _forward(plain: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def forward(layer: Linear, x: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        name = layer.active_adapters[0] if len(layer.active_adapters) == 1 else ""
        if layer.disable_adapters or layer.merged or rest or named or not _is_simple(layer, name):
            return plain(x, *rest, **named)
        weight = layer.get_base_layer().weight
        with torch.autocast("cpu", enabled=False):
            down = layer.lora_A[name].weight.to(weight.dtype)
            up = (layer.lora_B[name].weight * layer.scaling[name]).to(weight.dtype)
            flat = x.reshape(-1, x.shape[-1]).to(weight.dtype)
            found: torch.Tensor = _Product.apply(flat, weight, down, up)
        return found.view(*x.shape[:-1], -1)

    return forward


def _is_simple(layer: Linear, name: str) -> bool:
    """Return whether an adapter is in the layer and adds nothing but its product."""
    return (
        name in layer.lora_A
        and name not in layer.lora_variant
        and isinstance(layer.lora_dropout[name], torch.nn.Identity)
        and layer.lora_B[name].bias is None
    )

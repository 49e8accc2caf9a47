"""Keys and values of many episodes at once, each at its own length, behind transformers' attention interface.

Place in the flow: layer 3, optional; `engine` runs one flat forward per step over the new tokens of all rows, and the
attention of every layer lands here. A row's new tokens are written to its slot and attend to all that the slot holds,
so nothing is padded and nothing is computed twice. Works for every decoder whose attention goes through the interface
with plain softmax, grouped or not, with or without a sliding window.
Limits: one slot holds one contiguous sequence; memory is slots times the longest sequence so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from paraagent.errors import UsageError

_NAME = "paraagent_ragged"
_GROWTH = 256
"""Slots grow by an eighth, in steps of so many tokens: what they have beyond the longest episode is for nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """The new tokens of one sequence in a step: `tokens` of them, after `start` that the slot holds already."""

    slot: int
    start: int
    tokens: int


class SlotCache:
    """Room for `slots` sequences, allocated on first use and grown as sequences do.

    Args:
        one_by_one: attend row by row, which is fastest on a CPU; else all rows that decode in one batch.
    """

    def __init__(self, slots: int, *, one_by_one: bool) -> None:
        self.slots = slots
        self.one_by_one = one_by_one
        self.capacity = 0
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def reserve(self, tokens: int) -> None:
        """Make room for sequences of that many tokens."""
        if tokens <= self.capacity:
            return
        self.capacity = -(-max(tokens, self.capacity * 9 // 8) // _GROWTH) * _GROWTH
        with torch.inference_mode():
            for index, (keys, values) in self._layers.items():
                self._layers[index] = (self._grown(keys), self._grown(values))

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copy the first tokens of one slot to another."""
        with torch.inference_mode():
            for part in (part for pair in self._layers.values() for part in pair):
                part[target, :, :tokens] = part[source, :, :tokens]

    def clear(self) -> None:
        """Give the memory back; whatever the slots held is lost."""
        self._layers.clear()
        self.capacity = 0

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for pair in self._layers.values() for t in pair)

    def layer(self, index: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of a layer, each (slots, kv heads, capacity, head size)."""
        if index not in self._layers:
            shape = (self.slots, like.shape[1], self.capacity, like.shape[3])
            self._layers[index] = (like.new_zeros(shape), like.new_zeros(shape))
        return self._layers[index]

    def _grown(self, old: torch.Tensor) -> torch.Tensor:
        new = old.new_zeros((*old.shape[:2], self.capacity, old.shape[3]))
        new[:, :, : old.shape[2]] = old
        return new


class Step:
    """What one forward pass knows about its rows."""

    def __init__(self, cache: SlotCache, rows: Sequence[Row], device: torch.device) -> None:
        self.cache = cache
        self.rows = rows
        places = [(row.slot, row.start + n) for row in rows for n in range(row.tokens)]
        self.slot_of, self.position_of = torch.tensor(places, device=device).T
        cache.reserve(max(row.start + row.tokens for row in rows))
        ends: list[int] = []
        for row in rows:
            ends.append((ends[-1] if ends else 0) + row.tokens)
        self.starts = [end - row.tokens for end, row in zip(ends, rows, strict=True)]
        self.last = torch.tensor(ends, device=device) - 1
        """Where each row's last token stands among all new tokens."""

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, window: int | None
    ) -> torch.Tensor:
        """Return (1, tokens, heads, head size) for queries (heads, tokens, head size)."""
        out = torch.empty_like(query)
        single = [] if self.cache.one_by_one else [i for i, row in enumerate(self.rows) if row.tokens == 1]
        if len(single) > 1:
            self._attend_batch(out, query, keys, values, scale, window, single)
        for row, start in zip(self.rows, self.starts, strict=True):
            if len(single) > 1 and row.tokens == 1:
                continue
            end = row.start + row.tokens
            first = 0 if window is None else max(0, row.start - window + 1)
            out[:, start : start + row.tokens] = _attend_row(
                query[:, start : start + row.tokens],
                keys[row.slot, :, first:end],
                values[row.slot, :, first:end],
                scale,
                window,
            )
        return out.transpose(0, 1)[None]

    def _attend_batch(
        self,
        out: torch.Tensor,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        scale: float,
        window: int | None,
        single: list[int],
    ) -> None:
        """Attend for all rows with one new token at once, padded to the longest of them."""
        heads, kv_heads = query.shape[0], keys.shape[1]
        slots = torch.tensor([self.rows[i].slot for i in single], device=query.device)
        places = torch.tensor([self.starts[i] for i in single], device=query.device)
        ends = torch.tensor([self.rows[i].start + 1 for i in single], device=query.device)
        longest = max(self.rows[i].start + 1 for i in single)
        position = torch.arange(longest, device=query.device)
        seen = position < ends[:, None]
        if window is not None:
            seen &= position >= ends[:, None] - window
        folded = query[:, places].transpose(0, 1).reshape(len(single), kv_heads, heads // kv_heads, -1)
        found = F.scaled_dot_product_attention(
            folded,
            keys[slots, :, :longest],
            values[slots, :, :longest],
            attn_mask=seen[:, None, None].expand(-1, 1, heads // kv_heads, -1),
            scale=scale,
        )
        out[:, places] = found.reshape(len(single), heads, -1).transpose(0, 1)


def _attend_row(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, window: int | None
) -> torch.Tensor:
    """Attend for one row: (heads, new, size) to (kv heads, all, size), the new tokens being the last of all."""
    heads, new, size = query.shape
    kv_heads, total, _ = keys.shape
    if new == 1:  # the heads of a group share their keys: one small product per group
        folded = query.view(1, kv_heads, heads // kv_heads, size)
        found = F.scaled_dot_product_attention(folded, keys[None], values[None], scale=scale)
        return found.reshape(heads, 1, size)
    mask = None
    if total != new or window is not None:
        place = torch.arange(total - new, total, device=query.device)[:, None]
        other = torch.arange(total, device=query.device)
        mask = (other <= place) if window is None else (other <= place) & (other > place - window)
    return F.scaled_dot_product_attention(
        query[None], keys[None], values[None], attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=True
    )[0]


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    ragged: Step | None = None,
    sliding_window: int | None = None,
    **other: object,
) -> tuple[torch.Tensor, None]:
    """Stand in for transformers' attention: (1, heads, tokens, size) in, (1, tokens, heads, size) out."""
    if ragged is None or any(other.get(name) is not None for name in ("softcap", "s_aux")):
        raise UsageError(f"{type(module).__name__} attends in a way that the local engine does not know")
    keys, values = ragged.cache.layer(module.layer_idx, key)
    keys[ragged.slot_of, :, ragged.position_of] = key[0].transpose(0, 1)
    values[ragged.slot_of, :, ragged.position_of] = value[0].transpose(0, 1)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return ragged.attend(query[0], keys, values, scale, sliding_window), None


def _no_mask(**_: object) -> None:
    return None


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, _no_mask)


def check_supported(model: PreTrainedModel) -> None:
    """Refuse models whose state is more than keys and values.

    Raises:
        UsageError: names the layer kind.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    unknown = sorted(kinds - {"full_attention", "sliding_attention"})
    if unknown or not type(model)._supports_attention_backend:
        what = f"layers of kind {unknown[0]}" if unknown else "an attention of its own"
        raise UsageError(
            f"{type(model).__name__} has {what}, which the local engine cannot run: "
            "serve it with an OpenAI-compatible server and use --policy http"
        )


@contextmanager
def ragged_attention(model: PreTrainedModel) -> Iterator[None]:
    """Let the model attend through slot caches inside this context."""
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = before

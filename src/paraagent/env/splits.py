"""Which tasks are for training and which are held out: by provider, and inside training providers by tool.

Place in the flow: layer 3, used by `tasks`. A provider's split follows from a hash of its name alone, so it is the
same in every catalog, process and version: about a fifth is never seen in training, a tenth is for validation. Of the
tools of training providers a tenth is never the goal of a training task: those are the goals of `test-seen`.
"""

from __future__ import annotations

import hashlib

from paraagent.types import Split, Tool

UNSEEN_PERCENT = 20
VALIDATION_PERCENT = 10
HELD_OUT_PERCENT = 10


def provider_split(provider: str) -> Split:
    """Return `train`, `validation` or `test-unseen` for a provider; `test-seen` shares the providers of `train`."""
    place = _percent(f"provider:{provider}")
    if place < UNSEEN_PERCENT:
        return "test-unseen"
    return "validation" if place < UNSEEN_PERCENT + VALIDATION_PERCENT else "train"


def serves(provider: str, split: Split) -> bool:
    """Tell whether tasks of this split may use the provider."""
    return provider_split(provider) == ("train" if split == "test-seen" else split)


def may_be_goal(tool: Tool, split: Split) -> bool:
    """Tell whether the tool may end a chain: held-out ones in `test-seen` alone, the others elsewhere."""
    if split not in ("train", "test-seen"):
        return True
    return (_percent(f"tool:{tool.name}") < HELD_OUT_PERCENT) == (split == "test-seen")


def _percent(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 100

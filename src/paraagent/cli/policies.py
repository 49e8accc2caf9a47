"""Who plays, as `run`, `eval` and `scale` are told: which policy their options name, and options that all share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from paraagent.errors import UsageError


class GuideName(StrEnum):
    off = "off"
    calls = "calls"
    checked = "checked"


MODEL_DIR_HELP = "Folder of a causal language model to run on this machine; SmolLM2-135M unless given."
ADAPTER_HELP = "Its adapter, as `train` leaves it; the one that comes with it unless given, `none` for none."
GUIDE_HELP = (
    "Keep its calls to tools that were shown, and work out sums in answers (calls), also write turns again that are "
    "hardly right (checked, the default), or off."
)
CONCURRENCY_HELP = "Episodes in flight; 8 unless given, 16 for a model on this machine."

ModelDir = Annotated[str | None, typer.Option("--model-dir", metavar="DIR", help=MODEL_DIR_HELP)]
Adapter = Annotated[str | None, typer.Option("--adapter", metavar="DIR", help=ADAPTER_HELP)]
Guide = Annotated[GuideName | None, typer.Option("--guide", help=GUIDE_HELP)]
Concurrency = Annotated[int | None, typer.Option("--concurrency", min=1, help=CONCURRENCY_HELP)]


def policy_of(
    policy: str | None, model: str | None, model_dir: str | None, adapter: str | None, guide: GuideName | None
) -> str:
    """Return who plays: the policy that is named, else the one that the options are for, `rules` if there are none.

    Raises:
        UsageError: the options belong to different policies, or one is missing.
    """
    own = "--model-dir" if model_dir else "--adapter" if adapter else "--guide" if guide else None
    if own and model:
        raise UsageError(f"{own} is for a model on this machine, --model for one at an endpoint: leave one out")
    if own and policy not in (None, "local"):
        raise UsageError(f"{own} is for --policy local, not for {policy}: leave one out")
    if policy == "local" and model:
        raise UsageError("--policy local takes a model's folder: name it with --model-dir, not --model")
    if policy == "http" and not model:
        raise UsageError("--policy http needs --model (and --base-url for an endpoint of your own)")
    return policy or ("local" if own else "http" if model else "rules")


def episodes_at_once(concurrency: int | None, policy: str) -> int:
    """Return how many episodes are in flight: a model on this machine writes many for the price of a few."""
    return concurrency or (16 if policy == "local" else 8)

"""How one demonstration is told: the choices that its seed makes before anything is played.

Place in the flow: layer 5; `generate` draws a `Style`, `experts` follow it. Mistakes are made on purpose and then
mended, so that the way back is learned; the turn with the mistake itself is never learned from (see `demo`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Literal

from paraagent.types import JsonObject, JsonValue, Tool

Linking = Literal["always", "never", "mix"]
Mistake = Literal["name", "type", "missing", "link"]
MISTAKES: tuple[Mistake, ...] = ("name", "type", "missing", "link")


@dataclass(frozen=True, slots=True)
class Style:
    """The choices of one demonstration."""

    voice: int = 0
    """Seed of the wording."""
    linked: bool = True
    """Whole chains in one turn of linked calls; else layer by layer, with values copied from results."""
    vague: bool = False
    """Some first queries leave the service out and may find nothing suitable."""
    mistake: Mistake | None = None
    """What is wrong with the first call that allows it."""


def draw(rng: Random, linking: Linking, vague: float, mistakes: float) -> Style:
    """Draw a style; `vague` and `mistakes` are probabilities."""
    return Style(
        voice=rng.getrandbits(32),
        linked={"always": True, "never": False, "mix": rng.random() < 0.5}[linking],
        vague=rng.random() < vague,
        mistake=rng.choice(MISTAKES) if rng.random() < mistakes else None,
    )


def spoil(arguments: JsonObject, tool: Tool, mistake: Mistake) -> tuple[JsonObject, str] | None:
    """Return arguments with a mistake and the parameter it is about, or None if this call does not allow it."""
    wanted = tool.parameters.get("required")
    required = [name for name in wanted if name in arguments] if isinstance(wanted, list) else []
    for name in required:
        spoiled = _spoiled(arguments, str(name), mistake)
        if spoiled is not None:
            return spoiled, str(name)
    return None


def _spoiled(arguments: JsonObject, name: str, mistake: Mistake) -> JsonObject | None:
    value = arguments[name]
    linked = isinstance(value, str) and value.startswith("$")
    if mistake == "missing":
        return None if linked else {key: kept for key, kept in arguments.items() if key != name}
    if mistake == "name":
        other = _respelt(name)
        return {other if key == name else key: kept for key, kept in arguments.items()} if other != name else None
    wrong: JsonValue = None
    if mistake == "type" and isinstance(value, int | float) and not isinstance(value, bool):
        wrong = str(value)
    elif mistake == "link" and linked:
        wrong = _misled(str(value))
    return None if wrong is None or wrong == value else arguments | {name: wrong}


def _respelt(name: str) -> str:
    """Return the name in the other common spelling: `orderId` for `order_id` and back."""
    if "_" in name:
        head, *rest = name.split("_")
        return head + "".join(part.capitalize() for part in rest)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _misled(link: str) -> str | None:
    """Return a link without the list index in its path, which leads nowhere."""
    return re.sub(r"\.\d+(?=\.)", "", link, count=1)

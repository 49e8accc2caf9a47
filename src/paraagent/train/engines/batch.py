"""What every training engine does with scored episodes: pack them, unpack them, give each token its advantage.

Place in the flow: layer 6; `rl` and `engines.verl` both call `advantages`, so equal episodes get equal advantages
wherever they are trained on. NumPy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from paraagent.reward.credit import Credit, Mode, Rollout, assign
from paraagent.types import JsonObject


def advantages(rollouts: Sequence[Rollout], mode: Mode, width: int) -> tuple[NDArray[np.float32], Credit]:
    """Return the advantage of every token, (rollouts, width), 0 behind an episode's end, and what was compared.

    Raises:
        ValueError: an episode is longer than `width`, or a reward is missing or not finite.
    """
    credit = assign(rollouts, mode)
    found = np.zeros((len(rollouts), width), dtype=np.float32)
    for row, tokens in enumerate(credit.tokens):
        if len(tokens) > width:
            raise ValueError(f"episode {row} has {len(tokens)} tokens, the batch only {width}")
        found[row, : len(tokens)] = tokens
    return found, credit


def pack(rollout: Rollout) -> JsonObject:
    """Return a rollout as plain data, to be carried through another process."""
    return cast(JsonObject, msgspec.to_builtins(rollout))


def unpack(fields: JsonObject, group: str, tokens: int) -> Rollout:
    """Return a packed rollout, under the engine's own group name and cut to the tokens that the engine has kept.

    Raises:
        ValueError: the fields are none that `pack` has made.
    """
    whole = msgspec.convert(fields, Rollout)
    turns = tuple(replace(span, end=min(span.end, tokens)) for span in whole.turns if span.start <= tokens)
    phases = (replace(p, turns=tuple(turn for turn in p.turns if turn < len(turns))) for p in whole.phases)
    kept = tuple(phase for phase in phases if phase.turns)
    return replace(whole, group=group, tokens=tokens, turns=turns, phases=kept)

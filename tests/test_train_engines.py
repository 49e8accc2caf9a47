"""Every training engine gives equal episodes equal advantages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson
import pytest

from paraagent.reward.credit import Mode, Rollout, as_rollout, assign
from paraagent.reward.score import score
from paraagent.train.engines.batch import advantages, pack, unpack
from reward_play import NEEDED, PERFECT, look, play, say

MODES: Sequence[Mode] = ("local", "trajectory", "outcome", "summed")


def rollouts() -> list[Rollout]:
    """Return episodes of two tasks, good and bad ones, turns of ten tokens with five read in between."""
    plays = [PERFECT, [look(*NEEDED), say("No idea.")], [say()], ["nonsense", look("get_news"), say("Bye.")]]
    found = []
    for group in ("a", "b"):
        for lines in plays if group == "a" else [*plays[:2], PERFECT[:1], plays[3]]:
            reward = score(play(lines))
            spans = [(15 * n, 15 * n + 10) for n in range(len(reward.turns))]
            found.append(as_rollout(reward, group, spans, spans[-1][1]))
    return found


@pytest.mark.parametrize("mode", MODES)
def test_episodes_carried_elsewhere_get_the_same_advantages(mode: Mode) -> None:
    here = rollouts()
    carried = [orjson.loads(orjson.dumps(pack(rollout))) for rollout in here]
    there = [unpack(fields, own.group, own.tokens) for fields, own in zip(carried, here, strict=True)]
    assert there == here
    width = max(rollout.tokens for rollout in here) + 7
    found, credit = advantages(there, mode, width)
    assert found.shape == (8, width)
    assert found.any()
    for row, wanted in zip(found, assign(here, mode).tokens, strict=True):
        assert np.allclose(row[: len(wanted)], wanted)
        assert not row[len(wanted) :].any()
    assert credit.masked == 0


def test_an_episode_that_was_cut_keeps_the_credit_of_what_is_left() -> None:
    here = rollouts()
    whole, _ = advantages(here, "outcome", 400)
    cut = [unpack(pack(rollout), rollout.group, min(rollout.tokens, 22)) for rollout in here]
    found, _ = advantages(cut, "outcome", 22)
    assert all(rollout.tokens <= 22 and all(span.end <= 22 for span in rollout.turns) for rollout in cut)
    assert np.allclose(found, whole[:, :22])


def test_a_batch_too_narrow_is_refused() -> None:
    with pytest.raises(ValueError, match="the batch only 3"):
        advantages(rollouts(), "local", 3)
    with pytest.raises(ValueError, match="group"):
        unpack({"tokens": 3}, "g", 3)

"""Credit: advantages worked out by hand, and what must hold for any batch of rollouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.reward.credit import Credit, Mode, PhaseSpan, Rollout, Span, Weights, as_rollout, assign, zscores
from paraagent.reward.score import score
from reward_play import PERFECT, look, play, say

MODES: list[Mode] = ["trajectory", "local", "outcome", "summed"]
ROOT2 = math.sqrt(2)
"""Two different values have z-scores of +-1/sqrt(2)."""


def close(array: np.ndarray, wanted: Sequence[float]) -> bool:
    return array.shape == (len(wanted),) and np.allclose(array, wanted, atol=1e-4)


def plain(group: str, trajectory: float, phase: float | None = None, step: float | None = None) -> Rollout:
    """Return a rollout of two model tokens, one observation token and one more model token."""
    return Rollout(group, 4, trajectory, phase, step, (Span(0, 2, "exploration"), Span(3, 4, "answer")))


def values(credit: Credit) -> list[float]:
    """Return the one value of every rollout's model tokens."""
    return [float(array[0]) for array in credit.tokens]


def test_z_scores_are_those_of_the_sample() -> None:
    assert zscores(np.array([1.0, 2.0, 3.0])) == pytest.approx([-1.0, 0.0, 1.0], abs=1e-5)
    assert zscores(np.array([0.1, 0.1, 0.1])).tolist() == [0.0, 0.0, 0.0]
    assert zscores(np.array([5.0])).tolist() == [0.0]
    assert zscores(np.array([])).tolist() == []


def test_trajectory_mode_weighs_z_scores_and_whitens_the_batch() -> None:
    batch = [
        plain("a", 1.0, 0.0, 1.0),
        plain("a", 0.0, 1.0, 1.0),
        plain("b", 3.0, 0.5, 0.2),
        plain("b", 1.0, 0.1, 0.4),
    ]
    credit = assign(batch, "trajectory")
    z = 1 / ROOT2
    sums = np.array([z - 0.5 * z, -z + 0.5 * z, z + 0.5 * z - 0.25 * z, -z - 0.5 * z + 0.25 * z])
    wanted = (sums - sums.mean()) / sums.std(ddof=1)
    assert values(credit) == pytest.approx(wanted.tolist(), abs=1e-4)
    assert credit.levels["step"].constant == 1
    assert (credit.levels["phase"].sets, credit.levels["phase"].members) == (2, 4)


def test_whole_rollout_modes_put_one_value_on_model_tokens_and_none_on_observations() -> None:
    for mode in ("trajectory", "outcome", "summed"):
        first = assign([plain("a", 1.0), plain("a", 0.0)], mode).tokens[0]
        assert close(first, [1 / ROOT2, 1 / ROOT2, 0.0, 1 / ROOT2])


def test_outcome_looks_at_the_trajectory_alone_and_summed_at_all_levels_at_once() -> None:
    batch = [plain("a", 1.0, 0.0, 0.0), plain("a", 0.8, 1.0, 1.0)]
    assert values(assign(batch, "outcome")) == pytest.approx([1 / ROOT2, -1 / ROOT2], abs=1e-4)
    assert values(assign(batch, "summed")) == pytest.approx([-1 / ROOT2, 1 / ROOT2], abs=1e-4)
    no_shaping = Weights(phase=0.0, step=0.0)
    assert values(assign(batch, "summed", no_shaping)) == pytest.approx([1 / ROOT2, -1 / ROOT2], abs=1e-4)


LOCAL = [
    Rollout(
        "t",
        6,
        1.0,
        turns=(Span(0, 2, "exploration", 1.0), Span(3, 4, "execution", 0.5), Span(5, 6, "answer", 1.0)),
        phases=(PhaseSpan("exploration", (0,), 1.0), PhaseSpan("execution", (1,), 0.2)),
    ),
    Rollout(
        "t",
        5,
        0.0,
        turns=(Span(0, 1, "exploration", 0.0), Span(1, 2, "execution", 1.0), Span(2, 4, "execution", 0.0)),
        phases=(PhaseSpan("exploration", (0,), 0.0), PhaseSpan("execution", (1, 2), 0.4)),
    ),
]


def test_local_mode_gives_every_token_what_it_is_about() -> None:
    z = 1 / ROOT2
    credit = assign(LOCAL, "local")
    # trajectory +-z everywhere; phase 0.5 * (+-z); steps of the two execution turns z-scored with the other rollout's
    assert close(credit.tokens[0], [z + 0.5 * z + 0.25 * z] * 2 + [0, z - 0.5 * z, 0, z])
    assert close(credit.tokens[1], [-1.75 * z, -z + 0.5 * z + 0.25, -z + 0.5 * z - 0.25, -z + 0.5 * z - 0.25, 0])
    assert (credit.levels["step"].sets, credit.levels["step"].singletons) == (3, 1)
    assert (credit.levels["phase"].sets, credit.levels["phase"].members) == (2, 4)


def test_a_phase_may_leave_out_turns_in_its_middle() -> None:
    turns = tuple(Span(n, n + 1, "execution") for n in range(3))
    batch = [Rollout("t", 3, 0.0, turns=turns, phases=(PhaseSpan("execution", (0, 2), r),)) for r in (0.0, 1.0)]
    assert close(assign(batch, "local").tokens[1], [0.5 / ROOT2, 0.0, 0.5 / ROOT2])


@pytest.mark.parametrize("mode", MODES)
def test_a_group_of_one_gets_nothing_and_is_counted(mode: Mode) -> None:
    credit = assign([plain("a", 7.0, 1.0, 1.0)], mode)
    assert not credit.tokens[0].any()
    assert credit.levels["trajectory"].singletons == 1


def test_a_missing_level_is_compared_with_nothing() -> None:
    batch = [plain("a", 1.0, None, 0.5), plain("a", 0.0, 1.0, 0.5), plain("a", 0.5, 0.0, 0.5)]
    credit = assign(batch, "trajectory")
    assert credit.levels["phase"].members == 2
    z = np.array([1.0, -1 + 0.5 / ROOT2, -0.5 / ROOT2])
    assert values(credit) == pytest.approx(((z - z.mean()) / z.std(ddof=1)).tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("rollout", "message"),
    [
        (plain("a", math.nan), "not finite"),
        (plain("a", 1.0, math.inf), "not finite"),
        (Rollout("a", 3, None), "mask the rollout"),
        (Rollout("a", 3, 1.0, turns=(Span(0, 4, "answer"),)), "leaves its 3 tokens"),
        (Rollout("a", 3, 1.0, turns=(Span(0, 2, "answer"), Span(1, 3, "answer"))), "overlaps"),
        (Rollout("a", 3, 1.0, phases=(PhaseSpan("execution", (0,)),)), "names a turn"),
    ],
)
def test_what_cannot_be_compared_is_refused(rollout: Rollout, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assign([plain("a", 0.0), rollout])


def test_an_empty_batch_is_no_error() -> None:
    assert assign([]).tokens == ()
    assert assign([replace(plain("a", 1.0), masked=True, trajectory=None)], "trajectory").masked == 1


def test_a_scored_episode_becomes_a_rollout() -> None:
    good, bad = score(play(PERFECT)), score(play([look("get_news"), say("?")]))
    spans = [(0, 5), (8, 12), (15, 20)]
    batch = [as_rollout(good, "t1", spans, 20), as_rollout(bad, "t1", spans[:2], 12)]
    assert [(span.kind, span.reward) for span in batch[0].turns] == [
        ("exploration", 1.0),
        ("execution", 1.0),
        ("answer", 1.0),
    ]
    assert [(phase.kind, phase.turns) for phase in batch[0].phases][:2] == [
        ("exploration", (0,)),
        ("execution", (1,)),
    ]
    first, second = assign(batch).tokens
    assert first[0] > first[19] > 0 > second[11] > second[0]
    assert first[6] == 0.0


def test_a_cut_completion_keeps_the_turns_it_has() -> None:
    cut = as_rollout(score(play(PERFECT)), "t1", [(0, 5)], 5)
    assert (len(cut.turns), [phase.turns for phase in cut.phases]) == (1, [(0,)])


# properties

rewards = st.integers(-8, 8).map(lambda n: n / 4)


@st.composite
def rollouts(draw: st.DrawFn) -> Rollout:
    turns, phases, position = [], [], 0
    for number in range(draw(st.integers(0, 4))):
        start = position + draw(st.integers(0, 2))
        position = start + draw(st.integers(1, 3))
        kind = draw(st.sampled_from(["exploration", "execution", "answer"]))
        turns.append(Span(start, position, kind, draw(rewards)))
        phases.append(PhaseSpan(kind, (number,), draw(st.one_of(st.none(), rewards))))
    return Rollout(
        draw(st.sampled_from("ab")),
        position + draw(st.integers(0, 2)),
        draw(rewards),
        draw(rewards),
        draw(rewards),
        tuple(turns),
        tuple(phases),
        draw(st.integers(0, 4)) == 0,
    )


batches = st.lists(rollouts(), max_size=8)
modes = st.sampled_from(MODES)


def same(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    return len(one) == len(other) and all(np.allclose(a, b, atol=1e-4) for a, b in zip(one, other, strict=True))


@given(batches, modes)
def test_every_array_fits_its_completion_and_only_turns_get_credit(batch: list[Rollout], mode: Mode) -> None:
    for array, rollout in zip(assign(batch, mode).tokens, batch, strict=True):
        assert array.shape == (rollout.tokens,)
        assert np.isfinite(array).all()
        covered = {token for span in rollout.turns for token in range(span.start, span.end)}
        assert all(array[token] == 0 for token in range(rollout.tokens) if token not in covered)


@given(batches, modes)
def test_masked_rollouts_get_nothing_and_change_nothing(batch: list[Rollout], mode: Mode) -> None:
    credit = assign(batch, mode)
    live = [rollout for rollout in batch if not rollout.masked]
    alone = iter(assign(live, mode).tokens)
    for array, rollout in zip(credit.tokens, batch, strict=True):
        assert not array.any() if rollout.masked else np.array_equal(array, next(alone))
    garbage = [replace(r, trajectory=None, step=math.nan) if r.masked else r for r in batch]
    assert same(assign(garbage, mode).tokens, credit.tokens)


@given(batches.flatmap(lambda batch: st.tuples(st.just(batch), st.permutations(range(len(batch))))), modes)
def test_the_order_of_rollouts_does_not_matter(drawn: tuple[list[Rollout], list[int]], mode: Mode) -> None:
    batch, order = drawn
    tokens = assign(batch, mode).tokens
    assert same(assign([batch[n] for n in order], mode).tokens, [tokens[n] for n in order])


def moved(batch: Sequence[Rollout], scale: float, shift: float) -> list[Rollout]:
    """Change the rewards of each level and group by another positive factor and offset."""

    def move(reward: float | None, level: int, group: str) -> float | None:
        factor = 1.0 + scale * (level + (group == "a"))
        return None if reward is None else factor * reward + shift * (level - 2 * (group == "b"))

    return [
        replace(
            r,
            trajectory=move(r.trajectory, 0, r.group),
            phase=move(r.phase, 1, r.group),
            step=move(r.step, 2, r.group),
            turns=tuple(replace(span, reward=move(span.reward, 2, r.group)) for span in r.turns),
            phases=tuple(replace(phase, reward=move(phase.reward, 1, r.group)) for phase in r.phases),
        )
        for r in batch
    ]


@given(batches, st.sampled_from(["trajectory", "local", "outcome"]), st.integers(0, 3), st.integers(-3, 3))
def test_scale_and_offset_of_a_level_in_a_group_do_not_matter(
    batch: list[Rollout], mode: Mode, scale: int, shift: int
) -> None:
    assert same(assign(moved(batch, scale, shift), mode).tokens, assign(batch, mode).tokens)


@given(batches, modes)
def test_constant_groups_get_exactly_nothing(batch: list[Rollout], mode: Mode) -> None:
    constant = [
        replace(
            rollout,
            trajectory=0.1,
            phase=0.7,
            step=0.3,
            turns=tuple(replace(span, reward=0.1) for span in rollout.turns),
            phases=tuple(replace(phase, reward=0.7) for phase in rollout.phases),
        )
        for rollout in batch
    ]
    assert not any(array.any() for array in assign(constant, mode).tokens)

"""Intervals and estimators against values worked out by hand or known from the literature."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.evaluate.intervals import mcnemar, mean, paired, pass_all_k, pass_at_k, rate, share


def test_a_rate_has_the_interval_of_wilson() -> None:
    found = rate(8, 10)
    assert found is not None
    assert (found.value, found.n) == (0.8, 10)
    assert found.low == pytest.approx(0.4901625)
    assert found.high == pytest.approx(0.9433178)


def test_a_rate_of_nothing_is_no_figure_and_certainty_is_never_claimed() -> None:
    assert rate(0, 0) is None
    none, every = rate(0, 10), rate(10, 10)
    assert none is not None
    assert every is not None
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(1 - every.low) == pytest.approx(0.2775328)


@given(st.integers(1, 200), st.data())
def test_a_wilson_interval_holds_the_rate_and_stays_in_bounds(n: int, data: st.DataObject) -> None:
    found = rate(data.draw(st.integers(0, n)), n)
    assert found is not None
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_a_mean_is_the_same_every_time_and_its_interval_is_about_two_standard_errors() -> None:
    values = [float(value) for value in range(100)]
    found = mean(values)
    assert found is not None
    assert found == mean(values)
    assert found.value == pytest.approx(49.5)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 28.87 / 10, rel=0.08)
    assert mean([]) is None


def test_a_paired_difference_sees_what_the_two_intervals_alone_would_not() -> None:
    first = [float(value) for value in range(40)]
    second = [value + (0.5 if number % 4 else 0.0) for number, value in enumerate(first)]
    found = paired(first, second)
    assert found is not None
    assert found.difference.value == pytest.approx(0.375)
    assert 0 < found.difference.low < 0.375 < found.difference.high < 0.5
    assert found.p < 0.01
    apart = mean(first), mean(second)
    assert apart[0] is not None
    assert apart[1] is not None
    assert apart[0].high > apart[1].low


def test_mcnemar_counts_only_the_tasks_on_which_the_runs_differ() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(6, 0) == pytest.approx(2 / 64)
    assert mcnemar(1, 7) == mcnemar(7, 1) == pytest.approx(2 * 9 / 256)
    found = paired([0.0] * 6 + [1.0] * 20, [1.0] * 26)
    assert found is not None
    assert found.p == pytest.approx(2 / 64)
    assert (found.first, found.second) == (pytest.approx(20 / 26), 1.0)


def test_runs_that_do_not_pair_are_refused() -> None:
    assert paired([], []) is None
    with pytest.raises(ValueError, match="cannot be paired"):
        paired([1.0], [])


@given(st.integers(1, 7), st.data())
def test_pass_at_k_and_pass_all_k_are_the_shares_over_all_subsets(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / comb(n, k))
    assert pass_all_k(n, c, k) == pytest.approx(sum(map(all, subsets)) / comb(n, k))


@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 1, 0), (2, 3, 1)])
def test_an_estimate_without_enough_samples_is_refused(n: int, c: int, k: int) -> None:
    for estimate in (pass_at_k, pass_all_k):
        with pytest.raises(ValueError, match="no estimate"):
            estimate(n, c, k)


def test_a_share_that_never_varies_is_still_not_certain() -> None:
    same, varied, binary = share([0.5] * 8), share([0.25, 0.75] * 4), share([1.0, 0.0, 1.0, 1.0])
    assert same is not None
    assert varied is not None
    assert same.low < 0.5 < same.high
    assert same.high - same.low > varied.high - varied.low
    assert binary == rate(3, 4)
    assert share([]) is None


def test_the_difference_of_paired_rates_has_the_interval_of_newcombe() -> None:
    first = [1.0] * 20 + [0.0] * 12 + [1.0] * 2 + [0.0] * 16
    second = [1.0] * 32 + [0.0] * 18
    found = paired(first, second)
    assert found is not None
    assert found.difference.value == pytest.approx(0.2)
    assert (found.difference.low, found.difference.high) == (
        pytest.approx(0.0562, abs=1e-4),
        pytest.approx(0.3292, abs=1e-4),
    )


def test_winning_every_task_of_a_few_is_no_certain_difference() -> None:
    found = paired([0.0] * 15, [1.0] * 15)
    assert found is not None
    assert (found.difference.value, found.difference.high) == (1, 1)
    assert found.difference.low == pytest.approx(0.7117, abs=1e-4)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0])), min_size=1, max_size=40))
def test_a_paired_difference_is_the_same_the_other_way_round(pairs: list[tuple[float, float]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = paired(first, second), paired(second, first)
    assert there is not None
    assert back is not None
    assert there.difference.low <= there.difference.value <= there.difference.high
    assert there.difference.low == pytest.approx(-back.difference.high)
    assert there.p == back.p

"""Rows scored in several processes give the numbers of one process, and a worker that is lost is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

import tiny_model

pytest.importorskip("peft")

import numpy as np
import torch
from transformers import LlamaForCausalLM

from paraagent.errors import EnvironmentFault
from paraagent.train import room
from paraagent.train.worker import ScoredRow, Scoring, Seat, score_padded, score_rows
from paraagent.train.workers import Workers, _spread

pytestmark = [pytest.mark.filterwarnings(warning) for warning in tiny_model.WARNINGS]

LENGTHS = (30, 12, 25, 7)


def seat(seed: int = 0) -> Seat:
    return Seat(tiny_model.model(seed=seed), sum)


def rows() -> list[ScoredRow]:
    torch.manual_seed(1)
    found = []
    for length in LENGTHS:
        chosen = torch.rand(length) < 0.5
        chosen[0], chosen[-1] = False, True
        found.append(ScoredRow(torch.randint(3, 259, (length,)), chosen))
    return found


def gradients(model: LlamaForCausalLM, workers: Workers, weights: float = 1.0) -> list[torch.Tensor]:
    model.zero_grad()
    scores = workers.score(rows(), Scoring(temperature=0.8))
    loss = -sum((score.log_probs * (place + weights)).sum() for place, score in enumerate(scores))
    loss.backward()  # type: ignore[union-attr]
    workers.collect()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[LlamaForCausalLM, Workers]]:
    model = tiny_model.model(seed=3)
    workers = Workers(Seat(model, sum), partial(seat, seed=4), 2)  # its weights are replaced by the shared ones
    yield model, workers
    workers.close()


def test_two_processes_give_the_numbers_of_one(two: tuple[LlamaForCausalLM, Workers]) -> None:
    alone = tiny_model.model(seed=3)
    one = Workers(Seat(alone), seat, 1)
    for here, there in zip(one.score(rows(), Scoring()), two[1].score(rows(), Scoring()), strict=True):
        assert torch.allclose(here.log_probs, there.log_probs, atol=1e-5)
        assert torch.allclose(here.entropy, there.entropy, atol=1e-5)
        assert torch.equal(here.top, there.top)
    for here, there in zip(gradients(alone, one), gradients(*two), strict=True):
        assert torch.allclose(here, there, atol=1e-4)


def test_padded_rows_have_the_scores_of_single_ones() -> None:
    model = tiny_model.model()
    masks = np.full((1, 9), -1, dtype=np.int32)
    masks[:, 4:] = 0
    for given in (rows(), [replace(row, masks=masks.repeat(int(row.chosen.sum()), 0)) for row in rows()]):
        alone = score_rows(model, given, Scoring(temperature=0.8))
        together = score_padded(model, given, Scoring(temperature=0.8))
        for one, other in zip(alone, together, strict=True):
            assert torch.allclose(one.log_probs, other.log_probs, atol=1e-5)
            assert torch.allclose(one.entropy, other.entropy, atol=1e-5)
            assert torch.equal(one.top, other.top)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_row_for_which_there_is_no_room_gives_the_same_gradient(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model.model().train()
    wanted = gradients(model, Workers(Seat(model), seat, 1))
    monkeypatch.setattr(room, "ROOM", kept * 4 * sum(room.layer_size(model, length) for length in LENGTHS))
    found = gradients(model, Workers(Seat(model), seat, 1))
    assert [layer.gradient_checkpointing for layer in model.model.layers] == [True, not kept]
    assert all(map(torch.equal, found, wanted))
    assert not any(module._forward_hooks for module in model.modules())
    monkeypatch.undo()
    gradients(model, Workers(Seat(model), seat, 1))
    assert not any(layer.gradient_checkpointing for layer in model.model.layers)


def test_a_step_of_the_optimiser_is_seen_by_all(two: tuple[LlamaForCausalLM, Workers]) -> None:
    model, workers = two
    before = gradients(model, workers)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    alone = tiny_model.model(seed=3)
    alone.load_state_dict(model.state_dict())
    wanted = gradients(alone, Workers(Seat(alone), seat, 1))
    found = gradients(model, workers)
    assert not torch.allclose(found[0], before[0])
    for here, there in zip(found, wanted, strict=True):
        assert torch.allclose(here, there, atol=1e-4)


def test_gradients_of_several_batches_add_up(two: tuple[LlamaForCausalLM, Workers]) -> None:
    model, workers = two
    once = gradients(model, workers)
    model.zero_grad()
    for _ in range(2):
        scores = workers.score(rows(), Scoring(temperature=0.8))
        (-sum((score.log_probs * (place + 1)).sum() for place, score in enumerate(scores))).backward()  # type: ignore[union-attr]
        workers.collect()
    for single, parameter in zip(once, model.parameters(), strict=True):
        assert torch.allclose(2 * single, parameter.grad, rtol=1e-3, atol=1e-4)


def test_equal_batches_give_equal_gradients_to_the_bit(two: tuple[LlamaForCausalLM, Workers]) -> None:
    for here, there in zip(gradients(*two), gradients(*two), strict=True):
        assert torch.equal(here, there)


def test_shares_are_done_side_by_side_and_come_back_in_order(two: tuple[LlamaForCausalLM, Workers]) -> None:
    assert two[1].perform([[1, 2], [3, 4]]) == [3, 7]
    assert two[1].perform([[5]]) == [5]
    with pytest.raises(TypeError):
        two[1].perform([[1], ["not a number"]])
    assert two[1].perform([[1], [2]]) == [1, 2]


def test_long_rows_are_spread_first() -> None:
    assert _spread([30, 12, 25, 7], 2) == [[0, 3], [1, 2]]
    assert _spread([5], 3) == [[0], [], []]


def test_a_lost_worker_is_told() -> None:
    model = tiny_model.model()
    workers = Workers(Seat(model), seat, 2)
    gradients(model, workers)
    os.kill(workers._workers[0]._process.pid, signal.SIGKILL)
    workers._workers[0]._process.join()
    with pytest.raises(EnvironmentFault, match="--threads 1"):
        gradients(model, workers)
    workers.close()

"""Reinforcement learning trains on exactly what was sampled, with our credit on every token, and can be stopped."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import tiny_model

pytest.importorskip("trl")
pytest.importorskip("peft")

import numpy as np
import torch
import trl
from transformers import TrainerCallback
from trl import GRPOTrainer

from paraagent.catalog.store import Catalog
from paraagent.env.tasks import TaskSampler
from paraagent.errors import UsageError
from paraagent.reward.credit import assign
from paraagent.reward.record import Levels, PhaseReward, Reward, TrajectoryReward, TurnReward
from paraagent.reward.rules import DEFAULT, Rules
from paraagent.trace.view import EpisodeView
from paraagent.train import rl, rollout
from paraagent.train.config import RlConfig, rl_preset
from paraagent.train.rl import ParaGRPOTrainer
from paraagent.train.rollout import Sample
from paraagent.train.runs import RunFolder
from paraagent.train.tasks import training_tasks

pytestmark = [pytest.mark.filterwarnings(warning) for warning in tiny_model.WARNINGS]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.folder(tmp_path_factory.mktemp("tiny") / "model")


def config(model: Path, out: Path, **changes: object) -> RlConfig:
    values: dict[str, object] = {
        "model": str(model),
        "steps": 4,
        "prompts": 2,
        "rollouts": 3,
        "tasks": 6,
        "turns": 2,
        "max_tokens": 12,
        "max_length": 700,
        "save_every": 2,
        "lora_rank": 4,
        "bf16": False,
        "micro_batch": 1,
        "lr": 0.02,
        "kinds": ("single", "direct"),
        "guide": "off",
    }
    return rl_preset("cpu-small", str(out), **(values | changes))


def plain_text(view: EpisodeView, rules: Rules = DEFAULT) -> Reward:
    """Stand in for the reward: pay for plain characters, since random weights solve no task."""
    shares = [sum(" " <= letter <= "~" for letter in turn.text) / max(len(turn.text), 1) for turn in view.turns]
    turns = tuple(TurnReward(n, "invalid", share, ()) for n, share in enumerate(shares))
    phases = (PhaseReward("invalid", 1, tuple(range(len(turns))), sum(shares)),)
    total = sum(shares)
    return Reward(rules, turns, phases, TrajectoryReward(total, ()), Levels(total, total, total), total)


@pytest.fixture
def paid_for_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "score", plain_text)


class Watched(ParaGRPOTrainer):
    """Keeps what every loss was computed from."""

    seen: list[dict[str, torch.Tensor]] = []
    samples: list[list[Sample]] = []
    losses: list[float] = []
    prompts: list[list[str]] = []

    def _roll_out(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[object]]:
        self.prompts.append(prompts)
        found = super()._roll_out(prompts, trainer)
        self.samples.append(list(self._samples))
        return found

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        loss = super()._compute_loss(model, inputs)
        self.seen.append({**inputs, "log_probs": self._log_probs})
        self.losses.append(loss.item())
        return loss


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr(rl, "ParaGRPOTrainer", Watched)
    for kept in (Watched.seen, Watched.samples, Watched.losses, Watched.prompts):
        kept.clear()
    return Watched


def train(wanted: RlConfig, catalog: Catalog, *, resume: bool = False) -> list[dict[str, object]]:
    rl.train_rl(wanted, catalog=catalog.path, resume=resume, say=lambda text: None)
    return RunFolder(Path(wanted.out)).read_metrics()


def rows(seen: Sequence[dict[str, torch.Tensor]]) -> Iterator[tuple[tuple[int, ...], dict[str, torch.Tensor]]]:
    """Yield the completion and all tensors of every row, padding cut off."""
    for inputs in seen:
        for row in range(len(inputs["completion_ids"])):
            real = inputs["completion_mask"][row].bool()
            parts = {
                name: inputs[name][row][real]
                for name in ("completion_ids", "tool_mask", "advantages", "sampling_per_token_logps", "log_probs")
            }
            yield tuple(parts["completion_ids"].tolist()), parts


@pytest.mark.usefixtures("paid_for_text")
@pytest.mark.parametrize("guide", ["off", "calls"])
@pytest.mark.parametrize("mode", ["local", "trajectory", "outcome", "summed"])
def test_what_is_trained_on_is_what_was_sampled(
    model: Path, catalog: Catalog, tmp_path: Path, watched: type[Watched], mode: str, guide: str
) -> None:
    train(config(model, tmp_path / "run", steps=1, credit=mode, guide=guide), catalog)
    (samples,) = watched.samples
    by_tokens = {sample.transcript.completion_ids: (n, sample) for n, sample in enumerate(samples)}
    credit = assign([sample.rollout() for sample in samples], mode)  # type: ignore[arg-type]
    assert len(list(rows(watched.seen))) == len(samples) == 6
    for tokens, found in rows(watched.seen):
        number, sample = by_tokens[tokens]
        wrote = torch.tensor(sample.transcript.mask).bool()
        assert torch.equal(found["tool_mask"].bool(), wrote)
        sampled = torch.tensor(sample.transcript.logprobs)
        assert torch.allclose(found["sampling_per_token_logps"], sampled)
        assert torch.allclose(found["log_probs"][wrote], sampled[wrote], atol=1e-4)
        assert np.allclose(found["advantages"].numpy(), credit.tokens[number], atol=1e-6)
        spoken = torch.zeros_like(wrote)
        for start, end in sample.transcript.spans:
            spoken[start:end] = True
        assert not found["advantages"][~spoken].any()
        assert not wrote[~spoken].any()
        if guide == "calls":
            assert {*sample.transcript.choices} == {*wrote.nonzero()[:, 0].tolist()}
            assert sample.transcript.forced == {*(spoken & ~wrote).nonzero()[:, 0].tolist()}
    assert any(values.any() for values in credit.tokens)
    assert all(bool(sample.transcript.forced) == (guide == "calls") for sample in samples)


@pytest.mark.usefixtures("paid_for_text")
def test_the_loss_is_the_mean_of_the_advantages(
    model: Path, catalog: Catalog, tmp_path: Path, watched: type[Watched]
) -> None:
    train(config(model, tmp_path / "run", steps=1, kl=0.0), catalog)
    learned = sum(int(found["tool_mask"].sum()) for _, found in rows(watched.seen))
    total = sum(float((found["advantages"] * found["tool_mask"]).sum()) for _, found in rows(watched.seen))
    assert sum(watched.losses) == pytest.approx(-total / learned, abs=1e-4)


@pytest.mark.usefixtures("paid_for_text")
def test_each_task_comes_as_often_as_there_are_rollouts(
    model: Path, catalog: Catalog, tmp_path: Path, watched: type[Watched]
) -> None:
    train(config(model, tmp_path / "run", steps=2), catalog)
    for prompts in watched.prompts:
        assert len(prompts) == 6
        assert prompts == [prompts[0]] * 3 + [prompts[3]] * 3
        assert prompts[0] != prompts[3]
    episodes = [sample.transcript.completion_ids for sample in watched.samples[0]]
    assert len(set(episodes)) == 6


def test_masked_episodes_teach_nothing(
    model: Path, catalog: Catalog, tmp_path: Path, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_is_broken(view: EpisodeView, rules: Rules = DEFAULT) -> Reward:
        reward = plain_text(view)
        broken = len(view.turns[0].text) % 2 == 1
        levels = Levels(None, None, 0.0)
        return replace(reward, masked=True, total=None, levels=levels) if broken else reward

    monkeypatch.setattr(rollout, "score", first_is_broken)
    metrics = train(config(model, tmp_path / "run", steps=1), catalog)
    masked = {s.transcript.completion_ids for s in watched.samples[0] if s.reward.masked}
    assert masked
    assert metrics[0]["masked"] == len(masked)
    for tokens, found in rows(watched.seen):
        assert bool(found["advantages"].any()) <= (tokens not in masked)


@pytest.mark.usefixtures("paid_for_text")
def test_what_is_paid_for_is_learned(model: Path, catalog: Catalog, tmp_path: Path) -> None:
    metrics = train(config(model, tmp_path / "run", steps=10, rollouts=6, lr=0.03, kl=0.0), catalog)
    rewards = [float(str(record["reward"])) for record in metrics]
    assert sum(rewards[-3:]) > 1.2 * sum(rewards[:3])


class Die(TrainerCallback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: object, state: object, control: object, **_: object) -> None:
        if state.global_step == self._step:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("paid_for_text")
@pytest.mark.parametrize(("updates", "guide"), [(1, "off"), (3, "off"), (3, "calls")])
def test_a_killed_run_goes_on_with_the_same_numbers(
    model: Path, catalog: Catalog, tmp_path: Path, updates: int, guide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ("step", "loss", "reward", "success", "grad_norm", "kl", "sampling_gap")
    wanted = config(model, tmp_path / "whole", updates=updates, kl=0.01, guide=guide)
    whole = [{name: record.get(name) for name in kept} for record in train(wanted, catalog)]
    settle = rl.settle

    def settle_and_die(trainer: ParaGRPOTrainer, run: RunFolder, say: object) -> None:
        settle(trainer, run, say)  # type: ignore[arg-type]
        trainer.add_callback(Die(3 * updates))

    stopped = replace(wanted, out=str(tmp_path / "stopped"))
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(rl, "settle", settle_and_die)
        train(stopped, catalog)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    resumed = [{name: record.get(name) for name in kept} for record in train(stopped, catalog, resume=True)]
    assert len(whole) == 4
    assert resumed == whole


@pytest.mark.usefixtures("paid_for_text")
def test_an_adapter_is_trained_on_and_is_the_reference(model: Path, catalog: Catalog, tmp_path: Path) -> None:
    train(config(model, tmp_path / "first", steps=2), catalog)
    start = RunFolder(tmp_path / "first").final
    metrics = train(config(model, tmp_path / "second", steps=2, adapter=str(start), kl=0.1), catalog)
    assert metrics[0]["kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics[1]["kl"] > 1e-6  # type: ignore[operator]
    with pytest.raises(UsageError, match="merge it"):
        train(config(model, tmp_path / "third", adapter=str(start), lora_rank=0), catalog)
    with pytest.raises(UsageError, match="no adapter that fits"):
        train(config(model, tmp_path / "fourth", adapter=str(tmp_path)), catalog)


@pytest.mark.usefixtures("paid_for_text")
def test_all_weights_are_held_to_a_reference(model: Path, catalog: Catalog, tmp_path: Path) -> None:
    metrics = train(config(model, tmp_path / "run", steps=2, lora_rank=0, kl=0.1, lr=0.01), catalog)
    assert metrics[0]["kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics[1]["kl"] > 1e-6  # type: ignore[operator]


def test_an_episode_that_does_not_fit_is_no_crash(model: Path, catalog: Catalog, tmp_path: Path) -> None:
    metrics = train(config(model, tmp_path / "run", steps=1, max_length=64), catalog)
    assert metrics[0]["success"] == 0.0


def test_tasks_are_kept_with_the_run(model: Path, catalog: Catalog, index: object, tmp_path: Path) -> None:
    wanted = config(model, tmp_path / "run", kinds=("single",), tasks=3)
    sampler = TaskSampler(catalog, index)  # type: ignore[arg-type]
    path = tmp_path / "tasks.jsonl"
    tasks = training_tasks(wanted, sampler, path, lambda text: None)
    assert [task.split for task in tasks] == ["train"] * 3
    assert training_tasks(wanted, sampler, path, lambda text: None) == tasks
    path.write_bytes(b"".join(replace(task, catalog="other").to_json() + b"\n" for task in tasks))
    with pytest.raises(UsageError, match="another catalog"):
        training_tasks(wanted, sampler, path, lambda text: None)


@pytest.mark.parametrize("changes", [{"rollouts": 1}, {"steps": 0}, {"temperature": 0.0}, {"updates": 4}])
def test_senseless_settings_are_refused(model: Path, tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        config(model, tmp_path, **changes)


def test_presets_keep_the_published_numbers() -> None:
    preset = rl_preset("qwen3-4b", "run")
    assert (preset.prompts, preset.rollouts, preset.updates, preset.kl) == (256, 8, 2, 0.001)
    assert (preset.optimisation.lr, preset.temperature, preset.max_tokens) == (1e-6, 1.0, 1536)


def test_a_model_that_writes_tags_has_no_guide() -> None:
    assert rl_preset("qwen3-4b", "run").guide == "off"
    assert rl_preset("qwen3-4b", "run", dialect="compact").guide == "calls"
    assert rl_preset("cpu-small", "run", dialect="tags").guide == "off"
    assert rl_preset("cpu-small", "run").guide == "calls"
    with pytest.raises(UsageError, match="compact dialect"):
        rl_preset("cpu-small", "run", dialect="tags", guide="calls")


def test_the_training_library_still_has_what_we_lean_on() -> None:
    assert trl.__version__.startswith("1.16.")
    scored = inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters
    assert list(scored)[:7] == [
        "self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy"
    ]  # fmt: skip
    assert list(inspect.signature(GRPOTrainer._compute_loss).parameters) == ["self", "model", "inputs"]
    source = inspect.getsource(GRPOTrainer._compute_loss)
    assert "if advantages.dim() == 1" in source  # advantages per token are passed through
    assert 'env_mask = extra_fields.pop("env_mask"' in inspect.getsource(GRPOTrainer._generate) or (
        'extra_fields.pop("env_mask"' in inspect.getsource(GRPOTrainer._generate)
    )


@pytest.mark.parametrize("guide", ["off", "calls"])
def test_two_processes_play_what_one_does(
    model: Path, catalog: Catalog, tmp_path: Path, guide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ("turns", "num_tokens", "entropy", "reward", "sampling_gap")
    wanted = config(model, tmp_path / "one", steps=1, micro_batch=3, guide=guide)
    alone = train(wanted, catalog)[0]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    both = train(replace(wanted, out=str(tmp_path / "two")), catalog)[0]
    assert [both[name] for name in kept] == pytest.approx([alone[name] for name in kept], rel=1e-3, abs=1e-4)

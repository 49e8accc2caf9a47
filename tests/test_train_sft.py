"""Supervised training learns, goes on after a kill with the same numbers, and says what to do when it cannot."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import tiny_model

pytest.importorskip("trl")
pytest.importorskip("peft")

import numpy as np
import orjson
import torch
from transformers import TrainerCallback

from paraagent.agent.engine.load import load_model
from paraagent.demos.demo import Demo
from paraagent.demos.formats import line
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.protocol.render import render_turn
from paraagent.train import runs, sft
from paraagent.train.attention import block_attention, use_blocks
from paraagent.train.config import SftConfig, sft_preset
from paraagent.train.head import score
from paraagent.train.model import spare_copies
from paraagent.train.rows import Row
from paraagent.train.runs import RunFolder
from paraagent.types import Message

pytestmark = [pytest.mark.filterwarnings(warning) for warning in tiny_model.WARNINGS]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.folder(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos") / "demos.jsonl"
    path.write_bytes(b"".join(line(demo(n), "chat") or b"" for n in range(16)))
    return path


def demo(number: int) -> Demo:
    messages = (
        Message("system", "rules"),
        Message("user", f"What is {number}?"),
        Message("assistant", render_turn("I know.", answer=f"It is {number}.")),
    )
    return Demo(f"t{number}", messages, (False, False, True))


def config(model: Path, data: Path, out: Path, **changes: object) -> SftConfig:
    values: dict[str, object] = {
        "model": str(model), "batch": 2, "epochs": 0.75, "lr": 1e-2, "save_every": 2, "lora_rank": 4, "bf16": False,
        "micro_batch": 1,
    }  # fmt: skip
    return sft_preset("cpu-small", str(data), str(out), **(values | changes))


def losses(out: Path) -> list[float]:
    return [float(str(record["loss"])) for record in RunFolder(out).read_metrics()]


def train(wanted: SftConfig, *, resume: bool = False) -> list[str]:
    said: list[str] = []
    sft.train_sft(wanted, resume=resume, say=said.append)
    return said


@pytest.fixture(scope="module")
def uninterrupted(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    train(config(model, data, out))
    return out


def test_the_loss_falls_and_the_adapter_is_kept(model: Path, uninterrupted: Path) -> None:
    found = losses(uninterrupted)
    assert len(found) == 6
    assert found[-1] < found[0]
    merged = load_model(model, adapter=RunFolder(uninterrupted).final, dtype="float32", device="cpu")
    plain = load_model(model, dtype="float32", device="cpu")
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        assert not torch.allclose(merged(ids).logits, plain(ids).logits)


class Die(TrainerCallback):
    """Kills the process, as a power cut would, at the end of a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: object, state: object, control: object, **_: object) -> None:
        if state.global_step == self._step:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGKILL)


class Stop(Die):
    def on_step_end(self, args: object, state: object, control: object, **_: object) -> None:
        if state.global_step == self._step:  # type: ignore[attr-defined]
            raise KeyboardInterrupt


def killed(wanted: SftConfig, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train in a child process that is killed at a step."""
    settle = sft.settle

    def settle_and_die(trainer: sft.ParaSFTTrainer, run: RunFolder, say: object) -> None:
        settle(trainer, run, say)  # type: ignore[arg-type]
        trainer.add_callback(Die(step))

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(sft, "settle", settle_and_die)
        train(wanted)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_training_goes_on_from_an_adapter(model: Path, data: Path, uninterrupted: Path, tmp_path: Path) -> None:
    start = str(uninterrupted / "final")
    train(config(model, data, tmp_path / "more", adapter=start))
    assert losses(tmp_path / "more")[0] < losses(uninterrupted)[0] - 0.1
    with pytest.raises(UsageError, match="merge it"):
        train(config(model, data, tmp_path / "whole", adapter=start, lora_rank=0))


@pytest.mark.parametrize("step", [1, 3, 4])
def test_a_killed_run_goes_on_with_the_same_numbers(
    model: Path, data: Path, uninterrupted: Path, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = config(model, data, tmp_path / "run")
    killed(wanted, step, monkeypatch)
    assert len(losses(tmp_path / "run")) < 6
    train(wanted, resume=True)
    assert losses(tmp_path / "run") == losses(uninterrupted)
    last, last_resumed = (RunFolder(path).read_metrics()[-1] for path in (uninterrupted, tmp_path / "run"))
    assert last["num_tokens"] == last_resumed["num_tokens"]
    whole, resumed = (
        load_model(model, adapter=RunFolder(path).final, dtype="float32", device="cpu")
        for path in (uninterrupted, tmp_path / "run")
    )
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name])


def test_a_torn_checkpoint_is_passed_over(
    model: Path, data: Path, uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = config(model, data, tmp_path / "run")
    killed(wanted, 5, monkeypatch)
    run = RunFolder(tmp_path / "run")
    last = run.checkpoints()[-1] / "trainer_state.json"
    last.write_bytes(last.read_bytes()[:100])
    run.metrics.write_bytes(run.metrics.read_bytes()[:-20])
    assert any("checkpoint-2" in text for text in train(wanted, resume=True))
    assert losses(run.path) == losses(uninterrupted)


def test_a_run_is_never_overwritten(model: Path, data: Path, uninterrupted: Path) -> None:
    with pytest.raises(UsageError, match="--resume"):
        train(config(model, data, uninterrupted))
    with pytest.raises(UsageError, match=r"another optimisation\.lr"):
        train(config(model, data, uninterrupted, lr=0.5), resume=True)
    train(config(model, data, uninterrupted, save_every=1), resume=True)  # changes no number
    assert len(losses(uninterrupted)) == 6


def test_a_folder_with_other_things_is_left_alone(model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="choose another --out"):
        train(config(model, data, tmp_path))


@pytest.mark.parametrize(
    ("rows", "error", "told"),
    [
        (b'{"messages": [{"role": "user"}]}\n', EnvironmentFault, "line 1"),
        (b'{"prompt": "x"}\n', EnvironmentFault, "messages"),
        (b"", UsageError, "nothing to learn"),
    ],
)
def test_unusable_data_is_named(model: Path, tmp_path: Path, rows: bytes, error: type[Exception], told: str) -> None:
    path = tmp_path / "demos.jsonl"
    path.write_bytes(rows)
    with pytest.raises(error, match=told):
        train(config(model, path, tmp_path / "run"))


def test_demonstrations_too_long_are_left_out(model: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="longer than 20 tokens"):
        train(config(model, data, tmp_path / "run", max_length=20))


def test_a_loss_that_is_no_number_stops(model: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"lower --lr .* --resume"):
        train(config(model, data, tmp_path / "run", lr=1e30, clip=1e30, epochs=3.0))


def test_memory_running_out_is_explained(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starve(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(sft.ParaSFTTrainer, "training_step", starve)
    with pytest.raises(EnvironmentFault, match="--max-length below"):
        train(config(model, data, tmp_path / "run"))


def test_a_model_without_chat_template_is_refused(data: Path, tmp_path: Path) -> None:
    bare = tiny_model.folder(tmp_path / "bare")
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(UsageError, match="chat template"):
        train(config(bare, data, tmp_path / "run"))


@pytest.mark.parametrize("changes", [{"lr": 0.0}, {"batch": 3, "micro_batch": 2}, {"save_every": 3, "log_every": 2}])
def test_senseless_settings_are_refused(model: Path, data: Path, tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        config(model, data, tmp_path, **changes)


def test_presets_keep_the_published_numbers() -> None:
    preset = sft_preset("qwen3-4b", "demos.jsonl", "run")
    optimisation = preset.optimisation
    assert (preset.epochs, optimisation.lr, optimisation.warmup, preset.max_length) == (3.0, 1e-5, 0.1, 20_000)
    assert (preset.batch, optimisation.lora_rank, preset.dialect) == (32, 0, "tags")


def test_settings_stand_in_the_folder(uninterrupted: Path) -> None:
    kept = orjson.loads((uninterrupted / "config.json").read_bytes())
    assert kept["optimisation"]["lora_rank"] == 4
    note = orjson.loads((uninterrupted / "final" / "paraagent.json").read_bytes())
    assert note == {"model": kept["model"], "dialect": "compact"}


@pytest.mark.parametrize("length", [1, 7, 8, 9, 30])
def test_block_attention_equals_the_built_in_one(length: int) -> None:
    given = [torch.randn(2, heads, length, 8, requires_grad=True) for heads in (4, 2, 2)]
    weight = torch.randn(2, 4, length, 8)
    wanted = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True, enable_gqa=True)
    found = block_attention(*given, 8**-0.5, block=8)
    assert torch.allclose(found, wanted, atol=1e-5)
    slopes = (torch.autograd.grad(result, given, weight) for result in (found, wanted))
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(*slopes, strict=True))


@pytest.mark.parametrize(("bf16", "close"), [(False, 1e-5), (True, 0.05)])
def test_block_attention_gives_the_model_the_same_gradients(bf16: bool, close: float) -> None:
    ids = torch.randint(3, 259, (1, 40))
    grads = []
    for blocks in (False, True):
        model = tiny_model.model()
        if blocks:
            use_blocks(model)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = model(ids, labels=ids).loss
        loss.backward()
        grads.append(model.model.embed_tokens.weight.grad)
    assert torch.allclose(grads[0], grads[1], atol=close * grads[0].abs().max().item())


def test_scores_are_those_of_the_chosen_tokens() -> None:
    model = tiny_model.model()
    ids = torch.randint(3, 259, (2, 12))
    chosen = torch.zeros_like(ids, dtype=torch.bool)
    chosen[0, [3, 7]] = True
    chosen[1, 11] = True
    scores = score(model, ids, None, chosen, temperature=0.7)
    every = (model(ids).logits / 0.7).log_softmax(-1)
    wanted = [every[row, place - 1, ids[row, place]].item() for row, place in ((0, 3), (0, 7), (1, 11))]
    assert scores.log_probs.tolist() == pytest.approx(wanted, abs=1e-5)
    assert (scores.entropy > 0).all()


def test_scores_are_among_what_could_come() -> None:
    model = tiny_model.model()
    ids = torch.tensor([[5, 9, 40, 7]])
    chosen = torch.tensor([[False, False, True, True]])
    masks = np.zeros((2, 9), dtype=np.int32)
    masks[0, [0, 1]] = 1 << 3, 1 << 8  # 3 or 40
    masks[1, 0] = 1 << 7  # nothing but 7
    scores = score(model, ids, None, chosen, temperature=0.7, masks=masks)
    two = (model(ids).logits[0, 1, [3, 40]] / 0.7).log_softmax(-1)
    assert scores.log_probs.tolist() == pytest.approx([two[1].item(), 0.0], abs=1e-5)
    assert scores.entropy.tolist() == pytest.approx([-(two.exp() * two).sum().item(), 0.0], abs=1e-5)
    scores.log_probs.sum().backward()
    slopes = [parameter.grad for parameter in model.parameters()]
    assert all(torch.isfinite(slope).all() for slope in slopes)
    assert any(slope.any() for slope in slopes)


def test_fused_adapters_give_the_numbers_of_plain_ones() -> None:
    from peft import LoraConfig, get_peft_model

    ids = torch.randint(3, 259, (1, 40))
    found = []
    for fused in (False, True):
        model = get_peft_model(
            tiny_model.model().bfloat16(), LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
        )
        torch.manual_seed(0)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data.normal_(0, 0.1)
        if fused:
            spare_copies(model)
            assert all("forward" in vars(layer) for layer in model.modules() if hasattr(layer, "lora_A"))
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(ids, labels=ids).loss
        loss.backward()
        with model.disable_adapter(), torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            bare = model(ids, labels=ids).loss
        found.append((loss, bare, [p.grad for p in model.parameters() if p.requires_grad]))
    (plain, plain_bare, plain_grads), (quick, quick_bare, quick_grads) = found
    assert torch.allclose(plain, quick, rtol=1e-2)
    assert torch.equal(plain_bare, quick_bare)
    assert not torch.equal(plain, plain_bare)
    for one, other in zip(plain_grads, quick_grads, strict=True):
        cosine = torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), dim=0)
        assert cosine > 0.99
        assert float(other.norm() / one.norm()) == pytest.approx(1, abs=0.05)


def test_two_processes_learn_what_one_does(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = config(model, data, tmp_path / "one", micro_batch=2, bf16=True)
    train(wanted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    train(replace(wanted, out=str(tmp_path / "two")))
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=2e-2)
    stopped, settle = replace(wanted, out=str(tmp_path / "stopped")), sft.settle
    with monkeypatch.context() as patch:
        patch.setattr(sft, "settle", lambda trainer, *rest: (settle(trainer, *rest), trainer.add_callback(Stop(3))))
        with pytest.raises(KeyboardInterrupt):
            train(stopped)
    train(stopped, resume=True)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "two")


@pytest.mark.parametrize("fast", [torch.bfloat16, torch.float32])
def test_the_number_format_is_the_faster_one_and_kept(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: torch.dtype
) -> None:
    other = {torch.bfloat16: torch.float32, torch.float32: torch.bfloat16}[fast]
    wanted = replace(config(model, data, tmp_path / "run"), limit=2)
    wanted = replace(wanted, optimisation=replace(wanted.optimisation, bf16=None))
    monkeypatch.setattr(runs, "fastest_dtype", lambda device: fast)
    train(wanted)
    kept = RunFolder(tmp_path / "run").settings()["optimisation"]
    assert isinstance(kept, dict)
    assert kept["bf16"] is (fast == torch.bfloat16)
    monkeypatch.setattr(runs, "fastest_dtype", lambda device: other)
    train(wanted, resume=True)
    assert RunFolder(tmp_path / "run").settings()["optimisation"] == kept


def test_every_epoch_has_an_order_of_its_own() -> None:
    rows = [Row([number] * (1 + number % 5), [1]) for number in range(40)]
    ordered = sft._ordered([*rows], SftConfig("d", "o", epochs=2.0, batch=8))
    first, second = ordered[:40], ordered[40:]
    assert sorted(map(id, first)) == sorted(map(id, second)) == sorted(map(id, rows))
    assert {id(row) for row in first[:8]} != {id(row) for row in second[:8]}
    assert all(
        len(one.input_ids) >= len(other.input_ids)
        for start in range(0, 80, 8)
        for one, other in pairwise(ordered[start : start + 8])
    )

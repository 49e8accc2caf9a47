"""A training run's folder: its settings, its metrics, its checkpoints, and how it goes on after a stop.

Place in the flow: layer 6, shared by `sft` and `rl`. A run holds `config.json`, `metrics.jsonl` (one object per
logged step), `checkpoint-N/`, TensorBoard's files under `tensorboard/` and, at the end, `final/`. A checkpoint counts
only if its last file is whole, so a run killed at any moment goes on from the one before.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from paraagent.agent.engine.load import fastest_dtype
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.train.config import C, RlConfig, SftConfig, difference
from paraagent.types import JsonObject

Say = Callable[[str], None]
"""Prints one line."""
_STATE = "trainer_state.json"
"""The file that a checkpoint is finished with."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run keeps its files."""

    path: Path

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def final(self) -> Path:
        """The adapter, or the whole model if all weights were trained."""
        return self.path / "final"

    def settings(self) -> JsonObject:
        """Return the settings that the run was made with.

        Raises:
            EnvironmentFault: they cannot be read.
        """
        try:
            found: JsonObject = orjson.loads((self.path / "config.json").read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise EnvironmentFault(f"{self.path / 'config.json'} cannot be read ({error})") from error
        return found

    def sign(self, config: SftConfig | RlConfig) -> None:
        """Note beside the result what is needed to ask it."""
        note = {"model": config.model, "dialect": config.dialect}
        if isinstance(config, RlConfig):
            note["guide"] = config.guide
        (self.final / "paraagent.json").write_bytes(orjson.dumps(note, option=orjson.OPT_INDENT_2))

    def settle(self, config: C) -> C:
        """Return the settings with the number format decided: as the run began, or as this machine is fastest."""
        if config.optimisation.bf16 is not None:
            return config
        if (self.path / "config.json").exists():
            began = self.settings().get("optimisation")
            bf16 = isinstance(began, dict) and bool(began.get("bf16"))
        else:
            bf16 = fastest_dtype("cuda" if torch.cuda.is_available() else "cpu") == torch.bfloat16
        return replace(config, optimisation=replace(config.optimisation, bf16=bf16))

    def open(self, config: SftConfig | RlConfig, *, resume: bool) -> Path | None:
        """Make the folder ready; return the checkpoint to go on from, if any.

        Raises:
            UsageError: it holds a run and `resume` is False, or a run with other settings.
            EnvironmentFault: it cannot be written.
        """
        marker = self.path / "config.json"
        wanted = config.to_json()
        try:
            if marker.exists():
                self._check(self.settings(), wanted, resume)
                return self._resumable()
            if self.path.exists() and any(self.path.iterdir()):
                raise UsageError(f"{self.path} is not empty and holds no training run: choose another --out")
            self.path.mkdir(parents=True, exist_ok=True)
            marker.write_bytes(orjson.dumps(wanted, option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise EnvironmentFault(f"{self.path}: cannot keep the run there ({error.strerror})") from error
        return None

    def _check(self, found: JsonObject, wanted: JsonObject, resume: bool) -> None:
        if not resume:
            raise UsageError(f"{self.path} holds a training run: go on with --resume, or choose another --out")
        other = difference(found, orjson.loads(orjson.dumps(wanted)))
        if other is not None:
            raise UsageError(f"{self.path} holds a run with another {other}: resume it with the same settings")

    def checkpoints(self) -> list[Path]:
        """Return the whole checkpoints, oldest first."""
        found = [path for path in self.path.glob("checkpoint-*") if _whole(path)]
        return sorted(found, key=step_of)

    def _resumable(self) -> Path | None:
        """Return the last whole checkpoint; broken ones and metrics of steps after it are removed."""
        whole = self.checkpoints()
        for path in self.path.glob("checkpoint-*"):
            if path not in whole:
                shutil.rmtree(path)
        last = whole[-1] if whole else None
        self._cut_metrics(step_of(last) if last else 0)
        return last

    def _cut_metrics(self, step: int) -> None:
        if not self.metrics.exists():
            return
        kept = [line for line in self.metrics.read_bytes().split(b"\n") if _logged_step(line) <= step]
        kept = [line for line in kept if line.strip()]
        beside = self.metrics.with_suffix(".tmp")
        beside.write_bytes(b"".join(line + b"\n" for line in kept))
        os.replace(beside, self.metrics)

    def read_metrics(self) -> list[JsonObject]:
        """Return the logged steps so far."""
        if not self.metrics.exists():
            return []
        return [orjson.loads(line) for line in self.metrics.read_bytes().split(b"\n") if _logged_step(line) >= 0]


def _whole(checkpoint: Path) -> bool:
    try:
        return isinstance(json.loads((checkpoint / _STATE).read_bytes())["global_step"], int)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def step_of(checkpoint: Path) -> int:
    """Return the step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


def _logged_step(line: bytes) -> int:
    """Return the step of a metrics line; -1 for one that was torn."""
    try:
        step = orjson.loads(line).get("step", -1)
    except (orjson.JSONDecodeError, AttributeError):
        return -1
    return step if isinstance(step, int) else -1


class Reporter(TrainerCallback):  # type: ignore[misc]
    """Writes every logged step to the metrics file and, in a line, to the console.

    Args:
        say: prints one line.
    """

    def __init__(self, folder: RunFolder, say: Say) -> None:
        self._file = folder.metrics
        self._say = say
        self._began = time.monotonic()
        self._first = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        self._began, self._first = time.monotonic(), state.global_step
        state.save_steps = args.save_steps  # a resumed run would keep that of its checkpoint

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        release_memory()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: object,
    ) -> None:
        logs = logs or {}
        if "loss" not in logs:
            return
        numbers = {name: value for name, value in logs.items() if isinstance(value, int | float)}
        record = {"step": state.global_step, **numbers}
        with self._file.open("ab") as file:
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        self._print(state, numbers)

    def _print(self, state: TrainerState, numbers: dict[str, float]) -> None:
        done = state.global_step - self._first
        each = (time.monotonic() - self._began) / max(done, 1)
        left = each * (state.max_steps - state.global_step)
        shown = {
            "loss": "loss",
            "mean_token_accuracy": "accuracy",
            "reward": "reward",
            "success": "success",
            "kl": "kl",
            "grad_norm": "gradient",
        }
        parts = [f"{label} {numbers[name]:.4g}" for name, label in shown.items() if name in numbers]
        time_left = f"{each:.1f} s/step, {left / 60:.0f} min left"
        line = "  ".join([f"step {state.global_step}/{state.max_steps}", *parts, time_left])
        self._say(line)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep libraries from warning of what a user cannot act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def explained(micro_batch: int, max_length: int) -> Iterator[None]:
    """Turn what training commonly fails of into one line that says what to do.

    Raises:
        EnvironmentFault: memory or disk ran out.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        text = str(error).lower()
        if isinstance(error, RuntimeError) and "memory" not in text and "alloc" not in text:
            raise
        smaller = "a smaller --micro-batch" if micro_batch > 1 else f"--max-length below {max_length}"
        raise EnvironmentFault(
            f"out of memory: use {smaller}, gradient checkpointing (--checkpointing), or a smaller model; "
            "the last checkpoint is kept, go on with --resume"
        ) from error
    except OSError as error:
        if error.errno == 28:
            raise EnvironmentFault("the disk is full: free space and go on with --resume") from error
        raise


def release_memory() -> None:
    """Give memory that is free inside the process back to the system; rows of many lengths leave gigabytes of it."""
    with contextlib.suppress(OSError, AttributeError):  # only the GNU C library has it
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def check_finite(loss: torch.Tensor, step: int) -> None:
    """Stop at a loss that is no number.

    Raises:
        EnvironmentFault: it is not finite.
    """
    if not bool(torch.isfinite(loss)):
        raise EnvironmentFault(
            f"the loss is {loss.item()} at step {step}: lower --lr or --clip and start from the last checkpoint "
            "with --resume"
        )

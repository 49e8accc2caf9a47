"""The settings of a training run, and the presets: one frozen record per command, written into the run's folder.

Place in the flow: layer 6; the command line builds one, the trainers read it, nothing else configures them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeVar

from paraagent.agent.engine.smollm2 import NAME
from paraagent.agent.policies.model import Dialect
from paraagent.errors import UsageError
from paraagent.reward.credit import Mode
from paraagent.reward.rules import RulesName
from paraagent.types import JsonObject, JsonValue, TaskKind

Schedule = Literal["cosine", "linear", "constant"]
Preset = Literal["cpu-small", "gpu-small", "qwen3-4b"]
C = TypeVar("C", "SftConfig", "RlConfig")


@dataclass(frozen=True, slots=True)
class Optimisation:
    """How weights are changed; shared by both kinds of training."""

    lr: float
    schedule: Schedule = "cosine"
    warmup: float = 0.05
    """Share of the steps in which the rate rises."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Largest norm of a gradient."""
    lora_rank: int = 16
    """0 trains all weights."""
    lora_alpha: int = 32
    micro_batch: int = 1
    """Rows of one backward pass; on a CPU they are spread over processes, without padding."""
    bf16: bool | None = None
    """Multiply in bfloat16; with an adapter the frozen weights are kept in it too. None: where this machine is faster
    with it; a run that goes on keeps to what it began with."""
    checkpointing: bool = False
    """Compute activations twice to save memory; if not, a CPU does it for what is long only (`train.room`)."""
    log_every: int = 1
    save_every: int = 10
    """Steps between checkpoints, a multiple of `log_every`."""
    keep: int = 2
    """Checkpoints on disk."""
    seed: int = 0

    def check(self) -> None:
        """Raise UsageError if a value makes no sense."""
        if self.lr <= 0 or self.clip <= 0 or not 0 <= self.warmup < 1:
            raise UsageError("lr and clip must be above 0, warm-up a share from 0 to 1")
        if self.save_every % self.log_every or min(self.log_every, self.keep, self.micro_batch) < 1:
            raise UsageError("save_every must be a multiple of log_every, and keep and micro_batch at least 1")


@dataclass(frozen=True, slots=True)
class SftConfig:
    """`paraagent train sft`."""

    data: str
    """Demonstrations, as `paraagent demos make` writes them."""
    out: str
    model: str = NAME
    adapter: str | None = None
    """Adapter to go on from, as an earlier training leaves it."""
    dialect: Dialect = "compact"
    epochs: float = 1.0
    batch: int = 8
    """Demonstrations per step."""
    limit: int | None = None
    """Use the first so many demonstrations only."""
    max_length: int = 1408
    """Tokens; longer demonstrations are left out."""
    optimisation: Optimisation = Optimisation(lr=8e-4, micro_batch=2)

    def check(self) -> None:
        self.optimisation.check()
        if self.batch % self.optimisation.micro_batch or self.epochs <= 0 or self.max_length < 16:
            raise UsageError("batch must be a multiple of micro_batch, epochs above 0, max_length at least 16")

    def to_json(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RlConfig:
    """`paraagent train rl`."""

    out: str
    model: str = NAME
    adapter: str | None = None
    """Adapter to start from, as supervised training leaves it; also the reference of the KL term."""
    dialect: Dialect = "compact"
    guide: Literal["off", "calls"] = "calls"
    """What turns of the compact dialect are kept to; probabilities are of what is left. They are never checked."""
    credit: Mode = "local"
    rules: RulesName = "default"
    steps: int = 100
    prompts: int = 8
    """Tasks per step."""
    rollouts: int = 8
    """Episodes per task: one comparison group."""
    updates: int = 1
    """Optimiser steps per batch of episodes."""
    kinds: tuple[TaskKind, ...] = ("single", "parallel", "chain", "mixed", "recover", "unanswerable")
    width: int = 2
    depth: int = 2
    tasks: int = 2000
    """Training tasks that are sampled and gone through in random order."""
    task_seed: int = 1_000_000
    turns: int = 6
    """Turns of an episode at most."""
    temperature: float = 1.0
    max_tokens: int = 200
    """Per turn."""
    max_length: int = 2048
    """Tokens of an episode."""
    kl: float = 0.001
    clip_ratio: float = 0.2
    slots: int = 16
    """Episodes written at once by one process; each takes memory for its keys and values."""
    optimisation: Optimisation = Optimisation(lr=1e-4, schedule="constant", warmup=0.0, micro_batch=2)

    def check(self) -> None:
        self.optimisation.check()
        if self.rollouts < 2:
            raise UsageError("rollouts must be at least 2: an episode is compared with the others of its task")
        if self.guide != "off" and self.dialect == "tags":
            raise UsageError(f"guide {self.guide} is for turns of the compact dialect, and this model writes tags")
        if (self.prompts * self.rollouts) % (self.updates * self.optimisation.micro_batch):
            raise UsageError("prompts times rollouts must be a multiple of updates times micro_batch")
        if min(self.steps, self.prompts, self.turns, self.tasks) < 1 or self.temperature <= 0:
            raise UsageError("steps, prompts, turns and tasks must be at least 1, the temperature above 0")

    def to_json(self) -> JsonObject:
        return asdict(self) | {"kinds": [*self.kinds]}


_SFT: Mapping[Preset, Mapping[str, object]] = MappingProxyType(
    {
        "cpu-small": {},
        "gpu-small": {
            "batch": 32,
            "max_length": 2048,
            "optimisation": Optimisation(lr=8e-4, micro_batch=8, save_every=50, log_every=5),
        },
        "qwen3-4b": {  # the published run
            "dialect": "tags",
            "epochs": 3.0,
            "batch": 32,
            "max_length": 20_000,
            "optimisation": Optimisation(
                lr=1e-5, warmup=0.1, lora_rank=0, micro_batch=2, checkpointing=True, save_every=50, seed=42
            ),
        },
    }
)
_RL: Mapping[Preset, Mapping[str, object]] = MappingProxyType(
    {
        "cpu-small": {},
        "gpu-small": {
            "prompts": 16,
            "slots": 128,
            "steps": 40,
            "optimisation": Optimisation(lr=1e-4, schedule="constant", warmup=0.0, micro_batch=8),
        },
        "qwen3-4b": {  # the published run, on one data-centre GPU instead of eight
            "dialect": "tags",
            "steps": 128,
            "prompts": 256,
            "updates": 2,
            "tasks": 16_384,
            "turns": 15,
            "max_tokens": 1536,
            "max_length": 18_048,
            "slots": 128,
            "optimisation": Optimisation(
                lr=1e-6,
                schedule="constant",
                warmup=0.0,
                lora_rank=0,
                micro_batch=2,
                checkpointing=True,
                save_every=30,
            ),
        },
    }
)


def sft_preset(name: Preset, data: str, out: str, **changes: object) -> SftConfig:
    """Return a preset with some fields changed; fields of `optimisation` are named directly."""
    base = SftConfig(data, out, **_SFT[name])  # type: ignore[arg-type]
    return _changed(base, changes)


def rl_preset(name: Preset, out: str, **changes: object) -> RlConfig:
    """Return a preset with some fields changed; fields of `optimisation` are named directly."""
    base = RlConfig(out, **_RL[name])  # type: ignore[arg-type]
    if changes.get("guide") is None and (changes.get("dialect") or base.dialect) == "tags":
        changes = {**changes, "guide": "off"}
    return _changed(base, changes)


def _changed(base: C, changes: Mapping[str, object]) -> C:
    wanted = {name: value for name, value in changes.items() if value is not None}
    inner = {name: wanted.pop(name) for name in list(wanted) if name in Optimisation.__dataclass_fields__}
    optimisation = replace(base.optimisation, **inner)  # type: ignore[arg-type]
    changed = replace(base, optimisation=optimisation, **wanted)  # type: ignore[arg-type]
    changed.check()
    return changed


_HOUSEKEEPING = frozenset({"save_every", "keep"})
"""Settings that change no number of a run."""


def difference(one: JsonValue, other: JsonValue, where: str = "") -> str | None:
    """Return the name of the first setting that matters in which two configs differ, or None."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted((one.keys() | other.keys()) - _HOUSEKEEPING):
            found = difference(one.get(name), other.get(name), f"{where}.{name}" if where else name)
            if found is not None:
                return found
        return None
    return None if one == other else where

"""Plays training episodes with the model as it is now: all episodes of a batch advance together.

Place in the flow: layer 6; `rl` hands out one share of a step's episodes per process. Episodes run in the real loop
over simulated tools; their time is virtual, so waiting costs nothing. A sample keeps the exact tokens that were read
and written, the trace, and what the episode earned.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from paraagent.agent.budget import Budget
from paraagent.agent.engine.engine import Engine
from paraagent.agent.engine.load import DType, load_model, resolve_folder
from paraagent.agent.policies.model import LocalConfig, LocalModel, Transcript
from paraagent.agent.settings import Settings
from paraagent.catalog.store import Catalog
from paraagent.env.task import Task
from paraagent.evaluate.arena import Arena
from paraagent.reward.credit import Rollout, as_rollout
from paraagent.reward.record import Reward
from paraagent.reward.rules import Rules, rules
from paraagent.reward.score import score
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.train.config import RlConfig
from paraagent.train.model import merge
from paraagent.train.runs import release_memory


@dataclass(frozen=True, slots=True)
class Sample:
    """One episode to learn from."""

    task: Task
    transcript: Transcript
    view: EpisodeView
    reward: Reward

    @property
    def success(self) -> bool:
        return bool(self.view.success)

    def rollout(self) -> Rollout:
        """Return it as credit assignment takes it: the completion's tokens, the turns' places in it."""
        transcript = self.transcript
        return as_rollout(self.reward, self.task.id, transcript.spans, len(transcript.completion_ids))


@dataclass(frozen=True, slots=True)
class Share:
    """Episodes for one process: their places in the batch, and of each the task and the seed of what is sampled."""

    places: tuple[int, ...]
    tasks: tuple[Task, ...]
    seeds: tuple[str, ...]


def shares(tasks: Sequence[Task], seed: str, count: int) -> list[Share]:
    """Deal out episodes to processes; those of a task stay together, since they begin alike."""
    groups = [[*found] for _, found in groupby(range(len(tasks)), key=lambda place: tasks[place].id)]
    dealt = [[place for group in groups[first::count] for place in group] for first in range(count)]
    return [
        Share(tuple(places), tuple(tasks[place] for place in places), tuple(f"{seed} {place}" for place in places))
        for places in dealt
        if places
    ]


def gather(found: Sequence[Sequence[Sample]], dealt: Sequence[Share]) -> list[Sample]:
    """Put the samples of all shares back in the order of the episodes."""
    placed = {
        place: sample
        for samples, share in zip(found, dealt, strict=True)
        for sample, place in zip(samples, share.places, strict=True)
    }
    return [placed[place] for place in range(len(placed))]


class Player:
    """Plays shares of episodes in one process with the weights as they are.

    An adapter in training is merged into weights of their own first.

    Args:
        model: what is trained, bare.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, arena: Arena, config: RlConfig):
        self._model, self._arena, self._rules = model, arena, rules(config.rules)
        self._merged = config.optimisation.lora_rank > 0
        self._autocast = bool(config.optimisation.bf16) and not self._merged
        asked = model
        if self._merged:
            dtype: DType = "bfloat16" if config.optimisation.bf16 else "float32"
            asked = load_model(resolve_folder(config.model), dtype=dtype, device=str(model.device))
        self.local = LocalModel.over(asked, tokenizer, _local_config(config), timed=False)

    def __call__(self, share: Share) -> list[Sample]:
        """Play one episode per task, in order; the same weights, tasks and seeds give the same episodes."""
        engine = self.local.engine
        assert isinstance(engine, Engine)
        if self._merged:
            merge(self._model, engine.model)
        with _asking(engine.model), torch.autocast(engine.model.device.type, torch.bfloat16, self._autocast):
            samples = asyncio.run(self._play_all(share))
        engine.reset()  # the weights are about to change
        release_memory()
        return samples

    async def _play_all(self, share: Share) -> list[Sample]:
        pairs = zip(share.tasks, share.seeds, strict=True)
        return await asyncio.gather(*(play(self._arena, self.local, task, self._rules, seed) for task, seed in pairs))


def open_arena(config: RlConfig, catalog: Catalog, index: SearchIndex) -> Arena:
    """Return where training episodes are played."""
    return Arena(catalog, index, Settings(budget=Budget(turns=config.turns), durable=False), top_k=3)


def _local_config(config: RlConfig) -> LocalConfig:
    return LocalConfig(
        config.model,
        config.adapter,
        config.dialect,
        config.guide,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        max_length=config.max_length,
        slots=config.slots,
    )


@contextlib.contextmanager
def _asking(model: PreTrainedModel) -> Iterator[None]:
    """Switch a model in training to writing, and back."""
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


async def play(arena: Arena, local: LocalModel, task: Task, rules: Rules, seed: str) -> Sample:
    """Play and score one episode."""
    own, recorder = local.episode(seed), Recorder()
    try:
        await arena.play(task, own, recorder, run="train")
    finally:
        own.close()
    view = EpisodeView(recorder.events)
    return Sample(task, own.transcript, view, score(view, rules))

"""The same training on many GPUs: our episodes and our credit inside verl 0.9.1 (Ray, FSDP, vLLM).

Place in the flow: layer 6, for an environment of its own, since verl and TRL want other versions of transformers.
`ParaActAgentLoop` plays one episode in a rollout worker; what credit needs travels in `extra_fields`. The trainer
lets verl compute whatever advantage it is told to and then puts ours in its place. To use it:

    VERL_USE_EXTERNAL_MODULES=paraagent.train.engines.verl
    trainer.v1.trainer_mode=paraagent_sync
    actor_rollout_ref.rollout.agent.default_agent_loop=paraact
    actor_rollout_ref.rollout.agent.agent_loop_config_path=FILE    # _target_: ...verl.ParaActAgentLoop, name: paraact
    trainer.v1.sampler.sync_refill_failed_groups=true

Data: one row per task, as `rows` gives them. `docs/TRAINING.md` has the published settings.
Limits: turns are not guided; written against verl 0.9.1's documented interfaces and not run on GPUs here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import cast, get_args

import msgspec
import torch
import transfer_queue as tq  # type: ignore[import-not-found]
from tensordict import TensorDict  # type: ignore[import-not-found]
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.workers.utils.padding import response_to_nested

from paraagent.agent.budget import Budget
from paraagent.agent.engine.chat import Chat
from paraagent.agent.engine.sampling import Sampling
from paraagent.agent.engine.streams import Stream, Written
from paraagent.agent.policies.model import LocalConfig, LocalModel
from paraagent.agent.settings import Settings
from paraagent.catalog.store import Catalog
from paraagent.env.task import Task
from paraagent.errors import UsageError
from paraagent.evaluate.arena import Arena
from paraagent.reward.credit import Mode
from paraagent.reward.rules import rules
from paraagent.search.search import SearchIndex
from paraagent.train.engines.batch import advantages, pack, unpack
from paraagent.train.rollout import play
from paraagent.types import JsonObject

_FIELD = "paraagent"
"""Where a scored episode lies in `extra_fields`."""


def rows(tasks: Iterable[Task]) -> list[JsonObject]:
    """Return the tasks as rows of verl's data set."""
    return [
        {
            "data_source": "toolenv",
            "agent_name": "paraact",
            "prompt": [{"role": "user", "content": task.request}],
            "reward_model": {"style": "rule", "ground_truth": task.id},
            "extra_info": {"task": task.to_json().decode()},
        }
        for task in tasks
    ]


class ServerWriter:
    """Implements `streams.Writer` over verl's servers; one per episode.

    Args:
        server: verl's client, which keeps the prefix cache of a request.
        parameters: how to sample, as verl gives it.
        request: name of the episode; all its turns go to the same server.
    """

    def __init__(self, server: object, parameters: dict[str, object], request: str, max_length: int) -> None:
        self._server = server
        self._parameters = parameters
        self._request = request
        self._max_length = max_length

    async def write(self, stream: Stream, sampling: Sampling, random: Random) -> Written:
        room = min(sampling.max_tokens, self._max_length - len(stream.tokens))
        if room < 1:
            return Written((), (), ended=False)
        output = await self._server.generate(  # type: ignore[attr-defined]
            request_id=self._request,
            prompt_ids=[*stream.tokens],
            sampling_params={**self._parameters, "max_tokens": room, "logprobs": True},
        )
        tokens = tuple(output.token_ids)
        stream.tokens += tokens
        return Written(tokens, tuple(output.log_probs or [0.0] * len(tokens)), ended=len(tokens) < room)

    def close(self, stream: Stream) -> None:
        """Nothing is held here."""


@register("paraact")
class ParaActAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """One episode of ToolEnv as verl's agent loop."""

    async def run(self, sampling_params: dict[str, object], **fields: object) -> AgentLoopOutput:
        """Play the task of a data row."""
        info = fields["extra_info"]
        assert isinstance(info, dict)
        task = Task.from_json(str(info["task"]))
        settings = self.config.get("paraagent", {})
        length = self.rollout_config.prompt_length + self.rollout_config.response_length
        writer = ServerWriter(self.server_manager, sampling_params, task.id + str(id(self)), length)
        config = LocalConfig(
            dialect=settings.get("dialect", "tags"),
            guide="off",  # its servers write freely
            temperature=self.rollout_config.temperature,
            max_tokens=settings.get("max_tokens", 1536),
            max_length=length,
        )
        policy = LocalModel(writer, Chat(self.tokenizer), config, timed=False)
        arena = _arena(settings.get("catalog"), settings.get("turns", 15))
        sample = await play(arena, policy, task, rules(settings.get("rules", "default")), task.id)
        transcript, limit = sample.transcript, self.rollout_config.response_length
        return AgentLoopOutput(
            prompt_ids=list(transcript.prompt_ids),
            response_ids=list(transcript.completion_ids)[:limit] or [policy.chat.end_of_turn],
            response_mask=(transcript.mask or [0])[:limit],
            response_logprobs=(list(transcript.logprobs) or [0.0])[:limit],
            reward_score=sample.reward.total or 0.0,  # for verl's logs; a masked episode has no advantage
            num_turns=len(transcript.spans),
            metrics={},
            extra_fields={_FIELD: pack(sample.rollout())},
        )


@lru_cache(maxsize=1)
def _arena(catalog: str | None, turns: int) -> Arena:
    """Open the world once per worker process."""
    opened = Catalog.open(Path(catalog) if catalog else None)
    return Arena(opened, SearchIndex.open(opened), Settings(budget=Budget(turns=turns), durable=False))


@register_trainer("paraagent_sync")
class ParaAgentTrainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer with our credit."""

    def __init__(self, config: object, *others: object, **named: object) -> None:
        config.trainer.v1.trainer_mode = "sync"  # type: ignore[attr-defined]  # else verl takes its async buffer
        super().__init__(config, *others, **named)
        mode = self.config.get("paraagent", {}).get("credit", "local")
        if mode not in get_args(Mode):
            raise UsageError(f"paraagent.credit is {mode!r}: use {', '.join(get_args(Mode))}")
        self._credit = cast(Mode, mode)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, object]) -> KVBatchMeta:
        """Let verl do its part (KL in reward, rollout correction), then give every token our advantage."""
        batch = super()._compute_advantage(batch, metrics)
        keys, partition = batch.keys, batch.partition_id
        data = tq.kv_batch_get(
            keys=keys, partition_id=partition, select_fields=["uid", "response_mask", "extra_fields"]
        )
        mask = data["response_mask"]
        lengths = mask.offsets().diff().tolist()
        episodes = zip(data["extra_fields"].tolist(), data["uid"].tolist(), lengths, strict=True)
        rollouts = [unpack(extra[_FIELD], str(uid), length) for extra, uid, length in episodes]
        found, credit = advantages(rollouts, self._credit, max(lengths))
        for level, stats in credit.levels.items():
            metrics[f"credit/{level}/size"] = stats.mean_abs
        metrics["credit/masked"] = credit.masked
        nested = response_to_nested(torch.from_numpy(found), mask)
        output = TensorDict({"advantages": nested, "returns": nested}, batch_size=len(lengths))
        return tq.kv_batch_put(keys=keys, partition_id=partition, fields=output)


def write_rows(tasks: Iterable[Task], path: Path) -> None:
    """Write the data set as the Parquet file that verl reads."""
    from datasets import Dataset

    Dataset.from_list([msgspec.to_builtins(row) for row in rows(tasks)]).to_parquet(str(path))

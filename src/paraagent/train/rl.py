"""Reinforcement learning in ToolEnv: TRL's GRPOTrainer with our own episodes and our own credit.

Place in the flow: layer 6, optional (`paraagent[train]`). Per step, a batch of tasks is played several times each
with the model as it is (`rollout`), every episode is scored at three levels, and `reward.credit` gives every token an
advantage; TRL does the clipped policy gradient, the KL term and the bookkeeping. What came back from tools is masked,
and so is what a guide left no alternative to; TRL's own counts of tokens leave both out.
Leans on three methods of TRL that are not public; tests hold them to what is needed here.
Limits: one trainer process. A run that was stopped, also by kill -9, goes on with the same numbers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from paraagent.agent.engine.chat import Chat
from paraagent.agent.engine.load import load_tokenizer, resolve_folder
from paraagent.catalog.store import Catalog
from paraagent.env.task import Task
from paraagent.env.tasks import TaskSampler
from paraagent.errors import UsageError
from paraagent.evaluate.arena import Arena
from paraagent.reward.credit import Credit
from paraagent.search.search import SearchIndex
from paraagent.train.config import RlConfig
from paraagent.train.engines.batch import advantages
from paraagent.train.model import bare, copy_model, lora, open_model
from paraagent.train.rollout import Player, Sample, gather, open_arena, shares
from paraagent.train.runs import RunFolder, Say, check_finite, explained, quiet
from paraagent.train.sft import fit, settle, shared_arguments
from paraagent.train.tasks import training_tasks
from paraagent.train.worker import ScoredRow, Scoring, Seat
from paraagent.train.workers import Workers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from trl import GRPOConfig, GRPOTrainer


class ParaGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose episodes, rewards and per-token advantages are ours.

    Args:
        tasks: what is trained on; the dataset's prompts are their ids.
        arena: where they are played.
    """

    def __init__(
        self,
        config: RlConfig,
        tasks: Sequence[Task],
        arena: Arena,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        arguments: GRPOConfig,
    ) -> None:
        self.config = config
        self._tasks = {task.id: task for task in tasks}
        self._samples: list[Sample] = []
        self._seconds = 0.0
        self._learned = torch.zeros(0, 0, dtype=torch.bool)
        self._places: Sequence[int] = ()
        """Which of the samples the rows are that are scored next."""
        self._log_probs = torch.zeros(0, 0)
        fresh = config.optimisation.lora_rank > 0 and not hasattr(model, "peft_config")
        super().__init__(
            model=model,
            reward_funcs=[self.total_reward],
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": list(self._tasks)}),
            processing_class=tokenizer,
            peft_config=lora(config.optimisation) if fresh else None,
            rollout_func=self._roll_out,
        )
        if self.accelerator.num_processes > 1:
            raise UsageError("one process only: comparison groups must not be split; use the verl engine for more")
        asked = self.accelerator.unwrap_model(self.model)
        player = Player(bare(asked), tokenizer, arena, config)
        self._end_of_turn = player.local.chat.end_of_turn
        seat, build = Seat(bare(asked), player), partial(_seat, config, arena.catalog.path)
        on_cpu = self.model.device.type == "cpu"
        count = min(torch.get_num_threads(), config.optimisation.micro_batch) if on_cpu else 1
        self.workers = Workers(seat, build, count)

    def training_step(self, *args: object, **kwargs: object) -> torch.Tensor:
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        self.workers.collect()
        return loss

    def _roll_out(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[object]]:
        """Play one episode per prompt; prompts arrive already repeated."""
        tasks = [self._tasks[prompt] for prompt in prompts]
        seed = f"{self.args.seed} {self.state.global_step}"
        began = time.perf_counter()
        dealt = shares(tasks, seed, self.workers.count)
        self._samples = gather(self.workers.perform(dealt), dealt)
        self._seconds = time.perf_counter() - began
        transcripts = [sample.transcript for sample in self._samples]
        end = self._end_of_turn  # stands for an episode in which nothing could be written
        masks = [t.mask or [0] for t in transcripts]
        self._learned = _padded([torch.tensor(mask, dtype=torch.bool) for mask in masks])
        self._places = range(len(transcripts))
        return {
            "prompt_ids": [list(t.prompt_ids) for t in transcripts],
            "completion_ids": [list(t.completion_ids) or [end] for t in transcripts],
            "logprobs": [list(t.logprobs) or [0.0] for t in transcripts],
            "env_mask": [*masks],
        }

    def total_reward(self, prompts: list[str], **_: object) -> list[float | None]:
        """Return the total reward of every episode, for the logs; None if it is masked."""
        return [None if sample.reward.masked else sample.reward.total for sample in self._samples]

    def _generate_and_score_completions(self, inputs: list[dict[str, object]]) -> dict[str, torch.Tensor]:
        """Let TRL collect the batch, then put our advantage on every token."""
        batch: dict[str, torch.Tensor] = super()._generate_and_score_completions(inputs)
        rollouts = [sample.rollout() for sample in self._samples]
        found, credit = advantages(rollouts, self.config.credit, batch["completion_ids"].shape[1])
        batch["advantages"] = torch.from_numpy(found).to(batch["completion_ids"].device)
        batch["places"] = torch.arange(len(rollouts))
        self._note(credit)
        return batch

    def _note(self, credit: Credit) -> None:
        """Log what the episodes were like and how much each level says."""
        metrics = self._metrics["train" if self.model.training else "eval"]
        live = [sample for sample in self._samples if not sample.reward.masked]
        if live:
            metrics["success"].append(fmean(sample.success for sample in live))
            metrics["turns"].append(fmean(len(sample.view.turns) for sample in live))
            metrics["reward/step"].append(fmean(sample.reward.levels.step for sample in live))
            metrics["reward/phase"].append(fmean(sample.reward.levels.phase or 0.0 for sample in live))
            metrics["reward/trajectory"].append(fmean(sample.reward.levels.trajectory or 0.0 for sample in live))
        metrics["masked"].append(float(credit.masked))
        metrics["rollout_seconds"].append(self._seconds)
        for level, stats in credit.levels.items():
            metrics[f"credit/{level}/size"].append(stats.mean_abs)
            metrics[f"credit/{level}/constant"].append(stats.constant / max(stats.sets, 1))

    def _compute_loss(self, model: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        self._learned = (inputs["completion_mask"] * inputs["tool_mask"]).bool().cpu()
        self._places = inputs["places"].tolist()
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        check_finite(loss, self.state.global_step + 1)
        if self._log_probs.shape == self._learned.shape:
            gap = (self._log_probs - inputs["sampling_per_token_logps"]).abs()[
                self._learned.to(self._log_probs.device)
            ]
            if len(gap):
                self._metrics["train" if self.model.training else "eval"]["sampling_gap"].append(gap.mean().item())
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: PreTrainedModel,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **other: object,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Score only what the model chose, among what it could; 0 elsewhere.

        On a GPU the library does it if nothing was guided.
        """
        guided = any(sample.transcript.choices for sample in self._samples)
        if self.model.device.type != "cpu" and not guided:
            scored: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]
            scored = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, **other
            )
            self._log_probs = scored[0].detach()
            return scored
        rows, places = [], []
        every = zip(input_ids.cpu(), attention_mask.bool().cpu(), self._learned, self._places, strict=True)
        for ids, mask, learned, place in every:
            chosen = torch.zeros_like(mask)
            chosen[-logits_to_keep:][: len(learned)] = learned[:logits_to_keep]
            rows.append(ScoredRow(ids[mask], chosen[mask], self._samples[place].transcript.masks if guided else None))
            places.append(chosen[-logits_to_keep:].to(input_ids.device))
        always = self.args.gradient_checkpointing
        scoring = Scoring(self.temperature, self.args.bf16, compute_entropy, always)
        scores = self.workers.score(rows, scoring, bare(model))
        log_probs = _placed(places, [one.log_probs for one in scores])
        entropies = _placed(places, [one.entropy for one in scores])
        self._log_probs = log_probs.detach()
        return log_probs, entropies if compute_entropy else None, None

    def create_model_card(self, *_: object, **__: object) -> None:
        """Leave out the library's card: the run's own files say how it was made."""


def train_rl(config: RlConfig, *, catalog: Path | None = None, resume: bool = False, say: Say = print) -> Path:
    """Train and return the folder of the adapter, or of the model if all weights were trained.

    Raises:
        UsageError: settings, model or adapter cannot be used; says what to change.
        CatalogError: there is no catalog to play in.
        EnvironmentFault: memory or disk ran out, or the loss became no number.
    """
    config.check()
    folder = resolve_folder(config.model)
    tokenizer = load_tokenizer(folder)
    Chat(tokenizer)  # complains about a missing template before anything is written
    opened = Catalog.open(catalog)
    index = SearchIndex.open(opened)
    run = RunFolder(Path(config.out))
    config = run.settle(config)
    checkpoint = run.open(config, resume=resume)
    tasks = training_tasks(config, TaskSampler(opened, index), run.path / "tasks.jsonl", say)
    arena = open_arena(config, opened, index)
    with explained(config.optimisation.micro_batch, config.max_length), quiet():
        model = open_model(config.model, config.optimisation, config.adapter)
        trainer = ParaGRPOTrainer(config, tasks, arena, model, tokenizer, _arguments(config, run))
        settle(trainer, run, say)
        fit(trainer, run, checkpoint, say)
    run.sign(config)
    return run.final


def _seat(config: RlConfig, catalog: Path) -> Seat:
    """Return what a worker works with: the model once more, and a player of episodes."""
    opened = Catalog.open(catalog)
    arena = open_arena(config, opened, SearchIndex.open(opened))
    model = copy_model(config.model, config.optimisation, config.adapter)
    return Seat(model, Player(model, load_tokenizer(resolve_folder(config.model)), arena, config))


def _arguments(config: RlConfig, run: RunFolder) -> GRPOConfig:
    batch, micro = config.prompts * config.rollouts, config.optimisation.micro_batch
    arguments = shared_arguments(config.optimisation, run)
    arguments["logging_steps"] = config.optimisation.log_every * config.updates
    arguments["save_steps"] = config.optimisation.save_every * config.updates
    return GRPOConfig(
        **arguments,
        max_steps=config.steps * config.updates,
        gradient_accumulation_steps=batch // (config.updates * micro),
        steps_per_generation=batch // micro,
        num_generations=config.rollouts,
        max_completion_length=config.max_length,
        temperature=config.temperature,
        beta=config.kl,
        epsilon=config.clip_ratio,
    )


def _placed(places: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return rows that hold the values at their places, in order, and 0 elsewhere."""
    pairs = zip(places, values, strict=True)
    return torch.stack(
        [
            place.new_zeros(len(place), dtype=torch.float).masked_scatter(place, found.float())
            for place, found in pairs
        ]
    )


def _padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([*rows], batch_first=True)

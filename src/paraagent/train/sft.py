"""Supervised fine-tuning on demonstrations: TRL's SFTTrainer over rows that are tokenised already.

Place in the flow: layer 6, optional (`paraagent[train]`). Loss on the assistant's tokens that a demonstration marks,
on nothing else. A run that was stopped, also by kill -9, goes on with the same numbers.
"""

from __future__ import annotations

import warnings
from functools import partial
from math import ceil
from pathlib import Path
from random import Random

import torch
from datasets import Dataset
from transformers import PreTrainedModel

from paraagent.agent.engine.chat import Chat
from paraagent.agent.engine.load import load_tokenizer, resolve_folder
from paraagent.demos.formats import read
from paraagent.errors import UsageError
from paraagent.train.config import Optimisation, SftConfig
from paraagent.train.model import bare, copy_model, lora, open_model, spare_copies
from paraagent.train.rows import Row, row
from paraagent.train.runs import Reporter, RunFolder, Say, check_finite, explained, quiet, step_of
from paraagent.train.worker import ScoredRow, Scoring, Seat
from paraagent.train.workers import Workers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from trl import SFTConfig as TrlConfig
    from trl import SFTTrainer


class ParaSFTTrainer(SFTTrainer):  # type: ignore[misc]
    """SFTTrainer that scores only what is learned, also on a CPU, and stops at a loss that is no number."""

    workers: Workers
    """What scores rows on a CPU."""

    def training_step(self, *args: object, **kwargs: object) -> torch.Tensor:
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        self.workers.collect()
        return loss

    def compute_loss(
        self,
        model: PreTrainedModel,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        if self.model.device.type == "cpu" and not return_outputs:
            loss = self._loss_on_cpu(inputs, num_items_in_batch)
        else:
            loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        check_finite(loss[0] if return_outputs else loss, self.state.global_step + 1)
        return loss

    def _loss_on_cpu(
        self, inputs: dict[str, torch.Tensor], num_items_in_batch: torch.Tensor | int | None
    ) -> torch.Tensor:
        real = inputs["attention_mask"].bool()
        rows = [
            ScoredRow(ids[mask], labels[mask] != -100)
            for ids, labels, mask in zip(inputs["input_ids"], inputs["labels"], real, strict=True)
        ]
        scoring = Scoring(bf16=self.args.bf16, entropy=False, checkpointing=self.args.gradient_checkpointing)
        scores = self.workers.score(rows, scoring)
        log_probs, top = torch.cat([s.log_probs for s in scores]), torch.cat([s.top for s in scores])
        count = len(log_probs) if num_items_in_batch is None else num_items_in_batch
        metrics = self._metrics["train" if self.model.training else "eval"]
        metrics["mean_token_accuracy"].append(top.float().mean().item())
        self._total_train_tokens += int(real.sum())
        metrics["num_tokens"] = [self._total_train_tokens]
        return -log_probs.sum() / count

    def create_model_card(self, *_: object, **__: object) -> None:
        """Leave out the library's card: the run's own files say how it was made."""


def train_sft(config: SftConfig, *, resume: bool = False, say: Say = print) -> Path:
    """Fine-tune and return the folder of the adapter, or of the model if all weights were trained.

    Raises:
        UsageError: settings, data or model cannot be used; says what to change.
        EnvironmentFault: a file cannot be read, memory or disk ran out, or the loss became no number.
    """
    config.check()
    folder = resolve_folder(config.model)
    tokenizer = load_tokenizer(folder)
    rows = _rows(config, Chat(tokenizer), say)
    run = RunFolder(Path(config.out))
    config = run.settle(config)
    checkpoint = run.open(config, resume=resume)
    optimisation = config.optimisation
    model = open_model(config.model, optimisation, config.adapter)
    steps = max(1, round(config.epochs * len(rows) / config.batch))
    with explained(optimisation.micro_batch, config.max_length), quiet():
        trainer = ParaSFTTrainer(
            model=model,
            args=_arguments(config, run, steps),
            train_dataset=_dataset(rows if torch.cuda.is_available() else _ordered(rows, config)),
            processing_class=tokenizer,
            peft_config=lora(optimisation) if optimisation.lora_rank and config.adapter is None else None,
        )
        seat, build = Seat(bare(trainer.model)), partial(_seat, config)
        trainer.workers = Workers(seat, build, min(torch.get_num_threads(), optimisation.micro_batch))
        settle(trainer, run, say)
        trainer._total_train_tokens = _tokens(run)
        fit(trainer, run, checkpoint, say)
    run.sign(config)
    return run.final


def _tokens(run: RunFolder) -> int:
    """Return how many tokens were read up to where the run goes on."""
    logged = run.read_metrics()
    return int(float(str(logged[-1]["num_tokens"]))) if logged else 0


def _seat(config: SftConfig) -> Seat:
    return Seat(copy_model(config.model, config.optimisation, config.adapter))


def _rows(config: SftConfig, chat: Chat, say: Say) -> list[Row]:
    """Read and tokenise the demonstrations; those too long or not tellable are counted and left out."""
    rows, too_long, untold = [], 0, 0
    for number, demo in enumerate(read(Path(config.data))):
        if number == config.limit:
            break
        try:
            made = row(demo, chat, config.dialect)
        except ValueError:
            untold += 1
            continue
        if len(made.input_ids) > config.max_length:
            too_long += 1
        elif made.learned:
            rows.append(made)
    if not rows:
        raise UsageError(
            f"{config.data} gives nothing to learn ({too_long} demonstrations are longer than {config.max_length} "
            "tokens): raise --max-length or make others"
        )
    tokens = sum(len(made.input_ids) for made in rows)
    say(f"{len(rows)} demonstrations, {tokens:,} tokens, {sum(made.learned for made in rows):,} of them learned")
    if too_long or untold:
        say(f"left out: {too_long} longer than {config.max_length} tokens, {untold} that cannot be told")
    return rows


def _ordered(rows: list[Row], config: SftConfig) -> list[Row]:
    """Return the rows of all epochs in random order; those of a step by length, so that processes get equal work."""
    random, found = Random(config.optimisation.seed), []
    for _ in range(ceil(config.epochs)):
        random.shuffle(rows)
        steps = [rows[start : start + config.batch] for start in range(0, len(rows), config.batch)]
        found += [one for step in steps for one in sorted(step, key=lambda one: -len(one.input_ids))]
    return found


def _dataset(rows: list[Row]) -> Dataset:
    labels = [
        [token if learned else -100 for token, learned in zip(one.input_ids, one.completion_mask, strict=True)]
        for one in rows
    ]
    return Dataset.from_dict({"input_ids": [one.input_ids for one in rows], "labels": labels})


def _arguments(config: SftConfig, run: RunFolder, steps: int) -> TrlConfig:
    return TrlConfig(
        **shared_arguments(config.optimisation, run),
        max_steps=steps,
        gradient_accumulation_steps=config.batch // config.optimisation.micro_batch,
        max_length=None,
        packing=False,
        dataset_num_proc=None,
        train_sampling_strategy="group_by_length" if torch.cuda.is_available() else "sequential",
    )


def shared_arguments(optimisation: Optimisation, run: RunFolder) -> dict[str, object]:
    """Return the arguments that both trainers take."""
    on_cpu = not torch.cuda.is_available()
    return {
        "output_dir": str(run.path),
        "per_device_train_batch_size": optimisation.micro_batch,
        "learning_rate": optimisation.lr,
        "lr_scheduler_type": optimisation.schedule,
        "warmup_steps": optimisation.warmup,
        "weight_decay": optimisation.weight_decay,
        "max_grad_norm": optimisation.clip,
        "gradient_checkpointing": optimisation.checkpointing,
        "bf16": bool(optimisation.bf16),
        "use_cpu": on_cpu,
        "logging_steps": optimisation.log_every,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": optimisation.save_every,
        "save_total_limit": optimisation.keep,
        "report_to": [],
        "disable_tqdm": True,
        "seed": optimisation.seed,
        "data_seed": optimisation.seed,
        "dataloader_pin_memory": not on_cpu,
        "remove_unused_columns": False,
    }


def settle(trainer: SFTTrainer, run: RunFolder, say: Say) -> None:
    """Report through our own callback in place of the library's printer."""
    from transformers.integrations import TensorBoardCallback, is_tensorboard_available
    from transformers.trainer_callback import PrinterCallback, ProgressCallback

    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    trainer.add_callback(Reporter(run, say))
    spare_copies(trainer.model)
    if is_tensorboard_available():
        from torch.utils.tensorboard import SummaryWriter

        trainer.add_callback(TensorBoardCallback(SummaryWriter(log_dir=str(run.path / "tensorboard"))))


def fit(trainer: SFTTrainer, run: RunFolder, checkpoint: Path | None, say: Say) -> None:
    """Train to the end, from a checkpoint if there is one, and keep the result with its tokenizer."""
    try:
        _train(trainer, checkpoint, say)
    finally:
        trainer.workers.close()
    trainer.save_model(str(run.final))
    trainer.processing_class.save_pretrained(str(run.final))


def _train(trainer: SFTTrainer, checkpoint: Path | None, say: Say) -> None:
    if checkpoint is None:
        trainer.train()
    elif step_of(checkpoint) < trainer.args.max_steps:
        say(f"going on from {checkpoint}")
        trainer.train(resume_from_checkpoint=str(checkpoint))
    else:  # the library would train one step more
        trainer._load_from_checkpoint(str(checkpoint))

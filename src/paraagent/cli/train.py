"""`paraagent train ...`: supervised fine-tuning on demonstrations, and reinforcement learning in ToolEnv."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paraagent.cli import tasks as task_options
from paraagent.cli.catalog import CatalogPath
from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.errors import EnvironmentFault
from paraagent.reward.credit import Mode
from paraagent.reward.rules import RulesName

if TYPE_CHECKING:
    from collections.abc import Callable

    from paraagent.train.runs import RunFolder

app = typer.Typer(
    no_args_is_help=True, help="Train a model: first on demonstrations (sft), then by reinforcement (rl) in ToolEnv."
)


class PresetName(StrEnum):
    cpu_small = "cpu-small"
    gpu_small = "gpu-small"
    qwen3_4b = "qwen3-4b"


class LearningGuide(StrEnum):
    off = "off"
    calls = "calls"


class DialectName(StrEnum):
    compact = "compact"
    tags = "tags"


PresetOption = Annotated[
    PresetName, typer.Option("--preset", help="Settings to start from; qwen3-4b has the published ones.")
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run.")]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="DIR", help="Folder of a causal language model; smollm2 unless given."),
]
DialectOption = Annotated[
    DialectName | None, typer.Option(help="compact (for small models) or tags (the published grammar).")
]
Lr = Annotated[float | None, typer.Option("--lr", help="Learning rate.")]
Rank = Annotated[int | None, typer.Option("--lora-rank", min=0, help="Rank of the adapter; 0 trains all weights.")]
MicroBatch = Annotated[int | None, typer.Option(min=1, help="Rows per backward pass.")]
Checkpointing = Annotated[
    bool | None,
    typer.Option(
        "--checkpointing/--no-checkpointing", help="Less memory for more time, always; a CPU decides by length."
    ),
]
MaxLength = Annotated[int | None, typer.Option(min=16, help="Tokens of one demonstration or episode at most.")]
SaveEvery = Annotated[int | None, typer.Option(min=1, help="Steps between checkpoints.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of everything random.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads; all cores unless given.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, as after a crash.")]


@app.command()
@guarded
def sft(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Demonstrations, as `paraagent demos make` writes them.")
    ],
    out_dir: OutOption,
    preset: PresetOption = PresetName.cpu_small,
    model: ModelOption = None,
    adapter: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Adapter to go on from, as an earlier training leaves it.")
    ] = None,
    dialect: DialectOption = None,
    epochs: Annotated[float | None, typer.Option(help="How often to go through the data.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use the first so many demonstrations.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Demonstrations per step.")] = None,
    lr: Lr = None,
    lora_rank: Rank = None,
    micro_batch: MicroBatch = None,
    checkpointing: Checkpointing = None,
    max_length: MaxLength = None,
    save_every: SaveEvery = None,
    seed: Seed = None,
    threads: Threads = None,
    resume: Resume = False,
    as_json: JsonFlag = False,
) -> None:
    """Fine-tune a model on demonstrations: only what the assistant says is learned.

    A run that was stopped goes on with --resume and gives the same numbers. Metrics: DIR/metrics.jsonl, and
    DIR/tensorboard if TensorBoard is installed. The result is DIR/final.
    """
    out = Output(as_json)
    _prepare(threads, out)
    from paraagent.train.config import sft_preset
    from paraagent.train.runs import RunFolder
    from paraagent.train.sft import train_sft

    config = sft_preset(
        preset.value,
        str(data),
        str(out_dir),
        model=model,
        adapter=str(adapter) if adapter else None,
        dialect=dialect.value if dialect else None,
        epochs=epochs,
        limit=limit,
        batch=batch,
        lr=lr,
        lora_rank=lora_rank,
        micro_batch=micro_batch,
        checkpointing=checkpointing,
        max_length=max_length,
        save_every=save_every,
        seed=seed,
    )
    _train(out, RunFolder(out_dir), lambda say: train_sft(config, resume=resume, say=say))


@app.command()
@guarded
def rl(
    out_dir: OutOption,
    preset: PresetOption = PresetName.cpu_small,
    model: ModelOption = None,
    adapter: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Adapter to start from, as `train sft` leaves it in DIR/final.")
    ] = None,
    dialect: DialectOption = None,
    guide: Annotated[
        LearningGuide | None,
        typer.Option(help="What keeps its turns from failing while it learns: calls unless given."),
    ] = None,
    credit: Annotated[
        Mode | None, typer.Option(help="How rewards become advantages; local gives every token its own.")
    ] = None,
    rules: Annotated[RulesName | None, typer.Option(help="Reward formulas.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Batches of episodes.")] = None,
    prompts: Annotated[int | None, typer.Option(min=1, help="Tasks per batch.")] = None,
    rollouts: Annotated[int | None, typer.Option(min=2, help="Episodes per task.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KINDS", help="Task kinds, by commas, or all.")
    ] = None,
    width: task_options.Width = None,
    depth: task_options.Depth = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Training tasks to sample.")] = None,
    kl: Annotated[float | None, typer.Option(min=0.0, help="Weight of the KL term; 0 saves a forward pass.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0.01, help="Sampling temperature.")] = None,
    lr: Lr = None,
    lora_rank: Rank = None,
    micro_batch: MicroBatch = None,
    checkpointing: Checkpointing = None,
    max_length: MaxLength = None,
    save_every: SaveEvery = None,
    seed: Seed = None,
    threads: Threads = None,
    resume: Resume = False,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Improve a model by letting it work on training tasks: episodes are scored, every token gets its credit.

    Start from an adapter that solves some tasks already. A run that was stopped goes on with --resume.
    """
    out = Output(as_json)
    _prepare(threads, out)
    from paraagent.train.config import rl_preset
    from paraagent.train.rl import train_rl
    from paraagent.train.runs import RunFolder

    config = rl_preset(
        preset.value,
        str(out_dir),
        model=model,
        adapter=str(adapter) if adapter else None,
        dialect=dialect.value if dialect else None,
        guide=guide.value if guide else None,
        credit=credit,
        rules=rules,
        steps=steps,
        prompts=prompts,
        rollouts=rollouts,
        kinds=tuple(task_options.kinds_of(kind)) if kind else None,
        width=width,
        depth=depth,
        tasks=tasks,
        kl=kl,
        temperature=temperature,
        lr=lr,
        lora_rank=lora_rank,
        micro_batch=micro_batch,
        checkpointing=checkpointing,
        max_length=max_length,
        save_every=save_every,
        seed=seed,
    )
    _train(out, RunFolder(out_dir), lambda say: train_rl(config, catalog=catalog, resume=resume, say=say))


def _prepare(threads: int | None, out: Output) -> None:
    """Load the training libraries, which takes seconds, and complain in one line if they are missing."""
    with out.text.status("loading the training libraries..."):
        try:
            import torch
            import trl  # noqa: F401
        except ImportError as missing:
            raise EnvironmentFault(
                f"training needs the package {missing.name}: pip install 'paraagent[train]'"
            ) from None
    if threads is not None:
        torch.set_num_threads(threads)


def _asked(run: RunFolder) -> str:
    """Return the options that let the result of a run play."""
    from paraagent.agent.engine.smollm2 import NAME

    settings = run.settings()
    guide = settings.get("guide", "calls")
    guided = "" if guide == "calls" or settings["dialect"] == "tags" else f" --guide {guide}"
    if not (run.final / "adapter_config.json").is_file():
        return f"--model-dir {run.final}{guided}"
    named = "" if settings["model"] == NAME else f"--model-dir {settings['model']} "
    return f"{named}--adapter {run.final}{guided}"


def _train(out: Output, run: RunFolder, work: Callable[[Callable[[str], None]], Path]) -> None:
    began = time.monotonic()
    final = work(lambda text: out.text.print(text, markup=False, soft_wrap=True))
    metrics = run.read_metrics()
    out.text.print(f"done: {final}   (ask it: paraagent run {_asked(run)})", soft_wrap=True)
    out.finish(
        {
            "final": str(final),
            "steps": len(metrics),
            "seconds": time.monotonic() - began,
            "last": metrics[-1] if metrics else {},
            "metrics": str(run.metrics),
        }
    )

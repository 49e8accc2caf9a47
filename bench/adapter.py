"""Makes the adapter that comes with the package, from nothing: demonstrations, supervised learning, its record.

    python bench/adapter.py make               # hours on two cores; goes on where it stopped
    python bench/adapter.py ship RUN [RUN ...] # write the result of training runs, in order, into the package
    python bench/adapter.py ship --on RUN      # of a run that went on from the adapter that is shipped

Stages are kept under --work; each goes on from the adapter of the one before. What is shipped are the weights in
bfloat16, the adapter's config, and `record.json`: of every stage commands, the data's digest, settings and curve;
versions, and how the policy did on held-out tasks if docs/results/learning.json has it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from random import Random

import torch
from safetensors.torch import load_file, save_file

from paraagent.agent.engine.load import SHIPPED
from paraagent.agent.engine.smollm2 import cache_folder
from paraagent.train.runs import RunFolder
from paraagent.types import JsonObject


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the demonstrations that one command makes."""

    options: str
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of supervised learning on demonstrations, which are mixed if they have several parts."""

    parts: tuple[Part, ...]
    sft: str


_PLAIN = "--linked always --vague 0.05 --top-k 3 --width 2 --depth 2"
_SECOND = f"--limit 4400 --seed 43 --mistakes 0.35 {_PLAIN} --kind single,parallel,chain,mixed,recover,unanswerable"
STAGES = (
    Stage((Part(f"--limit 6000 --mistakes 0.04 {_PLAIN}"),), "--limit 3360 --max-length 1280"),
    Stage((Part(_SECOND),), "--limit 3900 --epochs 0.75 --max-length 1408 --lr 6e-4 --seed 2"),
    Stage((Part("--limit 2400 --seed 44 --kind direct", 0, 1600), Part(_SECOND, 3900)), "--lr 4e-4 --seed 3"),
)
FIGURES = Path("docs/results/learning.json")
_EVERY = 10
"""Steps between two points of the recorded curve."""


def make(options: argparse.Namespace) -> None:
    """Run the stages that are not done yet, then ship."""
    options.runs, options.on = [], False
    for number, stage in enumerate(STAGES, 1):
        data, run = options.work / f"demos-{number}.jsonl", RunFolder(options.work / f"sft-{number}")
        if not data.exists():
            gather(stage.parts, data)
        if not (run.final / "paraagent.json").exists():
            before = ["--adapter", str(RunFolder(options.runs[-1]).final)] if options.runs else []
            resume = ["--resume"] if run.path.exists() else []
            paraagent(["train", "sft", str(data), "--out", str(run.path), *stage.sft.split(), *before, *resume])
        options.runs.append(run.path)
    ship(options)


def gather(parts: Sequence[Part], out: Path) -> None:
    """Make demonstrations, and write those of all parts with a card that tells the commands."""
    out.parent.mkdir(parents=True, exist_ok=True)
    rows, card = [], []
    for part in parts:
        made = out.parent / f"made-{hashlib.sha256(part.options.encode()).hexdigest()[:8]}.jsonl"
        if not made.exists():
            unfinished = made.with_suffix(".part.jsonl")
            paraagent(["demos", "make", "--out", str(unfinished), "--overwrite", *part.options.split()])
            unfinished.rename(made)
        rows += made.read_text().splitlines()[part.start : part.stop]
        card.append(
            f"- made by: `paraagent demos make {part.options}`, rows {part.start} to {part.stop or 'the last'}"
        )
    if len(parts) > 1:
        Random(5).shuffle(rows)
    out.with_suffix(".md").write_text("\n".join(card) + "\n")
    out.write_text("\n".join(rows) + "\n")


def paraagent(arguments: Sequence[str]) -> None:
    subprocess.run([sys.executable, "-m", "paraagent.cli.main", *arguments], check=True)


def ship(options: argparse.Namespace) -> None:
    """Write the last run's adapter, and the record of all, into the package."""
    runs = [RunFolder(run) for run in options.runs]
    SHIPPED.mkdir(parents=True, exist_ok=True)
    weights = load_file(runs[-1].final / "adapter_model.safetensors")
    save_file(
        {name: value.to(torch.bfloat16) for name, value in weights.items()}, SHIPPED / "adapter_model.safetensors"
    )
    config = json.loads((runs[-1].final / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "SmolLM2-135M-Instruct"
    write("adapter_config.json", config)
    settings = settings_of(runs[-1])
    write("paraagent.json", {"model": settings["model"], "dialect": settings["dialect"]})
    kept = json.loads((SHIPPED / "record.json").read_text())["stages"] if options.on else []
    figures = json.loads(FIGURES.read_text())["policies"] if FIGURES.exists() else {}
    record: JsonObject = {
        "command": "python bench/adapter.py make",
        "stages": kept + [stage(run) for run in runs],
        "versions": {name: version(name) for name in ("paraagent", "torch", "transformers", "trl", "peft")},
        "evaluation": figures.get(options.policy),
    }
    write("record.json", record)
    size = sum(path.stat().st_size for path in SHIPPED.iterdir())
    print(f"{SHIPPED}: {size / 1e6:.1f} MB")


def stage(run: RunFolder) -> JsonObject:
    """Return how a run came about."""
    settings, metrics = settings_of(run), run.read_metrics()
    kept = ("step", "loss", "mean_token_accuracy", "reward", "success")
    data = Path(str(settings["data"]))
    start = settings["adapter"]
    return {
        "demonstrations": {"made_by": made_by(data), "sha256": hashlib.sha256(data.read_bytes()).hexdigest()},
        "settings": settings | {"data": data.name, "out": run.path.name, "adapter": start and "of the stage before"},
        "steps": len(metrics),
        "planned_steps": json.loads((run.checkpoints()[-1] / "trainer_state.json").read_text())["max_steps"],
        "curve": [{name: m[name] for name in kept if name in m} for m in metrics[_EVERY - 1 :: _EVERY]],
    }


def settings_of(run: RunFolder) -> JsonObject:
    settings: JsonObject = json.loads((run.path / "config.json").read_text())
    return settings


def made_by(data: Path) -> list[str]:
    """Return the options that the demonstrations were made with, as their card tells."""
    lines = re.findall(
        r"^- made by: `paraagent demos make (.*)`(.*)$", data.with_suffix(".md").read_text(), re.MULTILINE
    )
    return [re.sub(r"--out \S+ ?|--overwrite ?", "", options).strip() + rows for options, rows in lines]


def write(name: str, content: JsonObject) -> None:
    (SHIPPED / name).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the adapter that comes with the package.")
    parser.add_argument("--policy", default="sft", help="its name in learning.json (default sft)")
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("make", help="all stages")
    one.add_argument("--work", type=Path, default=cache_folder() / "train")
    one.set_defaults(do=make)
    two = parts.add_parser("ship", help="put the result of a run into the package")
    two.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    two.add_argument("--on", action="store_true", help="the first run went on from the adapter that is shipped")
    two.set_defaults(do=ship)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()

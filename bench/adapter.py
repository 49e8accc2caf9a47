"""Makes the adapter that comes with the package, from nothing: demonstrations, supervised learning, its record.

    python bench/adapter.py make        # hours on two cores; goes on where it stopped
    python bench/adapter.py ship RUN    # write the result of a training run into the package

Stages are kept under --work. What is shipped are the weights in bfloat16, the adapter's config, and `record.json`:
commands, versions, the data's digest, the run's settings and curve, and how the policy did on held-out tasks if
docs/results/learning.json has it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from paraagent.agent.engine.load import SHIPPED
from paraagent.agent.engine.smollm2 import cache_folder
from paraagent.train.runs import RunFolder
from paraagent.types import JsonObject

DEMOS = "--limit 6000 --linked always --vague 0.05 --mistakes 0.04 --top-k 3 --width 2 --depth 2"
SFT = "--limit 3360 --max-length 1280"
FIGURES = Path("docs/results/learning.json")
_EVERY = 10
"""Steps between two points of the recorded curve."""


def make(options: argparse.Namespace) -> None:
    """Run the stages that are not done yet, then ship."""
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    data, run = work / "demos.jsonl", RunFolder(work / "sft")
    if not data.exists():
        part = work / "demos.part.jsonl"
        paraagent(["demos", "make", "--out", str(part), "--overwrite", *DEMOS.split()])
        part.with_suffix(".md").rename(data.with_suffix(".md"))
        part.rename(data)
    if not (run.final / "paraagent.json").exists():
        resume = ["--resume"] if run.path.exists() else []
        paraagent(["train", "sft", str(data), "--out", str(run.path), *SFT.split(), *resume])
    options.run = run.path
    ship(options)


def paraagent(arguments: Sequence[str]) -> None:
    subprocess.run([sys.executable, "-m", "paraagent.cli.main", *arguments], check=True)


def ship(options: argparse.Namespace) -> None:
    """Write a run's adapter and its record into the package."""
    run = RunFolder(options.run)
    SHIPPED.mkdir(parents=True, exist_ok=True)
    weights = load_file(run.final / "adapter_model.safetensors")
    save_file(
        {name: value.to(torch.bfloat16) for name, value in weights.items()}, SHIPPED / "adapter_model.safetensors"
    )
    config = json.loads((run.final / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "SmolLM2-135M-Instruct"
    write("adapter_config.json", config)
    settings = json.loads((run.path / "config.json").read_text())
    write("paraagent.json", {"model": settings["model"], "dialect": settings["dialect"]})
    write("record.json", record(run, settings, options.policy))
    size = sum(path.stat().st_size for path in SHIPPED.iterdir())
    print(f"{SHIPPED}: {size / 1e6:.1f} MB")


def record(run: RunFolder, settings: JsonObject, policy: str) -> JsonObject:
    """Return how the adapter came about."""
    metrics = run.read_metrics()
    kept = ("step", "loss", "mean_token_accuracy", "reward", "success")
    data = Path(str(settings["data"]))
    figures = json.loads(FIGURES.read_text())["policies"] if FIGURES.exists() else {}
    return {
        "command": "python bench/adapter.py make",
        "demonstrations": {"options": made_by(data), "sha256": hashlib.sha256(data.read_bytes()).hexdigest()},
        "settings": settings | {"data": data.name, "out": run.path.name},
        "steps": len(metrics),
        "planned_steps": json.loads((run.checkpoints()[-1] / "trainer_state.json").read_text())["max_steps"],
        "curve": [{name: m[name] for name in kept if name in m} for m in metrics[_EVERY - 1 :: _EVERY]],
        "versions": {name: version(name) for name in ("paraagent", "torch", "transformers", "trl", "peft")},
        "evaluation": figures.get(policy),
    }


def made_by(data: Path) -> str:
    """Return the options that the demonstrations were made with, as their card tells."""
    line = re.search(r"^- made by: `paraagent demos make (.*)`$", data.with_suffix(".md").read_text(), re.MULTILINE)
    assert line is not None
    return re.sub(r"--out \S+ ?|--overwrite ?", "", line[1]).strip()


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
    two.add_argument("run", type=Path)
    two.set_defaults(do=ship)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()

"""What training achieves: success of base, SFT, SFT+RL and the built-in rules on held-out tasks; RL curves by credit.

Every part is kept under --work and goes on where it was, so a long run may be stopped at any time. Nothing is chosen
by looking at the test splits: `validation` is for that.

    python bench/learning.py eval --name sft --adapter RUN/final --split test-unseen --limit 70
    python bench/learning.py rl --adapter RUN/final --modes local,trajectory --seeds 0,1 --steps 20
    python bench/learning.py compare --adapter RUN/final --split test-unseen --limit 60
    python bench/learning.py report --out docs/results/learning

`eval` plays tasks greedily: --name rules needs no model, --name base takes the model as it is. `rl` trains one run
per mode and seed from an adapter, or from a whole model, and `compare` plays what they started from and what they
became. `report` writes learning.md, learning.json and SVG plots of everything there is; what stands under "Notes" in
learning.md stays, and so do figures whose traces or runs are not under --work.

Keys of learning.json:
    policies.<policy>.<split>  success with its 95 % Wilson interval (low, high), episodes; by_kind, the same of each;
                               means of turns and of width (actions per acting turn); solved, a 0 or 1 for each task
                               in the order of their names, and a digest of these names (tasks)
    gain.<policy>.<split>      paired difference to the policy before it (`learning_report.BEFORE`), interval and p
    curves.<mode>              mean over seeds of the training batches' success and reward per five steps, intervals
    runs.<mode>.<seed>         success and reward of every step
    compared.<run>.<split>     as policies, of what the runs by credit mode started from and what they became
    contrasts.<split>.<a - b>  differences of these, paired by seed and task
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import get_args

import learning_credit
import learning_report
from paraagent.agent.budget import Budget
from paraagent.agent.engine.smollm2 import NAME, cache_folder
from paraagent.agent.policies.local import LocalPolicy
from paraagent.agent.policies.model import Guidance, LocalConfig, LocalModel
from paraagent.agent.policies.rules import RulesPolicy
from paraagent.agent.settings import Settings
from paraagent.cli.world import open_world, take_tasks
from paraagent.env.shapes import Dials
from paraagent.evaluate import suite
from paraagent.evaluate.arena import Arena, same_policy
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy, Split, TaskKind

TURNS = 8
_KINDS = "single,parallel,chain"


def play(options: argparse.Namespace) -> None:
    """Let one policy play one split and keep the traces."""
    if options.name in learning_report.BEFORE and options.adapter is None:
        raise SystemExit(f"--name {options.name} needs --adapter")
    adapter = "none" if options.name == "base" else options.adapter
    _play(options, options.name, options.model, adapter, options.work / "eval" / options.name / options.split)


def compare(options: argparse.Namespace) -> None:
    """Let the start of the runs by credit mode play a split, and what every run has made of it."""
    trained = learning_credit.finals(options.work / "rl", options.model, options.adapter)
    for name, path in {"start": options.model, **trained}.items():
        folder = options.work / "compare" / name / options.split
        if options.adapter:
            _play(options, name, options.model, options.adapter if name == "start" else str(path), folder)
        else:
            _play(options, name, str(path), "none", folder)


def _play(options: argparse.Namespace, name: str, model: str, adapter: str | None, folder: Path) -> None:
    """Let a policy play tasks of a split and keep the traces; what is there is not played again."""
    world = open_world(options.catalog)
    kinds: list[TaskKind] = list(get_args(TaskKind)) if options.kind == "all" else options.kind.split(",")
    tasks, _ = take_tasks(world, options.split, kinds, options.seed, options.limit, Dials())
    config = LocalConfig(model=model, adapter=adapter, guide=options.guide, slots=options.slots, max_tokens=256)
    policy: Policy = RulesPolicy() if name == "rules" else _local(config, options.threads)
    arena = Arena(world.catalog, world.index, Settings(budget=Budget(turns=TURNS), durable=False))
    record: JsonObject = {"name": name, "split": options.split, "local": config.to_json()}
    directory = suite.RunDirectory(folder)
    directory.prepare(record)
    done = 0

    def told(name: str, view: EpisodeView) -> None:
        nonlocal done
        done += 1
        print(f"{done}/{len(tasks)} {'solved' if view.success else 'failed'} {name}", flush=True)

    episodes = [
        arena.episode(task, same_policy(policy), run=f"{name}-{options.split}", config=record) for task in tasks
    ]
    began = time.process_time()
    summary = asyncio.run(suite.run(episodes, directory, concurrency=options.slots, on_done=told))
    by_kind = {kind: f"{group.success:.2f}" for kind, group in summary.by_kind.items()}
    seconds = time.process_time() - began
    print(f"{name} {options.split}: {summary.overall.success:.3f} of {len(tasks)} {by_kind} {seconds:.0f} s")


def _local(config: LocalConfig, threads: int) -> Policy:
    import torch

    torch.set_num_threads(threads)
    return LocalPolicy(LocalModel.open(config))


def train(options: argparse.Namespace) -> None:
    """Train one run per mode and seed, each from the same start on the same tasks."""
    import torch

    if options.adapter is None and options.model == NAME:
        raise SystemExit("say what to start from: --adapter, or --model with the folder of a model of your own")
    torch.set_num_threads(options.threads)
    from paraagent.train.config import rl_preset
    from paraagent.train.rl import train_rl
    from paraagent.train.runs import RunFolder

    for seed in options.seeds.split(","):
        for mode in options.modes.split(","):
            out = options.work / "rl" / f"{mode}-{seed}"
            config = rl_preset(
                "cpu-small",
                str(out),
                model=options.model,
                adapter=options.adapter,
                credit=mode,
                seed=int(seed),
                steps=options.steps,
                prompts=options.prompts,
                rollouts=options.rollouts,
                kinds=tuple(options.kind.split(",")),
                tasks=options.tasks,
                guide=options.guide,
                lr=options.lr,
                lora_rank=None if options.adapter else 0,
                kl=0.0,
                save_every=5,
            )
            run = RunFolder(out)
            if run.final.exists():
                learning_credit.expect(run, run.settle(config).to_json())
                continue
            print(f"{mode}, seed {seed}", flush=True)
            say = lambda text: print(text, flush=True)  # noqa: E731
            train_rl(config, catalog=options.catalog, resume=out.exists(), say=say)


def report(options: argparse.Namespace) -> None:
    learning_report.write(options.work, options.out, TURNS)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what training achieves.")
    parser.add_argument("--work", type=Path, default=cache_folder() / "learning", help="where parts are kept")
    parser.add_argument("--catalog", type=Path, help="catalog to play in")
    parser.add_argument("--model", default="smollm2", help="folder of a model (default smollm2)")
    parser.add_argument("--threads", type=int, default=1, help="processor threads (default 1)")
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("eval", help="play a split with one policy")
    one.add_argument("--name", choices=learning_report.ORDER, required=True)
    one.add_argument("--adapter", help="adapter of a trained policy")
    one.add_argument("--kind", default="all")
    one.set_defaults(work_on=play)
    two = parts.add_parser("rl", help="train by credit mode and seed")
    two.add_argument("--adapter", help="adapter to start from; without one all weights are trained")
    two.add_argument("--modes", default=",".join(learning_credit.MODES))
    two.add_argument("--seeds", default="0,1,2")
    two.add_argument("--steps", type=int, default=20)
    two.add_argument("--prompts", type=int, default=4)
    two.add_argument("--rollouts", type=int, default=6)
    two.add_argument("--tasks", type=int, default=300)
    two.add_argument("--kind", default=_KINDS)
    two.add_argument("--lr", type=float, default=1e-4)
    two.add_argument("--guide", choices=("off", "calls"), default="calls", help="what turns are kept to")
    two.set_defaults(work_on=train)
    four = parts.add_parser("compare", help="play a split with what the runs by credit mode have made of their start")
    four.add_argument("--adapter", help="adapter that the runs started from")
    four.add_argument("--kind", default=_KINDS)
    four.set_defaults(work_on=compare)
    for part in (one, four):
        part.add_argument("--split", choices=get_args(Split), default="validation")
        part.add_argument("--limit", type=int, default=70)
        part.add_argument("--seed", type=int, default=0)
        part.add_argument("--guide", choices=get_args(Guidance), default="checked", help="what calls are kept to")
        part.add_argument("--slots", type=int, default=16, help="episodes at once")
    three = parts.add_parser("report", help="write the figures")
    three.add_argument("--out", type=Path, default=Path("docs/results/learning"))
    three.set_defaults(work_on=report)
    options = parser.parse_args()
    options.work_on(options)


if __name__ == "__main__":
    main()

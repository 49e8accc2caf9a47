"""What training achieves: success of base, SFT, SFT+RL and the built-in rules on held-out tasks; RL curves by credit.

Every part is kept under --work and goes on where it was, so a long run may be stopped at any time. Nothing is chosen
by looking at the test splits: `validation` is for that.

    python bench/learning.py eval --name sft --adapter RUN/final --split test-unseen --limit 70
    python bench/learning.py rl --adapter RUN/final --modes local,trajectory --seeds 0,1 --steps 20
    python bench/learning.py report --out docs/results/learning

`eval` plays tasks greedily: --name rules needs no model, --name base takes the model as it is. `rl` trains one run
per mode and seed. `report` writes learning.md, learning.json and SVG plots of everything there is; what stands under
"Notes" in learning.md stays.

Keys of learning.json:
    policies.<policy>.<split>  success with its 95 % Wilson interval (low, high), episodes; by_kind, the same of each;
                               means of turns and of width (actions per acting turn)
    gain.<policy>.<split>      paired difference to the policy before it (base < sft < sft_rl), interval and p
    curves.<mode>              mean over seeds of the training batches' success and reward per five steps, intervals
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import get_args

from paraagent.agent.budget import Budget
from paraagent.agent.engine.smollm2 import cache_folder
from paraagent.agent.policies.local import LocalPolicy
from paraagent.agent.policies.model import Guidance, LocalConfig, LocalModel
from paraagent.agent.policies.rules import RulesPolicy
from paraagent.agent.settings import Settings
from paraagent.cli.world import open_world, take_tasks
from paraagent.env.shapes import Dials
from paraagent.evaluate import suite
from paraagent.evaluate.arena import Arena, same_policy
from paraagent.evaluate.intervals import Interval, mean, paired, rate
from paraagent.evaluate.report_plots import Series, curves, intervals
from paraagent.evaluate.summary import kind_of
from paraagent.trace.reader import load
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy, Split, TaskKind

ORDER = ("rules", "base", "sft", "sft_rl")
MODES = ("local", "trajectory", "outcome", "summed")
TURNS = 8


def play(options: argparse.Namespace) -> None:
    """Let one policy play one split and keep the traces."""
    world = open_world(options.catalog)
    kinds: list[TaskKind] = list(get_args(TaskKind)) if options.kind == "all" else options.kind.split(",")
    tasks, _ = take_tasks(world, options.split, kinds, options.seed, options.limit, Dials())
    if options.name.startswith("sft") and options.adapter is None:
        raise SystemExit(f"--name {options.name} needs --adapter")
    adapter = "none" if options.name == "base" else options.adapter
    config = LocalConfig(
        model=options.model, adapter=adapter, guide=options.guide, slots=options.slots, max_tokens=256
    )
    policy: Policy = RulesPolicy() if options.name == "rules" else _local(config, options.threads)
    arena = Arena(world.catalog, world.index, Settings(budget=Budget(turns=TURNS), durable=False))
    record: JsonObject = {"name": options.name, "split": options.split, "local": config.to_json()}
    directory = suite.RunDirectory(options.work / "eval" / options.name / options.split)
    directory.prepare(record)
    done = 0

    def told(name: str, view: EpisodeView) -> None:
        nonlocal done
        done += 1
        print(f"{done}/{len(tasks)} {'solved' if view.success else 'failed'} {name}", flush=True)

    episodes = [
        arena.episode(task, same_policy(policy), run=f"{options.name}-{options.split}", config=record)
        for task in tasks
    ]
    began = time.process_time()
    summary = asyncio.run(suite.run(episodes, directory, concurrency=options.slots, on_done=told))
    by_kind = {kind: f"{group.success:.2f}" for kind, group in summary.by_kind.items()}
    seconds = time.process_time() - began
    print(f"{options.name} {options.split}: {summary.overall.success:.3f} of {len(tasks)} {by_kind} {seconds:.0f} s")


def _local(config: LocalConfig, threads: int) -> Policy:
    import torch

    torch.set_num_threads(threads)
    return LocalPolicy(LocalModel.open(config))


def train(options: argparse.Namespace) -> None:
    """Train one run per mode and seed, each from the same start on the same tasks."""
    import torch

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
                lr=options.lr,
                kl=0.0,
                save_every=5,
            )
            if RunFolder(out).final.exists():
                continue
            print(f"{mode}, seed {seed}", flush=True)
            say = lambda text: print(text, flush=True)  # noqa: E731
            train_rl(config, catalog=options.catalog, resume=out.exists(), say=say)


def report(options: argparse.Namespace) -> None:
    """Write what there is: figures, tables and plots."""
    played = _played(options.work / "eval")
    grown = _curves(options.work / "rl")
    figures: dict[str, object] = {
        "policies": {
            name: {split.replace("-", "_"): _figures(views) for split, views in splits.items()}
            for name, splits in played.items()
        },
        "gain": _gains(played),
        "curves": {
            mode: [{"step": x, "success": _json(success), "reward": _json(reward)} for x, success, reward in points]
            for mode, points in grown.items()
        },
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps(figures, indent=2) + "\n")
    _plots(options.out, played, grown)
    page = options.out.with_suffix(".md")
    page.write_text(_markdown(options, played, grown, figures) + _notes(page))
    print(f"wrote {options.out}.md, .json and plots")


Played = Mapping[str, Mapping[str, Mapping[str, EpisodeView]]]
"""Episodes by policy, split and task."""
Curve = list[tuple[int, Interval, Interval]]
"""Step, success and reward."""


def _played(folder: Path) -> Played:
    found: dict[str, dict[str, dict[str, EpisodeView]]] = {}
    for name in [n for n in ORDER if (folder / n).exists()]:
        for split in sorted((folder / name).iterdir()):
            views = [load(path) for path in sorted(split.glob("traces/*.jsonl"))]
            ended = {v.start.episode: v for v in views if v.end is not None and not v.end.mask_sample}
            if ended:
                found.setdefault(name, {})[split.name] = ended
    return found


def _curves(folder: Path) -> dict[str, Curve]:
    """Return per mode the mean over seeds of every five steps."""
    found: dict[str, Curve] = {}
    for mode in MODES:
        runs = [
            [json.loads(line) for line in path.read_text().splitlines()]
            for path in sorted(folder.glob(f"{mode}-*/metrics.jsonl"))
        ]
        points: Curve = []
        for start in range(0, min((len(run) for run in runs), default=0), 5):
            parts = [run[start : start + 5] for run in runs]
            success = mean([_mean(part, "success") for part in parts])
            reward = mean([_mean(part, "reward") for part in parts])
            assert success is not None
            assert reward is not None
            points.append((start + len(parts[0]), success, reward))
        if points:
            found[mode] = points
    return found


def _mean(records: Sequence[Mapping[str, float]], name: str) -> float:
    values = [record[name] for record in records if record.get(name) is not None]
    return sum(values) / len(values) if values else 0.0


def _rate(views: Mapping[str, EpisodeView]) -> Interval | None:
    return rate(sum(bool(view.success) for view in views.values()), len(views))


def _figures(views: Mapping[str, EpisodeView]) -> JsonObject:
    """Return what one policy achieved on one split."""
    kinds: dict[str, dict[str, EpisodeView]] = {}
    for name, view in views.items():
        kinds.setdefault(kind_of(view), {})[name] = view
    acting = [view.measures.mean_width for view in views.values() if view.measures.mean_width]
    return {
        **_success(views),
        "by_kind": {kind: _success(found) for kind, found in sorted(kinds.items())},
        "turns": fmean(view.measures.turns for view in views.values()),
        "width": fmean(acting) if acting else 0.0,
    }


def _success(views: Mapping[str, EpisodeView]) -> JsonObject:
    found = _rate(views)
    assert found is not None
    return {"success": found.value, "low": found.low, "high": found.high, "episodes": found.n}


def _json(interval: Interval | None) -> JsonObject | None:
    return interval.to_json() if interval else None


def _gains(played: Played) -> dict[str, dict[str, JsonObject]]:
    """Compare each trained policy with the one before it, task by task."""
    found: dict[str, dict[str, JsonObject]] = {}
    trained = [name for name in ("base", "sft", "sft_rl") if name in played]
    for before, after in pairwise(trained):
        for split in played[after]:
            first, second = played[before].get(split, {}), played[after][split]
            both = sorted(first.keys() & second.keys())
            pair = paired(
                [float(bool(first[t].success)) for t in both], [float(bool(second[t].success)) for t in both]
            )
            if pair is not None:
                found.setdefault(after, {})[split.replace("-", "_")] = pair.to_json()
    return found


def _plots(out: Path, played: Played, grown: Mapping[str, Curve]) -> None:
    splits = sorted({split for parts in played.values() for split in parts})
    rows = [(name, [_rate(parts.get(split, {})) for split in splits]) for name, parts in played.items()]
    if rows:
        _write(out.with_name(f"{out.name}-success.svg"), intervals(rows, splits))
    for place, what in ((1, "success"), (2, "reward")):
        series = [
            Series(mode, tuple((float(point[0]), point[place]) for point in points))  # type: ignore[misc]
            for mode, points in grown.items()
        ]
        if series:
            _write(
                out.with_name(f"{out.name}-{what}-curves.svg"), curves(series, "steps", f"{what} of training batches")
            )


def _write(path: Path, svg: str) -> None:
    """Keep an inline drawing as a file of its own."""
    if "xmlns=" not in svg:
        svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    path.write_text(svg + "\n")


def _markdown(
    options: argparse.Namespace, played: Played, grown: Mapping[str, Curve], figures: Mapping[str, object]
) -> str:
    name = options.out.name
    lines = ["# What training achieves", "", f"Made by `bench/learning.py report`; numbers in {name}.json.", ""]
    lines += ["## Success on held-out tasks", ""]
    lines += [f"Greedy, {TURNS} turns at most; 95 % Wilson intervals; width is actions per acting turn.", ""]
    lines += [
        "| policy | split | tasks | success | interval | turns | width | by kind |",
        "|---|---|--:|--:|---|--:|--:|---|",
    ]
    for policy, splits in played.items():
        for split, views in splits.items():
            found, shown = _rate(views), _figures(views)
            if found is not None:
                bounds = f"{found.low:.2f} to {found.high:.2f}"
                means = f"{shown['turns']:.1f} | {shown['width']:.2f}"
                row = (
                    f"| {policy} | {split} | {found.n} | {found.value:.3f} | {bounds} | {means} | {_by_kind(views)} |"
                )
                lines.append(row)
    lines += ["", f"![success]({name}-success.svg)", ""] if played else [""]
    gains = figures["gain"]
    if isinstance(gains, dict) and gains:
        lines += ["| step | split | gain | interval | p |", "|---|---|---|---|---|"]
        for policy, splits in gains.items():
            for split, pair in splits.items():
                d = pair["difference"]
                bounds = f"{d['low']:+.3f} to {d['high']:+.3f}"
                lines.append(f"| to {policy} | {split} | {d['value']:+.3f} | {bounds} | {pair['p']:.3f} |")
        lines.append("")
    if grown:
        lines += ["## Reinforcement learning by credit mode", "", "Mean over seeds of five steps each.", ""]
        lines += ["| mode | reward first | reward last | success first | success last |", "|---|---|---|---|---|"]
        for mode, points in grown.items():
            ends = [points[0][2], points[-1][2], points[0][1], points[-1][1]]
            lines.append(f"| {mode} | {' | '.join(f'{end.value:.3f}' for end in ends)} |")
        lines += ["", f"![reward]({name}-reward-curves.svg)", "", f"![success]({name}-success-curves.svg)", ""]
    return "\n".join(lines)


def _notes(page: Path) -> str:
    """Return what was written by hand under the last page's last heading."""
    _, found, notes = (page.read_text() if page.exists() else "").partition("\n## Notes\n")
    return found + notes


def _by_kind(views: Mapping[str, EpisodeView]) -> str:
    kinds: dict[str, list[bool]] = {}
    for view in views.values():
        kinds.setdefault(kind_of(view), []).append(bool(view.success))
    return ", ".join(f"{kind} {sum(won)}/{len(won)}" for kind, won in sorted(kinds.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what training achieves.")
    parser.add_argument("--work", type=Path, default=cache_folder() / "learning", help="where parts are kept")
    parser.add_argument("--catalog", type=Path, help="catalog to play in")
    parser.add_argument("--model", default="smollm2", help="folder of a model (default smollm2)")
    parser.add_argument("--threads", type=int, default=1, help="processor threads (default 1)")
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("eval", help="play a split with one policy")
    one.add_argument("--name", choices=ORDER, required=True)
    one.add_argument("--adapter", help="adapter of sft or sft_rl")
    one.add_argument("--split", choices=get_args(Split), default="validation")
    one.add_argument("--kind", default="all")
    one.add_argument("--limit", type=int, default=70)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--guide", choices=get_args(Guidance), default="calls", help="what its calls are kept to")
    one.add_argument("--slots", type=int, default=16, help="episodes at once")
    one.set_defaults(work_on=play)
    two = parts.add_parser("rl", help="train by credit mode and seed")
    two.add_argument("--adapter", required=True, help="adapter to start from")
    two.add_argument("--modes", default=",".join(MODES))
    two.add_argument("--seeds", default="0,1,2")
    two.add_argument("--steps", type=int, default=20)
    two.add_argument("--prompts", type=int, default=4)
    two.add_argument("--rollouts", type=int, default=6)
    two.add_argument("--tasks", type=int, default=300)
    two.add_argument("--kind", default="single,parallel,chain")
    two.add_argument("--lr", type=float, default=1e-4)
    two.set_defaults(work_on=train)
    three = parts.add_parser("report", help="write the figures")
    three.add_argument("--out", type=Path, default=Path("docs/results/learning"))
    three.set_defaults(work_on=report)
    options = parser.parse_args()
    options.work_on(options)


if __name__ == "__main__":
    main()

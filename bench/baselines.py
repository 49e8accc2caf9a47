"""ParaAct beside its ablations and the baselines: same tasks, same policy, same budget, same search, virtual clock.

    python bench/baselines.py [--policy rules|oracle|local] [--model-dir DIR] [--adapter DIR] [--tasks 100]
                              [--json | --markdown] [--catalog PATH]

Every paradigm plays the same tasks of ToolEnv's unseen providers. A turn is charged as `evaluate.baselines.priced`
says, the same for all; the one retrieval that ETE gets costs nothing. Printed for every set of tasks and paradigm:

    success      share of tasks the verifier accepts
    turns        turns in which the policy was asked
    seconds      virtual wall-clock: turns at their price, and tools
    per_solved   seconds of all tasks over solved tasks
    read, wrote  tokens
    won, lost    tasks that ParaAct solved and this did not, and the other way round
    pair_*       turns and seconds on the tasks that both solved, and ParaAct's on the same tasks
    overtakes    price of a turn, in seconds beside its own text, from which ParaAct is the faster on those tasks

With `--json` the keys of one row stand under "<set> <paradigm>".
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.agent.policies.rules import RulesPolicy
from paraagent.agent.settings import Settings
from paraagent.cli.config import RunConfig, is_general, local_config
from paraagent.cli.world import World, open_world, take_tasks
from paraagent.env.shapes import Dials
from paraagent.env.task import Task
from paraagent.evaluate.baselines.paradigm import PARADIGMS, Paradigm, adapt
from paraagent.evaluate.baselines.priced import Price, PricedPolicy
from paraagent.evaluate.benchmarks.base import Item
from paraagent.evaluate.benchmarks.toolenv import ToolEnvBenchmark
from paraagent.trace.events import TurnText
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Policy, TaskKind

PolicyFor = Callable[[Item], Policy]
Figures = dict[str, float]
SLOTS = 32
"""Episodes played at once."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A set of tasks."""

    name: str
    kind: TaskKind
    dials: Dials


CELLS = (
    Cell("single", "single", Dials()),
    Cell("chain", "chain", Dials(depth=3)),
    Cell("parallel, width 2", "parallel", Dials(width=2)),
    Cell("parallel, width 2-5", "parallel", Dials(width=5)),
    Cell("mixed, width 2", "mixed", Dials(width=2)),
    Cell("mixed, width 2-5", "mixed", Dials(width=5)),
    Cell("recover, width 1-3", "recover", Dials(width=3)),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One episode."""

    success: bool
    turns: int
    wrote: int
    read: int
    tools: float
    """Virtual seconds beside the policy's."""

    def seconds(self, price: Price) -> float:
        return self.turns * price.seconds(0) + self.wrote / price.speed + self.tools

    def base(self, price: Price) -> float:
        """Return the seconds that do not depend on how many turns there were."""
        return self.wrote / price.speed + self.tools


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=("rules", "oracle", "local"), default="rules")
    parser.add_argument("--model-dir", help="folder of the model of --policy local; the embedded one unless given")
    parser.add_argument("--adapter", help="folder of its adapter; the one that comes with it unless given, or none")
    parser.add_argument("--tasks", type=int, default=100, help="tasks of each set")
    parser.add_argument("--only", default="", help="the set of this name, else those whose names begin so")
    parser.add_argument("--ways", default="", help="paradigms by commas, paraact among them; all unless given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--catalog", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    world = open_world(options.catalog)
    config = RunConfig(policy=options.policy, model_dir=options.model_dir, adapter=options.adapter)
    if is_general(config):
        parser.error(
            "a general model is compared by `paraagent eval --paradigm`; here a policy that speaks ParaAct is"
        )
    policy_for = chooser(config)
    cells = [cell for cell in CELLS if cell.name == options.only] or [
        cell for cell in CELLS if cell.name.startswith(options.only)
    ]
    found: dict[str, dict[str, list[Row]]] = {}
    for cell in cells:
        tasks, _ = take_tasks(world, "test-unseen", [cell.kind], options.seed, options.tasks, cell.dials)
        ways = [way for way in PARADIGMS if not options.ways or way.name in options.ways.split(",")]
        found[cell.name] = {way.name: asyncio.run(play(world, tasks, way, policy_for)) for way in ways}
        if not options.json:
            print(table(cell.name, found[cell.name], markdown=options.markdown), flush=True)
    if options.json:
        rows = {f"{cell} {way}": figures(cell_rows, way) for cell, cell_rows in found.items() for way in cell_rows}
        print(json.dumps(rows, indent=2))
    else:
        print(sensitivity(found, markdown=options.markdown))


def chooser(config: RunConfig) -> PolicyFor:
    """Return which policy plays an item."""
    if config.policy == "oracle":
        return lambda item: OraclePolicy([item.task])
    if config.policy == "local":
        from paraagent.agent.policies.local import LocalPolicy
        from paraagent.agent.policies.model import LocalModel

        model = LocalModel.open(local_config(config, SLOTS))
        model.timed = False  # its turns are priced like any other
        local = LocalPolicy(model)
        return lambda item: local
    rules = RulesPolicy()
    return lambda item: rules


async def play(world: World, tasks: Sequence[Task], way: Paradigm, policy_for: PolicyFor) -> list[Row]:
    """Play all tasks under a paradigm, many at once, so that a local model can batch them."""
    bench = ToolEnvBenchmark(world.catalog, world.index, tasks, k=way.hits(5))
    settings = way.settings(Settings(durable=False))
    free = int(way.exploring == "retrieved")
    slots = asyncio.Semaphore(SLOTS)

    async def one(item: Item) -> Row:
        policy = PricedPolicy(adapt(policy_for(item), way, model=False), free_turns=free)
        async with slots:
            with Recorder() as recorder:
                await bench.play(item, policy, recorder, settings)
                return row(EpisodeView(recorder.events), free)

    return await asyncio.gather(*map(one, bench.items))


def row(view: EpisodeView, free: int) -> Row:
    measures = view.measures
    asked = sum(isinstance(event, TurnText) for event in view.events) - free
    return Row(
        bool(view.success),
        asked,
        measures.output_tokens,
        measures.input_tokens,
        measures.makespan - measures.model_seconds,
    )


def figures(rows: dict[str, list[Row]], way: str, price: Price | None = None) -> Figures:
    """Return the figures of one paradigm beside ParaAct's."""
    price = price or Price()
    own, ours = rows[way], rows["paraact"]
    solved = sum(one.success for one in own)
    pairs = [(one, other) for one, other in zip(own, ours, strict=True) if one.success and other.success]
    return {
        "tasks": len(own),
        "success": solved / len(own),
        "turns": mean([one.turns for one in own]),
        "seconds": mean([one.seconds(price) for one in own]),
        "per_solved": sum(one.seconds(price) for one in own) / solved if solved else math.inf,
        "read": mean([one.read for one in own]),
        "wrote": mean([one.wrote for one in own]),
        "won": sum(other.success and not one.success for one, other in zip(own, ours, strict=True)),
        "lost": sum(one.success and not other.success for one, other in zip(own, ours, strict=True)),
        "pairs": len(pairs),
        "pair_turns": mean([one.turns for one, _ in pairs]),
        "pair_turns_paraact": mean([other.turns for _, other in pairs]),
        "pair_seconds": mean([one.seconds(price) for one, _ in pairs]),
        "pair_seconds_paraact": mean([other.seconds(price) for _, other in pairs]),
        "overtakes": overtakes(pairs, price),
    }


def overtakes(pairs: Sequence[tuple[Row, Row]], price: Price) -> float:
    """Return the price of a turn from which ParaAct is faster; 0 if it always is, infinite if it never is."""
    turns = sum(one.turns - other.turns for one, other in pairs)
    lead = sum(other.base(price) - one.base(price) for one, other in pairs)
    if lead <= 0:
        return 0.0 if turns >= 0 else math.inf
    return lead / turns if turns > 0 else math.inf


def mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan


def table(name: str, rows: dict[str, list[Row]], *, markdown: bool) -> str:
    """Return one set's rows as text."""
    heads = ["", "success", "turns", "seconds", "s per solved", "read", "wrote", "only ParaAct / only this"]
    heads += ["both solved: turns", "both solved: seconds", "ParaAct faster from"]
    lines = []
    for way in PARADIGMS:
        if way.name not in rows:
            continue
        found = figures(rows, way.name)
        lines.append(
            [
                way.title,
                f"{found['success']:.2f}",
                f"{found['turns']:.1f}",
                f"{found['seconds']:.1f}",
                f"{found['per_solved']:.1f}",
                f"{found['read']:,.0f}",
                f"{found['wrote']:,.0f}",
                f"{found['won']:.0f} / {found['lost']:.0f}",
                f"{found['pair_turns']:.1f} : {found['pair_turns_paraact']:.1f}",
                f"{found['pair_seconds']:.1f} : {found['pair_seconds_paraact']:.1f}",
                "" if way.name == "paraact" else since(found["overtakes"]),
            ]
        )
    title = f"{name} ({len(rows['paraact'])} tasks)"
    return f"\n{'### ' if markdown else ''}{title}\n\n{grid([heads, *lines], markdown)}"


def since(price: float) -> str:
    """Return from which price of a turn on ParaAct is faster, in words."""
    return "never" if math.isinf(price) else f"{price:.1f} s a turn" if price else "always"


def sensitivity(found: dict[str, dict[str, list[Row]]], *, markdown: bool) -> str:
    """Return seconds per solved task under other prices of a turn."""
    prices = [Price(thought=thought) for thought in (0, 100, 200, 400)]
    heads = ["seconds per solved task", *(f"{price.seconds(0):.0f} s + text" for price in prices)]
    lines = []
    for name, rows in found.items():
        for way in ("paraact", "no-plans", "plan-execute", "native", "react-eae", "react-ete"):
            if way not in rows:
                continue
            cells = [figures(rows, way, price)["per_solved"] for price in prices]
            lines.append([f"{name}: {way}", *(f"{cell:.1f}" for cell in cells)])
    return f"\n{'### ' if markdown else ''}Other prices of a turn\n\n{grid([heads, *lines], markdown)}"


def grid(lines: Sequence[Sequence[str]], markdown: bool) -> str:
    if markdown:
        head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([head, "|---|" + "--:|" * (len(lines[0]) - 1), *rest])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


if __name__ == "__main__":
    main()

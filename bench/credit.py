"""How the four ways to assign credit compare: many runs of a small policy in the real environment, on two cores.

One start, cloned from few demonstrations, is trained once per mode and seed on the same tasks in the same order with
as many episodes; rewards, credit and environment are those of `paraagent train rl`, the policy is `credit_policy`.
The loss is the policy gradient with one update per batch, averaged over decisions, and Adam. Held-out tasks are
played as training tasks are, each decision by chance, with the same dice for every run: validation tasks on the way,
test tasks at the end; these greedily, too.

    python bench/credit.py --out docs/results/credit
    python bench/credit.py --out docs/results/credit-wide --difficulty 0.5

Modes: local and trajectory keep the levels apart (docs/REWARDS.md), outcome is the trajectory reward alone, summed is
the weighted sum of the levels under plain group normalisation.

Keys of credit.json:
    settings                    of the run
    played.<run>.<split>        as `policies` in learning.json, of expert, start and every run (`local-0`)
    greedy.<run>.<split>        the same, played greedily
    contrasts.<split>.<a - b>   differences paired by seed and task, intervals over both
    curves.<mode>               mean over seeds of the success on validation tasks by step, with intervals
    runs.<mode>.<seed>          success, reward and turns of every training batch
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any, cast, get_args

import numpy as np

import credit_report
import learning_credit
import learning_report
from credit_policy import EXPERT, Decision, Floats, LinearPolicy, probabilities, weights_of
from paraagent.agent.budget import Budget
from paraagent.agent.settings import Settings
from paraagent.cli.world import World, open_world, take_tasks
from paraagent.env.shapes import Dials
from paraagent.env.task import Task
from paraagent.evaluate.arena import Arena
from paraagent.evaluate.intervals import mean
from paraagent.reward.credit import Mode, Rollout, as_rollout, assign
from paraagent.reward.score import score
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Split, TaskKind

TURNS = 8
CLONING = 0.05
"""Learning rate of the start."""
DICE = (0,)
"""The seed of all held-out episodes."""
SPLITS: tuple[Split, ...] = ("test-unseen", "test-seen")
KINDS: tuple[TaskKind, ...] = tuple(kind for kind in get_args(TaskKind) if kind != "direct")
"""Mental arithmetic holds no decision of this policy."""
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one comparison takes; every run of it takes the same."""

    difficulty: float | None
    demos: int
    passes: int
    steps: int
    prompts: int
    rollouts: int
    lr: float
    limit: int
    """Tasks of every held-out split."""
    tasks: int = 1200
    """To train on."""
    every: int = 10
    """Steps between two looks at validation tasks."""


@dataclass(frozen=True, slots=True)
class Played:
    """One episode and how it was decided."""

    task: Task
    view: EpisodeView
    turns: Sequence[Sequence[Decision]]


class Adam:
    """Adam with its usual constants, upwards."""

    def __init__(self, lr: float, size: int) -> None:
        self._lr, self._first, self._second, self._steps = lr, np.zeros(size), np.zeros(size), 0

    def step(self, weights: Floats, gradient: Floats) -> Floats:
        """Return the weights one step up the gradient."""
        self._steps += 1
        self._first = 0.9 * self._first + 0.1 * gradient
        self._second = 0.999 * self._second + 0.001 * gradient**2
        first, second = self._first / (1 - 0.9**self._steps), self._second / (1 - 0.999**self._steps)
        return weights + self._lr * first / (np.sqrt(second) + 1e-8)


class Field:
    """Where a process plays: the open world and its tasks."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world, self.plan = world, plan
        self._tasks: dict[tuple[Split, int], list[Task]] = {}
        self.arena = Arena(world.catalog, world.index, Settings(budget=Budget(turns=TURNS), durable=False))

    def tasks(self, split: Split, limit: int) -> list[Task]:
        if (split, limit) not in self._tasks:
            dials = Dials() if self.plan.difficulty is None else Dials.at(self.plan.difficulty)
            self._tasks[split, limit] = take_tasks(self._world, split, KINDS, 0, limit, dials)[0]
        return self._tasks[split, limit]

    def play(self, tasks: Sequence[Task], weights: Floats, seed: Sequence[int] | None = None) -> list[Played]:
        """Play one episode per task; greedily unless there is a seed."""

        async def one(place: int, task: Task) -> Played:
            random = None if seed is None else np.random.default_rng([*seed, place])
            policy, recorder = LinearPolicy(weights, random), Recorder()
            await self.arena.play(task, policy, recorder)
            return Played(task, EpisodeView(recorder.events), policy.turns)

        async def every() -> list[Played]:
            return await asyncio.gather(*(one(place, task) for place, task in enumerate(tasks)))

        return asyncio.run(every())

    def held_out(self, weights: Floats, split: Split, seed: Sequence[int] | None = DICE) -> Figures:
        """Return what a policy achieves on held-out tasks."""
        played = self.play(self.tasks(split, self.plan.limit), weights, seed)
        return learning_report.achieved({one.task.id: one.view for one in played})

    def test(self, weights: Floats) -> tuple[Figures, Figures]:
        """Return what a policy achieves on test tasks, by chance and greedily, by split."""
        chance, greedy = (
            {split.replace("-", "_"): self.held_out(weights, split, seed) for split in SPLITS}
            for seed in (DICE, None)
        )
        return chance, greedy


def clone(field: Field) -> Floats:
    """Return weights that have learned from the expert's demonstrations, but not enough."""
    shown = field.play(field.tasks("train", field.plan.demos), weights_of(EXPERT))
    decisions = [decision for one in shown for turn in one.turns for decision in turn]
    weights = weights_of({})
    adam = Adam(CLONING, len(weights))
    for _ in range(field.plan.passes):
        weights = adam.step(weights, np.mean([one.gradient(weights) for one in decisions], axis=0))
    return weights


def train(field: Field, start: Floats, mode: Mode, seed: int) -> tuple[Floats, Figures]:
    """Return the weights after reinforcement learning, and what it was like."""
    plan, random = field.plan, np.random.default_rng(seed)
    tasks = field.tasks("train", plan.tasks)
    weights, adam = start, Adam(plan.lr, len(start))
    log: Figures = {"success": [], "reward": [], "turns": [], "entropy": [], "validation": {}}
    for step in range(plan.steps):
        drawn = random.choice(len(tasks), plan.prompts, replace=False)
        batch = [tasks[place] for place in drawn for _ in range(plan.rollouts)]
        played = field.play(batch, weights, (seed, step))
        weights = adam.step(weights, gradient(played, weights, mode, log))
        if not (step + 1) % plan.every:
            log["validation"][step + 1] = field.held_out(weights, "validation")["success"]
    return weights, log


def gradient(played: Sequence[Played], weights: Floats, mode: Mode, log: Figures) -> Floats:
    """Return that of the policy's objective over a batch, shape (features,), and log what the batch was like."""
    scored = [score(one.view) for one in played]
    rollouts = [rollout(one, reward) for one, reward in zip(played, scored, strict=True)]
    found = assign(rollouts, mode).tokens
    decisions = [[decision for turn in one.turns for decision in turn] for one in played]
    total = np.zeros(len(weights))
    for advantages, own in zip(found, decisions, strict=True):
        for advantage, decision in zip(advantages, own, strict=True):
            if advantage:
                total += advantage * decision.gradient(weights)
    log["success"].append(fmean(bool(one.view.success) for one in played))
    log["reward"].append(round(fmean(reward.total or 0.0 for reward in scored), 4))
    log["turns"].append(fmean(len(one.view.turns) for one in played))
    flat = [probabilities(decision.options @ weights) for own in decisions for decision in own]
    log["entropy"].append(round(fmean(float(-(p * np.log(p + 1e-12)).sum()) for p in flat), 4))
    return total / sum(map(len, decisions))


def rollout(one: Played, reward: Any) -> Rollout:
    """Return an episode as credit assignment takes it, a decision for a token."""
    ends = np.cumsum([len(turn) for turn in one.turns]).tolist()
    return as_rollout(reward, one.task.id, [*zip([0, *ends], ends, strict=False)], ends[-1])


def perform(
    run: tuple[int, str], plan: Plan, start: Floats, catalog: Path | None
) -> tuple[Figures, Figures, Figures]:
    """Train one run in a process of its own; return its log and what it achieves on test tasks."""
    seed, mode = run
    field = Field(open_world(catalog), plan)
    weights, log = train(field, start, cast(Mode, mode), seed)
    chance, greedy = field.test(weights)
    tell(f"{mode}, seed {seed}", chance)
    return log, chance, greedy


def tell(name: str, played: Figures) -> None:
    """Print what a run achieves, by split."""
    successes = [f"{split} {one['success']:.3f}" for split, one in played.items()]
    print(f"{name}: {', '.join(successes)}", flush=True)


def compare(plan: Plan, seeds: int, processes: int, catalog: Path | None) -> Figures:
    """Return the figures of all runs."""
    field = Field(open_world(catalog), plan)
    start = clone(field)
    tested = {"expert": field.test(weights_of(EXPERT)), "start": field.test(start)}
    for name, (chance, _) in tested.items():
        tell(name, chance)
    first = field.held_out(start, "validation")["success"]
    logs: dict[tuple[str, int], Figures] = {}
    order = [*product(range(seeds), learning_credit.MODES)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        found = pool.map(partial(perform, plan=plan, start=start, catalog=catalog), order)
        for (seed, mode), (log, *both) in zip(order, found, strict=True):
            tested[f"{mode}-{seed}"] = (both[0], both[1])
            logs[mode, seed] = {**log, "validation": {0: first, **log["validation"]}}
    return gathered(plan, seeds, tested, logs)


def gathered(
    plan: Plan, seeds: int, tested: Mapping[str, tuple[Figures, Figures]], logs: Mapping[tuple[str, int], Figures]
) -> Figures:
    """Return everything that was measured, as credit.json has it."""
    played = {name: chance for name, (chance, _) in tested.items()}
    runs: Figures = {}
    for (mode, seed), log in logs.items():
        runs.setdefault(mode, {})[str(seed)] = log
    return {
        "settings": {**asdict(plan), "seeds": seeds},
        "played": played,
        "greedy": {name: greedy for name, (_, greedy) in tested.items()},
        "contrasts": {
            split: {name: found.to_json() for name, found in differences.items()}
            for split, differences in learning_credit.contrasts(played).items()
        },
        "curves": {mode: _curve([log["validation"] for log in by_seed.values()]) for mode, by_seed in runs.items()},
        "runs": runs,
    }


def _curve(seeds: Sequence[Mapping[int, float]]) -> list[JsonObject]:
    """Return the mean over seeds of each step, with its interval."""
    points = {step: mean([successes[step] for successes in seeds]) for step in seeds[0]}
    return [{"step": step, **found.to_json()} for step, found in points.items() if found is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the ways to assign credit.")
    parser.add_argument("--out", type=Path, required=True, help="path of the page without its suffix")
    parser.add_argument("--catalog", type=Path, help="catalog to play in")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--difficulty", type=float, help="of the tasks, 0 to 1 (default: the usual dials)")
    parser.add_argument("--demos", type=int, default=20, help="demonstrations to start from")
    parser.add_argument("--passes", type=int, default=10, help="steps over them")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--limit", type=int, default=210, help="tasks of every held-out split")
    given = parser.parse_args()
    settings = {name: getattr(given, name) for name in Plan.__dataclass_fields__ if hasattr(given, name)}
    credit_report.write(given.out, compare(Plan(**settings), given.seeds, given.processes, given.catalog))


if __name__ == "__main__":
    main()

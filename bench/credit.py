"""How the four ways to assign credit compare: many runs of a small policy in the real environment, on two cores.

For every seed a small network starts at random and is cloned from demonstrations, but not enough; from there it is
trained once per mode on the same tasks in the same order, with as many episodes. Tasks, loop, rewards and credit are
those of `paraagent train rl`, with its turns and hits per search; the policy is `credit_policy`, the network
`credit_net`. The loss is the policy gradient with one update per batch, averaged over decisions, and Adam. Held-out
tasks are played by the likeliest decisions and by chance, with the same dice for every run: validation tasks on the
way, test tasks at the end.

    python bench/credit.py --out docs/results/credit
    python bench/credit.py --out docs/results/credit-wide --difficulty 0.5

Modes: local and trajectory keep the levels apart (docs/REWARDS.md), outcome is the trajectory reward alone, summed is
the weighted sum of the levels under plain group normalisation.

Keys of credit.json:
    settings                        of the comparison, with the catalog's digest
    greedy.<run>.<split>            as `policies` in learning.json, with the mean of each reward level; of the expert,
                                    every start (`start-0`) and every run (`local-0`)
    chance.<run>.<split>            the same, decided by chance
    contrasts.<how>.<split>.<a - b> differences paired by seed and task, intervals over both
    curves.<mode>                   mean over seeds of greedy success on validation tasks by step, with intervals
    runs.<mode>.<seed>              success, reward, turns and entropy of every batch, and success on validation tasks
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any, cast, get_args

import numpy as np

import credit_report
import learning_report
from credit_net import Adam, Decision, Floats, Net, probabilities
from credit_policy import FEATURES, SmallPolicy, expert
from learning_credit import MODES, START
from paraagent.agent.budget import Budget
from paraagent.agent.settings import Settings
from paraagent.cli.world import World, open_world, take_tasks
from paraagent.env.shapes import Dials
from paraagent.env.task import Task
from paraagent.errors import ParaAgentError, UsageError
from paraagent.evaluate.arena import Arena
from paraagent.reward.credit import Mode, Rollout, as_rollout, assign
from paraagent.reward.record import Reward
from paraagent.reward.score import score
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Split, TaskKind

TURNS, TOP_K = 6, 3
"""As in `paraagent train rl`."""
DICE = 20_261_201
"""The seed of held-out episodes."""
SPLITS: tuple[Split, ...] = ("test-unseen", "test-seen")
KINDS: tuple[TaskKind, ...] = tuple(kind for kind in get_args(TaskKind) if kind != "direct")
"""Mental arithmetic holds no decision of this policy."""
Figures = dict[str, Any]
Score = Callable[[Floats], Floats]


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
    hidden: int = 24
    cloning: float = 0.02
    """Learning rate of the start."""
    tasks: int = 600
    """To train on."""
    every: int = 10
    """Steps between two looks at validation tasks; the last step is followed by one, too."""


@dataclass(frozen=True, slots=True)
class Played:
    """One episode and how it was decided."""

    task: Task
    view: EpisodeView
    reward: Reward
    turns: Sequence[Sequence[Decision]]

    @property
    def decisions(self) -> list[Decision]:
        return [decision for turn in self.turns for decision in turn]


class Field:
    """Where a process plays: the open world and its tasks."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world, self.plan = world, plan
        self._tasks: dict[tuple[Split, int], list[Task]] = {}
        settings = Settings(budget=Budget(turns=TURNS), durable=False)
        self.arena = Arena(world.catalog, world.index, settings, top_k=TOP_K)

    def tasks(self, split: Split, limit: int) -> list[Task]:
        if (split, limit) not in self._tasks:
            dials = Dials() if self.plan.difficulty is None else Dials.at(self.plan.difficulty)
            self._tasks[split, limit] = take_tasks(self._world, split, KINDS, 0, limit, dials)[0]
        return self._tasks[split, limit]

    def play(self, tasks: Sequence[Task], scorer: Score, seed: Sequence[int] | None = None) -> list[Played]:
        """Play one episode per task; greedily unless there is a seed."""

        async def one(place: int, task: Task) -> Played:
            random = None if seed is None else np.random.default_rng([*seed, place])
            policy, recorder = SmallPolicy(scorer, random), Recorder()
            await self.arena.play(task, policy, recorder)
            view = EpisodeView(recorder.events)
            return Played(task, view, score(view), policy.turns)

        async def every() -> list[Played]:
            return await asyncio.gather(*(one(place, task) for place, task in enumerate(tasks)))

        return asyncio.run(every())

    def held_out(self, scorer: Score, split: Split, seed: Sequence[int] | None = None) -> Figures:
        """Return what a policy achieves on held-out tasks."""
        played = self.play(self.tasks(split, self.plan.limit), scorer, seed)
        levels = [one.reward.levels for one in played]
        means = {name: fmean(getattr(one, name) or 0.0 for one in levels) for name in ("trajectory", "phase", "step")}
        return {**learning_report.achieved({one.task.id: one.view for one in played}), "levels": means}

    def test(self, scorer: Score) -> Figures:
        """Return what a policy achieves on test tasks, by how it decides and split."""
        return {
            how: {split.replace("-", "_"): self.held_out(scorer, split, seed) for split in SPLITS}
            for how, seed in (("greedy", None), ("chance", (DICE,)))
        }


def clone(field: Field, seed: int) -> Net:
    """Return a network that has learned from what the expert solved, but not enough."""
    shown = field.play(field.tasks("train", field.plan.demos), expert)
    decisions = [decision for one in shown if one.view.success for decision in one.decisions]
    if not decisions:
        raise UsageError("the expert solved none of the tasks to clone: use more --demos")
    weights = [1 / len(decisions)] * len(decisions)
    net, adam = Net.random(len(FEATURES), field.plan.hidden, seed), Adam(field.plan.cloning)
    for _ in range(field.plan.passes):
        net = adam.step(net, net.gradient(decisions, weights))
    return net


def train(field: Field, net: Net, mode: Mode, seed: int) -> tuple[Net, Figures]:
    """Return the network after reinforcement learning, and what it was like."""
    plan, random, adam = field.plan, np.random.default_rng(seed), Adam(field.plan.lr)
    tasks = field.tasks("train", plan.tasks)
    log: Figures = {"success": [], "reward": [], "turns": [], "entropy": []}
    held = {0: field.held_out(net, "validation")["success"]}
    for step in range(1, plan.steps + 1):
        drawn = random.choice(len(tasks), plan.prompts, replace=False)
        played = field.play([tasks[place] for place in drawn for _ in range(plan.rollouts)], net, (seed, step))
        note(log, played, net)
        net = adam.step(net, gradient(played, net, mode))
        if step % plan.every == 0 or step == plan.steps:
            held[step] = field.held_out(net, "validation")["success"]
    return net, {**log, "validation": held}


def gradient(played: Sequence[Played], net: Net, mode: Mode) -> Net:
    """Return that of the mean over decisions of advantage times log-probability."""
    found = assign([rollout(one) for one in played], mode).tokens
    decisions = [decision for one in played for decision in one.decisions]
    return net.gradient(decisions, (np.concatenate(found) / len(decisions)).tolist())


def rollout(one: Played) -> Rollout:
    """Return an episode as credit assignment takes it, a decision for a token."""
    ends = np.cumsum([len(turn) for turn in one.turns]).tolist()
    return as_rollout(one.reward, one.task.id, [*zip([0, *ends], ends, strict=False)], ends[-1])


def note(log: Figures, played: Sequence[Played], net: Net) -> None:
    """Log what a batch was like."""
    chances = [probabilities(net(decision.options)) for one in played for decision in one.decisions]
    log["success"].append(fmean(bool(one.view.success) for one in played))
    log["reward"].append(round(fmean(one.reward.total or 0.0 for one in played), 4))
    log["turns"].append(fmean(len(one.view.turns) for one in played))
    log["entropy"].append(round(fmean(float(-(p * np.log(p + 1e-12)).sum()) for p in chances), 4))


@cache
def field_of(catalog: Path | None, plan: Plan) -> Field:
    """Return the field of this process."""
    return Field(open_world(catalog), plan)


def perform(job: tuple[str, int], plan: Plan, catalog: Path | None) -> tuple[Figures, Figures]:
    """Return what a run, or a start, achieves on test tasks, and its log."""
    name, seed = job
    field = field_of(catalog, plan)
    net = clone(field, seed)
    log: Figures = {}
    if name != START:
        net, log = train(field, net, cast(Mode, name), seed)
        print(f"{name}, seed {seed}: validation {[round(one, 2) for one in log['validation'].values()]}", flush=True)
    return field.test(net), log


def compare(plan: Plan, seeds: int, processes: int, catalog: Path | None) -> Iterator[tuple[str, Figures, Figures]]:
    """Yield every run's name, what it achieves on test tasks and its log, starts and expert included."""
    yield "expert", field_of(catalog, plan).test(expert), {}
    jobs = [(name, seed) for seed, name in product(range(seeds), (START, *MODES))]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures = [(name, seed, pool.submit(perform, (name, seed), plan, catalog)) for name, seed in jobs]
        for name, seed, future in futures:
            yield f"{name}-{seed}", *future.result()


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the ways to assign credit.")
    parser.add_argument("--out", type=Path, required=True, help="path of the page without its suffix")
    parser.add_argument("--catalog", type=Path, help="catalog to play in")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--difficulty", type=float, help="of the tasks, 0 to 1 (default: the usual dials)")
    parser.add_argument("--demos", type=int, default=6, help="demonstrations to start from")
    parser.add_argument("--passes", type=int, default=4, help="steps over them")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--limit", type=int, default=210, help="tasks of every held-out split")
    given = parser.parse_args()
    plan = Plan(**{name: getattr(given, name) for name in Plan.__dataclass_fields__ if hasattr(given, name)})
    if min(given.seeds, given.processes, plan.demos, plan.steps, plan.prompts, plan.limit) < 1 or plan.rollouts < 2:
        parser.error(
            "counts must be at least 1, --rollouts at least 2: an episode is compared with others of its task"
        )
    if plan.prompts > plan.tasks:
        parser.error(f"--prompts is at most {plan.tasks}, the tasks there are to train on")
    try:
        settings = {**asdict(plan), "catalog": field_of(given.catalog, plan).arena.catalog.digest}
        credit_report.write(given.out, settings, compare(plan, given.seeds, given.processes, given.catalog))
    except ParaAgentError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()

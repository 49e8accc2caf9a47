"""Plays an experiment for `paraagent scale`: all cells, and the judgement of the samples."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from paraagent.cli import tasks as task_options
from paraagent.cli.output import Output
from paraagent.types import Policy, Split

if TYPE_CHECKING:
    from paraagent.agent.policies.model import LocalConfig
    from paraagent.env.task import Task
    from paraagent.evaluate.arena import Arena
    from paraagent.evaluate.arena import PolicyFor as TaskPolicy
    from paraagent.evaluate.scaling import Scaling
    from paraagent.evaluate.scaling_run import Cell, Experiment, PolicyFor
    from paraagent.reward.judge import Judge
    from paraagent.reward.pairs import PairJudge
    from paraagent.trace.view import EpisodeView


@dataclass(frozen=True, slots=True)
class Judged:
    """Who judges the samples, one by one and in pairs: a model at an endpoint or on this machine, or nobody."""

    model: str | LocalConfig | None
    base_url: str | None
    api_key_env: str
    cache: Path
    in_pairs: bool = True

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Judge | None, PairJudge | None]]:
        from paraagent.agent.policies.http import HttpConfig, HttpPolicy

        if self.model is None:
            yield None, None
        elif isinstance(self.model, str):
            config = HttpConfig(self.model, self.base_url, self.api_key_env, temperature=0.0)
            async with HttpPolicy(config) as asked:
                await asked.check()
                yield self._judges(asked)
        else:
            from paraagent.agent.policies.local import LocalPolicy
            from paraagent.agent.policies.model import LocalModel

            yield self._judges(LocalPolicy(LocalModel.open(replace(self.model, temperature=0.0))))

    def _judges(self, asked: Policy) -> tuple[Judge, PairJudge | None]:
        from paraagent.reward.judge import Judge
        from paraagent.reward.pairs import PairJudge

        return Judge(asked, self.cache), PairJudge(asked, self.cache) if self.in_pairs else None


@dataclass(frozen=True, slots=True)
class Stage:
    """How and where an experiment is played."""

    experiment: Experiment
    path: Path
    judge: Judged
    api_key_env: str
    concurrency: int
    overwrite: bool
    allow_incomplete: bool

    async def run(self, catalog: Path | None, out: Output) -> Scaling:
        """Play all cells, judge the samples, and measure."""
        from paraagent.cli.world import dials_from, open_world, take_tasks
        from paraagent.evaluate import scaling_run
        from paraagent.evaluate.arena import Arena

        base = self.experiment.base
        world = open_world(catalog)
        kinds = task_options.kinds_of(base.kind)
        dials = dials_from(base.difficulty, None, None, None, None, None)
        with out.text.status(f"sampling {base.limit} tasks..."):
            tasks, _ = take_tasks(world, cast(Split, base.split), kinds, base.seed, base.limit, dials)
        arena = Arena(world.catalog, world.index, top_k=base.top_k)
        views = await self._play(tasks, arena, out)
        everywhere = scaling_run.complete(views, tasks, self.allow_incomplete)
        return await self._measure(views, everywhere, out)

    async def _measure(
        self, views: Mapping[str, Mapping[str, EpisodeView]], tasks: Sequence[str], out: Output
    ) -> Scaling:
        from paraagent.evaluate import scaling_run
        from paraagent.evaluate.scaling import measure

        cells = {}
        async with self.judge.open() as (judge, pairs):
            for name, found in views.items():
                asked = judge if name.startswith("sample-") else None
                tried = [scaling_run.sample_of(found[task], asked) for task in tasks]
                cells[name] = dict(zip(tasks, await asyncio.gather(*tried), strict=True))
            samples = scaling_run.samples_of(self.experiment, cells)
            if pairs is not None:
                samples = await scaling_run.compared(samples, views, pairs)
                if missing := scaling_run.not_compared(samples):
                    out.text.print(f"{missing} pairs of samples could not be judged: they count for neither")
        return measure(samples, scaling_run.budgets_of(self.experiment, cells))

    async def _play(self, tasks: list[Task], arena: Arena, out: Output) -> Mapping[str, Mapping[str, EpisodeView]]:
        from paraagent.cli.config import open_policy
        from paraagent.trace.recorder import redactor

        views = {}
        opened = open_policy(self.experiment.base, self.api_key_env, slots=self.concurrency)
        async with opened as (policy_for, secrets):
            choose = _varying(policy_for, self.experiment)
            redact = redactor(secrets) if secrets else None
            for name, cell in self.experiment.cells.items():
                views[name] = await self._play_cell(cell, tasks, arena, choose, redact, out)
                solved = sum(bool(view.success) for view in views[name].values())
                out.text.print(f"{name}: {solved} of {len(tasks)} solved")
        return views

    async def _play_cell(
        self,
        cell: Cell,
        tasks: list[Task],
        arena: Arena,
        choose: PolicyFor,
        redact: Callable[[str], str] | None,
        out: Output,
    ) -> Mapping[str, EpisodeView]:
        from rich.progress import Progress

        from paraagent.evaluate import scaling_run

        directory = scaling_run.prepare(self.path, cell, overwrite=self.overwrite)
        with Progress(console=out.text, transient=True) as bar:
            shown = bar.add_task(cell.name, total=len(tasks))
            return await scaling_run.play(
                cell,
                tasks,
                arena,
                choose,
                directory,
                concurrency=self.concurrency,
                redact=redact,
                on_done=lambda name, view: bar.advance(shown),
            )


def _varying(policy_for: TaskPolicy, experiment: Experiment) -> PolicyFor:
    """Return the chooser of policies per sample: each draws by its own seed, and slips if that was asked for."""
    from paraagent.agent.policies.local import LocalPolicy
    from paraagent.evaluate.slips import SlippingPolicy

    rate, seed = experiment.base.slips, experiment.base.seed

    def choose(task: Task, sample: int) -> Policy:
        policy = policy_for(task)
        if isinstance(policy, LocalPolicy):
            policy = policy.sampled(sample)
        if rate:
            policy = SlippingPolicy(policy, rate, 1_000 * seed + sample)
        return policy

    return choose

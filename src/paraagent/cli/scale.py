"""`paraagent scale`: what more turns, more tokens and more samples bring at test time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import msgspec
import typer

from paraagent.cli import tasks as task_options
from paraagent.cli.catalog import CatalogPath
from paraagent.cli.output import EXIT_INTERRUPTED, JsonFlag, Output, guarded
from paraagent.cli.report import AllowIncomplete, write
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.types import Policy, Split

if TYPE_CHECKING:
    from paraagent.env.task import Task
    from paraagent.evaluate.arena import Arena
    from paraagent.evaluate.arena import PolicyFor as TaskPolicy
    from paraagent.evaluate.report_document import Document
    from paraagent.evaluate.scaling import Scaling
    from paraagent.evaluate.scaling_run import Cell, Experiment, PolicyFor
    from paraagent.reward.judge import Judge
    from paraagent.trace.view import EpisodeView

RESULT = "scale.json"
_SELF = "self"
_TEMPERATURE = 0.7
"""At which models are sampled unless told: at 0 all samples would be alike."""


class Policies(StrEnum):
    rules = "rules"
    oracle = "oracle"
    http = "http"


@guarded
def scale(
    policy: Annotated[Policies | None, typer.Option(help="Who plays; http if --model is given.")] = None,
    model: Annotated[str | None, typer.Option(help="Model name at the endpoint.")] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the model.")] = None,
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds the key.")] = "OPENAI_API_KEY",
    temperature: Annotated[
        float | None, typer.Option(min=0.0, max=2.0, help=f"Sampling temperature; {_TEMPERATURE} for a model.")
    ] = None,
    slips: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Let turns go wrong at this rate, so that built-in policies vary.")
    ] = 0.0,
    samples: Annotated[int, typer.Option(min=1, max=64, help="Parallel: how often each task is played.")] = 4,
    turns: Annotated[str, typer.Option(metavar="N,N,...", help="Sequential: budgets of turns.")] = "2,3,4,6,10,15",
    tokens: Annotated[str, typer.Option(metavar="N,N,...", help="Sequential: budgets of tokens.")] = "",
    rounds: Annotated[
        str, typer.Option(metavar="N,N,...", help="Sequential: how often an answer is sent back to be checked.")
    ] = "",
    judge: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Choose by this model's judgement, too; `self` for --model.")
    ] = None,
    judge_url: Annotated[str | None, typer.Option(help="The judge's endpoint; --base-url unless given.")] = None,
    split: task_options.SplitOption = task_options.SplitName.validation,
    kind: task_options.KindOption = "all",
    limit: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 42,
    seed: task_options.SeedOption = 0,
    difficulty: task_options.Difficulty = None,
    top_k: Annotated[int, typer.Option(min=1, max=50, help="Tools shown per search.")] = 5,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes in flight.")] = 8,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where it is kept.")] = Path("runs/scale"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Play all of it anew.")] = False,
    allow_incomplete: AllowIncomplete = False,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Play the same tasks at growing budgets and several times over, and show what that brings.

    Sequential: more turns, tokens or rounds of checking for one sample. Parallel: of K samples one is chosen by
    majority, by how well its answer is borne out (verifier), by a judge, or by the truth (oracle), against a random
    one. Writes curves, plateau and verification gap as HTML, Markdown and JSON; every budget and sample is a run that
    `paraagent report` reads.
    An experiment that was stopped goes on if you name its --out again.
    """
    from paraagent.evaluate.scaling_run import Experiment, ScaleConfig

    out = Output(as_json)
    who = policy or (Policies.http if model else Policies.rules)
    if who is Policies.http and not model:
        raise UsageError("--policy http needs --model (and --base-url for an endpoint of your own)")
    if judge == _SELF and not model:
        raise UsageError("--judge self needs --model: a built-in policy cannot judge")
    base = ScaleConfig(
        policy=who.value,
        model=model,
        base_url=base_url,
        temperature=_TEMPERATURE if temperature is None and who is Policies.http else temperature,
        slips=slips,
        split=split.value,
        kind=kind,
        limit=limit,
        seed=seed,
        difficulty=difficulty,
        top_k=top_k,
    )
    grown = _sizes("--turns", turns), _sizes("--tokens", tokens), _sizes("--rounds", rounds)
    experiment = Experiment(base, samples, *grown)
    judged_by = _Judged(model if judge == _SELF else judge, judge_url or base_url, api_key_env, out_dir / "judged")
    stage = _Stage(experiment, out_dir, judged_by, api_key_env, concurrency, overwrite, allow_incomplete)
    try:
        scaling = asyncio.run(stage.run(catalog, out))
    except KeyboardInterrupt:
        out.text.print(f"\ninterrupted: what was played is kept in {out_dir}; run again to go on", markup=False)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _finish(scaling, experiment, out_dir, out)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Who judges the samples; nobody without a model."""

    model: str | None
    base_url: str | None
    api_key_env: str
    cache: Path

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Judge | None]:
        from paraagent.agent.policies.http import HttpConfig, HttpPolicy
        from paraagent.reward.judge import Judge

        if self.model is None:
            yield None
            return
        config = HttpConfig(self.model, self.base_url, self.api_key_env, temperature=0.0)
        async with HttpPolicy(config) as asked:
            await asked.check()
            yield Judge(asked, self.cache)


@dataclass(frozen=True, slots=True)
class _Stage:
    """How and where an experiment is played."""

    experiment: Experiment
    path: Path
    judge: _Judged
    api_key_env: str
    concurrency: int
    overwrite: bool
    allow_incomplete: bool

    async def run(self, catalog: Path | None, out: Output) -> Scaling:
        """Play all cells, judge the samples, and measure."""
        from paraagent.cli.world import dials_from, open_world, take_tasks
        from paraagent.evaluate import scaling_run
        from paraagent.evaluate.arena import Arena
        from paraagent.evaluate.scaling import measure

        base = self.experiment.base
        world = open_world(catalog)
        kinds = task_options.kinds_of(base.kind)
        dials = dials_from(base.difficulty, None, None, None, None, None)
        with out.text.status(f"sampling {base.limit} tasks..."):
            tasks, _ = take_tasks(world, cast(Split, base.split), kinds, base.seed, base.limit, dials)
        arena = Arena(world.catalog, world.index, top_k=base.top_k)
        views = await self._play(tasks, arena, out)
        everywhere = scaling_run.complete(views, tasks, self.allow_incomplete)
        cells = {}
        async with self.judge.open() as judge:
            for name, found in views.items():
                asked = judge if name.startswith("sample-") else None
                tried = [scaling_run.sample_of(found[task], asked) for task in everywhere]
                cells[name] = dict(zip(everywhere, await asyncio.gather(*tried), strict=True))
        return measure(scaling_run.samples_of(self.experiment, cells), scaling_run.budgets_of(self.experiment, cells))

    async def _play(self, tasks: list[Task], arena: Arena, out: Output) -> Mapping[str, Mapping[str, EpisodeView]]:
        from paraagent.cli.config import RunConfig, open_policy
        from paraagent.trace.recorder import redactor

        base = self.experiment.base
        config = RunConfig(policy=base.policy, model=base.model, base_url=base.base_url, temperature=base.temperature)
        views = {}
        async with open_policy(config, self.api_key_env) as (policy_for, secrets):
            choose = _slipping(policy_for, self.experiment)
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


def load(path: Path) -> Document:
    """Read an experiment's result back and compose its report.

    Raises:
        EnvironmentFault: the result cannot be read.
    """
    from paraagent.evaluate.report_scaling import document
    from paraagent.evaluate.scaling import Scaling

    try:
        found = msgspec.json.decode((path / RESULT).read_bytes(), type=dict[str, msgspec.Raw])
        scaling = msgspec.json.decode(found["scaling"], type=Scaling)
    except (OSError, msgspec.DecodeError, KeyError) as error:
        raise EnvironmentFault(f"{path / RESULT} cannot be read ({error}): run `paraagent scale` again") from error
    return document(scaling, f"Test-time scaling: {path.name}")


def _slipping(policy_for: TaskPolicy, experiment: Experiment) -> PolicyFor:
    """Return the chooser of policies per sample, letting them slip if that was asked for."""
    from paraagent.evaluate.slips import SlippingPolicy

    rate, seed = experiment.base.slips, experiment.base.seed

    def choose(task: Task, sample: int) -> Policy:
        policy = policy_for(task)
        if rate:
            policy = SlippingPolicy(policy, rate, 1_000 * seed + sample)
        return policy

    return choose


def _finish(scaling: Scaling, experiment: Experiment, path: Path, out: Output) -> None:
    """Write the result and its report, and print it."""
    from paraagent.evaluate.report_scaling import said

    record = {"config": experiment.base.to_json(), "samples": experiment.samples, "scaling": scaling}
    try:
        (path / RESULT).write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    except OSError as error:
        raise EnvironmentFault(f"{path / RESULT}: cannot write the result ({error.strerror})") from error
    written = write(load(path), path / "report")
    for line in said(scaling):
        out.text.print(line, markup=False)
    for one in written:
        out.text.print(f"wrote {one}", markup=False, soft_wrap=True)
    found = msgspec.to_builtins(scaling)
    out.finish({"config": experiment.base.to_json(), **found, "written": [str(one) for one in written]})


def _sizes(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers by commas, as 2,4,8, not {text!r}") from None

"""`paraagent run`: let an agent work on held-out tasks, or on a request in your own words."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from paraagent.cli import tasks as task_options
from paraagent.cli.catalog import CatalogPath
from paraagent.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, JsonFlag, Output, guarded
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.types import JsonObject, Policy, Split

if TYPE_CHECKING:
    from paraagent.agent.settings import Settings
    from paraagent.evaluate.arena import PolicyFor
    from paraagent.evaluate.summary import Group, Summary
    from paraagent.trace.view import EpisodeView


class PolicyName(StrEnum):
    rules = "rules"
    oracle = "oracle"
    http = "http"


class PlanName(StrEnum):
    advise = "advise"
    enforce = "enforce"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides what a run does; printed into every trace."""

    policy: str = "rules"
    model: str | None = None
    base_url: str | None = None
    split: str = "test-unseen"
    kind: str = "all"
    limit: int = 70
    seed: int = 0
    difficulty: float | None = None
    width: int | None = None
    depth: int | None = None
    distractors: int | None = None
    fault_rate: float | None = None
    writes: float | None = None
    plan: str = "advise"
    turns: int = 15
    searches: int = 60
    calls: int = 100
    top_k: int = 5
    temperature: float | None = None
    hostile_rate: float = 0.0

    def to_json(self) -> JsonObject:
        return dict(dataclasses.asdict(self))


@guarded
def run(
    request: Annotated[
        str | None, typer.Argument(help="A request in your own words; leave it out to run tasks.")
    ] = None,
    policy: Annotated[
        PolicyName | None,
        typer.Option(help="rules (built in, no model), oracle (knows the solution), http. http if --model is given."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model name at the endpoint.")] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible endpoint, as http://127.0.0.1:8000/v1; default OPENAI_BASE_URL."),
    ] = None,
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds the key.")] = "OPENAI_API_KEY",
    temperature: Annotated[float | None, typer.Option(min=0.0, max=2.0, help="Sampling temperature.")] = None,
    split: task_options.SplitOption = task_options.SplitName.test_unseen,
    kind: task_options.KindOption = "all",
    limit: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 70,
    seed: task_options.SeedOption = 0,
    difficulty: task_options.Difficulty = None,
    width: task_options.Width = None,
    depth: task_options.Depth = None,
    distractors: task_options.Distractors = None,
    fault_rate: task_options.FaultRate = None,
    writes: task_options.Writes = None,
    hostile_rate: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of results that carry text posing as an instruction.")
    ] = 0.0,
    plan: Annotated[PlanName, typer.Option(help="advise tells deviations, enforce refuses them.")] = PlanName.advise,
    turns: Annotated[int, typer.Option(min=1, help="Turns an episode may take.")] = 15,
    searches: Annotated[int, typer.Option(min=1, help="Searches an episode may make.")] = 60,
    calls: Annotated[int, typer.Option(min=1, help="Calls an episode may make.")] = 100,
    top_k: Annotated[int, typer.Option(min=1, max=50, help="Tools shown per search.")] = 5,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes in flight.")] = 8,
    fail_under: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Exit with 1 if the success rate is below this.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Run directory; runs/<time> unless given.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in --out.")] = False,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Run an agent in the simulated open world and print what it achieved.

    Without a request it works on held-out tasks of every kind and a program verifies each. With one it does what you
    ask, in the simulated world. A run that was stopped goes on where it was if you name the same --out again.
    """
    out = Output(as_json)
    if policy is None:
        policy = PolicyName.http if model else PolicyName.rules
    config = RunConfig(
        policy=policy.value,
        model=model,
        base_url=base_url,
        split=split.value,
        kind=kind,
        limit=limit,
        seed=seed,
        difficulty=difficulty,
        width=width,
        depth=depth,
        distractors=distractors,
        fault_rate=fault_rate,
        writes=writes,
        plan=plan.value,
        turns=turns,
        searches=searches,
        calls=calls,
        top_k=top_k,
        temperature=temperature,
        hostile_rate=hostile_rate,
    )
    if policy is PolicyName.http and not model:
        raise UsageError("--policy http needs --model (and --base-url for an endpoint of your own)")
    directory = out_dir or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    if request is not None:
        if policy is PolicyName.oracle:
            raise UsageError("the oracle only knows sampled tasks: use --policy rules or http for a request")
        _run_request(request, config, api_key_env, directory, overwrite, catalog, out)
        return
    summary = _run_tasks(config, api_key_env, directory, overwrite, concurrency, catalog, out)
    if fail_under is not None and summary.overall.success < fail_under:
        out.text.print(f"success {summary.overall.success:.3f} is under {fail_under}", style="red")
        raise typer.Exit(EXIT_FAILED)


def _run_tasks(
    config: RunConfig,
    api_key_env: str,
    path: Path,
    overwrite: bool,
    concurrency: int,
    catalog: Path | None,
    out: Output,
) -> Summary:
    from paraagent.cli.progress import Board
    from paraagent.cli.world import dials_from, open_world, take_tasks
    from paraagent.evaluate import suite
    from paraagent.evaluate.arena import Arena
    from paraagent.trace.recorder import redactor

    world = open_world(catalog)
    kinds = task_options.kinds_of(config.kind)
    dials = dials_from(
        config.difficulty, config.width, config.depth, config.distractors, config.fault_rate, config.writes
    )
    directory = suite.RunDirectory(path)
    directory.prepare(config.to_json(), overwrite=overwrite)
    with out.text.status(f"sampling {config.limit} tasks..."):
        tasks, _ = take_tasks(world, cast(Split, config.split), kinds, config.seed, config.limit, dials)
    arena = Arena(world.catalog, world.index, _settings(config), config.top_k, config.hostile_rate)

    async def play() -> Summary:
        async with _policy(config, api_key_env) as (policy_for, secrets):
            with Board(out.text, len(tasks)) as board:
                episodes = [
                    arena.episode(task, policy_for, run=path.name, config=config.to_json(), watch=board.watch)
                    for task in tasks
                ]
                return await suite.run(
                    episodes,
                    directory,
                    concurrency=concurrency,
                    redact=redactor(secrets) if secrets else None,
                    on_done=board.done,
                )

    try:
        summary = asyncio.run(play())
    except KeyboardInterrupt:
        done = directory.summary()
        out.text.print(f"\ninterrupted: {done.get('episodes', 0)} episodes are kept in {path}; run again to go on")
        out.finish(done)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _print_summary(out.text, summary)
    out.text.print(f"traces: {directory.traces}   (read one: paraagent view {directory.traces}/FILE)", soft_wrap=True)
    out.finish(summary.to_json() | {"traces": str(directory.traces)})
    if summary.masked and not summary.overall.episodes:
        raise EnvironmentFault(f"no episode could be played, see {directory.traces}: {summary.first_failure}")
    return summary


def _run_request(
    request: str, config: RunConfig, api_key_env: str, path: Path, overwrite: bool, catalog: Path | None, out: Output
) -> None:
    from paraagent.cli.progress import Narrator
    from paraagent.cli.world import open_world
    from paraagent.evaluate import suite
    from paraagent.evaluate.arena import Arena, request_task
    from paraagent.trace.recorder import Recorder, redactor
    from paraagent.trace.view import EpisodeView

    if not request.strip():
        raise UsageError("the request is empty: say what is to be done")
    world = open_world(catalog)
    directory = suite.RunDirectory(path)
    directory.prepare(config.to_json() | {"request": request}, overwrite=overwrite)
    arena = Arena(world.catalog, world.index, _settings(config), config.top_k, config.hostile_rate)
    task = request_task(request, config.seed)
    trace = directory.trace(task.id)
    trace.unlink(missing_ok=True)

    async def play() -> EpisodeView:
        async with _policy(config, api_key_env) as (policy_for, secrets):
            with Recorder(trace, redact=redactor(secrets) if secrets else None) as recorder:
                await arena.play(
                    task,
                    policy_for(task),
                    recorder,
                    run=path.name,
                    config=config.to_json(),
                    on_event=Narrator(out.text),
                )
                return EpisodeView(recorder.events)

    try:
        view = asyncio.run(play())
    except KeyboardInterrupt:
        out.text.print(f"\ninterrupted; the trace is kept: {trace}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    end = view.end
    assert end is not None
    if end.mask_sample:
        raise EnvironmentFault(f"{end.failure_kind} (trace: {trace})")
    out.text.print("\nanswer", style="bold")
    out.text.print(end.answer or f"none: the episode ended by {end.stop_reason}", markup=False)
    out.text.print(f"\ntrace: {trace}   (read it: paraagent view {trace})", soft_wrap=True)
    out.finish({"answer": end.answer, "stop_reason": end.stop_reason, "trace": str(trace), **_measures(view)})


def _measures(view: EpisodeView) -> JsonObject:
    return cast(JsonObject, msgspec.to_builtins(view.measures))


def _settings(config: RunConfig) -> Settings:
    from paraagent.agent.budget import Budget
    from paraagent.agent.settings import Settings
    from paraagent.protocol.monitor import PlanMode

    return Settings(
        budget=Budget(turns=config.turns, searches=config.searches, calls=config.calls),
        plan=cast(PlanMode, config.plan),
        durable=False,
    )


@contextlib.asynccontextmanager
async def _policy(config: RunConfig, api_key_env: str) -> AsyncIterator[tuple[PolicyFor, list[str]]]:
    """Yield the chooser of policies and the secrets that must not be recorded; fail early if a model is not there."""
    from paraagent.evaluate.arena import oracle, same_policy

    if config.policy == "http":
        from paraagent.agent.policies.http import HttpConfig, HttpPolicy

        assert config.model is not None
        settings = HttpConfig(
            model=config.model, base_url=config.base_url, api_key_env=api_key_env, temperature=config.temperature
        )
        async with HttpPolicy(settings) as policy:
            await policy.check()
            yield same_policy(policy), list(policy.secrets)
    elif config.policy == "oracle":
        yield oracle, []
    else:
        from paraagent.agent.policies.rules import RulesPolicy

        rules: Policy = RulesPolicy()
        yield same_policy(rules), []


def _print_summary(console: Console, summary: Summary) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), title=None)
    for heading in (
        "kind",
        "tasks",
        "success",
        "turns",
        "searches",
        "calls",
        "failed",
        "width",
        "makespan",
        "tokens",
    ):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for name, group in summary.by_kind.items():
        table.add_row(name, *_cells(group))
    table.add_section()
    table.add_row("all", *_cells(summary.overall), style="bold")
    console.print(table)
    console.print(
        "width: actions per acting turn; makespan: time of all actions over their critical path", style="dim"
    )
    if summary.masked:
        console.print(f"{summary.masked} episodes failed outside the agent and are not counted", style="yellow")


def _cells(group: Group) -> list[str]:
    return [
        str(group.episodes),
        f"{group.success:.2f}",
        f"{group.turns:.1f}",
        f"{group.searches:.1f}",
        f"{group.calls:.1f}",
        f"{group.failed_calls:.1f}",
        f"{group.width:.2f}",
        f"{group.makespan_ratio:.2f}",
        f"{group.input_tokens + group.output_tokens:,.0f}",
    ]

"""What `paraagent run` does once its flags are read: plays tasks or a request, and prints what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from paraagent.cli import tasks as task_options
from paraagent.cli.output import EXIT_INTERRUPTED, Output
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.types import JsonObject, Policy, Split

if TYPE_CHECKING:
    from paraagent.agent.settings import Settings
    from paraagent.evaluate.arena import PolicyFor
    from paraagent.evaluate.summary import Group, Summary
    from paraagent.trace.view import EpisodeView


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


def tasks(
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
    arena = Arena(world.catalog, world.index, _settings(config), config.top_k, config.hostile_rate)

    async def play() -> Summary:
        async with _policy(config, api_key_env) as (policy_for, secrets):
            directory.prepare(config.to_json(), overwrite=overwrite)
            with out.text.status(f"sampling {config.limit} tasks..."):
                sampled, _ = take_tasks(world, cast(Split, config.split), kinds, config.seed, config.limit, dials)
            with Board(out.text, len(sampled)) as board:
                episodes = [
                    arena.episode(task, policy_for, run=path.name, config=config.to_json(), watch=board.watch)
                    for task in sampled
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


def request(
    text: str, config: RunConfig, api_key_env: str, path: Path, overwrite: bool, catalog: Path | None, out: Output
) -> None:
    from paraagent.cli.progress import Narrator
    from paraagent.cli.world import open_world
    from paraagent.evaluate import suite
    from paraagent.evaluate.arena import Arena, request_task
    from paraagent.trace.recorder import Recorder, redactor
    from paraagent.trace.view import EpisodeView

    if not text.strip():
        raise UsageError("the request is empty: say what is to be done")
    world = open_world(catalog)
    directory = suite.RunDirectory(path)
    arena = Arena(world.catalog, world.index, _settings(config), config.top_k, config.hostile_rate)
    task = request_task(text, config.seed)
    trace = directory.trace(task.id)

    async def play() -> EpisodeView:
        async with _policy(config, api_key_env) as (policy_for, secrets):
            directory.prepare(config.to_json() | {"request": text}, overwrite=overwrite)
            if trace.exists():
                raise UsageError(f"{trace} exists already: choose another --out, or --overwrite it")
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
    table = Table(box=None, padding=(0, 1, 0, 0))
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

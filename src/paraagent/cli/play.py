"""Plays sampled tasks for `paraagent run` and prints the table of what came of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer
from rich.console import Console
from rich.table import Table

from paraagent.cli import tasks as task_options
from paraagent.cli.config import RunConfig, open_policy
from paraagent.cli.output import EXIT_INTERRUPTED, Output
from paraagent.errors import EnvironmentFault
from paraagent.types import Split

if TYPE_CHECKING:
    from paraagent.evaluate.summary import Group, Summary


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
    arena = Arena(world.catalog, world.index, config.settings(), config.top_k, config.hostile_rate)

    async def play() -> Summary:
        async with open_policy(config, api_key_env, slots=concurrency) as (policy_for, secrets):
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

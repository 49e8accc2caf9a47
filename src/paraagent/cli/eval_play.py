"""Plays benchmarks for `paraagent eval`: under a policy and a paradigm, or to prove that a harness is sound."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from paraagent.cli.eval_config import EvalConfig
from paraagent.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, Output
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.types import JsonObject, Policy

if TYPE_CHECKING:
    from paraagent.cli.eval_open import Opened
    from paraagent.evaluate.benchmarks.base import Benchmark, Item, Points, Tally
    from paraagent.evaluate.summary import Summary
    from paraagent.trace.view import EpisodeView

PolicyForItem = Callable[["Item"], Policy]


@dataclass(frozen=True, slots=True)
class Where:
    """How and where an evaluation runs, without a say in its figures."""

    directory: Path
    api_key_env: str = "OPENAI_API_KEY"
    overwrite: bool = False
    concurrency: int = 8


@dataclass(frozen=True, slots=True)
class Played:
    """A benchmark that was played."""

    items: dict[str, Item]
    tally: Tally
    summary: Summary
    views: dict[str, EpisodeView]
    """Finished episodes by name."""
    directory: Path

    def group(self, episode: str) -> str:
        return self.items[episode].group

    def to_json(self) -> JsonObject:
        summary = self.summary.to_json()
        if self.tally.benchmark.name != "toolenv":
            del summary["by_kind"]  # other benchmarks know no kinds
        return {**summary, **self.tally.to_json(), "traces": str(self.directory / "traces")}


def fresh_directory(benchmark: str) -> Path:
    """Return a run directory that does not exist yet, named by benchmark and time."""
    name = f"{benchmark}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while (path := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return path


def play(opened: Opened, config: EvalConfig, where: Where, out: Output) -> Played:
    """Play items under a policy and keep their traces.

    Raises:
        EnvironmentFault: no episode could be played.
    """
    from paraagent.cli.progress import Board
    from paraagent.evaluate import suite
    from paraagent.evaluate.benchmarks.base import Tally, episodes
    from paraagent.trace.recorder import redactor

    directory = suite.RunDirectory(where.directory)
    items = {item.task.id: item for item in opened.items}
    tally, views = Tally(opened.benchmark), {}

    async def run(board: Board) -> Summary:
        def done(name: str, view: EpisodeView) -> None:
            tally.add(items[name], view)
            views[name] = view
            board.done(name, view)

        async with _policy(opened.benchmark, config, where) as (policy_for, secrets):
            directory.prepare(config.to_json(), overwrite=where.overwrite)
            ready = episodes(
                opened.benchmark,
                opened.items,
                policy_for,
                config.settings(),
                run=directory.path.name,
                config=config.to_json(),
                watch=board.watch,
            )
            redact = redactor(secrets) if secrets else None
            try:
                return await suite.run(ready, directory, concurrency=where.concurrency, redact=redact, on_done=done)
            finally:
                if opened.backend is not None:
                    await opened.backend.close()

    try:
        with Board(out.text, len(items)) as board:
            summary = asyncio.run(run(board))
    except KeyboardInterrupt:
        out.text.print(f"\ninterrupted: {len(views)} episodes are kept in {directory.path}; run again to go on")
        out.finish(tally.to_json())
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if summary.masked and not summary.overall.episodes:
        raise EnvironmentFault(f"no episode could be played, see {directory.traces}: {summary.first_failure}")
    return Played(items, tally, summary, views, directory.path)


def show(played: Played, out: Output) -> None:
    """Print the points by group, and what was spent."""
    tally, spent = played.tally, played.summary.overall
    table = _table(tally.benchmark.unit)
    for name in sorted(tally.groups):
        table.add_row(name, *_cells(tally.groups[name]))
    table.add_section()
    table.add_row("all", *_cells(tally.overall), style="bold")
    out.text.print(table)
    out.text.print(
        f"per task: {spent.turns:.1f} turns, {spent.searches:.1f} searches, {spent.calls:.1f} calls "
        f"({spent.failed_calls:.1f} failed), {spent.input_tokens + spent.output_tokens:,.0f} tokens"
    )
    if played.summary.masked:
        told = f"{played.summary.masked} episodes failed outside the agent and are not counted"
        out.text.print(told, style="yellow")
    out.text.print(f"traces: {played.directory / 'traces'}", soft_wrap=True)


def insist(played: Played, fail_under: float | None, out: Output) -> None:
    """Exit with 1 if too little was solved."""
    success = played.tally.overall.success
    if fail_under is not None and success < fail_under:
        out.text.print(f"success {success:.3f} is under {fail_under}", style="red")
        raise typer.Exit(EXIT_FAILED)


def check(opened: Opened, config: EvalConfig, out: Output) -> None:
    """Prove the harness with policies of known results; exits with 1 if one of them scores otherwise."""
    from paraagent.evaluate.benchmarks import soundness

    bench = opened.benchmark
    with out.text.status(f"replaying {len(opened.items)} items three times..."):
        found = asyncio.run(soundness.check(bench, opened.items, config.settings(), config.seed))
    table = _table(bench.unit)
    for name, points in (
        ("gold replay", found.gold),
        ("spoilt replay", found.spoilt),
        ("  must score", found.expected),
        ("empty policy", found.empty),
    ):
        table.add_row(name, *_cells(points))
    out.text.print(table)
    for line in found.wrong[:10]:
        out.text.print(line, style="red", markup=False)
    out.text.print("the harness is sound" if found.sound else f"{len(found.wrong)} replays scored otherwise")
    out.finish({"benchmark": bench.name, **found.to_json()})
    if not found.sound:
        raise typer.Exit(EXIT_FAILED)


@contextlib.asynccontextmanager
async def _policy(
    benchmark: Benchmark, config: EvalConfig, where: Where
) -> AsyncIterator[tuple[PolicyForItem, list[str]]]:
    """Yield the chooser of policies, adapted to the paradigm, and the secrets that must not be recorded."""
    from paraagent.cli.config import is_general, open_policy
    from paraagent.evaluate.baselines.paradigm import adapt
    from paraagent.evaluate.benchmarks.replays import EmptyPolicy

    way = config.way
    if config.policy == "oracle":
        yield lambda item: adapt(benchmark.gold(item), way, model=False), []
    elif config.policy == "empty":
        yield lambda item: EmptyPolicy(), []
    else:
        general = is_general(config)
        if config.policy == "local" and general and way.dialect == "native":
            raise UsageError("a model on this machine has no function calling of its own: use another --paradigm")
        async with open_policy(config, where.api_key_env, slots=where.concurrency) as (policy_for, secrets):
            adapted: dict[int, Policy] = {}

            def choose(item: Item) -> Policy:
                policy = policy_for(item.task)
                if id(policy) not in adapted:
                    adapted[id(policy)] = adapt(policy, way, model=general)
                return adapted[id(policy)]

            yield choose, secrets


def _table(unit: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "tasks", "solved", "success", unit, "of", "share"):
        table.add_column(heading, justify="right" if heading else "left")
    return table


def _cells(points: Points) -> list[str]:
    return [
        str(points.tasks),
        str(points.solved),
        f"{points.success:.3f}",
        str(points.matched),
        str(points.total),
        f"{points.accuracy:.3f}",
    ]

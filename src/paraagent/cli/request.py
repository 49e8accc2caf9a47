"""Plays a request in a user's own words, with simulated or real tools, and goes on with one that was stopped."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import cast

import msgspec
import typer

from paraagent.agent.past import Past
from paraagent.cli.config import RunConfig, open_policy
from paraagent.cli.output import EXIT_INTERRUPTED, Output
from paraagent.cli.progress import Narrator
from paraagent.cli.world import open_world
from paraagent.clock import Clock, WallClock
from paraagent.env.task import Task
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.evaluate.arena import Arena, episode_start, request_task
from paraagent.evaluate.suite import RunDirectory
from paraagent.trace.reader import unfinished
from paraagent.trace.recorder import Recorder, redactor
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy, Toolbox

Record = Callable[[Callable[[str], str]], Recorder]
"""Opens the recorder of the episode, given what takes secrets out of texts."""
EPISODE = "request"


def play(
    text: str, config: RunConfig, api_key_env: str, path: Path, overwrite: bool, catalog: Path | None, out: Output
) -> None:
    """Play a request from its beginning into a run directory."""

    if not text.strip():
        raise UsageError("the request is empty: say what is to be done")
    directory = RunDirectory(path)
    trace = directory.trace(EPISODE)

    def record(redact: Callable[[str], str]) -> Recorder:
        directory.prepare(config.to_json() | {"request": text}, overwrite=overwrite)
        if trace.exists():
            raise UsageError(f"{trace} exists already: go on with `paraagent resume`, or choose another --out")
        return Recorder(trace, redact=redact)

    _run(_play(text, path.name, config, api_key_env, catalog, record, Past(), out), trace, out)


def resume(trace: Path, api_key_env: str, catalog: Path | None, out: Output) -> None:
    """Go on with a stopped request from its trace."""

    events, _ = unfinished(trace)
    start = EpisodeView(events).start
    if start.task is not None:
        raise UsageError(f"{trace} belongs to a run of tasks: go on with `paraagent run` and the same --out")
    config = RunConfig.from_json(start.config)
    done = sum(1 for _ in EpisodeView(events).calls)
    out.text.print(f"going on after {done} calls of: {start.request}", markup=False)

    def record(redact: Callable[[str], str]) -> Recorder:
        return Recorder.resume(trace, redact=redact)

    _run(_play(start.request, start.run, config, api_key_env, catalog, record, Past(events), out), trace, out)


def _run(work: Coroutine[None, None, EpisodeView], trace: Path, out: Output) -> None:
    try:
        view = asyncio.run(work)
    except KeyboardInterrupt:
        out.text.print(f"\ninterrupted; go on with: paraagent resume {trace}", soft_wrap=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    end = view.end
    assert end is not None
    if end.mask_sample:
        raise EnvironmentFault(f"{end.failure_kind} (go on with: paraagent resume {trace})")
    out.text.print("\nanswer", style="bold")
    out.text.print(end.answer or f"none: the episode ended by {end.stop_reason}", markup=False)
    out.text.print(f"\ntrace: {trace}   (read it: paraagent view {trace})", soft_wrap=True)
    measures = cast(JsonObject, msgspec.to_builtins(view.measures))
    out.finish({"answer": end.answer, "stop_reason": end.stop_reason, "trace": str(trace)} | measures)


async def _play(
    text: str,
    run: str,
    config: RunConfig,
    api_key_env: str,
    catalog: Path | None,
    record: Record,
    past: Past,
    out: Output,
) -> EpisodeView:

    async with open_policy(config, api_key_env) as (policy_for, secrets):
        task = request_task(text, config.seed)
        policy = policy_for(task)
        if config.real_tools():
            recorder = await _with_real_tools(task, run, config, policy, secrets, catalog, record, past, out)
            return EpisodeView(recorder.events)
        world = open_world(catalog)
        arena = Arena(world.catalog, world.index, config.settings(), config.top_k, config.hostile_rate)
        with record(redactor(secrets)) as recorder:
            told = Narrator(out.text)
            await arena.play(task, policy, recorder, run=run, config=config.to_json(), on_event=told, past=past)
        return EpisodeView(recorder.events)


async def _with_real_tools(
    task: Task,
    run: str,
    config: RunConfig,
    policy: Policy,
    secrets: Sequence[str],
    catalog: Path | None,
    record: Record,
    past: Past,
    out: Output,
) -> Recorder:
    from paraagent.agent.loop import Loop
    from paraagent.agent.toolboxes.opening import LIMITS, open_toolboxes

    clock = WallClock(past.at)
    world = _simulated(task, clock, config, catalog) if config.with_catalog else None
    async with open_toolboxes(config.real_tools(), world=world) as box:
        for notice in box.notices:
            out.text.print(notice, markup=False, style="yellow", soft_wrap=True)
        settings = dataclasses.replace(config.settings(), limits=LIMITS, durable=True)
        start = episode_start(task, policy, run, config.to_json(), {"tools": dict(box.digests)})
        with record(redactor([*secrets, *box.secrets])) as recorder:
            told = Narrator(out.text)
            await Loop(start, policy, box, clock, recorder, settings, on_event=told, past=past).run()
    return recorder


def _simulated(task: Task, clock: Clock, config: RunConfig, catalog: Path | None) -> Toolbox:
    """Return the catalog's simulated tools, on the real clock, to be mixed with real ones."""
    from paraagent.env.simulator import SimulatedToolbox

    world = open_world(catalog)
    return SimulatedToolbox(world.catalog, world.index, task, clock, k=config.top_k)

"""`paraagent tasks ...`: sample verifiable tasks, look at one, check a range with the oracle."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast, get_args

import msgspec
import orjson
import typer
from rich.table import Table

from paraagent.cli.catalog import CatalogPath
from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.env.task import Task
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.types import JsonObject, Split, TaskKind

app = typer.Typer(no_args_is_help=True, help="Sample tasks that a program can verify, look at them, check them.")


class SplitName(StrEnum):
    train = "train"
    validation = "validation"
    test_seen = "test-seen"
    test_unseen = "test-unseen"


SplitOption = Annotated[
    SplitName,
    typer.Option("--split", help="Which providers: test-unseen ones never occur in training, test-seen ones do."),
]
KindOption = Annotated[
    str,
    typer.Option(
        "--kind", metavar="KINDS", help=f"Task kinds, by commas, or `all`: {', '.join(get_args(TaskKind))}."
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="First seed; each seed is one attempt at a task.")]
Difficulty = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="One dial for width, depth, distractors, faults and writes.")
]
Width = Annotated[int | None, typer.Option(min=1, max=5, help="Most independent goals.")]
Depth = Annotated[int | None, typer.Option(min=1, max=3, help="Longest chain of calls.")]
Distractors = Annotated[int | None, typer.Option(min=0, max=5, help="Things mentioned that must be left alone.")]
FaultRate = Annotated[float | None, typer.Option(min=0.0, max=0.9, help="Probability that a call fails once.")]
Writes = Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Share of goals that change something.")]


def kinds_of(text: str) -> list[TaskKind]:
    """Read `--kind`; `all` stands for every kind."""
    known = get_args(TaskKind)
    names = list(known) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(f"unknown task kind {unknown[0] if unknown else text!r}: use {', '.join(known)} or all")
    return [cast(TaskKind, name) for name in names]


@app.command()
@guarded
def sample(
    limit: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 10,
    split: SplitOption = SplitName.train,
    kind: KindOption = "all",
    seed: SeedOption = 0,
    difficulty: Difficulty = None,
    width: Width = None,
    depth: Depth = None,
    distractors: Distractors = None,
    fault_rate: FaultRate = None,
    writes: Writes = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the whole records as JSON lines.")
    ] = None,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Sample tasks: requests with the calls that serve them, the facts to state and the state to leave.

    The same catalog, split, kind, seed and dials give the same task everywhere.
    """
    from paraagent.cli.world import dials_from, open_world, take_tasks

    out = Output(as_json)
    dials = dials_from(difficulty, width, depth, distractors, fault_rate, writes)
    tasks, dropped = take_tasks(open_world(catalog), _split(split), kinds_of(kind), seed, limit, dials)
    for task in tasks:
        out.text.print(f"{task.id}", style="bold cyan", markup=False)
        out.text.print(f"  {task.request}", markup=False)
    if out_file is not None:
        try:
            out_file.write_bytes(b"".join(task.to_json() + b"\n" for task in tasks))
        except OSError as error:
            raise EnvironmentFault(f"{out_file}: cannot write the tasks there ({error.strerror})") from error
        out.text.print(f"{len(tasks)} tasks written to {out_file}")
    out.finish({"tasks": [_record(task) for task in tasks], "dropped": dict(dropped)})


@app.command()
@guarded
def show(
    seed: Annotated[int, typer.Argument(min=0, help="The task's seed.")],
    split: SplitOption = SplitName.train,
    kind: Annotated[str, typer.Option("--kind", help="The task's kind.")] = "mixed",
    difficulty: Difficulty = None,
    width: Width = None,
    depth: Depth = None,
    distractors: Distractors = None,
    fault_rate: FaultRate = None,
    writes: Writes = None,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the task of one seed: its request, gold calls, facts, faults and the world it starts in."""
    from paraagent.cli.world import dials_from, open_world

    out = Output(as_json)
    dials = dials_from(difficulty, width, depth, distractors, fault_rate, writes)
    found = open_world(catalog).sampler.sample(_split(split), kinds_of(kind)[0], seed, dials)
    if not isinstance(found, Task):
        raise UsageError(f"seed {seed} gives no task ({found.reason}: {found.detail}); try the next seed")
    out.text.print(found.id, style="bold cyan", markup=False)
    out.text.print(found.request + "\n", markup=False)
    rows: list[tuple[str, object]] = [
        *((f"slot {slot.name}", f"{slot.query} -> {', '.join(slot.tools) or 'no tool'}") for slot in found.slots),
        *((f"call {call.id}", f"{call.tool} {orjson.dumps(call.arguments).decode()}") for call in found.calls),
        *((f"fact {fact.label}", f"{fact.call}.{fact.path} = {fact.value!r}") for fact in found.facts),
        *((f"fault {fault.tool}", f"{fault.kind}, {fault.times} times") for fault in found.faults),
        *((f"entity {entity.id}", f"{entity.api} {entity.resource}") for entity in found.entities),
    ]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for label, value in rows:
        table.add_row(label, str(value))
    out.text.print(table, markup=False)
    out.finish(_record(found))


@app.command()
@guarded
def check(
    limit: Annotated[int, typer.Option(min=1, help="How many seeds to try.")] = 200,
    split: SplitOption = SplitName.train,
    kind: KindOption = "all",
    seed: SeedOption = 0,
    difficulty: Difficulty = None,
    width: Width = None,
    depth: Depth = None,
    distractors: Distractors = None,
    fault_rate: FaultRate = None,
    writes: Writes = None,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Try a range of seeds and replay every kept task with the oracle through the whole loop.

    Prints how many seeds gave a task, why the others did not, and whether the oracle solved all: exit code 1 if not.
    """
    import asyncio

    from paraagent.cli.world import dials_from, open_world
    from paraagent.evaluate.arena import Arena, oracle
    from paraagent.trace.recorder import Recorder

    out = Output(as_json)
    dials = dials_from(difficulty, width, depth, distractors, fault_rate, writes)
    world, kinds = open_world(catalog), kinds_of(kind)
    arena = Arena(world.catalog, world.index)
    dropped: Counter[str] = Counter()
    unsolved: list[str] = []
    kept = 0
    with out.text.status("checking..."):
        for number in range(seed, seed + limit):
            found = world.sampler.sample(_split(split), kinds[number % len(kinds)], number, dials)
            if not isinstance(found, Task):
                dropped[found.reason] += 1
                continue
            kept += 1
            end = asyncio.run(arena.play(found, oracle(found), Recorder()))
            if not end.success:
                unsolved.append(found.id)
    out.text.print(f"{limit} seeds: {kept} tasks kept, {sum(dropped.values())} dropped")
    for reason, count in dropped.most_common():
        out.text.print(f"  {count:>5} {reason} ({count / limit:.1%})")
    solved = kept - len(unsolved)
    out.text.print(f"the oracle solved {solved} of {kept}" + (f"; not {', '.join(unsolved[:5])}" if unsolved else ""))
    out.finish(
        {
            "seeds": limit,
            "kept": kept,
            "dropped": dict(dropped),
            "oracle_success": solved / kept if kept else 0.0,
            "unsolved": list(unsolved),
        }
    )
    if unsolved:
        raise typer.Exit(1)


def _split(name: SplitName) -> Split:
    return name.value


def _record(task: Task) -> JsonObject:
    return cast(JsonObject, msgspec.to_builtins(task))

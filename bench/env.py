"""How many verified tasks a catalog gives, how fast, and whether the oracle solves every one of them.

Needs the built catalog (`paraagent catalog build`). Samples seed after seed, all kinds in turn, until there are
enough tasks; every kept task is then played by the oracle policy through the whole loop, faults included.

    python bench/env.py [--json] [--tasks 20000] [--workers 2] [--split train] [--difficulty 0.3]

Keys:
    tasks_per_s         kept tasks per CPU second, search, gold run and oracle check included
    distinct_tasks      kept tasks with a request of their own
    providers           providers that a gold call of a kept task uses
    kept_share          kept tasks / seeds
    dropped             seeds without a task, by reason
    recall_at_5         slots whose query finds the gold tool or an equivalent among 5 hits, nothing dropped for it
    recall_at_10        the same among 10
    oracle_success      share of kept tasks that the oracle policy solves
    episodes_per_s      oracle episodes per CPU second, prompts and trace included
    call_results_per_s  gold calls that the simulated world answers per CPU second, interfaces compiled before
    episode_kb          memory of one running episode (world, toolbox, context) after its calls, in KiB
    graph_precision     sensible edges / labelled edges (docs/results/graph-labels.csv); unsure counts as wrong
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gc
import json
import time
import tracemalloc
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from paraagent.catalog.store import Catalog, default_path
from paraagent.clock import VirtualClock
from paraagent.env.replay import replay
from paraagent.env.shapes import Dials
from paraagent.env.simulator import SimulatedToolbox
from paraagent.env.task import Task
from paraagent.env.tasks import Dropped, TaskSampler
from paraagent.env.world import World
from paraagent.evaluate.arena import Arena, oracle
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.types import Search, Split, TaskKind

KINDS: tuple[TaskKind, ...] = ("single", "parallel", "chain", "mixed", "recover", "unanswerable", "direct")
CHUNK = 500
"""Seeds that one process takes at a time."""
LABELS = Path(__file__).parent.parent / "docs/results/graph-labels.csv"


@dataclass
class Found:
    """What some seeds gave."""

    seconds: float = 0.0
    episode_seconds: float = 0.0
    seeds: int = 0
    requests: set[str] = field(default_factory=set)
    kept: int = 0
    solved: int = 0
    unsolved: list[str] = field(default_factory=list)
    providers: set[str] = field(default_factory=set)
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, other: Found) -> None:
        for name in ("seconds", "episode_seconds", "seeds", "kept", "solved"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.requests |= other.requests
        self.unsolved += other.unsolved
        self.providers |= other.providers
        self.dropped += other.dropped


@dataclass(frozen=True)
class Job:
    """What a process needs to know."""

    catalog: Path
    split: Split
    dials: Dials


_workplaces: dict[Job, tuple[TaskSampler, SearchIndex]] = {}
"""One sampler and index per process."""


def workplace(job: Job) -> tuple[TaskSampler, SearchIndex]:
    if job not in _workplaces:
        catalog = Catalog.open(job.catalog)
        index = SearchIndex.open(catalog)
        _workplaces[job] = TaskSampler(catalog, index), index
    return _workplaces[job]


def sample(job: Job, first: int, count: int) -> Found:
    """Sample some seeds and play every kept task."""
    sampler, index = workplace(job)
    found = Found(seeds=count)
    tasks: list[Task] = []
    started = time.process_time()
    for seed in range(first, first + count):
        task = sampler.sample(job.split, KINDS[seed % len(KINDS)], seed, job.dials)
        if isinstance(task, Dropped):
            found.dropped[task.reason] += 1
        else:
            tasks.append(task)
    found.seconds = time.process_time() - started
    found.kept = len(tasks)
    found.requests = {task.request for task in tasks}
    tools = {call.tool for task in tasks for call in task.calls}
    found.providers = {tool.provider for name in tools if (tool := sampler.catalog.get(name))}
    started = time.process_time()
    found.unsolved = asyncio.run(play_all(tasks, Arena(sampler.catalog, index)))
    found.solved = len(tasks) - len(found.unsolved)
    found.episode_seconds = time.process_time() - started
    return found


async def play_all(tasks: list[Task], arena: Arena) -> list[str]:
    """Let the oracle play tasks; return the ids of those that it did not solve."""
    ends = [(task.id, await arena.play(task, oracle(task), Recorder())) for task in tasks]
    return [name for name, end in ends if not end.success]


def enough(job: Job, wanted: int, workers: int) -> Found:
    """Sample until `wanted` distinct tasks are kept, in the order of seeds whatever the number of workers."""
    total = Found()
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        first = 0
        while len(total.requests) < wanted:
            firsts = [first + CHUNK * n for n in range(workers)]
            first += CHUNK * workers
            for found in pool.map(sample, [job] * workers, firsts, [CHUNK] * workers):
                total.add(found)
    return total


def recall(job: Job, count: int = 400) -> tuple[float, float]:
    """Return the share of slots whose query finds their tool among 5 and among 10 hits, nothing dropped for it."""
    sampler, index = workplace(job)
    unchecked = TaskSampler(sampler.catalog)
    tasks = unchecked.tasks(job.split, KINDS[:5], range(10**6, 10**6 + count), job.dials)
    slots = [slot for task in tasks for slot in task.slots]
    ranks = []
    for slot in slots:
        names = [hit.tool.name for hit in index.search([Search(slot.name, slot.query)], k=10)[0].hits]
        ranks.append(next((place for place, name in enumerate(names) if name in slot.tools), 10))
    return sum(rank < 5 for rank in ranks) / len(ranks), sum(rank < 10 for rank in ranks) / len(ranks)


def call_rate(job: Job, count: int = 300) -> float:
    """Return gold calls answered per second."""
    sampler, _ = workplace(job)
    tasks = list(sampler.tasks(job.split, ("mixed",), range(count), job.dials))
    for task in tasks:
        replay(World(task.seed, task.entities), task.calls, sampler.interfaces)
    started = time.process_time()
    for task in tasks:
        replay(World(task.seed, task.entities), task.calls, sampler.interfaces)
    return sum(len(task.calls) for task in tasks) / (time.process_time() - started)


def episode_kib(job: Job, count: int = 100) -> float:
    """Return the memory that a world and toolbox hold after a task's calls, in KiB."""
    sampler, index = workplace(job)
    tasks = list(sampler.tasks(job.split, ("mixed",), range(count), job.dials))
    for task in tasks:
        replay(World(task.seed, task.entities), task.calls, sampler.interfaces)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = []
    for task in tasks:
        toolbox = SimulatedToolbox(sampler.catalog, index, task, VirtualClock(), interfaces=sampler.interfaces)
        kept.append((toolbox, replay(toolbox.world, task.calls, sampler.interfaces)))
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / 1024 / len(kept)


def precision() -> float:
    with LABELS.open() as file:
        labels = Counter(row["label"] for row in csv.DictReader(file))
    return labels["sensible"] / labels.total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--split", default="train")
    parser.add_argument("--difficulty", type=float, default=0.3)
    parser.add_argument("--catalog", type=Path, default=default_path())
    options = parser.parse_args()
    job = Job(options.catalog, options.split, Dials.at(options.difficulty))
    workplace(job)
    found = enough(job, options.tasks, options.workers)
    at_5, at_10 = recall(job)
    figures = {
        "tasks_per_s": round(found.kept / found.seconds, 1),
        "distinct_tasks": len(found.requests),
        "providers": len(found.providers),
        "kept_share": round(found.kept / found.seeds, 3),
        "dropped": dict(found.dropped.most_common()),
        "recall_at_5": round(at_5, 3),
        "recall_at_10": round(at_10, 3),
        "oracle_success": found.solved / found.kept,
        "unsolved": found.unsolved[:10],
        "episodes_per_s": round(found.kept / found.episode_seconds, 1),
        "call_results_per_s": round(call_rate(job)),
        "episode_kb": round(episode_kib(job), 1),
        "graph_precision": precision(),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:20} {value}")


if __name__ == "__main__":
    main()

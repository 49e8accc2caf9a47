"""Opens the benchmark that `paraagent eval` was asked for: reads its data and takes the items that are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from paraagent.cli import tasks as task_options
from paraagent.cli.eval_config import EvalConfig
from paraagent.errors import UsageError
from paraagent.types import Split, Tool

if TYPE_CHECKING:
    from paraagent.env.llm_respond import LlmBackend
    from paraagent.evaluate.benchmarks.base import Benchmark, Item

PER_SPLIT = 70
"""Tasks per split of ToolEnv, unless a limit is given."""
_HELD_OUT: tuple[Split, ...] = ("test-seen", "test-unseen")
DATA = Path("data")
"""Where benchmark data is looked for, unless a folder is given."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A benchmark, and the items of it that are to be played."""

    benchmark: Benchmark
    items: list[Item]
    backend: LlmBackend | None = None
    """Plays the tools, and is to be closed after the run."""


def open_benchmark(config: EvalConfig, data: Path | None, catalog: Path | None, cache: Path) -> Opened:
    """Read a benchmark.

    Args:
        cache: where a model that plays the tools keeps its answers.

    Raises:
        EnvironmentFault: its data or the catalog is not there; the message says what is expected where.
        UsageError: it has no split of a name that is wanted.
    """
    if config.benchmark == "toolenv":
        return _toolenv(config, catalog)
    if config.benchmark == "toolbench":
        return open_toolbench(config, data, catalog, cache)
    if config.benchmark == "bfcl":
        return _bfcl(config, data)
    from paraagent.evaluate.benchmarks.apibank import load

    if config.split not in (None, "all"):
        raise UsageError("apibank has no splits: leave --split out")
    bank = load(data or DATA, _others(config, catalog), config.hits)
    return Opened(bank, list(bank.items[: config.limit]))


def open_toolbench(config: EvalConfig, data: Path | None, catalog: Path | None, cache: Path) -> Opened:
    """Read ToolBench; `Opened.benchmark` is a `ToolBench`."""
    from paraagent.evaluate.benchmarks.toolbench import ToolBench
    from paraagent.evaluate.benchmarks.toolbench_data import SPLITS, read

    splits = config.splits(SPLITS)
    backend = _backend(config, cache)
    bench = ToolBench(read(data or DATA), _others(config, catalog), backend=backend, k=config.hits)
    return Opened(bench, config.limited(item for item in bench.items if item.group in splits), backend)


def _toolenv(config: EvalConfig, catalog: Path | None) -> Opened:
    from paraagent.cli.world import dials_from, open_world, take_tasks
    from paraagent.evaluate.benchmarks.toolenv import ToolEnvBenchmark

    known: tuple[Split, ...] = get_args(Split)
    splits = config.splits(known if config.split else _HELD_OUT)
    kinds = task_options.kinds_of(config.kind)
    dials = dials_from(
        config.difficulty, config.width, config.depth, config.distractors, config.fault_rate, config.writes
    )
    world = open_world(catalog)
    tasks = [
        task
        for split in splits
        for task in take_tasks(world, split, kinds, config.seed, config.limit or PER_SPLIT, dials)[0]
    ]
    bench = ToolEnvBenchmark(world.catalog, world.index, tasks, k=config.hits)
    return Opened(bench, list(bench.items))


def _bfcl(config: EvalConfig, data: Path | None) -> Opened:
    from paraagent.evaluate.benchmarks.bfcl import BfclBenchmark
    from paraagent.evaluate.benchmarks.bfcl_data import CATEGORIES, read

    bench = BfclBenchmark(read(data, config.splits(CATEGORIES)), config.hits)
    return Opened(bench, config.limited(bench.items))


def _others(config: EvalConfig, catalog: Path | None) -> Iterator[Tool]:
    """Yield the catalog's tools if the benchmark's own are to be hidden among them."""
    if not config.mixed:
        return
    from paraagent.catalog.store import Catalog

    for tool in Catalog.open(catalog):
        yield replace(tool, returns={})  # answers are not searched, and would take gigabytes


def _backend(config: EvalConfig, cache: Path) -> LlmBackend | None:
    if config.backend is None:
        return None
    from paraagent.env.llm_respond import LlmBackend

    return LlmBackend(config.backend, cache, base_url=config.backend_url)

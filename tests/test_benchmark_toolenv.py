"""ToolEnv as a benchmark: sound over every kind, and spoilt replays lose exactly what depends on the flaw."""

from __future__ import annotations

import asyncio
from random import Random

from paraagent.agent.settings import Settings
from paraagent.catalog.store import Catalog
from paraagent.env.task import Task
from paraagent.env.tasks import TaskSampler
from paraagent.evaluate.benchmarks import soundness
from paraagent.evaluate.benchmarks.replays import EmptyPolicy, spoilt
from paraagent.evaluate.benchmarks.toolenv import ToolEnvBenchmark
from paraagent.search.search import SearchIndex
from paraagent.types import TaskKind

KINDS: tuple[TaskKind, ...] = ("single", "parallel", "chain", "mixed", "recover", "unanswerable", "direct")


def sample(catalog: Catalog, index: SearchIndex, *kinds: TaskKind) -> list[Task]:
    return list(TaskSampler(catalog, index).tasks("train", kinds, range(3 * len(kinds))))


def test_the_harness_is_sound_over_every_kind(catalog: Catalog, index: SearchIndex) -> None:
    tasks = sample(catalog, index, *KINDS)
    bench = ToolEnvBenchmark(catalog, index, tasks)
    found = asyncio.run(soundness.check(bench, bench.items, Settings(durable=False), seed=5))
    assert found.sound, found.wrong
    assert found.gold.solved == found.gold.tasks == len(tasks)
    assert 0 < found.spoilt.solved < len(tasks)
    assert (found.empty.solved, found.empty.matched) == (0, 0)
    assert {item.group for item in bench.items} == {f"train {kind}" for kind in KINDS}


def test_a_flaw_costs_the_calls_that_need_what_it_spoilt(catalog: Catalog, index: SearchIndex) -> None:
    task = next(task for task in sample(catalog, index, "chain") if len(task.calls) == 2)
    matched = {spoilt(task, Random(seed))[1] for seed in range(20)}
    assert matched == {0, 1}  # without the first call the second has no input, without the second the first is done
    assert all(spoilt(task, Random(seed))[1] == spoilt(task, Random(seed))[1] for seed in range(5))


def test_a_task_without_calls_is_spoilt_by_doing_nothing(catalog: Catalog, index: SearchIndex) -> None:
    policy, matched = spoilt(sample(catalog, index, "direct")[0], Random(0))
    assert isinstance(policy, EmptyPolicy)
    assert matched == 0

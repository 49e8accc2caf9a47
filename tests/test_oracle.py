from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from paraagent.agent.context import Context
from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.catalog.store import Catalog
from paraagent.env.shapes import Dials
from paraagent.env.task import FaultSpec, GoldCall, GoldSlot, Task
from paraagent.env.tasks import TaskSampler
from paraagent.errors import UsageError
from paraagent.evaluate.arena import Arena
from paraagent.search.search import SearchIndex
from paraagent.trace.events import EpisodeEnd
from paraagent.trace.recorder import Recorder
from paraagent.types import Reply, TaskKind

KINDS: tuple[TaskKind, ...] = ("single", "parallel", "chain", "mixed", "recover", "unanswerable", "direct")


def play(task: Task, catalog: Catalog, index: SearchIndex, *, linked: bool = True) -> tuple[EpisodeEnd, Context]:
    watched = _Watched(OraclePolicy([task], linked=linked))
    end = asyncio.run(Arena(catalog, index).play(task, watched, Recorder()))
    return end, watched.context


class _Watched:
    """A policy whose context can be looked at afterwards."""

    name = "oracle"

    def __init__(self, policy: OraclePolicy) -> None:
        self._policy = policy
        self.context = Context("")

    async def act(self, context: Context) -> Reply:
        self.context = context
        return await self._policy.act(context)


def kinds(context: Context) -> list[str]:
    return [exchange.turn.kind for exchange in context.exchanges]


def notes(context: Context) -> list[str]:
    return [note for exchange in context.exchanges for note in exchange.notes]


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("dials", [Dials(), Dials.at(1.0)], ids=["easy", "hard"])
def test_oracle_solves_every_task_without_a_protocol_fault(
    catalog: Catalog, index: SearchIndex, dials: Dials, linked: bool
) -> None:
    sampler = TaskSampler(catalog, index)
    tasks = list(sampler.tasks("train", KINDS, range(35), dials))
    assert len(tasks) > 20
    for task in tasks:
        end, context = play(task, catalog, index, linked=linked)
        assert end.success, (task.request, end.checks)
        assert notes(context) == []


def test_whole_dag_runs_in_one_turn_of_linked_calls_or_in_one_per_layer(catalog: Catalog, index: SearchIndex) -> None:
    sampler = TaskSampler(catalog, index)
    for task in sampler.tasks("train", ("mixed",), range(6)):
        _, context = play(task, catalog, index)
        assert kinds(context) == ["exploration", "execution"]
        _, context = play(task, catalog, index, linked=False)
        assert kinds(context) == ["exploration", *["execution"] * task.depth]


def test_direct_is_answered_at_once_and_unanswerable_after_one_search(catalog: Catalog, index: SearchIndex) -> None:
    sampler = TaskSampler(catalog, index)
    direct = next(sampler.tasks("train", ("direct",), range(9)))
    assert kinds(play(direct, catalog, index)[1]) == []
    missing = next(sampler.tasks("train", ("unanswerable",), range(9)))
    assert kinds(play(missing, catalog, index)[1]) == ["exploration"]


def test_passing_failures_are_called_again(catalog: Catalog, index: SearchIndex) -> None:
    sampler = TaskSampler(catalog, index)
    seen = 0
    for task in sampler.tasks("train", ("recover",), range(10)):
        end, context = play(task, catalog, index)
        assert end.success
        seen += sum(not result.ok for result in context.results())
    assert seen >= 5


def test_lasting_failure_is_gone_around_by_the_equivalent_tool(catalog: Catalog, index: SearchIndex) -> None:
    tool = next(tool for tool in catalog if tool.effect == "read" and not tool.parameters.get("required"))
    other = next(
        found
        for found in catalog
        if found.effect == "read" and found.name != tool.name and not found.parameters.get("required")
    )
    task = Task(
        id="t",
        kind="recover",
        split="train",
        seed=1,
        request="List them.",
        slots=(GoldSlot("list", tool.description, (tool.name, other.name)),),
        calls=(GoldCall("c1", tool.name, {}),),
        faults=(FaultSpec(tool.name, "permission", 1_000_000),),
        final_state="",
    )
    _, context = play(task, catalog, index)
    assert [(result.call.name, result.ok) for result in context.results()] == [(tool.name, False), (other.name, True)]


def test_tool_that_never_works_is_admitted(catalog: Catalog, index: SearchIndex) -> None:
    tool = next(tool for tool in catalog if tool.effect == "read" and not tool.parameters.get("required"))
    task = Task(
        id="t",
        kind="recover",
        split="train",
        seed=1,
        request="List them.",
        slots=(GoldSlot("list", tool.description, (tool.name,)),),
        calls=(GoldCall("c1", tool.name, {}),),
        faults=(FaultSpec(tool.name, "unavailable", 1_000_000),),
        final_state="untouched",
    )
    end, _ = play(task, catalog, index)
    assert end.success is False
    assert end.answer is not None
    assert "could not" in end.answer


def test_unknown_request_is_refused() -> None:
    with pytest.raises(UsageError, match="was not given the task"):
        asyncio.run(OraclePolicy([]).act(Context("hello")))


_IN_ANOTHER_PROCESS = """
import asyncio, hashlib, sys
from pathlib import Path
import msgspec
from paraagent.catalog.store import Catalog
from paraagent.env.shapes import Dials
from paraagent.env.tasks import TaskSampler
from paraagent.evaluate.arena import Arena, oracle
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder

catalog = Catalog.open(Path(sys.argv[1]))
index = SearchIndex.build_in_memory(list(catalog))
seen = hashlib.sha256()
for task in TaskSampler(catalog, index).tasks("train", ("mixed", "recover"), range(12), Dials.at(0.8)):
    recorder = Recorder()
    asyncio.run(Arena(catalog, index).play(task, oracle(task), recorder))
    for event in recorder.events:
        seen.update(msgspec.json.encode(event))
print(seen.hexdigest())
"""


def test_equal_seeds_give_equal_episodes_in_every_process(catalog: Catalog) -> None:
    command = [sys.executable, "-c", _IN_ANOTHER_PROCESS, str(catalog.path)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    first, second = (process.communicate(timeout=60)[0] for process in running)
    assert first == second
    assert len(first) == 65

from __future__ import annotations

import asyncio

import pytest
from paraagent.search.search import SearchIndex

from paraagent.agent.context import Context
from paraagent.agent.loop import Loop
from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.agent.settings import Settings
from paraagent.catalog.store import Catalog
from paraagent.clock import VirtualClock
from paraagent.env.interface import Interfaces
from paraagent.env.shapes import Dials
from paraagent.env.simulator import SimulatedToolbox
from paraagent.env.task import FaultSpec, GoldCall, GoldSlot, Task
from paraagent.env.tasks import TaskSampler
from paraagent.env.verify import Outcome, verify
from paraagent.errors import UsageError
from paraagent.trace.events import EpisodeEnd, EpisodeStart
from paraagent.trace.recorder import Recorder
from paraagent.types import TaskKind

KINDS: tuple[TaskKind, ...] = ("single", "parallel", "chain", "mixed", "recover", "unanswerable", "direct")


def play(
    task: Task, catalog: Catalog, index: SearchIndex, *, linked: bool = True, interfaces: Interfaces | None = None
) -> tuple[EpisodeEnd, Context]:
    clock = VirtualClock()
    toolbox = SimulatedToolbox(catalog, index, task, clock, interfaces=interfaces)
    loop = Loop(
        EpisodeStart(version=1, run="r", episode=task.id, request=task.request, policy="oracle"),
        OraclePolicy([task], linked=linked),
        toolbox,
        clock,
        Recorder(None),
        Settings(durable=False),
        verify=lambda results, answer: verify(
            task, Outcome(tuple(results), toolbox.world.hash(), answer), toolbox.tool
        ),
    )
    return asyncio.run(loop.run()), loop.context


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
        end, context = play(task, catalog, index, linked=linked, interfaces=sampler.interfaces)
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
    )
    end, _ = play(task, catalog, index)
    assert not end.success
    assert end.answer is not None
    assert "could not" in end.answer


def test_unknown_request_is_refused() -> None:
    with pytest.raises(UsageError, match="was not given the task"):
        asyncio.run(OraclePolicy([]).act(Context("hello")))

"""ToolEnv: five values, parallel actions, budgets, and episodes that repeat exactly."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paraagent.agent.budget import Budget
from paraagent.catalog.store import Catalog
from paraagent.env.interface import Interfaces
from paraagent.env.replay import replay
from paraagent.env.task import Entity, Fact, FaultSpec, GoldCall, Task
from paraagent.env.toolenv import Action, Step, ToolEnv
from paraagent.env.world import World
from paraagent.errors import UsageError
from paraagent.types import Call, Found, Result, Search

if TYPE_CHECKING:
    from paraagent.search.search import SearchIndex

GET = Call("pinecart_get_customer", {"customer_id": "cus_1"})


@pytest.fixture(scope="module")
def interfaces(catalog: Catalog) -> Interfaces:
    return Interfaces(catalog.get)


@pytest.fixture(scope="module")
def task(catalog: Catalog, interfaces: Interfaces) -> Task:
    tool = catalog.get("pinecart_get_customer")
    assert tool is not None
    calls = (GoldCall("a", "pinecart_update_customer", {"customer_id": "cus_1", "name": "Kim"}),)
    customer = Entity(f"{tool.provider}/{tool.api}", "customer", "cus_1", {"email": "kim@example.org"})
    request = "Rename cus_1 to Kim and tell the address."
    blank = Task("t", "single", "train", 7, request, calls=calls, entities=(customer,))
    done = replay(World(7, blank.entities), calls, interfaces)
    fact = Fact("a", "email", "kim@example.org", "email")
    return replace(blank, final_state=done.state, facts=(fact,))


@pytest.fixture
def env(catalog: Catalog, index: SearchIndex, interfaces: Interfaces) -> ToolEnv:
    return ToolEnv(catalog, index, interfaces=interfaces)


def play(env: ToolEnv, task: Task, actions: Sequence[Action], seed: int | None = None) -> list[Step]:
    async def episode() -> list[Step]:
        assert await env.reset(task, seed) == task.request
        return [await env.step(action) for action in actions]

    return asyncio.run(episode())


RENAME = Call("pinecart_update_customer", {"customer_id": "cus_1", "name": "Kim"})


def test_an_episode_from_search_to_reward(env: ToolEnv, task: Task) -> None:
    searches = [Search("rename", "update a customer"), Search("look", "get a product")]
    explored, executed, answered = play(env, task, [searches, [RENAME], "Done, it is kim@example.org."])
    found, reward, terminated, truncated, info = explored
    assert [one.search for one in found if isinstance(one, Found)] == searches
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["seconds"] == 0.0
    (result,) = executed[0]
    assert isinstance(result, Result)
    assert result.ok
    assert executed[4]["seconds"] == result.ended > 0
    assert answered[:4] == ([], 1.0, True, False)
    assert answered[4]["success"] is True
    assert env.results == (result,)


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        (["It is kim@example.org."], "state"),
        ([[RENAME], "Done."], "fact email"),
        ([[RENAME], [Call("pinecart_delete_customer", {"customer_id": "cus_1"})], "It is kim@example.org."], "state"),
    ],
)
def test_a_wrong_end_earns_nothing_and_says_why(
    env: ToolEnv, task: Task, actions: Sequence[Action], reason: str
) -> None:
    _, reward, terminated, _, info = play(env, task, actions)[-1]
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    checks = info["checks"]
    assert isinstance(checks, dict)
    assert checks[reason] is not True


def test_results_come_in_call_order(env: ToolEnv, task: Task) -> None:
    calls = [GET, Call("pinecart_list_products", {}), Call("nothing_like_it", {}), GET, RENAME]
    results, *_ = play(env, task, [calls])[0]
    assert [result.call for result in results if isinstance(result, Result)] == calls


def test_protocol_text_is_an_action_too(env: ToolEnv, task: Task) -> None:
    text = (
        '<think>x</think>\n<tool_call>{"name": "pinecart_get_customer", "arguments": {"customer_id": "cus_1"}}'
        "</tool_call>\n<tool_call>{broken</tool_call>"
    )
    steps = play(env, task, [text, "<think>hm</think>", "<think>x</think><answer>No.</answer>"])
    first, second = steps[0][0]
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    assert first.ok
    assert second.error is not None
    assert second.error.kind == "invalid_args"
    assert "note" in steps[0][4]
    assert steps[1][:4] == ([], 0.0, False, False)
    assert "note" in steps[1][4]
    assert steps[2][2] is True


@pytest.mark.parametrize(
    ("budget", "actions", "reason", "ran"),
    [
        (Budget(calls=3), [[GET], [GET, RENAME, Call("pinecart_list_products", {})]], "call_limit", 2),
        (Budget(searches=1), [[Search("a", "customer"), Search("b", "order")]], "search_limit", 1),
        (Budget(turns=2), [[GET], [GET]], "turn_limit", 1),
        (Budget(seconds=0.001), [[GET]], "time_limit", 1),
    ],
)
def test_budgets_truncate(
    env: ToolEnv, task: Task, catalog: Catalog, budget: Budget, actions: Sequence[Action], reason: str, ran: int
) -> None:
    env = ToolEnv(catalog, env._index, budget=budget)
    results, reward, terminated, truncated, info = play(env, task, actions)[-1]
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, False, True, reason)
    assert len(results) == ran


def test_there_is_nothing_to_step_before_reset_or_after_the_end(env: ToolEnv, task: Task) -> None:
    with pytest.raises(UsageError, match="reset"):
        asyncio.run(env.step([GET]))
    play(env, task, ["Done."])
    with pytest.raises(UsageError, match="reset"):
        asyncio.run(env.step([GET]))
    with pytest.raises(UsageError, match="all searches or all calls"):
        play(env, task, [[GET, Search("a", "b")]])


def test_an_episode_is_a_function_of_task_seed_and_actions(env: ToolEnv, task: Task) -> None:
    task = replace(task, fault_rate=0.5, faults=(FaultSpec("pinecart_list_products", "rate_limited", 2, 1.0),))
    actions: list[Action] = [
        [Call("pinecart_list_products", {}), Call("pinecart_list_orders", {"status": "paid"}), GET],
        [RENAME, Call("pinecart_create_product", {"title": "Desk", "price": 5, "currency": "EUR"})],
        "It is kim@example.org.",
    ]
    first, state = play(env, task, actions), env.hash()
    assert play(env, task, actions) == first
    assert env.hash() == state
    assert play(env, task, actions, seed=3) != first


def test_many_episodes_run_at_once_without_touching_each_other(
    catalog: Catalog, index: SearchIndex, interfaces: Interfaces, task: Task
) -> None:
    async def episode(rename: bool) -> float:
        env = ToolEnv(catalog, index, interfaces=interfaces)
        await env.reset(task)
        if rename:
            await env.step([RENAME, GET])
        return (await env.step("It is kim@example.org."))[1]

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*(episode(n % 2 == 0) for n in range(20)))

    assert asyncio.run(all_of_them()) == [1.0, 0.0] * 10


def test_snapshot_restore_and_hash(env: ToolEnv, task: Task) -> None:
    async def episode() -> None:
        await env.reset(task)
        saved, before = env.snapshot(), env.hash()
        await env.step([RENAME])
        assert env.hash() == task.final_state != before
        env.restore(saved)
        assert env.hash() == before

    asyncio.run(episode())


def test_an_episode_is_small(env: ToolEnv, task: Task, catalog: Catalog) -> None:
    """100 calls, a third of them writes, leave less than a megabyte behind besides their results."""

    def calls(turn: int) -> list[Call]:
        listed = [Call("pinecart_list_orders", {"limit": 50, "status": status}) for status in ("paid", "shipped")]
        made = [
            Call("pinecart_create_customer", {"email": f"{turn}-{n}@example.org", "name": f"N{turn}{n}"})
            for n in range(4)
        ]
        return [*listed, *made, GET, Call("deskly_tickets_list", {"status": "open"} if turn % 2 else {})]

    async def episode() -> int:
        await env.reset(task)
        await env.step(calls(0))  # compiles what it needs
        await env.reset(task)
        tracemalloc.start()
        for turn in range(12):
            await env.step(calls(turn))
        env.episode.results.clear()
        return tracemalloc.get_traced_memory()[0]

    try:
        assert asyncio.run(episode()) < 1_000_000
    finally:
        tracemalloc.stop()

"""The simulated toolbox under the real scheduler, and the backends behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chat_server import BROKEN, MODEL, Answer, ChatServer
from paraagent.agent.schedule import run_group
from paraagent.catalog.store import Catalog
from paraagent.clock import VirtualClock
from paraagent.env.interface import Interface
from paraagent.env.llm_respond import LlmBackend
from paraagent.env.recorded import RecordedBackend
from paraagent.env.simulator import SimulatedToolbox
from paraagent.env.task import FaultSpec, Task
from paraagent.types import Call, Found, JsonObject, JsonValue, Result, Search, ToolError

TASK = Task("t", "single", "train", 7, "Do it.")


class NoIndex:
    def search(self, searches: Sequence[Search], k: int = 5) -> list[Found]:
        return [Found(one, (), 0, True) for one in searches]


def run(
    catalog: Catalog, groups: Sequence[Sequence[Call]], task: Task = TASK, **options: Any
) -> tuple[list[Result], SimulatedToolbox, float]:
    """Run groups of calls one after the other; return all results, the toolbox and the seconds it took."""
    clock = VirtualClock()
    toolbox = SimulatedToolbox(catalog, NoIndex(), task, clock, **options)

    async def play() -> list[Result]:
        return [result for group in groups for result in await run_group(group, toolbox, clock)]

    return asyncio.run(play()), toolbox, clock.now()


def test_linked_calls_run_as_a_chain_in_simulated_time(catalog: Catalog) -> None:
    calls = [
        Call("pinecart_create_customer", {"email": "ann@example.org", "name": "Ann"}, "c"),
        Call("pinecart_get_customer", {"customer_id": "$c.id"}),
        Call("pinecart_list_products", {}),
    ]
    (made, read, listed), _, seconds = run(catalog, [calls])
    assert made.ok
    assert read.ok
    assert listed.ok
    assert made.value == read.value
    assert read.started >= made.ended
    assert listed.started < made.ended
    assert seconds == max(read.ended, listed.ended)
    assert 0.04 <= seconds <= 1.7


def test_writes_to_one_thing_keep_call_order_and_creates_run_at_once(catalog: Catalog) -> None:
    create = [
        Call("pinecart_create_customer", {"email": f"{n}@example.org", "name": str(n)}, f"c{n}") for n in range(3)
    ]
    made, _, _ = run(catalog, [create])
    assert {result.started for result in made} == {0.0}
    id = made[0].value["id"]
    update = [Call("pinecart_update_customer", {"customer_id": id, "name": name}) for name in ("one", "two")]
    look = Call("pinecart_get_customer", {"customer_id": id})
    results, _, _ = run(catalog, [create, [*update, look]])
    assert results[-1].value["name"] == "two"
    assert results[4].started >= results[3].ended


def test_an_episode_is_a_function_of_task_and_calls(catalog: Catalog) -> None:
    calls = [
        [Call("pinecart_list_orders", {"status": "paid"}), Call("deskly_tickets_list", {})],
        [Call("pinecart_create_product", {"title": "Desk", "price": 5, "currency": "EUR"})],
    ]
    one, two = run(catalog, calls), run(catalog, calls)
    assert one[0] == two[0]
    assert one[1].world.hash() == two[1].world.hash()
    assert one[2] == two[2]
    other = run(catalog, calls, seed=99)  # other latencies, same world
    assert [result.value for result in other[0]] == [result.value for result in one[0]]
    assert other[2] != one[2]


def test_injected_failures_are_marked_and_the_agents_own_are_not(catalog: Catalog) -> None:
    task = Task("t", "recover", "train", 7, "Do it.", faults=(FaultSpec("pinecart_list_orders", "permission", 9),))
    calls = [Call("pinecart_list_orders", {}), Call("pinecart_get_order", {"order_id": "ord_1"}), Call("no_tool", {})]
    refused, unknown, absent = run(catalog, [calls], task)[0]
    assert refused.error is not None
    assert unknown.error is not None
    assert absent.error is not None
    assert (refused.error.kind, refused.error.injected) == ("permission", True)
    assert (unknown.error.kind, unknown.error.injected) == ("not_found", False)
    assert absent.error.kind == "tool_not_found"


def test_a_failed_write_has_not_happened_but_one_of_unknown_outcome_has(catalog: Catalog) -> None:
    call = Call("pinecart_create_customer", {"email": "ann@example.org", "name": "Ann"})
    for kind, happened in (("unavailable", False), ("permission", False), ("outcome_unknown", True)):
        task = Task("t", "recover", "train", 7, "Do it.", faults=(FaultSpec(call.name, kind, 1),))
        (result,), toolbox, _ = run(catalog, [[call]], task)
        assert result.error is not None
        assert result.error.kind == kind
        assert bool(toolbox.world.state()) == happened


def test_wrong_arguments_take_no_time_and_change_nothing(catalog: Catalog) -> None:
    task = Task("t", "recover", "train", 7, "Do it.", faults=(FaultSpec("pinecart_create_customer", "permission"),))
    (result,), toolbox, seconds = run(catalog, [[Call("pinecart_create_customer", {"email": 5})]], task)
    assert result.error is not None
    assert result.error.kind == "invalid_args"
    assert seconds == 0
    assert toolbox.world.state() == {}


def test_what_is_written_is_a_copy(catalog: Catalog) -> None:
    address: JsonObject = {"street": "High Street 1", "city": "Oslo", "postal_code": "0150", "country": "NO"}
    create = Call("pinecart_create_customer", {"email": "ann@example.org", "name": "Ann", "address": address})
    clock = VirtualClock()
    toolbox = SimulatedToolbox(catalog, NoIndex(), TASK, clock)

    async def play() -> list[Result]:
        made = (await run_group([create], toolbox, clock))[0]
        address["city"] = "Rome"
        made.value["email"] = "changed"
        return await run_group([Call("pinecart_get_customer", {"customer_id": made.value["id"]})], toolbox, clock)

    (read,) = asyncio.run(play())
    assert read.value["address"]["city"] == "Oslo"
    assert read.value["email"] == "ann@example.org"


def test_hostile_results_still_fit_their_schema(catalog: Catalog) -> None:
    calls = [
        [Call(name, {}) for name in ("pinecart_list_products", "deskly_tickets_list", "pinecart_list_customers")]
    ]
    clean, hostile = run(catalog, calls)[0], run(catalog, calls, hostile_rate=1.0)[0]
    assert [r.value for r in clean] != [r.value for r in hostile]
    for result in hostile:
        tool = catalog.get(result.call.name)
        assert tool is not None
        assert Interface(tool).returns.is_valid(result.value)


def test_a_snapshot_takes_the_whole_episode_back(catalog: Catalog) -> None:
    task = Task("t", "recover", "train", 7, "Do it.", faults=(FaultSpec("pinecart_list_orders", "unavailable", 3),))
    clock = VirtualClock()
    toolbox = SimulatedToolbox(catalog, NoIndex(), task, clock)
    create = Call("pinecart_create_customer", {"email": "ann@example.org", "name": "Ann"})
    look = Call("pinecart_list_orders", {})

    async def play() -> tuple[list[Result], list[Result]]:
        saved = toolbox.snapshot()
        first = await run_group([create, look], toolbox, clock)
        toolbox.restore(saved)
        assert toolbox.world.state() == {}
        return first, await run_group([create, look], toolbox, clock)

    first, second = asyncio.run(play())
    assert [(r.value, r.error) for r in first] == [(r.value, r.error) for r in second]


def test_recorded_answers_are_replayed_and_nothing_is_made_up(catalog: Catalog) -> None:
    call = Call("pinecart_get_order", {"order_id": "ord_1"})
    lost = Call("pinecart_get_order", {"order_id": "ord_2"})
    recorded = [
        Result(call, call.arguments, {"id": "ord_1", "status": "paid"}),
        Result(lost, lost.arguments, error=ToolError("not_found", "no such order")),
    ]
    other = Call("pinecart_get_order", {"order_id": "ord_3"})
    unheard = Call("pinecart_list_orders", {})
    results, _, _ = run(catalog, [[call, lost, other, unheard]], backend=RecordedBackend(recorded))
    assert results[0].value == {"id": "ord_1", "status": "paid"}
    told = [result.error.message for result in results[1:] if result.error]
    assert told == [
        "no such order",
        "no answer of pinecart_get_order was recorded for these arguments",
        "nothing was recorded of pinecart_list_orders",
    ]


class Rewriter:
    """A model that takes the draft, changes one field, and does what a test says to the text."""

    def __init__(self, field: str, value: JsonValue, dress: Callable[[str], str] = lambda text: text) -> None:
        self.change = {field: value}
        self.dress = dress

    def __call__(self, request: dict[str, Any]) -> Answer:
        draft = json.loads(request["messages"][1]["content"])["draft"]
        return Answer(self.dress(json.dumps({**draft, **self.change})))


def ask_llm(
    catalog: Catalog, server: ChatServer, cache: Path, calls: Sequence[Call]
) -> tuple[list[Result], SimulatedToolbox]:
    async def play() -> tuple[list[Result], SimulatedToolbox]:
        backend = LlmBackend(MODEL, cache, base_url=server.base_url, api_key="k")
        clock = VirtualClock()
        toolbox = SimulatedToolbox(catalog, NoIndex(), TASK, clock, backend=backend)
        try:
            return await run_group(calls, toolbox, clock), toolbox
        finally:
            await backend.close()

    return asyncio.run(play())


@pytest.fixture
def customer(catalog: Catalog) -> str:
    listed = run(catalog, [[Call("pinecart_list_customers", {})]])[0][0].value
    return str(listed["data"][0]["id"])


def test_a_model_rewrites_answers_once(catalog: Catalog, tmp_path: Path, customer: str) -> None:
    call = Call("pinecart_get_customer", {"customer_id": customer})
    with ChatServer(Rewriter("name", "Kim Larsen", "```json\n{}\n```".format)) as server:
        for _ in range(2):
            (result,), _ = ask_llm(catalog, server, tmp_path, [call])
            assert result.value["name"] == "Kim Larsen"
            assert result.value["id"] == customer
        assert len(server.requests) == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Rewriter("email", 5), "breaks the schema"),
        (Rewriter("id", "cus_1"), "lost the identifier"),
        (lambda request: Answer("I would rather not."), "not JSON"),
        (lambda request: BROKEN, "InternalServerError"),
    ],
)
def test_a_model_that_fails_makes_reads_unavailable_and_leaves_writes_as_drafted(
    catalog: Catalog,
    tmp_path: Path,
    customer: str,
    model: Callable[[dict[str, Any]], Answer],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.0)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.0)
    create = Call("pinecart_create_customer", {"email": "ann@example.org", "name": "Ann"})
    read = Call("pinecart_get_customer", {"customer_id": customer})
    with ChatServer(model) as server:
        (failed, made), toolbox = ask_llm(catalog, server, tmp_path, [read, create])
    assert failed.error is not None
    assert failed.error.kind == "unavailable"
    assert told in failed.error.message
    assert made.ok
    assert toolbox.world.state()
    assert not list(tmp_path.iterdir())

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraagent.env.matching import match
from paraagent.env.states import states
from paraagent.env.task import Fact, GoldCall, GoldSlot, Task
from paraagent.env.verify import Outcome, Verdict, equal, verify
from paraagent.types import Call, JsonObject, JsonValue, Result, Tool, ToolError

TOOLS = {
    name: Tool(
        name=name,
        description="",
        parameters={
            "type": "object",
            "properties": {
                "order_id": {"type": "string"},
                "limit": {"type": "integer", "default": 10},
                "note": {"type": "string"},
            },
        },
        returns={"type": "object"},
        effect="create" if name == "create_order" else "read",
    )
    for name in ("create_order", "get_order", "get_order_v2", "list_orders")
}
TASK = Task(
    id="t",
    kind="chain",
    split="train",
    seed=1,
    request="Create an order of 3 and tell me the status.",
    slots=(
        GoldSlot("make", "create order", ("create_order",)),
        GoldSlot("look", "get", ("get_order", "get_order_v2")),
    ),
    calls=(
        GoldCall("c1", "create_order", {"quantity": 3}),
        GoldCall("c2", "get_order", {"order_id": "$c1.order.id"}),
    ),
    facts=(Fact("c2", "status", "shipped", "status"),),
    final_state="after",
)


def done(name: str, arguments: JsonObject, value: JsonValue = None, error: ToolError | None = None) -> Result:
    return Result(Call(name, arguments), arguments, value, error, attempts=1)


CREATED = done("create_order", {"quantity": 3}, {"order": {"id": "ord_7"}})
READ = done("get_order", {"order_id": "ord_7"}, {"status": "on its way"})


def judge(
    *results: Result, answer: str | None = "It is on its way.", state: str = "after", task: Task = TASK
) -> Verdict:
    return verify(task, Outcome(results, state, answer), TOOLS.get)


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def test_right_episode_succeeds_with_values_from_its_own_results() -> None:
    verdict = judge(CREATED, READ)
    assert verdict.success
    assert verdict.matched == (("c1", 0), ("c2", 1))
    assert verdict.reasons == []


def test_wrong_literal_argument_fails_the_call_and_what_hangs_on_it() -> None:
    wrong = done("create_order", {"quantity": 4}, {"order": {"id": "ord_7"}})
    assert failed(judge(wrong, READ, answer="The status is unknown")) == ["call c1", "call c2", "fact status"]


def test_value_from_elsewhere_than_the_own_upstream_result_fails() -> None:
    other = done("get_order", {"order_id": "ord_8"}, {"status": "on its way"})
    assert "call c2" in failed(judge(CREATED, other))


def test_failed_call_is_no_match() -> None:
    refused = done("get_order", {"order_id": "ord_7"}, None, ToolError("timeout", "too slow"))
    assert "call c2" in failed(judge(CREATED, refused))


def test_retried_call_after_a_failure_succeeds() -> None:
    refused = done("get_order", {"order_id": "ord_7"}, None, ToolError("timeout", "too slow"))
    assert judge(CREATED, refused, READ).success


def test_extra_write_shows_in_the_state() -> None:
    assert failed(judge(CREATED, CREATED, READ, state="two orders")) == ["state"]


def test_extra_reads_are_free() -> None:
    assert judge(done("list_orders", {}, []), CREATED, READ, READ).success


def test_equivalent_tool_is_accepted_and_an_unrelated_one_is_not() -> None:
    assert judge(CREATED, done("get_order_v2", {"order_id": "ord_7"}, READ.value)).success
    assert "call c2" in failed(judge(CREATED, done("list_orders", {"order_id": "ord_7"}, READ.value)))


def test_extra_argument_must_equal_its_default() -> None:
    assert judge(CREATED, done("get_order", {"order_id": "ord_7", "limit": 10.0}, READ.value)).success
    assert "call c2" in failed(judge(CREATED, done("get_order", {"order_id": "ord_7", "limit": 11}, READ.value)))
    assert "call c2" in failed(judge(CREATED, done("get_order", {"order_id": "ord_7", "note": "x"}, READ.value)))


def test_missing_fact_and_missing_answer_fail() -> None:
    assert failed(judge(CREATED, READ, answer="Done.")) == ["fact status"]
    assert failed(judge(CREATED, READ, answer=None)) == ["fact status"]
    assert "on its way" in judge(CREATED, READ, answer="Done.").reasons[0]


def test_fact_without_its_call_is_judged_at_the_gold_value_but_the_call_is_missed() -> None:
    assert failed(judge(CREATED, answer="shipped")) == ["call c2"]


def test_one_result_serves_one_gold_call() -> None:
    twice = replace(
        TASK,
        calls=(GoldCall("a", "list_orders", {"limit": 5}), GoldCall("b", "list_orders", {"limit": 5})),
        facts=(),
    )
    call = done("list_orders", {"limit": 5}, [])
    assert failed(judge(call, task=twice)) == ["call b"]
    assert judge(call, call, task=twice).success


def test_each_chain_must_use_its_own_upstream() -> None:
    task = replace(
        TASK,
        calls=(
            GoldCall("a1", "create_order", {"quantity": 1}),
            GoldCall("b1", "create_order", {"quantity": 2}),
            GoldCall("a2", "get_order", {"order_id": "$a1.id"}),
            GoldCall("b2", "get_order", {"order_id": "$b1.id"}),
        ),
        facts=(),
    )
    made = [done("create_order", {"quantity": n}, {"id": f"o{n}"}) for n in (1, 2)]
    reads = [done("get_order", {"order_id": f"o{n}"}, {}) for n in (1, 2)]
    assert judge(*made, *reads, task=task).success
    assert failed(judge(*made, reads[0], reads[0], task=task)) == ["call b2"]


def test_unanswerable_needs_an_admission_and_an_untouched_world() -> None:
    task = replace(TASK, kind="unanswerable", calls=(), facts=(), final_state="before")
    assert judge(answer="I'm sorry, no tool can do this.", state="before", task=task).success
    assert judge(answer="That service does not exist.", state="before", task=task).success
    assert failed(judge(answer="It is done, number 81.", state="before", task=task)) == ["declined"]
    assert judge(answer="It was removed or is not available.", state="before", task=task).success
    assert judge(answer="Whether it exists or not, I cannot do this.", state="before", task=task).success
    assert judge(answer="I asked whether it exists but could not find it.", state="before", task=task).success
    assert judge(answer="Tell me if so\nI cannot do this", state="before", task=task).success
    for thought in (
        "Give the answer, or that it cannot be done.",
        "Say so if it is not possible.",
        "Say if no tool fits.",
    ):
        assert failed(judge(answer=thought, state="before", task=task)) == ["declined"]
    assert failed(judge(answer="I cannot do this.", state="changed", task=task)) == ["state"]
    assert failed(judge(answer=None, state="before", task=task)) == ["declined"]


def test_direct_needs_the_literal_answer() -> None:
    task = replace(TASK, kind="direct", calls=(), facts=(), literal_answer="1482", final_state="")
    assert judge(answer="That makes 1,482 pens.", state="", task=task).success
    assert failed(judge(answer="That makes 14820.", state="", task=task)) == ["answer"]


def test_verdict_goes_into_a_trace() -> None:
    assert judge(CREATED, READ).to_json() == {"call c1": True, "call c2": True, "state": True, "fact status": True}
    assert judge(CREATED, READ, answer="").to_json()["fact status"] == "the answer does not state 'on its way'"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (10, 10.0, True),
        (10, "10", False),
        (True, 1, False),
        (True, True, True),
        ("Open", "open", False),
        ([1, 2], [1, 2.0], True),
        ([1], [1, 1], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        (None, None, True),
        (None, False, False),
    ],
)
def test_equality_of_arguments(left: JsonValue, right: JsonValue, same: bool) -> None:
    assert equal(left, right) is same
    assert equal(right, left) is same


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("The order is Open.", "open"),
        ("It is in transit now", "in_transit"),
        ("Total: $1,482.50.", 1482.5),
        ("about 12.35 kg", 12.3456),
        ("It has 12 items.", 12),
        ("It ends on March 3, 2026.", "2026-03-03"),
        ("It ends on 3 March 2026 at 10:20.", "2026-03-03T10:20:00Z"),
        ("It ends on 2026-03-03 at 10:20:30 UTC", "2026-03-03T10:20:30+00:00"),
        ("At 2026-03-03 1:05 pm.", "2026-03-03T13:05:00"),
        ("Mail ann@example.com.", "ann@example.com"),
        ("(C++)", "C++"),
        ("It is true.", True),
        ("-5 degrees", -5),
    ],
)
def test_states_tolerates_formatting(answer: str, value: JsonValue) -> None:
    assert states(answer, value)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("It was reopened.", "open"),
        ("order cus_12", 12),
        ("2026-03-12", 12),
        ("version 1.12.3", 12),
        ("120", 12),
        ("12.5", 12),
        ("12.3", 12.3456),
        ("It ends on March 4, 2026.", "2026-03-03"),
        ("It ends on March 3, 2026.", "2026-03-03T10:20:00Z"),
        ("nothing", ""),
        ("None", None),
        ("anything", ["anything"]),
    ],
)
def test_states_refuses_accidents(answer: str, value: JsonValue) -> None:
    assert not states(answer, value)


graphs = st.lists(st.lists(st.integers(0, 4), unique=True, max_size=4), max_size=5)


@given(graphs)
@settings(max_examples=200)
def test_matching_is_valid_and_as_large_as_brute_force_finds(neighbours: list[list[int]]) -> None:
    found = match(neighbours)
    used = [right for right in found if right is not None]
    assert len(used) == len(set(used))
    assert all(right is None or right in neighbours[left] for left, right in enumerate(found))
    best = max(
        sum(right in near for near, right in zip(neighbours, order, strict=False)) for order in permutations(range(5))
    )
    assert len(used) == best

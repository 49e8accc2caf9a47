"""The scheduler: one result per call, links, conflicts, limits, cancellation; property tests over random groups."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraagent.agent.conflicts import conflict, link_order
from paraagent.agent.limits import Limits, Servers
from paraagent.agent.prepare import Run, canonical
from paraagent.agent.schedule import GRACE, CallGroup, run_group
from paraagent.clock import VirtualClock, WallClock
from paraagent.errors import ErrorKind, ToolFailure, UsageError
from paraagent.protocol import links
from paraagent.types import Call, EffectKind, Effects, Found, JsonObject, JsonValue, Result, Search, Tool

UNLIMITED = Limits(timeout=None, per_server=None)
TOOLS: dict[str, EffectKind] = {"read": "read", "write": "update", "undeclared": "action"}


@dataclass
class Box:
    """A toolbox whose calls say themselves how they behave.

    Arguments: `on` (the id they touch; a missing one touches all), `at` (resource), `seconds`, `fail` (a kind, or a
    list with one kind or "" per attempt), `server`, `value`. A call answers `{"id": on, "ok": true}`, or `value`.
    """

    clock: VirtualClock
    log: list[tuple[str, JsonObject, float, float]] = field(default_factory=list)
    """Tool, arguments, begin and end of each invocation, in order of their ends."""
    invoked: dict[bytes, int] = field(default_factory=dict)
    in_flight: int = 0
    peak: int = 0

    async def search(self, searches: Sequence[Search]) -> list[Found]:
        return []

    def tool(self, name: str) -> Tool | None:
        kind = TOOLS.get(name.split("_")[0])
        return None if kind is None else Tool(name, "", {}, {}, kind)

    def suggestions(self, name: str) -> list[str]:
        return ["read", "write"]

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        resource = f"shop/{arguments.get('at', 'order')}"
        keys = frozenset({f"{resource}/{arguments['on']}" if "on" in arguments else resource})
        if tool.name.startswith("undeclared"):
            return Effects(exclusive=True)
        return Effects(reads=keys) if tool.name.startswith("read") else Effects(writes=keys)

    def server(self, tool: Tool) -> str:
        return tool.name.partition("_")[2]

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        begin = self.clock.now()
        number = self.invoked[canonical(arguments)] = self.invoked.get(canonical(arguments), 0) + 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await self.clock.sleep(number_of(arguments.get("seconds", 1.0)))
        finally:
            self.in_flight -= 1
        self.log.append((tool.name, arguments, begin, self.clock.now()))
        fail = arguments.get("fail", "")
        kinds: Sequence[JsonValue] = fail if isinstance(fail, list) else [fail] * number
        if number <= len(kinds) and (kind := kinds[number - 1]):
            raise failure(kind, arguments)
        return arguments.get("value", {"id": arguments.get("on"), "ok": True})


def failure(kind: JsonValue, arguments: JsonObject) -> Exception:
    if kind == "crash":
        return ValueError("x" * 5000)
    retry_after = arguments.get("retry_after")
    return ToolFailure(kind, "on purpose", retry_after=None if retry_after is None else number_of(retry_after))  # type: ignore[arg-type]


def number_of(value: JsonValue) -> float:
    assert isinstance(value, int | float)
    return float(value)


@dataclass
class Log:
    """An observer that writes down what it is told."""

    lines: list[str] = field(default_factory=list)
    results: dict[int, Result] = field(default_factory=dict)

    def call_started(
        self, index: int, call: Call, tool: Tool, arguments: JsonObject, effects: Effects, at: float
    ) -> None:
        self.lines.append(f"{at:g} start {index}")

    def call_ended(self, index: int, result: Result) -> None:
        assert index not in self.results
        self.results[index] = result
        kind = result.error.kind if result.error else "ok"
        self.lines.append(f"{result.ended:g} {kind} {index}")


def run(
    calls: Sequence[Call], *, limits: Limits | None = None, known: Mapping[str, JsonValue] | None = None
) -> tuple[list[Result], Box, Log]:
    clock = VirtualClock()
    box, log = Box(clock), Log()
    group = run_group(calls, box, clock, limits=limits, observer=log, known=known)

    async def main() -> list[Result]:
        return await asyncio.wait_for(clock.spawn(group), 10.0)  # a group that hangs must fail the test

    results = asyncio.run(main())
    assert [result.call for result in results] == list(calls)
    assert list(map(log.results.get, range(len(calls)))) == results
    return results, box, log


def read(on: JsonValue = "1", *, id: str | None = None, name: str = "read", **arguments: JsonValue) -> Call:
    return Call(name, {"on": on, **arguments}, id)


def write(on: JsonValue = "1", *, id: str | None = None, name: str = "write", **arguments: JsonValue) -> Call:
    return Call(name, {"on": on, **arguments}, id)


def kinds(results: Sequence[Result]) -> list[ErrorKind | None]:
    return [result.error.kind if result.error else None for result in results]


def messages(results: Sequence[Result]) -> list[str]:
    return [result.error.message if result.error else "" for result in results]


def times(results: Sequence[Result]) -> list[tuple[float, float]]:
    return [(result.started, result.ended) for result in results]


# Isolation and order


def test_no_calls_no_results() -> None:
    assert run([])[0] == []


def test_results_come_in_call_order_whatever_ends_first() -> None:
    results, _, log = run([read("a", seconds=3), read("b", seconds=1), read("c", seconds=2)])
    assert [result.value for result in results] == [{"id": on, "ok": True} for on in "abc"]
    assert times(results) == [(0, 3), (0, 1), (0, 2)]
    assert log.lines == ["0 start 0", "0 start 1", "0 start 2", "1 ok 1", "2 ok 2", "3 ok 0"]


@pytest.mark.parametrize("kind", ["not_found", "crash", "unavailable", "permission"])
def test_a_failure_does_not_touch_its_siblings(kind: str) -> None:
    results, _, _ = run([read("a", seconds=2), read("b", fail=kind), write("c", seconds=3)])
    assert [result.ok for result in results] == [True, False, True]


def test_an_unexpected_exception_becomes_a_short_tool_error() -> None:
    results, _, _ = run([read(fail="crash")])
    assert kinds(results) == ["tool_error"]
    assert messages(results)[0].startswith("ValueError: xxx")
    assert len(messages(results)[0]) == 500


def test_an_unknown_tool_is_told_with_close_names() -> None:
    results, box, log = run([Call("reed", {}), read()])
    assert kinds(results) == ["tool_not_found", None]
    assert messages(results)[0] == "no tool is named 'reed'; close names: read, write"
    assert (results[0].attempts, len(box.log), log.lines[0]) == (0, 1, "0 tool_not_found 0")


class Odd:
    """Neither JSON nor willing to be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("value", [Odd(), {1, 2}, {"a": datetime.date(2026, 1, 1)}, 2**70, "\ud800", {1: "a"}, b"x"])
def test_an_answer_that_is_no_json_is_a_tool_error(value: object) -> None:
    call = Call("read", {})
    clock = VirtualClock()
    box = Box(clock)

    async def answer(tool: Tool, arguments: JsonObject) -> JsonValue:
        return value  # type: ignore[return-value]

    box.call = answer  # type: ignore[method-assign]
    results = asyncio.run(run_group([call], box, clock))
    assert kinds(results) == ["tool_error"]
    assert "not JSON" in messages(results)[0]


def test_a_result_does_not_change_when_the_tool_changes_its_state_later() -> None:
    state: JsonObject = {"total": 1}
    clock = VirtualClock()
    box = Box(clock)

    async def answer(tool: Tool, arguments: JsonObject) -> JsonValue:
        return state

    box.call = answer  # type: ignore[method-assign]
    results = asyncio.run(run_group([read()], box, clock))
    state["total"] = 2
    assert results[0].value == {"total": 1}


@pytest.mark.parametrize("broken", ["tool", "suggestions", "server", "effects"])
def test_a_toolbox_that_breaks_fails_no_sibling(broken: str) -> None:
    clock = VirtualClock()
    box = Box(clock)
    usual = getattr(box, broken)

    def breaks(first: object, *rest: object) -> object:
        name = first.name if isinstance(first, Tool) else first
        if name in ("write", "nope"):
            raise KeyError("broken")
        return usual(first, *rest)

    setattr(box, broken, breaks)
    bad = Call("nope" if broken == "suggestions" else "write", {})
    results = asyncio.run(run_group([bad, read()], box, clock))
    assert results[1].ok
    assert kinds(results)[0] == (None if broken == "effects" else "tool_error")
    if broken == "effects":  # undeclared: it ran alone
        assert times(results) == [(0, 1), (1, 2)]


# Conflicts


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (Effects(reads=frozenset({"a/b/1"})), Effects(reads=frozenset({"a/b/1"})), False),
        (Effects(reads=frozenset({"a/b/1"})), Effects(writes=frozenset({"a/b/1"})), True),
        (Effects(writes=frozenset({"a/b/1"})), Effects(writes=frozenset({"a/b/1"})), True),
        (Effects(writes=frozenset({"a/b/1"})), Effects(writes=frozenset({"a/b/12"})), False),
        (Effects(writes=frozenset({"a/b/1"})), Effects(reads=frozenset({"a/b"})), True),
        (Effects(writes=frozenset({"a/b"})), Effects(reads=frozenset({"a/b/1"})), True),
        (Effects(writes=frozenset({"a/b"})), Effects(writes=frozenset({"a/bc"})), False),
        (Effects(exclusive=True), Effects(), True),
        (Effects(), Effects(), False),
    ],
)
def test_conflict(a: Effects, b: Effects, expected: bool) -> None:
    assert conflict(a, b) is conflict(b, a) is expected


def test_reads_share_and_writes_exclude_in_call_order() -> None:
    results, _, _ = run([read("1"), read("1", seconds=2), write("1"), read("1"), write("2"), read("2")])
    assert times(results) == [(0, 1), (0, 2), (2, 3), (3, 4), (0, 1), (1, 2)]


def test_a_prefix_covers_the_ids_below_it() -> None:
    listing = Call("read", {"at": "order"})
    results, _, _ = run([write("1"), listing, write("2"), Call("read", {"at": "item"})])
    assert times(results) == [(0, 1), (1, 2), (2, 3), (0, 1)]


def test_an_undeclared_effect_runs_alone() -> None:
    results, _, _ = run([read("1"), Call("undeclared", {}), read("2")])
    assert times(results) == [(0, 1), (1, 2), (2, 3)]


def test_a_failed_write_lets_the_next_one_go() -> None:
    results, _, _ = run([write("1", fail="conflict"), write("1", seconds=2)])
    assert kinds(results) == ["conflict", None]
    assert times(results) == [(0, 1), (1, 3)]


# Identical calls


def test_identical_calls_run_once_and_share_the_result() -> None:
    results, box, _ = run([write("1", a=1, b=2), write("2"), Call("write", {"b": 2, "a": 1, "on": "1"}), write("2")])
    assert [result.shared_with for result in results] == [None, None, 0, 1]
    assert [result.attempts for result in results] == [1, 1, 0, 0]
    assert results[2].value == results[0].value
    assert len(box.log) == 2


def test_equal_in_python_is_not_identical() -> None:
    results, box, _ = run([read("1", n=1), read("1", n=True), read("1", n=1.0), read("1", n="1")])
    assert [result.shared_with for result in results] == [None] * 4
    assert len(box.log) == 4


def test_identical_calls_share_a_failure_too() -> None:
    results, box, _ = run([read(fail="not_found")] * 64)
    assert kinds(results) == ["not_found"] * 64
    assert len(box.log) == 1


def test_a_write_in_between_makes_an_identical_read_run_again() -> None:
    results, _, _ = run([read("1"), write("1"), read("1"), read("1"), write("2")])
    assert [result.shared_with for result in results] == [None, None, None, 2, None]
    assert times(results)[2:4] == [(2, 3), (2, 3)]


def test_what_links_to_a_shared_result_gets_it() -> None:
    results, _, _ = run([read("7", id="a"), read("7", id="b"), write("$b.id")])
    assert results[1].shared_with == 0
    assert results[2].arguments == {"on": "7"}


# Links


def test_a_link_waits_for_its_call_and_takes_its_value() -> None:
    results, _, _ = run([write("$a.id", id="b"), read("42", id="a", seconds=2), read("$b.id")])
    assert [result.arguments["on"] for result in results] == ["42", "42", "42"]
    assert times(results) == [(2, 3), (0, 2), (3, 4)]
    assert results[0].call.arguments == {"on": "$a.id"}


def test_links_reach_results_of_earlier_turns_but_those_of_this_turn_go_first() -> None:
    results, _, _ = run([read("$old.id"), read("$a.id"), read("new", id="a")], known={"old": {"id": "x"}, "a": {}})
    assert [result.arguments["on"] for result in results] == ["x", "new", "new"]


def test_an_escaped_dollar_is_plain_text() -> None:
    results, _, _ = run([read("$$total")])
    assert results[0].arguments == {"on": "$total"}


def test_a_path_that_does_not_exist_fails_that_call_only() -> None:
    results, box, _ = run([read("1", id="a"), write("$a.nope"), write("2")])
    assert kinds(results) == [None, "invalid_args", None]
    assert "'nope'" in messages(results)[1]
    assert "id, ok" in messages(results)[1]
    assert len(box.log) == 2


def test_an_unknown_id_fails_at_once_and_names_those_there_are() -> None:
    results, _, _ = run([read("1", id="a", seconds=5), write("$b.id", also="$a.id")], known={"old": 1})
    assert kinds(results) == [None, "invalid_args"]
    assert "'b'" in messages(results)[1]
    assert "a, old" in messages(results)[1]
    assert times(results)[1] == (0, 0)


def test_a_failed_call_fails_all_that_link_to_it_and_no_other() -> None:
    results, box, _ = run(
        [read("1", id="a", fail="not_found"), write("$a.id", id="b"), write("$b.id"), read("9", seconds=4)]
    )
    assert kinds(results) == ["not_found", "cancelled", "cancelled", None]
    assert messages(results)[1] == "not run: it needs the result of $a, which failed (not_found)"
    assert messages(results)[2] == "not run: it needs the result of $b, which failed (cancelled)"
    assert len(box.log) == 2


def test_links_in_a_circle_fail_with_the_circle_named() -> None:
    results, box, _ = run(
        [read("$b.id", id="a"), read("$a.id", id="b"), read("$c.id", id="c"), read("$a.id", id="d"), read("1")]
    )
    assert kinds(results) == ["invalid_args", "invalid_args", "invalid_args", "cancelled", None]
    assert "$a -> $b -> $a" in messages(results)[0]
    assert "$c -> $c" in messages(results)[2]
    assert len(box.log) == 1


def test_a_second_call_of_the_same_id_fails_and_the_first_keeps_it() -> None:
    results, _, _ = run([read("1", id="a"), read("2", id="a"), read("$a.id")])
    assert kinds(results) == [None, "invalid_args", None]
    assert messages(results)[1] == "the id 'a' is taken by call 1 of this turn; use another id"
    assert results[2].arguments == {"on": "1"}


def test_a_link_against_the_call_order_cannot_deadlock_with_a_conflict() -> None:
    results, _, _ = run([write("$b.id", id="a"), write("1", n=1), write("1", id="b")])
    assert kinds(results) == [None, None, None]
    assert times(results) == [(1, 2), (2, 3), (0, 1)]  # b is pulled forward by a, the rest keeps its order


def test_calls_whose_ids_turn_out_different_do_not_wait_for_each_other() -> None:
    results, _, _ = run([read("1", id="a"), read("2", id="b"), write("$a.id"), write("$b.id")])
    assert times(results)[2:] == [(1, 2), (1, 2)]


def test_a_later_call_waits_while_an_open_link_may_still_conflict() -> None:
    results, _, _ = run(
        [read("1", id="a", seconds=3), write("$a.id"), write("1", n=1), write("2"), write("9", at="item")]
    )
    assert times(results)[1:] == [(3, 4), (4, 5), (3, 4), (0, 1)]


def test_even_effects_that_were_foreseen_wrongly_never_overlap() -> None:
    calls = [
        read("7", id="a", seconds=2, value={"at": "item"}),
        write("1", at="$a.at"),  # without `at` the box says shop/order/1, in the end it is shop/item/1
        write("1", at="item", seconds=5),
        write("1", at="item", n=2),
    ]
    results, _, _ = run(calls)
    assert times(results) == [(0, 2), (5, 6), (0, 5), (6, 7)]


def test_a_long_chain_and_a_long_chain_of_failures() -> None:
    chain = [read("1", id="c0"), *(read(f"$c{n}.id", id=f"c{n + 1}", n=n, seconds=0) for n in range(600))]
    results, _, _ = run(list(reversed(chain)))
    assert all(result.ok for result in results)
    results, box, _ = run([read("1", id="c0", fail="not_found"), *chain[1:]])
    assert kinds(results) == ["not_found", *["cancelled"] * 600]
    assert len(box.log) == 1


# Time-outs, repeats, limits


def test_a_hung_read_times_out_after_its_repeats_and_siblings_keep_their_results() -> None:
    results, box, _ = run([read("1", seconds=1e9), read("2")], limits=Limits(timeout=10, attempts=2, backoff=1))
    assert kinds(results) == ["timeout", None]
    assert messages(results)[0] == "no answer within 10 s"
    assert times(results) == [(0, 21), (0, 1)]
    assert (results[0].attempts, box.in_flight) == (2, 0)


@pytest.mark.parametrize(
    "call", [write("1", seconds=1e9), write("1", fail="timeout"), Call("undeclared", {"seconds": 99})]
)
def test_a_write_that_times_out_is_of_unknown_outcome_and_not_repeated(call: Call) -> None:
    results, _, _ = run([call, read("2", at="item")], limits=Limits(timeout=10))
    assert kinds(results) == ["outcome_unknown", None]
    assert results[0].attempts == 1
    assert "may have happened" in messages(results)[0]


@pytest.mark.parametrize(
    ("call", "attempts", "ended", "kind"),
    [
        (read(fail=["unavailable", "unavailable"]), 3, 1 + 0.5 + 1 + 1.0 + 1, None),
        (read(fail=["timeout"]), 2, 1 + 0.5 + 1, None),
        (read(fail="unavailable"), 3, 1 + 0.5 + 1 + 1.0 + 1, "unavailable"),
        (read(fail="not_found"), 1, 1, "not_found"),
        (read(fail="crash"), 1, 1, "tool_error"),
        (read(fail="cancelled"), 1, 1, "cancelled"),
        (write(fail=["unavailable"]), 1, 1, "unavailable"),
        (write(fail=["rate_limited"]), 2, 1 + 0.5 + 1, None),
        (write(fail=["rate_limited"], retry_after=7), 2, 1 + 7 + 1, None),
        (read(fail=["unavailable"], retry_after=7), 2, 1 + 7 + 1, None),
        (read(fail="rate_limited", retry_after=1e9), 1, 1, "rate_limited"),
        (read(fail=["rate_limited"], retry_after=-5), 2, 1 + 0.5 + 1, None),
        (Call("undeclared", {"fail": ["unavailable"]}), 1, 1, "unavailable"),
    ],
)
def test_a_call_is_repeated_only_if_that_is_safe_and_may_help(
    call: Call, attempts: int, ended: float, kind: ErrorKind | None
) -> None:
    results, box, log = run([call])
    assert (results[0].attempts, results[0].ended, kinds(results)[0]) == (attempts, ended, kind)
    assert len(box.log) == attempts
    assert len(log.lines) == 2  # one start, one end


def test_a_rate_limit_pauses_its_server_and_no_other() -> None:
    calls = [
        read("1", name="read_a", fail=["rate_limited"], retry_after=10),
        read("2", name="read_b", seconds=2),
        read("$x.id", name="read_a"),
        read("$x.id", name="read_b"),
        read("3", name="read_b", id="x", seconds=3),
    ]
    results, _, _ = run(calls)
    assert times(results) == [(0, 12), (0, 2), (11, 12), (3, 4), (0, 3)]


def test_a_pause_outlives_its_group_if_servers_are_shared() -> None:
    async def main() -> list[Result]:
        clock = VirtualClock()
        box, servers = Box(clock), Servers[Run](clock, 8)
        limited = read("1", fail="rate_limited", retry_after=10)
        one = Limits(attempts=1)
        first = await run_group([limited], box, clock, limits=one, servers=servers)
        return first + await run_group([read("2")], box, clock, servers=servers)

    results = asyncio.run(main())
    assert kinds(results) == ["rate_limited", None]
    assert times(results) == [(0, 1), (11, 12)]


def test_a_short_pause_does_not_cut_a_long_one() -> None:
    calls = [read("1", fail="rate_limited", retry_after=20), read("2", fail="rate_limited", retry_after=3, seconds=2)]
    results, _, _ = run(
        [*calls, read("$x.id"), read("3", name="read_b", id="x", seconds=4)], limits=Limits(attempts=1)
    )
    assert times(results)[2] == (21, 22)


def test_at_most_so_many_calls_are_in_flight_per_server() -> None:
    results, box, _ = run([read(str(n)) for n in range(10)], limits=Limits(per_server=4))
    assert box.peak == 4
    assert [started for started, _ in times(results)] == [0] * 4 + [1] * 4 + [2] * 2
    results, box, _ = run([read(str(n), name=f"read_{n % 2}") for n in range(10)], limits=Limits(per_server=4))
    assert box.peak == 8


def test_several_groups_share_a_server_on_one_clock() -> None:
    async def main() -> int:
        clock = VirtualClock()
        box, servers = Box(clock), Servers[Run](clock, 3)
        calls = [read(str(n)) for n in range(6)]
        groups = [clock.spawn(run_group(calls, box, clock, servers=servers)) for _ in range(3)]
        for group in groups:
            assert all(result.ok for result in await clock.wait(group))
        assert clock.now() == 6.0
        return box.peak

    assert asyncio.run(main()) == 3


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"per_server": 0}, {"attempts": 0}, {"backoff": -1}])
def test_limits_must_make_sense(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        dataclasses.replace(Limits(), **wrong)


# Cancellation


def test_a_deadline_keeps_finished_results_and_stops_the_rest() -> None:
    async def main() -> tuple[list[Result], Box, float]:
        clock = VirtualClock()
        box = Box(clock)
        calls = [read("1"), read("2", seconds=9, id="a"), write("3", seconds=9), write("$a.id"), write("3", n=2)]
        results = await clock.spawn(run_group(calls, box, clock, deadline=5.0))
        now = clock.now()
        await clock.spawn(clock.sleep(100.0))
        return results, box, now

    results, box, now = asyncio.run(main())
    assert kinds(results) == [None, "cancelled", "outcome_unknown", "cancelled", "cancelled"]
    assert messages(results)[1] == "cancelled: the time budget is used up"
    assert now == 5.0
    assert [tool for tool, *_ in box.log] == ["read"]  # neither the read nor the write went on


def test_a_deadline_that_has_passed_starts_nothing() -> None:
    clock = VirtualClock()
    box = Box(clock)
    results = asyncio.run(run_group([write(), read()], box, clock, deadline=0.0))
    assert kinds(results) == ["cancelled", "cancelled"]
    assert not box.invoked


def test_a_group_can_be_cancelled_with_a_reason_even_while_it_waits_to_repeat() -> None:
    async def main() -> list[Result]:
        clock = VirtualClock()
        group = CallGroup([read(fail="unavailable"), write(), read("2", at="item")], Box(clock), clock)
        clock.call_later(1.2, group.cancel, "enough")
        return await group.run()

    results = asyncio.run(main())
    assert kinds(results) == ["cancelled", "cancelled", None]
    assert messages(results)[0] == "cancelled: enough"
    assert results[0].attempts == 1


def test_cancelling_the_caller_stops_the_work_and_tells_the_observer_before_it_propagates() -> None:
    async def main() -> tuple[Log, Box]:
        clock = VirtualClock()
        box, log = Box(clock), Log()
        calls = [read("1"), read("2", seconds=9), write("3", seconds=9), write("3", n=2)]
        task = clock.spawn(run_group(calls, box, clock, observer=log))
        clock.call_later(5.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await clock.wait(task)
        assert clock.now() == 5.0
        await clock.spawn(clock.sleep(100.0))
        return log, box

    log, box = asyncio.run(main())
    assert kinds([log.results[n] for n in range(4)]) == [None, "cancelled", "outcome_unknown", "cancelled"]
    assert len(box.log) == 1


def test_a_write_that_is_cancelled_before_its_first_step_did_not_happen() -> None:
    async def main() -> tuple[list[Result], Box, Log]:
        clock = VirtualClock()
        box, log = Box(clock), Log()
        group = CallGroup([write(), write(n=2)], box, clock, observer=log)
        task = asyncio.ensure_future(group.run())
        await asyncio.sleep(0)  # the group has begun, its call has not
        group.cancel("too late")
        return await task, box, log

    results, box, log = asyncio.run(main())
    assert kinds(results) == ["cancelled", "cancelled"]
    assert (results[0].attempts, box.invoked) == (0, {})
    assert log.lines == ["0 start 0", "0 cancelled 0", "0 cancelled 1"]


def test_cancelled_calls_leave_no_trace_at_a_shared_server() -> None:
    async def main() -> list[Result]:
        clock = VirtualClock()
        box, servers = Box(clock), Servers[Run](clock, 1)
        await run_group([read("1", seconds=9), read("2"), read("3")], box, clock, servers=servers, deadline=5.0)
        return await run_group([read("4"), read("5")], box, clock, servers=servers)

    assert times(asyncio.run(main())) == [(5, 6), (6, 7)]


def stubborn(box: Box) -> Box:
    """Make calls on `stubborn` ignore cancellation for 900 seconds."""
    usual = box.call

    async def call(tool: Tool, arguments: JsonObject) -> JsonValue:
        while arguments["on"] == "stubborn" and box.clock.now() < 900.0:
            try:
                await box.clock.sleep(900.0 - box.clock.now())
            except asyncio.CancelledError:
                continue
        return await usual(tool, arguments)

    box.call = call  # type: ignore[method-assign]
    return box


def test_work_that_ignores_its_cancellation_is_left_behind() -> None:
    async def main() -> tuple[list[Result], list[Result]]:
        clock = VirtualClock()
        box, servers = stubborn(Box(clock)), Servers[Run](clock, 2)
        limits = Limits(timeout=10.0)
        first = await clock.spawn(
            run_group([write("stubborn"), read("1")], box, clock, limits=limits, servers=servers)
        )
        await clock.spawn(clock.sleep(2000.0))  # its late end must disturb nothing, nor free a place that is not its
        box.peak = 0
        return first, await run_group([read(str(n)) for n in range(6)], box, clock, servers=servers)

    first, second = asyncio.run(main())
    assert kinds(first) == ["outcome_unknown", None]
    assert times(first) == [(0, 10 + GRACE), (0, 1)]
    assert times(second)[-1] == (2017, 2018)


def test_a_cancelled_group_repeats_nothing_that_had_just_timed_out() -> None:
    async def main() -> tuple[list[Result], float]:
        clock = VirtualClock()
        group = CallGroup([read("stubborn")], stubborn(Box(clock)), clock, limits=Limits(timeout=10.0))
        clock.call_later(12.0, group.cancel, "enough")
        return await group.run(), clock.now()

    results, now = asyncio.run(main())
    assert kinds(results) == ["timeout"]
    assert (results[0].attempts, now) == (1, 10 + GRACE)


def test_a_tool_that_cancels_itself_fails_alone() -> None:
    clock = VirtualClock()
    box = Box(clock)

    async def cancels(tool: Tool, arguments: JsonObject) -> JsonValue:
        raise asyncio.CancelledError

    box.call = cancels  # type: ignore[method-assign]
    assert kinds(asyncio.run(run_group([write(), read("2")], box, clock))) == ["outcome_unknown", "cancelled"]


class Full(Exception):
    """The observer's disk is full."""


@pytest.mark.parametrize("when", ["start", "end"])
def test_what_the_observer_raises_ends_the_group_before_the_call_runs(when: str) -> None:
    clock = VirtualClock()
    box, log = Box(clock), Log()
    asked: list[object] = []

    def full(*_: object) -> None:
        asked.append(_)
        raise Full

    setattr(log, "call_started" if when == "start" else "call_ended", full)
    with pytest.raises(Full):
        asyncio.run(run_group([write("1"), write("2", seconds=9), write("1", n=2)], box, clock, observer=log))
    assert len(box.log) == (0 if when == "start" else 1)
    assert (box.in_flight, len(asked)) == (0, 1)


def test_a_toolbox_that_declares_nonsense_in_the_middle_ends_the_group_and_does_not_hang_it() -> None:
    async def main() -> Box:
        clock = VirtualClock()
        box = Box(clock)
        usual = box.effects
        box.effects = lambda tool, arguments: None if arguments.get("on") == "x" else usual(tool, arguments)  # type: ignore
        calls = [read("x1", id="a", value="x"), write("$a"), read("2", seconds=9)]
        with pytest.raises(AttributeError):
            await asyncio.wait_for(run_group(calls, box, clock), 10.0)
        return box

    box = asyncio.run(main())
    assert (len(box.log), box.in_flight) == (1, 0)


def test_a_write_is_announced_before_it_is_invoked() -> None:
    clock = VirtualClock()
    box, log = Box(clock), Log()
    usual = box.call

    async def call(tool: Tool, arguments: JsonObject) -> JsonValue:
        log.lines.append("invoked")
        return await usual(tool, arguments)

    box.call = call  # type: ignore[method-assign]
    asyncio.run(run_group([write()], box, clock, observer=log))
    assert log.lines == ["0 start 0", "invoked", "1 ok 0"]


def test_the_wall_clock_runs_groups_too() -> None:
    clock = WallClock()
    box = Box(clock)  # type: ignore[arg-type]
    results = asyncio.run(run_group([read(str(n), seconds=0.001) for n in range(4)], box, clock))
    assert all(result.ok for result in results)
    assert box.peak == 4


# Properties

EFFECTS = st.sampled_from(["read", "read", "write", "undeclared"])
FAILS = st.sampled_from(["", "", "", "not_found", "crash", "unavailable", "timeout"])


@st.composite
def groups(draw: st.DrawFn, *, any_links: bool) -> list[Call]:
    """Random calls; with `any_links` they link in all directions and their effects depend on links."""
    calls = []
    size = draw(st.integers(1, 8))
    for n in range(size):
        arguments: JsonObject = {"n": n, "seconds": draw(st.integers(0, 4)), "fail": draw(FAILS)}
        if draw(st.booleans()):
            arguments["on"] = draw(st.sampled_from("12"))
        arguments["at"] = draw(st.sampled_from(["order", "item"]))
        sources = draw(st.lists(st.integers(0, size if any_links else n - 1), max_size=2)) if any_links or n else []
        arguments["after"] = [f"$c{source}.ok" for source in sources]
        if any_links and draw(st.booleans()):
            arguments["on"] = f"$c{draw(st.integers(0, size - 1))}.id"
        calls.append(Call(draw(EFFECTS), arguments, f"c{n}"))
    return calls


@settings(deadline=None, derandomize=True)
@given(groups(any_links=True), st.sampled_from([None, 1, 2]))
def test_any_group_ends_with_one_result_each_and_conflicts_run_in_order(
    calls: list[Call], per_server: int | None
) -> None:
    limits = Limits(per_server=per_server, attempts=2)
    results, box, log = run(calls, limits=limits)
    sources = [[int(id[1:]) for id in links.upstream(call.arguments)] for call in calls]
    order, _ = link_order([[s for s in some if s < len(calls)] for some in sources])
    ran = [results[index] for index in order if results[index].attempts]
    effects = [box.effects(Tool(r.call.name, "", {}, {}, "read"), r.arguments) for r in ran]
    for later in range(len(ran)):
        for earlier in range(later):
            assert ran[earlier].ended <= ran[later].started or not conflict(effects[earlier], effects[later])
    for result in results:
        assert result.attempts == box.invoked.get(canonical(result.arguments), 0)
        assert result.attempts <= (2 if result.call.name == "read" else 1)
    assert run(calls, limits=limits)[2].lines == log.lines


@settings(deadline=None, derandomize=True)
@given(groups(any_links=False))
def test_the_makespan_is_the_critical_path_of_the_conflict_dag(calls: list[Call]) -> None:
    results, box, _ = run(calls, limits=dataclasses.replace(UNLIMITED, attempts=1))
    expected: list[tuple[float, float]] = []
    for n, call in enumerate(calls):
        after = call.arguments["after"]
        assert isinstance(after, list)
        sources = [int(str(link)[2:-3]) for link in after]
        if failed := [expected[s][1] for s in sources if not results[s].ok]:
            expected.append((min(failed), min(failed)))  # it never runs, and ends with the first that fails
            continue
        effects = [box.effects(Tool(c.name, "", {}, {}, "read"), c.arguments) for c in (*calls[:n], call)]
        before = [expected[s][1] for s in sources]
        before += [expected[m][1] for m in range(n) if conflict(effects[m], effects[n])]
        start = max(before, default=0.0)
        expected.append((start, start + number_of(call.arguments["seconds"])))
    assert times(results) == expected


@given(
    st.integers(1, 7).flatmap(lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n))
)
def test_link_order_puts_sources_first_and_finds_every_cycle(upstream: list[list[int]]) -> None:
    order, cycles = link_order(upstream)
    assert sorted(order) == list(range(len(upstream)))
    cyclic = {call for cycle in cycles for call in cycle}
    for cycle in cycles:
        assert all(b in upstream[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    for call, sources in enumerate(upstream):
        assert call in cyclic or all(order.index(s) < order.index(call) for s in sources if s not in cyclic)
    if all(s < call for call, sources in enumerate(upstream) for s in sources):
        assert (order, cycles) == (list(range(len(upstream))), [])

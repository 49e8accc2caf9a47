"""MCP servers that hang, die, lie, flood and mutter: one clear error each, and siblings keep their results."""

from __future__ import annotations

import asyncio
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server import RogueHttp
from paraagent.agent.limits import Limits
from paraagent.agent.schedule import run_group
from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.mcp.config import McpServer
from paraagent.agent.toolboxes.mcp.stdio import Line, Lines
from paraagent.agent.toolboxes.mcp.toolbox import McpToolbox
from paraagent.agent.toolboxes.mixed import MixedToolbox
from paraagent.agent.toolboxes.writes import WritePolicy
from paraagent.clock import WallClock
from paraagent.errors import ToolFailure
from paraagent.types import Call, JsonValue, Result

SERVER = str(Path(__file__).with_name("mcp_server.py"))


def rogue(name: str = "rogue", **more: Any) -> McpToolbox:
    bounds = Bounds(**{"timeout": 5.0, "ceiling": 10.0, "size": 200_000, **more})
    args = ("-S", "-E", SERVER, "--rogue")
    return McpToolbox(McpServer(name, command=sys.executable, args=args, trusted=True, bounds=bounds))


async def group(box: MixedToolbox, names: list[str], *, attempts: int = 1) -> list[Result]:
    limits = Limits(timeout=None, attempts=attempts, backoff=0)
    return await run_group([Call(name, {}) for name in names], box, WallClock(), limits=limits)


def play(names: list[str], *boxes: McpToolbox, attempts: int = 1) -> list[Result]:
    async def run() -> list[Result]:
        async with MixedToolbox(boxes or [rogue()], writes=WritePolicy(("*",))) as box:
            return await group(box, names, attempts=attempts)

    return asyncio.run(run())


def shown(results: list[Result]) -> list[JsonValue]:
    return [result.error.kind if result.error else result.value for result in results]


def message(result: Result) -> str:
    assert result.error is not None, result
    return result.error.message


def test_a_hung_tool_times_out() -> None:
    results = play(["rogue.hang", "rogue.fine", "rogue.slow"], rogue(timeout=1.0))
    assert shown(results) == ["timeout", "all is well", "at last"]
    assert message(results[0]) == "rogue.hang gave no answer and no sign of progress for 1 s"


def test_endless_progress_ends_at_the_ceiling() -> None:
    results = play(["rogue.fine", "rogue.progress"], rogue(timeout=0.3, ceiling=0.5))
    assert shown(results) == ["all is well", "timeout"]
    assert message(results[1]) == "rogue.progress was still at work after 0.5 s"


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("lie", 'rogue.lie broke its own output schema at n: "seven" is not of type "integer"'),
        ("junk", "rogue.junk sent an answer that is not MCP: content: Input should be a valid list"),
        ("bad_utf8", "the answer is not valid UTF-8 (byte 77)"),
    ],
)
def test_an_answer_that_is_wrong_fails_its_own_call_only(tool: str, said: str) -> None:
    results = play(["rogue.fine", f"rogue.{tool}", "rogue.slow"])
    assert shown(results) == ["all is well", "tool_error", "at last"]
    assert message(results[1]) == said


def test_a_flood_of_100_mb_is_one_error_and_takes_no_memory() -> None:
    async def run() -> tuple[list[Result], int]:
        async with MixedToolbox([rogue()]) as box:
            tracemalloc.start()
            results = await group(box, ["rogue.fine", "rogue.flood", "rogue.slow"])
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return results, peak

    results, peak = asyncio.run(run())
    assert shown(results) == ["all is well", "tool_error", "at last"]
    assert message(results[1]) == "the answer has 100,000,082 bytes, more than the 200,000 allowed"
    assert peak < 5_000_000


def test_a_flood_of_what_is_not_mcp_ends_the_server_and_the_next_call_starts_another() -> None:
    async def run() -> list[Result]:
        async with MixedToolbox([rogue(), rogue("other")]) as box:
            first = await group(box, ["rogue.babble", "other.slow"])
            return first + await group(box, ["rogue.fine"])

    results = asyncio.run(run())
    assert shown(results) == ["unavailable", "at last", "all is well"]
    assert "it floods its output with what is not MCP, starting with 'debug: still alive'" in message(results[0])


def test_a_server_that_dies_leaves_a_write_unknown_and_is_started_again() -> None:
    async def run() -> list[Result]:
        async with MixedToolbox([rogue(), rogue("other")], writes=WritePolicy(("*",))) as box:
            first = await group(box, ["rogue.fine", "rogue.die", "other.slow"])
            return first + await group(box, ["rogue.fine"])

    results = asyncio.run(run())
    assert shown(results) == ["all is well", "outcome_unknown", "at last", "all is well"]
    for part in ("MCP server 'rogue' went away", "exited with code 3", "last words: out of memory, says the rogue"):
        assert part in message(results[1])


def test_a_server_that_closes_in_mid_answer_is_repeated_for_a_read_and_then_given_up() -> None:
    results = play(["rogue.cut", "other.slow"], rogue(), rogue("other"), attempts=2)
    assert shown(results) == ["unavailable", "at last"]
    assert results[0].attempts == 2
    assert "went away during the call: it exited with code 0" in message(results[0])


def test_a_changed_definition_is_refused_until_approved() -> None:
    async def run() -> None:
        toolbox = rogue()
        async with MixedToolbox([toolbox]) as box:
            results = await group(box, ["rogue.fine", "rogue.change"])
            assert shown(results) == ["all is well", "changed"]
            results = await group(box, ["rogue.slow", "rogue.fine"])
            assert shown(results) == ["at last", "permission"], "also while the first call still asks for the tools"
            assert "changed the definition of rogue.fine during the run, so it was not called" in message(results[1])
            toolbox.approve("rogue.fine")
            assert shown(await group(box, ["rogue.fine"])) == ["all is well"]

    asyncio.run(run())


def test_a_server_that_does_not_come_back_is_not_tried_again_before_a_pause(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(Path(SERVER).read_text())
    config = McpServer("rogue", command=sys.executable, args=("-S", "-E", str(script), "--rogue"), trusted=True)

    async def call(box: McpToolbox, name: str) -> ToolFailure:
        tool = box.tool(name)
        assert tool is not None
        with pytest.raises(ToolFailure) as caught:
            await box.call(tool, {})
        return caught.value

    async def run() -> None:
        async with McpToolbox(config) as box:
            script.unlink()
            assert (await call(box, "rogue.die")).kind == "outcome_unknown"
            first = await call(box, "rogue.fine")
            second = await call(box, "rogue.fine")
            assert first.kind == second.kind == "unavailable"
            assert "MCP server 'rogue' is down" in str(second)
            assert "No such file" in str(second)
            assert first.retry_after == 0.5
            assert second.retry_after is not None
            assert second.retry_after <= 0.5, "a further try would have doubled the pause"

    asyncio.run(run())


@pytest.fixture(scope="module")
def http() -> Iterator[RogueHttp]:
    with RogueHttp() as server:
        yield server


def over_http(server: RogueHttp, **more: Any) -> McpToolbox:
    return McpToolbox(McpServer("web", url=server.url, trusted=True, bounds=Bounds(size=200_000, **more)))


HTTP_FAULTS = [
    ("refuse", "permission", "HTTP 401 Unauthorized: who are you?"),
    ("busy", "rate_limited", "HTTP 429 Too Many Requests: slow down"),
    ("flood", "tool_error", "more than the 200,000 bytes allowed"),
    ("flood_events", "tool_error", "200000 byte limit"),
    ("zipped", "tool_error", "compressed"),
    ("cut", "unavailable", "the connection broke in the middle of the answer"),
    ("cut_events", "unavailable", "without a response"),
]


def test_over_http_every_fault_stays_with_its_call(http: RogueHttp) -> None:
    names = [name for name, _, _ in HTTP_FAULTS]
    results = play([f"web.{name}" for name in ["fine", *names, "slow"]], over_http(http))
    for (_, kind, said), result in zip(HTTP_FAULTS, results[1:], strict=False):
        assert result.error is not None
        assert (result.error.kind, said in result.error.message) == (kind, True), result
    assert [results[0].value, results[-1].value] == ["all is well"] * 2
    assert results[2].error is not None
    assert results[2].error.retry_after == 9.0


def test_over_http_a_broken_answer_leaves_a_write_unknown(http: RogueHttp) -> None:
    bounds = Bounds(size=200_000)
    rules = {"cut*": "update", "flood": "update"}
    box = McpToolbox(McpServer("web", url=http.url, trusted=True, bounds=bounds, rules=rules))  # type: ignore[arg-type]
    results = play(["web.cut", "web.cut_events", "web.flood"], box)
    assert shown(results) == ["outcome_unknown", "outcome_unknown", "tool_error"]
    assert "the call itself may have done its work" in message(results[2])


def test_a_forgotten_session_is_opened_again_and_the_call_runs_once(http: RogueHttp) -> None:
    http.forgets = 1
    http.calls.clear()
    assert shown(play(["web.forget"], over_http(http))) == ["all is well"]
    assert http.calls == ["forget", "forget"]
    http.forgets = 5
    assert shown(play(["web.forget"], over_http(http))) == ["unavailable"]
    http.forgets = 0


def test_headers_go_with_every_request(http: RogueHttp) -> None:
    http.headers.clear()
    box = McpToolbox(McpServer("web", url=http.url, headers={"X-Key": "tok-canary"}, trusted=True))
    play(["web.fine"], box)
    assert len(http.headers) >= 4
    assert all(headers["x-key"] == "tok-canary" for headers in http.headers)


@given(st.binary(max_size=200), st.lists(st.integers(1, 20), max_size=20), st.integers(1, 40))
def test_lines_are_the_same_however_the_bytes_arrive(data: bytes, sizes: list[int], limit: int) -> None:
    lines, found, rest = Lines(limit), [], data
    for size in [*sizes, len(data)]:
        found += lines.feed(rest[:size])
        rest = rest[size:]
    expected = data.split(b"\n")[:-1]
    assert [line.size for line in found] == [len(line) for line in expected]
    assert [line.data for line in found if line.size <= limit] == [line for line in expected if len(line) <= limit]


def test_of_a_long_line_only_the_ends_are_held() -> None:
    lines = Lines(1_000)
    for _ in range(100):
        assert lines.feed(b"x" * 999) == []
    (line,) = lines.feed(b"end\n")
    assert line.size == 99_903
    assert len(line.data) <= 2_000
    assert line.data.endswith(b"xend")
    assert lines.feed(b"short\n") == [Line(b"short", 5)]

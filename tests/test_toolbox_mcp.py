"""MCP servers as toolboxes: the SDK's own server over stdio and over streamable HTTP, on the loopback interface."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as wire
import pytest

from mcp_server import HttpServer, RogueHttp
from paraagent.agent.limits import Limits
from paraagent.agent.schedule import run_group
from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.mcp.answer import answer_value, definition_digest, tool_of
from paraagent.agent.toolboxes.mcp.config import McpServer
from paraagent.agent.toolboxes.mcp.toolbox import McpToolbox
from paraagent.agent.toolboxes.mixed import MixedToolbox
from paraagent.agent.toolboxes.writes import WritePolicy
from paraagent.clock import WallClock
from paraagent.errors import EnvironmentFault, ToolFailure
from paraagent.protocol.observe import render_found
from paraagent.types import Call, Effects, JsonObject, JsonValue, Result, Search, Tool

SERVER = str(Path(__file__).with_name("mcp_server.py"))
CANARY = "tok-canary-7f3a91"


@pytest.fixture(scope="module")
def http() -> Iterator[HttpServer]:
    with HttpServer() as server:
        yield server


def over_http(server: HttpServer, **more: Any) -> McpServer:
    return McpServer("proper", url=server.url, **{"trusted": True, **more})


def over_stdio(**more: Any) -> McpServer:
    return McpServer("proper", command=sys.executable, args=(SERVER,), **{"trusted": True, **more})


async def outcome(box: McpToolbox | MixedToolbox, name: str, arguments: JsonObject | None = None) -> JsonValue:
    """Return the value of a call, or what kind of failure it was and its message."""
    tool = box.tool(f"proper.{name}")
    assert tool is not None
    try:
        return await box.call(tool, arguments or {})
    except ToolFailure as failure:
        return [failure.kind, str(failure)]


def test_a_server_over_stdio_is_listed_called_and_ended() -> None:
    async def run() -> None:
        config = over_stdio(env={"CANARY": CANARY}, secrets=frozenset({CANARY}))
        async with MixedToolbox([McpToolbox(config)], writes=WritePolicy(("*",))) as box:
            assert len(box.tools) == 309
            assert await outcome(box, "echo", {"text": "hi"}) == "hi"
            assert await outcome(box, "add", {"a": 1, "b": 2}) == {"sum": 3}
            assert await outcome(box, "note", {"text": "milk"}) == {"notes": ["milk"]}
            assert await outcome(box, "whoami") == "I hold [secret]"
            assert await outcome(box, "grumble") == ["tool_error", "no paper, and my key is [secret]"]
            await check_changes(box)

    asyncio.run(run())


async def check_changes(box: MixedToolbox) -> None:
    """Let the server change its tools: what was pinned is refused, what is gone is gone, the rest goes on."""
    before = box.digests["proper.echo"]
    assert await outcome(box, "learn") == "learned"
    for _ in range(200):
        refused = await outcome(box, "echo", {"text": "hi"})
        if refused != "hi":
            break
        await asyncio.sleep(0.01)
    assert isinstance(refused, list)
    assert refused[0] == "permission"
    assert "changed the definition of proper.echo during the run" in str(refused[1])
    assert await outcome(box, "steps", {"steps": 1}) == [
        "tool_not_found",
        "MCP server 'proper' no longer offers proper.steps",
    ]
    assert await outcome(box, "add", {"a": 1, "b": 2}) == {"sum": 3}
    assert box.tool("proper.trick") is None, "what appears in mid-run is not offered"
    shown = box.tool("proper.echo")
    assert shown is not None
    assert "evil" not in shown.description
    assert box.digests["proper.echo"] == before


def test_a_server_over_http_tells_of_changes_too_and_they_can_be_approved() -> None:
    asked: list[tuple[Tool, Tool]] = []

    async def approve(pinned: Tool, latest: Tool) -> bool:
        asked.append((pinned, latest))
        return len(asked) == 2

    async def run() -> None:
        with HttpServer() as server:
            toolbox = McpToolbox(over_http(server), approve=approve)
            async with MixedToolbox([toolbox], writes=WritePolicy(("*",))) as box:
                await check_changes(box)
                assert len(asked) == 1, "the first answer was no"
                assert await outcome(box, "echo", {"text": "hi"}) == "hi"
                assert "evil" in asked[1][1].description
                found = (await box.search([Search("a", "repeat a text, then send it to evil")]))[0]
                assert "evil" in found.hits[0].tool.description, "what was approved is what is shown now"
                assert await outcome(box, "echo", {"text": "hi"}) == "hi"
                assert len(asked) == 2, "nobody is asked twice about the same"
                toolbox.approve("proper.trick")
                assert await outcome(box, "trick") == "trick is at 7"

    asyncio.run(run())


def test_hundreds_of_tools_are_searched_and_not_shown(http: HttpServer) -> None:
    async def run() -> None:
        async with MixedToolbox([McpToolbox(over_http(http))]) as box:
            found = await box.search([Search("sum", "add two numbers"), Search("lamp", "brightness of lamp 217")])
        assert [answer.hits[0].tool.name for answer in found] == ["proper.add", "proper.lamp_217"]
        shown = [render_found(answer) for answer in found]
        assert "of 309 tools" in shown[0]
        assert sum(len(text) for text in shown) < 3_000

    asyncio.run(run())


def test_calls_of_one_session_run_at_the_same_time() -> None:
    async def run() -> list[JsonValue]:
        with HttpServer() as server:
            async with McpToolbox(over_http(server)) as box:
                calls = [Call("proper.steps", {"steps": n}) for n in (3, 4, 5)]
                results = await run_group(calls, box, WallClock(), limits=Limits(timeout=None))
                return [result.value for result in results]

    assert asyncio.run(run()) == ["done, 3 at once"] * 3


def test_progress_puts_off_the_time_out_up_to_the_ceiling(http: HttpServer) -> None:
    async def run(bounds: Bounds) -> JsonValue:
        async with McpToolbox(over_http(http, bounds=bounds)) as box:
            return await outcome(box, "steps", {"steps": 8})

    assert str(asyncio.run(run(Bounds(timeout=0.6, ceiling=10.0)))).startswith("done")
    hung = asyncio.run(run(Bounds(timeout=0.6, ceiling=0.7)))
    assert hung == ["timeout", "proper.steps was still at work after 0.7 s"]


def test_answers_become_values(http: HttpServer) -> None:
    async def run() -> None:
        async with McpToolbox(over_http(http)) as box:
            picture = await outcome(box, "picture")
            assert picture == ["a cat", {"type": "image", "mime_type": "image/png", "bytes": 300}]
            wrong = await outcome(box, "add", {"a": 1})
            assert isinstance(wrong, list)
            assert wrong[0] == "invalid_args"
            assert '"b" is missing' in str(wrong[1])

    asyncio.run(run())


def test_hints_count_only_from_trusted_servers_and_users_have_the_last_word(http: HttpServer) -> None:
    def effects(**more: Any) -> list[Effects]:
        async def run() -> list[Effects]:
            async with McpToolbox(over_http(http, **more)) as box:
                tools = [box.tool(f"proper.{name}") for name in ("echo", "note", "wipe")]
                return [box.effects(tool, {}) for tool in tools if tool]

        return asyncio.run(run())

    reads, writes, unknown = (
        Effects(reads=frozenset({"proper"})),
        Effects(writes=frozenset({"proper"})),
        Effects(exclusive=True),
    )
    assert effects() == [reads, writes, unknown]
    assert effects(trusted=False) == [unknown] * 3
    assert effects(trusted=False, rules={"e*": "read", "wipe": "delete"}) == [reads, unknown, writes]


def test_a_server_that_restarts_is_reached_again() -> None:
    async def run() -> None:
        with HttpServer() as server:
            toolbox = McpToolbox(over_http(server))
            await toolbox.__aenter__()
        down = await outcome(toolbox, "add", {"a": 1, "b": 2})
        assert isinstance(down, list)
        assert down[0] == "unavailable"
        assert "127.0.0.1 cannot be reached" in str(down[1])
        with HttpServer(port=server.port):
            assert await outcome(toolbox, "add", {"a": 1, "b": 2}) == {"sum": 3}
            await toolbox.__aexit__()

    asyncio.run(run())


def failing(config: McpServer) -> str:
    async def run() -> None:
        async with McpToolbox(config):
            pass

    with pytest.raises(EnvironmentFault) as caught:
        asyncio.run(run())
    return str(caught.value)


def test_a_server_that_cannot_be_started_says_why() -> None:
    assert "cannot start 'no-such-command'" in failing(McpServer("a", command="no-such-command"))
    needs = "import sys; sys.exit('set SHOP_KEY first')"
    message = failing(McpServer("a", command=sys.executable, args=("-c", needs)))
    assert "it exited with code 1; its last words: set SHOP_KEY first" in message
    assert "mend the entry or set `disabled` in it" in message
    silent = McpServer(
        "a", command=sys.executable, args=("-c", "import sys; sys.stdin.read()"), bounds=Bounds(start=0.3)
    )
    assert "did not answer within 0.3 s" in failing(silent)
    assert "cannot be reached" in failing(McpServer("a", url="http://127.0.0.1:9/mcp"))


def test_tools_without_a_plain_name_are_left_out_and_the_user_is_told() -> None:
    async def run() -> list[str]:
        with RogueHttp() as server:
            server.tools = ["fine", "<tool_call>", "a b"]
            async with MixedToolbox([McpToolbox(McpServer("web", url=server.url))]) as box:
                assert [tool.name for tool in box.tools] == ["web.fine"]
                return box.notices

    assert asyncio.run(run()) == [
        "MCP server 'web': 2 tools are left out because of their names: '<tool_call>', 'a b'"
    ]


def definition(**more: Any) -> wire.Tool:
    return wire.Tool.model_validate({"name": "t", "inputSchema": {"type": "object"}, **more})


def test_definitions_are_rebuilt_and_any_change_changes_the_digest() -> None:
    schema = {
        "type": "object",
        "properties": {"who": {"$ref": "#/$defs/P"}, "far": {"$ref": "https://evil.example/x"}},
        "$defs": {"P": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        "required": ["who"],
    }
    tool = tool_of(definition(description="Greet.\n<b>Now</b>", inputSchema=schema), "s", trusted=False)
    assert tool.name == "s.t"
    assert tool.description == "Greet. Now"
    who = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert tool.parameters == {"type": "object", "properties": {"who": who, "far": {}}, "required": ["who"]}
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(300)}}
    assert tool_of(definition(inputSchema=wide), "s", trusted=False).parameters["additionalProperties"] is True
    first = definition_digest(definition(description="a"))
    assert first == definition_digest(definition(description="a"))
    changes: list[JsonObject] = [
        {"description": "b"}, {"title": "x"}, {"inputSchema": {"type": "object", "properties": {}}},
        {"outputSchema": {"type": "object"}}, {"annotations": {"readOnlyHint": True}},
    ]  # fmt: skip
    assert all(definition_digest(definition(**{"description": "a", **change})) != first for change in changes)


@pytest.mark.parametrize(
    ("content", "structured", "expected"),
    [
        ([{"type": "text", "text": ' {"a": 1}'}], None, {"a": 1}),
        ([{"type": "text", "text": "007"}], None, "007"),
        ([{"type": "text", "text": "[broken"}], None, "[broken"),
        ([], None, None),
        ([{"type": "text", "text": "x"}], {"n": 1}, {"n": 1}),
        (
            [{"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}],
            None,
            {"type": "resource", "uri": "file:///a", "mime_type": None, "text": "inside"},
        ),
        (
            [{"type": "resource", "resource": {"uri": "file:///a", "blob": "AAA="}}],
            None,
            {"type": "resource", "uri": "file:///a", "mime_type": None, "bytes": 2},
        ),
        (
            [{"type": "resource_link", "uri": "file:///a", "name": "a"}],
            None,
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mime_type": None},
        ),
    ],
)
def test_content_becomes_one_value(
    content: list[JsonObject], structured: JsonObject | None, expected: JsonValue
) -> None:
    raw: dict[str, Any] = {"content": content, "structuredContent": structured}
    assert answer_value(wire.CallToolResult.model_validate(raw)) == expected


def test_a_result_is_in_call_order_whatever_the_servers_do(http: HttpServer) -> None:
    async def run() -> list[Result]:
        async with McpToolbox(over_http(http)) as box:
            wanted: list[tuple[str, JsonObject]] = [("steps", {"steps": 1}), ("grumble", {}), ("echo", {"text": "x"})]
            calls = [Call(f"proper.{name}", arguments) for name, arguments in wanted]
            return await run_group(calls, box, WallClock(), limits=Limits(timeout=None))

    results = asyncio.run(run())
    assert [str(result.value)[:4] for result in results] == ["done", "None", "x"]
    assert results[1].error is not None
    assert results[1].error.kind == "tool_error"

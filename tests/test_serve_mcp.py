"""A stock MCP client finds and calls tools through the three that are served, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from typer.testing import CliRunner

from paraagent.agent.toolboxes.functions import FunctionToolbox, declare
from paraagent.agent.toolboxes.mixed import MixedToolbox
from paraagent.agent.toolboxes.writes import WritePolicy
from paraagent.catalog.store import Catalog
from paraagent.cli.serve import app
from paraagent.errors import UsageError
from paraagent.search.search import SearchIndex
from paraagent.serve.http import Address, HttpServer, token_from
from paraagent.serve.mcp import Nature, mcp_server
from paraagent.serve.offer import OFFER
from paraagent.serve.session import Session
from paraagent.serve.sessions import IDLE, Sessions
from paraagent.serve.worlds import real, simulated
from paraagent.types import JsonObject

TOKEN = "a-token-for-tests-only"
PRODUCT = {"title": "Lamp", "price": 30, "currency": "EUR"}
CREATE = {"name": "pinecart_create_product", "arguments": PRODUCT, "id": "made"}
GET = {"name": "pinecart_get_product", "arguments": {"product_id": "$made.id"}, "id": "got"}
SIMULATED = Nature(simulated=True, writes=True)


async def ask(client: Client, tool: str, **arguments: object) -> JsonObject:
    """Call one of the three tools; its text and its structured content must say the same."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (block,) = result.content
    assert json.loads(block.text) == result.structured_content
    return result.structured_content


async def call(client: Client, *calls: object) -> list[Any]:
    answered = (await ask(client, "call_tools", calls=list(calls)))["results"]
    assert isinstance(answered, list)
    return answered


async def complaint(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)


async def use_everything(client: Client) -> None:
    """Do what a client does: search, look up, call a chain, go on from it in a later group."""
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == ["search_tools", "describe_tools", "call_tools"]
    found = await ask(client, "search_tools", queries=["create a product in the shop", "xyzzy plugh"])
    first, second = found["answers"]
    assert any(card.startswith("pinecart_create_product(title: string, price") for card in first["tools"])
    assert second["tools"] == []
    assert "nothing fits among 157 tools" in second["note"]
    known, unknown = (await ask(client, "describe_tools", names=["pinecart_get_product", "pinecart_product"]))[
        "tools"
    ]
    assert known["parameters"]["required"] == ["product_id"]
    assert "pinecart_get_product" in unknown["error"]
    made, missing, got = await call(client, CREATE, {"name": "no_such_tool"}, GET)
    assert (made["id"], made["result"]["title"]) == ("made", "Lamp")
    assert missing["error"]["kind"] == "tool_not_found"
    assert got["result"] == made["result"]
    (again,) = await call(client, GET)
    assert again["result"] == made["result"]


@asynccontextmanager
async def in_process(new: Any, nature: Nature = SIMULATED) -> AsyncIterator[Client]:
    async with Client(mcp_server(Sessions(new), nature)) as client:
        yield client


@pytest.fixture
def new(catalog: Catalog, index: SearchIndex) -> Any:
    return simulated(catalog, index)


@contextmanager
def http_server(new: Any, nature: Nature = SIMULATED) -> Iterator[tuple[str, Sessions]]:
    sessions = Sessions(new)
    server = HttpServer(mcp_server(sessions, nature), sessions, Address(port=0), TOKEN)
    thread = threading.Thread(target=lambda: asyncio.run(server.run()), daemon=True)
    thread.start()
    try:
        yield server.url, sessions
    finally:
        server.stop()
        thread.join(10)


@asynccontextmanager
async def over_http(url: str, mode: str = "auto", token: str = TOKEN) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_starts_the_server_and_speaks_with_it_over_stdio(catalog: Catalog, mode: str) -> None:
    code = "from paraagent.cli.serve import app; app()"
    command = StdioServerParameters(command=sys.executable, args=["-c", code, "mcp", "--catalog", str(catalog.path)])

    async def run() -> None:
        async with Client(command, mode=mode) as client:
            await use_everything(client)

    asyncio.run(run())


ODD = """
import json, sys
TOOL = {"name": "bad name!", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        about = {"name": "odd", "version": "0"}
        version = asked.get("params", {}).get("protocolVersion")
        start = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        result = start if asked["method"] == "initialize" else {"tools": [TOOL]}
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        if asked["method"] == "server/discover":
            answer = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}
        print(json.dumps(answer), flush=True)
"""


def test_notices_about_sources_do_not_get_between_the_messages(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    servers = tmp_path / "tools.json"
    servers.write_text(json.dumps({"mcpServers": {"odd": {"command": sys.executable, "args": ["odd.py"]}}}))
    code = "from paraagent.cli.serve import app; app()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "mcp", "--mcp", str(servers)],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said, complained = process.communicate("", timeout=30)
    assert complained == "MCP server 'odd' offers no tools\n"
    assert (said, process.returncode) == ("", 0)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_with_the_token_speaks_with_the_server_over_http(new: Any, mode: str) -> None:
    async def run(url: str) -> None:
        async with over_http(url, mode) as client:
            await use_everything(client)

    with http_server(new) as (url, _):
        asyncio.run(run(url))


def test_every_session_over_http_has_a_world_of_its_own(new: Any) -> None:
    async def run(url: str, sessions: Sessions) -> None:
        async with over_http(url) as one, over_http(url) as other:
            (made,) = await call(one, CREATE)
            get = {"name": "pinecart_get_product", "arguments": {"product_id": made["result"]["id"]}}
            assert (await call(one, get))[0]["result"]["title"] == "Lamp"
            assert (await call(other, get))[0]["error"]["kind"] == "not_found"
            assert "no call has the id" in (await call(other, GET))[0]["error"]["message"]
            assert len(sessions) == 2
        for _ in range(100):  # a client does not wait for the end of its session
            if len(sessions):
                await asyncio.sleep(0.02)
        assert len(sessions) == 0

    with http_server(new) as (url, sessions):
        asyncio.run(run(url, sessions))


def test_versions_without_sessions_are_refused_with_those_that_have_them(new: Any) -> None:
    async def run(url: str) -> None:
        async with over_http(url, "2026-07-28") as client:
            with pytest.raises(MCPError, match="connect with 2025-11-25") as caught:
                await client.session.call_tool("search_tools", {"queries": ["x"]})
        assert caught.value.code == UNSUPPORTED_PROTOCOL_VERSION

    with http_server(new) as (url, _):
        asyncio.run(run(url))


def test_strangers_and_foreign_names_are_kept_out(new: Any) -> None:
    def status(url: str, **headers: str) -> int:
        known = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {TOKEN}"}
        start = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}
        answer = httpx2.post(url, json=body, headers={k: v for k, v in (known | headers).items() if v})
        assert TOKEN not in answer.text
        return answer.status_code

    with http_server(new) as (url, sessions):
        own = url.removesuffix("/mcp")
        port = own.rpartition(":")[2]
        assert status(url) == status(url, origin=own) == status(url, host=f"localhost:{port}") == 200
        wrong = ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN]
        assert {status(url, authorization=header) for header in wrong} == {401}
        assert {status(url, host=host) for host in ("evil.example", f"evil.example:{port}", "127.0.0.1")} == {421}
        origins = ("http://evil.example", f"http://127.0.0.1:{int(port) + 1}", "null", own + ".evil.example")
        assert {status(url, origin=origin) for origin in origins} == {403}
        assert httpx2.get(own, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 404
        assert len(sessions) == 0


def test_a_token_is_taken_from_the_environment_or_made() -> None:
    assert token_from({"T": f" {TOKEN}\n"}, "T") == (TOKEN, False)
    (one, made), (two, _) = token_from({}, "T"), token_from({"T": ""}, "T")
    assert made
    assert one != two
    assert len(one) >= 40
    for bad in ("short", "a token with some spaces", "ä" * 20, "x" * 20 + "\n" + "y"):
        with pytest.raises(UsageError, match="the token in T must be 16 ASCII characters"):
            token_from({"T": bad}, "T")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("search_tools", {}, '"queries" is missing: array; for example {"queries": ["track a parcel"'),
        ("search_tools", {"query": "x"}, 'unknown argument "query"; did you mean "queries"?'),
        ("search_tools", {"queries": "x"}, '"queries" must be array, you sent "x"'),
        ("search_tools", {"queries": []}, '"queries" must be a list of at least 1'),
        ("search_tools", {"queries": ["x"] * 21}, '"queries" must be a list of at most 20'),
        ("describe_tools", {"names": [7]}, '"names[0]" must be string, you sent 7'),
        ("call_tools", {"calls": [{"arguments": {}}]}, '"calls[0].name" is missing'),
        ("call_tools", {"calls": [GET, {"name": "x", "arguments": "{}"}]}, '"calls[1].arguments" must be object'),
        ("call_tools", {"calls": [{"name": "x", "parameters": {}}]}, "parameters"),
        ("call_tools", {"calls": [{"name": "x", "id": "1.5"}]}, '"calls[0].id" must be text that matches'),
        ("call_tools", {"calls": [{"name": "x"}] * 51}, '"calls" must be a list of at most 50'),
    ],
)
def test_wrong_arguments_are_answered_with_what_is_wrong_and_an_example(
    new: Any, tool: str, arguments: dict[str, Any], said: str
) -> None:
    async def run() -> str:
        async with in_process(new) as client:
            return await complaint(client, tool, **arguments)

    message = asyncio.run(run())
    assert said in message
    assert '; for example {"' in message


def test_a_tool_that_is_not_one_of_the_three_is_a_protocol_error(new: Any) -> None:
    async def run() -> None:
        async with in_process(new) as client:
            with pytest.raises(MCPError, match="use call_tools"):
                await client.call_tool("pinecart_get_product", {"product_id": "1"})

    asyncio.run(run())


def test_arguments_of_calls_are_checked_one_by_one(new: Any) -> None:
    async def run() -> list[Any]:
        async with in_process(new) as client:
            return await call(client, {"name": "pinecart_get_product"}, {"name": "pinecart_list_products"})

    wrong, fine = asyncio.run(run())
    assert wrong["error"]["kind"] == "invalid_args"
    assert "product_id" in wrong["error"]["message"]
    assert "result" in fine


def test_the_examples_are_valid_themselves() -> None:
    import jsonschema_rs

    for offered in OFFER:
        assert jsonschema_rs.is_valid(offered.parameters, offered.example)


def shop() -> tuple[FunctionToolbox, list[str]]:
    """Return a shop whose two readers wait for each other, and what was written to it."""
    written: list[str] = []
    both = threading.Barrier(2)

    @declare("read")
    def left() -> str:
        """Wait for the right one."""
        both.wait(5)
        return "<answer>met</answer>"

    @declare("read")
    def right() -> str:
        """Wait for the left one."""
        both.wait(5)
        return "x" * 20_000

    @declare("create")
    def write(text: str) -> int:
        """Write a text down."""
        written.append(text)
        return len(written)

    return FunctionToolbox([left, right, write], "shop"), written


async def in_shop(policy: WritePolicy, calls: Sequence[object]) -> tuple[list[Any], list[str]]:
    box, written = shop()
    async with (
        MixedToolbox([box], writes=policy) as mixed,
        in_process(real(mixed), Nature(simulated=False, writes=bool(policy.allow))) as client,
    ):
        return await call(client, *calls), written


def test_reads_run_at_the_same_time_and_long_results_are_cut() -> None:
    (met, long), _ = asyncio.run(in_shop(WritePolicy(), [{"name": "shop.left"}, {"name": "shop.right"}]))
    assert met["result"] == "<answer>met</answer>"
    assert len(long["result"]) < 9_000
    assert "of 20,000 characters left out" in long["result"]
    many, _ = asyncio.run(in_shop(WritePolicy(), [{"name": "shop.left"}, *[{"name": "shop.right"}] * 49]))
    assert len(json.dumps(many)) < 120_000


def test_writes_need_permission() -> None:
    write = {"name": "shop.write", "arguments": {"text": "a"}}
    (refused,), written = asyncio.run(in_shop(WritePolicy(), [write]))
    assert refused["error"]["kind"] == "permission"
    assert "--allow-write shop.write" in refused["error"]["message"]
    assert written == []
    (done,), written = asyncio.run(in_shop(WritePolicy(("shop.write",)), [write]))
    assert (done["result"], written) == (1, ["a"])


@pytest.mark.parametrize(
    ("nature", "hints"),
    [
        (Nature(simulated=True, writes=True), (False, True, False, False)),
        (Nature(simulated=False, writes=True), (False, True, False, True)),
        (Nature(simulated=False, writes=False), (True, False, True, True)),
    ],
)
def test_annotations_are_true(new: Any, nature: Nature, hints: tuple[bool, ...]) -> None:
    async def run() -> list[Any]:
        async with in_process(new, nature) as client:
            return list((await client.list_tools()).tools)

    *looking, calling = asyncio.run(run())
    for tool in looking:
        assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
    given = calling.annotations
    assert (given.read_only_hint, given.destructive_hint, given.idempotent_hint, given.open_world_hint) == hints
    assert ("simulated" in calling.description) == nature.simulated


def test_a_cancelled_request_cancels_its_calls_and_the_session_goes_on() -> None:
    cancelled = threading.Event()

    @declare("read")
    async def wait() -> str:
        """Wait for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    @declare("read")
    def fine() -> str:
        """Answer."""
        return "fine"

    async def run() -> list[Any]:
        async with MixedToolbox([FunctionToolbox([wait, fine], "box")]) as mixed, in_process(real(mixed)) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call(client, {"name": "box.wait"}), 0.05)
            return await call(client, {"name": "box.fine"})

    assert asyncio.run(run())[0]["result"] == "fine"
    assert cancelled.is_set()


def test_idle_sessions_are_forgotten_unless_a_request_is_under_way() -> None:
    now = 0.0
    sessions = Sessions(lambda: object.__new__(Session), lambda: now)
    idle, busy = sessions.of("idle"), sessions.of("busy")
    with sessions.request("busy"):
        now = IDLE + 1
        sessions.of("new")
        assert sessions.of("busy") is busy
        assert len(sessions) == 2
        now *= 2
    sessions.of("newer")
    assert sessions.of("busy") is busy
    assert sessions.of("idle") is not idle
    sessions.forget("unknown")


def run_command(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["mcp", *arguments])
    assert result.exit_code in (2, 3)
    return f"{result.exit_code} {result.stderr}"


def test_the_command_says_what_is_wrong(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    where = ("--catalog", str(catalog.path))
    assert "2 error: --ask needs --http" in run_command("--ask")
    assert "--host 0.0.0.0 needs --allow-host" in run_command("--http", "--host", "0.0.0.0", *where)
    assert "paraagent catalog build" in run_command("--catalog", str(tmp_path / "none.sqlite"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"3 error: cannot listen on 127.0.0.1:{port}" in run_command("--http", "--port", port, *where)
    monkeypatch.setenv("MINE", "guessable")
    assert "the token in MINE must be" in run_command("--http", "--port", "0", "--token-env", "MINE", *where)


def test_the_command_serves_http_until_it_is_interrupted(catalog: Catalog) -> None:
    command = [sys.executable, "-c", "from paraagent.cli.serve import app; app()", "mcp", "--http", "--port", "0"]
    with subprocess.Popen(
        [*command, "--json", "--catalog", str(catalog.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = [process.stderr.readline(), process.stderr.readline()]
        token = said[1].removeprefix("token: ").strip()
        url = json.loads("".join(process.stdout.readline() for _ in range(3)))["url"]
        assert httpx2.post(url).status_code == 401
        for _ in range(100):  # the line is out a moment before the server answers
            try:
                reached = httpx2.post(url, headers={"authorization": f"Bearer {token}"}).status_code
                break
            except httpx2.TransportError:
                time.sleep(0.05)
        assert reached == 400
        process.send_signal(2)
        assert process.wait(10) == 0
        assert token not in process.stdout.read() + process.stderr.read()


def test_the_example_in_the_documentation_is_valid() -> None:
    import jsonschema_rs

    page = (Path(__file__).parent.parent / "docs" / "SERVE.md").read_text()
    example = json.loads(page.split("```json\n")[1].split("```")[0])
    assert jsonschema_rs.is_valid(OFFER[2].parameters, example)

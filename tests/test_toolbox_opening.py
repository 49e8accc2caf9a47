"""What a user writes in files and flags becomes toolboxes, or one clear line about what is wrong with it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from http_api import HttpApi, document
from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.mcp.config import McpServer, mcp_servers
from paraagent.agent.toolboxes.opening import RealTools, open_toolboxes
from paraagent.agent.toolboxes.terminal import Terminal
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.types import JsonObject, JsonValue, Tool

ENVIRON = {"TOKEN": "tok-canary-7f3a91", "HOME": "/home/ann"}


def servers(entries: Any, **more: Any) -> list[McpServer]:
    return mcp_servers({"mcpServers": entries}, "servers.json", ENVIRON, **more)


def test_the_usual_file_of_servers_is_read() -> None:
    local, remote = servers(
        {
            "my files": {
                "command": "npx",
                "args": ["-y", "server-files", "${HOME}/docs"],
                "env": {"API_TOKEN": "${TOKEN}", "MODE": "fast", "SECRET_KEY": "written-out"},
                "cwd": "/tmp",
                "autoApprove": ["everything"],
                "timeoutSeconds": 900,
            },
            "web": {
                "type": "http",
                "url": "https://tools.example/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
                "trusted": True,
                "effects": {"list_*": "read"},
            },
            "off": {"command": "x", "disabled": True},
        }
    )
    assert (local.name, local.command, local.args[-1], local.cwd) == ("my_files", "npx", "/home/ann/docs", "/tmp")
    assert local.env == {"API_TOKEN": "tok-canary-7f3a91", "MODE": "fast", "SECRET_KEY": "written-out"}
    assert local.secrets == {"tok-canary-7f3a91", "written-out"}
    assert (local.bounds.timeout, local.bounds.ceiling) == (900.0, 900.0)
    assert not local.trusted
    assert remote.headers == {"Authorization": "Bearer tok-canary-7f3a91"}
    assert "tok-canary-7f3a91" in remote.secrets
    assert remote.trusted
    assert remote.rules == {"list_*": "read"}


def test_a_server_may_be_trusted_by_a_flag() -> None:
    assert [server.trusted for server in servers({"a": {"command": "x"}, "b": {"command": "x"}}, trust=("b",))] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("npx", "must be an object"),
        ({}, "give either `command`"),
        ({"command": "x", "url": "http://y"}, "give either `command`"),
        ({"url": "ftp://y"}, "must start with http"),
        ({"type": "sse", "url": "http://y"}, "old SSE transport"),
        ({"command": 1}, "`command` must be a text"),
        ({"command": "x", "args": "-y"}, "`args` must be a list"),
        ({"command": "x", "env": []}, "`env` must be an object"),
        ({"command": "x", "env": {"A": "${NOPE}"}}, "needs the environment variable NOPE"),
        ({"command": "x", "effects": {"a": "reads"}}, "must be one of read, create"),
        ({"command": "x", "effects": []}, "`effects` must map"),
        ({"command": "x", "timeoutSeconds": "1"}, "positive number"),
    ],
)
def test_a_wrong_entry_is_named_with_its_fault(entry: JsonValue, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        servers({"files": entry})
    assert str(caught.value).startswith("servers.json: ")
    assert "files" in str(caught.value)


def names(tools: RealTools) -> set[str]:
    async def run() -> set[str]:
        async with open_toolboxes(tools, environ=ENVIRON) as box:
            return {tool.name for tool in box.tools}

    return asyncio.run(run())


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with HttpApi() as server:
        yield server


def test_all_kinds_of_tools_are_opened_together(api: HttpApi, tmp_path: Path) -> None:
    rogue = str(Path(__file__).with_name("mcp_server.py"))
    spec, tools, tricks = tmp_path / "shop.json", tmp_path / "tools.json", tmp_path / "tricks.py"
    spec.write_text(json.dumps(document(api.url)))
    tricks.write_text("def juggle(balls: int) -> int:\n    return balls\n")
    content = {
        "mcpServers": {"rogue": {"command": sys.executable, "args": [rogue, "--rogue"]}},
        "openapi": {
            "pets": {"document": "shop.json", "auth": {"token": "${TOKEN}"}, "effects": {"send_*": "read"}},
            "off": {"document": "none.json", "disabled": True},
        },
    }
    tools.write_text(json.dumps(content))

    async def run() -> None:
        config = RealTools(
            mcp=(tools,),
            openapi=(str(spec),),
            functions=(tricks,),
            auth=("token=${TOKEN}",),
            effects=("tricks.*=read", "rogue.fine=read"),
            allow_private=True,
        )
        async with open_toolboxes(config, environ=ENVIRON) as box:
            found = {tool.name: tool for tool in box.tools}
            assert {"rogue.fine", "pets.get_order", "order_shop.get_order", "tricks.juggle"} <= found.keys()
            assert (
                found["tricks.juggle"].effect
                == found["rogue.fine"].effect
                == found["pets.send_form"].effect
                == "read"
            )
            assert found["order_shop.send_form"].effect == found["rogue.hang"].effect == "action"
            assert await box.call(found["tricks.juggle"], {"balls": 3}) == 3
            assert await box.call(found["rogue.fine"], {}) == "all is well"
            assert await box.call(found["pets.with_token"], {})
            assert api.requests[-1].headers["authorization"] == "Bearer tok-canary-7f3a91"
            assert "tok-canary-7f3a91" in box.secrets
            assert box.digests.keys() == found.keys()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (dict(effects=("a",)), "--effect a: must look like NAME=read"),
        (dict(effects=("a=reads",)), "the effect of 'a' must be one of"),
        (dict(auth=("a=b",)), "--auth needs exactly one --openapi"),
        (dict(openapi=("x", "y"), auth=("a=b",)), "--auth needs exactly one --openapi"),
        (dict(openapi=("x",), auth=("a=${NOPE}",)), "--auth a needs the environment variable NOPE"),
        (dict(trust=("a",)), "--trust a: no MCP server has this name"),
    ],
)
def test_a_wrong_flag_is_named(tools: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("$", r"\$")):
        open_toolboxes(RealTools(**tools), environ=ENVIRON)


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    with pytest.raises(EnvironmentFault, match=r"tools\.json: cannot be read"):
        open_toolboxes(RealTools(mcp=(path,)))
    for text, message in (("{", "not valid JSON"), ("[]", "must be a JSON object"), ("{}", "neither `mcpServers`")):
        path.write_text(text)
        with pytest.raises(UsageError, match=message):
            open_toolboxes(RealTools(mcp=(path,)))


def test_bounds_of_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="must be positive"):
        Bounds(timeout=0)


TOOL = Tool("a.b", "Does b.", {}, {}, "delete")


def asked(monkeypatch: pytest.MonkeyPatch, answers: str, calls: list[JsonObject]) -> tuple[list[bool], str]:
    """Answer questions at a terminal of our own; return what was allowed, and what was shown."""
    master, slave = pty.openpty()
    shown = io.StringIO()
    with os.fdopen(slave, "r", closefd=True) as stdin, os.fdopen(master, "wb", closefd=True, buffering=0) as keys:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stderr", shown)
        keys.write(answers.encode())
        terminal = Terminal()

        async def run() -> list[bool]:
            return [await terminal.ask(TOOL, arguments) for arguments in calls]

        return asyncio.run(run()), shown.getvalue()


def test_the_terminal_asks_and_remembers_always(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile: JsonObject = {"x": "\x1b[2J\u202e"}
    allowed, shown = asked(monkeypatch, "y\nno\n\nalways\n", [hostile, {}, {}, {}, {}])
    assert allowed == [True, False, False, True, True]
    assert shown.count("Allow a.b (delete)") == 4
    assert shown.isascii()
    assert "\x1b" not in shown


def test_without_a_terminal_the_answer_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert asyncio.run(Terminal().ask(TOOL, {})) is False

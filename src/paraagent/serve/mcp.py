"""The three tools as an MCP server, over stdio or for `http` to serve.

Place in the flow: layer 7; needs the `mcp` package. Over stdio a process is a session. Over HTTP a session is what
the protocol calls one, and only versions that have sessions are spoken: the newer ones have none, and a world that
forgets every write would be worse than none. Clients that know both kinds agree on an older version by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import mcp_types as wire
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from paraagent.errors import ToolFailure
from paraagent.protocol.jsontext import write_json
from paraagent.serve.offer import INSTRUCTIONS, OFFER, Offered, answer
from paraagent.serve.sessions import Sessions

SESSION_HEADER = "mcp-session-id"
_SIMULATED = " The tools belong to a simulated world: nothing real is read or changed."

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Nature:
    """What a client should know of the tools that can be called."""

    simulated: bool
    writes: bool
    """Whether any call may change something."""


def mcp_server(sessions: Sessions, nature: Nature) -> Server[Any]:
    """Return the server; run it with `serve_stdio`, or give it to `http`."""
    tools = [_definition(offered, nature) for offered in OFFER]

    async def list_tools(ctx: Context, params: wire.PaginatedRequestParams | None) -> wire.ListToolsResult:
        return wire.ListToolsResult(tools=tools)

    async def call_tool(ctx: Context, params: wire.CallToolRequestParams) -> wire.CallToolResult:
        session = sessions.of(_session_key(ctx))
        try:
            body = await answer(session, params.name, params.arguments or {})
        except ToolFailure as failure:
            if failure.kind == "tool_not_found":
                raise MCPError(wire.INVALID_PARAMS, str(failure)) from None
            return wire.CallToolResult(content=[_text(str(failure))], is_error=True)
        return wire.CallToolResult(content=[_text(write_json(body, compact=True))], structured_content=body)

    return Server(
        "paraagent",
        version=version("paraagent"),
        title="ParaAgent",
        instructions=INSTRUCTIONS + _SIMULATED * nature.simulated,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over this process's stdin and stdout until it leaves."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def insist_on_sessions(server: Server[Any]) -> None:
    """Let a server over HTTP offer only protocol versions that have sessions."""

    async def discover(ctx: Context, params: wire.RequestParams | None) -> wire.DiscoverResult:
        return wire.DiscoverResult(
            supported_versions=list(HANDSHAKE_PROTOCOL_VERSIONS),
            capabilities=server.get_capabilities(),
            instructions=server.instructions,
        )

    server.add_request_handler("server/discover", wire.RequestParams, discover)


def _definition(offered: Offered, nature: Nature) -> wire.Tool:
    calls = offered.name == "call_tools"
    changes = calls and nature.writes
    return wire.Tool(
        name=offered.name,
        title=offered.title,
        description=offered.description + _SIMULATED * (calls and nature.simulated),
        input_schema=offered.parameters,
        annotations=wire.ToolAnnotations(
            read_only_hint=not changes,
            destructive_hint=changes,
            idempotent_hint=not changes,
            open_world_hint=calls and not nature.simulated,
        ),
    )


def _session_key(ctx: Context) -> str:
    """Return the id of the client's session; "" over stdio, where there is one.

    Raises:
        MCPError: a request over HTTP without one.
    """
    if ctx.request is None:
        return ""
    key = ctx.request.headers.get(SESSION_HEADER)
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or not key:
        raise MCPError(
            wire.UNSUPPORTED_PROTOCOL_VERSION,
            f"this server keeps a world for each session, which {ctx.protocol_version} does not have: "
            f"connect with {HANDSHAKE_PROTOCOL_VERSIONS[-1]}",
            {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": ctx.protocol_version},
        )
    return str(key)


def _text(text: str) -> wire.TextContent:
    return wire.TextContent(type="text", text=text)

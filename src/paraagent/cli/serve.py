"""`paraagent serve ...`: offer tools to other programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paraagent.cli import real_tools
from paraagent.cli.catalog import CatalogPath
from paraagent.cli.output import JsonFlag, Output, guarded
from paraagent.errors import UsageError

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from paraagent.agent.toolboxes.opening import RealTools
    from paraagent.serve.sessions import Sessions

    Transport = Callable[[Server[Any], Sessions], Awaitable[None]]

app = typer.Typer(no_args_is_help=True, help="Offer tools to other programs.")

_HTTP = "HTTP"


@app.callback()
def _group() -> None:
    """Offer tools to other programs."""


@app.command()
@guarded
def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP instead of stdio.", rich_help_panel=_HTTP)
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.", rich_help_panel=_HTTP)] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.", rich_help_panel=_HTTP)
    ] = 8765,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name that clients use for this host.", rich_help_panel=_HTTP),
    ] = None,
    token_env: Annotated[
        str,
        typer.Option(
            metavar="VARIABLE", help="Variable that holds the bearer token; else one is made.", rich_help_panel=_HTTP
        ),
    ] = "PARAAGENT_TOKEN",
    mcp: real_tools.Mcp = None,
    openapi: real_tools.OpenApi = None,
    functions: real_tools.Functions = None,
    auth: real_tools.Auth = None,
    effect: real_tools.Effect = None,
    trust: real_tools.Trust = None,
    allow_writes: real_tools.AllowWrites = False,
    allow_write: real_tools.AllowWrite = None,
    ask: real_tools.Ask = False,
    allow_private: real_tools.AllowPrivate = False,
    seed: Annotated[int, typer.Option(min=0, help="Seeds the simulated world.")] = 0,
    top_k: Annotated[int, typer.Option(min=1, max=50, help="Tools shown per search of the catalog.")] = 5,
    catalog: CatalogPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Offer search and groups of parallel calls to any MCP client, as three tools.

    Without real tools (--mcp, --openapi, --functions) the catalog's are offered, in a simulated world that every
    session has for itself. Over stdio, so that a client can start it, or with --http over the network, with a token.
    """
    from paraagent.agent.toolboxes.opening import RealTools

    out = Output(as_json or not http)  # over stdio, stdout belongs to the client
    if not http and (ask or as_json):
        raise UsageError(
            f"{'--ask' if ask else '--json'} needs --http: over stdio the terminal belongs to the client"
        )
    tools = RealTools(
        mcp=tuple(mcp or ()),
        openapi=tuple(openapi or ()),
        functions=tuple(functions or ()),
        auth=tuple(auth or ()),
        effects=tuple(effect or ()),
        trust=tuple(trust or ()),
        allow_writes=allow_writes,
        allow_write=tuple(allow_write or ()),
        ask=ask,
        allow_private=allow_private,
    )
    transport = _http(host, port, tuple(allow_host or ()), token_env, out) if http else _stdio
    try:
        asyncio.run(_serve(tools, catalog, seed, top_k, transport, out))
    except KeyboardInterrupt:  # the usual way to end a server
        out.text.print("stopped")


async def _serve(
    tools: RealTools, catalog: Path | None, seed: int, top_k: int, transport: Transport, out: Output
) -> None:
    from paraagent.agent.toolboxes.opening import open_toolboxes
    from paraagent.catalog.store import Catalog
    from paraagent.search.search import SearchIndex
    from paraagent.serve.sessions import Sessions
    from paraagent.serve.worlds import real, simulated

    try:
        from paraagent.serve.mcp import Nature, mcp_server
    except ModuleNotFoundError as missing:
        raise UsageError(f"serving needs the `mcp` package ({missing}): pip install 'paraagent[serve]'") from None
    async with contextlib.AsyncExitStack() as stack:
        if tools:
            box = await stack.enter_async_context(open_toolboxes(tools))
            for notice in box.notices:
                out.text.print(notice, markup=False, style="yellow", soft_wrap=True)
            new = real(box)
            nature = Nature(simulated=False, writes=tools.allow_writes or tools.ask or bool(tools.allow_write))
        else:
            opened = Catalog.open(catalog)
            new = simulated(opened, SearchIndex.open(opened), seed=seed, k=top_k)
            nature = Nature(simulated=True, writes=True)
        sessions = Sessions(new)
        await transport(mcp_server(sessions, nature), sessions)


async def _stdio(server: Server[Any], sessions: Sessions) -> None:
    from paraagent.serve.mcp import serve_stdio

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what reads stdin cannot be interrupted otherwise
    await serve_stdio(server)


def _http(host: str, port: int, names: tuple[str, ...], token_env: str, out: Output) -> Transport:
    async def serve(server: Server[Any], sessions: Sessions) -> None:
        from paraagent.serve.http import Address, HttpServer, token_from

        token, made = token_from(os.environ, token_env)
        listening = HttpServer(server, sessions, Address(host, port, names), token)
        out.text.print(f"MCP at {listening.url}, until Ctrl-C", soft_wrap=True)
        if made:
            print(f"token: {token}", file=sys.stderr, flush=True)
        else:
            out.text.print(f"token: the one in {token_env}")
        out.finish({"url": listening.url})
        await listening.run()

    return serve

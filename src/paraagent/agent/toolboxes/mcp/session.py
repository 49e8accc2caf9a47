"""One MCP server's session: opened when first needed, opened again with growing pauses after it was lost.

Place in the flow: layer 3, between `toolbox` and the SDK's client. The SDK's scopes must be closed by the task that
opened them, so a session lives in a task of its own, and calls of any task use it meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from typing import Any

from mcp import Client
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paraagent.agent.toolboxes.mcp.config import McpServer
from paraagent.agent.toolboxes.mcp.errors import one_line
from paraagent.agent.toolboxes.mcp.http import http_client
from paraagent.agent.toolboxes.mcp.stdio import StdioServer
from paraagent.errors import EnvironmentFault, ToolFailure

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class Session:
    """Keeps one server reachable."""

    def __init__(self, config: McpServer) -> None:
        self._config = config
        self._lock = asyncio.Lock()
        self._run: _Run | None = None
        self._failures = 0
        self._next_try = 0.0

    @property
    def changed(self) -> bool:
        """Whether the server's tools may differ from those that were listed: it said so, or was reached anew."""
        return self._run is None or self._run.changed

    @changed.setter
    def changed(self, changed: bool) -> None:
        if self._run is not None:
            self._run.changed = changed

    async def ended(self) -> bool:
        """Tell whether the session is over; a child process that closed its output gets a moment to say why."""
        return self._run is None or await self._run.ended()

    def reason(self) -> str:
        """Why the server is gone."""
        return self._run.reason if self._run is not None else "it was never reached"

    async def client(self) -> Client:
        """Return a client that is connected.

        Raises:
            ToolFailure: `unavailable`; after a failed try others are not made before a pause is over.
        """
        async with self._lock:
            if self._run is not None and self._run.alive:
                return self._run.client
            await self._stop()
            now = asyncio.get_running_loop().time()
            if now < self._next_try:
                raise self._unavailable(self.reason(), self._next_try - now)
            run = self._run = _Run(self._config)
            try:
                return await run.start()
            except EnvironmentFault as fault:
                pause = min(_FIRST_PAUSE * 2.0**self._failures, _LONGEST_PAUSE)
                self._failures += 1
                self._next_try = now + pause
                raise self._unavailable(str(fault), pause) from None
            finally:
                if run.alive:
                    self._failures = 0

    def drop(self) -> None:
        """Give up a session that the server no longer knows; the next call opens another."""
        if self._run is not None:
            self._run.lose("the server forgot the session")

    async def close(self) -> None:
        """End the session and, if it is a child process, the server."""
        async with self._lock:
            await self._stop()

    async def _stop(self) -> None:
        if self._run is not None:
            await self._run.stop()

    def _unavailable(self, why: str, wait: float) -> ToolFailure:
        message = f"MCP server {self._config.name!r} is down: {why}"
        return ToolFailure("unavailable", message, retry_after=round(wait, 2))


class _Run:
    """One life of a session."""

    def __init__(self, config: McpServer) -> None:
        self._config = config
        self._server = None if config.url else StdioServer(config)
        self._over = asyncio.Event() if self._server is None else self._server.ended
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._reason = ""
        self.changed = True

    @property
    def client(self) -> Client:
        return self._ready.result()

    @property
    def alive(self) -> bool:
        connected = self._ready.done() and not self._ready.cancelled()
        return connected and not self._over.is_set() and self._task is not None and not self._task.done()

    @property
    def reason(self) -> str:
        return self._reason or (self._server.reason if self._server else "the session ended")

    async def ended(self) -> bool:
        if self._server is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), 0.5)
        return not self.alive

    def lose(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._over.set()

    async def start(self) -> Client:
        """Connect.

        Raises:
            EnvironmentFault: that failed, or took too long.
        """
        quiet("mcp", "client")
        self._task = asyncio.get_running_loop().create_task(self._live())
        waited: set[asyncio.Future[Any]] = {self._task, self._ready}
        done, _ = await asyncio.wait(waited, timeout=self._config.bounds.start, return_when=asyncio.FIRST_COMPLETED)
        if self.alive:
            return self.client
        if not done:
            self._reason = f"it did not answer within {self._config.bounds.start:g} s"
        await self.stop()
        raise EnvironmentFault(self.reason)

    async def stop(self) -> None:
        """End it; a server that does not go by itself is killed by the transport."""
        self._over.set()
        if self._task is None:
            return
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task})

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._connected(stack))
                watch = asyncio.create_task(self._watch(client))
                self._ready.set_result(client)
                try:
                    await self._over.wait()
                finally:
                    watch.cancel()
                    await asyncio.gather(watch, return_exceptions=True)
        except Exception as error:
            self._reason = self._reason or self._explain(error)
        finally:
            self._over.set()
            self._ready.cancel()

    async def _connected(self, stack: AsyncExitStack) -> Client:
        config = self._config
        transport: Transport
        if self._server is not None:
            transport = self._server.streams()
        else:
            http = await stack.enter_async_context(http_client(dict(config.headers), config.bounds))
            transport = streamable_http_client(config.url, http_client=http, max_sse_event_size=config.bounds.size)
        return Client(
            transport,
            cache=None,
            read_timeout_seconds=config.bounds.start,
            client_info=Implementation(name="paraagent", version=version("paraagent")),
            message_handler=self._on_message,
        )

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.changed = True

    async def _watch(self, client: Client) -> None:
        """Ask newer servers to tell of changed tools; older ones do so unasked."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            return
        pause = _FIRST_PAUSE
        first = True
        while True:
            with suppress(MCPError, RuntimeError, TimeoutError):
                async with client.listen(tools_list_changed=True) as changes:
                    self.changed = self.changed or not first  # nobody told of changes in between
                    first, pause = False, _FIRST_PAUSE
                    async for _ in changes:
                        self.changed = True
            await asyncio.sleep(pause)
            pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _explain(self, error: BaseException) -> str:
        """Say why connecting failed: the first cause in a group, and what a child process said."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, EnvironmentFault):
            return str(error)
        if self._server is not None and self._server.ended.is_set():
            return self._server.reason
        return one_line(str(error), 300) or type(error).__name__


def quiet(*names: str) -> None:
    """Keep loggers of these names from writing to the terminal by default; a configured logging still hears them."""
    for name in names:
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())

"""A local MCP server as a child process, spoken to over its standard input and output.

Place in the flow: layer 3, the transport under `session`. The SDK's own one puts no bound on a line and ends the
session on the first byte that is not UTF-8; here one bad or endless answer fails the one call it belongs to and its
siblings go on. Lines that are no answer are dropped, and their volume is bounded. What the server writes to its error
output is kept for error messages, as far as its last lines.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from paraagent.agent.toolboxes.mcp.config import McpServer
from paraagent.agent.toolboxes.mcp.errors import TOO_LONG
from paraagent.errors import EnvironmentFault

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]

_CHUNK = 65_536
_ENDS = 256
"""Bytes kept of each end of a line that is too long: its `id` stands in one of them."""
_TAIL = 2_000
_GRACE = 2.0
_LAST_WORDS = 0.2
_ID_FIRST = re.compile(rb'^\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output; only its ends, if it was longer than allowed."""

    data: bytes
    size: int


class Lines:
    """Cuts a stream of bytes into lines without ever holding more than about `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> list[Line]:
        """Add bytes; return the lines that are complete now."""
        *ends, rest = chunk.split(b"\n")
        lines: list[Line] = []
        for part in ends:
            self._add(part)
            lines.append(Line(bytes(self._held), self._size))
            self._held.clear()
            self._size = 0
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        self._held += part
        self._size += len(part)
        if len(self._held) > self._limit:
            del self._held[_ENDS:-_ENDS]


class StdioServer:
    """One run of a server's process."""

    def __init__(self, config: McpServer) -> None:
        self._config = config
        self._limit = config.bounds.size
        self._noise = 0
        self._first_noise = ""
        self._stderr = bytearray()
        self._reason = ""
        self._process: asyncio.subprocess.Process | None = None
        self.ended = asyncio.Event()
        """Set once nothing more can come from the server."""

    @property
    def reason(self) -> str:
        """Why it ended, with the last line of its error output."""
        code = self._process.returncode if self._process else None
        reason = self._reason or ("it closed its output" if code is None else f"it exited with code {code}")
        said = bytes(self._stderr).decode("utf-8", "replace").strip().splitlines()
        last = "".join(char for char in said[-1] if char.isprintable())[:300] if said else ""
        return f"{reason}; its last words: {last}" if last else reason

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Start the process and speak with it; end it, with its children, on the way out.

        Raises:
            EnvironmentFault: it cannot be started.
        """
        process = self._process = await self._start()
        read_writer, read_stream = anyio.create_memory_object_stream[Incoming](0)
        write_stream, write_reader = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(work)
            for work in (self._read(process, read_writer), self._write(process, write_reader), self._listen(process))
        ]
        try:
            yield read_stream, write_stream
        finally:
            await asyncio.shield(_end(process))
            await asyncio.wait(tasks, timeout=_LAST_WORDS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (read_writer, read_stream, write_stream, write_reader):
                stream.close()

    async def _start(self) -> asyncio.subprocess.Process:
        config = self._config
        env = get_default_environment() | dict(config.env)
        command = shutil.which(config.command, path=env.get("PATH")) or config.command
        pipe = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                command, *config.args, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=config.cwd,
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise EnvironmentFault(
                f"MCP server {config.name!r}: cannot start {config.command!r} ({why}); check `command` and `cwd`"
            ) from None

    async def _read(self, process: asyncio.subprocess.Process, out: MemoryObjectSendStream[Incoming]) -> None:
        assert process.stdout is not None
        lines = Lines(self._limit)
        try:
            async with out:
                while not self._reason and (chunk := await process.stdout.read(_CHUNK)):
                    for line in lines.feed(chunk):
                        if message := self._message(line):
                            await out.send(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the session is gone
        finally:
            with suppress(TimeoutError):  # a server that ends says why; its code arrives a moment later
                await asyncio.wait_for(process.wait(), _LAST_WORDS)
            self.ended.set()
        while await process.stdout.read(_CHUNK):
            pass  # a server that cannot get rid of its output does not end

    def _message(self, line: Line) -> SessionMessage | None:
        """Return what a line says; an unreadable answer becomes an error for the call it answers."""
        if not line.data.lstrip().startswith(b"{"):
            self._count_noise(line)
            return None
        if line.size > self._limit:
            problem = ErrorData(
                code=TOO_LONG, message=f"the answer has {line.size:,} bytes, more than the {self._limit:,} allowed"
            )
        else:
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(line.data, by_name=False))
            except ValueError:
                problem = ErrorData(code=PARSE_ERROR, message=f"the answer is not {_fault(line.data)}")
        found = _ID_FIRST.search(line.data) or _ID_LAST.search(line.data)
        if found:
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=problem))
        self._count_noise(line)
        return None

    def _count_noise(self, line: Line) -> None:
        self._noise += line.size
        if not self._first_noise:
            self._first_noise = line.data[:80].decode("utf-8", "replace").strip()
        if self._noise > self._limit:
            self._reason = f"it floods its output with what is not MCP, starting with {self._first_noise!r}"

    async def _write(
        self, process: asyncio.subprocess.Process, messages: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        assert process.stdin is not None
        with suppress(OSError):  # a server that no longer reads: its output ends, too, or the call times out
            async with messages:
                async for message in messages:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                    await process.stdin.drain()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(_CHUNK):
            self._stderr += chunk
            del self._stderr[:-_TAIL]


def _fault(data: bytes) -> str:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"valid UTF-8 (byte {error.start:,})"
    return "a valid JSON-RPC message"


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process as MCP asks for: close its input, wait, then tell its whole group to end, then kill it."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    for step in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        if step is not None:
            _signal(process, step)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE)
            break


def _signal(process: asyncio.subprocess.Process, step: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, step)  # the leader of its own group, see `start_new_session`
        else:
            process.send_signal(step)

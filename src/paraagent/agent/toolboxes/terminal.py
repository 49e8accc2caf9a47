"""Asks the user at the terminal: may this call write, is this changed tool fine?

Place in the flow: layer 3, given to `mixed` and `mcp` by the command line. What is shown comes from a model and from
servers, so it is written as ASCII. Without a terminal the answer is no.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import suppress

from paraagent.types import JsonObject, Tool

_SHOWN = 2_000


class Terminal:
    """The user at the terminal."""

    def __init__(self) -> None:
        self._always: set[str] = set()
        self._lock = asyncio.Lock()  # one question at a time

    async def ask(self, tool: Tool, arguments: JsonObject) -> bool:
        """Return whether a call may write; `always` answers for the tool's later calls, too."""
        if tool.name in self._always:
            return True
        shown = json.dumps(arguments)[:_SHOWN]
        answer = await self._answer(
            f"Allow {_ascii(tool.name)} ({tool.effect}) with {shown}? [y]es, [a]lways, [N]o: "
        )
        if answer in ("a", "always"):
            self._always.add(tool.name)
        return answer in ("y", "yes", "a", "always")

    async def approve(self, pinned: Tool, latest: Tool) -> bool:
        """Return whether a server's new definition of a tool is fine."""
        lines = [f"The definition of {_ascii(pinned.name)} changed."]
        for field in ("description", "parameters", "returns", "effect"):
            before, after = getattr(pinned, field), getattr(latest, field)
            if before != after:
                lines += [
                    f"  {field} was {json.dumps(before)[:_SHOWN]}",
                    f"  {field} is  {json.dumps(after)[:_SHOWN]}",
                ]
        return await self._answer("\n".join([*lines, "Use it as it is now? [y]es, [N]o: "])) in ("y", "yes")

    async def _answer(self, question: str) -> str:
        """Ask a question and return the answer in lower case; "" if there is nobody to answer."""
        if not sys.stdin.isatty():
            return ""
        async with self._lock:
            print(question, end="", file=sys.stderr, flush=True)
            return (await _line()).strip().lower()


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


async def _line() -> str:
    """Read a line from the terminal in a thread that never keeps the program from ending."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def settle(line: str) -> None:
        if not typed.done():
            typed.set_result(line)

    def read() -> None:
        line = sys.stdin.readline()
        with suppress(RuntimeError):  # the run ended meanwhile
            loop.call_soon_threadsafe(settle, line)

    threading.Thread(target=read, daemon=True, name="paraagent-ask").start()
    return await typed

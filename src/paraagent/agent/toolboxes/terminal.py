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

    async def ask(self, tool: Tool, arguments: JsonObject) -> bool:
        """Return whether a call may write; `always` answers for the tool's later calls, too."""
        if tool.name in self._always:
            return True
        shown = json.dumps(arguments)[:_SHOWN]
        answer = await _answer(f"Allow {_ascii(tool.name)} ({tool.effect}) with {shown}? [y]es, [a]lways, [N]o: ")
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
        return await _answer("\n".join([*lines, "Use it as it is now? [y]es, [N]o: "])) in ("y", "yes")


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


async def _answer(question: str) -> str:
    """Ask a question and return the answer in lower case; "" if there is nobody to answer."""
    if not sys.stdin.isatty():
        return ""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def settle(line: str) -> None:
        if not answered.done():
            answered.set_result(line.strip().lower())

    def read() -> None:
        line = sys.stdin.readline()
        with suppress(RuntimeError):  # the run ended meanwhile
            loop.call_soon_threadsafe(settle, line)

    print(question, end="", file=sys.stderr, flush=True)
    threading.Thread(target=read, daemon=True, name="paraagent-ask").start()
    return await answered

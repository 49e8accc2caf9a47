"""Whether a call that may change the world is allowed to.

Place in the flow: layer 3, asked by `mixed` before every call. Reading is always allowed. A tool about which nobody
says what it does counts as one that writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, Tool

Ask = Callable[[Tool, JsonObject], Awaitable[bool]]
"""Shows a call that would write to the user and returns whether it may."""


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """Which writes are allowed without asking."""

    allow: tuple[str, ...] = ()
    """Tool names or patterns; `*` is all."""

    def allows(self, tool: Tool) -> bool:
        return any(fnmatchcase(tool.name, pattern) for pattern in self.allow)


class WriteGuard:
    """Lets writes through that the policy or the user allows; the user is asked about one call at a time."""

    def __init__(self, policy: WritePolicy, ask: Ask | None = None) -> None:
        self._policy = policy
        self._ask = ask
        self._lock = asyncio.Lock()

    async def permit(self, tool: Tool, arguments: JsonObject, *, declared: bool) -> None:
        """Return if the write may go ahead.

        Raises:
            ToolFailure: `permission`, saying what would allow it.
        """
        if self._policy.allows(tool):
            return
        if self._ask is None:
            raise ToolFailure("permission", f"{_what(tool, declared)}, and {_remedy(tool, declared)}")
        async with self._lock:
            allowed = await self._ask(tool, arguments)
        if not allowed:
            raise ToolFailure("permission", f"the user did not allow this call of {tool.name}; nothing was done")


def _what(tool: Tool, declared: bool) -> str:
    if not declared:
        return f"{tool.name} does not say whether it changes anything, so it counts as a write"
    verb = {"create": "creates something", "update": "changes something", "delete": "deletes something"}
    return f"{tool.name} {verb.get(tool.effect, 'changes something')}"


def _remedy(tool: Tool, declared: bool) -> str:
    other = "" if declared else f", or vouch for it with --effect {tool.name}=read"
    return (
        "writes are not allowed in this run: nothing was done; "
        f"the user can allow it with --allow-writes or --allow-write {tool.name}{other}"
    )

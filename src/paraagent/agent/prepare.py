"""What the scheduler knows of one call, and how it is found out: tool, arguments, effects, server.

Place in the flow: layer 3, the first half of `schedule`. Everything a toolbox is asked here is guarded: whatever it
raises fails the one call, never the group. A call that links to an unfinished one has its effects asked twice: at
first with the linked arguments left out, which must cover every value they may take, and again once they are known.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from paraagent.clock import Timer
from paraagent.errors import ToolFailure
from paraagent.protocol import links
from paraagent.types import Call, Effects, JsonObject, JsonValue, Tool, Toolbox, ToolError

EXCLUSIVE = Effects(exclusive=True)
"""The effects of a call about which nothing is known."""

_MESSAGE_CAP = 500
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


@dataclass(slots=True, eq=False)
class Run:
    """One call of a group on its way to its result; `schedule` moves it along."""

    index: int
    call: Call
    arguments: JsonObject
    """After links were resolved."""
    text: bytes
    """The arguments as written, in canonical form."""
    tool: Tool | None = None
    server: str = ""
    effects: Effects = EXCLUSIVE
    rank: int = 0
    """Position in the group's link order."""

    links_left: int = 0
    """How many calls it links to have not ended yet."""
    linked: list[Run] = field(default_factory=list)
    """Calls that link to this one."""
    before: dict[Run, None] = field(default_factory=dict)
    """Unfinished calls in conflict that go first; a set that keeps its order."""
    after: dict[Run, None] = field(default_factory=dict)
    """Calls in conflict that wait for this one; a set that keeps its order."""
    twins: list[Run] = field(default_factory=list)
    """Identical calls that share this one's result."""
    is_twin: bool = False
    """It waits for another's result and never runs itself."""

    admitted: bool = False
    """It may go as soon as its server has room."""
    done: bool = False
    attempts: int = 0
    started: float | None = None
    task: asyncio.Task[None] | None = None
    """The attempt that holds a place at the server."""
    entered: bool = False
    """That attempt has begun to run."""
    timer: Timer | None = None
    """Ends the attempt, or begins the next one."""
    stop: ToolError | None = None
    """Why the attempt was cancelled."""

    @property
    def has_links(self) -> bool:
        """Whether the arguments may hold links or escaped dollars; False is certain."""
        return b'"$' in self.text


def canonical(arguments: JsonObject) -> bytes:
    """Return arguments as bytes that are equal exactly if the arguments are: JSON with sorted keys."""
    try:
        return orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):  # integers beyond 64 bits, half surrogates
        return json.dumps(arguments, sort_keys=True).encode()


def prepare(run: Run, toolbox: Toolbox, values: Mapping[str, JsonValue]) -> ToolError | None:
    """Find a call's tool, and its effects as far as its arguments are known; return why it cannot run."""
    error = _look_up(run, toolbox)
    if error is None and not run.links_left:
        return resolve(run, toolbox, values)
    if run.tool is not None:
        run.effects = _effects(run.tool, _without_links(run.call.arguments), toolbox)
    return error


def resolve(run: Run, toolbox: Toolbox, values: Mapping[str, JsonValue]) -> ToolError | None:
    """Settle a call's arguments and effects now that all it links to is in `values`; return why it cannot run."""
    assert run.tool is not None
    try:
        if run.has_links:
            arguments = links.resolve(run.call.arguments, values)
            assert isinstance(arguments, dict)
            run.arguments = arguments
        run.server = toolbox.server(run.tool)
    except ToolFailure as failure:
        return ToolError(failure.kind, str(failure), failure.retry_after, failure.injected)
    except Exception as problem:
        return unexpected(problem)
    run.effects = _effects(run.tool, run.arguments, toolbox)
    return None


def _look_up(run: Run, toolbox: Toolbox) -> ToolError | None:
    try:
        run.tool = toolbox.tool(run.call.name)
        if run.tool is not None:
            return None
        names = ", ".join(toolbox.suggestions(run.call.name)[:3])
    except Exception as error:
        return unexpected(error)
    hint = f"; close names: {names}" if names else ""
    return ToolError("tool_not_found", f"no tool is named {_short(run.call.name, 80)!r}{hint}")


def _effects(tool: Tool, arguments: JsonValue, toolbox: Toolbox) -> Effects:
    assert isinstance(arguments, dict)
    try:
        return toolbox.effects(tool, arguments)
    except Exception:
        return EXCLUSIVE


def _without_links(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _without_links(child) for key, child in value.items() if not _is_link(child)}
    if isinstance(value, list):
        return [_without_links(child) for child in value if not _is_link(child)]
    return value


def as_json(value: JsonValue) -> JsonValue:
    """Return a copy of an answer as plain JSON, so that a result cannot change once it is given.

    Raises:
        ToolFailure: the answer is not JSON.
    """
    try:
        copy: JsonValue = orjson.loads(orjson.dumps(value, option=_STRICT))
    except (TypeError, ValueError) as problem:
        raise ToolFailure("tool_error", f"the tool's answer is not JSON: {problem}") from None
    return copy


def unexpected(error: Exception) -> ToolError:
    """Return an exception that no toolbox should raise as the call's error."""
    try:
        text = str(error)
    except Exception:
        text = "its message cannot be shown"
    return ToolError("tool_error", _short(f"{type(error).__name__}: {text}", _MESSAGE_CAP))


def _is_link(value: JsonValue) -> bool:
    return isinstance(value, str) and value.startswith("$") and bool(links.upstream(value))


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"

"""The tools of one MCP server, local (stdio) or over streamable HTTP.

Place in the flow: layer 3; needs the `mcp` package (`pip install 'paraagent[serve]'`). A tool's definition is pinned
when it is first listed. What the server changes later is refused until somebody approves it, since a definition is
text that the model obeys. Tools that appear later are not offered until approved either.
A server's hints about effects count only if it is trusted. A call's time runs out a while after its last sign of
progress, and at the ceiling in any case. Answers that break the tool's own output schema are refused.
Limits: what a server asks of its client (samples, input of the user) is declined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

import jsonschema_rs
import mcp_types as wire
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from paraagent.agent.toolboxes.listed import EffectRules, ListedToolbox, prefixed
from paraagent.agent.toolboxes.mcp.answer import (
    answer_value,
    declares_effect,
    definition_digest,
    error_text,
    has_plain_name,
    tool_of,
)
from paraagent.agent.toolboxes.mcp.config import McpServer
from paraagent.agent.toolboxes.mcp.errors import call_failure, http_status, one_line
from paraagent.agent.toolboxes.mcp.session import Session
from paraagent.errors import EnvironmentFault, ToolFailure
from paraagent.types import JsonObject, JsonValue, Tool

Approve = Callable[[Tool, Tool], Awaitable[bool]]
"""Is shown a pinned tool and what the server has made of it, and says whether that is fine."""

PAGES = 200
TOOLS = 10_000

_RESULT: TypeAdapter[wire.CallToolResult | wire.InputRequiredResult] = TypeAdapter(
    wire.CallToolResult | wire.InputRequiredResult
)


class McpToolbox(ListedToolbox):
    """One server's tools, named `server.tool`.

    Args:
        rules: effects that the user states, by tool name or pattern.
        approve: is asked about a changed definition when its tool is called; without it changes are refused.

    Entering raises EnvironmentFault if the server cannot be reached or its tools cannot be listed.
    """

    def __init__(
        self, config: McpServer, *, rules: EffectRules | None = None, approve: Approve | None = None
    ) -> None:
        super().__init__(config.name, {**(rules or {}), **prefixed(config.name, config.rules)})
        self._config = config
        self._approve = approve
        self._listing = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._session = Session(config)
        self._pinned: dict[str, str] = {}
        self._listed: dict[str, wire.Tool] = {}
        self._latest: dict[str, wire.Tool] = {}
        self._returns: dict[str, jsonschema_rs.Validator] = {}
        self._skipped: list[str] = []

    async def __aenter__(self) -> Self:
        try:
            await self._list(await self._session.client())
        except ToolFailure as failure:
            await self._session.close()
            raise EnvironmentFault(f"{failure}; mend the entry or set `disabled` in it") from None
        except BaseException:
            await self._session.close()
            raise
        for name in self._latest:
            self.approve(name)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @property
    def secrets(self) -> frozenset[str]:
        return self._config.secrets

    @property
    def digests(self) -> dict[str, str]:
        return dict(self._pinned)

    @property
    def raw_definitions(self) -> dict[str, JsonObject]:
        """Everything that the server says of each tool it lists, as it came, the tools that are left out included."""
        return {
            name: tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            for name, tool in self._listed.items()
        }

    @property
    def notices(self) -> list[str]:
        if not self._latest:
            return [f"MCP server {self.name!r} offers no tools"]
        if not self._skipped:
            return []
        shown = ", ".join(f"{name[:40]!r}" for name in self._skipped[:3])
        return [f"MCP server {self.name!r}: {len(self._skipped)} tools are left out because of their names: {shown}"]

    def approve(self, name: str) -> None:
        """Pin the definition that the server gives for a tool now, and offer the tool.

        Raises:
            KeyError: the server lists no tool of this name.
        """
        self._pin(name, self._latest[name])

    def _pin(self, name: str, definition: wire.Tool) -> None:
        self._pinned[name] = definition_digest(definition)
        self._returns.pop(name, None)
        self.offer(self._tool(definition), declared=self._config.trusted and declares_effect(definition))

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        self.check(tool, arguments)
        writing = not self.effects(tool, arguments).read_only
        for last in (False, True):
            client = await self._session.client()
            await self._list_if_changed(client)
            definition = await self._pinned_definition(tool)
            try:
                return self._value(tool, definition, await self._ask(client, tool, arguments))
            except MCPError as error:
                if http_status(error)[0] == 404 and not last:  # the session is unknown there, so nothing was run
                    self._session.drop()
                    continue
                raise await self._failure(error, writing) from None
            except ValidationError as problem:
                raise _not_mcp(tool, problem, writing) from None
        raise AssertionError("unreachable")

    async def _ask(
        self, client: Client, tool: Tool, arguments: JsonObject
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        """Send the request; signs of progress put off its end, up to the ceiling."""
        bounds = self._config.bounds
        loop = asyncio.get_running_loop()
        ceiling = loop.time() + bounds.ceiling
        limit = asyncio.timeout(min(bounds.timeout, bounds.ceiling))

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if not limit.expired():
                limit.reschedule(min(loop.time() + bounds.timeout, ceiling))

        params = wire.CallToolRequestParams(name=tool.operation, arguments=arguments)
        try:
            async with limit:
                return await client.session.send_request(
                    wire.CallToolRequest(params=params),
                    _RESULT,
                    request_read_timeout_seconds=bounds.ceiling + 1.0,
                    progress_callback=progressed,
                )
        except TimeoutError:
            if loop.time() >= ceiling:
                raise ToolFailure("timeout", f"{tool.name} was still at work after {bounds.ceiling:g} s") from None
            raise ToolFailure(
                "timeout", f"{tool.name} gave no answer and no sign of progress for {bounds.timeout:g} s"
            ) from None

    def _value(
        self, tool: Tool, definition: wire.Tool, result: wire.CallToolResult | wire.InputRequiredResult
    ) -> JsonValue:
        if isinstance(result, wire.InputRequiredResult):
            raise ToolFailure("tool_error", f"{tool.name} asks for input from the user, which is not supported")
        if result.is_error:
            raise ToolFailure("tool_error", error_text(result))
        if definition.output_schema is not None:
            self._insist_typed(tool, definition.output_schema, result)
        return answer_value(result)

    def _insist_typed(self, tool: Tool, schema: JsonObject, result: wire.CallToolResult) -> None:
        if result.structured_content is None:
            raise ToolFailure("tool_error", f"{tool.name} promises structured content and sent none")
        validator = self._returns.get(tool.name)
        try:
            if validator is None:
                validator = self._returns[tool.name] = jsonschema_rs.validator_for(schema, retriever=_nothing)
            error = next(validator.iter_errors(result.structured_content), None)
        except ValueError as problem:
            raise ToolFailure(
                "tool_error", f"{tool.name} has a broken output schema: {one_line(str(problem))}"
            ) from None
        if error is not None:
            where = ".".join(map(str, error.instance_path)) or "the answer"
            message = f"{tool.name} broke its own output schema at {where}: {one_line(error.message, 200)}"
            raise ToolFailure("tool_error", message)

    async def _failure(self, error: MCPError, writing: bool) -> ToolFailure:
        if error.code != wire.CONNECTION_CLOSED or not await self._session.ended():
            return call_failure(error, writing=writing)
        why = f"MCP server {self.name!r} went away during the call: {self._session.reason()}"
        return call_failure(MCPError(error.code, why), writing=writing)

    async def _list_if_changed(self, client: Client) -> None:
        async with self._listing:  # so that no call goes by an old list while a new one is on its way
            if self._session.changed:
                await self._list(client)

    async def _list(self, client: Client) -> None:
        """Ask for all tools, page by page.

        Raises:
            ToolFailure: `unavailable`.
        """
        found: dict[str, wire.Tool] = {}
        cursor: str | None = None
        self._session.changed = False  # before asking, so that a change meanwhile is not overlooked
        try:
            async with asyncio.timeout(self._config.bounds.start):
                for _ in range(PAGES):
                    params = wire.PaginatedRequestParams(cursor=cursor) if cursor else None
                    page = await client.session.list_tools(params=params)
                    found.update((f"{self.name}.{tool.name}", tool) for tool in page.tools)
                    cursor = page.next_cursor
                    if not cursor or len(found) > TOOLS:
                        break
        except (MCPError, ValidationError, TimeoutError) as problem:
            self._session.changed = True
            if isinstance(problem, MCPError) and http_status(problem)[0] == 404:
                self._session.drop()
            reason = one_line(str(problem), 300) or "it took too long"
            raise ToolFailure("unavailable", f"MCP server {self.name!r} does not list its tools: {reason}") from None
        self._listed = found
        self._skipped = [tool.name for tool in found.values() if not has_plain_name(tool)]
        self._latest = {name: tool for name, tool in found.items() if has_plain_name(tool)}

    async def _pinned_definition(self, tool: Tool) -> wire.Tool:
        """Return a tool's definition; refuse one that is no longer what was pinned."""
        latest = self._latest.get(tool.name)
        if latest is None:
            raise ToolFailure("tool_not_found", f"MCP server {self.name!r} no longer offers {tool.name}")
        async with self._asking:
            if definition_digest(latest) == self._pinned[tool.name]:
                return latest
            if self._approve is not None and await self._approve(tool, self._tool(latest)):
                self._pin(tool.name, latest)  # what was shown, whatever the server has made of it meanwhile
                return latest
        raise ToolFailure(
            "permission",
            f"MCP server {self.name!r} changed the definition of {tool.name} during the run, so it was not called; "
            "the change must be approved first, or start a new run",
        )

    def _tool(self, definition: wire.Tool) -> Tool:
        return tool_of(definition, self.name, trusted=self._config.trusted)


def _not_mcp(tool: Tool, problem: ValidationError, writing: bool) -> ToolFailure:
    first = problem.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "the answer"
    hint = "; the call itself may have done its work" if writing else ""
    return ToolFailure("tool_error", f"{tool.name} sent an answer that is not MCP: {where}: {first['msg']}{hint}")


def _nothing(uri: str) -> JsonObject:
    """Fetch no schema from elsewhere, whatever a server's schema refers to."""
    raise ValueError(f"it refers to {uri[:100]}, which is not fetched")

"""Opens the real tools that a user names: MCP servers, OpenAPI documents, Python files.

Place in the flow: layer 3; what the command line calls.

    async with open_toolboxes(RealTools(mcp=(Path("servers.json"),), allow_writes=True)) as toolbox:
        with Recorder(path, redact=redactor(toolbox.secrets)) as recorder:
            await Loop(start, policy, toolbox, WallClock(), recorder, Settings(limits=LIMITS)).run()
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paraagent.agent.limits import Limits
from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.functions import FunctionToolbox
from paraagent.agent.toolboxes.listed import EffectRules, ListedToolbox, effect_rules
from paraagent.agent.toolboxes.mcp.config import McpServer, mcp_servers, read_tools_file
from paraagent.agent.toolboxes.mixed import MixedToolbox
from paraagent.agent.toolboxes.openapi.config import openapi_sources
from paraagent.agent.toolboxes.openapi.toolbox import OpenApiSource, OpenApiToolbox
from paraagent.agent.toolboxes.python_file import public_functions
from paraagent.agent.toolboxes.secrets import expand
from paraagent.agent.toolboxes.terminal import Terminal
from paraagent.agent.toolboxes.writes import WritePolicy
from paraagent.errors import UsageError
from paraagent.types import Toolbox

LIMITS = Limits(timeout=None)
"""The scheduler's limits for real tools, which keep their own time."""


@dataclass(frozen=True, slots=True)
class RealTools:
    """Which real tools to use, and what they may do."""

    mcp: tuple[Path, ...] = ()
    """Files with `mcpServers`, and perhaps `openapi`."""
    openapi: tuple[str, ...] = ()
    """Files or addresses of OpenAPI documents."""
    functions: tuple[Path, ...] = ()
    """Python files whose public functions are tools."""
    auth: tuple[str, ...] = ()
    """`SCHEME=VALUE` for the document's security schemes; `${VARIABLE}` in a value is replaced."""
    effects: tuple[str, ...] = ()
    """`PATTERN=EFFECT`: what tools do, by name or pattern."""
    trust: tuple[str, ...] = ()
    """MCP servers whose annotations are believed, besides those that the file marks as `trusted`."""
    allow_writes: bool = False
    """Whether all tools may write."""
    allow_write: tuple[str, ...] = ()
    """Names or patterns of tools that may write."""
    ask: bool = False
    """Whether to ask at the terminal about other writes, and about tools whose definition changed."""
    allow_private: bool = False
    """Whether OpenAPI calls may reach this machine and private networks."""
    bounds: Bounds = field(default_factory=Bounds)

    def __bool__(self) -> bool:
        return bool(self.mcp or self.openapi or self.functions)


def open_toolboxes(
    tools: RealTools, *, environ: Mapping[str, str] | None = None, world: Toolbox | None = None
) -> MixedToolbox:
    """Return a toolbox over all these tools, to be entered with `async with`.

    Args:
        environ: where `${VARIABLE}` is looked up; the process's environment unless given.
        world: simulated tools to mix in.

    Raises:
        UsageError: a setting is wrong, or a package is missing.
        EnvironmentFault: a file cannot be read; on entering, a server cannot be reached.
    """
    variables = os.environ if environ is None else environ
    rules = effect_rules(dict(_pair(text, "--effect", "NAME=read") for text in tools.effects), "--effect")
    terminal = Terminal() if tools.ask else None
    servers, sources = _from_files(tools, variables)
    boxes: list[ListedToolbox] = _mcp_toolboxes(servers, rules, terminal)
    boxes += [OpenApiToolbox(source, rules=rules) for source in sources]
    boxes += [
        FunctionToolbox(public_functions(path), path.stem, rules=rules, bounds=tools.bounds)
        for path in tools.functions
    ]
    writes = WritePolicy(("*",) if tools.allow_writes else tools.allow_write)
    return MixedToolbox(boxes, writes=writes, ask=terminal.ask if terminal else None, world=world)


def _from_files(tools: RealTools, environ: Mapping[str, str]) -> tuple[list[McpServer], list[OpenApiSource]]:
    servers: list[McpServer] = []
    sources: list[OpenApiSource] = []
    for path in tools.mcp:
        content = read_tools_file(path)
        if not content.keys() & {"mcpServers", "servers", "openapi"}:
            raise UsageError(f"{path}: has neither `mcpServers` nor `openapi`")
        servers += mcp_servers(content, str(path), environ, tools.bounds, trust=tools.trust)
        sources += openapi_sources(content, path, environ, tools.bounds, allow_private=tools.allow_private)
    if unknown := set(tools.trust) - {server.name for server in servers}:
        raise UsageError(f"--trust {min(unknown)}: no MCP server has this name")
    return servers, sources + _documents(tools, environ)


def _documents(tools: RealTools, environ: Mapping[str, str]) -> list[OpenApiSource]:
    if tools.auth and len(tools.openapi) != 1:
        raise UsageError("--auth needs exactly one --openapi; put several into a tools file, each with its `auth`")
    auth: dict[str, str] = {}
    secrets: set[str] = set()
    for text in tools.auth:
        scheme, value = _pair(text, "--auth", "SCHEME=${VARIABLE}")
        auth[scheme], found = expand(value, environ, f"--auth {scheme}")
        secrets |= found
    return [
        OpenApiSource(
            document,
            auth=auth,
            allow_private=tools.allow_private,
            bounds=tools.bounds,
            secrets=frozenset(secrets),
        )
        for document in tools.openapi
    ]


def _mcp_toolboxes(servers: list[McpServer], rules: EffectRules, terminal: Terminal | None) -> list[ListedToolbox]:
    if not servers:
        return []
    try:
        from paraagent.agent.toolboxes.mcp.toolbox import McpToolbox
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError("MCP servers need the `mcp` package: pip install 'paraagent[serve]'") from None
    return [McpToolbox(server, rules=rules, approve=terminal.approve if terminal else None) for server in servers]


def _pair(text: str, flag: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"{flag} {text}: must look like {form}")
    return name, value

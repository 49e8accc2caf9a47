"""Reads MCP servers from the `mcpServers` JSON file that MCP clients share.

Place in the flow: layer 3, before `toolbox`. Known keys of an entry: `command`, `args`, `env`, `cwd` for a local
server, `url`, `headers` for one over streamable HTTP, `disabled`; further keys of other clients are ignored. Ours are
`trusted` (believe its annotations), `effects` (patterns of its tool names to effects), `timeoutSeconds` and
`ceilingSeconds`. `${VARIABLE}` is replaced in every text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.listed import EffectRules, effect_rules
from paraagent.agent.toolboxes.secrets import expand, expand_setting
from paraagent.errors import EnvironmentFault, UsageError
from paraagent.types import JsonObject, JsonValue

_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class McpServer:
    """How to reach one MCP server: by `command` or by `url`."""

    name: str
    """Stands before the dot in its tools' names."""
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the few variables that a server inherits (`PATH`, `HOME`...)."""
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trusted: bool = False
    """Whether its annotations (`readOnlyHint`) are believed."""
    rules: EffectRules = field(default_factory=dict)
    """Effects that the user states, by tool name or pattern, without the server's name."""
    bounds: Bounds = field(default_factory=Bounds)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


def read_tools_file(path: Path) -> JsonObject:
    """Return the JSON object in a file of servers.

    Raises:
        EnvironmentFault: there is no such file, or it cannot be read.
        UsageError: it is not a JSON object.
    """
    try:
        content: JsonValue = orjson.loads(path.read_bytes())
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be read ({error.strerror}); give a file of MCP servers") from None
    except ValueError as error:
        raise UsageError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f'{path}: must be a JSON object, as {{"mcpServers": {{"files": {{"command": "..."}}}}}}')
    return content


def mcp_servers(
    content: JsonObject,
    where: str,
    environ: Mapping[str, str],
    bounds: Bounds | None = None,
    *,
    trust: Collection[str] = (),
) -> list[McpServer]:
    """Return the servers under `mcpServers` that are not disabled; those named in `trust` are trusted.

    Raises:
        UsageError: an entry is wrong, or needs a variable that is not set; the message names file and entry.
    """
    entries = content.get("mcpServers", content.get("servers", {}))
    if not isinstance(entries, dict):
        raise UsageError(f"{where}: `mcpServers` must be an object with one entry for each server")
    servers: list[McpServer] = []
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise UsageError(f"{where}: the entry {name!r} must be an object with `command` or `url`")
        if entry.get("disabled") is not True:
            server = _Entry(f"{where}: {name}", entry, environ).server(name, bounds or Bounds())
            servers.append(replace(server, trusted=True) if server.name in trust else server)
    return servers


class _Entry:
    """One entry as it is read; collects the secrets that it names."""

    def __init__(self, where: str, raw: JsonObject, environ: Mapping[str, str]) -> None:
        self._where = where
        self._raw = raw
        self._environ = environ
        self._secrets: set[str] = set()

    def server(self, name: str, bounds: Bounds) -> McpServer:
        command, url = self._text("command"), self._text("url")
        if bool(command) == bool(url):
            raise UsageError(f"{self._where}: give either `command` (a local server) or `url` (streamable HTTP)")
        if self._raw.get("type") == "sse":
            raise UsageError(f"{self._where}: the old SSE transport is not supported; give a streamable HTTP `url`")
        if url and not url.startswith(("http://", "https://")):
            raise UsageError(f"{self._where}: `url` must start with http:// or https://")
        args = self._raw.get("args", [])
        if not isinstance(args, list):
            raise UsageError(f"{self._where}: `args` must be a list of texts")
        return McpServer(
            name=_NAME.sub("_", name).strip("_") or "server",
            command=command,
            args=tuple(self._expand(str(arg)) for arg in args),
            env=self._settings("env"),
            cwd=self._text("cwd") or None,
            url=url,
            headers=self._settings("headers"),
            trusted=self._raw.get("trusted") is True,
            rules=effect_rules(self._raw.get("effects", {}), self._where),
            bounds=self._bounds(bounds),
            secrets=frozenset(self._secrets),  # last: filled by the lines above
        )

    def _text(self, key: str) -> str:
        value = self._raw.get(key, "")
        if not isinstance(value, str):
            raise UsageError(f"{self._where}: `{key}` must be a text")
        return self._expand(value)

    def _expand(self, text: str) -> str:
        value, secrets = expand(text, self._environ, self._where)
        self._secrets |= secrets
        return value

    def _settings(self, key: str) -> dict[str, str]:
        raw = self._raw.get(key, {})
        if not isinstance(raw, dict):
            raise UsageError(f"{self._where}: `{key}` must be an object of texts")
        found: dict[str, str] = {}
        for name, value in raw.items():
            found[name], secrets = expand_setting(name, str(value), self._environ, self._where)
            self._secrets |= secrets
        return found

    def _bounds(self, bounds: Bounds) -> Bounds:
        timeout = self._seconds("timeoutSeconds", bounds.timeout)
        ceiling = self._seconds("ceilingSeconds", max(bounds.ceiling, timeout))
        return Bounds(timeout, ceiling, bounds.start, bounds.size)

    def _seconds(self, key: str, default: float) -> float:
        value = self._raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise UsageError(f"{self._where}: `{key}` must be a positive number of seconds")
        return float(value)

"""What `paraagent catalog lint` does once its arguments are read: screens definitions and shows what it found."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import typer

from paraagent.catalog import fetch
from paraagent.catalog.definitions import from_document, from_mcp
from paraagent.catalog.screen import Definition, Finding, Screen
from paraagent.catalog.store import Catalog
from paraagent.cli.output import EXIT_FAILED, Output
from paraagent.errors import UsageError
from paraagent.types import JsonValue

_SHOWN = 50
_STYLES = {"high": "bold red", "medium": "yellow", "low": "dim"}


def lint(
    items: Sequence[str], mcp: Sequence[Path], openapi: Sequence[str], catalog: Path | None, out: Output
) -> None:
    """Screen what is named, or the whole catalog, and exit with 1 if anything is of severity high."""
    screen = Screen()
    with out.text.status("looking at definitions..."):
        found = [
            finding for one in _definitions(items, mcp, openapi, catalog) for finding in screen.look(one)
        ] + screen.compare()
    counts: dict[str, JsonValue] = {
        severity: sum(finding.severity == severity for finding in found) for severity in _STYLES
    }
    _show(found, out)
    told = ", ".join(f"{count:,} {severity}" for severity, count in counts.items())
    out.text.print(f"{screen.seen:,} definitions of {len(screen.sources):,} sources: {told}")
    findings: list[JsonValue] = [dict(dataclasses.asdict(finding)) for finding in found]
    out.finish({"definitions": screen.seen, "sources": len(screen.sources), "counts": counts, "findings": findings})
    if counts["high"]:
        raise typer.Exit(EXIT_FAILED)


def _definitions(
    items: Sequence[str], mcp: Sequence[Path], openapi: Sequence[str], catalog: Path | None
) -> Iterator[Definition]:
    for item in items:
        if _is_place(item):
            yield from from_document(item, fetch.document(item))
    for place in openapi:
        yield from from_document(place, fetch.document(place))
    for path in mcp:
        yield from asyncio.run(_listed(path))
    names = [item for item in items if not _is_place(item)]
    if names or not (items or mcp or openapi):
        yield from _from_catalog(Catalog.open(catalog), names)


def _is_place(item: str) -> bool:
    return "://" in item or Path(item).suffix in (".json", ".yaml", ".yml") or Path(item).exists()


def _from_catalog(catalog: Catalog, names: Iterable[str]) -> Iterator[Definition]:
    names = list(names)
    for name in names:
        tool = catalog.get(name)
        if tool is None:
            near = ", ".join(catalog.suggestions(name))
            raise UsageError(f"no tool and no file is named {name!r}" + (f"; near it: {near}" if near else ""))
        yield Definition.of(tool)
    if not names:
        yield from map(Definition.of, catalog)


async def _listed(path: Path) -> list[Definition]:
    """Start the servers of a tools file, ask each for its tools, and stop them again; no tool is called."""
    from paraagent.agent.toolboxes.mcp.config import mcp_servers, read_tools_file

    try:
        from paraagent.agent.toolboxes.mcp.toolbox import McpToolbox
    except ModuleNotFoundError as missing:
        raise UsageError(f"MCP servers need the `mcp` package ({missing}): pip install 'paraagent[serve]'") from None
    servers = mcp_servers(read_tools_file(path), str(path), os.environ)
    if not servers:
        raise UsageError(f"{path}: has no `mcpServers`")
    found: list[Definition] = []
    for server in servers:
        async with McpToolbox(server) as box:
            found += from_mcp(server.name, box.raw_definitions)
    return found


def _show(found: Sequence[Finding], out: Output) -> None:
    order = {severity: place for place, severity in enumerate(_STYLES)}
    ranked = sorted(found, key=lambda finding: order[finding.severity])
    for one in ranked[:_SHOWN]:
        place = one.place.replace(".properties.", ".").removeprefix("properties.")
        out.text.print(f"{one.severity:<7}{one.rule}: {one.tool}", style=_STYLES[one.severity], markup=False)
        out.text.print(f"       {place}: {one.excerpt}", markup=False, soft_wrap=True)
    if len(ranked) > _SHOWN:
        out.text.print(f"and {len(ranked) - _SHOWN:,} more: see --json")

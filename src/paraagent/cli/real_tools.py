"""The flags that name real tools and say what they may do; see docs/TOOLS.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_PANEL = "Real tools"


def _option(flag: str, metavar: str, text: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(flag, metavar=metavar, help=text, rich_help_panel=_PANEL)
    return found


def _switch(flag: str, text: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(flag, help=text, rich_help_panel=_PANEL)
    return found


Mcp = Annotated[list[Path] | None, _option("--mcp", "FILE", "JSON file with `mcpServers`.")]
OpenApi = Annotated[list[str] | None, _option("--openapi", "FILE|URL", "OpenAPI 3 document.")]
Functions = Annotated[list[Path] | None, _option("--functions", "FILE", "Python file whose functions are tools.")]
Auth = Annotated[list[str] | None, _option("--auth", "SCHEME=${VAR}", "Credential for the OpenAPI document.")]
Effect = Annotated[list[str] | None, _option("--effect", "PATTERN=EFFECT", "What tools do, as `shop.get_*=read`.")]
Trust = Annotated[list[str] | None, _option("--trust", "SERVER", "Believe what this MCP server says of its tools.")]
AllowWrites = Annotated[bool, _switch("--allow-writes", "Let all tools change things.")]
AllowWrite = Annotated[list[str] | None, _option("--allow-write", "PATTERN", "Let these tools change things.")]
Ask = Annotated[bool, _switch("--ask", "Ask at the terminal before anything is changed.")]
AllowPrivate = Annotated[bool, _switch("--allow-private", "Let OpenAPI calls reach private addresses.")]

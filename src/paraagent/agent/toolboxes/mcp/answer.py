"""What an MCP server says, as the rest of the program knows it: tools, answers, digests.

Place in the flow: layer 3, pure functions under `toolbox`. Definitions and answers come from strangers: schemas are
rebuilt from known keywords, references inlined, texts cut.
"""

from __future__ import annotations

import hashlib
import re
from typing import cast

import mcp_types as wire
import orjson

from paraagent.agent.toolboxes.mcp.errors import one_line
from paraagent.agent.toolboxes.schemas import input_schema, output_schema
from paraagent.catalog.spec import canonical
from paraagent.catalog.text import clean
from paraagent.types import JsonObject, JsonValue, Tool

DESCRIPTION = 1_000
"""Longest description of a tool, in characters."""

_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")
_MESSAGE = 2_000


def definition_digest(definition: wire.Tool) -> str:
    """Return 32 hex digits that change with anything in a definition that a model or a user may rely on."""
    shown = definition.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"icons", "meta"})
    return hashlib.sha256(canonical(shown)).hexdigest()[:32]


def has_plain_name(definition: wire.Tool) -> bool:
    """Tell whether a tool's name can be written in a call without quoting."""
    return _NAME.fullmatch(definition.name) is not None


def tool_of(definition: wire.Tool, server: str, *, trusted: bool) -> Tool:
    """Return a definition as a tool named `server.name`; only a trusted server's hints decide its effect."""
    hints = definition.annotations
    reads = trusted and hints is not None and hints.read_only_hint is True
    deletes = trusted and hints is not None and hints.destructive_hint is True
    title = definition.title or (hints.title if hints else None) or ""
    return Tool(
        name=f"{server}.{definition.name}",
        description=clean(definition.description or title or definition.name, DESCRIPTION),
        parameters=input_schema(definition.input_schema),
        returns=output_schema(definition.output_schema),
        effect="read" if reads else "delete" if deletes else "action",
        provider=server,
        api=server,
        api_title=server,
        source="mcp",
        operation=definition.name,
    )


def declares_effect(definition: wire.Tool) -> bool:
    """Tell whether the definition says if the tool writes."""
    hints = definition.annotations
    return hints is not None and (hints.read_only_hint is not None or hints.destructive_hint is not None)


def answer_value(result: wire.CallToolResult) -> JsonValue:
    """Return a result as one JSON value: its structured content, else its only block, else the list of blocks."""
    if result.structured_content is not None:
        return cast(JsonValue, result.structured_content)
    values = [_block(block) for block in result.content]
    return values[0] if len(values) == 1 else values or None


def error_text(result: wire.CallToolResult) -> str:
    """Return what a failed tool says."""
    said = " ".join(block.text for block in result.content if isinstance(block, wire.TextContent))
    return one_line(said, _MESSAGE) or "the tool failed and does not say why"


def _block(block: wire.ContentBlock) -> JsonValue:
    """Return a text, read as JSON if it is an object or a list; of everything else only what it is."""
    if isinstance(block, wire.TextContent):
        return _text(block.text)
    if isinstance(block, wire.ImageContent | wire.AudioContent):
        return {"type": block.type, "mime_type": block.mime_type, "bytes": _size(block.data)}
    if isinstance(block, wire.ResourceLink):
        return {"type": "resource_link", "uri": str(block.uri), "name": block.name, "mime_type": block.mime_type}
    held = block.resource
    about: JsonObject = {"type": "resource", "uri": str(held.uri), "mime_type": held.mime_type}
    if isinstance(held, wire.TextResourceContents):
        return {**about, "text": held.text}
    return {**about, "bytes": _size(held.blob)}


def _text(text: str) -> JsonValue:
    if text.lstrip()[:1] in ("{", "["):
        try:
            value: JsonValue = orjson.loads(text)
        except ValueError:
            return text
        return value
    return text


def _size(encoded: str) -> int:
    """Return how many bytes a Base64 text stands for."""
    return len(encoded) * 3 // 4 - encoded[-2:].count("=")

"""Tool definitions as their source wrote them, for the lint: OpenAPI documents and answers of MCP servers.

Place in the flow: layer 1, before `screen`. Nothing is cleaned, cut or left out, so that what is hidden is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from paraagent.catalog.screen import Definition
from paraagent.catalog.sources import own
from paraagent.errors import CatalogError
from paraagent.types import JsonObject, JsonValue

_METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")


def from_document(place: str, data: bytes) -> Iterator[Definition]:
    """Yield what an OpenAPI 3 document, or the answer of an MCP server to `tools/list`, defines.

    Raises:
        CatalogError: it is neither; the message names the place and the fault.
    """
    listing = _listing(data)
    if listing is None:
        return from_openapi(place, own.parse(place, data))
    return from_mcp(place, {str(tool.get("name", f"tool {i}")): tool for i, tool in enumerate(listing)})


def from_openapi(place: str, raw: JsonObject) -> Iterator[Definition]:
    """Yield the operations of a document, then the parts that they share."""
    info = raw.get("info")
    source = str(info.get("title") or place) if isinstance(info, dict) else place
    paths = raw.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        if not isinstance(item, dict):
            continue
        for method in _METHODS:
            operation = item.get(method)
            if isinstance(operation, dict):
                name = str(operation.get("operationId") or f"{method.upper()} {path}")
                yield Definition(name, source, operation)
        shared: JsonObject = {key: value for key, value in item.items() if key not in _METHODS}
        yield Definition(path, source, shared, is_tool=False)
    components = raw.get("components")
    for kind, parts in components.items() if isinstance(components, dict) else ():
        for name, part in parts.items() if isinstance(parts, dict) else ():
            yield Definition(f"components.{kind}.{name}", source, {"": part}, is_tool=False)
    yield Definition("info", source, {"info": info, "tags": raw.get("tags")}, is_tool=False)


def from_mcp(server: str, tools: Mapping[str, JsonObject]) -> Iterator[Definition]:
    """Yield the tools of an MCP server, given what it says of each by the name under which it is known here."""
    for name, tool in tools.items():
        yield Definition(name, server, tool, bare=str(tool.get("name", name)))


def _listing(data: bytes) -> list[JsonObject] | None:
    """Return the tools in an answer to `tools/list`, or None if it is none."""
    try:
        value: JsonValue = orjson.loads(data)
    except ValueError:
        return None
    if isinstance(value, dict) and isinstance(value.get("result"), dict):
        value = value["result"]
    tools = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(tools, list) or (isinstance(value, dict) and "openapi" in value):
        return None
    if not all(isinstance(tool, dict) for tool in tools):
        raise CatalogError("`tools` must be a list of objects, as an MCP server answers to `tools/list`")
    return [tool for tool in tools if isinstance(tool, dict)]

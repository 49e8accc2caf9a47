"""Reads OpenAPI documents that the user adds, and says clearly what is wrong with one.

Place in the flow: layer 1; used by `build` for `--add`. JSON always; YAML if PyYAML is installed. OpenAPI 3.x only.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson

from paraagent.catalog.naming import brand, slug
from paraagent.catalog.sources import openapi
from paraagent.catalog.sources.openapi import Api
from paraagent.catalog.spec import Operation
from paraagent.errors import CatalogError
from paraagent.types import JsonObject, JsonValue

MOST_NODES = 2_000_000
"""Most values of a YAML document after its aliases are written out."""
SOURCE = "added"
"""What stands as `source` in tools that came from a user's document."""


def operations(place: str, data: bytes) -> Iterator[Operation]:
    """Yield the operations of one document; `place` is the file or address it came from.

    Raises:
        CatalogError: it is no OpenAPI 3 document; the message names the place and the fault.
    """
    raw = parse(place, data)
    provider, name = _identity(place, raw)
    yield from openapi.operations(raw, Api.of(raw, provider, name, SOURCE, many=False))


def parse(place: str, data: bytes) -> JsonObject:
    """Return the document after checking that it is OpenAPI 3 with at least one path."""
    raw = _load(place, data)
    if not isinstance(raw, dict):
        raise CatalogError(f"{place}: an OpenAPI document is an object, this is not; give an OpenAPI 3 file")
    version = raw.get("openapi", raw.get("swagger"))
    if not str(version).startswith("3"):
        raise CatalogError(f"{place}: OpenAPI 3 is needed, the file says {version!s:.20}; convert it first")
    paths = raw.get("paths")
    if not isinstance(paths, dict) or not paths:
        raise CatalogError(f"{place}: `paths` is missing or empty, so there is no tool in it")
    for path, item in paths.items():
        if not isinstance(item, dict):
            raise CatalogError(f"{place}: `paths.{path}` must be an object")
    return raw


def _load(place: str, data: bytes) -> JsonValue:
    try:
        return _json(data)
    except ValueError as error:
        if data.lstrip()[:1] in (b"{", b"["):
            raise CatalogError(f"{place}: not valid JSON: {error}") from None
    try:
        import yaml  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise CatalogError(f"{place}: looks like YAML; `pip install pyyaml`, or convert it to JSON") from None
    try:
        value = yaml.safe_load(data)
        if _nodes(value, {}) > MOST_NODES:
            raise CatalogError(f"{place}: its aliases expand to over {MOST_NODES:,} values; write them out")
        # The round trip turns dates into text and refuses what JSON cannot hold.
        return _json(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
    except (yaml.YAMLError, orjson.JSONEncodeError, RecursionError, ValueError) as error:
        raise CatalogError(f"{place}: not valid YAML: {' '.join(str(error).split())}") from None


def _nodes(value: object, known: dict[int, int]) -> int:
    """Count the values in a document with its aliases written out; one that contains itself is endless."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if id(value) not in known and children:
        known[id(value)] = MOST_NODES + 1
        known[id(value)] = 1 + sum(_nodes(child, known) for child in children)
    return known.get(id(value), 1)


def _json(data: bytes) -> JsonValue:
    value: JsonValue = orjson.loads(data)
    return value


def _identity(place: str, raw: JsonObject) -> tuple[str, str]:
    """Return provider and API name: what the document declares, else its server's host and its title."""
    info = raw.get("info")
    about: JsonObject = info if isinstance(info, dict) else {}
    servers = raw.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    host = urlsplit(str(first.get("url", ""))).hostname if isinstance(first, dict) else None
    title = slug(str(about.get("title", "")))
    provider = str(about.get("x-providerName", "")) or (host or "").removeprefix("api.") or title or "local"
    return provider.lower(), str(about.get("x-serviceName", "")) or brand(provider) or title

"""The operations of one OpenAPI document as tools that really call its server.

Place in the flow: layer 3. The document, OpenAPI 3.0 or 3.1, comes from a file or an address and is read by the
catalog's reader, so real and simulated tools look the same. Tools are named `name.operation`.
An operation reads if its method is GET or HEAD and its name says nothing else; it touches the thing that its path
names. What it needs to authenticate comes from the user's values for the document's security schemes.
Limits: calls go to public addresses only, unless `allow_private`; answers are JSON or text, of others only type and
size are told; an answer is not checked against the document, since few servers keep to theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self
from urllib.parse import quote, urljoin, urlsplit

import httpx2

from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.http_status import status_failure
from paraagent.agent.toolboxes.listed import EffectRules, ListedToolbox, prefixed
from paraagent.agent.toolboxes.openapi.answer import answer_value, network_failure, refusal_text
from paraagent.agent.toolboxes.openapi.auth import Security
from paraagent.agent.toolboxes.openapi.client import Fetched, fetch, guarded_client
from paraagent.agent.toolboxes.openapi.route import Route, route
from paraagent.catalog.naming import Names, slug
from paraagent.catalog.sources import openapi, own
from paraagent.catalog.spec import tool_digest
from paraagent.env.identity import Identity, identity
from paraagent.errors import CatalogError, EnvironmentFault, ToolFailure, UsageError
from paraagent.types import EffectKind, Effects, JsonObject, JsonValue, Tool

DOCUMENT_SIZE = 50_000_000


@dataclass(frozen=True, slots=True)
class OpenApiSource:
    """An OpenAPI document and how to use it."""

    document: str
    """A file or an address."""
    name: str = ""
    """Stands before the dot in the tools' names; the API's title unless given."""
    base_url: str = ""
    """Where the server is, if not where the document says."""
    auth: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of the document's security schemes by name; for basic authentication `user:password`."""
    rules: EffectRules = field(default_factory=dict)
    """Effects that the user states, by tool name or pattern, without the name before the dot."""
    allow_private: bool = False
    """Whether calls may reach this machine and private networks."""
    bounds: Bounds = field(default_factory=Bounds)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


class OpenApiToolbox(ListedToolbox):
    """One API's operations.

    Entering raises EnvironmentFault if the document cannot be had, UsageError if it does not say where its server is.
    """

    def __init__(self, source: OpenApiSource, *, rules: EffectRules | None = None) -> None:
        super().__init__(source.name, rules)
        self._source = source
        self._client = guarded_client(allow_private=source.allow_private, timeout=source.bounds.timeout)
        self._routes: dict[str, Route] = {}
        self._identities: dict[str, Identity] = {}
        self._security: Security | None = None

    async def __aenter__(self) -> Self:
        try:
            self._load(await self._document())
        except BaseException:
            await self._client.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @property
    def secrets(self) -> frozenset[str]:
        return self._source.secrets | (self._security.secrets if self._security else set())

    def effects(self, tool: Tool, arguments: JsonObject) -> Effects:
        """Return the thing that the call names, and for reading the things it hangs on."""
        found = self._identities[tool.name]
        own_id = arguments.get(found.own.parameter) if found.own else None
        own_key = self._key(found.noun, own_id)
        parents = {self._key(parent.noun, arguments.get(parent.parameter)) for parent in found.parents}
        if tool.effect == "read":
            return Effects(reads=frozenset({own_key, *parents}))
        return Effects(reads=frozenset(parents), writes=frozenset({own_key}))

    async def call(self, tool: Tool, arguments: JsonObject) -> JsonValue:
        self.check(tool, arguments)
        writing = tool.effect != "read"
        way = self._routes[tool.name]
        assert self._security is not None
        request = way.request(tool, arguments, self._security.credentials(way.security))
        bounds = self._source.bounds
        try:
            async with asyncio.timeout(bounds.timeout):
                fetched = await fetch(self._client, request, bounds.size)
        except TimeoutError:
            raise ToolFailure("timeout", f"{request.url.host} gave no answer within {bounds.timeout:g} s") from None
        except httpx2.HTTPError as error:
            raise network_failure(error, request.url.host, writing=writing) from None
        if fetched.status >= 300:
            raise self._refused(fetched, way, writing)
        return answer_value(fetched, tool, arguments)

    def _key(self, noun: str, thing: JsonValue) -> str:
        if not noun:
            return self.name
        key = f"{self.name}/{noun}"
        return key if thing is None or isinstance(thing, dict | list) else f"{key}/{quote(str(thing), safe='')}"

    def _refused(self, fetched: Fetched, way: Route, writing: bool) -> ToolFailure:
        assert self._security is not None
        said = refusal_text(fetched)
        if fetched.status in (401, 403):
            said = "; ".join(filter(None, [said, self._security.missing(way.security)]))
        wait = fetched.headers.get("retry-after")
        return status_failure(fetched.status, said, retry_after=wait, writing=writing)

    async def _document(self) -> bytes:
        place = self._source.document
        if not place.startswith(("http://", "https://")):
            try:
                return await asyncio.to_thread(Path(place).read_bytes)
            except OSError as error:
                raise EnvironmentFault(f"{place}: cannot be read ({error.strerror}); give an OpenAPI file") from None
        try:
            async with asyncio.timeout(self._source.bounds.start):
                fetched = await fetch(self._client, self._client.build_request("GET", place), DOCUMENT_SIZE)
        except (ToolFailure, httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise EnvironmentFault(f"{place}: cannot be fetched ({str(error) or 'it took too long'})") from None
        if fetched.status >= 300:
            raise EnvironmentFault(f"{place}: cannot be fetched (HTTP {fetched.status})")
        return fetched.body

    def _load(self, data: bytes) -> None:
        """Read the document and make its tools known."""
        place = self._source.document
        try:
            raw = own.parse(place, data)
        except CatalogError as error:
            raise UsageError(str(error)) from None
        self.name = self.name or _title(raw) or "api"
        base = _server(raw, place)
        about = openapi.Api.of(raw, urlsplit(base).hostname or self.name, self.name, own.SOURCE, many=False)
        document = openapi.Document(raw, about)
        self._security = Security(raw, document.deref, self._source.auth, place)
        self._rules = {**self._rules, **prefixed(self.name, self._source.rules)}
        names = Names()
        for operation in openapi.operations(raw, about):
            tool = operation.build()
            item = document.deref(document.paths[tool.path])
            found = document.deref(item.get(tool.method.lower()))
            server = self._source.base_url or _server(found, place) or _server(item, place) or base
            if not server.startswith(("http://", "https://")):
                raise UsageError(f"{place}: does not say where its server is; give a base URL")
            name = f"{self.name}.{names.unique(slug(tool.operation) or 'call', tool_digest(tool))}"
            self._identities[name] = identity(tool)
            self._routes[name] = route(document, tool, server.rstrip("/"), self._security.of(found))
            self.offer(replace(tool, name=name, effect=_effect(tool)), declared=True)


def _title(raw: JsonObject) -> str:
    about = raw.get("info")
    return slug(str(about.get("title", ""))) if isinstance(about, dict) else ""


def _server(holder: JsonObject, place: str) -> str:
    """Return the first server that a document, a path or an operation names, or "" if it names none."""
    servers = holder.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    if not isinstance(first, dict):
        return urljoin(place, "/") if "paths" in holder else ""
    url, variables = str(first.get("url", "")), first.get("variables")
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        if isinstance(variable, dict):
            url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    return urljoin(place, url)


def _effect(tool: Tool) -> EffectKind:
    """Return what an operation does; for a method that may write, a harmless name is not taken on trust."""
    return "action" if tool.effect == "read" and tool.method not in ("GET", "HEAD") else tool.effect

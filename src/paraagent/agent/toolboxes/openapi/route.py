"""How the arguments of an OpenAPI tool become an HTTP request.

Place in the flow: layer 3, under `toolbox`. The catalog's reader makes one flat list of parameters out of path,
query, header and body; a `Route` knows where each of them goes. It follows the reader's order: a name is looked for
in path, query and headers, and what is found in none of them belongs to the body, whose fields are called `body_x`
where `x` was taken.
Limits: bodies are JSON, forms (plain or multipart) or text; parameters in cookies are not sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

import httpx2
import orjson

from paraagent.agent.toolboxes.openapi.auth import Alternatives, Credentials
from paraagent.catalog.sources.openapi import Document
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, JsonValue, Tool

Where = Literal["path", "query", "header", "body"]

_JSON = re.compile(r"[/+.]json\b")
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_VISIBLE = re.compile(r"[\t\x20-\x7e]*")

_Form = dict[str, str | list[str]]
_Parts = list[tuple[str, tuple[None, str]]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one argument goes."""

    where: Where
    name: str
    """Its name on the wire."""
    style: str = ""
    explode: bool = True
    """Whether the items of a list are sent one by one."""


@dataclass(frozen=True, slots=True)
class Route:
    """One operation's way to its server."""

    base: str
    """The server's address, without a slash at the end."""
    places: Mapping[str, Place]
    media: str
    """The body's media type; empty if there is no body."""
    whole: bool
    """Whether the argument `body` is the whole body and not a field of it."""
    security: Alternatives

    def request(self, tool: Tool, arguments: JsonObject, credentials: Credentials) -> httpx2.Request:
        """Return the request for arguments that were checked against the tool's schema.

        Raises:
            ToolFailure: `invalid_args` for a value that cannot be sent.
        """
        path = tool.path
        query: list[tuple[str, str]] = []
        headers: dict[str, str] = {"accept": "application/json, text/*;q=0.5, */*;q=0.1"}
        body: JsonObject = {}
        for argument, value in arguments.items():
            place = self.places.get(argument) or Place("body", argument)
            if place.where == "body":
                body[place.name] = value
            elif value is None:
                continue
            elif place.where == "path":
                path = path.replace(f"{{{place.name}}}", _segment(argument, value))
            elif place.where == "query":
                query += _pairs(place, value)
            else:
                headers[place.name] = _header(argument, value)
        query += credentials.query.items()
        headers |= {name: _header(name, value) for name, value in credentials.headers.items()}
        try:
            url = httpx2.URL(self.base + path)
        except httpx2.InvalidURL as problem:
            raise ToolFailure("invalid_args", f"the arguments do not make a valid address: {problem}") from None
        content, data, files = self._body(body, headers)
        return httpx2.Request(
            tool.method,
            url.copy_merge_params(tuple(query)) if query else url,
            headers=headers,
            cookies=credentials.cookies or None,
            content=content,
            data=data,
            files=files,
        )

    def _body(self, fields: JsonObject, headers: dict[str, str]) -> tuple[bytes | None, _Form | None, _Parts | None]:
        """Return the body as bytes, a form or the parts of one, whichever it is; set its media type."""
        value: JsonValue = fields.get("body") if self.whole else fields
        if not fields or not self.media:
            return None, None, None
        if _JSON.search(self.media):
            headers["content-type"] = self.media
            return orjson.dumps(value), None, None
        if isinstance(value, dict) and self.media == _FORM:
            return None, {name: _texts(item) for name, item in value.items() if item is not None}, None
        if isinstance(value, dict) and self.media == _MULTIPART:
            return None, None, [(name, (None, _text(item))) for name, item in value.items() if item is not None]
        if isinstance(value, str) and self.media.startswith("text/"):
            headers["content-type"] = f"{self.media}; charset=utf-8"
            return value.encode(), None, None
        raise ToolFailure("tool_error", f"this operation takes {self.media}, which cannot be sent from here")


def route(document: Document, tool: Tool, base: str, security: Alternatives) -> Route:
    """Return the way of an operation that the reader made `tool` from."""
    item = document.deref(document.paths[tool.path])
    raw = document.deref(item.get(tool.method.lower()))
    declared = _declared(document, item, raw)
    media, whole = _body(document, raw)
    properties = tool.parameters.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    return Route(base, {name: _place(name, declared) for name in names}, media, whole, security)


def _declared(document: Document, item: JsonObject, raw: JsonObject) -> dict[tuple[str, str], JsonObject]:
    """Return the parameters that path and operation declare, by place and name."""
    found: dict[tuple[str, str], JsonObject] = {}
    for holder in (item, raw):
        listed = holder.get("parameters")
        for entry in listed if isinstance(listed, list) else ():
            parameter = document.deref(entry)
            found[str(parameter.get("in")), str(parameter.get("name"))] = parameter
    return found


def _place(name: str, declared: Mapping[tuple[str, str], JsonObject]) -> Place:
    places: tuple[Where, ...] = ("path", "query", "header")
    for where in places:
        if (where, name) in declared:
            parameter = declared[where, name]
            style = str(parameter.get("style", ""))
            exploded = parameter.get("explode", style in ("", "form", "deepObject"))
            return Place(where, name, style, exploded is True)
    taken = name.removeprefix("body_")
    if taken != name and any((where, taken) in declared for where in places):
        return Place("body", taken)
    return Place("body", name)


def _body(document: Document, raw: JsonObject) -> tuple[str, bool]:
    """Return the body's media type, JSON where there is a choice, and whether it is taken as a whole."""
    content = document.deref(raw.get("requestBody")).get("content")
    if not isinstance(content, dict) or not content:
        return "", False
    media = min(content, key=lambda kind: not _JSON.search(kind))
    holder = content[media]
    schema = document.input.convert(holder.get("schema")) if isinstance(holder, dict) else {}
    options = schema.get("anyOf")
    forms = [schema, *(options if isinstance(options, list) else [])]
    fields = any(isinstance(form, dict) and form.get("properties") for form in forms)
    return media.partition(";")[0].strip().lower(), not fields


def _segment(argument: str, value: JsonValue) -> str:
    """Return a value as one segment of a path, out of which it cannot climb."""
    text = ",".join(_text(item) for item in value) if isinstance(value, list) else _text(value)
    if text in ("", ".", ".."):
        raise ToolFailure("invalid_args", f'"{argument}" must not be {text!r}: it is part of the address')
    return quote(text, safe="")


def _pairs(place: Place, value: JsonValue) -> list[tuple[str, str]]:
    """Return a query parameter in its style."""
    if isinstance(value, list):
        if place.explode:
            return [(place.name, _text(item)) for item in value]
        between = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(place.style, ",")
        return [(place.name, between.join(_text(item) for item in value))]
    if isinstance(value, dict):
        if place.style == "deepObject":
            return [(f"{place.name}[{key}]", _text(item)) for key, item in value.items()]
        if place.explode:
            return [(key, _text(item)) for key, item in value.items()]
        return [(place.name, ",".join(f"{key},{_text(item)}" for key, item in value.items()))]
    return [(place.name, _text(value))]


def _header(argument: str, value: JsonValue) -> str:
    text = ",".join(_text(item) for item in value) if isinstance(value, list) else _text(value)
    if not _VISIBLE.fullmatch(text):
        raise ToolFailure("invalid_args", f'"{argument}" goes into a header and must be one line of ASCII text')
    return text


def _texts(value: JsonValue) -> str | list[str]:
    return [_text(item) for item in value] if isinstance(value, list) else _text(value)


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()

"""Reads OpenAPI 3.x documents: the bundled directory of public APIs, and files a user adds.

Place in the flow: layer 1; one document in, one `Operation` per path and method out. Path, query, header and body
parameters become one object; credentials and transport headers are left out. Nothing outside the document is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

from paraagent.catalog import classify, naming
from paraagent.catalog import keywords as kw
from paraagent.catalog.dedupe import GOOGLE, http_key
from paraagent.catalog.schema import TEXT, Schemas
from paraagent.catalog.spec import Operation, answers, describe, with_answer
from paraagent.catalog.text import clean
from paraagent.types import JsonObject, JsonValue, Tool

_METHODS = ("get", "head", "post", "put", "patch", "delete")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CREDENTIALS = _set(
    "apikey accesstoken accesskey authorization authtoken oauthtoken xapikey subscriptionkey ocpapimsubscriptionkey "
    "appkey appid apitoken clientsecret xauthtoken xaccesstoken bearer"
)
_TRANSPORT = _set(
    "accept acceptencoding acceptcharset contenttype contentlength contentencoding contentmd5 useragent host origin "
    "connection cookie ifmatch ifnonematch ifmodifiedsince ifunmodifiedsince xrequestid xrequestedwith"
)
_LICENCES = (
    (re.compile(r"apache.*\b2(\.0)?\b", re.IGNORECASE), "Apache-2.0"),
    (re.compile(r"^(the )?mit( licen[cs]e)?$", re.IGNORECASE), "MIT"),
    (re.compile(r"^(creative commons attribution|cc[- ]by)[- ]3\.0", re.IGNORECASE), "CC-BY-3.0"),
    (re.compile(r"^(creative commons attribution|cc[- ]by)[- ]4\.0", re.IGNORECASE), "CC-BY-4.0"),
)
_JSON = re.compile(r"[/+.]json\b")


@dataclass(frozen=True, slots=True)
class Api:
    """What all operations of one document share."""

    provider: str
    name: str
    title: str
    category: str
    licence: str
    source: str
    many: bool
    """Whether the provider has several APIs, so that tool names need the API's."""

    @classmethod
    def of(cls, raw: JsonObject, provider: str, name: str, source: str, *, many: bool) -> Api:
        """Read title, category and licence from the document."""
        info = raw.get("info")
        about: JsonObject = info if isinstance(info, dict) else {}
        licence = about.get("license")
        categories = [_text(entry) for entry in kw.items_of(about.get("x-apisguru-categories"))]
        return cls(
            provider=provider,
            name=name,
            title=clean(about.get("title"), 100),
            category=next((name for name in categories if len(name) > 1), ""),
            licence=licence_name(clean(licence.get("name"), 100)) if isinstance(licence, dict) else "",
            source=source,
            many=many,
        )


class Document:
    """One OpenAPI document, read lazily: nothing is normalised until an operation is built."""

    def __init__(self, raw: JsonObject, api: Api) -> None:
        self.raw = raw
        self.api = api
        self.input = Schemas(self.resolve, output=False)
        self.output = Schemas(self.resolve, output=True)
        paths = raw.get("paths")
        self.paths: dict[str, JsonValue] = paths if isinstance(paths, dict) else {}
        self.layout = classify.Layout.of(self.paths)
        self.credentials = _CREDENTIALS | self._declared_credentials()

    def resolve(self, ref: str) -> JsonValue:
        """Return what a local reference `#/...` points to, or None."""
        if not ref.startswith("#/"):
            return None
        found: JsonValue = self.raw
        for part in ref[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(part, found.get(unquote(part)))
            elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        return found

    def deref(self, raw: JsonValue) -> JsonObject:
        """Return the object behind a chain of references; `{}` if there is none."""
        return self.input.raw(raw)

    def _declared_credentials(self) -> frozenset[str]:
        components = self.raw.get("components")
        schemes = components.get("securitySchemes") if isinstance(components, dict) else None
        found = [self.deref(scheme) for scheme in schemes.values()] if isinstance(schemes, dict) else []
        return frozenset(_plain(str(scheme.get("name", ""))) for scheme in found if scheme.get("type") == "apiKey")


def licence_name(stated: str) -> str:
    """Return one spelling for each of the common licences, anything else as it is."""
    return next((name for pattern, name in _LICENCES if pattern.search(stated)), stated)


def operations(raw: JsonObject, api: Api) -> Iterator[Operation]:
    """Yield the operations of one document in its own order."""
    document = Document(raw, api)
    base = _base(raw)
    for path, entry in document.paths.items():
        item = document.deref(entry)
        for method in _METHODS:
            operation = item.get(method)
            if isinstance(operation, dict):
                key = http_key(api.provider, api.name, base, method, path, _text(operation.get("operationId")))
                yield Operation(key, partial(_tool, document, path, method, item, operation))


def _tool(document: Document, path: str, method: str, item: JsonObject, raw: JsonObject) -> Tool:
    api = document.api
    operation = _text(raw.get("operationId")) or f"{method} {path}"
    properties, required = _inputs(document, method, path, item, raw)
    parameters: JsonObject = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    tool = Tool(
        name=naming.propose(api.provider, api.name if api.many else "", operation),
        description=describe(raw.get("summary") or item.get("summary"), raw.get("description")),
        parameters=parameters,
        returns=_answer(document, raw.get("responses")),
        effect=classify.effect_of(method, path, _text(raw.get("operationId")), document.layout),
        resource=_resource(document, method, path, operation),
        provider=api.provider,
        api=api.name,
        api_title=api.title,
        category=api.category,
        licence=api.licence,
        source=api.source,
        operation=operation[:200],
        method=method.upper(),
        path=path,
    )
    return with_answer(tool, [name for name in properties if f"{{{name}}}" in path])


def _resource(document: Document, method: str, path: str, operation: str) -> str:
    if document.api.provider == GOOGLE:  # its paths say `/v1/{name}`, its identifiers say what is meant
        return classify.resource_of_id(operation)
    return classify.resource_of(method, path, operation, document.layout)


def _inputs(
    document: Document, method: str, path: str, item: JsonObject, raw: JsonObject
) -> tuple[JsonObject, list[JsonValue]]:
    """Return all parameters as one object's properties, and which are required; path before query before body."""
    found: dict[tuple[str, str], JsonObject] = {}
    for part in (*kw.items_of(item.get("parameters")), *kw.items_of(raw.get("parameters"))):
        parameter = document.deref(part)
        name, place = _text(parameter.get("name")), _text(parameter.get("in"))
        if name and _is_input(document, name, place, parameter):
            found[place, name] = parameter
    for name in re.findall(r"\{([^{}]+)\}", path):
        found.setdefault(("path", name), {"schema": {"type": "string"}})
    properties: JsonObject = {}
    required: list[JsonValue] = []
    for place in ("path", "query", "header"):
        for (where, name), parameter in found.items():
            if where == place and name not in properties:
                properties[name] = _parameter(document, parameter)
                if place == "path" or parameter.get("required") is True:
                    required.append(name)
    in_path = {name for where, name in found if where == "path"}
    for name, schema, needed in _body(document, method, raw.get("requestBody")):
        if name in in_path:
            continue  # the same thing, said twice
        name = f"body_{name}" if name in properties else name
        properties[name] = schema
        if needed:
            required.append(name)
    return properties, required


def _is_input(document: Document, name: str, place: str, parameter: JsonObject) -> bool:
    """Tell whether a parameter is for the caller to choose, not a credential or a matter of transport."""
    if place not in ("path", "query", "header"):
        return False
    plain = _plain(name)
    if place == "path":
        return True
    if plain in document.credentials or (place == "header" and (plain in _TRANSPORT or plain.startswith("xamz"))):
        return False
    if plain in ("token", "key", "auth"):
        text = _text(parameter.get("description")).lower()
        return not ("auth" in text or "access token" in text or "api key" in text or "api token" in text)
    return True


def _parameter(document: Document, parameter: JsonObject) -> JsonObject:
    raw = parameter.get("schema")
    if not isinstance(raw, dict):
        raw = _content_schema(parameter) or ({"type": parameter["type"]} if "type" in parameter else {})
    schema = document.input.convert(raw)
    description = clean(parameter.get("description"), TEXT)
    if description:
        schema = {**schema, "description": description}
    if "example" in parameter and "examples" not in schema:
        schema = {**schema, **kw.values({"example": parameter["example"]}, kw.kind(schema)[0])}
    return schema


def _body(document: Document, method: str, raw: JsonValue) -> Iterator[tuple[str, JsonObject, bool]]:
    """Yield the parameters that the request body holds: its fields if it is an object, else one named `body`."""
    body = document.deref(raw)
    schema = document.input.convert(_content_schema(body))
    for option in kw.items_of(schema.get("anyOf")):
        if isinstance(option, dict) and option.get("properties"):
            schema = option
            break
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        must = kw.items_of(schema.get("required"))
        for name, field in properties.items():
            if isinstance(field, dict):
                yield name, field, name in must
    elif answers(schema) or (schema and method in ("post", "put", "patch")):
        description = clean(body.get("description"), TEXT)
        yield "body", {**schema, "description": description} if description else schema, body.get("required") is True


def _answer(document: Document, raw: JsonValue) -> JsonObject:
    """Return the schema of the first successful response that has one, else `{}`."""
    responses = raw if isinstance(raw, dict) else {}
    success = sorted(code for code in responses if code.startswith("2"))
    for code in success or ["default"]:
        schema = document.output.convert(_content_schema(document.deref(responses.get(code))))
        if schema:
            return schema
    return {}


def _content_schema(holder: JsonObject) -> JsonValue:
    """Return the raw schema under `content`: of JSON if there is some, else of the first type that has one."""
    content = holder.get("content")
    if not isinstance(content, dict):
        return None
    kinds = sorted(content, key=lambda kind: not _JSON.search(kind))  # stable
    for kind in kinds:
        media = content[kind]
        if isinstance(media, dict) and isinstance(media.get("schema"), dict):
            return media["schema"]
    return None


def _base(raw: JsonObject) -> str:
    servers = kw.items_of(raw.get("servers"))
    return _text(servers[0].get("url")) if servers and isinstance(servers[0], dict) else ""


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())

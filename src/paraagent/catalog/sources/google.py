"""Reads the discovery documents inside the `google-api-python-client` wheel.

Place in the flow: layer 1; one `Operation` per method, of each API's newest stable version. Discovery schemas are
nearly JSON Schema; only references and per-field `required` differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import groupby

from paraagent.catalog import archive, classify, naming
from paraagent.catalog import keywords as kw
from paraagent.catalog.dedupe import GOOGLE, google_key
from paraagent.catalog.schema import Schemas
from paraagent.catalog.spec import Operation, describe, with_answer
from paraagent.types import EffectKind, JsonObject, JsonValue, Tool

_DOCUMENT = re.compile(r"^googleapiclient/discovery_cache/documents/([^/]+?)\.([^/]+)\.json$")


def is_document(name: str) -> bool:
    """Tell whether this file of the wheel is a discovery document."""
    return bool(_DOCUMENT.match(name))


def operations(members: Iterator[tuple[str, bytes]], source: str) -> Iterator[Operation]:
    """Yield the methods of all APIs, newest stable version first; `members` are the wheel's documents, sorted."""
    for api, group in groupby(members, key=lambda member: _parts(member[0])[0]):
        for name, data in sorted(group, key=lambda member: _rank(_parts(member[0])[1])):
            yield from document_operations(api, archive.parsed(name, data), source)


def _parts(name: str) -> tuple[str, str]:
    match = _DOCUMENT.match(name)
    return (match[1], match[2]) if match else ("", "")


def _rank(version: str) -> tuple[bool, list[int], str]:
    """Order versions: stable before preview, then newest first."""
    numbers = [-int(number) for number in re.findall(r"\d+", version)]
    return bool(re.search("alpha|beta|eap|p\\d", version)), numbers, version


def document_operations(api: str, document: JsonObject, source: str) -> Iterator[Operation]:
    """Yield the methods of one discovery document."""
    schemas = document.get("schemas")
    resolve = partial(_schema, schemas if isinstance(schemas, dict) else {})
    pair = Schemas(resolve, output=False), Schemas(resolve, output=True)
    title = str(document.get("title", api))
    for raw in _methods(document):
        identifier = raw.get("id")
        if isinstance(identifier, str) and identifier:
            yield Operation(google_key(identifier), partial(_tool, api, title, source, pair, identifier, raw))


def _methods(node: JsonObject) -> Iterator[JsonObject]:
    methods, resources = node.get("methods"), node.get("resources")
    for raw in methods.values() if isinstance(methods, dict) else ():
        if isinstance(raw, dict):
            yield raw
    for child in resources.values() if isinstance(resources, dict) else ():
        if isinstance(child, dict):
            yield from _methods(child)


def _schema(schemas: JsonObject, name: str) -> JsonValue:
    """Return a named schema; marks on its fields become the `required` list and `readOnly` that JSON Schema knows."""
    schema = schemas.get(name)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return schema
    fields = {key: field for key, field in properties.items() if isinstance(field, dict)}
    required: list[JsonValue] = [key for key, field in fields.items() if _says(field, "Required.")]
    hidden: JsonObject = {
        key: {**field, "readOnly": True} for key, field in fields.items() if _says(field, "Output only.")
    }
    return {**schema, "properties": {**fields, **hidden}, "required": required}


def _says(field: JsonObject, mark: str) -> bool:
    return str(field.get("description", "")).startswith(mark)


def _tool(
    api: str, title: str, source: str, schemas: tuple[Schemas, Schemas], identifier: str, raw: JsonObject
) -> Tool:
    given, answer = schemas
    properties, required = _inputs(given, raw)
    parameters: JsonObject = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    path = str(raw.get("path") or "")
    method = str(raw.get("httpMethod", "GET"))
    verb = identifier.rsplit(".", 1)[-1]
    tool = Tool(
        name=naming.propose(GOOGLE, api, identifier),
        description=describe(None, raw.get("description")),
        parameters=parameters,
        returns=answer.convert(raw.get("response")),
        effect=_effect(method, verb),
        resource=classify.resource_of_id(identifier),
        provider=GOOGLE,
        api=api,
        api_title=title,
        category="cloud",
        licence="Apache-2.0",
        source=source,
        operation=identifier,
        method=method,
        path=f"/{path}" if path else "",
    )
    return with_answer(tool, [name for name in properties if f"{{{name}}}" in path or f"{{+{name}}}" in path])


def _inputs(schemas: Schemas, raw: JsonObject) -> tuple[JsonObject, list[JsonValue]]:
    """Return path and query parameters and the request's fields as one object; on a clash the parameter wins."""
    properties: JsonObject = {}
    required: list[JsonValue] = []
    parameters = raw.get("parameters")
    for name, field in parameters.items() if isinstance(parameters, dict) else ():
        if isinstance(field, dict):
            properties[name] = schemas.convert({"type": "array", "items": field} if field.get("repeated") else field)
            if field.get("required") is True:
                required.append(name)
    body = schemas.convert(raw.get("request"))
    fields = body.get("properties")
    for name, schema in fields.items() if isinstance(fields, dict) else ():
        if name not in properties:
            properties[name] = schema
            if name in kw.items_of(body.get("required")):
                required.append(name)
    return properties, required


def _effect(method: str, verb: str) -> EffectKind:
    """Judge by the last word of the method's id, else by the HTTP method."""
    stated = classify.verb_effect(verb)
    if stated and (method != "GET" or stated == "read"):
        return stated
    return classify.effect_of(method, f"/{{}}:{verb}", "")

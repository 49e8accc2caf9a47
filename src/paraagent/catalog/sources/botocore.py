"""Reads the AWS service models inside the `botocore` wheel.

Place in the flow: layer 1; one `Operation` per service and operation, of each service's newest version. Shapes are
translated to JSON Schema one level at a time, on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from paraagent.catalog import archive, classify, naming
from paraagent.catalog.dedupe import AWS, aws_key
from paraagent.catalog.schema import Schemas
from paraagent.catalog.spec import Operation, describe, with_answer
from paraagent.types import JsonObject, JsonValue, Tool

_MODEL = re.compile(r"^botocore/data/([^/]+)/([^/]+)/service-2\.json\.gz$")
_NOTICE = re.compile(r"<(note|important)>.*?</\1>", re.DOTALL)
_TYPES: dict[str, JsonObject] = {
    "string": {"type": "string"},
    "character": {"type": "string"},
    "blob": {"type": "string", "format": "byte"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "long": {"type": "integer", "format": "int64"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "bigdecimal": {"type": "number"},
    "timestamp": {"type": "string", "format": "date-time"},
}


def operations(members: Iterator[tuple[str, bytes]], source: str) -> Iterator[Operation]:
    """Yield the operations of all services; `members` are the wheel's files, sorted by name."""
    newest: dict[str, tuple[str, bytes]] = {}
    for name, data in members:
        match = _MODEL.match(name)
        if match:
            newest[match[1]] = name, data  # versions are dates, so the last is the newest
    for service, (name, data) in newest.items():
        yield from service_operations(service, archive.parsed(name, archive.gunzip(data, name)), source)


def is_model(name: str) -> bool:
    """Tell whether this file of the wheel holds a service model."""
    return bool(_MODEL.match(name))


def service_operations(service: str, model: JsonObject, source: str) -> Iterator[Operation]:
    """Yield the operations of one service model."""
    shapes = model.get("shapes")
    translate = partial(_shape, shapes if isinstance(shapes, dict) else {})
    schemas = Schemas(translate, output=False), Schemas(translate, output=True)
    found = model.get("operations")
    metadata = model.get("metadata")
    about: JsonObject = metadata if isinstance(metadata, dict) else {}
    title = str(about.get("serviceFullName", service))
    others = [str(about[key]) for key in ("endpointPrefix", "serviceId") if key in about]
    for name, raw in sorted(found.items()) if isinstance(found, dict) else ():
        if isinstance(raw, dict):
            aliases = tuple(aws_key(other, name) for other in others)
            yield Operation(
                aws_key(service, name), partial(_tool, service, title, source, schemas, name, raw), aliases
            )


def _tool(
    service: str, title: str, source: str, schemas: tuple[Schemas, Schemas], name: str, raw: JsonObject
) -> Tool:
    given, answer = schemas
    parameters: JsonObject = {"type": "object", "properties": {}}
    if isinstance(raw.get("input"), dict):
        parameters |= given.convert(_reference(raw["input"]))
        parameters.pop("description", None)
    parameters.setdefault("properties", {})
    returns = answer.convert(_reference(raw["output"])) if isinstance(raw.get("output"), dict) else {}
    http = raw.get("http")
    place = http if isinstance(http, dict) else {}
    required = parameters.get("required")
    path = _path(str(place.get("requestUri", "/")), _members(given, raw))
    tool = Tool(
        name=naming.propose(AWS, service, name),
        description=_description(raw.get("documentation")),
        parameters=parameters,
        returns=returns,
        effect=classify.verb_effect(name) or "action",
        resource=classify.noun_of(name)[:64],
        provider=AWS,
        api=service,
        api_title=title,
        category="cloud",
        licence="Apache-2.0",
        source=source,
        operation=name,
        method=str(place.get("method", "POST")),
        path=path,
    )
    identifiers = [str(name) for name in required] if isinstance(required, list) else []
    return with_answer(tool, identifiers[:4])


def _description(documentation: JsonValue) -> str:
    """Return what the operation does, without the notices that often come first."""
    text = documentation if isinstance(documentation, str) else ""
    return describe(None, _NOTICE.sub(" ", text)) or describe(None, text)


def _members(schemas: Schemas, raw: JsonObject) -> JsonObject:
    """Return the input shape's own members, which say where each is sent."""
    shape = schemas.raw(_reference(raw.get("input")))
    properties = shape.get("properties")
    return properties if isinstance(properties, dict) else {}


def _path(uri: str, members: JsonObject) -> str:
    """Return the request's path with the parameters' own names in it; the model uses the names on the wire."""
    wire = {str(member.get("x-wire")): name for name, member in members.items() if isinstance(member, dict)}
    return re.sub(r"\{([^{}+]+)\+?\}", lambda match: f"{{{wire.get(match[1], match[1])}}}", uri.split("?")[0])


def _reference(member: JsonValue) -> JsonObject:
    """Translate a member, which names a shape and may describe it, to a `$ref`."""
    if not isinstance(member, dict):
        return {}
    found: JsonObject = {"$ref": str(member.get("shape", ""))}
    if "documentation" in member:
        found["description"] = member["documentation"]
    if member.get("location") == "uri":
        found["x-wire"] = member.get("locationName", "")
    return found


def _shape(shapes: JsonObject, name: str) -> JsonValue:
    """Translate one shape to a raw schema whose parts are still references."""
    shape = shapes.get(name)
    if not isinstance(shape, dict):
        return None
    kind = shape.get("type")
    schema: JsonObject = {"description": shape["documentation"]} if "documentation" in shape else {}
    if kind == "structure":
        members = shape.get("members")
        properties: JsonObject = (
            {key: _reference(member) for key, member in members.items()} if isinstance(members, dict) else {}
        )
        return schema | {"type": "object", "properties": properties, "required": shape.get("required", [])}
    if kind == "list":
        bounds: JsonObject = {"minItems": shape.get("min"), "maxItems": shape.get("max")}
        return schema | {"type": "array", "items": _reference(shape.get("member"))} | bounds
    if kind == "map":
        return schema | {"type": "object", "additionalProperties": _reference(shape.get("value"))}
    schema |= _TYPES.get(str(kind), {})
    low, high = ("minLength", "maxLength") if schema.get("type") == "string" else ("minimum", "maximum")
    schema |= {low: shape.get("min"), high: shape.get("max")}
    return schema | {key: shape[key] for key in ("enum", "pattern") if key in shape}

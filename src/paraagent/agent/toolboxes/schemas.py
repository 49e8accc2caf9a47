"""Parameter and answer schemas that others wrote, rebuilt as small ones without references.

Place in the flow: layer 3, used by `mcp` and `functions`; the work is done by the catalog's `Schemas`.
"""

from __future__ import annotations

from paraagent.catalog.schema import Schemas
from paraagent.types import JsonObject, JsonValue


def input_schema(raw: JsonValue) -> JsonObject:
    """Return a parameter schema in known keywords; arguments beyond those it lists stay allowed if it was cut."""
    schema = {"type": "object", "properties": {}, **_rebuilt(raw, output=False)}
    listed, kept = raw.get("properties") if isinstance(raw, dict) else None, schema["properties"]
    if isinstance(listed, dict) and isinstance(kept, dict) and len(listed) > len(kept):
        schema["additionalProperties"] = True
    return schema


def output_schema(raw: JsonValue) -> JsonObject:
    """Return an answer's schema in known keywords; `{}` if nothing is known about it."""
    return _rebuilt(raw, output=True)


def _rebuilt(raw: JsonValue, *, output: bool) -> JsonObject:
    if not isinstance(raw, dict):
        return {}

    def resolve(reference: str) -> JsonValue:
        found: JsonValue = raw
        if not reference.startswith("#"):
            return None
        for part in reference[1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            found = found.get(part) if isinstance(found, dict) else None
        return found

    return Schemas(resolve, output=output).convert(raw)

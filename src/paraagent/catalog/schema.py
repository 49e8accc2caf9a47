"""Rebuilds any JSON-like schema as a small, self-contained JSON Schema (Draft 2020-12).

Place in the flow: layer 1; the sources hand raw schemas in, tools carry what comes out. Nothing is copied through:
only known keywords with values of the right type are written, references are inlined, recursion is cut off.

Limits: objects nest at most `DEPTH` levels, at most `WIDTH` properties a level (required ones first), at most
`SIZE` bytes (else the nesting is reduced), at most `VARIANTS` alternatives. In answers (`output=True`) only the first
alternative of `oneOf`/`anyOf` is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import orjson

from paraagent.catalog import keywords as kw
from paraagent.catalog.text import clean
from paraagent.types import JsonObject, JsonValue

DEPTH = 4
WIDTH = 40
SIZE = 24_000
VARIANTS = 4
HOPS = 16
"""How often items, alternatives and references may nest without an object in between."""
MERGED = 100
"""Most references that one `allOf` may bring together."""
TEXT = 200
"""Longest description of a parameter, in characters; of a field in an answer it is half of that."""

Resolve = Callable[[str], JsonValue]


class Schemas:
    """Converts the schemas of one document; results of references are kept and shared, so never change them."""

    def __init__(self, resolve: Resolve, *, output: bool) -> None:
        self._resolve = resolve
        self._output = output
        self._text = TEXT // 2 if output else TEXT
        self._known: dict[tuple[str, int], JsonObject] = {}

    def convert(self, raw: JsonValue) -> JsonObject:
        """Return the schema, nested as deep as `DEPTH` and `SIZE` allow; `{}` if nothing is known about the value."""
        for depth in range(DEPTH, 0, -1):
            schema = self._walk(raw, depth, 0, "")
            if depth == 1 or len(orjson.dumps(schema)) <= SIZE:
                break
        return schema

    def _walk(self, raw: JsonValue, depth: int, hops: int, inside: str) -> JsonObject:
        if not isinstance(raw, dict):
            return {}
        if hops > HOPS:
            return kw.stub(raw)
        ref = raw.get("$ref")
        if isinstance(ref, str):
            return self._reference(ref, raw, depth, hops, inside)
        if isinstance(raw.get("allOf"), list):
            raw = self._merge(raw, set())
        for key in ("anyOf", "oneOf"):
            variants = raw.get(key)
            if isinstance(variants, list) and variants and "properties" not in raw:
                return self._choice(raw, variants, depth, hops, inside)
        return self._plain(raw, depth, hops, inside)

    def _reference(self, ref: str, raw: JsonObject, depth: int, hops: int, inside: str) -> JsonObject:
        if ref == inside:
            return kw.stub(self.raw(raw))
        known = self._known.get((ref, depth))
        if known is None:
            target = self._resolve(ref)
            self._known[ref, depth] = kw.stub(target)  # what a cycle that leads back here sees
            known = self._walk(target, depth, hops + 1, ref)
            self._known[ref, depth] = known
        description = clean(raw.get("description"), self._text)
        if description and description != known.get("description"):
            return {**known, "description": description}
        return known

    def raw(self, raw: JsonValue) -> JsonObject:
        """Follow references without converting; `{}` for a broken or endless chain."""
        for _ in range(HOPS):
            if not isinstance(raw, dict):
                return {}
            ref = raw.get("$ref")
            if not isinstance(ref, str):
                return raw
            raw = self._resolve(ref)
        return {}

    def _merge(self, raw: JsonObject, merged_refs: set[str]) -> JsonObject:
        """Merge the parts of `allOf` into one schema, each reference once; what is said first counts."""
        merged = {key: value for key, value in raw.items() if key != "allOf"}
        for part in kw.items_of(raw.get("allOf")):
            ref = part.get("$ref") if isinstance(part, dict) else None
            if isinstance(ref, str) and (ref in merged_refs or len(merged_refs) >= MERGED):
                continue
            if isinstance(ref, str):
                merged_refs.add(ref)
            flat = self.raw(part)
            if "allOf" in flat:
                flat = self._merge(flat, merged_refs)
            for key, value in flat.items():
                merged[key] = _both(key, merged[key], value) if key in merged else value
        return merged

    def _choice(self, raw: JsonObject, variants: list[JsonValue], depth: int, hops: int, inside: str) -> JsonObject:
        options: list[JsonObject] = []
        null = False
        for variant in variants[: kw.CHOICES]:
            if isinstance(variant, dict) and variant.get("type") == "null":
                null = True
            elif len(options) < (1 if self._output else VARIANTS):
                option = self._walk(variant, depth, hops + 1, inside)
                if option and option not in options:
                    options.append(option)
        if not options:
            return self._plain(raw, depth, hops, inside)
        description = clean(raw.get("description"), self._text)
        extra: JsonObject = {"description": description} if description else {}
        if len(options) == 1:
            one = {**options[0], **extra}
            return kw.nullable(one) if null or raw.get("nullable") is True else one
        if null or raw.get("nullable") is True:
            options.append({"type": "null"})
        return {"anyOf": cast(JsonValue, options), **extra}

    def _plain(self, raw: JsonObject, depth: int, hops: int, inside: str) -> JsonObject:
        kind, form, null = kw.kind(raw)
        schema: JsonObject = {"type": kind} if kind else {}
        description = clean(raw.get("description"), self._text)
        if description:
            schema["description"] = description
        if kind == "object":
            schema |= self._object(raw, depth, inside)
        elif kind == "array":
            schema["items"] = self._walk(raw.get("items", {}), depth, hops + 1, inside)
            if raw.get("uniqueItems") is True:
                schema["uniqueItems"] = True
        elif kind == "string":
            schema |= kw.string_keywords(raw, form)
        elif kind in ("integer", "number"):
            schema |= kw.number_keywords(raw, form)
        schema |= kw.counts(raw, kind)
        schema |= kw.values(raw, kind)
        return kw.nullable(schema) if null else schema

    def _object(self, raw: JsonObject, depth: int, inside: str) -> JsonObject:
        properties = raw.get("properties")
        extra = raw.get("additionalProperties")
        if depth == 0:
            return {}
        if not isinstance(properties, dict) or not properties:
            inner = self._walk(extra, depth - 1, 0, inside) if isinstance(extra, dict) else {}
            return {"additionalProperties": inner} if inner else {}
        required = {name for name in kw.items_of(raw.get("required")) if isinstance(name, str)}
        hidden = "writeOnly" if self._output else "readOnly"
        shown = [
            name for name, prop in properties.items() if not (isinstance(prop, dict) and prop.get(hidden) is True)
        ]
        kept = sorted(shown, key=lambda name: name not in required)  # stable: required first
        kept = kept[: max(WIDTH, 0 if self._output else min(len(required), kw.CHOICES))]
        chosen = set(kept)
        inlined: JsonObject = {
            name: self._walk(properties[name], depth - 1, 0, inside) for name in shown if name in chosen
        }
        must: list[JsonValue] = [name for name in inlined if name in required]
        return {"properties": inlined, "required": must} if must else {"properties": inlined}


def _both(key: str, first: JsonValue, second: JsonValue) -> JsonValue:
    """Combine what two parts of an `allOf` say under one keyword."""
    if key == "properties" and isinstance(first, dict) and isinstance(second, dict):
        return {**second, **first}
    if key == "required" and isinstance(first, list) and isinstance(second, list):
        return [*first, *second]
    return first

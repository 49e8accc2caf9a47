"""Which tool's answer holds what another tool needs: edges mined from the interfaces of one API.

Place in the flow: layer 1; `env.tasks` samples chains along these edges. A leaf of the producer's response meets a
required parameter of the consumer when both have the same normalised identifier (`names.qualified`) and the same JSON
type. Left out: paging and credentials, values that are no identifiers, producers that ask for the identifier
themselves, and new names that a create call invents. Limits: names are all the evidence there is; the share of
sensible edges on a labelled sample is published in `docs/results/env.md`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from paraagent.catalog.names import (
    BARE_WORDS,
    in_path,
    is_bare,
    is_container,
    noun,
    parameter_identity,
    path_noun,
    path_run,
    qualified,
    thing_noun,
)
from paraagent.types import JsonObject, JsonValue, Tool

EdgeKind = Literal["create", "get", "list"]

MAX_DEPTH = 4
"""How many names a leaf's path may have; deeper values are seldom what an answer is about."""
MAX_PRODUCERS = 24
"""Producers kept per consumer's parameter, the ones whose own resource the identifier names first."""

_PAGING = frozenset(
    {"page", "cursor", "offset", "limit", "token", "marker", "next", "previous", "prev", "continuation"}
)
_AUTH = frozenset(
    {"auth", "authorization", "token", "secret", "password", "apikey", "session", "signature", "credential", "nonce"}
    | {"access", "bearer", "csrf", "oauth", "appid", "apitoken", "passcode", "otp", "pin"}
)
_VERSIONS = frozenset({"version", "revision", "change", "etag", "checkpoint"})
_SCOPES = frozenset(
    (word,) for word in "api rest admin my me self public private search find list all query v1 v2 v3 beta".split()
)
"""Path segments that say where or how, and not of what kind."""
_PROPERTIES = frozenset(
    {"first", "last", "full", "given", "family", "middle", "nick", "sur", "display", "short", "long"}
    | {
        "currency",
        "country",
        "language",
        "locale",
        "postal",
        "zip",
        "error",
        "status",
        "area",
        "phone",
        "fax",
        "mobile",
    }
    | {"telephone", "version", "line", "row", "revision", "build", "response", "tax", "vat", "file", "host", "state"}
    | {"city", "street", "time", "zone", "timezone", "max", "min", "redirect", "callback", "image", "color", "colour"}
)
"""Words before `name`, `code`, `number`... that make it a property of a thing and not its identity."""
_FREE_FORM = frozenset(
    {"custom", "metadata", "extension", "property", "link", "error", "warning", "tag", "parameter"}
)
_PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]*$")
_NEVER = frozenset(
    {
        "apikey",
        "publickey",
        "privatekey",
        "secretkey",
        "accesskey",
        "requestid",
        "traceid",
        "correlationid",
        "transactionid",
        "operationid",
        "clienttoken",
    }
)


@dataclass(frozen=True, slots=True)
class Edge:
    """The value at `path` of `producer`'s answer fits `parameter` of `consumer`."""

    producer: str
    consumer: str
    parameter: str
    path: str
    """Dotted, array positions as numbers: `items.0.id`."""
    kind: EdgeKind
    """`create`: of the thing just made; `get`: of one thing that was read; `list`: of the first of several."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar in a response: where it stands, its normalised identifier, and its JSON type."""

    path: str
    identity: str
    type: str
    listed: bool
    """True if an array stands above it."""
    bare: bool
    """True if its own name does not say what it identifies."""


def mine(tools: Sequence[Tool]) -> list[Edge]:
    """Return the edges among the tools of one API, grouped by consumer in the order given."""
    producers: dict[tuple[str, str], list[tuple[Tool, Leaf]]] = defaultdict(list)
    for tool in tools:
        if tool.effect in ("read", "create") and not tool.synthetic_returns:
            for leaf in _best_leaves(tool):
                producers[leaf.identity, leaf.type].append((tool, leaf))
    nouns = {"".join(thing_noun(tool)) for tool in tools}
    starts = Counter(noun for tool in tools for noun in path_run(tool.path)[:3])
    shared = frozenset(start for start, count in starts.items() if 2 * count > len(tools))
    return [edge for tool in tools for edge in _edges_into(tool, producers, nouns, shared)]


def leaves(schema: JsonObject, parent: tuple[str, ...]) -> Iterator[Leaf]:
    """Yield the scalar leaves of a response schema, shallow ones first inside each object.

    `parent` is the noun that bare names at the top belong to: the tool's resource.
    """
    yield from _walk(schema, (), parent, False)


def _walk(schema: JsonValue, path: tuple[str, ...], parent: tuple[str, ...], listed: bool) -> Iterator[Leaf]:
    if not isinstance(schema, dict) or len(path) > MAX_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, child in properties.items():
            if not isinstance(child, dict) or not _PLAIN.match(name) or set(noun(name)) & _FREE_FORM:
                continue
            kind = child.get("type")
            if isinstance(kind, str) and kind in ("string", "integer", "number") and path_ok(path, name):
                if "enum" not in child and not _is_date(child):
                    yield Leaf(".".join((*path, name)), qualified(name, parent), kind, listed, is_bare(noun(name)))
            else:
                yield from _walk(child, (*path, name), parent if is_container(name) else noun(name), listed)
    elif isinstance(schema.get("items"), dict) and not listed:
        yield from _walk(schema["items"], (*path, "0"), parent, True)


def path_ok(path: tuple[str, ...], name: str) -> bool:
    """Tell whether a leaf is near enough to the top; wrappers and array positions do not count."""
    return sum(1 for part in path if part != "0" and not is_container(part)) + 1 <= 2 and bool(name)


def _is_date(schema: JsonObject) -> bool:
    return str(schema.get("format", "")).startswith(("date", "time"))


def _best_leaves(tool: Tool) -> list[Leaf]:
    """Return one leaf per identifier, the one nearest to the top, without those the tool asks for itself."""
    asked = _asked(tool)
    best: dict[str, Leaf] = {}
    for leaf in leaves(tool.returns, thing_noun(tool)):
        known = best.get(leaf.identity)
        if leaf.identity not in asked and (known is None or leaf.path.count(".") < known.path.count(".")):
            best[leaf.identity] = leaf
    return list(best.values())


def _asked(tool: Tool) -> set[str]:
    """Return the identifiers that the tool takes itself: a create call may take them as an option and echo them."""
    names = _properties(tool) if tool.effect == "create" else _required(tool)
    return {parameter_identity(tool, name) for name in names}


def _edges_into(
    consumer: Tool,
    producers: dict[tuple[str, str], list[tuple[Tool, Leaf]]],
    nouns: set[str],
    shared: frozenset[tuple[str, ...]],
) -> Iterator[Edge]:
    schemas = _properties(consumer)
    for parameter in _required(consumer):
        schema = schemas.get(parameter)
        if not isinstance(schema, dict) or "enum" in schema or not _identifies(consumer, parameter, nouns):
            continue
        identity = parameter_identity(consumer, parameter)
        found = producers.get((identity, str(schema.get("type"))), [])
        copied = consumer.effect in ("create", "update") and not in_path(consumer.path, parameter)
        found = [pair for pair in found if not (copied and pair[0].resource == consumer.resource)]
        run = path_run(consumer.path, parameter) if is_bare(noun(parameter)) else ()
        found = [
            (tool, leaf)
            for tool, leaf in found
            if tool.name != consumer.name and not (leaf.bare and _elsewhere(run, path_run(tool.path), shared))
        ]
        found.sort(key=lambda pair: not identity.startswith("".join(noun(pair[0].resource)) or "?"))
        for tool, leaf in found[:MAX_PRODUCERS]:
            yield Edge(tool.name, consumer.name, parameter, leaf.path, _kind(tool, leaf))


def _elsewhere(
    left: tuple[tuple[str, ...], ...], right: tuple[tuple[str, ...], ...], shared: frozenset[tuple[str, ...]]
) -> bool:
    """Tell whether two paths end in the same noun but mean two things: `/cluster` and `/vcd/cluster`."""
    if not left or not right or left[-1] != right[-1]:
        return False
    plain = [[part for part in run[:-1] if part not in shared and part not in _SCOPES] for run in (left, right)]
    return plain[0][-1:] != plain[1][-1:]


def _kind(producer: Tool, leaf: Leaf) -> EdgeKind:
    if leaf.listed:
        return "list"
    return "create" if producer.effect == "create" else "get"


def _identifies(tool: Tool, parameter: str, nouns: set[str]) -> bool:
    """Tell whether a required parameter names something that exists already and is no credential or paging state."""
    parts = noun(parameter)
    if not parts or parts[-1] not in BARE_WORDS:
        return False
    if set(parts) & (_PAGING | _AUTH | _VERSIONS) or "".join(parts) in _NEVER:
        return False
    if parts[-1] not in ("id", "uuid", "key") and set(parts) & _PROPERTIES:
        return False
    placed = in_path(tool.path, parameter)
    owner = parts[:-1] if not is_bare(parts) else path_noun(tool.path, parameter) or thing_noun(tool)
    if tool.effect == "create" and owner == thing_noun(tool):
        return False
    if is_bare(parts) and not placed and parts[-1] != "id":
        return False
    return parts[-1] != "name" or "".join(owner) in nouns


def _required(tool: Tool) -> list[str]:
    required = tool.parameters.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _properties(tool: Tool) -> JsonObject:
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, dict) else {}

"""The qualified name of a field or parameter, under which two tools of one API mean the same thing.

Place in the flow: layer 1, used by `graph` and by everything that shares values between tools. `orderId`, `order_id`,
`orders/{id}` and `order.id` all become `orderid`. Limits: English only.
"""

from __future__ import annotations

import re
from functools import lru_cache

from paraagent.types import Tool

_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")
_SAME = frozenset(
    {
        "news",
        "series",
        "species",
        "aws",
        "sms",
        "dns",
        "https",
        "kubernetes",
        "alias",
        "canvas",
        "atlas",
        "bias",
        "lens",
    }
)
_IRREGULAR = {
    "people": "person",
    "children": "child",
    "indices": "index",
    "vertices": "vertex",
    "matrices": "matrix",
    "statuses": "status",
    "aliases": "alias",
    "viruses": "virus",
    "buses": "bus",
    "bonuses": "bonus",
    "campuses": "campus",
    "analyses": "analysis",
    "movies": "movie",
    "cookies": "cookie",
    "caches": "cache",
    "canvases": "canvas",
    "gases": "gas",
}
_PLACEHOLDER = re.compile(r"^\{\+?([^{}]+?)\*?\}")

BARE_WORDS = frozenset(
    {"id", "name", "key", "uuid", "guid", "uid", "sid", "gid", "arn", "code", "slug", "number", "no", "ref"}
    | {"identifier", "reference", "handle", "uri"}
)
"""Words that identify something only together with a noun."""

FILLER_WORDS = frozenset(
    {"reference", "public", "external", "unique", "resource", "object", "entity", "record", "internal", "global"}
    | {"system", "primary", "local", "item"}
)
"""Words before a bare one that still do not say what is identified: `referenceNumber`, `publicId`."""

CONTAINER_WORDS = frozenset(
    {"item", "data", "datum", "result", "list", "value", "record", "entry", "response", "element", "object", "body"}
    | {
        "content",
        "collection",
        "row",
        "page",
        "payload",
        "resource",
        "entity",
        "member",
        "hit",
        "node",
        "edge",
        "all",
    }
    | {"attribute", "detail", "info", "embedded"}
)
"""Names of response fields that only wrap the thing itself."""


@lru_cache(maxsize=65536)
def words(name: str) -> tuple[str, ...]:
    """Split `GetCustomersByID`, `order-items` or `orders.list` into lower-case ASCII words."""
    return tuple(word.lower() for word in _WORD.findall(name))


@lru_cache(maxsize=65536)
def singular(word: str) -> str:
    """Return the singular of one lower-case English noun; a word that is not plural comes back unchanged."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or word in _SAME or not word.endswith("s") or word.endswith(("ss", "us", "is", "ics")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word[:-1]


@lru_cache(maxsize=65536)
def noun(name: str) -> tuple[str, ...]:
    """Return an identifier's words with the last one in the singular: `purchaseOrders` gives `purchase order`."""
    parts = words(name)
    if "or" in parts[2:] and parts[(place := parts.index("or", 2)) - 1] in BARE_WORDS:
        parts = parts[:place]  # `projectIdOrKey`
    return (*parts[:-1], singular(parts[-1])) if parts else ()


@lru_cache(maxsize=65536)
def is_container(name: str) -> bool:
    """Tell whether a response field of this name only wraps the thing itself."""
    parts = noun(name)
    return not parts or all(part in CONTAINER_WORDS for part in parts)


def is_bare(parts: tuple[str, ...]) -> bool:
    """Tell whether an identifier's words say that something is identified but not what: `id`, `reference number`."""
    return bool(parts) and parts[-1] in BARE_WORDS and all(part in FILLER_WORDS for part in parts[:-1])


def qualified(name: str, parent: tuple[str, ...]) -> str:
    """Return the normalised identifier of a field: its words run together, after the parent noun if it is bare.

    A parent that the name repeats is not put twice: `order.orderId` and `order.id` are both `orderid`.
    """
    parts = noun(name)
    if is_bare(parts):
        parts = (*parent, *parts)
    return "".join(_unified(parts))


def alike(one: str, other: str) -> bool:
    """Tell whether two names may be those of one thing, as one begins or ends with the words of the other: `orderId`
    and `id`, `due` and `due_date`."""
    shorter, longer = sorted((_unified(noun(one)), _unified(noun(other))), key=len)
    return bool(shorter) and shorter in (longer[: len(shorter)], longer[-len(shorter) :])


def path_noun(path: str, parameter: str) -> tuple[str, ...]:
    """Return the noun before `{parameter}` in a URL template, or nothing if the path does not hold it."""
    before: tuple[str, ...] = ()
    for segment in path.split("/"):
        match = _PLACEHOLDER.match(segment)
        if match and match[1] == parameter:
            return before
        if segment and not match:
            before = noun(segment)
    return ()


def path_run(path: str, parameter: str | None = None) -> tuple[tuple[str, ...], ...]:
    """Return the nouns that stand together right before `{parameter}`, or at the path's end: `/vcd/cluster/{id}`."""
    run: list[tuple[str, ...]] = []
    for segment in path.split("/"):
        match = _PLACEHOLDER.match(segment)
        if match and match[1] == parameter:
            break
        if match:
            run.clear()
        elif segment:
            run.append(noun(segment))
    return tuple(run)


def thing_noun(tool: Tool) -> tuple[str, ...]:
    """Return the noun that a bare `id` in a tool's answer belongs to: its resource, or what the path names."""
    own = noun(tool.resource)
    if own and not is_container(tool.resource):
        return own
    named = [noun(part) for part in tool.path.split("/") if part and "{" not in part and not is_container(part)]
    return named[-1] if named else own


def in_path(path: str, parameter: str) -> bool:
    """Tell whether the URL template holds `{parameter}`."""
    return f"{{{parameter}}}" in path or f"{{+{parameter}}}" in path


def parameter_identity(tool: Tool, parameter: str) -> str:
    """Return a parameter's normalised identifier: bare names take the noun before them, or the tool's resource."""
    return qualified(parameter, path_noun(tool.path, parameter) or thing_noun(tool))


def _unified(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Spell the last word of an identifier in one way, so that `identifier` and `id` meet."""
    return (*parts[:-1], {"identifier": "id"}.get(parts[-1], parts[-1])) if parts else ()

"""Which thing of the simulated world a tool works on, read off its interface.

Place in the flow: layer 3, pure functions over `Tool`; the simulator uses it to reach the world, the sampler to know
which literals a task must make exist. A thing is named by (api, noun, id). The noun is written as in `catalog.names`:
words run together, the last one singular, so `order_id`, `/orders/{id}` and `order.id` all speak of an `order`.

    own      the parameter that names the thing itself: the last path parameter, or `order_id`, `id`... in the rest
    parents  parameters that name things it hangs on: the other path parameters, or required `..._id` ones
    hole     where in the answer the thing (or, if `many`, the list of things) stands

A parameter is *checked* when the world must know its value (else the call answers `not_found`); dates, codes, cities
and other natural keys are not. Limits: English names; arrays of ids name nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from paraagent.catalog.names import BARE_WORDS, is_bare, is_container, noun, path_noun, thing_noun, words
from paraagent.env.ids import shape
from paraagent.env.schemas import properties, types
from paraagent.types import JsonObject, Tool

STRONG = frozenset({"id", "uuid", "guid", "uid", "sid", "gid", "arn", "identifier"})
"""Last words of names whose values are made by the service and never by its user."""

PROPERTY_WORDS = frozenset(
    {"currency", "country", "language", "locale", "postal", "post", "zip", "error", "status", "area", "phone", "fax"}
    | {
        "mobile",
        "telephone",
        "version",
        "line",
        "row",
        "revision",
        "build",
        "response",
        "tax",
        "vat",
        "host",
        "state",
    }
    | {"city", "street", "time", "zone", "timezone", "max", "min", "page", "color", "colour", "card", "house", "room"}
    | {"seat", "flight", "airport", "iata"}
)
"""Words that make `name`, `code` or `number` after them a property of a thing and not its identity."""
NAMED_LIKE_PEOPLE = frozenset(
    {
        "first",
        "last",
        "full",
        "given",
        "family",
        "middle",
        "nick",
        "sur",
        "display",
        "short",
        "long",
        "user",
        "person",
    }
    | {"company", "brand", "contact", "customer", "employee", "author", "patient", "owner", "artist", "player"}
    | {"sender", "recipient", "member", "region", "category", "file", "image", "product"}
)
"""Words before `name` that call for a plausible name, which then identifies nothing."""

_PLACEHOLDER = re.compile(r"\{\+?([^{}]+?)\*?\}")
_ORDER = ("id", "identifier", "uuid", "guid", "uid", "sid", "arn", "name", "key", "slug", "number", "code")


@dataclass(frozen=True, slots=True)
class Reference:
    """A parameter that names a thing."""

    parameter: str
    noun: str
    checked: bool
    """True if the world must hold the thing, that is, if its ids are made by the service."""
    word: str = "id"
    """The last word of the parameter's name where it says how the thing is named: `id`, `name`, `arn`..."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a tool works on."""

    api: str
    """`provider/api`."""
    noun: str
    """The kind of thing; empty if none was found, then the tool is a pure function of its arguments."""
    own: Reference | None
    parents: tuple[Reference, ...]
    batch: Reference | None
    """The parameter of a list that names the things to list."""
    remote: bool
    """True for a remote procedure: no path of its own says where the thing lies."""
    hole: tuple[str, ...] | None
    """Keys from the answer's top to the thing or the list of things; `()` is the answer itself, None is nowhere."""
    many: bool


def identity(tool: Tool) -> Identity:
    """Read off a tool's interface what it works on."""
    schemas = properties(tool.parameters)
    own = _own(tool, schemas)
    own_noun = own.noun if own else "".join(thing_noun(tool))
    hole, many = _hole(tool, own is not None)
    return Identity(
        api=f"{tool.provider}/{tool.api}",
        noun=own_noun,
        own=own,
        parents=tuple(_parents(tool, schemas, own)),
        batch=_batch(tool, schemas) if many else None,
        remote=_remote(tool),
        hole=hole,
        many=many,
    )


def key_noun(text: str) -> str:
    """Return a noun as the world writes it: `Db_Instances` gives `dbinstance`."""
    return "".join(noun(text))


def identifier(name: str, owner: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the noun and the last word of a name that identifies something, as `("order", "id")`, else None.

    `owner` is the noun that a bare `id` or `name` belongs to.
    """
    parts = noun(name)
    if parts[-1:] == ("ids",):
        parts = (*parts[:-1], "id")
    if not parts or parts[-1] not in BARE_WORDS:
        return None
    before = owner if is_bare(parts) else parts[:-1]
    weak = parts[-1] not in STRONG and parts[-1] != "key"
    if not before or (weak and not PROPERTY_WORDS.isdisjoint(before)):
        return None
    if parts[-1] == "name" and not NAMED_LIKE_PEOPLE.isdisjoint(before):
        return None
    return "".join((*before[:-1], noun(before[-1])[-1])), parts[-1]


def _checkable(schema: JsonObject, target: str, name: str) -> bool:
    """Tell whether ids of this parameter can be told from invented ones."""
    return shape(schema, target, (noun(name) or ("id",))[-1]) is not None


def _remote(tool: Tool) -> bool:
    return tool.path in ("", "/")


def _placed(tool: Tool, schemas: dict[str, JsonObject]) -> list[str]:
    return [name for name in _PLACEHOLDER.findall(tool.path) if name in schemas]


def _own(tool: Tool, schemas: dict[str, JsonObject]) -> Reference | None:
    placed = _placed(tool, schemas)
    if placed:
        about = _reference(tool, placed[-1], schemas[placed[-1]])
        last = tool.path.rstrip("/").rpartition("/")[2]
        itself = about.noun == "".join(thing_noun(tool)) and tool.effect != "create"  # `PUT /agents/{id}/status`
        if itself or tool.effect == "action" or placed[-1] in _PLACEHOLDER.findall(last):
            return about
    required = _required(tool)
    named = {name: _names_resource(tool, name, schema) for name, schema in schemas.items() if name not in placed}
    lasts = {name: last for name, last in named.items() if last}
    if tool.effect == "read" or (tool.effect != "create" and not _remote(tool)):
        lasts = {name: last for name, last in lasts.items() if name in required}
    if (placed and tool.effect != "create") or not lasts:
        return None
    best = min(lasts, key=lambda name: (name not in required, _ORDER.index(lasts[name])))
    target = "".join(thing_noun(tool))
    return Reference(best, target, _checkable(schemas[best], target, best), lasts[best])


def _names_resource(tool: Tool, name: str, schema: JsonObject) -> str:
    """Return the last word of a parameter outside the path that names the tool's own resource; "" for any other."""
    found = identifier(name, thing_noun(tool))
    resource = "".join(thing_noun(tool))
    if found is None or found[1] not in _ORDER or not {"string", "integer"} & set(types(schema)):
        return ""
    if words(name) == ("name",) and tool.effect in ("create", "action"):
        of_its_own = tool.effect == "action" and not _remote(tool)
        if of_its_own or _has_made_id(tool):
            return ""  # a property of something new, which gets its id from the service
    return found[1] if found[0] == resource or (len(found[0]) > 3 and resource.endswith(found[0])) else ""


def _reference(tool: Tool, name: str, schema: JsonObject) -> Reference:
    """Describe a path parameter: `{order_id}`, `{id}` after `orders`, or `{order}` after `orders`."""
    before = path_noun(tool.path, name)
    found = identifier(name, before or thing_noun(tool))
    if found:
        return Reference(name, found[0], _checkable(schema, found[0], name), found[1])
    parts = noun(name)
    same = parts == before
    return Reference(
        name, "".join(parts if same or not before else before), same and _checkable(schema, "".join(parts), name)
    )


def _parents(tool: Tool, schemas: dict[str, JsonObject], own: Reference | None) -> Iterator[Reference]:
    placed = _placed(tool, schemas)
    for name in placed:
        if own is None or name != own.parameter:
            reference = _reference(tool, name, schemas[name])
            strong = noun(name)[-1:] and (noun(name)[-1] in STRONG or noun(name)[-1] not in BARE_WORDS)
            yield Reference(name, reference.noun, reference.checked and bool(strong))
    for name in () if placed else _required(tool):
        found = identifier(name, ()) if name in schemas and (own is None or name != own.parameter) else None
        if found and found[1] in STRONG and types(schemas[name])[:1] in (("string",), ("integer",)):
            yield Reference(name, found[0], _checkable(schemas[name], found[0], name))


def _batch(tool: Tool, schemas: dict[str, JsonObject]) -> Reference | None:
    """Return the parameter that names some things of the tool's resource by their ids, one or many."""
    placed = _placed(tool, schemas)
    for name, schema in schemas.items():
        items = schema.get("items")
        one = items if isinstance(items, dict) else schema
        last = "" if name in placed else _names_resource(tool, name, one)
        if last and (one is items or last in STRONG) and _checkable(one, "".join(thing_noun(tool)), name):
            return Reference(name, "".join(thing_noun(tool)), True, last)
    return None


def _required(tool: Tool) -> list[str]:
    names = tool.parameters.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _hole(tool: Tool, owned: bool) -> tuple[tuple[str, ...] | None, bool]:
    """Find where the answer holds its thing, or its list of things when the tool reads without naming one."""
    resource = thing_noun(tool)
    if tool.effect == "read" and not owned:
        listed = _list_path(tool.returns, resource)
        if listed is not None:
            return listed, True
    if not properties(tool.returns):
        return None, False
    return _thing_path(tool.returns, resource), False


def _list_path(schema: JsonObject, resource: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the path of the array of objects that is most likely the list: named like the resource, or a wrapper."""
    found = [(path, child) for path, child in _objects(schema, ()) if properties(child.get("items"))]
    named = [path for path, _ in found if path and noun(path[-1]) == resource]
    plain = [path for path, _ in found if not path or is_container(path[-1])]
    ending = [path for path, _ in found if path and noun(path[-1])[-1:] == resource[-1:]]
    return next(iter(named or plain or ending), None)


def _thing_path(schema: JsonObject, resource: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of the object that describes the thing: the answer itself unless it only wraps one."""
    if _identified(schema, resource):
        return ()
    found = [(path, child) for path, child in _objects(schema, ()) if path and properties(child)]
    named = [path for path, child in found if noun(path[-1]) == resource]
    wrapped = [path for path, child in found if is_container(path[-1]) and _identified(child, resource)]
    return next(iter(named or wrapped), ())


def _identified(schema: JsonObject, resource: tuple[str, ...]) -> bool:
    own = "".join(resource)
    return any((found := identifier(name, resource)) and found[0] == own for name in properties(schema))


def _has_made_id(tool: Tool) -> bool:
    resource = thing_noun(tool)
    shown = [child for _, child in _objects(tool.returns, ())]
    return any(
        (found := identifier(n, resource)) and found[1] in STRONG for child in shown for n in properties(child)
    )


def _objects(schema: JsonObject, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JsonObject]]:
    """Yield the objects and arrays at the top, then one and two properties below it, shallow ones first."""
    yield path, schema
    level = [(path, schema)]
    for _ in range(2):
        level = [((*above, name), child) for above, node in level for name, child in properties(node).items()]
        yield from level

"""Where links can lead, as rules of a grammar in Lark: to single values in results, and in what calls will return.

Place in the flow: layer 2, optional, below `lark`. Of a result every path is known, of a call yet to be made what the
tools' schemas tell. A path ends at a text, number, flag or null: what is there for an argument to hold. It ends at a
field that fits the argument by its name: an identifier is linked to what identifies the same thing, `order_id` to an
`orderId` or to the `id` of an `order`; without such a field, and of other arguments, it is any that is called alike,
and a result that is one value. If none is called alike, a required argument may be linked to anything.
Limits: names are all the evidence there is. Of lists the first items; keys that the dialect cannot write are no way;
beyond some depth or size, and where schemas tell nothing, all is let pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from paraagent.catalog.names import (
    BARE_WORDS,
    alike,
    is_container,
    noun,
    parameter_identity,
    qualified,
    thing_noun,
)
from paraagent.types import JsonValue, Tool

_COMMON = (
    r"NOWHERE: /[^\s\S]/",
    "anywhere: PATH?",
    r"PATH: /[.\[][\w.\[\]@-]*/",
    r"INDEX: /\.[0-9]+|\[[0-9]+\]/",
)
_KEY = re.compile(r"[\w@-]+(\.[\w@-]+)*")
_ITEMS = 20
"""Of a list, from its start."""
_DEPTH = 8
_RULES = 1_500
"""Rules of one value or of all schemas at most."""
_Noun = tuple[str, ...]


class Field(NamedTuple):
    """What a single value is called."""

    name: str
    identity: str
    """The name with the noun it belongs to, see `catalog.names`."""


_NAMELESS = Field("", "")
_WHOLE = ("", "result")
"""What a result is called that is one value."""


class Links:
    """What arguments may be linked to.

    Args:
        known: results by the ids of their calls.
        made_by: the tools that these came from, as far as they are known, and those of earlier calls of the turn.
        tools: what calls not written yet may call.
    """

    def __init__(self, known: Mapping[str, JsonValue], made_by: Mapping[str, Tool], tools: Sequence[Tool]) -> None:
        self._known = known
        self._made_by = made_by
        self._tools = tools
        self._begun = {name: tool for name, tool in made_by.items() if name not in known}
        self._fields = {name: frozenset(_fields_of_value(value, self._noun(name))) for name, value in known.items()}
        self._fields |= {name: _returned(tool) for name, tool in self._begun.items()}
        self._coming = [(tool, _returned(tool)) for tool in tools]
        self._kinds: dict[frozenset[Field] | None, int] = {}

    def kind(self, tool: Tool, argument: str, *, required: bool, near: bool) -> int:
        """Return which of the rules holds for an argument: of `link0k2`, `link1k2` and so on the 2.

        Args:
            near: it cannot be linked to calls that are not written yet.
        """
        sources = [(self._made_by.get(name), fields) for name, fields in self._fields.items()]
        sources += [] if near else self._coming
        fields = {field for _, some in sources for field in some}
        found = _same(tool, argument, sources) or {field for field in fields if alike(argument, field.name)}
        whole = {field for field in fields if field.name in _WHOLE}
        return self._kinds.setdefault(frozenset(found | whole) if found or not required else None, len(self._kinds))

    def rules(self, coming: Sequence[Sequence[str]]) -> list[str]:
        """Return the rules `link0k0` and so on, of links to one value, and `deep0` and so on, to any.

        Args:
            coming: for every first number, the ids of calls not written yet that it can link to.
        """
        lines = [*_COMMON]
        for ends, kind in self._kinds.items():
            there, later = self._there(ends, kind, lines), self._later(ends, kind, lines)
            for number, ids in enumerate(coming):
                options = [*there, *(f"{_link(name)} {later}" for name in ids if later)]
                lines.append(f"link{number}k{kind}: {_either(options)}")
        for number, ids in enumerate(coming):
            names = [*self._known, *self._begun, *ids]
            lines.append(f"deep{number}: {_either(f'{_link(name)} anywhere' for name in names)}")
        return lines

    def _noun(self, name: str) -> tuple[str, ...]:
        return thing_noun(self._made_by[name]) if name in self._made_by else ()

    def _there(self, ends: frozenset[Field] | None, kind: int, lines: list[str]) -> list[str]:
        """Return the links to calls that are written, at one of the fields or at any; add the rules they need."""
        links = []
        for number, (name, fields) in enumerate(self._fields.items()):
            if name in self._known and ends is not None and ends.isdisjoint(fields):
                continue
            found = _Paths(f"path{kind}n{number}n", ends)
            if name in self._known:
                after = found.of_value(self._known[name], _NAMELESS, self._noun(name))
            else:
                after = found.of_schema(self._begun[name].returns, _NAMELESS, self._noun(name))
            if after is not None:
                links.append(f"{_link(name)} {found.closed(after)}")
                lines += found.lines()
        return links

    def _later(self, ends: frozenset[Field] | None, kind: int, lines: list[str]) -> str:
        """Return the rule of the ways into what other calls will return, or nothing if none ends so."""
        found = _Paths(f"next{kind}n", ends)
        ways = [found.of_schema(tool.returns, _NAMELESS, thing_noun(tool)) for tool in self._tools]
        closed = [found.closed(way) for way in ways if way is not None]
        if not closed:
            return ""
        lines += [*found.lines(), f"later{kind}: {_either(closed)}"]
        return f"later{kind}"


_Source = tuple[Tool | None, frozenset[Field]]
"""What a result or schema holds, and the tool that gives it."""


def _same(tool: Tool, argument: str, sources: Iterable[_Source]) -> set[Field]:
    """Return the fields that identify what an argument does; none if only calls repeat it that had asked for it."""
    identity, parts = parameter_identity(tool, argument), noun(argument)
    if not parts or parts[-1] not in BARE_WORDS:
        identity = f"{identity}id"  # the customer is what the id of a customer tells
    found: set[Field] = set()
    new = False
    for maker, fields in sources:
        same = {field for field in fields if field.identity == identity}
        found |= same
        new = new or bool(same and (maker is None or identity not in _asked(maker)))
    return found if new else set()


def _asked(tool: Tool) -> set[str]:
    properties = tool.parameters.get("properties")
    return {parameter_identity(tool, name) for name in properties} if isinstance(properties, dict) else set()


def _either(options: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(options)) or "NOWHERE"


class _Paths:
    """Rules of the ways into values; equal ones are one rule. A way is a rule's name, "" at a value, None nowhere.

    Args:
        prefix: how the rules' names begin.
        ends: what the values must be called; None for anything.
    """

    def __init__(self, prefix: str, ends: frozenset[Field] | None) -> None:
        self._prefix = prefix
        self._ends = ends
        self._names: dict[str, str] = {}

    def closed(self, way: str) -> str:
        """Return what stands for a way: anything if there are too many."""
        return "anywhere" if len(self._names) > _RULES else way or '""'

    def lines(self) -> list[str]:
        return [] if len(self._names) > _RULES else [f"{name}: {body}" for body, name in self._names.items()]

    def of_value(self, value: JsonValue, field: Field, owner: _Noun, depth: int = 0) -> str | None:
        if len(self._names) > _RULES or depth > _DEPTH:
            return "anywhere"
        if isinstance(value, dict):
            return self._rule(
                (_key(key), self.of_value(inner, *_inside(key, owner), depth + 1)) for key, inner in value.items()
            )
        if isinstance(value, list):
            items = enumerate(value[:_ITEMS])
            return self._rule((_item(place), self.of_value(inner, field, owner, depth + 1)) for place, inner in items)
        return self._end(field)

    def of_schema(self, schema: JsonValue, field: Field, owner: _Noun, depth: int = 0) -> str | None:
        if not isinstance(schema, dict) or len(self._names) > _RULES or depth > _DEPTH:
            return "anywhere"
        properties, kind = schema.get("properties"), schema.get("type")
        if isinstance(properties, dict) and properties:
            return self._rule(
                (_key(key), self.of_schema(inner, *_inside(key, owner), depth + 1))
                for key, inner in properties.items()
            )
        if kind == "array" and "items" in schema:
            return self._rule([("INDEX", self.of_schema(schema["items"], field, owner, depth + 1))])
        return self._end(field) if kind in ("string", "integer", "number", "boolean", "null") else "anywhere"

    def _end(self, field: Field) -> str | None:
        return "" if self._ends is None or field in self._ends else None

    def _rule(self, steps: Iterable[tuple[str | None, str | None]]) -> str | None:
        """Return the rule of steps and the ways after them, or None if they lead nowhere."""
        body = " | ".join(f"{step} {way}".strip() for step, way in steps if step is not None and way is not None)
        return self._names.setdefault(body, f"{self._prefix}{len(self._names)}") if body else None


def _returned(tool: Tool) -> frozenset[Field]:
    return frozenset(_fields_of_schema(tool.returns, thing_noun(tool)))


@lru_cache(maxsize=65536)
def _inside(key: str, owner: _Noun) -> tuple[Field, _Noun]:
    """Return what stands under a key of an object, and whose fields are inside of that."""
    return Field(key, qualified(key, owner)), owner if is_container(key) else noun(key)


def _fields_of_value(value: JsonValue, owner: _Noun, field: Field = _NAMELESS, depth: int = 0) -> Iterator[Field]:
    """Yield what the single values in a result are called.

    Args:
        owner: the noun that bare names at the top belong to.
    """
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            under, thing = _inside(key, owner)
            yield from _fields_of_value(inner, thing, under, depth + 1)
    elif isinstance(value, list):
        for inner in value[:_ITEMS]:
            yield from _fields_of_value(inner, owner, field, depth + 1)
    else:
        yield field


def _fields_of_schema(schema: JsonValue, owner: _Noun, field: Field = _NAMELESS, depth: int = 0) -> Iterator[Field]:
    """Yield what the single values of a schema are called."""
    if not isinstance(schema, dict) or depth > _DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        for key, inner in properties.items():
            under, thing = _inside(key, owner)
            yield from _fields_of_schema(inner, thing, under, depth + 1)
    elif "items" in schema:
        yield from _fields_of_schema(schema["items"], owner, field, depth + 1)
    else:
        yield field


@lru_cache(maxsize=65536)
def _key(key: str) -> str | None:
    return _literal(f".{key}") if _KEY.fullmatch(key) else None


def _item(place: int) -> str:
    return f'(".{place}" | "[{place}]")'


def _link(name: str) -> str:
    return _literal(f"${name}")


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

"""Where links can lead, as rules of a grammar in Lark: to single values in results, and in what calls will return.

Place in the flow: layer 2, optional, below `lark`. Of a result every path is known, of a call yet to be made what the
tools' schemas tell. A path ends at a text, number, flag or null: what is there for an argument to hold. It ends at a
field that is called like the argument: `orderId` is linked to an `orderId` or an `id`. Only where no field at all is
called so, a required argument may be linked to any.
Limits: of lists the first items; keys that the dialect cannot write are no way; beyond some depth or size, and where
schemas tell nothing, all is let pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from paraagent.catalog import names
from paraagent.types import JsonValue

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


class Links:
    """What arguments may be linked to.

    Args:
        known: results by the ids of their calls.
        returns: schemas of what calls not made yet may give.
    """

    def __init__(self, known: Mapping[str, JsonValue], returns: Iterable[JsonValue]) -> None:
        self._known = known
        self._returns = list(returns)
        self._fields = {field for value in known.values() for field in _fields_of_value(value)}
        self._fields |= {field for schema in self._returns for field in _fields_of_schema(schema)}
        self._kinds: dict[frozenset[str] | None, int] = {}

    def kind(self, argument: str, *, required: bool) -> int:
        """Return which of the rules holds for an argument: of `link0k2`, `link1k2` and so on the 2."""
        alike = frozenset(field for field in self._fields if names.alike(argument, field))
        return self._kinds.setdefault(alike if alike or not required else None, len(self._kinds))

    def rules(self, coming: Sequence[Sequence[str]]) -> list[str]:
        """Return the rules `link0k0` and so on, of links to one value, and `deep0` and so on, to any.

        Args:
            coming: for every first number, the ids of calls not made yet that it can link to.
        """
        lines = [*_COMMON]
        for ends, kind in self._kinds.items():
            there, later = self._there(ends, kind, lines), self._later(ends, kind, lines)
            for number, ids in enumerate(coming):
                options = [*there, *(f"{_link(name)} {later}" for name in ids if later)]
                lines.append(f"link{number}k{kind}: {_either(options)}")
        for number, ids in enumerate(coming):
            lines.append(f"deep{number}: {_either(f'{_link(name)} anywhere' for name in [*self._known, *ids])}")
        return lines

    def _there(self, ends: frozenset[str] | None, kind: int, lines: list[str]) -> list[str]:
        """Return the links to what is there under one of the keys, or under any; add the rules they need."""
        links = []
        for number, (name, value) in enumerate(self._known.items()):
            found = _Paths(f"path{kind}n{number}n", ends)
            if (after := found.of_value(value)) is not None:
                links.append(f"{_link(name)} {found.closed(after)}")
                lines += found.lines()
        return links

    def _later(self, ends: frozenset[str] | None, kind: int, lines: list[str]) -> str:
        """Return the rule of the ways into what calls will return, or nothing if none ends so."""
        found = _Paths(f"next{kind}n", ends)
        ways = [way for schema in self._returns if (way := found.of_schema(schema)) is not None]
        if not ways:
            return ""
        lines += [*found.lines(), f"later{kind}: {_either(map(found.closed, ways))}"]
        return f"later{kind}"


def _either(options: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(options)) or "NOWHERE"


class _Paths:
    """Rules of the ways into values; equal ones are one rule. A way is a rule's name, "" at a value, None nowhere.

    Args:
        prefix: how the rules' names begin.
        ends: keys under which a value must stand; None for any.
    """

    def __init__(self, prefix: str, ends: frozenset[str] | None) -> None:
        self._prefix = prefix
        self._ends = ends
        self._names: dict[str, str] = {}

    def closed(self, way: str) -> str:
        """Return what stands for a way: anything if there are too many."""
        return "anywhere" if len(self._names) > _RULES else way or '""'

    def lines(self) -> list[str]:
        return [] if len(self._names) > _RULES else [f"{name}: {body}" for body, name in self._names.items()]

    def of_value(self, value: JsonValue, under: str = "", depth: int = 0) -> str | None:
        if len(self._names) > _RULES or depth > _DEPTH:
            return "anywhere"
        if isinstance(value, dict):
            return self._rule((_key(key), self.of_value(inner, key, depth + 1)) for key, inner in value.items())
        if isinstance(value, list):
            inside = enumerate(value[:_ITEMS])
            return self._rule((_item(place), self.of_value(inner, under, depth + 1)) for place, inner in inside)
        return self._end(under)

    def of_schema(self, schema: JsonValue, under: str = "", depth: int = 0) -> str | None:
        if not isinstance(schema, dict) or len(self._names) > _RULES or depth > _DEPTH:
            return "anywhere"
        properties, kind = schema.get("properties"), schema.get("type")
        if isinstance(properties, dict) and properties:
            return self._rule((_key(key), self.of_schema(inner, key, depth + 1)) for key, inner in properties.items())
        if kind == "array" and "items" in schema:
            return self._rule([("INDEX", self.of_schema(schema["items"], under, depth + 1))])
        return self._end(under) if kind in ("string", "integer", "number", "boolean", "null") else "anywhere"

    def _end(self, under: str) -> str | None:
        return "" if self._ends is None or under in self._ends else None

    def _rule(self, steps: Iterable[tuple[str | None, str | None]]) -> str | None:
        """Return the rule of steps and the ways after them, or None if they lead nowhere."""
        body = " | ".join(f"{step} {way}".strip() for step, way in steps if step is not None and way is not None)
        return self._names.setdefault(body, f"{self._prefix}{len(self._names)}") if body else None


def _fields_of_value(value: JsonValue, under: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the keys under which single values stand."""
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields_of_value(inner, key, depth + 1)
    elif isinstance(value, list):
        for inner in value[:_ITEMS]:
            yield from _fields_of_value(inner, under, depth + 1)
    else:
        yield under


def _fields_of_schema(schema: JsonValue, under: str = "", depth: int = 0) -> Iterator[str]:
    if not isinstance(schema, dict) or depth > _DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        for key, inner in properties.items():
            yield from _fields_of_schema(inner, key, depth + 1)
    elif "items" in schema:
        yield from _fields_of_schema(schema["items"], under, depth + 1)
    else:
        yield under


def _key(key: str) -> str | None:
    return _literal(f".{key}") if _KEY.fullmatch(key) else None


def _item(place: int) -> str:
    return f'(".{place}" | "[{place}]")'


def _link(name: str) -> str:
    return _literal(f"${name}")


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

"""Where links can lead, as rules of a grammar in Lark: to single values in results, and in what calls will return.

Place in the flow: layer 2, optional, below `lark`. Of a result every path is known, of a call yet to be made what the
tools' schemas tell. A path ends at a text, number, flag or null: what is there for an argument to hold.
Limits: of lists the first items; keys that the dialect cannot write are no way; beyond some depth or size all is let
pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from paraagent.types import JsonValue

_KEY = re.compile(r"[\w@-]+(\.[\w@-]+)*")
_ITEMS = 20
"""Of a list, from its start."""
_DEPTH = 8
_RULES = 1_500
"""Rules of one value or of all schemas at most."""


def link_rules(
    known: Mapping[str, JsonValue], coming: Sequence[Sequence[str]], returns: Iterable[JsonValue]
) -> list[str]:
    """Return the grammar's rules `link0`, `link1` and so on, of links to one value, and `deep0` and so on, to any.

    Args:
        known: results by the ids of their calls.
        coming: for every rule, the ids of calls not made yet that it can link to.
        returns: schemas of what these may give.
    """
    there, lines = [], []
    for number, (name, value) in enumerate(known.items()):
        found = _Paths(f"path{number}_")
        if (after := found.of_value(value)) is not None:
            there.append(f"{_link(name)} {found.closed(after)}")
            lines += found.lines()
    schemas = _Paths("next")
    ways = [way for schema in returns if (way := schemas.of_schema(schema)) is not None]
    later = " | ".join(dict.fromkeys(schemas.closed(way) for way in ways))
    lines += [f"there: {' | '.join(there) or 'NOWHERE'}", f"later: {later or 'NOWHERE'}", *schemas.lines()]
    for number, names in enumerate(coming):
        lines.append(f"link{number}: {' | '.join(['there', *(f'{_link(name)} later' for name in names)])}")
        deep = " | ".join(f"{_link(name)} anywhere" for name in [*known, *names])
        lines.append(f"deep{number}: {deep or 'NOWHERE'}")
    return [
        r"NOWHERE: /[^\s\S]/",
        "anywhere: PATH?",
        r"PATH: /[.\[][\w.\[\]@-]*/",
        r"INDEX: /\.[0-9]+|\[[0-9]+\]/",
        *lines,
    ]


class _Paths:
    """Rules of the ways into values; equal ones are one rule. A way is a rule's name, "" at a value, None nowhere."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._names: dict[str, str] = {}

    def closed(self, way: str) -> str:
        """Return what stands for a way: anything if there are too many."""
        return "anywhere" if len(self._names) > _RULES else way or '""'

    def lines(self) -> list[str]:
        return [] if len(self._names) > _RULES else [f"{name}: {body}" for body, name in self._names.items()]

    def of_value(self, value: JsonValue, depth: int = 0) -> str | None:
        if len(self._names) > _RULES or depth > _DEPTH:
            return "anywhere"
        if isinstance(value, dict):
            return self._rule((_key(key), self.of_value(inner, depth + 1)) for key, inner in value.items())
        if isinstance(value, list):
            inside = ((_item(place), self.of_value(inner, depth + 1)) for place, inner in enumerate(value[:_ITEMS]))
            return self._rule(inside)
        return ""

    def of_schema(self, schema: JsonValue, depth: int = 0) -> str | None:
        if not isinstance(schema, dict) or len(self._names) > _RULES or depth > _DEPTH:
            return "anywhere"
        properties, kind = schema.get("properties"), schema.get("type")
        if isinstance(properties, dict) and properties:
            return self._rule((_key(key), self.of_schema(inner, depth + 1)) for key, inner in properties.items())
        if kind == "array" and "items" in schema:
            return self._rule([("INDEX", self.of_schema(schema["items"], depth + 1))])
        return "" if kind in ("string", "integer", "number", "boolean", "null") else "anywhere"

    def _rule(self, steps: Iterable[tuple[str | None, str | None]]) -> str | None:
        """Return the rule of steps and the ways after them, or None if they lead nowhere."""
        body = " | ".join(f"{step} {way}".strip() for step, way in steps if step is not None and way is not None)
        return self._names.setdefault(body, f"{self._prefix}{len(self._names)}") if body else None


def _key(key: str) -> str | None:
    return _literal(f".{key}") if _KEY.fullmatch(key) else None


def _item(place: int) -> str:
    return f'(".{place}" | "[{place}]")'


def _link(name: str) -> str:
    return _literal(f"${name}")


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

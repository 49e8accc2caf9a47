"""Fills a call's arguments with literals, and says what must exist in the world for them.

Place in the flow: layer 3, used by `tasks`. Within one goal equal identifiers get equal values, so that the steps of
a chain speak of the same project. Changes get something to change; reads now and then get a filter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from paraagent.catalog.names import in_path, noun, parameter_identity, words
from paraagent.env.identity import identity
from paraagent.env.labels import label, thing_named
from paraagent.env.literals import Literals
from paraagent.env.repertoire import required
from paraagent.env.schemas import properties
from paraagent.env.task import Entity
from paraagent.types import JsonObject, JsonValue, Tool

FILTERED_READS = 0.15
_WELCOME = frozenset(
    """
    name title description note comment message status priority email city country currency amount quantity
    price color label subject date due start end category language phone company summary reason role level
    visibility
    """.split()
)
_SPANS = {"start": "end", "from": "to", "begin": "end", "since": "until", "after": "before", "min": "max"}
_FILTERS = frozenset("query search q term keyword name status country city language category date title".split())


@dataclass(slots=True)
class Filler:
    """Literals for the calls of one goal."""

    literals: Literals
    rng: Random
    shared: dict[str, JsonValue] = field(default_factory=dict)
    """Values by normalised identifier, for the steps that follow."""
    entities: dict[tuple[str, str, str], Entity] = field(default_factory=dict)

    def fill(self, tool: Tool, linked: str | None) -> JsonObject | None:
        """Return a call's literal arguments, `linked` coming from elsewhere, or None if one cannot be stated."""
        schemas = properties(tool.parameters)
        filled: JsonObject = {}
        for name in required(tool):
            if name != linked:
                value = self._value(tool, name, schemas[name])
                if value is None:
                    return None
                filled[name] = value
        optional = [name for name in schemas if name not in filled and name != linked and self._optional(tool, name)]
        for name in self._chosen(tool, optional, bool(filled)):
            value = self.literals.value(name, schemas[name])
            if value is not None:
                filled[name] = value
        _in_order(filled)
        plain = [name for name in filled if not thing_named(tool, name)]
        nothing_to_change = tool.effect == "update" and not plain
        nothing_named = tool.effect == "delete" and not filled and not linked
        return None if nothing_to_change or nothing_named else filled

    def _value(self, tool: Tool, name: str, schema: JsonObject) -> JsonValue:
        thing = thing_named(tool, name)
        if thing is None:
            key = name if in_path(tool.path, name) else ""
            found = self.shared.get(key) or self.literals.value(name, schema)
            self.shared.update({key: found} if key else {})
            self._exist(tool, name, found)
            return found
        key = parameter_identity(tool, name)
        if key not in self.shared:
            value = self.literals.identifier(schema, thing)
            if value is None:
                return None
            self.shared[key] = value
        self._exist(tool, name, self.shared[key])
        return self.shared[key]

    def _exist(self, tool: Tool, name: str, value: JsonValue) -> None:
        """Note that the thing which a parameter names must be there before the episode."""
        found = identity(tool)
        for reference in (*found.parents, *([found.own] if found.own else [])):
            new = tool.effect == "create" and reference == found.own
            if reference.parameter == name and reference.checked and not new:
                entity = Entity(found.api, reference.noun, str(value), {})
                self.entities[entity.api, entity.resource, entity.id] = entity

    def _optional(self, tool: Tool, name: str) -> bool:
        parts = set(words(name))
        wanted = _FILTERS if tool.effect == "read" else _WELCOME
        return bool(parts & wanted) and len(parts) <= 3 and label(name) is not None and not thing_named(tool, name)

    def _chosen(self, tool: Tool, names: list[str], has_some: bool) -> list[str]:
        """Return which optional parameters to set."""
        if tool.effect == "read":
            return self.rng.sample(names, 1) if names and self.rng.random() < FILTERED_READS else []
        if tool.effect not in ("create", "update"):
            return []
        names.sort(key=lambda name: (noun(name)[-1:] != ("name",), len(words(name))))
        wanted = self.rng.randint(0 if has_some and tool.effect == "create" else 1, 2)
        return names[:wanted]


def _in_order(filled: JsonObject) -> None:
    """Swap the ends of a time span that would end before it starts."""
    ends = {tuple(_SPANS.get(word, word) for word in words(name)): name for name in filled}
    for name in list(filled):
        end = ends.get(words(name))
        if end is not None and end != name:
            first, last = filled[end], filled[name]
            if isinstance(first, str) and isinstance(last, str) and first > last:
                filled[end], filled[name] = last, first

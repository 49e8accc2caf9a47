"""One call, seen from the world: the thing it is about, the things above it, and how the thing is shown.

Place in the flow: layer 3, shared by `behave`, which acts on it, and `effects`, which says what would be touched.
"""

from __future__ import annotations

from collections.abc import Mapping

from paraagent.catalog.names import is_container
from paraagent.env.identity import Reference, key_noun
from paraagent.env.ids import digest, digest_bytes, pick
from paraagent.env.interface import Interface
from paraagent.env.schemas import same
from paraagent.env.validate import canonical
from paraagent.env.world import Kind, World
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, JsonValue

_SHOWN = 80
NOTHING: Mapping[str, JsonValue] = {}


class Target:
    """One call, seen from the world."""

    __slots__ = ("arguments", "interface", "kind", "own", "parents", "text", "world")

    def __init__(self, world: World, interface: Interface, arguments: JsonObject, text: bytes | None) -> None:
        identity = interface.identity
        self.world = world
        self.interface = interface
        self.arguments = arguments
        self.text = text
        self.kind: Kind = interface.kind
        self.own = identity.own if identity.own and identity.own.parameter in arguments else None
        self.parents = [(parent, self.id(parent)) for parent in identity.parents if parent.parameter in arguments]

    def id(self, reference: Reference) -> str:
        value = self.arguments[reference.parameter]
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

    def label(self, reference: Reference, id: str) -> str:
        """Return the key under which effects on a referenced thing conflict."""
        return str(self.world.find((self.kind[0], reference.noun), id) or id.replace("/", "|"))

    def digest(self) -> int:
        """Return 64 bits that stand for the arguments."""
        return digest_bytes(canonical(self.arguments) if self.text is None else self.text)

    def check_parents(self) -> None:
        for parent, id in self.parents:
            kind = self.kind[0], parent.noun
            thing = self.world.find(kind, id)
            if (parent.checked and thing is None) or (thing is not None and not self.world.exists(kind, thing)):
                raise missing(parent, id)

    def subject(self) -> int:
        """Return the thing that the call is about.

        Raises:
            ToolFailure: `not_found`.
        """
        own = self.own
        id = self.id(own) if own else ""
        thing = self.world.find(self.kind, id) if own else None
        revives = thing is None and self.interface.tool.effect == "update"
        if thing is None:
            if own and own.checked:
                raise missing(own, id)
            thing = self.unnamed(id)
        if not revives and not self.world.exists(self.kind, thing):
            raise missing(own, id) if own else ToolFailure("not_found", f"there is no {self.kind[1]} any more")
        return thing

    def unnamed(self, id: str = "") -> int:
        """Return the thing behind arguments of which none is an id that the world gave out.

        It is one per set of arguments; but what was written at the same place concerns all reads there.
        """
        thing = pick(digest(id or self.interface.place, *(id for _, id in self.parents)))
        plain = len(self.parents) + (self.own is not None) == len(self.arguments)
        if plain or self.interface.tool.effect != "read" or self.world.record(self.kind, thing):
            return thing
        return pick(self.digest())

    def show(self, thing: int, echoed: Mapping[str, JsonValue]) -> JsonObject | None:
        """Return a thing as this tool shows it."""
        world, kind, shown = self.world, self.kind, self.interface.answers.shown
        if shown is None:
            return None
        fields = shown.thing(thing, world.spaces(kind[0]))
        if echoed:
            shown.overlay(fields, echoed)
        if recalled := world.recalled(kind, thing):
            shown.overlay(fields, recalled)
        record = world.record(kind, thing)
        if record is not None:
            shown.overlay(fields, record.values)
        if self.own is not None:
            shown.name_it(fields, self.arguments[self.own.parameter], self.own.word)
        elif record is not None and record.named:
            shown.name_it(fields, record.id, "id")
        if shown.plain_name is not None and shown.plain_name in fields:  # no value of it may satisfy the schema
            world.recall_name(kind, thing, fields[shown.plain_name])
        return fields

    def arguments_by_field(self) -> dict[str, JsonValue]:
        """Return the arguments, but the thing's own id, by the spelling in which they are compared to fields."""
        own = self.own.parameter if self.own and self.own.checked else None
        return self.by_field({name: value for name, value in self.arguments.items() if name != own})

    def by_field(self, arguments: JsonObject) -> dict[str, JsonValue]:
        """Return arguments by the spelling in which they are compared to fields."""
        spellings = self.interface.spellings
        return {spellings.get(name) or same(name): value for name, value in arguments.items()}

    def parents_by_field(self) -> Mapping[str, JsonValue]:
        if not self.parents:
            return NOTHING
        return self.by_field({parent.parameter: self.arguments[parent.parameter] for parent, _ in self.parents})

    def values(self, meaning: JsonObject) -> dict[str, JsonValue]:
        """Return the field values that a write sets: its arguments, those in a body one by one."""
        named = {parent.parameter for parent, _ in self.parents}
        values: dict[str, JsonValue] = {}
        for name, value in meaning.items():
            if name in named or (self.own and name == self.own.parameter):
                continue
            if isinstance(value, dict) and (is_container(name) or key_noun(name) == self.kind[1]):
                values.update((same(inner), child) for inner, child in value.items())
            else:
                values[same(name)] = value
        return values


def missing(reference: Reference, id: str) -> ToolFailure:
    return ToolFailure("not_found", f'no {reference.noun} has {reference.parameter} "{id[:_SHOWN]}"')

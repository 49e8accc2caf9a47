"""What a call does to the world, and what it answers: the `schema` backend.

Place in the flow: layer 3, between the tools' interfaces and the world; `simulator` calls it once arguments are valid
and no fault is due. The rules, by effect:

    read     one thing by its id, or a list: things the world holds first, then seeded ones; a filter that names a
             field holds for all that is listed. Without an id: one thing per set of arguments
    create   a new thing, its values those of the request; `conflict` if the request chose an id that is taken
    update   the request's values are written over the thing's; an `action` is noted besides
    delete   the thing is gone

An id that the world does not know, its own or a checked parent's, is `not_found`. Ids of new things follow from what
was asked and how often, not from the order in which calls end. Limits: a thing's parents are checked by themselves,
not whether it hangs on them; deleting a thing leaves what hangs on it.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from paraagent.catalog.names import is_container
from paraagent.env.identity import Reference, key_noun
from paraagent.env.ids import digest, digest_bytes, mix, pick, salt
from paraagent.env.interface import Interface
from paraagent.env.paging import page
from paraagent.env.schemas import same
from paraagent.env.validate import canonical
from paraagent.env.world import Kind, World
from paraagent.errors import ToolFailure
from paraagent.types import Effects, JsonObject, JsonValue

_NOTHING: Mapping[str, JsonValue] = {}
_SHOWN = 80
_LISTED = 2
"""Fewest seeded things in a list; one more by chance."""


def answer(world: World, interface: Interface, arguments: JsonObject, text: bytes) -> JsonValue:
    """Do what a call does and return what it answers.

    Args:
        arguments: valid for the tool; they become part of the world, so nobody may change them afterwards.
        text: the same as canonical JSON.

    Raises:
        ToolFailure: `not_found` or `conflict`.
    """
    call = _Call(world, interface, arguments, text)
    call.check_parents()
    answers = interface.answers
    content = call.listed() if answers.many else _ACTS[interface.tool.effect](call)
    if answers.hole == ():
        return content
    written = answers.write(mix(digest_bytes(text), salt(interface.tool.name)), world.spaces(call.kind[0]), content)
    if answers.frame is not None and isinstance(written, dict):
        answers.frame.overlay(written, call.by_field(arguments))
    return written


def effects(world: World, interface: Interface, arguments: JsonObject) -> Effects:
    """Return what a call would read and write; arguments that are not known yet may be left out."""
    call = _Call(world, interface, arguments, None)
    identity, effect = interface.identity, interface.tool.effect
    own, collection = identity.own, f"{call.kind[0]}/{call.kind[1]}"
    if effect == "create" and own is None:
        key = f"{collection}/{call.digest():x}"
    elif identity.many or len(call.parents) < len(identity.parents) or (own and own.parameter not in arguments):
        key = collection
    elif own is not None:
        key = f"{collection}/{call.label(own, call.id(own))}"
    else:
        key = f"{collection}/{call.unnamed()}"
    touched = frozenset((key,))
    above = [f"{identity.api}/{parent.noun}/{call.label(parent, id)}" for parent, id in call.parents]
    if effect == "read":
        return Effects(touched.union(above) if above else touched)
    return Effects(frozenset(above), touched)


class _Call:
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
                raise _missing(parent, id)

    def subject(self) -> int:
        """Return the thing that the call is about.

        Raises:
            ToolFailure: `not_found`.
        """
        own = self.own
        id = self.id(own) if own else "@"
        thing = self.world.find(self.kind, id) if own else None
        revives = thing is None and self.interface.tool.effect == "update"
        if thing is None:
            if own and own.checked:
                raise _missing(own, id)
            thing = self.unnamed(id)
        if not revives and not self.world.exists(self.kind, thing):
            raise _missing(own, id) if own else ToolFailure("not_found", f"there is no {self.kind[1]} any more")
        return thing

    def unnamed(self, id: str = "@") -> int:
        """Return the thing behind arguments of which none is an id that the world gave out.

        It is one per set of arguments, but a write without further ones concerns all reads.
        """
        thing = pick(digest(id, *(id for _, id in self.parents)))
        plain = len(self.parents) + (self.own is not None) == len(self.arguments)
        if plain or self.interface.tool.effect != "read" or self.world.record(self.kind, thing):
            return thing
        return pick(self.digest())

    def read(self) -> JsonValue:
        thing = self.subject()
        whole = self.own is None or not self.own.checked
        return self.show(thing, self._arguments_by_field() if whole else self._parents_by_field())

    def create(self) -> JsonValue:
        own = self.own
        id = self.id(own) if own else None
        if own and id is not None:
            taken = self.world.find(self.kind, id)
            if taken is not None and self.world.exists(self.kind, taken):
                raise ToolFailure("conflict", f'a {self.kind[1]} with {own.parameter} "{id[:_SHOWN]}" exists')
        meaning = self.interface.meaning(self.arguments)
        key = digest_bytes(orjson.dumps(meaning, option=orjson.OPT_SORT_KEYS))
        thing = self.world.fresh(self.kind, mix(key, salt(self.kind[1])))
        values = {**self._parents_by_field(), **self._values(meaning)}
        self.world.create(self.kind, thing, values, {parent.noun: id for parent, id in self.parents}, id)
        return self.show(thing, _NOTHING)

    def update(self) -> JsonValue:
        thing = self.subject()
        self.world.update(self.kind, thing, self._values(self.interface.meaning(self.arguments)))
        return self.show(thing, self._parents_by_field())

    def act(self) -> JsonValue:
        if self.own is None:
            return self.create()
        thing = self.subject()
        meaning = self.interface.meaning(self.arguments)
        done = f"{self.interface.tool.name} {orjson.dumps(meaning, option=orjson.OPT_SORT_KEYS).decode()}"
        self.world.update(self.kind, thing, {**self._values(meaning), **self.interface.implied}, done)
        return self.show(thing, self._parents_by_field())

    def delete(self) -> JsonValue:
        thing = self.subject()
        shown = self.show(thing, self._parents_by_field())
        self.world.delete(self.kind, thing)
        return shown

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

    def listed(self) -> JsonValue:
        """Return the list that a call asks for."""
        shown = self.interface.answers.shown
        assert shown is not None
        batch = self.interface.identity.batch
        if batch is not None and batch.parameter in self.arguments:
            return [self.show(thing, _NOTHING) for thing in self._named(batch)]
        held = {name: value for name, value in self._arguments_by_field().items() if name in shown.names}
        found: list[JsonValue] = []
        for thing in (*self._made(), *self._seeded(held)):
            fields = self.show(thing, _NOTHING)
            assert fields is not None
            if not held or all(_equal(fields.get(shown.names[name]), held[name]) for name in held):
                found.append(fields)
        return page(found[: self.interface.answers.most], self.arguments, self.interface.roles)

    def _named(self, batch: Reference) -> list[int]:
        """Return the things whose ids are listed in an argument."""
        value = self.arguments[batch.parameter]
        found: list[int] = []
        for id in map(str, value if isinstance(value, list) else [value]):
            thing = self.world.find(self.kind, id)
            if thing is None or not self.world.exists(self.kind, thing):
                raise _missing(batch, id)
            found.append(thing)
        return found

    def _made(self) -> list[int]:
        """Return the things that the task or a call put into the world, under these parents."""
        return [
            thing
            for thing, record in self.world.members(self.kind)
            if record.made
            and record.exists
            and all(record.parents.get(parent.noun, id) == id for parent, id in self.parents)
        ]

    def _seeded(self, held: Mapping[str, JsonValue]) -> list[int]:
        """Return the things that were always there, for these parents, filters and search words."""
        world, kind, roles = self.world, self.kind, self.interface.roles
        scope = {name: value for name, value in self.arguments.items() if roles.get(name) == "search"}
        scope.update(held)
        scope.update((parent.noun, id) for parent, id in self.parents)
        key = mix(digest_bytes(orjson.dumps(scope, option=orjson.OPT_SORT_KEYS)), world.space(kind))
        found: list[int] = []
        for index in range(max(_LISTED + (key >> 50) % 2, self.interface.answers.least)):
            thing = pick(mix(key, index))
            record = world.record(kind, thing)
            if thing not in found and (record is None or (record.exists and not record.made)):
                world.recall(kind, thing, held)
                found.append(thing)
        return found

    def _arguments_by_field(self) -> dict[str, JsonValue]:
        """Return the arguments, but the thing's own id, by the spelling in which they are compared to fields."""
        fields = self.by_field(self.arguments)
        if self.own and self.own.checked:
            del fields[same(self.own.parameter)]
        return fields

    def by_field(self, arguments: JsonObject) -> dict[str, JsonValue]:
        """Return arguments by the spelling in which they are compared to fields."""
        spellings = self.interface.spellings
        return {spellings.get(name) or same(name): value for name, value in arguments.items()}

    def _parents_by_field(self) -> Mapping[str, JsonValue]:
        if not self.parents:
            return _NOTHING
        return {same(parent.parameter): self.arguments[parent.parameter] for parent, _ in self.parents}

    def _values(self, meaning: JsonObject) -> dict[str, JsonValue]:
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


def _missing(reference: Reference, id: str) -> ToolFailure:
    return ToolFailure("not_found", f'no {reference.noun} has {reference.parameter} "{id[:_SHOWN]}"')


def _equal(shown: JsonValue, asked: JsonValue) -> bool:
    """Tell whether a field has the value that was asked for; a path spells numbers as text."""
    return shown == asked or str(shown) == str(asked)


_ACTS = {
    "read": _Call.read,
    "create": _Call.create,
    "update": _Call.update,
    "delete": _Call.delete,
    "action": _Call.act,
}

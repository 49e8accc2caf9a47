"""What a call does to the world, and what it answers: the `schema` backend.

Place in the flow: layer 3, between the tools' interfaces and the world; `simulator` calls it once arguments are valid
and no fault is due. The rules, by effect:

    read     one thing by its id, or a list: things the world holds first, then seeded ones; a filter that names a
             field holds for all that is listed. Without an id: one thing per set of arguments
    create   a new thing, its values those of the request; `conflict` if the request chose an id that is taken
    update   the request's values are written over the thing's; an `action` is noted besides
    delete   the thing is gone

An id that the world does not know, its own or a checked parent's, is `not_found`. Ids of new things follow from what
was asked and how often, not from the order in which calls end. Limits: a thing's parents are checked by themselves, not
whether it hangs on them; deleting a thing leaves what hangs on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import orjson

from paraagent.catalog.names import is_container, words
from paraagent.env.identity import Identity, Reference, key_noun
from paraagent.env.ids import digest, mix, pick
from paraagent.env.interface import Interface
from paraagent.env.paging import page
from paraagent.env.shown import Shown, same
from paraagent.env.world import Kind, World
from paraagent.errors import ToolFailure
from paraagent.types import Effects, JsonObject, JsonValue

_SEARCH_WORDS = frozenset({"q", "query", "search", "keyword", "term", "text", "prefix", "filter", "match"})
_LISTED = 2
"""Fewest seeded things in a list; up to two more by chance."""


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
    tool, answers = interface.tool, interface.answers
    if answers.many:
        content: JsonValue = call.listed()
    else:
        content = _ACTS[tool.effect](call)
    written = answers.write(digest(tool.name, text), world.bits(call.kind[0]), content)
    if answers.frame is not None and isinstance(written, dict):
        answers.frame.overlay(written, {same(name): value for name, value in arguments.items()})
    return written


def effects(world: World, interface: Interface, arguments: JsonObject, text: bytes) -> Effects:
    """Return what a call would read and write; arguments that are not known yet may be left out."""
    call = _Call(world, interface, arguments, text)
    identity, effect = interface.identity, interface.tool.effect
    reads = frozenset(f"{identity.api}/{parent.noun}/{call.label(parent)}" for parent in call.given(identity.parents))
    complete = all(parent.parameter in arguments for parent in identity.parents)
    collection = "/".join(call.kind)
    if effect == "create" and identity.own is None:
        return Effects(reads, frozenset({f"{collection}/{world.fresh(call.kind, call.key())}"}))
    if interface.answers.many or not complete or (identity.own and identity.own.parameter not in arguments):
        key = collection
    elif identity.own is not None:
        key = f"{collection}/{call.label(identity.own)}"
    else:
        key = f"{collection}/{call.subject()}"
    if effect == "read":
        return Effects(reads | {key})
    return Effects(reads, frozenset({key}))


class _Call:
    """One call, seen from the world."""

    def __init__(self, world: World, interface: Interface, arguments: JsonObject, text: bytes) -> None:
        self.world = world
        self.interface = interface
        self.identity: Identity = interface.identity
        self.arguments = arguments
        self.text = text
        self.kind: Kind = (self.identity.api, self.identity.noun or interface.tool.name)

    def given(self, references: tuple[Reference, ...]) -> list[Reference]:
        return [reference for reference in references if reference.parameter in self.arguments]

    def id(self, reference: Reference) -> str:
        value = self.arguments[reference.parameter]
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

    def label(self, reference: Reference) -> str:
        """Return the key under which effects on a referenced thing conflict."""
        id = self.id(reference)
        return str(self.world.find((self.identity.api, reference.noun), id) or id.replace("/", "|"))

    def check_parents(self) -> None:
        for parent in self.given(self.identity.parents):
            kind = self.identity.api, parent.noun
            thing = self.world.find(kind, self.id(parent))
            if (thing is None and parent.checked) or (thing is not None and not self.world.exists(kind, thing)):
                raise self._missing(parent)

    def _missing(self, reference: Reference) -> ToolFailure:
        return ToolFailure("not_found", f'no {reference.noun} has {reference.parameter} "{self.id(reference)[:80]}"')

    def subject(self) -> int:
        """Return the thing that the call is about.

        Raises:
            ToolFailure: `not_found`.
        """
        own = self.identity.own
        if own is None or own.parameter not in self.arguments:
            return self._unnamed(digest("@", *(self.id(parent) for parent in self.given(self.identity.parents))))
        id = self.id(own)
        thing = self.world.find(self.kind, id)
        if thing is None:
            if own.checked:
                raise self._missing(own)
            thing = self._unnamed(digest(id))
        if not self.world.exists(self.kind, thing) and self.interface.tool.effect != "update":
            raise self._missing(own)
        return thing

    def _unnamed(self, key: int) -> int:
        """Return the thing behind arguments of which none is an id that the world gave out."""
        named = 1 + len(self.identity.parents) if self.identity.own else len(self.identity.parents)
        thing = pick(key)
        if self.interface.tool.effect != "read" or len(self.arguments) <= named:
            return thing
        return thing if self.world.record(self.kind, thing) else pick(digest(self.text))

    def key(self) -> int:
        """Return 64 bits that stand for what is asked, the same for arguments that mean the same."""
        return digest(*self.kind, orjson.dumps(self.interface.meaning(self.arguments), option=orjson.OPT_SORT_KEYS))

    def read(self) -> JsonValue:
        thing = self.subject()
        own = self.identity.own
        echoed = self._echo() if own is None or not own.checked else self._parents_by_field()
        return self.show(thing, echoed)

    def create(self) -> JsonValue:
        own = self.identity.own
        id = self.id(own) if own and own.parameter in self.arguments else None
        if id is not None:
            taken = self.world.find(self.kind, id)
            if taken is not None and self.world.exists(self.kind, taken):
                raise ToolFailure(
                    "conflict", f'a {self.kind[1]} with {own.parameter if own else "id"} "{id[:80]}" exists'
                )
        thing = self.world.fresh(self.kind, self.key())
        parents = {parent.noun: self.id(parent) for parent in self.given(self.identity.parents)}
        self.world.create(self.kind, thing, self._values(), parents, id)
        return self.show(thing, self._parents_by_field())

    def update(self) -> JsonValue:
        thing = self.subject()
        self.world.update(self.kind, thing, self._values())
        return self.show(thing, self._parents_by_field())

    def act(self) -> JsonValue:
        if self.identity.own is None:
            return self.create()
        thing = self.subject()
        self.world.update(self.kind, thing, self._values(), f"{self.interface.tool.name} {self.key():x}")
        return self.show(thing, self._parents_by_field())

    def delete(self) -> JsonValue:
        thing = self.subject()
        shown = self.show(thing, self._parents_by_field())
        self.world.delete(self.kind, thing)
        return shown

    def show(self, thing: int, echoed: Mapping[str, JsonValue]) -> JsonValue:
        """Return a thing as this tool shows it."""
        shown = self.interface.answers.shown
        if shown is None:
            return None
        fields = shown.thing(thing, self.world.bits(self.kind[0]))
        if echoed:
            shown.overlay(fields, echoed)
        for values in self.world.known(self.kind, thing):
            shown.overlay(fields, values)
        own, record = self.identity.own, self.world.record(self.kind, thing)
        if own is not None and own.parameter in self.arguments:
            shown.name_it(fields, self.arguments[own.parameter], words(own.parameter)[-1:])
        elif record is not None and record.named:
            shown.name_it(fields, record.id, ())
        return fields

    def listed(self) -> JsonValue:
        """Return the list that a call asks for."""
        shown = cast(Shown, self.interface.answers.shown)
        parents = self._parents_by_field()
        conditions = {
            spelling: value
            for spelling, value in self._echo().items()
            if spelling in shown.names and spelling not in parents
        }
        things = self._held(parents, conditions)
        taken = {thing for thing, _ in self.world.members(self.kind)}
        held = {**parents, **conditions}
        for thing in self._seeded(held):
            if thing not in taken:
                self.world.recall(self.kind, thing, held)
                things.append(self.show(thing, {}))
        return cast(JsonValue, page(things, self.arguments))

    def _held(self, parents: Mapping[str, JsonValue], conditions: Mapping[str, JsonValue]) -> list[JsonValue]:
        """Return the things that the task or a call put into the world and that fit."""
        under = {parent.noun: self.id(parent) for parent in self.given(self.identity.parents)}
        found = []
        for thing, record in self.world.members(self.kind):
            if not record.exists or any(record.parents.get(noun, id) != id for noun, id in under.items()):
                continue
            if any(record.values.get(spelling, value) != value for spelling, value in parents.items()):
                continue
            fields = cast(JsonObject, self.show(thing, parents))
            names = cast(Shown, self.interface.answers.shown).names
            if all(fields.get(names[spelling], value) == value for spelling, value in conditions.items()):
                found.append(cast(JsonValue, fields))
        return found

    def _seeded(self, held: Mapping[str, JsonValue]) -> list[int]:
        """Return the things that were always there, for these parents, filters and search words."""
        asked = {name: value for name, value in self.arguments.items() if not _SEARCH_WORDS.isdisjoint(words(name))}
        scope = {**asked, **held, **{parent.noun: self.id(parent) for parent in self.given(self.identity.parents)}}
        key = digest(self.world.seed, *self.kind, orjson.dumps(scope, option=orjson.OPT_SORT_KEYS))
        return list(dict.fromkeys(pick(mix(key, index)) for index in range(_LISTED + (key >> 50) % 3)))

    def _echo(self) -> dict[str, JsonValue]:
        """Return the arguments by the spelling in which they are compared to fields."""
        own = self.identity.own
        return {same(name): value for name, value in self.arguments.items() if own is None or name != own.parameter}

    def _parents_by_field(self) -> dict[str, JsonValue]:
        return {same(p.parameter): self.arguments[p.parameter] for p in self.given(self.identity.parents)}

    def _values(self) -> dict[str, JsonValue]:
        """Return the field values that a write sets: its arguments, those in a body one by one."""
        named = {parent.parameter for parent in self.identity.parents}
        named |= {self.identity.own.parameter} if self.identity.own else set()
        values: dict[str, JsonValue] = {}
        for name, value in self.interface.meaning(self.arguments).items():
            if name in named:
                continue
            if isinstance(value, dict) and (is_container(name) or key_noun(name) == self.kind[1]):
                values.update((same(inner), child) for inner, child in value.items())
            else:
                values[same(name)] = value
        return values


_ACTS = {
    "read": _Call.read,
    "create": _Call.create,
    "update": _Call.update,
    "delete": _Call.delete,
    "action": _Call.act,
}

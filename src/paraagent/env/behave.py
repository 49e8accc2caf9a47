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

from paraagent.env.identity import Reference
from paraagent.env.ids import digest_bytes, mix, pick, salt
from paraagent.env.interface import Interface
from paraagent.env.paging import page
from paraagent.env.schemas import same
from paraagent.env.target import NOTHING, Target, missing
from paraagent.env.world import World
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, JsonValue

_LISTED = 2
"""Fewest seeded things in a list; one more by chance."""
_SHOWN = 80


def answer(world: World, interface: Interface, arguments: JsonObject, text: bytes) -> JsonValue:
    """Do what a call does and return what it answers.

    Args:
        arguments: valid for the tool; they become part of the world, so nobody may change them afterwards.
        text: the same as canonical JSON.

    Raises:
        ToolFailure: `not_found` or `conflict`.
    """
    call = Target(world, interface, arguments, text)
    call.check_parents()
    answers = interface.answers
    content = _listed(call) if answers.many else _ACTS[interface.tool.effect](call)
    if answers.hole == ():
        return content
    written = answers.write(mix(digest_bytes(text), salt(interface.tool.name)), world.spaces(call.kind[0]), content)
    if answers.frame is not None and isinstance(written, dict):
        answers.frame.overlay(written, call.by_field(arguments))
    return written


def _read(call: Target) -> JsonValue:
    thing = call.subject()
    whole = call.own is None or not call.own.checked
    return call.show(thing, call.arguments_by_field() if whole else call.parents_by_field())


def _create(call: Target) -> JsonValue:
    own = call.own
    id = call.id(own) if own else None
    if own and id is not None:
        taken = call.world.find(call.kind, id)
        if taken is not None and call.world.exists(call.kind, taken):
            raise ToolFailure("conflict", f'a {call.kind[1]} with {own.parameter} "{id[:_SHOWN]}" exists')
    meaning = call.interface.meaning(call.arguments)
    key = digest_bytes(orjson.dumps(meaning, option=orjson.OPT_SORT_KEYS))
    thing = call.world.fresh(call.kind, mix(key, salt(call.kind[1])))
    values = {**call.parents_by_field(), **call.values(meaning)}
    call.world.create(call.kind, thing, values, {parent.noun: id for parent, id in call.parents}, id)
    return call.show(thing, NOTHING)


def _update(call: Target) -> JsonValue:
    thing = call.subject()
    call.world.update(call.kind, thing, call.values(call.interface.meaning(call.arguments)))
    return call.show(thing, call.parents_by_field())


def _act(call: Target) -> JsonValue:
    if call.own is None:
        return _create(call)
    thing = call.subject()
    meaning = call.interface.meaning(call.arguments)
    done = f"{call.interface.tool.name} {orjson.dumps(meaning, option=orjson.OPT_SORT_KEYS).decode()}"
    call.world.update(call.kind, thing, {**call.values(meaning), **call.interface.implied}, done)
    return call.show(thing, call.parents_by_field())


def _delete(call: Target) -> JsonValue:
    thing = call.subject()
    shown = call.show(thing, call.parents_by_field())
    call.world.delete(call.kind, thing)
    return shown


def _listed(call: Target) -> JsonValue:
    """Return the list that a call asks for."""
    shown = call.interface.answers.shown
    assert shown is not None
    batch = call.interface.identity.batch
    if batch is not None and batch.parameter in call.arguments:
        return [call.show(thing, NOTHING) for thing in _named(call, batch)]
    roles = call.interface.roles
    asked = call.by_field({name: value for name, value in call.arguments.items() if name not in roles})
    held = {name: value for name, value in asked.items() if name in shown.names}
    found: list[JsonValue] = []
    filters = held.keys() - call.parents_by_field().keys()
    for things, conditions in ((_made(call), held.keys()), (_seeded(call, held), filters)):
        for thing in things:
            fields = call.show(thing, NOTHING)
            assert fields is not None
            if not conditions or all(_equal(fields.get(shown.names[name]), held[name]) for name in conditions):
                found.append(fields)
    return page(found[: call.interface.answers.most], call.arguments, roles)


def _named(call: Target, batch: Reference) -> list[int]:
    """Return the things whose ids are listed in an argument."""
    value = call.arguments[batch.parameter]
    found: list[int] = []
    for id in map(str, value if isinstance(value, list) else [value]):
        thing = call.world.find(call.kind, id)
        if thing is None or not call.world.exists(call.kind, thing):
            raise missing(batch, id)
        found.append(thing)
    return found


def _made(call: Target) -> list[int]:
    """Return the things that the task or a call put into the world, under these parents."""
    return [
        thing
        for thing, record in call.world.members(call.kind)
        if record.made
        and record.exists
        and all(record.parents.get(parent.noun, id) == id for parent, id in call.parents)
    ]


def _seeded(call: Target, held: Mapping[str, JsonValue]) -> list[int]:
    """Return the things that were always there, for these parents, filters and search words."""
    world, kind, roles = call.world, call.kind, call.interface.roles
    sought = {name: value for name, value in call.arguments.items() if roles.get(name) == "search"}
    scope = {**sought, **held, **{parent.noun: id for parent, id in call.parents}}
    key = mix(digest_bytes(orjson.dumps(scope, option=orjson.OPT_SORT_KEYS)), world.space(kind))
    found: list[int] = []
    for index in range(max(_LISTED + (key >> 50) % 2, call.interface.answers.least)):
        thing = pick(mix(key, index))
        record = world.record(kind, thing)
        if thing not in found and (record is None or (record.exists and not record.made)):
            world.recall(kind, thing, {**held, **_titled(call, thing, sought)})
            found.append(thing)
    return found


def _titled(call: Target, thing: int, sought: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a title that shows why a search finds a thing: it holds the words that were searched for."""
    shown = call.interface.answers.shown
    words = next((value for value in sought.values() if isinstance(value, str)), "")
    if shown is None or shown.title is None or not words:
        return {}
    title = (call.show(thing, NOTHING) or {}).get(shown.title)
    if not isinstance(title, str) or words.lower() in title.lower():
        return {}
    return {same(shown.title): f"{words[:_SHOWN].capitalize()} {title.split()[-1].lower()}"}


def _equal(shown: JsonValue, asked: JsonValue) -> bool:
    """Tell whether a field has the value that was asked for; a path spells numbers as text."""
    return shown == asked or str(shown) == str(asked)


_ACTS = {"read": _read, "create": _create, "update": _update, "delete": _delete, "action": _act}

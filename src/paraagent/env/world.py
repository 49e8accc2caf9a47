"""What exists in one simulated world, and what calls have changed about it.

Place in the flow: layer 3; `behave` reads and writes it, the environment snapshots it, the verifier compares it. A
thing is (api, noun, number); see `ids`. The world holds only what differs from the seed: things that the task or a
call put there, changed fields, and what was deleted. Everything else about a thing follows from its number, so
reading changes nothing and a world stays small.

    exists      an identifier is known if it carries this world's check digits, or the task or a write introduced it
    recall      besides, the world recalls under which parents and filters a thing was listed and which plain name it
                was shown under, so that later answers agree; this is no part of the state

Writes copy the one collection they touch, so a snapshot is a copy of two small dicts and stays valid for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

import orjson

from paraagent.env.identity import key_noun
from paraagent.env.ids import MADE, MADE_COUNT, Spaces, digest, number, recognise, salt
from paraagent.env.schemas import same
from paraagent.env.task import Entity
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, JsonValue

Kind = tuple[str, str]
"""`provider/api` and noun."""


@dataclass(frozen=True, slots=True)
class Record:
    """What the world holds about one thing."""

    id: str
    """The identifier it was introduced under; its nine digits if it has none of its own."""
    named: bool
    """True if `id` was chosen by the task or a call."""
    values: Mapping[str, JsonValue]
    """Field values that were set, by `respond.same` spelling."""
    parents: Mapping[str, str]
    """Ids of the things it was made under, by noun."""
    exists: bool = True
    made: bool = True
    """False for a thing that was there from the seed and has been changed."""
    actions: tuple[str, ...] = ()
    """What was done to it besides: tool name and canonical arguments."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A world at one moment; only `World.restore` looks inside."""

    records: dict[Kind, dict[int, Record]]
    names: dict[Kind, dict[str, int]]
    recalled: dict[Kind, dict[int, Mapping[str, JsonValue]]]
    shown_names: dict[Kind, dict[str, int]]


class World:
    """The state of one episode's world."""

    def __init__(self, seed: int, entities: Iterable[Entity] = ()) -> None:
        self.seed = seed
        self._spaces: dict[str, Spaces] = {}
        self._kinds: dict[Kind, int] = {}
        self._records: dict[Kind, dict[int, Record]] = {}
        self._names: dict[Kind, dict[str, int]] = {}
        self._recalled: dict[Kind, dict[int, Mapping[str, JsonValue]]] = {}
        self._shown_names: dict[Kind, dict[str, int]] = {}
        for entity in entities:
            self._introduce(entity)

    def _introduce(self, entity: Entity) -> None:
        kind = entity.api, key_noun(entity.resource)
        thing = recognise(self.space(kind), entity.id)
        if thing is None:
            thing = self.fresh(kind, digest(*kind, entity.id))
            self.name(kind, entity.id, thing)
        self._put(
            kind, thing, Record(entity.id, True, {same(name): value for name, value in entity.value.items()}, {})
        )

    def spaces(self, api: str) -> Spaces:
        """Return what everything in one API's part of the world follows from."""
        spaces = self._spaces.get(api)
        if spaces is None:
            spaces = self._spaces[api] = Spaces(digest("world", self.seed, api))
        return spaces

    def space(self, kind: Kind) -> int:
        """Return the bits that make identifiers of this kind recognisable."""
        space = self._kinds.get(kind)
        if space is None:
            space = self._kinds[kind] = self.spaces(kind[0])[salt(kind[1])]
        return space

    def find(self, kind: Kind, id: str) -> int | None:
        """Return the thing that an identifier names if this world knows it, deleted or not."""
        names = self._names.get(kind)
        thing = names.get(id) if names else None
        if thing is None:
            thing = recognise(self.space(kind), id)
            if thing is not None and thing >= MADE and self.record(kind, thing) is None:
                return None  # not made in this world, or not yet
        if thing is None and (names := self._shown_names.get(kind)):
            thing = names.get(id)
        return thing

    def exists(self, kind: Kind, thing: int) -> bool:
        """Tell whether a known thing has not been deleted."""
        record = self.record(kind, thing)
        return record is None or record.exists

    def record(self, kind: Kind, thing: int) -> Record | None:
        """Return what the world holds about a thing; None if it is as the seed made it."""
        records = self._records.get(kind)
        return records.get(thing) if records else None

    def recalled(self, kind: Kind, thing: int) -> Mapping[str, JsonValue] | None:
        """Return the field values that a list has shown of a thing, if any."""
        recalled = self._recalled.get(kind)
        return recalled.get(thing) if recalled else None

    def members(self, kind: Kind) -> list[tuple[int, Record]]:
        """Return the things of a kind that the world holds a record of, by number."""
        records = self._records.get(kind)
        return sorted(records.items()) if records else []

    def fresh(self, kind: Kind, key: int) -> int:
        """Return the first thing to be made along the sequence of `key` that has not been made.

        Raises:
            ToolFailure: `tool_error` when there are 20,000 of them.
        """
        records = self._records.get(kind, {})
        if len(records) >= MADE_COUNT:
            raise ToolFailure("tool_error", f"no room for another {kind[1]}")
        thing = MADE + key % MADE_COUNT
        while thing in records:
            thing = MADE + (thing + 1) % MADE_COUNT
        return thing

    def name(self, kind: Kind, id: str, thing: int) -> None:
        """Let an identifier that carries no check digits name a thing."""
        self._names[kind] = {**self._names.get(kind, {}), id: thing}

    def create(
        self,
        kind: Kind,
        thing: int,
        values: Mapping[str, JsonValue],
        parents: Mapping[str, str],
        id: str | None = None,
    ) -> None:
        """Put a new thing into the world, under an identifier of the caller's choice if one is given."""
        if id is not None and recognise(self.space(kind), id) != thing:
            self.name(kind, id, thing)
        self._put(kind, thing, Record(id or str(number(self.space(kind), thing)), id is not None, values, parents))

    def update(self, kind: Kind, thing: int, values: Mapping[str, JsonValue], action: str | None = None) -> None:
        """Set fields of a thing, and note what was done to it if it was more than that."""
        old = self.record(kind, thing)
        if old is None or not old.exists:  # what was deleted starts anew
            old = self._seeded(kind, thing)
        actions = (*old.actions, action) if action is not None else old.actions
        self._put(kind, thing, replace(old, values={**old.values, **values}, actions=actions))

    def delete(self, kind: Kind, thing: int) -> None:
        """Take a thing out of the world; its identifiers answer `not_found` from now on."""
        self._put(kind, thing, replace(self.record(kind, thing) or self._seeded(kind, thing), exists=False))

    def recall(self, kind: Kind, thing: int, values: Mapping[str, JsonValue]) -> None:
        """Remember what a list has shown of a thing."""
        if values:
            recalled = self._recalled.setdefault(kind, {})
            recalled[thing] = {**recalled.get(thing, {}), **values}

    def recall_name(self, kind: Kind, thing: int, name: JsonValue) -> None:
        """Remember a plain name that a thing was shown under; the first thing shown under it keeps it."""
        if isinstance(name, str) and name:
            self._shown_names.setdefault(kind, {}).setdefault(name, thing)

    def state(self) -> JsonObject:
        """Return all that differs from the seed as JSON: api, noun, id; deleted things are null."""
        state: JsonObject = {}
        for (api, noun), records in sorted(self._records.items()):
            things: JsonObject = {record.id: _as_json(record) for record in records.values()}
            state.setdefault(api, {})[noun] = things  # type: ignore[call-overload, index]
        return state

    def hash(self) -> str:
        """Return a digest of `state`: equal exactly if two worlds of one seed are, whatever was read."""
        return blake2b(orjson.dumps(self.state(), option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()

    def snapshot(self) -> Snapshot:
        """Return the world as it is now; cheap, since nothing in it is ever changed in place."""
        return Snapshot(
            dict(self._records),
            dict(self._names),
            {kind: dict(things) for kind, things in self._recalled.items()},
            {kind: dict(names) for kind, names in self._shown_names.items()},
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this world; it may be restored any number of times."""
        self._records, self._names = dict(snapshot.records), dict(snapshot.names)
        self._recalled = {kind: dict(things) for kind, things in snapshot.recalled.items()}
        self._shown_names = {kind: dict(names) for kind, names in snapshot.shown_names.items()}

    def _seeded(self, kind: Kind, thing: int) -> Record:
        return Record(str(number(self.space(kind), thing)), False, {}, {}, made=False)

    def _put(self, kind: Kind, thing: int, record: Record) -> None:
        self._records[kind] = {**self._records.get(kind, {}), thing: record}


def _as_json(record: Record) -> JsonValue:
    if not record.exists:
        return None
    parents: JsonObject = dict(record.parents)
    return {"values": dict(record.values), "parents": parents, "actions": list(record.actions)}

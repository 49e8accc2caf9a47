"""How objects of one schema look: compiled once, then a few table look-ups per field.

Place in the flow: layer 3, under `respond`. A thing's fields follow from its number alone, so every tool that shows
it tells the same: the `customer_id` of an order, the `customer` inside it and the customer that is read later agree.

Limits: wide objects are cut to so many properties a level (required ones and identifiers stay), lists to a few items;
next-page tokens and errors are left out; of alternatives the first is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import jsonschema_rs

from paraagent.catalog.names import is_container, noun
from paraagent.env.identity import STRONG, identifier
from paraagent.env.ids import COUNT, FIRST, MASK, ODD, Shape, Spaces, digest, mix, modulus, number, salt, shape
from paraagent.env.pools import pool
from paraagent.env.schemas import count, kind_of, plain, properties, same
from paraagent.env.values import scalar
from paraagent.types import JsonObject, JsonValue

Width = tuple[int, ...]
_TITLES = frozenset({"name", "title", "label", "subject", "headline", "displayname"})
_DEEPEST = 6
MANY = 1_000
"""Most items of a list."""
_ENTRIES = 2
"""How many entries an object has whose keys are free."""
_OMITTED = frozenset({"error", "warning", "next", "cursor", "continuation", "exception", "fault", "marker"})

Make = Callable[[int, Spaces], JsonValue]
"""Makes a value from the 64 bits of its object and the spaces of its world."""


class Shown:
    """How one object schema shows things; compiled."""

    def __init__(self, schema: JsonObject, owner: tuple[str, ...]) -> None:
        self.names = {same(name): name for name in properties(schema)}
        """Every field, by the spelling in which fields and arguments are compared."""
        self._schemas = properties(schema)
        self._checks: dict[str, jsonschema_rs.Draft202012Validator] = {}
        self.template: JsonObject = {}
        self.choices: list[tuple[str, int, Sequence[JsonValue], int]] = []
        self.makes: list[tuple[str, Make]] = []
        self.own: list[tuple[str, str, Shape]] = []
        """The thing's own identifiers: field, last word of its name, form."""
        self.plain_name: str | None = None
        """The field with the thing's name, where that is not its identifier."""
        self.title: str | None = None
        """The field that says in words what the thing is."""
        self.salt = salt("".join(owner))
        self._link = salt("link to " + "".join(owner))

    def fill(self, key: int, world: Spaces) -> JsonObject:
        """Return the fields that 64 bits stand for, without the object's own identifiers."""
        shown = self.template.copy()
        for name, by, values, size in self.choices:
            shown[name] = values[key % by % size]
        for name, make in self.makes:
            shown[name] = make(key, world)
        return shown

    def thing(self, thing: int, world: Spaces) -> JsonObject:
        """Return a thing of this object's kind."""
        space = world[self.salt]
        shown = self.fill(mix(space, thing), world)
        if self.own:
            digits = number(space, thing)
            for name, _, form in self.own:
                shown[name] = form(digits)
        return shown

    def linked(self, key: int, world: Spaces) -> JsonObject:
        """Return the thing that an object with these bits refers to."""
        return self.thing(FIRST + ((key ^ self._link) * ODD & MASK) % COUNT, world)

    def overlay(self, shown: JsonObject, values: Mapping[str, JsonValue]) -> None:
        """Write known values, keyed by `same`, over the fields of that name wherever the schema allows."""
        names = self.names
        for spelling, value in values.items():
            if spelling in names:
                name = names[spelling]
                if type(value) is dict:
                    value = _merged(shown.get(name), value)
                if self.allows(name, value):
                    shown[name] = value

    def choices_of(self, spelling: str) -> Sequence[JsonValue]:
        """Return the values that a field's schema lists."""
        choices = self._schemas[self.names[spelling]].get("enum") if spelling in self.names else None
        return choices if isinstance(choices, list) else ()

    def name_it(self, shown: JsonObject, id: JsonValue, word: str) -> None:
        """Show a thing under the identifier it was asked for, in the field for identifiers that end in that word."""
        named = next((name for name, last, _ in self.own if last == word), None)
        name = named or (self.plain_name if word == "name" else self.own[0][0] if self.own else None)
        if name is None or shown.get(name) == id:
            return
        text = str(id)
        for value in (id, text, int(text) if text.isdecimal() and len(text) < 18 else None):
            if value is not None and self.allows(name, value):
                shown[name] = value
                return

    def allows(self, name: str, value: JsonValue) -> bool:
        """Tell whether a field may have this value."""
        check = self._checks.get(name)
        if check is None:
            check = self._checks[name] = jsonschema_rs.Draft202012Validator(self._schemas[name])
        return check.is_valid(value)


class Compiler:
    """Turns schemas into functions.

    Args:
        width: most properties of an object, by how deep it lies; deeper ones have as many as the last. With none,
            all is left out that the schemas do not require.
    """

    def __init__(self, width: Width) -> None:
        self._width = width

    def value(
        self, schema: JsonValue, name: str, owner: tuple[str, ...], depth: int, hole: tuple[str, ...] | None = None
    ) -> Make:
        """Return how to make a value; at the end of `hole` there is None, to be replaced."""
        if hole == () or not isinstance(schema, dict):
            return lambda key, world: None
        schema = plain(schema)
        kind = kind_of(schema)
        if kind == "object" and "enum" not in schema:
            shown = self.shown(schema, owner, depth, hole)
            return shown.linked if shown.own else shown.fill
        if kind == "array" and "enum" not in schema:
            return self._array(schema, name, owner, depth)
        values = scalar(name, schema, kind, owner) or (None,)
        by, size = modulus(same(name)), len(values)
        return lambda key, world: values[key % by % size]

    def shown(
        self, schema: JsonObject, owner: tuple[str, ...], depth: int, hole: tuple[str, ...] | None = None
    ) -> Shown:
        """Compile an object; `owner` is the noun that a bare `id` in it belongs to."""
        schema = plain(schema)
        shown = Shown(schema, owner)
        extra = schema.get("additionalProperties")
        if not shown.names and isinstance(extra, dict) and extra and self._width and depth <= _DEEPEST:
            make = self.value(extra, "", owner, depth + 1)
            shown.makes += [(word, _mixed(make, salt(word))) for word in pool("word")[:_ENTRIES]]
        for name in self._chosen(schema, owner, depth, hole):
            child = plain(properties(schema)[name])
            if hole and name == hole[0]:
                shown.makes.append((name, self.value(child, name, _below_noun(name, owner), depth + 1, hole[1:])))
            elif not self._field(shown, name, child, owner, depth):
                continue
            shown.template[name] = None
        shown.title = next((name for name, *_ in shown.choices if same(name) in _TITLES), None)
        return shown

    def _field(self, shown: Shown, name: str, child: JsonObject, owner: tuple[str, ...], depth: int) -> bool:
        """Add one field to an object; False if no value for it can be found."""
        kind = kind_of(child) if "enum" not in child else "enum"
        found = identifier(name, owner)
        if found and noun(name) == ("name",) and _has_id(shown, owner):
            shown.plain_name, found = name, None  # what has an id needs no unique name
        form = shape(child, *found) if found and kind in ("string", "integer") else None
        if found and form and found[0] == "".join(owner):
            shown.own.append((name, found[1], form))
        elif found and form:
            shown.makes.append((name, _reference(found[0], form)))
        elif kind == "object":
            nested = self.shown(child, _below_noun(name, owner), depth + 1)
            shown.makes.append((name, nested.linked if nested.own else _mixed(nested.fill, salt(same(name)))))
        elif kind == "array":
            array = self._array(child, name, _below_noun(name, owner), depth + 1)
            shown.makes.append((name, _mixed(array, salt(same(name)))))
        else:
            values = scalar(name, child, kind, owner)
            if not values:
                return False
            shown.choices.append((name, modulus(same(name)), values, len(values)))
        return True

    def _array(self, schema: JsonObject, name: str, owner: tuple[str, ...], depth: int) -> Make:
        items = schema.get("items")
        low, most = count(schema, 1 if self._width else 0, MANY)
        if not isinstance(items, dict) or not items or depth > _DEEPEST:
            return lambda key, world: cast(JsonValue, [None] * low)
        found, item = identifier(name, ()), plain(items)
        high = min(most, low + (kind_of(item) not in ("object", "array")))
        form = shape(item, *found) if found and kind_of(item) in ("string", "integer") else None
        make = _reference(found[0], form) if found and form else self.value(items, name, owner, depth)
        unique = schema.get("uniqueItems") is True
        seeds = [digest(name, index) for index in range(high)]

        def array(key: int, world: Spaces) -> JsonValue:
            size = low + (key >> 40) % (high - low + 1)
            made = [make((key ^ by) * ODD & MASK, world) for by in seeds[:size]]
            return [value for index, value in enumerate(made) if value not in made[:index]] if unique else made

        return array

    def _chosen(
        self, schema: JsonObject, owner: tuple[str, ...], depth: int, hole: tuple[str, ...] | None
    ) -> list[str]:
        """Return the properties to show: required ones, identifiers, then others while there is room."""
        schemas = properties(schema)
        required = schema.get("required")
        must = set(cast(list[str], required)) if isinstance(required, list) else set()
        must |= set(hole[:1]) if hole else set()
        if depth > _DEEPEST or not self._width:
            return [name for name in schemas if name in must]
        wanted = [name for name in schemas if name in must or not _OMITTED.intersection(noun(name))]
        wanted.sort(key=lambda name: (name not in must, identifier(name, owner) is None))
        width = self._width[min(depth, len(self._width) - 1)]
        least = sum(1 for name in wanted if name in must or identifier(name, owner))
        kept = set(wanted[: max(width, least)])
        return [name for name in schemas if name in kept]


def _reference(target: str, form: Shape) -> Make:
    """Return how an object names the thing of another kind that it refers to."""
    by, link = salt(target), salt("link to " + target)

    def refer(key: int, world: Spaces) -> JsonValue:
        return form(number(world[by], FIRST + ((key ^ link) * ODD & MASK) % COUNT))

    return refer


def _has_id(shown: Shown, owner: tuple[str, ...]) -> bool:
    """Tell whether an object names itself by an identifier that the service makes."""
    own = "".join(owner)
    found = (identifier(name, owner) for name in shown.names.values())
    return any(one is not None and one[0] == own and one[1] in STRONG for one in found)


def _mixed(make: Make, by: int) -> Make:
    return lambda key, world: make((key ^ by) * ODD & MASK, world)


def _below_noun(name: str, owner: tuple[str, ...]) -> tuple[str, ...]:
    """Return the noun that a bare `id` belongs to inside the field `name`."""
    return owner if is_container(name) else noun(name)


def _merged(old: JsonValue, new: JsonValue) -> JsonValue:
    """Return `new`, over `old` where both are objects."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{name: _merged(old.get(name), value) for name, value in new.items()}}
    return new

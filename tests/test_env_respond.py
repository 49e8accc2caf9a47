"""Answers and their values: valid for any schema, the same in every process, plausible where a name says how."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import jsonschema_rs
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraagent.catalog.store import Catalog
from paraagent.env import patterns
from paraagent.env.identity import identity
from paraagent.env.ids import Spaces, number, recognise, shape
from paraagent.env.interface import Interface
from paraagent.env.pools import pool
from paraagent.env.respond import example
from paraagent.env.values import scalar
from paraagent.types import JsonObject, Tool


def tool(returns: JsonObject, **fields: Any) -> Tool:
    return Tool("t", "d", {"type": "object"}, returns, fields.pop("effect", "read"), **fields)


def test_every_tool_of_the_catalog_answers_validly(catalog: Catalog) -> None:
    for one in catalog:
        interface = Interface(one)
        for key in range(20):
            value = interface.answers.sample(key * 7919)
            error = next(iter(interface.returns.iter_errors(value)), None)
            assert error is None, (one.name, str(error))


STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "format": st.sampled_from(["date-time", "date", "uuid", "email", "uri", "ipv4", "byte", "what-is-this"]),
        "minLength": st.integers(0, 12),
        "maxLength": st.integers(12, 40),
    },
)
ENUMS = st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(st.text(), min_size=1, unique=True)})
PATTERNS = st.fixed_dictionaries(
    {"type": st.just("string"), "pattern": st.sampled_from(["^[a-z]{2,5}$", r"^\d+-\d+$", "^(a|b)c*$", "x", "^$"])}
)
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number", ["integer", "null"]])},
    optional={
        "minimum": st.integers(-50, 0),
        "maximum": st.integers(10, 2**33),
        "exclusiveMaximum": st.integers(11, 99),
        "multipleOf": st.sampled_from([1, 3, 5, 0.5]),
    },
)
NAMES = st.sampled_from(
    ["id", "name", "order_id", "email", "created_at", "total", "items", "status", "next_token", "key"]
)


def nested(children: st.SearchStrategy[JsonObject]) -> st.SearchStrategy[JsonObject]:
    objects = st.dictionaries(NAMES, children, max_size=5).flatmap(
        lambda found: st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.just(found),
                "required": st.lists(st.sampled_from(sorted(found)), unique=True) if found else st.just([]),
            }
        )
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array"), "items": children},
        optional={"minItems": st.integers(0, 3), "maxItems": st.integers(3, 5)},
    )
    return st.one_of(objects, arrays, st.fixed_dictionaries({"anyOf": st.lists(children, min_size=1, max_size=2)}))


SCHEMAS = st.recursive(
    st.one_of(
        STRINGS, ENUMS, PATTERNS, NUMBERS, st.just({"type": "boolean"}), st.just({"type": "null"}), st.just({})
    ),
    nested,
    max_leaves=12,
)


@settings(max_examples=150)
@given(SCHEMAS, st.integers(0, 2**64 - 1))
def test_any_schema_is_answered_validly(returns: JsonObject, key: int) -> None:
    interface = Interface(tool(returns, resource="order", path="/orders", provider="x.example", api="x"))
    value = interface.answers.sample(key)
    assert interface.returns.is_valid(value), (returns, value)
    assert interface.answers.sample(key) == value


@settings(max_examples=100)
@given(SCHEMAS)
def test_examples_for_arguments_are_valid(schema: JsonObject) -> None:
    assert jsonschema_rs.is_valid(schema, example("limit", schema))


_SCRIPT = """
import orjson, sys
from pathlib import Path
from paraagent.catalog.store import Catalog
from paraagent.env.interface import Interface
with Catalog.open(Path(sys.argv[1])) as catalog:
    for tool in list(catalog)[::3]:
        sys.stdout.buffer.write(orjson.dumps([Interface(tool).answers.sample(key * 7919) for key in range(4)]))
"""


def test_answers_are_the_same_bytes_in_every_process(catalog: Catalog) -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(catalog.path)],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) > 10_000
    here = [
        orjson.dumps([Interface(one).answers.sample(key * 7919) for key in range(4)]) for one in list(catalog)[::3]
    ]
    assert b"".join(here) == runs[0]


@pytest.mark.parametrize(
    ("name", "schema", "kind"),
    [
        ("email", {}, "email"),
        ("contactPhoneNumber", {}, "phone"),
        ("homepage_url", {}, "url"),
        ("x", {"format": "date-time"}, "moment"),
        ("countryCode", {}, "country_code"),
        ("shipping_city", {}, "city"),
    ],
)
def test_a_fields_name_or_format_says_what_it_is(name: str, schema: JsonObject, kind: str) -> None:
    assert scalar(name, schema, "string", ()) == pool(kind)


def test_a_name_is_a_persons_only_where_people_have_it() -> None:
    assert scalar("name", {}, "string", ("customer",)) == pool("person")
    assert scalar("name", {}, "string", ("project",)) == pool("name")


def test_numbers_follow_names_and_bounds() -> None:
    assert all(-60 <= value <= 70 for value in scalar("latitude", {}, "number", ()))
    assert list(scalar("rating", {"maximum": 3}, "integer", ())) == [1, 2, 3]
    assert list(scalar("n", {"minimum": 100, "maximum": 101}, "integer", ())) == [100, 101]
    assert not scalar("n", {"minimum": 2, "maximum": 1}, "integer", ())
    assert set(scalar("n", {"multipleOf": 7, "maximum": 21}, "integer", ())) == {7, 14, 21}


def test_a_field_that_nothing_fits_is_left_out() -> None:
    returns: JsonObject = {
        "type": "object",
        "properties": {"code": {"type": "string", "pattern": "/^[0-9]$/i"}, "city": {"type": "string"}},
    }
    assert set(Interface(tool(returns)).answers.sample(1)) == {"city"}


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": "string"}, "ord_"),
        ({"type": "string", "examples": ["or-771"]}, "or-"),
        ({"type": "string", "pattern": "^i-[0-9a-f]{17}$"}, "i-"),
        ({"type": "string", "pattern": "^projects/[^/]+/topics/[^/]+$"}, "projects/"),
        ({"type": "string", "format": "uuid"}, ""),
        ({"type": "integer", "format": "int32"}, ""),
        ({"type": "string", "maxLength": 9}, ""),
    ],
)
def test_identifiers_take_the_form_that_the_schema_asks_for(schema: JsonObject, form: str) -> None:
    made = shape(schema, "order", "id")
    assert made is not None
    id = made(number(5, 45678))
    assert str(id).startswith(form)
    assert jsonschema_rs.is_valid(schema, id)
    assert recognise(5, str(id)) == 45678
    assert recognise(6, str(id)) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "enum": ["a"]},
        {"type": "string", "maxLength": 8},
        {"type": "string", "format": "date"},
        {"type": "string", "pattern": "^[a-z]+$"},
        {"type": "integer", "maximum": 99},
        {"type": "boolean"},
    ],
)
def test_no_identifier_is_forced_into_a_field_without_room(schema: JsonObject) -> None:
    assert shape(schema, "order", "id") is None


@pytest.mark.parametrize("pattern", ["[", "(?P<a", "x{99999999999}", "(a+)+$", "\\p{L}+", "((((((((((a))))))))))*"])
def test_hostile_patterns_are_survived(pattern: str) -> None:
    text = patterns.text(pattern, 1)
    assert text is None or isinstance(text, str)


def test_total_counts_what_is_listed() -> None:
    item: JsonObject = {"type": "object", "properties": {"id": {"type": "string"}}}
    returns: JsonObject = {
        "type": "object",
        "properties": {"total": {"type": "integer"}, "data": {"type": "array", "items": item}},
    }
    answers = Interface(tool(returns, resource="order")).answers
    assert answers.many
    assert answers.write(1, Spaces(1), [{"id": "a"}, {"id": "b"}, {"id": "c"}])["total"] == 3


@pytest.mark.parametrize(
    ("name", "own", "parents", "many"),
    [
        ("pinecart_get_order", "order_id", [], False),
        ("pinecart_list_orders", None, [], True),
        ("pinecart_list_refunds", None, ["order_id"], True),
        ("pinecart_create_order", None, ["customer_id"], False),
        ("pinecart_create_coupon", "code", [], False),
        ("pinecart_cancel_order", "order_id", [], False),
        ("ledgerline_accounts_create", None, [], False),
        ("deskly_comments_create", None, ["ticket_id"], False),
    ],
)
def test_identity_is_read_off_the_interface(
    catalog: Catalog, name: str, own: str | None, parents: list[str], many: bool
) -> None:
    one = catalog.get(name)
    assert one is not None
    found = identity(one)
    assert (found.own.parameter if found.own else None) == own
    assert [parent.parameter for parent in found.parents] == parents
    assert found.many == many

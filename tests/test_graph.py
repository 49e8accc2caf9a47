from __future__ import annotations

import pytest

from paraagent.catalog.graph import Edge, mine
from paraagent.catalog.names import alike, in_path, noun, parameter_identity, path_run, qualified, singular, words
from paraagent.catalog.store import Catalog
from paraagent.types import EffectKind, JsonObject, JsonValue, Tool

ORDER: JsonObject = {"type": "object", "properties": {"id": {"type": "string"}, "status": {"type": "string"}}}


def tool(
    name: str,
    path: str,
    resource: str,
    *,
    effect: EffectKind = "read",
    needs: JsonObject | None = None,
    takes: JsonObject | None = None,
    returns: JsonObject | None = None,
) -> Tool:
    parameters: JsonObject = {
        "type": "object",
        "properties": {**(needs or {}), **(takes or {})},
        "required": list(needs or {}),
    }
    return Tool(name, "A tool.", parameters, returns or {"type": "object"}, effect, resource, path=path)


def listing(item: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {"items": {"type": "array", "items": item}}}


CREATE = tool("create_order", "/orders", "order", effect="create", returns=ORDER)
LIST = tool("list_orders", "/orders", "order", returns=listing(ORDER))
GET = tool("get_order", "/orders/{id}", "order", needs={"id": {"type": "string"}}, returns=ORDER)


def test_bare_ids_take_the_noun_before_them() -> None:
    assert mine([CREATE, LIST, GET]) == [
        Edge("create_order", "get_order", "id", "id", "create"),
        Edge("list_orders", "get_order", "id", "items.0.id", "list"),
    ]


def test_foreign_keys_lead_to_other_resources() -> None:
    order: JsonObject = {"type": "object", "properties": {"customerId": {"type": "string"}}}
    get = tool("get_order", "/orders/{id}", "order", needs={"id": {"type": "string"}}, returns=order)
    customer = tool("get_customer", "/customers/{customer_id}", "customer", needs={"customer_id": {"type": "string"}})
    assert mine([get, customer]) == [Edge("get_order", "get_customer", "customer_id", "customerId", "get")]


def test_nested_objects_qualify_their_own_ids() -> None:
    order: JsonObject = {"type": "object", "properties": {"customer": ORDER}}
    get = tool("get_order", "/orders/{id}", "order", needs={"id": {"type": "string"}}, returns=order)
    customer = tool("get_customer", "/customers/{id}", "customer", needs={"id": {"type": "string"}})
    assert [(edge.consumer, edge.path) for edge in mine([get, customer])] == [("get_customer", "customer.id")]


def test_types_must_match() -> None:
    get = tool("get_order", "/orders/{id}", "order", needs={"id": {"type": "integer"}})
    assert mine([CREATE, LIST, get]) == []


def test_producers_that_ask_for_the_identifier_are_left_out() -> None:
    lines = tool("list_lines", "/orders/{id}/lines", "line", needs={"id": {"type": "string"}})
    assert not [edge for edge in mine([GET, lines]) if edge.producer == "get_order"]
    echoing = tool(
        "create_order", "/orders", "order", effect="create", takes={"id": {"type": "string"}}, returns=ORDER
    )
    assert mine([echoing, GET]) == []


@pytest.mark.parametrize("name", ["page_id", "session_token_id", "api_key", "next_id"])
def test_paging_and_credentials_are_no_identifiers(name: str) -> None:
    source = tool("a", "/things", "thing", returns={"type": "object", "properties": {name: {"type": "string"}}})
    assert mine([source, tool("b", "/things/{x}", "thing", needs={name: {"type": "string"}})]) == []


@pytest.mark.parametrize("name", ["status", "currency_code", "first_name", "amount", "revision_id"])
def test_properties_are_no_identifiers(name: str) -> None:
    source = tool("a", "/things", "thing", returns={"type": "object", "properties": {name: {"type": "string"}}})
    assert mine([source, tool("b", "/other", "other", needs={name: {"type": "string"}})]) == []


def test_a_create_call_invents_its_own_name() -> None:
    named: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}}
    source = tool("list_projects", "/projects", "project", returns=listing(named))
    create = tool("create_project", "/projects", "project", effect="create", needs={"name": {"type": "string"}})
    delete = tool("delete", "/projects/{name}", "project", effect="delete", needs={"name": {"type": "string"}})
    assert [edge.consumer for edge in mine([source, create, delete])] == ["delete"]


def test_paths_that_end_in_the_same_noun_may_mean_two_things() -> None:
    vcd = tool("create_vcd_cluster", "/vcd/cluster", "cluster", effect="create", returns=ORDER)
    cluster = tool("get_cluster", "/cluster/{id}", "cluster", needs={"id": {"type": "string"}})
    other = [tool(f"t{i}", f"/t{i}", "t") for i in range(5)]
    assert mine([vcd, cluster, *other]) == []
    scoped = tool("create_user_order", "/users/{user_id}/orders", "order", effect="create", returns=ORDER)
    assert len(mine([scoped, GET])) == 1


def test_dates_choices_and_free_form_maps_are_no_sources() -> None:
    fields: JsonObject = {
        "id": {"type": "string", "enum": ["a", "b"]},
        "order_id": {"type": "string", "format": "date-time"},
        "metadata": {"type": "object", "properties": {"order_id": {"type": "string"}}},
    }
    source = tool("read", "/orders", "order", returns={"type": "object", "properties": fields})
    assert mine([source, GET]) == []


def test_nothing_comes_from_nothing() -> None:
    assert mine([]) == []
    assert mine([tool("odd", "", "", returns={"properties": "no schema"})]) == []


def test_edges_of_the_fixture_catalog_hold(catalog: Catalog) -> None:
    count = 0
    for provider, api in catalog.apis():
        tools = {found.name: found for found in catalog.by_api(provider, api)}
        edges = mine(list(tools.values()))
        assert edges == mine(list(tools.values()))
        for edge in edges:
            required = tools[edge.consumer].parameters["required"]
            assert isinstance(required, list)
            assert edge.parameter in required
            assert _at(tools[edge.producer].returns, edge.path)["type"] in ("string", "integer", "number")
            assert edge.producer != edge.consumer
            assert (edge.kind == "list") == (".0." in f".{edge.path}")
        count += len(edges)
    assert count > 100


def _at(schema: JsonValue, path: str) -> JsonObject:
    for step in path.split("."):
        assert isinstance(schema, dict)
        found = schema.get("items") if step == "0" else schema["properties"]
        schema = found if step == "0" else found[step]  # type: ignore[index, call-overload]
    assert isinstance(schema, dict)
    return schema


@pytest.mark.parametrize(
    ("name", "parent", "identity"),
    [
        ("orderId", (), "orderid"),
        ("order_id", ("line",), "orderid"),
        ("id", ("order",), "orderid"),
        ("ID", ("order",), "orderid"),
        ("identifier", ("order",), "orderid"),
        ("public_id", ("order",), "orderpublicid"),
        ("status", ("order",), "status"),
    ],
)
def test_qualified(name: str, parent: tuple[str, ...], identity: str) -> None:
    assert qualified(name, parent) == identity


def test_names() -> None:
    assert words("GetCustomersByID") == ("get", "customers", "by", "id")
    assert noun("purchaseOrders") == ("purchase", "order")
    plurals = ["orders", "statuses", "addresses", "boxes", "categories", "status", "news", "people", "caches", "bus"]
    singulars = ["order", "status", "address", "box", "category", "status", "news", "person", "cache", "bus"]
    assert [singular(word) for word in plurals] == singulars
    assert path_run("/v1/orders/{id}/line-items/{item}", "item") == (("line", "item"),)
    assert in_path("/v1/{+name}", "name")
    assert not in_path("/v1/{names}", "name")
    assert parameter_identity(GET, "id") == "orderid"


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        ("orderId", "id", True),
        ("id", "order_id", True),
        ("projectIdOrKey", "id", True),
        ("due", "due_date", True),
        ("cursor", "nextCursor", True),
        ("order_identifier", "id", True),
        ("orders", "order", True),
        ("order_id", "customer_id", False),
        ("valid", "id", False),
        ("limit", "id", False),
        ("", "id", False),
        ("", "", False),
    ],
)
def test_names_that_may_be_those_of_one_thing(one: str, other: str, is_so: bool) -> None:
    assert alike(one, other) is is_so
    assert alike(other, one) is is_so

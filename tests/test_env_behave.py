"""What calls do to the world and what they answer, through the interfaces of the fixture catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paraagent.catalog.store import Catalog
from paraagent.env import behave
from paraagent.env.effects import effects as declared
from paraagent.env.interface import Interface, Interfaces
from paraagent.env.task import Entity
from paraagent.env.world import World
from paraagent.errors import ToolFailure
from paraagent.types import Effects, JsonObject, Tool

Caller = Callable[..., Any]


@pytest.fixture(scope="module")
def interfaces(catalog: Catalog) -> Interfaces:
    return Interfaces(catalog.get)


@pytest.fixture
def call(interfaces: Interfaces) -> Caller:
    """Calls a tool in a world of its own, or in the `world` given."""
    own = World(7)

    def run(name: str, /, world: World = own, **arguments: Any) -> Any:
        interface = interfaces.get(name)
        assert interface is not None
        return behave.answer(world, interface, arguments, interface.arguments.check(arguments))

    return run


@pytest.fixture(scope="module")
def shop(catalog: Catalog) -> str:
    tool = catalog.get("pinecart_get_customer")
    assert tool is not None
    return f"{tool.provider}/{tool.api}"


def failure(call: Caller, name: str, /, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(ToolFailure) as caught:
        call(name, **arguments)
    return caught.value.kind, str(caught.value)


def test_a_thing_lives_from_create_to_delete(call: Caller) -> None:
    made = call("pinecart_create_customer", email="ann@example.org", name="Ann")
    assert (made["email"], made["name"]) == ("ann@example.org", "Ann")
    assert call("pinecart_get_customer", customer_id=made["id"]) == made
    changed = call("pinecart_update_customer", customer_id=made["id"], name="Anna")
    assert changed == {**made, "name": "Anna"}
    assert call("pinecart_get_customer", customer_id=made["id"]) == changed
    assert changed in call("pinecart_list_customers")["data"]
    call("pinecart_delete_customer", customer_id=made["id"])
    assert failure(call, "pinecart_get_customer", customer_id=made["id"])[0] == "not_found"
    assert failure(call, "pinecart_update_customer", customer_id=made["id"], name="A")[0] == "not_found"
    assert made["id"] not in [one["id"] for one in call("pinecart_list_customers")["data"]]


def test_what_a_list_shows_can_be_read_and_agrees(call: Caller) -> None:
    listed = call("pinecart_list_orders")["data"]
    assert len(listed) >= 2
    assert len({order["id"] for order in listed}) == len(listed)
    for order in listed:
        assert call("pinecart_get_order", order_id=order["id"]) == order


def test_ids_inside_answers_lead_on(call: Caller) -> None:
    order = call("pinecart_list_orders")["data"][0]
    customer = call("pinecart_get_customer", customer_id=order["customer_id"])
    assert customer["id"] == order["customer_id"]
    product = order["items"][0]["product_id"]
    assert call("pinecart_get_product", product_id=product)["id"] == product


def test_a_filter_holds_for_the_list_and_for_later_reads(call: Caller) -> None:
    orders = call("pinecart_list_orders", status="shipped")["data"]
    assert orders
    assert {order["status"] for order in orders} == {"shipped"}
    assert {call("pinecart_get_order", order_id=order["id"])["status"] for order in orders} == {"shipped"}
    customer = call("pinecart_list_customers")["data"][0]["id"]
    theirs = call("pinecart_list_orders", customer_id=customer)["data"]
    assert {call("pinecart_get_order", order_id=order["id"])["customer_id"] for order in theirs} == {customer}


def test_what_a_search_finds_speaks_of_what_was_sought(call: Caller) -> None:
    found = call("pinecart_search_products", query="winter boots")["results"]
    assert found
    assert all("winter boots" in product["title"].lower() for product in found)
    assert call("pinecart_get_product", product_id=found[0]["id"])["title"] == found[0]["title"]
    assert call("pinecart_search_products", query="desk")["results"] != found


def test_a_change_takes_a_thing_out_of_a_filtered_list(call: Caller) -> None:
    order = call("pinecart_list_orders", status="paid")["data"][0]
    call("pinecart_cancel_order", order_id=order["id"])
    assert call("pinecart_get_order", order_id=order["id"])["status"] == "cancelled"
    assert order["id"] not in [one["id"] for one in call("pinecart_list_orders", status="paid")["data"]]


def test_what_is_made_under_a_parent_is_listed_there_only(call: Caller) -> None:
    first, second = (order["id"] for order in call("pinecart_list_orders")["data"][:2])
    refund = call("pinecart_create_refund", order_id=first, amount=5)
    assert refund["id"] in [one["id"] for one in call("pinecart_list_refunds", order_id=first)["refunds"]]
    assert refund["id"] not in [one["id"] for one in call("pinecart_list_refunds", order_id=second)["refunds"]]


def test_pages_of_a_list(call: Caller) -> None:
    everything = call("pinecart_list_orders")["data"]
    assert call("pinecart_list_orders", limit=1)["data"] == everything[:1]
    assert call("pinecart_list_orders", limit=100)["data"] == everything


def test_an_unknown_id_is_not_found_and_named(call: Caller) -> None:
    kind, message = failure(call, "pinecart_get_customer", customer_id="cus_42")
    assert kind == "not_found"
    assert "customer_id" in message
    assert "cus_42" in message
    assert failure(call, "pinecart_delete_product", product_id="pro_123456789")[0] == "not_found"


def test_an_unknown_parent_is_not_found(call: Caller) -> None:
    assert "order" in failure(call, "pinecart_list_refunds", order_id="ord_1")[1]
    assert failure(call, "deskly_comments_create", ticket_id=12, body="Hello")[0] == "not_found"


def test_an_id_of_another_kind_is_not_found(call: Caller) -> None:
    order = call("pinecart_list_orders")["data"][0]
    assert failure(call, "pinecart_get_order", order_id=order["customer_id"])[0] == "not_found"


def test_the_tasks_entities_exist_with_their_values(call: Caller, shop: str) -> None:
    world = World(7, [Entity(shop, "customer", "cus_8f31", {"email": "kim@example.org", "nonsense": 1})])
    found = call("pinecart_get_customer", world=world, customer_id="cus_8f31")
    assert found["id"] == "cus_8f31"
    assert found["email"] == "kim@example.org"
    assert "nonsense" not in found
    assert found in call("pinecart_list_customers", world=world)["data"]
    assert failure(call, "pinecart_get_customer", customer_id="cus_8f31")[0] == "not_found"  # in another world


def test_a_chosen_id_that_is_taken_is_a_conflict(call: Caller) -> None:
    call("pinecart_create_coupon", code="SAVE10", percent_off=10)
    kind, message = failure(call, "pinecart_create_coupon", code="SAVE10", percent_off=20)
    assert kind == "conflict"
    assert "SAVE10" in message
    call("pinecart_delete_coupon", code="SAVE10")
    assert call("pinecart_create_coupon", code="SAVE10", percent_off=20)["percent_off"] == 20


def test_equal_creates_make_different_things(call: Caller) -> None:
    ids = {call("pinecart_create_customer", email="a@example.org", name="A")["id"] for _ in range(5)}
    assert len(ids) == 5


def test_ids_of_new_things_do_not_depend_on_the_order_of_calls(call: Caller) -> None:
    def play(names: list[str]) -> tuple[dict[str, Any], str]:
        world = World(3)
        made = {
            name: call("pinecart_create_customer", world, email=f"{name}@example.org", name=name) for name in names
        }
        return made, world.hash()

    forward, one = play(["ann", "ben", "cem"])
    backward, two = play(["cem", "ben", "ann"])
    assert forward == backward
    assert one == two


def test_what_means_the_same_leaves_the_same_state(call: Caller, interfaces: Interfaces) -> None:
    def state(**arguments: Any) -> str:
        world = World(3)
        call("pinecart_create_product", world, title="Desk", currency="EUR", **arguments)
        return world.hash()

    assert state(price=10) == state(price=10.0)
    assert state(price=10) != state(price=11)
    interface = interfaces.get("pinecart_list_orders")
    assert interface is not None
    assert interface.meaning({"limit": 20, "status": "paid"}) == {"status": "paid"}  # 20 is the default


def test_reads_leave_no_trace_in_the_state(call: Caller) -> None:
    world = World(5)
    before = world.hash()
    order = call("pinecart_list_orders", world, status="paid")["data"][0]
    call("pinecart_get_order", world, order_id=order["id"])
    call("pinecart_search_products", world, query="boots")
    assert world.hash() == before
    call("pinecart_cancel_order", world, order_id=order["id"])
    assert world.hash() != before


def test_every_action_shows_in_the_state(call: Caller) -> None:
    world = World(5)
    order = call("pinecart_list_orders", world)["data"][0]["id"]
    states = {world.hash()}
    for _ in range(3):
        call("pinecart_cancel_order", world, order_id=order)
        states.add(world.hash())
    assert len(states) == 4


def test_natural_keys_need_not_exist_and_are_echoed(call: Caller) -> None:
    euro, dollar = call("ledgerline_rates_get", base="EUR"), call("ledgerline_rates_get", base="USD")
    assert (euro["base"], dollar["base"]) == ("EUR", "USD")
    assert euro["rates"] != dollar["rates"]
    assert call("ledgerline_rates_get", base="EUR") == euro
    assert call("ledgerline_rates_get", base="EUR", date="2026-01-31")["date"] == "2026-01-31"


def test_another_seed_is_another_world(call: Caller) -> None:
    one, two = (call("pinecart_list_customers", World(seed))["data"] for seed in (1, 2))
    assert {c["id"] for c in one}.isdisjoint(c["id"] for c in two)
    assert failure(call, "pinecart_get_customer", world=World(2), customer_id=one[0]["id"])[0] == "not_found"


def conflict(one: Effects, two: Effects) -> bool:
    def covers(a: str, b: str) -> bool:
        return a == b or a.startswith(b + "/") or b.startswith(a + "/")

    def meet(left: frozenset[str], right: frozenset[str]) -> bool:
        return any(covers(a, b) for a in left for b in right)

    return meet(one.writes, two.writes) or meet(one.writes, two.reads) or meet(two.writes, one.reads)


def test_effects_conflict_where_answers_could_differ(call: Caller, interfaces: Interfaces) -> None:
    world = World(7)
    first, second = (one["id"] for one in call("pinecart_list_customers", world)["data"][:2])

    def effects(name: str, /, **arguments: Any) -> Effects:
        interface = interfaces.get(name)
        assert interface is not None
        return declared(world, interface, arguments)

    get = effects("pinecart_get_customer", customer_id=first)
    update = effects("pinecart_update_customer", customer_id=first, name="A")
    delete = effects("pinecart_delete_customer", customer_id=first)
    listing = effects("pinecart_list_customers")
    orders = effects("pinecart_list_orders", customer_id=first)
    ann = effects("pinecart_create_customer", email="ann@example.org", name="Ann")
    ben = effects("pinecart_create_customer", email="ben@example.org", name="Ben")
    linked = effects("pinecart_update_customer", name="A")  # its id comes from another call
    other = effects("pinecart_get_customer", customer_id=second)
    order = effects("pinecart_create_order", customer_id=first, items=[])
    assert get.read_only
    assert listing.read_only
    assert not update.read_only
    for one, two in [(get, update), (get, delete), (listing, update), (listing, ann), (linked, get), (delete, order)]:
        assert conflict(one, two)
    for one, two in [(ann, ben), (get, other), (update, other), (ann, get), (orders, ann), (get, listing)]:
        assert not conflict(one, two)


TEXT: JsonObject = {"type": "string"}


def made_up(effect: Any, path: str, parameters: list[str], shown: list[str], resource: str = "queue") -> Interface:
    """Return the interface of a tool that takes and shows some text fields."""
    takes: JsonObject = {"type": "object", "properties": dict.fromkeys(parameters, TEXT)}
    gives: JsonObject = {"type": "object", "properties": dict.fromkeys(shown, TEXT)}
    return Interface(Tool("t", "d", takes, gives, effect, resource, "x.example", "x", path=path))


def use(world: World, interface: Interface, /, **arguments: Any) -> Any:
    return behave.answer(world, interface, arguments, interface.arguments.check(arguments))


def test_a_thing_can_be_found_by_the_name_it_was_given() -> None:
    world = World(1)
    for shown in (["name"], ["id", "name"]):
        create = made_up("create", "/queues", ["name"], shown)
        read = made_up("read", "/queues/{name}", ["name"], shown)
        name = f"mine-{len(shown)}"
        made = use(world, create, name=name)
        assert made["name"] == name
        assert use(world, read, name=name) == made


def test_settings_without_an_id_are_kept_where_they_lie() -> None:
    world = World(1)
    read = made_up("read", "/account/settings", [], ["theme"], "setting")
    other = made_up("read", "/shop/settings", [], ["theme"], "setting")
    before, elsewhere = use(world, read), use(world, other)
    use(world, made_up("update", "/account/settings", ["theme"], ["theme"], "setting"), theme="dark")
    assert use(world, read) == {"theme": "dark"} != before
    assert use(world, other) == elsewhere
    use(world, made_up("delete", "/account/settings", [], ["theme"], "setting"))
    with pytest.raises(ToolFailure, match="no setting any more"):
        use(world, read)


def test_a_list_by_ids_shows_exactly_those() -> None:
    item: JsonObject = {"type": "object", "properties": {"QueueId": TEXT, "Owner": TEXT}}
    returns: JsonObject = {"type": "object", "properties": {"Queues": {"type": "array", "items": item}}}
    takes: JsonObject = {"type": "object", "properties": {"QueueIds": {"type": "array", "items": TEXT}}}
    describe = Interface(Tool("t", "d", takes, returns, "read", "queue", "x.example", "x", path="/"))
    world = World(1)
    queues = use(world, describe)["Queues"]
    assert use(world, describe, QueueIds=[queues[1]["QueueId"]])["Queues"] == [queues[1]]
    with pytest.raises(ToolFailure) as caught:
        use(world, describe, QueueIds=["que_1"])
    assert caught.value.kind == "not_found"


def test_a_parents_bare_id_is_not_taken_for_the_things_own() -> None:
    world = World(1)
    item: JsonObject = {"type": "object", "properties": {"id": TEXT, "artist_id": TEXT, "title": TEXT}}
    takes: JsonObject = {"type": "object", "properties": {"id": TEXT}, "required": ["id"]}
    albums = Interface(
        Tool(
            "a",
            "d",
            takes,
            {"type": "array", "items": item},
            "read",
            "album",
            "x.example",
            "x",
            path="/artists/{id}/albums",
        )
    )
    album = Interface(Tool("b", "d", takes, item, "read", "album", "x.example", "x", path="/albums/{id}"))
    artist = use(world, made_up("create", "/artists", ["title"], ["id", "title"], "artist"))["id"]
    listed = use(world, albums, id=artist)
    assert artist not in [one["id"] for one in listed]
    assert {one["artist_id"] for one in listed} == {artist}
    assert use(world, album, id=listed[0]["id"]) == listed[0]

"""The simulated tools against a plain dict, in random play; and calls that do not conflict against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from paraagent.catalog.store import Catalog
from paraagent.env import behave
from paraagent.env.effects import effects
from paraagent.env.interface import Interface, Interfaces
from paraagent.env.world import World
from paraagent.errors import ToolFailure
from paraagent.types import Effects, JsonObject, Tool

TEXT: JsonObject = {"type": "string"}
QUEUE: JsonObject = {
    "type": "object",
    "properties": {"id": TEXT, "colour": {"type": "string", "enum": ["red", "green"]}, "note": TEXT},
    "required": ["id", "colour", "note"],
}
FIELDS = st.dictionaries(st.sampled_from(["colour", "note"]), st.sampled_from(["red", "green"]))


def interface(effect: Any, path: str, takes: list[str], returns: JsonObject) -> Interface:
    parameters: JsonObject = {"type": "object", "properties": dict.fromkeys(takes, TEXT)}
    tool = Tool(f"{effect}_{path}", "d", parameters, returns, effect, "queue", "x.example", "x", path=path)
    return Interface(tool)


CREATE = interface("create", "/queues", ["colour", "note"], QUEUE)
READ = interface("read", "/queues/{queue_id}", ["queue_id"], QUEUE)
UPDATE = interface("update", "/queues/{queue_id}", ["queue_id", "colour", "note"], QUEUE)
DELETE = interface("delete", "/queues/{queue_id}", ["queue_id"], {"type": "object", "properties": {"deleted": {}}})
LIST = interface("read", "/queues", ["colour"], {"type": "array", "items": QUEUE})


def use(world: World, tool: Interface, arguments: JsonObject) -> Any:
    try:
        return behave.answer(world, tool, arguments, tool.arguments.check(arguments))
    except ToolFailure as failure:
        return failure.kind


class Queues(RuleBasedStateMachine):
    """Whatever is created, listed, changed and deleted, a dict from id to fields tells what must be there."""

    ids = Bundle("ids")
    saved = Bundle("saved")

    def __init__(self) -> None:
        super().__init__()
        self.world = World(11)
        self.model: dict[str, JsonObject | None] = {}
        self.created: set[str] = set()

    def shown(self, id: str) -> bool:
        """Tell whether the episode has shown this id; a restore takes back what lists have shown."""
        return id in self.model or id in self.created

    @rule(target=ids, fields=FIELDS)
    def create(self, fields: JsonObject) -> str:
        made = use(self.world, CREATE, fields)
        assert fields.items() <= made.items()
        assert made["id"] not in self.model
        self.model[made["id"]] = made
        self.created.add(made["id"])
        return str(made["id"])

    @rule(target=ids, colour=st.sampled_from([None, "red", "green"]))
    def listing(self, colour: str | None) -> str:
        listed = use(self.world, LIST, {} if colour is None else {"colour": colour})
        shown = {one["id"]: one for one in listed}
        assert len(shown) == len(listed)
        for id, one in shown.items():
            assert colour in (None, one["colour"])
            assert self.model.setdefault(id, one) == one
        made = {id: self.model[id] for id in self.created if self.model.get(id)}
        assert {id for id, one in made.items() if one and colour in (None, one["colour"])} <= shown.keys()
        return next(iter(shown), "que_1")

    @rule(id=ids)
    def read(self, id: str) -> None:
        if self.shown(id):
            assert use(self.world, READ, {"queue_id": id}) == (self.model.get(id) or "not_found")

    @rule(id=ids, fields=FIELDS)
    def update(self, id: str, fields: JsonObject) -> None:
        if not self.shown(id):
            return
        changed = use(self.world, UPDATE, {"queue_id": id, **fields})
        if known := self.model.get(id):
            self.model[id] = {**known, **fields}
        assert changed == (self.model.get(id) or "not_found")

    @rule(id=consumes(ids))
    def delete(self, id: str) -> None:
        if self.shown(id):
            known = self.model.get(id)
            assert (use(self.world, DELETE, {"queue_id": id}) == "not_found") == (known is None)
            if known:
                self.model[id] = None

    @rule(number=st.integers(0, 10**7))
    def invented(self, number: int) -> None:
        assert use(self.world, READ, {"queue_id": f"que_{number}"}) == "not_found"

    @rule(target=saved)
    def snapshot(self) -> tuple[Any, dict[str, JsonObject | None], str]:
        return self.world.snapshot(), dict(self.model), self.world.hash()

    @rule(saved=saved)
    def restore(self, saved: tuple[Any, dict[str, JsonObject | None], str]) -> None:
        self.world.restore(saved[0])
        self.model = dict(saved[1])
        assert self.world.hash() == saved[2]

    @invariant()
    def reading_changes_nothing(self) -> None:
        before = self.world.hash()
        use(self.world, LIST, {})
        assert self.world.hash() == before


Queues.TestCase.settings = settings(
    max_examples=30, stateful_step_count=20, suppress_health_check=[HealthCheck.too_slow]
)
TestQueuesAgainstDict = Queues.TestCase


@dataclass(frozen=True)
class Use:
    name: str
    arguments: JsonObject


def uses(world: World, interfaces: Interfaces) -> list[Use]:
    """Return many calls about the same few things, whose ids the world has shown."""

    def show(name: str, **arguments: Any) -> Any:
        tool = interfaces.get(name)
        assert tool is not None
        return use(world, tool, arguments)

    orders = [*show("pinecart_list_orders")["data"][:2], *show("pinecart_list_orders", status="paid")["data"][:1]]
    customers = [order["customer_id"] for order in orders]
    found = [Use("pinecart_list_orders", {}), Use("pinecart_list_orders", {"status": "paid"})]
    found += [Use("pinecart_list_customers", {}), Use("pinecart_search_products", {"query": "desk"})]
    found += [Use("pinecart_list_orders", {"customer_id": customers[0]})]
    for order in orders:
        found += [Use(f"pinecart_{name}", {"order_id": order["id"]}) for name in ("get_order", "cancel_order")]
        found += [Use("pinecart_list_refunds", {"order_id": order["id"]})]
        found += [Use("pinecart_create_refund", {"order_id": order["id"], "amount": 5})]
        found += [Use("pinecart_update_order", {"order_id": order["id"], "note": "soon"})]
    for id in customers:
        found += [Use(f"pinecart_{name}", {"customer_id": id}) for name in ("get_customer", "delete_customer")]
        found += [Use("pinecart_update_customer", {"customer_id": id, "name": "Kim"})]
    found += [Use("pinecart_create_customer", {"email": f"{n}@example.org", "name": n}) for n in ("ann", "ben")]
    found += [Use("pinecart_create_coupon", {"code": code, "percent_off": 5}) for code in ("A", "B")]
    return [*found, Use("pinecart_delete_coupon", {"code": "A"})]


def conflict(one: Effects, two: Effects) -> bool:
    def meet(left: frozenset[str], right: frozenset[str]) -> bool:
        return any(a == b or a.startswith(b + "/") or b.startswith(a + "/") for a in left for b in right)

    return meet(one.writes, two.writes) or meet(one.writes, two.reads) or meet(two.writes, one.reads)


def test_calls_without_conflicting_effects_can_change_places(catalog: Catalog) -> None:
    world, interfaces = World(7), Interfaces(catalog.get)
    choices = uses(world, interfaces)
    start = world.snapshot()

    def play(calls: list[Use]) -> tuple[list[Any], str]:
        world.restore(start)
        tools = [interfaces.get(call.name) for call in calls]
        return [
            use(world, tool, call.arguments) for tool, call in zip(tools, calls, strict=True) if tool
        ], world.hash()

    def touched(call: Use) -> Effects:
        tool = interfaces.get(call.name)
        assert tool is not None
        return effects(world, tool, call.arguments)

    apart = 0
    for one in choices:
        for two in choices:
            world.restore(start)
            if one == two or conflict(touched(one), touched(two)):
                continue
            apart += 1
            (a, b), state = play([one, two])
            (d, c), other = play([two, one])
            assert (a, b, state) == (c, d, other), (one, two)
    assert apart > len(choices) ** 2 / 2


@given(FIELDS, FIELDS)
def test_effects_cover_what_arguments_left_out_may_turn_into(one: JsonObject, two: JsonObject) -> None:
    world = World(3)
    id = use(world, CREATE, one)["id"]
    whole = effects(world, UPDATE, {"queue_id": id, **two})
    partial = effects(world, UPDATE, two)
    assert all(any(key == p or key.startswith(p + "/") for p in partial.writes) for key in whole.writes)

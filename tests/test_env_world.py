"""The world against a plain dict model, and what its snapshots, names and hashes promise."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from paraagent.env.ids import number
from paraagent.env.task import Entity
from paraagent.env.world import Snapshot, World

KIND = ("shop.example/store", "order")
OTHER = ("shop.example/store", "customer")


def minted(world: World, thing: int) -> str:
    return f"ord_{number(world.space(KIND), thing)}"


def test_an_id_of_this_world_is_known_and_an_invented_one_is_not() -> None:
    world = World(7)
    assert world.find(KIND, minted(world, 12345)) == 12345
    assert world.find(KIND, "ord_123456789") is None
    assert world.find(KIND, "order") is None
    assert world.find(KIND, "") is None


def test_ids_are_bound_to_the_seed_the_api_and_the_noun() -> None:
    world = World(7)
    id = minted(world, 12345)
    assert World(8).find(KIND, id) is None
    assert world.find(OTHER, id) is None
    assert world.find(("shop.example/other", "order"), id) is None


def test_few_invented_ids_pass() -> None:
    world = World(3)
    passed = sum(world.find(KIND, f"x{n}") is not None for n in range(200_000_000, 200_050_000))
    assert passed < 25  # one in 10,000 by chance


def test_task_entities_exist_under_their_own_ids() -> None:
    world = World(7, [Entity(KIND[0], "Orders", "ord_1", {"status": "open"}), Entity(KIND[0], "order", "17", {})])
    first, second = world.find(KIND, "ord_1"), world.find(KIND, "17")
    assert first is not None
    assert second is not None
    assert first != second
    record = world.record(KIND, first)
    assert record is not None
    assert record.values == {"status": "open"}


def test_the_hash_ignores_reads_recollections_and_the_order_of_writes() -> None:
    def play(order: list[int]) -> World:
        world = World(1)
        for thing in order:
            world.find(KIND, minted(world, thing))
            world.recall(KIND, thing, {"status": "open"})
            world.create(KIND, thing, {"note": thing}, {})
        return world

    assert play([20000, 30000]).hash() == play([30000, 20000]).hash()
    assert play([20000]).hash() != play([20000, 30000]).hash()
    assert World(1).hash() == World(2).hash() == play([]).hash()


def test_a_deleted_thing_is_known_but_gone() -> None:
    world = World(1)
    before = world.hash()
    world.delete(KIND, 22222)
    assert world.find(KIND, minted(world, 22222)) == 22222
    assert not world.exists(KIND, 22222)
    assert world.hash() != before
    assert world.state() == {KIND[0]: {"order": {str(number(world.space(KIND), 22222)): None}}}


def test_a_snapshot_can_be_restored_again_and_again() -> None:
    world = World(1)
    world.create(KIND, 10001, {"a": 1}, {}, "mine")
    saved, digest = world.snapshot(), world.hash()
    for _ in range(2):
        world.update(KIND, 10001, {"a": 2})
        world.delete(KIND, 10002)
        world.recall(KIND, 10003, {"x": 1})
        world.create(KIND, 10004, {}, {}, "later")
        assert world.hash() != digest
        world.restore(saved)
        assert world.hash() == digest
        assert world.find(KIND, "later") is None
        assert world.find(KIND, "mine") == 10001
        assert world.recalled(KIND, 10003) is None


def test_fresh_things_never_meet_existing_ones() -> None:
    world = World(1)
    seen = set()
    for _ in range(50):
        thing = world.fresh(KIND, 99)
        assert thing not in seen
        seen.add(thing)
        world.create(KIND, thing, {}, {})


@pytest.mark.parametrize("seed", [0, -5, 2**70])
def test_any_integer_is_a_seed(seed: int) -> None:
    world = World(seed)
    assert world.find(KIND, minted(world, 55555)) == 55555


class WorldMachine(RuleBasedStateMachine):
    """Random writes, reads, snapshots; a dict from thing to values (None when deleted) says what must hold."""

    things = Bundle("things")
    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.world = World(42)
        self.model: dict[int, dict[str, int] | None] = {}

    @rule(target=things, key=st.integers(0, 2**64 - 1), value=st.integers(0, 5))
    def create(self, key: int, value: int) -> int:
        thing = self.world.fresh(KIND, key)
        self.world.create(KIND, thing, {"value": value}, {})
        assert thing not in self.model
        self.model[thing] = {"value": value}
        return thing

    @rule(target=things, thing=st.integers(10_000, 10_020))
    def seeded(self, thing: int) -> int:
        return thing

    @rule(thing=things, field=st.sampled_from("abc"), value=st.integers(0, 5))
    def update(self, thing: int, field: str, value: int) -> None:
        self.world.update(KIND, thing, {field: value})
        self.model[thing] = {**(self.model.get(thing) or {}), field: value}

    @rule(thing=things)
    def delete(self, thing: int) -> None:
        self.world.delete(KIND, thing)
        self.model[thing] = None

    @rule(thing=things)
    def read(self, thing: int) -> None:
        before = self.world.hash()
        self.world.exists(KIND, thing)
        self.world.recall(KIND, thing, {"seen": True})
        assert self.world.hash() == before

    @rule(target=snapshots)
    def snapshot(self) -> tuple[Snapshot, dict[int, dict[str, int] | None], str]:
        return self.world.snapshot(), dict(self.model), self.world.hash()

    @rule(saved=snapshots)
    def restore(self, saved: tuple[Snapshot, dict[int, dict[str, int] | None], str]) -> None:
        self.world.restore(saved[0])
        self.model = dict(saved[1])
        assert self.world.hash() == saved[2]

    @invariant()
    def agrees(self) -> None:
        for thing, values in self.model.items():
            assert self.world.exists(KIND, thing) == (values is not None)
            if values is not None:
                record = self.world.record(KIND, thing)
                assert record is not None
                assert record.values == values


WorldMachine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow]
)
TestWorldAgainstDict = WorldMachine.TestCase

"""Failures and latencies: on purpose, marked, and the same in every run."""

from __future__ import annotations

from typing import Any

import pytest

from paraagent.env.faults import FASTEST, SLOWEST, STALLED, Faults
from paraagent.env.ids import digest
from paraagent.env.task import FaultSpec


def kinds(faults: Faults, tool: str, times: int, key: int = 1) -> list[str | None]:
    fates = [faults.invoke(tool, key) for _ in range(times)]
    return [fate.failure.kind if fate.failure else None for fate in fates]


def test_the_first_invocations_of_a_tool_fail_as_the_task_says() -> None:
    faults = Faults(1, [FaultSpec("pay", "rate_limited", 2, retry_after=3.0)])
    fate = faults.invoke("pay", 1)
    assert fate.failure is not None
    assert (fate.failure.kind, fate.failure.retry_after, fate.failure.injected) == ("rate_limited", 3.0, True)
    assert kinds(faults, "pay", 3, key=2) == ["rate_limited", None, None]
    assert kinds(faults, "look", 1) == [None]


def test_a_lasting_failure_lasts() -> None:
    assert kinds(Faults(1, [FaultSpec("pay", "permission", 10**6)]), "pay", 5) == ["permission"] * 5


def test_random_faults_hit_the_first_attempt_only_and_at_the_stated_rate() -> None:
    faults = Faults(1, rate=0.25)
    first = [kinds(faults, "look", 1, key=digest("k", n))[0] for n in range(2000)]
    hit = [kind for kind in first if kind]
    assert 0.2 < len(hit) / len(first) < 0.3
    assert set(hit) == {"rate_limited", "unavailable", "timeout"}
    assert all(kinds(faults, "look", 1, key=digest("k", n)) == [None] for n in range(2000))


def test_fates_depend_on_seed_tool_and_arguments_alone() -> None:
    def fates(seed: int, keys: list[int]) -> dict[int, tuple[float, Any]]:
        faults = Faults(seed, rate=0.5)
        found = {key: faults.invoke("look", key) for key in keys}
        return {key: (fate.seconds, fate.failure and fate.failure.kind) for key, fate in found.items()}

    keys = [digest("k", n) for n in range(50)]
    assert fates(1, keys) == fates(1, keys[::-1])
    assert fates(1, keys) != fates(2, keys)


def test_latencies_differ_by_tool_and_call_within_their_range() -> None:
    faults = Faults(1)
    seconds = [faults.invoke(f"tool{n % 50}", digest(n)).seconds for n in range(500)]
    assert all(FASTEST <= one <= SLOWEST for one in seconds)
    assert len(set(seconds)) > 400
    assert min(seconds) < 0.06
    assert max(seconds) > 0.5


def test_a_time_out_takes_long() -> None:
    assert Faults(1, [FaultSpec("pay", "timeout")]).invoke("pay", 1).seconds == STALLED


def test_a_snapshot_brings_counts_back() -> None:
    faults = Faults(1, [FaultSpec("pay", "unavailable", 1)], rate=1.0)
    saved = faults.snapshot()
    for _ in range(2):
        assert kinds(faults, "pay", 1) == ["unavailable"]
        assert kinds(faults, "look", 1) != [None]
        assert kinds(faults, "look", 1) == [None]
        faults.restore(saved)


@pytest.mark.parametrize(
    "value",
    [{"name": "Desk"}, [{"id": 1, "note": "n"}, {"note": "m"}], {"data": {"items": [{"title": "t"}]}}],
)
def test_hostile_text_goes_into_a_free_text_field(value: Any) -> None:
    import orjson

    before = orjson.dumps(value)
    tainted = Faults(1, hostile_rate=1.0).taint(value, 1)
    assert orjson.dumps(value) == before
    assert tainted != value
    assert len(orjson.dumps(tainted)) > len(before)


def test_hostile_text_comes_at_its_rate_and_never_by_default() -> None:
    value = {"name": "Desk"}
    some = Faults(1, hostile_rate=0.3)
    hit = sum(some.taint(value, digest(n)) != value for n in range(1000))
    assert 240 < hit < 360
    assert all(Faults(1).taint(value, digest(n)) is value for n in range(50))
    assert some.taint({"count": 3}, 1) == {"count": 3}

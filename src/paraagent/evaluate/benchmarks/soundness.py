"""Proves that a benchmark's harness is sound: a gold replay, a spoilt replay and an empty policy score as they must.

Place in the flow: layer 5, behind `paraagent eval ... --check`. Each item is played three times through the same
loop as any policy, in memory. Which items are spoilt, and how, follows from the seed; what each spoilt replay must
score is known before it is played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from paraagent.agent.settings import Settings
from paraagent.evaluate.benchmarks.base import Benchmark, Item, Points
from paraagent.evaluate.benchmarks.replays import EmptyPolicy
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy

SPOILT_SHARE = 0.5


@dataclass(slots=True)
class Soundness:
    """Points of the three replays, and the episodes that scored otherwise than they must."""

    unit: str
    gold: Points = field(default_factory=Points)
    spoilt: Points = field(default_factory=Points)
    expected: Points = field(default_factory=Points)
    """What the spoilt replay must score."""
    empty: Points = field(default_factory=Points)
    wrong: list[str] = field(default_factory=list)
    """One line per episode with other points than it must have."""

    @property
    def sound(self) -> bool:
        return not self.wrong

    def to_json(self) -> JsonObject:
        rows = {name: getattr(self, name).to_json(self.unit) for name in ("gold", "spoilt", "expected", "empty")}
        return {**rows, "sound": self.sound, "wrong": list(self.wrong)}


async def check(
    benchmark: Benchmark,
    items: Sequence[Item],
    settings: Settings,
    seed: int = 0,
    on_done: Callable[[Item], None] | None = None,
) -> Soundness:
    """Play every item with the gold, the spoilt and the empty policy."""
    found = Soundness(benchmark.unit)
    for item in items:
        rng = Random(f"{seed} {item.task.id}")
        gold = await _play(benchmark, item, benchmark.gold(item), settings)
        full = Points(1, 1, gold.total, gold.total)
        found.gold += gold
        if rng.random() < SPOILT_SHARE:
            flawed = benchmark.spoil(item, rng)
            spoilt, expected = await _play(benchmark, item, flawed.policy, settings), flawed.points
        else:
            spoilt, expected = gold, full
        found.spoilt += spoilt
        found.expected += expected
        empty = await _play(benchmark, item, EmptyPolicy(), settings)
        found.empty += empty
        for what, points, must in (
            ("gold", gold, full),
            ("spoilt", spoilt, expected),
            ("empty", empty, Points(1, 0, 0, gold.total)),
        ):
            if points != must:
                found.wrong.append(f"{item.task.id}: the {what} replay scored {points}, not {must}")
        if on_done is not None:
            on_done(item)
    return found


async def _play(benchmark: Benchmark, item: Item, policy: Policy, settings: Settings) -> Points:
    with Recorder() as recorder:
        await benchmark.play(item, policy, recorder, settings)
        return benchmark.points(item, EpisodeView(recorder.events))

"""BFCL: dialogues over stateful classes, judged turn by turn, in a package of its shape made for the test."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmark_data import bfcl as write
from paraagent.agent.context import Context
from paraagent.agent.policies.http_draft import Draft
from paraagent.agent.settings import Settings
from paraagent.errors import EnvironmentFault
from paraagent.evaluate.baselines.paradigm import adapt, paradigm
from paraagent.evaluate.benchmarks import soundness
from paraagent.evaluate.benchmarks.base import Item, Points
from paraagent.evaluate.benchmarks.bfcl import BfclBenchmark
from paraagent.evaluate.benchmarks.bfcl_data import MORE_TOOLS, Step, read
from paraagent.protocol.render import render_turn
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, JsonObject, Policy, Reply, Search

SETTINGS = Settings(durable=False)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BfclBenchmark]:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield BfclBenchmark(read(write(tmp_path)))
    for name in [name for name in sys.modules if name.split(".")[0] == "bfcl_eval"]:
        del sys.modules[name]


class Lines:
    """Says its lines one after the other."""

    name = "lines"

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.heard: list[str] = []

    async def act(self, context: Context) -> Reply:
        self.heard.append(context.messages[-1].content)
        return Reply(self._lines.pop(0))


LOOK = render_turn("", searches=[Search(name, name) for name in ("turn_up", "read_level", "double", "break_down")])
DONE = render_turn("", answer="Done.")


def do(*calls: Call) -> str:
    return render_turn("", calls=calls)


def play(bench: BfclBenchmark, item: Item, policy: Policy) -> tuple[Points, EpisodeView]:
    recorder = Recorder()
    asyncio.run(bench.play(item, policy, recorder, SETTINGS))
    view = EpisodeView(recorder.events)
    return bench.points(item, view), view


def test_gold_passes_every_turn_and_the_harness_is_sound(bench: BfclBenchmark) -> None:
    found = asyncio.run(soundness.check(bench, bench.items, SETTINGS, seed=2))
    assert found.sound, found.wrong
    assert found.gold == Points(4, 4, 8, 8)
    assert found.spoilt.solved < 4
    assert found.empty == Points(4, 0, 0, 8)


def test_solutions_are_read_as_calls_with_named_arguments(bench: BfclBenchmark) -> None:
    dialogue = bench.dialogue(bench.items[0])
    assert dialogue.gold[0] == (Step("turn_up", {"steps": 2, "note": "$5.x"}),) * 2


def test_the_user_goes_on_after_each_answer(bench: BfclBenchmark) -> None:
    up = Call("turn_up", {"steps": 2, "note": "$$5.x"})
    policy = Lines(LOOK, do(up), do(up), DONE, do(Call("read_level", {}), Call("double", {"number": 4})), DONE)
    points, view = play(bench, bench.items[0], policy)
    assert points == Points(1, 1, 2, 2)
    assert policy.heard[4] == "Double its level."
    assert view.end is not None
    assert view.end.checks == {"turn 1": True, "turn 2": True}


def test_a_wrong_state_fails_its_turn_and_all_after_it(bench: BfclBenchmark) -> None:
    once = Call("turn_up", {"steps": 4, "note": "$$5.x"})
    policy = Lines(LOOK, do(once), DONE, do(Call("read_level", {}), Call("double", {"number": 4})), DONE)
    points, view = play(bench, bench.items[0], policy)
    assert points == Points(1, 0, 0, 2)
    assert view.end is not None
    assert "the state differs: Lamp.log" in str(view.end.checks["turn 1"])


def test_a_result_that_was_not_seen_fails_the_turn(bench: BfclBenchmark) -> None:
    up = Call("turn_up", {"steps": 2, "note": "$$5.x"})
    policy = Lines(LOOK, do(up), do(up), DONE, do(Call("read_level", {}), Call("double", {"number": 5})), DONE)
    points, view = play(bench, bench.items[0], policy)
    assert points == Points(1, 0, 1, 2)
    assert view.end is not None
    assert '{"result": 8}' in str(view.end.checks["turn 2"])


def test_held_out_functions_cannot_be_found_before_their_turn(bench: BfclBenchmark) -> None:
    item = next(item for item in bench.items if item.group == "miss_func")
    up = Call("turn_up", {"steps": 2, "note": "$$5.x"})
    policy = Lines(LOOK, do(up), DONE, LOOK, do(up), do(up), DONE, LOOK, do(Call("read_level", {})), DONE)
    points, view = play(bench, item, policy)
    found = [{name for search in turn.searches for name, _ in search.hits} for turn in view.turns if turn.searches]
    assert "turn_up" not in found[0]
    assert "turn_up" in found[1]
    assert "double" not in found[1]
    assert "double" in found[2]
    assert next(view.calls).end.error == "tool_not_found"  # type: ignore[union-attr]
    assert policy.heard[3] == MORE_TOOLS
    assert points == Points(1, 0, 1, 2)


def test_what_a_class_raises_is_a_tool_error(bench: BfclBenchmark) -> None:
    _, view = play(bench, bench.items[0], Lines(LOOK, do(Call("break_down", {})), DONE, DONE))
    end = next(view.calls).end
    assert end is not None
    assert (end.error, end.message) == ("tool_error", "RuntimeError: out of light")


def test_a_missing_or_broken_package_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    with pytest.raises(EnvironmentFault, match=r"expected the package bfcl_eval in .*; run `pip install"):
        read(tmp_path)
    (tmp_path / "bfcl_eval" / "data").mkdir(parents=True)
    with pytest.raises(EnvironmentFault, match=r"is not bfcl-eval==.* run `pip install"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["no-plans", "no-parallel", "react-eae", "native"])
def test_dialogues_go_on_in_every_paradigm(bench: BfclBenchmark, name: str) -> None:
    way = paradigm(name)

    async def run(item: Item) -> EpisodeView:
        recorder = Recorder()
        await bench.play(item, adapt(bench.gold(item), way, model=False), recorder, way.settings(SETTINGS))
        return EpisodeView(recorder.events)

    for item in bench.items:
        view = asyncio.run(run(item))
        assert view.success, view.end


def test_a_model_hears_what_the_user_says_next(bench: BfclBenchmark) -> None:
    class Model:
        """Answers at once, and keeps what it was told."""

        name = "model"

        def __init__(self) -> None:
            self.told: list[str] = []

        async def act(self, context: Context) -> Reply:
            self.told.append(context.messages[-1].content)
            return Reply("Done.")

        async def complete(
            self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] = (), *, most: int | None = None
        ) -> Draft:
            self.told.append(str(messages[-1]["content"]))
            return Draft(["Done."])

    for name in ("react-eae", "native"):
        model, way, recorder = Model(), paradigm(name), Recorder()
        policy = adapt(model, way, model=True)
        asyncio.run(bench.play(bench.items[0], policy, recorder, way.settings(SETTINGS)))
        assert model.told == ["Turn the lamp up by two, twice.", "Double its level."]

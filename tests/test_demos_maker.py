"""Demonstrations of the built-in experts: verified, protocol-clean, nothing in vain, and the same every time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from paraagent.catalog.store import Catalog
from paraagent.demos.demo import Demo
from paraagent.demos.experts import builtin
from paraagent.demos.formats import line
from paraagent.demos.maker import Made, Maker, key, shape
from paraagent.demos.produce import PATIENCE, Keeper, produce, produce_live
from paraagent.demos.recipe import Recipe
from paraagent.demos.style import Style
from paraagent.demos.weaver import Weaver
from paraagent.env.shapes import Dials
from paraagent.env.task import FaultSpec, GoldCall, GoldSlot, Task
from paraagent.env.tasks import TaskSampler
from paraagent.errors import ErrorKind, UsageError
from paraagent.evaluate.arena import Arena
from paraagent.protocol.grammar import parse
from paraagent.protocol.links import upstream
from paraagent.reward.score import score
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Message, TaskKind

LOTS = 32
RECIPE = Recipe(vague=0.4, mistakes=0.4)


def play(task: Task, catalog: Catalog, index: SearchIndex, style: Style) -> EpisodeView:
    recorder = Recorder()
    weaver = Weaver(builtin(task, catalog.get, style), linked=style.linked)
    asyncio.run(Arena(catalog, index).play(task, weaver, recorder))
    return EpisodeView(recorder.events)


@pytest.fixture(scope="module")
def made(catalog: Catalog, index: SearchIndex) -> list[Made]:
    maker = Maker(catalog, index, RECIPE)
    with asyncio.Runner() as runner:
        return [runner.run(maker.make(number)) for number in range(LOTS)]


@pytest.fixture(scope="module")
def demos(made: list[Made]) -> list[Demo]:
    return [one.demo for one in made if one.demo]


def turns(demo: Demo) -> list[str]:
    return [message.content for message in demo.messages if message.role == "assistant"]


def test_nearly_every_lot_gives_a_demonstration_and_all_kinds_occur(demos: list[Demo]) -> None:
    assert len(demos) > 0.9 * LOTS
    assert {demo.kind for demo in demos} == {
        "single", "parallel", "chain", "mixed", "recover", "unanswerable", "direct"
    }  # fmt: skip
    assert max(int(str(demo.meta["depth"])) for demo in demos) == 3
    assert max(int(str(demo.meta["width"])) for demo in demos) >= 4


def test_a_demonstration_breaks_no_rule_of_the_protocol(demos: list[Demo]) -> None:
    for demo in demos:
        assert not any(parse(text).faults for text in turns(demo))
        assert "Note:" not in "".join(message.content for message in demo.messages[2:])
        roles = [message.role for message in demo.messages]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2)]


def test_both_linked_and_layered_chains_and_all_recoveries_are_shown(demos: list[Demo]) -> None:
    deep = [demo for demo in demos if int(str(demo.meta["depth"])) > 1]
    assert any(demo.meta["links"] for demo in deep)
    assert any(not demo.meta["links"] for demo in deep)
    ways = Counter(way for demo in demos for way in demo.meta["recovery"])  # type: ignore[union-attr]
    assert ways["retry"]
    assert ways["correction"]


def test_only_mistaken_turns_are_not_learned(demos: list[Demo]) -> None:
    for demo in demos:
        unlearned = [
            place
            for place, (message, wanted) in enumerate(zip(demo.messages, demo.loss, strict=True))
            if message.role == "assistant" and not wanted
        ]
        for place in unlearned:
            answered = demo.messages[place + 1].content
            assert '"kind":"invalid_args"' in answered or "<tools>" in answered
        if "correction" not in demo.meta["recovery"] and "requery" not in demo.meta["recovery"]:  # type: ignore[operator]
            assert not unlearned
    assert any(not all(demo.loss[2::2]) for demo in demos)


def test_calls_hold_only_names_and_values_that_were_shown(demos: list[Demo]) -> None:
    for demo in demos:
        told = ""
        for message, wanted in zip(demo.messages, demo.loss, strict=True):
            if message.role == "user":
                told += message.content
            for call in parse(message.content).calls if wanted else ():
                assert isinstance(call, Call)
                assert call.name in told
                for name, value in call.arguments.items():
                    assert name in told
                    assert upstream(value) or isinstance(value, bool | list | dict) or str(value) in told


def test_thoughts_name_slots_and_tools_and_differ_between_demonstrations(demos: list[Demo]) -> None:
    thinks = Counter(parse(text).think for demo in demos for text in turns(demo))
    assert thinks.most_common(1)[0][1] < LOTS / 4
    for demo in demos:
        for text in turns(demo):
            turn = parse(text)
            assert 0 < len(turn.think) < 1500
            if turn.kind == "execution" and turn.has_plan and demo.kind == "single":
                assert turn.calls[0].name in turn.think


def test_the_same_lot_is_the_same_in_a_fresh_maker(catalog: Catalog, index: SearchIndex, made: list[Made]) -> None:
    maker = Maker(catalog, index, RECIPE)
    for number in (7, 3, 21):
        assert asyncio.run(maker.make(number)) == made[number]


def test_another_seed_gives_other_demonstrations(catalog: Catalog, index: SearchIndex, made: list[Made]) -> None:
    other = asyncio.run(Maker(catalog, index, replace(RECIPE, seed=1)).make(3))
    assert other.demo != made[3].demo


def test_a_demonstration_can_be_sampled_again_from_its_meta(
    catalog: Catalog, index: SearchIndex, demos: list[Demo]
) -> None:
    demo = next(demo for demo in demos if demo.kind == "chain")
    sample = demo.meta["sample"]
    assert isinstance(sample, dict)
    dials = {name: value for name, value in sample.items() if name != "seed"}
    task = TaskSampler(catalog, index).sample("train", "chain", int(str(sample["seed"])), Dials(**dials))  # type: ignore[arg-type]
    assert isinstance(task, Task)
    assert (task.id, task.request) == (demo.task_id, demo.request)


@pytest.mark.parametrize("kind", ["single", "parallel", "chain", "mixed"])
def test_rewards_find_nothing_to_take_off(catalog: Catalog, index: SearchIndex, kind: TaskKind) -> None:
    tasks = [t for n in range(4) if isinstance(t := TaskSampler(catalog, index).sample("train", kind, n), Task)]
    for linked in (True, False):
        for task in tasks:
            reward = score(play(task, catalog, index, Style(voice=task.seed, linked=linked)))
            assert reward.levels.step == 1.0
            assert reward.trajectory.reward == pytest.approx(1.5)


def replaceable(catalog: Catalog, kind: ErrorKind) -> Task:
    """Return a task whose tool always fails and which another tool serves as well."""
    plain = [t for t in catalog if t.effect == "read" and not t.parameters.get("required")]
    tool = plain[0]
    other = next(t for t in plain if t.provider != tool.provider)  # one that the first search does not show
    slots = (GoldSlot("list them 1", tool.description, (tool.name, other.name)),)
    calls, faults = (GoldCall("c1", tool.name, {}),), (FaultSpec(tool.name, kind, 1_000_000),)
    return Task("t", "recover", "train", 1, "List them.", slots=slots, calls=calls, faults=faults, final_state="x")


@pytest.mark.parametrize(("kind", "tries"), [("permission", 1), ("unavailable", 2)])
def test_a_tool_that_fails_for_good_is_replaced_by_one_that_is_searched_for(
    catalog: Catalog, index: SearchIndex, kind: ErrorKind, tries: int
) -> None:
    task = replaceable(catalog, kind)
    gold, other = task.slots[0].tools
    view = play(task, catalog, index, Style())
    assert [call.name for call in view.calls] == [gold] * tries + [other]
    assert [call.ok for call in view.calls] == [False] * tries + [True]
    kinds = [phase.kind for phase in view.phases]
    assert kinds == ["exploration", "execution", "exploration", "execution", "answer"]


def test_the_experts_give_up_on_what_keeps_failing(catalog: Catalog, index: SearchIndex) -> None:
    task = TaskSampler(catalog, index).sample("train", "single", 0)
    assert isinstance(task, Task)
    broken = replace(task, faults=(FaultSpec(task.calls[0].tool, "permission", 1000),))
    view = play(broken, catalog, index, Style())
    assert view.success is False
    assert view.answer
    assert len(view.turns) < 8


def test_requests_of_one_shape_with_the_same_tools_are_alike(demos: list[Demo]) -> None:
    task = Task(
        "t", "single", "train", 0, "Get the order ord_1 of Shop.", calls=(GoldCall("c1", "get", {"id": "ord_1"}),)
    )
    again = replace(task, request="Get the order ord_2 of Shop.", calls=(GoldCall("c1", "get", {"id": "ord_2"}),))
    named = replace(task, request="Get the order Bob of Shop.", calls=(GoldCall("c1", "get", {"id": "Bob"}),))
    assert shape(task) == shape(again) == shape(named) == "Get the order # of Shop."
    demo = Demo("t", (Message("user", task.request),), (False,), meta={"tools": ["get"]})
    assert key(task, demo) == key(again, demo)
    assert key(task, demo) != key(task, replace(demo, meta={"tools": ["other"]}))
    bare = replace(demo, meta={"tools": []})
    assert key(task, bare) != key(again, replace(bare, messages=(Message("user", again.request),)))


def test_the_keeper_keeps_in_order_drops_what_is_alike_and_stops_at_the_limit() -> None:
    kept: list[str] = []
    keeper = Keeper(Recipe(limit=2), lambda demo: kept.append(demo.task_id))
    for name, same in (("a", "x"), ("b", "x"), ("c", "y")):
        assert not keeper.full
        keeper.take(Made(0, Demo(name, (), ()), same))
    keeper.take(Made(1, None, refused=Counter({"unsolved": 3})))
    assert kept == ["a", "c"]
    assert keeper.full
    assert keeper.refused == {"duplicate": 1, "unsolved": 3, "empty lot": 1}


def test_a_catalog_that_gives_too_little_ends_in_one_clear_line() -> None:
    keeper = Keeper(Recipe(limit=2), lambda demo: None)
    for number in range(PATIENCE - 1):
        keeper.take(Made(number, None))
    with pytest.raises(UsageError, match=r"only 0 of 2 demonstrations can be made .*empty lot"):
        keeper.take(Made(PATIENCE, None))


def test_the_number_of_processes_changes_no_byte(catalog: Catalog, index: SearchIndex) -> None:
    recipe = Recipe(limit=10, seed=5)
    files: list[bytes] = []
    for workers in (1, 2):
        lines: list[bytes] = []
        produce(recipe, catalog.path, workers, Keeper(recipe, lambda demo, to=lines: to.append(line(demo, "chat"))))  # type: ignore[misc]
        files.append(b"".join(lines))
    assert files[0] == files[1]
    lines = []
    keeper = Keeper(recipe, lambda demo: lines.append(line(demo, "chat") or b""))
    asyncio.run(produce_live(Maker(catalog, index, recipe), 5, keeper))
    assert b"".join(lines) == files[0]


def test_a_worker_that_cannot_start_ends_in_the_real_reason(catalog: Catalog, tmp_path: Path) -> None:
    recipe = Recipe(limit=5)
    with pytest.raises(UsageError, match="for measuring only"):
        produce(replace(recipe, split="test-seen"), catalog.path, 2, Keeper(recipe, lambda demo: None))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"split": "test-unseen"}, "measuring only"),
        ({"kinds": ()}, "at least one kind"),
        ({"limit": 0}, "at least 1"),
        ({"vague": 1.5}, "shares from 0 to 1"),
        ({"width": 9}, "width must be"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(Recipe(), **changes).check()  # type: ignore[arg-type]


def test_held_out_splits_can_be_forced() -> None:
    replace(Recipe(), split="test-unseen", held_out=True).check()


def test_the_abstention_names_what_cannot_be_done(catalog: Catalog, index: SearchIndex) -> None:
    slot = GoldSlot("repaint drone 1", "Zorvexly: repaint a drone", ())
    sampled = TaskSampler(catalog, index).sample("train", "unanswerable", 0)
    assert isinstance(sampled, Task)
    task = replace(sampled, request="Repaint the drone D1 with Zorvexly.", slots=(slot,))
    view = play(task, catalog, index, Style())
    assert view.success
    assert "repaint a drone on Zorvexly" in (view.answer or "")
    assert [len(turn.searches) for turn in view.turns] == [1, 1, 0]

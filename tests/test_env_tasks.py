from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest

from paraagent.catalog.store import Catalog
from paraagent.env.direct import puzzle
from paraagent.env.identity import identity
from paraagent.env.labels import field_label, label, said
from paraagent.env.literals import Literals
from paraagent.env.phrasing import reworded
from paraagent.env.service import service_name
from paraagent.env.shapes import Dials, depths
from paraagent.env.splits import may_be_goal, provider_split, serves
from paraagent.env.states import states
from paraagent.env.task import Task
from paraagent.env.tasks import Dropped, TaskSampler
from paraagent.env.wording import wording
from paraagent.errors import UsageError
from paraagent.protocol.links import upstream
from paraagent.types import Found, Hit, JsonObject, JsonValue, Search, Split, TaskKind, Tool

KINDS: tuple[TaskKind, ...] = ("single", "parallel", "chain", "mixed", "recover", "unanswerable", "direct")
WITH_CALLS: tuple[TaskKind, ...] = KINDS[:5]


@pytest.fixture(scope="module")
def sampler(catalog: Catalog) -> TaskSampler:
    return TaskSampler(catalog)


@pytest.fixture(scope="module")
def tasks(sampler: TaskSampler) -> list[Task]:
    return list(sampler.tasks("train", KINDS, range(140), Dials(width=3, depth=3, writes=0.5)))


def of_kind(tasks: list[Task], *kinds: TaskKind) -> list[Task]:
    found = [task for task in tasks if task.kind in kinds]
    assert len(found) >= 10
    return found


def literals(task: Task) -> list[JsonValue]:
    return [value for call in task.calls for value in call.arguments.values() if not upstream(value)]


def test_most_seeds_give_a_task(tasks: list[Task]) -> None:
    assert len(tasks) > 110
    assert len({task.id for task in tasks}) == len({task.request for task in tasks}) == len(tasks)


def test_kinds_have_their_shapes(tasks: list[Task]) -> None:
    assert all((task.width, task.depth) == (1, 1) for task in of_kind(tasks, "single"))
    assert all(task.width in (2, 3) and task.depth == 1 for task in of_kind(tasks, "parallel"))
    assert all(task.width == 1 and task.depth in (2, 3) for task in of_kind(tasks, "chain"))
    assert all(task.width in (2, 3) and task.depth in (2, 3) for task in of_kind(tasks, "mixed"))
    assert all(len(task.faults) == 1 and task.calls for task in of_kind(tasks, "recover"))
    for task in of_kind(tasks, "unanswerable", "direct"):
        assert not task.calls
        assert not task.facts
        assert (task.literal_answer is not None) == (task.kind == "direct")
        assert [slot.tools for slot in task.slots] == ([()] if task.kind == "unanswerable" else [])


def test_every_literal_stands_in_the_request(tasks: list[Task]) -> None:
    for task in tasks:
        for value in literals(task):
            assert said(value) in task.request, (value, task.request)


def test_no_tool_is_named(tasks: list[Task], catalog: Catalog) -> None:
    for task in tasks:
        for call in task.calls:
            tool = catalog.get(call.tool)
            assert tool is not None
            assert tool.name not in task.request.lower()
            assert service_name(tool) in task.request
            assert not any(tool.name in slot.query for slot in task.slots)


def test_facts_are_asked_for_and_not_given_away(tasks: list[Task]) -> None:
    for task in tasks:
        for fact in task.facts:
            assert f"the {fact.label}" in task.request
            assert not states(task.request, fact.value)
        assert len({str(fact.value) for fact in task.facts}) == len(task.facts)


def test_requests_read_like_text(tasks: list[Task]) -> None:
    for task in tasks:
        assert task.request[0].isupper()
        assert task.request[-1] in ".?;"
        for ugly in ("  ", "None", "{", "<", " the the ", " a the ", "..", " ,", "['"):
            assert ugly not in task.request, task.request


def test_every_link_points_to_an_earlier_call_and_slots_cover_all_tools(tasks: list[Task]) -> None:
    for task in tasks:
        seen: set[str] = set()
        for call in task.calls:
            assert set(upstream(call.arguments)) <= seen
            seen.add(call.id)
        assert {slot.tools[0] for slot in task.slots if slot.tools} == {call.tool for call in task.calls}
        assert len({slot.name for slot in task.slots}) == len(task.slots)
        assert all(":" not in slot.name for slot in task.slots)


def test_tasks_survive_json(tasks: list[Task]) -> None:
    for task in tasks:
        assert Task.from_json(task.to_json()) == task


def test_equal_seeds_give_equal_tasks_whatever_was_sampled_before(catalog: Catalog, tasks: list[Task]) -> None:
    fresh = TaskSampler(catalog)
    for task in reversed(tasks[::9]):
        seed = int(task.id.split("-")[2])
        again = fresh.sample("train", task.kind, seed, Dials(width=3, depth=3, writes=0.5))
        assert isinstance(again, Task)
        assert again.to_json() == task.to_json()
    assert fresh.sample("train", "single", 0) != fresh.sample("train", "single", 1)
    assert fresh.sample("train", "single", 0) != fresh.sample("train", "single", 0, Dials(writes=1.0))


_IN_ANOTHER_PROCESS = """
import hashlib, sys
from pathlib import Path
from paraagent.catalog.store import Catalog
from paraagent.env.tasks import TaskSampler
sampler = TaskSampler(Catalog.open(Path(sys.argv[1])))
kinds = ("single", "parallel", "chain", "mixed", "recover", "unanswerable", "direct")
print(hashlib.sha256(b"".join(task.to_json() for task in sampler.tasks("train", kinds, range(40)))).hexdigest())
"""


def test_equal_seeds_give_equal_bytes_in_every_process(catalog: Catalog) -> None:
    command = [sys.executable, "-c", _IN_ANOTHER_PROCESS, str(catalog.path)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    first, second = (process.communicate(timeout=60)[0] for process in running)
    assert first == second
    assert len(first) == 65


def test_writes_dial_at_zero_leaves_the_world_alone(sampler: TaskSampler, catalog: Catalog) -> None:
    for task in sampler.tasks("train", ("single", "chain", "mixed"), range(30), Dials(writes=0.0)):
        effects = {tool.effect for call in task.calls if (tool := catalog.get(call.tool))}
        assert effects == {"read"}


def test_distractors_are_mentioned_exist_and_are_not_called(sampler: TaskSampler) -> None:
    for task in sampler.tasks("train", ("single",), range(10), Dials(distractors=2)):
        unused = [entity for entity in task.entities if entity.id not in map(str, literals(task))]
        assert len(unused) == 2
        assert all(entity.id in task.request for entity in unused)


def test_identifiers_in_the_request_exist_in_the_world(tasks: list[Task], catalog: Catalog) -> None:
    for task in tasks:
        existing = {(entity.api, entity.resource, entity.id) for entity in task.entities}
        for call in task.calls:
            tool = catalog.get(call.tool)
            assert tool is not None
            found = identity(tool)
            if tool.effect != "create" and found.own and found.own.checked and found.own.parameter in call.arguments:
                value = call.arguments[found.own.parameter]
                assert upstream(value) or (found.api, found.own.noun, str(value)) in existing


def test_splits_share_no_provider_and_held_out_tools_are_goals_of_test_seen_only(
    sampler: TaskSampler, catalog: Catalog
) -> None:
    everyone = [f"provider{i}.example" for i in range(2000)]
    share = sum(provider_split(name) == "test-unseen" for name in everyone) / len(everyone)
    assert 0.17 < share < 0.23
    splits: tuple[Split, ...] = ("train", "validation", "test-seen", "test-unseen")
    for split in splits:
        for task in sampler.tasks(split, WITH_CALLS, range(25)):
            tools = [tool for call in task.calls if (tool := catalog.get(call.tool))]
            assert all(serves(tool.provider, split) for tool in tools)
            linked = {up for call in task.calls for up in upstream(call.arguments)}
            goals = [tool for call, tool in zip(task.calls, tools, strict=True) if call.id not in linked]
            assert all(may_be_goal(tool, split) for tool in goals)
    tool = next(iter(catalog))
    assert may_be_goal(tool, "train") != may_be_goal(tool, "test-seen")
    assert may_be_goal(tool, "test-unseen")


class Finds:
    """A search index that finds some tools for everything."""

    def __init__(self, tools: list[Tool]) -> None:
        self._hits = tuple(Hit(tool, 0.5, "") for tool in tools)

    def search(self, searches: list[Search], k: int = 5) -> list[Found]:
        return [Found(search, self._hits[:k], len(self._hits), False) for search in searches]


def test_task_whose_tool_no_search_finds_is_dropped(catalog: Catalog) -> None:
    blind = TaskSampler(catalog, Finds([])).sample("train", "single", 3)
    assert isinstance(blind, Dropped)
    assert blind.reason == "not_retrievable"
    seeing = TaskSampler(catalog, Finds([])).sample("train", "direct", 3)
    assert isinstance(seeing, Task)


def test_dials_are_checked() -> None:
    assert Dials.at(0).width == Dials.at(0).depth == 1
    assert Dials.at(1) == Dials(5, 3, 2, 0.15, 0.6)
    assert Dials.at(0.5).set(width=4, depth=None).width == 4
    for wrong in (-0.1, 1.5):
        with pytest.raises(UsageError, match="outside 0 to 1"):
            Dials.at(wrong)
    for dials in (Dials(width=6), Dials(depth=0), Dials(fault_rate=1.0), Dials(writes=2), Dials(distractors=-1)):
        with pytest.raises(UsageError):
            dials.check()


def test_depths_are_within_the_dials() -> None:
    for seed in range(50):
        assert depths("mixed", Dials(width=5, depth=3), Random(seed)) != []
        assert max(depths("mixed", Dials(width=1, depth=1), Random(seed))) == 2
        assert depths("parallel", Dials(width=1), Random(seed)) == [1, 1]
        assert 1 <= len(depths("recover", Dials(width=3), Random(seed))) <= 3


def test_puzzles_are_varied_and_never_answer_themselves() -> None:
    made = [puzzle(Random(seed)) for seed in range(300)]
    assert len(set(made)) > 280
    assert all(request.endswith("?") and answer for request, answer in made)
    assert len({request.split()[0] for request, _ in made}) >= 8


def test_rewording_must_keep_literals_and_numbers_and_name_no_tool(tasks: list[Task]) -> None:
    for task in tasks[:40]:
        assert reworded(task, lambda text: f" Hello! {text} Thanks. ").request == f"Hello! {task.request} Thanks."
        assert reworded(task, lambda text: text).to_json() == task.to_json()
        if task.kind != "unanswerable":
            with pytest.raises(UsageError, match="lost"):
                reworded(task, lambda text: "Do it, please.")
        if task.calls:
            with pytest.raises(UsageError, match="names the tool"):
                reworded(task, lambda text, name=task.calls[0].tool: f"{text} Use {name}.")


@pytest.mark.parametrize(
    ("description", "effect", "phrase"),
    [
        ("Returns a list of all contact phones for a user.", "read", "get the contact phones for a user"),
        ("Retrieve details for the specified domain", "read", "retrieve the domain"),
        ("This endpoint allows you to list web hooks.", "read", "list web hooks"),
        ("Event Offers. Returns Event Offers.", "read", "get event offers"),
        ("Create Short Link", "create", "create a short link"),
        ("Deletes an existing <b>supplier</b> by its ID.", "delete", "delete a supplier"),
        ("Updates a team specified by the `teamId` parameter.", "update", "update a team"),
        ("Deprecated. Use v2.", "read", None),
        ("No Documentation Found.", "read", None),
        ("Get the {x} of $y", "read", None),
        ("Read entities", "create", None),
        ("", "read", None),
    ],
)
def test_wording(description: str, effect: str, phrase: str | None) -> None:
    found = wording(Tool("t", description, {}, {}, effect))  # type: ignore[arg-type]
    assert (found.text if found else None) == phrase


def test_wording_never_holds_the_identifier() -> None:
    assert wording(Tool("t", "Get customerorders", {}, {}, "read", operation="customerorders")) is None


@pytest.mark.parametrize(
    ("provider", "title", "name"),
    [
        ("stripe.com", "Stripe API", "Stripe"),
        ("twilio.com", "Twilio - Fax", "Twilio Fax"),
        ("nytimes.com", "Books API", "Nytimes Books"),
        ("amazonaws.com", "Amazon EC2", "Amazon EC2"),
        ("googleapis.com", "Cloud Run Admin API", "Google Cloud Run Admin"),
        ("acme.co.uk", "", "Acme"),
        ("acme.com", "The RESTful API v2.1 (beta)", "Acme"),
    ],
)
def test_service_names(provider: str, title: str, name: str) -> None:
    assert service_name(Tool("t", "", {}, {}, "read", provider=provider, api_title=title)) == name


def test_labels() -> None:
    assert label("deliveryStatus") == "delivery status"
    assert label("accountID") == "account ID"
    assert label("phoneNumberNumber") == "phone number"
    assert label("cht") is label("p_qid") is label("") is None
    assert field_label("created_at") == "creation time"
    assert field_label("confirmedAt") == "time it was confirmed"
    assert field_label("completed_by") is None
    assert said("two words") == '"two words"'
    assert [said(value) for value in (True, 2.5, ["a", "b"], "a@b.c")] == ["true", "2.5", "a and b", "a@b.c"]


def literal(name: str, schema: JsonObject) -> JsonValue:
    values = Literals()
    values.seed(7)
    return values.value(name, schema)


def test_literals_fit_their_schema_or_are_none() -> None:
    assert literal("color", {"type": "string", "enum": ["red"]}) == "red"
    assert "@example.com" in str(literal("contact_email", {"type": "string"}))
    assert literal("page", {"type": "integer"}) == 1
    assert literal("month", {"type": "integer"}) in range(1, 13)
    assert literal("quantity", {"type": "integer", "minimum": 5, "maximum": 6}) in (5, 6)
    assert literal("name", {"type": "string", "pattern": "^x$"}) is None
    assert literal("access_token", {"type": "string"}) is None
    assert literal("filter", {"type": "object"}) is None
    assert literal("blob", {"type": "string"}) is None
    assert literal("blob", {"type": "string", "example": "EMEA"}) == "EMEA"
    assert literal("tags", {"type": "array", "items": {"type": "string", "enum": ["a1"]}}) == ["a1"]
    assert literal("deep", {"type": "array", "items": {"type": "array"}}) is None


def test_identifiers_fit_their_schema_or_are_none() -> None:
    values = Literals()
    values.seed(1)
    assert str(values.identifier({"type": "string"}, ("customer",))).startswith("cus")
    assert isinstance(values.identifier({"type": "integer"}, ("customer",)), int)
    assert len(str(values.identifier({"type": "string", "format": "uuid"}, ("customer",)))) == 36
    assert values.identifier({"type": "string", "maxLength": 2}, ("customer",)) is None


def test_families_are_the_sets_of_equivalents(catalog: Catalog) -> None:
    names = [name for family in catalog.families() for name in family]
    assert names == list(dict.fromkeys(names))
    assert all(len(family) > 1 for family in catalog.families())
    assert all(catalog.equivalents(name) == family for family in catalog.families() for name in family)
    assert set(names) == {name for name in catalog.names() if len(catalog.equivalents(name)) > 1}

"""Roles played by a language model behind a real local chat server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest

from chat_server import Answer, ChatServer
from paraagent.agent.policies.http import HttpConfig, HttpPolicy
from paraagent.catalog.store import Catalog
from paraagent.demos.experts import builtin
from paraagent.demos.llm import REPLIES, played
from paraagent.demos.maker import Maker
from paraagent.demos.produce import Keeper, produce_live
from paraagent.demos.reading import Solution
from paraagent.demos.recipe import Recipe
from paraagent.demos.roles import RoleName
from paraagent.demos.style import Style
from paraagent.demos.weaver import Weaver
from paraagent.env.shapes import Dials
from paraagent.env.task import Task
from paraagent.env.tasks import TaskSampler
from paraagent.evaluate.arena import Arena
from paraagent.protocol.grammar import parse
from paraagent.protocol.links import resolve, upstream
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonValue, TaskKind

ALL: tuple[RoleName, ...] = get_args(RoleName)
_ROLE = re.compile(r"You are (?:the|an) (\w+)")


class Team:
    """Answers for every role as a good model would; `first` says something else at a role's first question."""

    def __init__(self, task: Task, catalog: Catalog, first: dict[str, str] | None = None) -> None:
        self.task = task
        self.solution = Solution(task, catalog.get)
        self.first = dict(first or {})
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: dict[str, Any]) -> Answer:
        system, question = request["messages"][0]["content"], request["messages"][1]["content"]
        found = _ROLE.search(system)
        assert found
        role = found[1]
        self.asked.append((role, request["messages"][-1]["content"]))
        if role in self.first:
            return Answer(self.first.pop(role))
        reply = getattr(self, role)(question)
        return Answer(
            "<think>hm</think>\nHere it is:\n```json\n" + json.dumps({"thought": f"{role} thinks", **reply}) + "\n```"
        )

    def planner(self, question: str) -> dict[str, Any]:
        slots = [{"name": c.slot.name, "need": c.slot.need} for c in self.solution.capabilities]
        return {"slots": slots, "subgoals": ["one", "two"]}

    def explorer(self, question: str) -> dict[str, Any]:
        slot = question.split("Your slot:\n")[1].split(":")[0]
        capability = self.solution.by_slot[slot]
        if "nothing was searched yet" in question:
            return {"action": "search", "query": capability.slot.need}
        fit = [name for name in capability.tools if f"{name}(" in question]
        if fit:
            return {"action": "pick", "tool": fit[0]}
        return {"action": "give_up"} if question.count("query '") > 1 else {"action": "search", "query": slot}

    def coordinator(self, question: str) -> dict[str, Any]:
        by_tool = self.solution.by_tool
        calls = [
            {"id": c.id, "slot": by_tool[c.tool].slot.name, "purpose": c.tool, "after": upstream(c.arguments)}
            for c in self.task.calls
        ]
        return {"calls": calls}

    def executor(self, question: str) -> dict[str, Any]:
        call = next(c for c in self.task.calls if f"Your call:\n{c.id}:" in question)
        results: dict[str, JsonValue] = {}
        if "Results:" in question:
            for id, value in re.findall(r"^- (c\d+): (.*)$", question.split("Results:")[1], re.MULTILINE):
                results[id] = json.loads(value)
        arguments = {
            n: resolve(v, results) if set(upstream(v)) <= results.keys() else v for n, v in call.arguments.items()
        }
        return {"arguments": arguments}

    def answerer(self, question: str) -> dict[str, Any]:
        if self.task.literal_answer:
            return {"answer": f"It is {self.task.literal_answer}."}
        if "No tool was found for:" in question:
            return {"answer": "There is no tool for this."}
        return {"answer": "Done. " + "; ".join(f"{fact.label}: {fact.value}" for fact in self.task.facts)}

    def critic(self, question: str) -> dict[str, Any]:
        return {"accept": True}


def sampled(catalog: Catalog, index: SearchIndex, kind: TaskKind) -> Task:
    tasks = (TaskSampler(catalog, index).sample("train", kind, n, Dials(width=2, depth=2)) for n in range(50))
    return next(task for task in tasks if isinstance(task, Task))


def play(
    task: Task,
    catalog: Catalog,
    index: SearchIndex,
    server: ChatServer,
    roles: tuple[RoleName, ...] = ALL,
    linked: bool = True,
) -> tuple[EpisodeView, Weaver]:
    async def run() -> tuple[EpisodeView, Weaver]:
        async with HttpPolicy(HttpConfig("tiny", server.base_url)) as model:
            weaver = Weaver(played(model, roles, builtin(task, catalog.get, Style())), linked=linked)
            recorder = Recorder()
            await Arena(catalog, index).play(task, weaver, recorder)
            return EpisodeView(recorder.events), weaver

    return asyncio.run(run())


@pytest.mark.parametrize("kind", ["mixed", "unanswerable", "direct"])
@pytest.mark.parametrize("linked", [True, False])
def test_a_model_that_plays_all_roles_solves_a_task(
    catalog: Catalog, index: SearchIndex, kind: TaskKind, linked: bool
) -> None:
    task = sampled(catalog, index, kind)
    team = Team(task, catalog)
    with ChatServer(team) as server:
        view, weaver = play(task, catalog, index, server, linked=linked)
    assert view.success, view.end
    assert weaver.refused is None
    assert "planner thinks" in parse(view.turns[0].text).think
    assert view.measures.input_tokens == 100 * len(team.asked)
    told = " ".join(question for _, question in team.asked)
    assert task.request in told


def test_explorers_and_executors_are_asked_at_the_same_time(catalog: Catalog, index: SearchIndex) -> None:
    task = sampled(catalog, index, "parallel")
    team = Team(task, catalog)

    def slowly(request: dict[str, Any]) -> Answer:
        return replace(team(request), delay=0.05)

    with ChatServer(slowly) as server:
        view, _ = play(task, catalog, index, server)
        assert view.success
        assert server.peak >= 2


@pytest.mark.parametrize(
    ("role", "bad", "told"),
    [
        ("planner", "I think we need two tools.", "not valid JSON"),
        ("planner", '{"slots": [{"name": "a"}]}', "need"),
        ("planner", '{"slots": [{"name": "a", "need": "x"}, {"name": "a", "need": "y"}]}', "must differ"),
        ("planner", '{"slots": [{"name": ":", "need": "x"}]}', "needs a name"),
        ("explorer", '{"action": "pick", "tool": "nonsense"}', "no search has shown"),
        ("explorer", '{"action": "search"}', "give the query"),
        ("coordinator", '{"calls": [{"id": "c1", "slot": "nonsense"}]}', "is not a slot"),
        ("executor", '{"arguments": null}', "give the arguments"),
        ("executor", '{"arguments": "x"}', "object"),
        ("answerer", '{"answer": " "}', "empty"),
        ("critic", '{"accept": false}', "who has to do it again"),
    ],
)
def test_a_reply_that_cannot_be_used_is_told_and_asked_for_again(
    catalog: Catalog, index: SearchIndex, role: str, bad: str, told: str
) -> None:
    task = sampled(catalog, index, "single")
    team = Team(task, catalog, {role: bad})
    with ChatServer(team) as server:
        view, _ = play(task, catalog, index, server)
    assert view.success
    assert any(own == role and told in text and "cannot be used" in text for own, text in team.asked)


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([{"id": "1", "slot": "S"}], "cannot be an id"),
        ([{"id": "a", "slot": "S"}, {"id": "a", "slot": "S"}], "cannot be an id"),
        ([{"id": "a", "slot": "S", "after": ["b"]}], "does not stand before it"),
    ],
)
def test_an_arrangement_that_cannot_run_is_asked_for_again(
    catalog: Catalog, index: SearchIndex, calls: list[dict[str, Any]], told: str
) -> None:
    task = sampled(catalog, index, "single")
    slot = Solution(task, catalog.get).capabilities[0].slot.name
    reply = json.dumps({"calls": calls}).replace('"S"', json.dumps(slot))
    team = Team(task, catalog, {"coordinator": reply})
    with ChatServer(team) as server:
        view, _ = play(task, catalog, index, server)
    assert view.success
    assert any(told in text for own, text in team.asked if own == "coordinator")


def test_a_model_that_never_gives_a_usable_reply_masks_the_episode(catalog: Catalog, index: SearchIndex) -> None:
    task = sampled(catalog, index, "single")
    with ChatServer(default=Answer("no JSON here")) as server:
        view, _ = play(task, catalog, index, server)
        assert len(server.requests) == REPLIES
    assert view.end
    assert view.end.mask_sample
    assert "gave no usable reply as planner" in (view.end.failure_kind or "")


def test_the_critic_may_send_work_back(catalog: Catalog, index: SearchIndex) -> None:
    task = sampled(catalog, index, "single")
    refusal = json.dumps({"accept": False, "back_to": "planner", "reason": "a part is missing"})
    team = Team(task, catalog, {"critic": refusal})
    with ChatServer(team) as server:
        view, weaver = play(task, catalog, index, server)
    assert view.success
    assert weaver.refused is None
    assert any(own == "planner" and "a part is missing" in text for own, text in team.asked)


def test_a_model_may_play_some_roles_and_the_experts_the_others(catalog: Catalog, index: SearchIndex) -> None:
    task = sampled(catalog, index, "chain")
    team = Team(task, catalog)
    with ChatServer(team) as server:
        view, weaver = play(task, catalog, index, server, roles=("answerer",))
    assert view.success
    assert [role for role, _ in team.asked] == ["answerer"]
    assert weaver.name == "weaver:http:tiny as answerer"


def test_hostile_text_in_results_reaches_the_model_neutralised(catalog: Catalog, index: SearchIndex) -> None:
    task = sampled(catalog, index, "single")
    team = Team(task, catalog)
    arena = Arena(catalog, index, hostile_rate=1.0)

    async def run(server: ChatServer) -> None:
        async with HttpPolicy(HttpConfig("tiny", server.base_url)) as model:
            weaver = Weaver(played(model, ALL, builtin(task, catalog.get, Style())))
            await arena.play(task, weaver, Recorder())

    with ChatServer(team) as server:
        asyncio.run(run(server))
    told = [text for role, text in team.asked if role == "answerer"]
    assert told
    assert not any("</tool_response>" in text for text in told)


def test_several_lots_are_made_at_once_and_kept_in_order(catalog: Catalog, index: SearchIndex) -> None:
    teams: dict[str, Team] = {}

    def answer(request: dict[str, Any]) -> Answer:
        question = request["messages"][1]["content"]
        return next(team for text, team in teams.items() if f"Request:\n{text}\n" in question + "\n")(request)

    async def run(server: ChatServer, concurrency: int) -> list[str]:
        kept: list[str] = []
        recipe = Recipe(limit=4, kinds=("direct", "single"), mistakes=0.0)
        async with HttpPolicy(HttpConfig("tiny", server.base_url)) as model:

            def cast_for(task: Task, style: Style) -> Any:
                teams[task.request] = Team(task, catalog)
                return played(model, ALL, builtin(task, catalog.get, style))

            keeper = Keeper(recipe, lambda demo: kept.append(demo.task_id))
            await produce_live(Maker(catalog, index, recipe, cast_for), concurrency, keeper)
        return kept

    with ChatServer(answer) as server:
        one = asyncio.run(run(server, 1))
    with ChatServer(answer) as server:
        assert asyncio.run(run(server, 3)) == one
    assert len(one) == 4


def test_prompts_never_hold_the_solution(catalog: Catalog, index: SearchIndex) -> None:
    task = sampled(catalog, index, "single")
    seen: list[str] = []

    def watch(team: Team) -> Callable[[dict[str, Any]], Answer]:
        def answer(request: dict[str, Any]) -> Answer:
            seen.append(request["messages"][1]["content"])
            return team(request)

        return answer

    with ChatServer(watch(Team(task, catalog))) as server:
        play(task, catalog, index, server)
    gold = task.calls[0].tool
    assert gold not in seen[0]
    assert gold not in seen[1]
    assert any(gold in text for text in seen[2:])

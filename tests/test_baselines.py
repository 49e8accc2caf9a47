"""Baselines: what the settings enforce, what a restricted policy does piecemeal, and the dialects of models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from paraagent.agent.budget import Budget
from paraagent.agent.context import Context, Exchange
from paraagent.agent.policies.http_draft import Draft, FunctionCall, UnusableAnswer
from paraagent.agent.policies.oracle import OraclePolicy
from paraagent.agent.settings import Settings
from paraagent.catalog.store import Catalog
from paraagent.env.shapes import Dials
from paraagent.env.task import Task
from paraagent.env.tasks import TaskSampler
from paraagent.errors import UsageError
from paraagent.evaluate.baselines.native import NativePolicy, read_message
from paraagent.evaluate.baselines.paradigm import PARADIGMS, Paradigm, adapt, paradigm
from paraagent.evaluate.baselines.planner import PlannerPolicy, held_to
from paraagent.evaluate.baselines.priced import Price, PricedPolicy
from paraagent.evaluate.baselines.react import ReactPolicy, read_step
from paraagent.evaluate.baselines.restricted import RestrictedPolicy
from paraagent.evaluate.benchmarks.toolenv import ToolEnvBenchmark
from paraagent.protocol.grammar import parse
from paraagent.protocol.plan import SearchPlan
from paraagent.protocol.prompt import system_prompt
from paraagent.protocol.render import render_turn
from paraagent.search.search import SearchIndex
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Call, Found, Hit, JsonObject, Message, Policy, Reply, Result, Search, Tool, Usage

BASE = Settings(durable=False)
NAMES = [way.name for way in PARADIGMS]


@pytest.fixture(scope="module")
def tasks(catalog: Catalog, index: SearchIndex) -> list[Task]:
    sampler = TaskSampler(catalog, index)
    return list(sampler.tasks("train", ("mixed", "parallel", "chain", "recover"), range(16), Dials(width=3, depth=2)))


def play(
    catalog: Catalog, index: SearchIndex, task: Task, policy: Policy, way: Paradigm, base: Settings = BASE
) -> EpisodeView:
    bench = ToolEnvBenchmark(catalog, index, [task], k=way.hits(5))
    recorder = Recorder()
    asyncio.run(bench.play(bench.items[0], policy, recorder, way.settings(base)))
    return EpisodeView(recorder.events)


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_solves_what_a_paradigm_allows(
    catalog: Catalog, index: SearchIndex, tasks: list[Task], name: str
) -> None:
    way = paradigm(name)
    views = [play(catalog, index, task, adapt(OraclePolicy([task]), way, model=False), way) for task in tasks]
    solved = sum(bool(view.success) for view in views)
    assert solved == len(tasks) if way.exploring == "free" else solved >= len(tasks) // 2
    for view in views:
        if way.actions is not None:
            assert view.measures.max_width <= way.actions
        if not way.plans:
            assert not any("<plan>" in turn.text for turn in view.turns)
            assert not any(note.kind == "plan" for turn in view.turns for note in turn.notes)
        if not way.links:
            assert all(call.end.raw_arguments is None for call in view.calls if call.end)
        if way.exploring == "retrieved":
            assert [search.query for search in view.searches] == [" ".join(view.request.split())]


def test_restricted_the_policy_sees_what_it_would_have_seen(
    catalog: Catalog, index: SearchIndex, tasks: list[Task]
) -> None:
    for task in tasks:
        answers = set()
        for name in ("paraact", "no-plans", "no-links", "no-parallel", "native", "react-eae"):
            way = paradigm(name)
            view = play(catalog, index, task, adapt(OraclePolicy([task]), way, model=False), way)
            answers.add(view.answer)
            assert len(list(view.calls)) >= len(task.calls)
        assert len(answers) == 1


def test_one_action_a_turn_takes_the_turns_it_must(catalog: Catalog, index: SearchIndex, tasks: list[Task]) -> None:
    task = next(task for task in tasks if task.kind == "parallel")
    way = paradigm("react-eae")
    view = play(catalog, index, task, adapt(OraclePolicy([task]), way, model=False), way)
    assert view.measures.turns == len(task.slots) + len(task.calls) + 1
    native = play(
        catalog, index, task, adapt(OraclePolicy([task]), paradigm("native"), model=False), paradigm("native")
    )
    assert native.measures.turns == 3


def test_plan_then_execute_never_goes_back_to_searching(
    catalog: Catalog, index: SearchIndex, tasks: list[Task]
) -> None:
    way = paradigm("plan-execute")
    for task in tasks:
        view = play(catalog, index, task, adapt(OraclePolicy([task]), way, model=False), way)
        kinds = [turn.kind for turn in view.turns]
        assert kinds[0] == "exploration"
        assert "exploration" not in kinds[1:]
        assert kinds.count("execution") <= 2


def test_out_of_turns_it_answers_with_what_it_has(catalog: Catalog, index: SearchIndex, tasks: list[Task]) -> None:
    task = next(task for task in tasks if len(task.calls) > 2)
    way = paradigm("react-eae")
    for turns in range(2, 2 * len(task.calls) + 1):
        base = replace(BASE, budget=Budget(turns=turns))
        view = play(catalog, index, task, adapt(OraclePolicy([task]), way, model=False), way, base)
        assert view.end is not None
        assert (view.end.stop_reason, view.measures.turns <= turns) == ("answered", True)


def test_a_resumed_episode_goes_on_alike(catalog: Catalog, index: SearchIndex, tasks: list[Task]) -> None:
    class Forgetful:
        """Forgets everything after each turn, as a new process does."""

        name = "forgetful"

        def __init__(self, task: Task, way: Paradigm) -> None:
            self._make = lambda: RestrictedPolicy(OraclePolicy([task]), way)

        async def act(self, context: Context) -> Reply:
            return await self._make().act(context)

    for name in ("no-links", "react-eae", "react-ete", "plan-execute"):
        way = paradigm(name)
        for task in tasks[:6]:
            once = play(catalog, index, task, RestrictedPolicy(OraclePolicy([task]), way), way)
            again = play(catalog, index, task, Forgetful(task, way), way)
            assert [turn.text for turn in once.turns] == [turn.text for turn in again.turns]


class Circular:
    """Asks for two calls that wait for each other, then answers."""

    name = "circular"

    async def act(self, context: Context) -> Reply:
        if not context.exchanges:
            return Reply(render_turn("", searches=[Search("any", context.request)]))
        if any(exchange.results for exchange in context.exchanges):
            return Reply(render_turn("", answer="Done."))
        names = list(context.surfaced()) or ["nothing"]
        calls = [Call(names[0], {"a": "$y.b"}, "x"), Call(names[0], {"a": "$x.b"}, "y")]
        return Reply(render_turn("", calls=calls))


@pytest.mark.parametrize("name", ["paraact", "no-links", "no-parallel"])
def test_calls_that_wait_for_each_other_do_not_hang(
    catalog: Catalog, index: SearchIndex, tasks: list[Task], name: str
) -> None:
    way = paradigm(name)
    view = play(catalog, index, tasks[0], adapt(Circular(), way, model=False), way)
    assert view.answer == "Done."


class Stubborn:
    """Does what it likes whatever the settings say."""

    name = "stubborn"

    async def act(self, context: Context) -> Reply:
        if not context.exchanges:
            return Reply(
                render_turn(
                    "", plan=SearchPlan(("a", "b")), searches=[Search("a", context.request), Search("b", "order")]
                )
            )
        if len(context.exchanges) == 1:
            name = next(iter(context.surfaced()))
            calls = [Call(name, {"x": "$nobody.y"}), Call(name, {})]
            return Reply(render_turn("", calls=calls))
        return Reply(render_turn("", answer="Done."))


def test_the_loop_holds_any_policy_to_its_settings(catalog: Catalog, index: SearchIndex, tasks: list[Task]) -> None:
    view = play(catalog, index, tasks[0], Stubborn(), paradigm("react-eae"))
    assert len(list(view.searches)) == 1
    first, second = (call.end for call in view.calls)
    assert first is not None
    assert second is not None
    assert (first.error, second.error) == ("invalid_args", "cancelled")
    assert "cannot be linked" in str(first.message)
    assert "at most 1" in str(second.message)
    notes = [note.text for turn in view.turns for note in turn.notes]
    assert "Only 1 of 2 searches were run: a turn holds at most 1." in notes


def test_the_prompt_speaks_only_of_what_there_is() -> None:
    whole, bare = system_prompt(), system_prompt("off", actions=1, links=False)
    for word in ("<plan>", '"$id.path.to.field"', "in parallel", "capacity_slots"):
        assert word in whole
        assert word not in bare
    assert "ONE action" in bare
    assert "at most 3 blocks" in system_prompt(actions=3)
    turn = parse(bare.partition("Example\n")[2])
    assert (turn.faults, len(turn.calls)) == ((), 1)


def test_paradigms_have_names() -> None:
    assert paradigm("native").title == "native function calling"
    with pytest.raises(UsageError, match="use paraact, no-plans"):
        paradigm("magic")


def test_turns_are_priced_alike_and_a_retrieval_is_free() -> None:
    policy = PricedPolicy(Circular(), Price(start=1.0, thought=100, speed=50.0), free_turns=1)
    context = Context("order", messages=[Message("system", "x" * 40)])
    assert asyncio.run(policy.act(context)).seconds == 0.0
    context.exchanges.append(Exchange(parse("<answer>no</answer>")))
    reply = asyncio.run(policy.act(context))
    written = -(-len(reply.text) // 4)
    assert reply.seconds == pytest.approx(1.0 + (100 + written) / 50.0)
    assert reply.usage == Usage(10, written)


TOOL = Tool("get_order", "Get an order.", {"type": "object", "properties": {}}, {"type": "object"}, "read")
FOUND = Found(Search("step 1", "orders"), (Hit(TOOL, 0.9, "name"),), 10, False)
CALL = Call("get_order", {"id": "$$a.b"})


def history() -> Context:
    search = Exchange(parse(render_turn("find it", searches=[Search("step 1", "orders")])), found=(FOUND,))
    result = Result(CALL, CALL.arguments, value={"status": "shipped"})
    made = Exchange(parse(render_turn("get it", calls=[CALL])), results=(result,), notes=("Careful.",))
    return Context("Where is order $a.b?", exchanges=[search, made], turns_left=1)


class Model:
    """A language model that says one thing and remembers what it was asked."""

    name = "model"

    def __init__(self, text: str = "", calls: Sequence[FunctionCall] = ()) -> None:
        self.text, self.calls = text, calls
        self.asked: list[list[Message]] = []
        self.wire: Sequence[JsonObject] = ()

    async def act(self, context: Context) -> Reply:
        self.asked.append(list(context.messages))
        return Reply(self.text, Usage(7, 3), 0.5)

    async def complete(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] = (), *, most: int | None = None
    ) -> Draft:
        self.wire = messages
        return Draft([self.text], calls=dict(enumerate(self.calls)), usage=Usage(7, 3))


@pytest.mark.parametrize(
    ("text", "kind", "holds"),
    [
        ('Thought: a\nAction: search_tools\nAction Input: {"query": "send: mail"}', "exploration", "send: mail"),
        ('Thought: a\nAction: get_order\nAction Input: {"id": "$a.x"}', "execution", '"$$a.x"'),
        ('Action: `get_order`\nAction Input: ```json\n{"id": 5}\n```', "execution", '"id": 5'),
        ('Thought: a\nAction: finish\nAction Input: {"answer": "It is 5."}', "answer", "It is 5."),
        ("<think>hm</think>Thought: a\nFinal Answer: It is 5.", "answer", "It is 5."),
        ("It is 5.", "answer", "It is 5."),
        ('Thought: a\nAction: f\nAction Input: {"a": 1}\nObservation: {"b": 2}\nThought: c', "execution", '"a": 1'),
        ("", "invalid", ""),
    ],
)
def test_react_steps_become_turns(text: str, kind: str, holds: str) -> None:
    turn = parse(read_step(text, 3))
    assert turn.kind == kind
    assert holds in turn.text
    assert "Observation" not in turn.text


def test_a_react_input_that_cannot_be_read_gets_its_answer_there() -> None:
    turn = parse(read_step("Thought: a\nAction: get_order\nAction Input: {id: 5", 1))
    assert turn.kind == "execution"
    assert "not valid JSON" in str(turn.calls[0])


def test_react_reads_its_own_dialect_and_only_ever_more_of_it() -> None:
    model = Model('Thought: done\nAction: finish\nAction Input: {"answer": "shipped"}')
    policy, context = ReactPolicy(model, retrieved=False), history()
    later = replace(context, turns_left=2)
    earlier = replace(later, exchanges=context.exchanges[:1], turns_left=3)
    for state in (earlier, later, context):
        assert parse(asyncio.run(policy.act(state)).text).answer == "shipped"
    before, after, last = model.asked
    assert after[: len(before)] == before
    assert [message.role for message in after] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert 'Action Input: {"id": "$a.b"}' in after[4].content
    assert after[5].content.startswith('Observation: {"name":"get_order","result":{"status":"shipped"}}')
    assert after[5].content.endswith("Careful.")
    assert last[5].content.endswith("This is the last step: give the answer now, with what is known.")
    text = "\n".join(message.content for message in last)
    assert not any(tag in text for tag in ("<tools>", "<tool_response>", "<think>", "<tool_call>"))


def test_react_without_a_search_tool_gets_one_retrieval() -> None:
    model = Model("It is shipped.")
    policy = ReactPolicy(model, retrieved=True)
    first = parse(asyncio.run(policy.act(Context("Where is\nmy order?", turns_left=15))).text)
    assert [search.query for search in first.searches] == ["Where is my order?"]
    assert model.asked == []
    context = history()
    context.exchanges = context.exchanges[:1]
    asyncio.run(policy.act(context))
    system, user = model.asked[0]
    assert "search_tools" not in system.content
    assert "get_order() - Get an order" in user.content


@pytest.mark.parametrize(
    ("calls", "kind", "count"),
    [
        ([("search_tools", '{"query": "a"}'), ("search_tools", '{"query": "b"}')], "exploration", 2),
        (
            [("call_tool", '{"name": "f", "arguments": {"x": "$a.b"}}'), ("call_tool", '{"name": "g"}')],
            "execution",
            2,
        ),
        ([("search_tools", '{"query": "a"}'), ("call_tool", '{"name": "f"}')], "exploration", 1),
        ([("get_order", '{"id": 5}')], "execution", 1),
        ([("call_tool", "{broken")], "execution", 1),
        ([("call_tool", '{"arguments": {}}')], "execution", 1),
    ],
)
def test_native_calls_become_turns(calls: list[tuple[str, str]], kind: str, count: int) -> None:
    turn = parse(read_message("thinking", [FunctionCall(*call) for call in calls], 1))
    assert (turn.kind, turn.think) == (kind, "thinking")
    assert len(turn.searches) + len(turn.calls) == count


def test_native_history_answers_every_call_by_its_id() -> None:
    model = Model("It is shipped.")
    reply = asyncio.run(NativePolicy(model).act(history()))
    assert parse(reply.text).answer == "It is shipped."
    assert reply.usage == Usage(7, 3)
    ids = [call["id"] for message in model.wire for call in _calls(message)]
    answered = [message["tool_call_id"] for message in model.wire if message["role"] == "tool"]
    assert ids == answered
    assert len(ids) == 2
    assert [message["role"] for message in model.wire[-3:]] == ["tool", "user", "user"]


def _calls(message: JsonObject) -> Iterator[dict[str, object]]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        assert isinstance(call, dict)
        yield dict(call)


def test_streamed_native_calls_are_put_together() -> None:
    draft = Draft()
    pieces = [(0, "call_tool", '{"na'), (0, None, 'me": "f"}'), (1, "search_tools", "{}")]
    for index, name, arguments in pieces:
        function = SimpleNamespace(name=name, arguments=arguments)
        delta = SimpleNamespace(content=None, tool_calls=[SimpleNamespace(index=index, function=function)])
        draft.take(SimpleNamespace(choices=[SimpleNamespace(delta=delta, finish_reason=None)]))
    assert draft.calls == {0: FunctionCall("call_tool", '{"name": "f"}'), 1: FunctionCall("search_tools", "{}")}
    broken = SimpleNamespace(content=None, tool_calls=[SimpleNamespace(function=SimpleNamespace(name=5))])
    with pytest.raises(UnusableAnswer, match="name of a tool call is int"):
        draft.take(SimpleNamespace(choices=[SimpleNamespace(delta=broken)]))


def test_native_is_refused_to_a_model_without_function_calling() -> None:
    class Text:
        name = "text"

        async def act(self, context: Context) -> Reply:
            return Reply("")

    with pytest.raises(UsageError, match="text has no function calling"):
        adapt(Text(), paradigm("native"), model=True)
    assert adapt(Model(), paradigm("native"), model=True).name == "model as native"
    assert adapt(Model(), paradigm("no-plans"), model=True).name == "model"


SEARCH = render_turn("a", searches=[Search("s", "q")])
CALLS = render_turn("a", calls=[Call("f", {})])
ANSWER = render_turn("a", answer="x")


def test_the_planner_keeps_to_its_stages() -> None:
    assert [held_to(text, "search") for text in (SEARCH, ANSWER)] == [SEARCH, ANSWER]
    assert parse(held_to(CALLS, "search")).kind == "invalid"
    assert held_to(CALLS, "plan") == CALLS
    assert parse(held_to(SEARCH, "plan")).kind == "invalid"
    assert parse(held_to(CALLS, "join")).kind == "invalid"
    model = Model(SEARCH)
    context = history()
    context.messages = [Message("system", "old"), Message("user", "the request")]
    assert parse(asyncio.run(PlannerPolicy(model).act(context)).text).kind == "invalid"
    assert model.asked[0][1] == Message("user", "the request")
    assert "three stages" in model.asked[0][0].content


class Reciter:
    """A language model that says its lines one after the other, as text or as native calls."""

    name = "reciter"

    def __init__(self, *lines: str | Sequence[FunctionCall]) -> None:
        self._lines = list(lines)

    async def act(self, context: Context) -> Reply:
        line = self._lines.pop(0)
        assert isinstance(line, str)
        return Reply(line, Usage(50, 5), 1.0)

    async def complete(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] = (), *, most: int | None = None
    ) -> Draft:
        line = self._lines.pop(0)
        return Draft([line]) if isinstance(line, str) else Draft(calls=dict(enumerate(line)))


@pytest.mark.parametrize("name", ["react-eae", "react-ete", "native", "plan-execute"])
def test_a_model_solves_a_task_in_every_dialect(catalog: Catalog, index: SearchIndex, name: str) -> None:
    task = next(TaskSampler(catalog, index).tasks("train", ("single",), range(20), Dials(writes=0.0)))
    answer = play(catalog, index, task, OraclePolicy([task]), paradigm("paraact")).answer or ""
    (gold,), (slot,) = task.calls, task.slots
    arguments, said = json.dumps(gold.arguments), json.dumps({"answer": answer})
    query = json.dumps({"query": slot.query})
    step = "Thought: next\nAction: {}\nAction Input: {}"
    react = [step.format("search_tools", query), step.format(gold.tool, arguments), step.format("finish", said)]
    proxied = json.dumps({"name": gold.tool, "arguments": gold.arguments})
    lines: dict[str, list[str | Sequence[FunctionCall]]] = {
        "react-eae": [*react],
        "react-ete": react[1:],
        "native": [[FunctionCall("search_tools", query)], [FunctionCall("call_tool", proxied)], answer],
        "plan-execute": [
            render_turn("a", searches=[Search("s", slot.query)]),
            render_turn("a", calls=[Call(gold.tool, gold.arguments, "c")]),
            render_turn("a", answer=answer),
        ],
    }
    way = paradigm(name)
    view = play(catalog, index, task, adapt(Reciter(*lines[name]), way, model=True), way)
    assert view.success is True
    assert view.measures.turns == 3
    assert not [note for turn in view.turns for note in turn.notes]


def test_what_links_to_a_failed_call_fails_as_in_the_scheduler(catalog: Catalog, index: SearchIndex) -> None:
    sampler = TaskSampler(catalog, index)
    task = next(task for task in sampler.tasks("train", ("chain",), range(20)) if task.layers() == [1, 2])
    spoilt = replace(task, calls=(replace(task.calls[0], arguments={"nonsense": 1}), task.calls[1]))

    class Watcher:
        """The oracle of a task whose first call cannot work; keeps what it was told."""

        name = "watcher"

        def __init__(self) -> None:
            self.told: list[tuple[str, str | None]] = []
            self._oracle = OraclePolicy([spoilt])

        async def act(self, context: Context) -> Reply:
            self.told = [(r.call.name, r.error and r.error.kind) for r in context.results()]
            return await self._oracle.act(context)

    watchers = []
    for name in ("paraact", "no-links"):
        watchers.append(Watcher())
        play(catalog, index, task, adapt(watchers[-1], paradigm(name), model=False), paradigm(name))
    assert watchers[0].told == watchers[1].told
    assert (task.calls[1].tool, "cancelled") in watchers[0].told

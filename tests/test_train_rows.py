"""Demonstrations become tokens: the ones that the local policy reads and writes, learned where they should be."""

from __future__ import annotations

import asyncio

import pytest

import tiny_model

pytest.importorskip("transformers")

from paraagent.agent.context import Context
from paraagent.agent.engine.chat import Chat
from paraagent.agent.policies.model import LocalConfig, LocalModel
from paraagent.demos.demo import Demo
from paraagent.protocol import compact
from paraagent.protocol.flow import call_plan
from paraagent.protocol.observe import render_found, render_result
from paraagent.protocol.plan import SearchPlan, Subgoal
from paraagent.protocol.render import render_turn
from paraagent.train.rows import retell, row
from paraagent.types import Call, Found, Hit, Message, Result, Search, Tool

pytestmark = [pytest.mark.filterwarnings(warning) for warning in tiny_model.WARNINGS]
TOOLS = [Tool(name, "Does it.", {"type": "object"}, {"type": "object"}, "read") for name in ("get_order", "track")]
SEARCHES = (Search("order", "Pinecart: get an order"), Search("parcel", "track a parcel"))
CALLS = (
    Call("get_order", {"order_id": "A7"}),
    Call("track", {"parcel": "$c2.parcels.0.id"}),
    Call("get_order", {}, "c2"),
)


def found(search: Search, *tools: Tool) -> str:
    return render_found(Found(search, tuple(Hit(tool, 0.9, "") for tool in tools), 9, not tools))


def demo(loss: tuple[bool, ...] | None = None) -> Demo:
    plan = SearchPlan(("order", "parcel"), (Subgoal("g1", "both"),))
    results = "\n".join(render_result(Result(call, call.arguments, {"id": n})) for n, call in enumerate(CALLS))
    messages = (
        Message("system", "rules"),
        Message("user", "Where is my order A7?"),
        Message("assistant", render_turn("I search.", plan=plan, searches=SEARCHES)),
        Message("user", "\n".join([found(SEARCHES[0], TOOLS[0], TOOLS[1]), found(SEARCHES[1], TOOLS[1])])),
        Message("assistant", render_turn("I call.", plan=call_plan(CALLS), calls=CALLS)),
        Message("user", results),
        Message("assistant", render_turn("I say.", answer="On its way.")),
    )
    return Demo("t", messages, loss or tuple(message.role == "assistant" for message in messages))


def test_a_demonstration_is_retold_in_the_compact_dialect() -> None:
    system, request, search, tools, calls, results, answer = (message.content for message in retell(demo()))
    assert (system, request) == (compact.SYSTEM, "Where is my order A7?")
    assert search == "find\nPinecart get an order\ntrack a parcel"
    assert tools.startswith("Pinecart get an order:\nget_order() - Does it")
    assert calls == (
        'run\nPinecart get an order: c1 = get_order(order_id="A7")\n'
        "track a parcel: c3 = track(parcel=$c2.parcels.0.id)\n"
        "Pinecart get an order: c2 = get_order()"
    )
    assert results == 'c1: {"id":0}\nc3: {"id":1}\nc2: {"id":2}'
    assert answer == "say\nOn its way."


@pytest.mark.parametrize("dialect", ["compact", "tags"])
def test_only_turns_to_be_learned_are_marked(dialect: str) -> None:
    chat = Chat(tiny_model.tokenizer())
    loss = (False, False, True, False, False, False, True)
    made = row(demo(loss), chat, dialect)  # type: ignore[arg-type]
    learned = [token for token, mark in zip(made.input_ids, made.completion_mask, strict=True) if mark]
    messages = retell(demo()) if dialect == "compact" else demo().messages
    assert learned == chat.turn(messages[2].content) + chat.turn(messages[6].content)
    assert made.learned == len(learned)


@pytest.mark.parametrize("dialect", ["compact", "tags"])
def test_the_policy_reads_the_very_tokens_that_were_learned(dialect: str) -> None:
    policy = LocalModel.over(tiny_model.model(), tiny_model.tokenizer(), LocalConfig(dialect=dialect, max_tokens=1))  # type: ignore[arg-type]
    made = row(demo(), policy.chat, dialect)  # type: ignore[arg-type]
    own = policy.episode()
    first = Context("r", list(demo().messages[:2]))
    asyncio.run(own.act(first))
    prompt = [*own.transcript.prompt_ids]
    assert made.input_ids[: len(prompt)] == prompt
    assert not any(made.completion_mask[: len(prompt)])
    assert made.completion_mask[len(prompt)]


def test_a_turn_that_does_nothing_cannot_be_retold() -> None:
    empty = Demo("t", (Message("user", "Hi."), Message("assistant", "<think>hm</think>")), (False, True))
    with pytest.raises(ValueError, match="invalid turn"):
        retell(empty)

"""What is written reads back as what was meant."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraagent.protocol.grammar import parse
from paraagent.protocol.neutralise import TAGS
from paraagent.protocol.plan import CallPlan, Dependency, SearchPlan, Subgoal
from paraagent.protocol.render import render, render_answer, render_search, render_turn
from paraagent.types import Call, Search

SEARCH_PLAN = '<plan>{"capacity_slots": ["orders"]}</plan>'
CALL_PLAN = (
    '<plan>{"available_tools": ["a"], "dependencies": [], "execution_flow": [{"step": 1, "parallel": ["a"]}]}</plan>'
)
CALL = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
PIECES = [f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")] + ["orders: find", "\\", '"', "<", "&lt;", "x"]
hostile = st.text(max_size=20) | st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
names = hostile.map(str.strip).filter(bool)
slots = names.filter(lambda name: ":" not in name and "</search_tool>" not in name)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile, inner, max_size=3),
    max_leaves=8,
)
subgoals = st.lists(st.builds(Subgoal, names, names), max_size=2).map(tuple)
search_plans = st.builds(SearchPlan, st.lists(names, min_size=1, max_size=3).map(tuple), subgoals)
tools = st.lists(names, min_size=1, max_size=3).map(tuple)
call_plans = st.builds(
    CallPlan,
    tools,
    st.lists(st.builds(Dependency, tools, names), max_size=3).map(tuple),
    st.lists(tools, min_size=1, max_size=3).map(tuple),
    subgoals,
)
calls = st.builds(Call, names, st.dictionaries(hostile, values, max_size=3))
searches = st.builds(Search, slots, names.filter(lambda text: "</search_tool>" not in text))
thoughts = names.filter(lambda text: "</think>" not in text)


@given(thoughts, st.none() | call_plans, st.lists(calls, min_size=1, max_size=3))
@settings(max_examples=60)
def test_call_turns_read_back(think, plan, group):
    group = [replace(call, id=f"c{number}") for number, call in enumerate(group)]
    turn = parse(render_turn(think, plan=plan, calls=group))
    assert (turn.think, turn.plan, list(turn.calls), turn.faults) == (think, plan, group, ())


@given(thoughts, st.none() | search_plans, st.lists(searches, min_size=1, max_size=3))
@settings(max_examples=60)
def test_search_turns_read_back(think, plan, group):
    turn = parse(render_turn(think, plan=plan, searches=group))
    assert (turn.think, turn.plan, list(turn.searches), turn.faults) == (think, plan, group, ())


@given(hostile)
def test_an_answer_cannot_leave_its_block(text):
    turn = parse(render_turn("x", answer=text + "."))
    assert turn.kind == "answer"
    assert turn.faults == ()


@given(st.lists(st.sampled_from([*PIECES, CALL, CALL_PLAN, SEARCH_PLAN]), max_size=12).map("".join))
@settings(max_examples=200)
def test_a_parsed_turn_is_stable(text):
    turn = parse(text)
    again = parse(render(turn))
    if turn.kind != "invalid":
        assert (again.kind, again.plan, again.searches, again.answer) == (
            turn.kind,
            turn.plan,
            turn.searches,
            turn.answer,
        )
        assert again.calls == turn.calls


def test_a_slot_that_could_not_be_read_back_is_refused():
    with pytest.raises(ValueError, match="colon"):
        render_search(Search("a:b", "c"))


def test_calls_are_written_plainly():
    text = render_turn("go", calls=[Call("get_order", {"id": "A7", "note": "crème"}, "o")])
    assert text == (
        "<think>go</think>\n"
        '<tool_call>{"id": "o", "name": "get_order", "arguments": {"id": "A7", "note": "crème"}}</tool_call>'
    )
    assert render_answer(" yes ") == "<answer>yes</answer>"

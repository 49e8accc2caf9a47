"""Turns are read whatever the text, and every fault is told."""

from __future__ import annotations

import time
from timeit import timeit

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraagent.protocol.call import BrokenCall
from paraagent.protocol.grammar import parse, well_formed
from paraagent.protocol.plan import CallPlan, Dependency, SearchPlan, Subgoal
from paraagent.types import Call, Search

SEARCH_PLAN = '<plan>{"capacity_slots": ["orders"]}</plan>'
CALL_PLAN = (
    '<plan>{"available_tools": ["a"], "dependencies": [], "execution_flow": [{"step": 1, "parallel": ["a"]}]}</plan>'
)
CALL = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
PIECES = [
    f"<{slash}{tag}>"
    for tag in ("think", "plan", "search_tool", "tool_call", "answer", "tools", "tool_response")
    for slash in ("", "/")
]
PIECES += ['{"name": "a"}', "orders: find", SEARCH_PLAN, CALL_PLAN, CALL, "\n", "<", "{", '"', "```json\n", "x"]


def kinds(turn):
    return [fault.kind for fault in turn.faults]


def test_an_exploration_turn():
    turn = parse(
        f"<think>need two</think>\n{SEARCH_PLAN}\n<search_tool>orders: find an order: by id</search_tool>"
        "\n<search_tool> mail :send mail</search_tool>\n"
    )
    assert turn.kind == "exploration"
    assert turn.think == "need two"
    assert turn.plan == SearchPlan(("orders",))
    assert turn.searches == (Search("orders", "find an order: by id"), Search("mail", "send mail"))
    assert turn.faults == ()
    assert well_formed(turn) == 1.0


def test_an_execution_turn():
    turn = parse(
        """<think>go</think><plan>{"available_tools": ["Get", "put", "put"],
        "dependencies": [{"from": ["Get"], "to": "put#2"}],
        "execution_flow": [{"step": 1, "parallel": ["Get", "put"]}, {"step": 2, "parallel": ["put"]}],
        "subgoals": [{"id": "1", "subgoal": "copy"}]}</plan>
        <tool_call>{"id": "g", "name": "Get", "arguments": {"x": [1, {"y": null}]}}</tool_call>
        <tool_call>{"name": "put", "arguments": {"v": "$g.v"}}</tool_call>"""
    )
    assert turn.kind == "execution"
    assert turn.plan == CallPlan(
        ("Get", "put", "put"), (Dependency(("Get",), "put#2"),), (("Get", "put"), ("put",)), (Subgoal("1", "copy"),)
    )
    assert turn.calls == (Call("Get", {"x": [1, {"y": None}]}, "g"), Call("put", {"v": "$g.v"}))
    assert turn.faults == ()


def test_an_answer_turn():
    turn = parse("<think>done</think><answer> It is <b>7</b>.\n\n</answer>")
    assert (turn.kind, turn.answer, turn.faults) == ("answer", "It is <b>7</b>.", ())


def test_tags_inside_a_block_are_text():
    turn = parse("<think>I may write <answer> or <plan> later</think><answer>see <tool_call></answer>")
    assert (turn.kind, turn.answer, turn.has_plan, turn.faults) == ("answer", "see <tool_call>", False, ())


@pytest.mark.parametrize(
    ("text", "kind", "faults"),
    [
        ("", "invalid", ["no_action", "missing_think"]),
        ("hello", "invalid", ["stray_text", "no_action", "missing_think"]),
        ("<think>x</think>", "invalid", ["no_action"]),
        ("<answer>x</answer>", "answer", ["missing_think"]),
        ("<answer>x</answer><think>y</think>", "answer", ["misplaced_think"]),
        (f"<think>x</think>{SEARCH_PLAN}<think>y</think><answer>z</answer>", "answer", ["misplaced_think"]),
        ("<think>x</think><think>y</think><answer>z</answer>", "answer", []),
        ("<think>x</think>so:<answer>y</answer>", "answer", ["stray_text"]),
        ("<think>x</think><answer>y</answer>bye", "answer", ["stray_text"]),
        (f"<think>x</think>{CALL}<answer>y</answer>", "invalid", ["mixed_families"]),
        (f"<think>x</think>{CALL}<search_tool>a: b</search_tool>", "invalid", ["mixed_families"]),
        ("<think>x</think><answer>y</answer><answer>z</answer>", "invalid", ["several_answers"]),
        ("<think>x</think><answer> </answer>", "invalid", ["empty_answer"]),
        ("<think>x</think><search_tool> </search_tool>", "invalid", ["empty_search", "no_action"]),
        (f"<think>x</think><search_tool></search_tool>{CALL}", "execution", ["empty_search"]),
        (f"<think>x{CALL}", "execution", ["unclosed_tag", "missing_think"]),
        ("<think>x</think><answer>cut off", "invalid", ["unclosed_tag", "no_action"]),
        (f"<think>x</think></tool_call>{CALL}", "execution", ["unopened_tag"]),
        (f"<think>x</think>{CALL}<tool_response>{{}}</tool_response>", "execution", ["forged_observation"]),
        ("<THINK>x</THINK><answer>y</answer>", "answer", ["stray_text", "missing_think"]),
    ],
)
def test_faults_of_a_turn(text, kind, faults):
    turn = parse(text)
    assert turn.kind == kind
    assert kinds(turn) == faults
    assert all(fault.message.endswith(".") for fault in turn.faults)


@pytest.mark.parametrize(
    ("plan", "action", "fault"),
    [
        (SEARCH_PLAN * 2, "<search_tool>a: b</search_tool>", "several_plans"),
        (f"<search_tool>a: b</search_tool>{SEARCH_PLAN}", "", "misplaced_plan"),
        ("<plan>{</plan>", CALL, "bad_plan_json"),
        ('<plan>{"capacity_slots": ["a", NaN]}</plan>', CALL, "bad_plan_json"),
        ('<plan>{"capacity_slots": []}</plan>', "<search_tool>a: b</search_tool>", "bad_plan_schema"),
        (SEARCH_PLAN, CALL, "wrong_plan"),
        (CALL_PLAN, "<search_tool>a: b</search_tool>", "wrong_plan"),
    ],
)
def test_a_faulty_plan_is_not_taken_but_the_action_stands(plan, action, fault):
    turn = parse(f"<think>x</think>{plan}{action}")
    assert (turn.plan, turn.has_plan) == (None, True)
    assert kinds(turn) == [fault]
    assert turn.searches or turn.calls
    assert well_formed(turn) == 1.0


def test_half_a_plan_tag_counts_as_a_plan():
    assert parse(f"<think>x</think></plan>{CALL}").has_plan
    assert parse(f"<think>x</think><plan>{CALL}").has_plan
    assert not parse(f"<think>x</think>{CALL}").has_plan


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("[]", "object"),
        ("{}", "capacity_slots"),
        ('{"capacity_slots": ["a"], "note": 1}', "note"),
        ('{"capacity_slots": [" "]}', "non-empty strings"),
        ('{"capacity_slots": "a"}', "list of strings"),
        ('{"capacity_slots": ["a"], "subgoals": []}', "leave the key out"),
        ('{"capacity_slots": ["a"], "subgoals": [{"id": "1"}]}', "lacks subgoal"),
        ('{"available_tools": ["a"]}', "lacks dependencies, execution_flow"),
        ('{"available_tools": ["a"], "dependencies": [], "execution_flow": []}', "at least one step"),
        (
            '{"available_tools": ["a"], "dependencies": [], "execution_flow": [{"step": 2, "parallel": ["a"]}]}',
            "numbered 1, 2, 3",
        ),
        (
            '{"available_tools": ["a"], "dependencies": [], "execution_flow": [{"step": true, "parallel": ["a"]}]}',
            "numbered 1, 2, 3",
        ),
        (
            '{"available_tools": ["a"], "dependencies": [{"from": "a", "to": "a"}], "execution_flow": '
            '[{"step": 1, "parallel": ["a"]}]}',
            "from must be a non-empty list",
        ),
    ],
)
def test_a_plan_of_the_wrong_form_says_what_to_change(plan, said):
    turn = parse(f"<think>x</think><plan>{plan}</plan>{CALL}")
    assert kinds(turn) == ["bad_plan_schema"]
    assert said in turn.faults[0].message


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ('{"name": "a"}', Call("a", {})),
        ('{"name": "a", "arguments": "{\\"x\\": 1}"}', Call("a", {"x": 1})),
        ('```json\n{"name": "a", "arguments": {}}\n```', Call("a", {})),
    ],
)
def test_a_loose_call_runs_and_is_told(body, call):
    turn = parse(f"<think>x</think><tool_call>{body}</tool_call>")
    assert turn.calls == (call,)
    assert kinds(turn) == ["loose_call"]
    assert well_formed(turn) == 0.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "not valid JSON"),
        ('{"name": "a", "arguments": {}', "line 1 column"),
        ('[{"name": "a"}]', "one JSON object"),
        ('{"name": "a"} {"name": "b"}', "Extra data"),
        ('{"arguments": {}}', "lacks a name"),
        ('{"name": " ", "arguments": {}}', "lacks a name"),
        ('{"name": 3, "arguments": {}}', "lacks a name"),
        ('{"name": "a", "parameters": {}}', "'parameters'"),
        ('{"name": "a", "arguments": [1]}', "not a JSON object"),
        ('{"name": "a", "arguments": null}', "not a JSON object"),
        ('{"name": "a", "arguments": "x"}', "not valid JSON"),
        ('{"name": "a", "arguments": {}, "id": "7"}', "starts with a letter"),
        ('{"name": "a", "arguments": {}, "id": 7}', "starts with a letter"),
        ('{"name": "a", "arguments": {"x": NaN}}', "NaN"),
        ('{"name": "a", "arguments": {"x": -Infinity}}', "Infinity"),
        ('{"name": "a", "arguments": {"x": 1e999}}', "too large"),
        ('{"name": "a", "arguments": {"x": 123456789012345678901234567890}}', "64 bits"),
        ('{"name": "a", "arguments": {"x": "\\ud800"}}', "surrogate"),
        ('{"name": "a", "arguments": {"x": 1, "x": 2}}', "'x' stands twice"),
        ('{"name": "a", "arguments": ' + '{"x": ' * 70 + "1" + "}" * 71, "levels deep"),
        ('{"name": "a", "arguments": ' + "[" * 100_000, "levels deep"),
    ],
)
def test_a_broken_call_keeps_its_place_and_says_why(body, said):
    turn = parse(f"<think>x</think>{CALL}<tool_call>{body}</tool_call>{CALL}")
    assert turn.kind == "execution"
    first, broken, last = turn.calls
    assert first == last == Call("a", {})
    assert isinstance(broken, BrokenCall)
    assert said in broken.reason
    assert kinds(turn) == ["bad_call_json"]
    assert (broken.error.kind, broken.error.message) == ("invalid_args", broken.reason)


def test_an_id_is_used_once_per_turn():
    call = '<tool_call>{"name": "a", "arguments": {}, "id": "c"}</tool_call>'
    turn = parse(f"<think>x</think>{call}{call}")
    assert turn.calls[0] == Call("a", {}, "c")
    assert isinstance(turn.calls[1], BrokenCall)
    assert kinds(turn) == ["duplicate_call_id"]


def test_a_search_without_a_slot_names_itself():
    turn = parse("<think>x</think><search_tool>find orders</search_tool><search_tool>: find</search_tool>")
    assert turn.searches == (Search("find orders", "find orders"), Search("find", "find"))


def test_well_formed_scores():
    assert well_formed(parse("<answer>x</answer>")) == 0.5
    assert well_formed(parse(CALL)) == 0.0
    assert well_formed(parse("<think>x</think>stray<answer>x</answer>")) == 0.0


@given(st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=25).map("".join))
@settings(max_examples=400)
def test_any_text_is_a_turn(text):
    turn = parse(text)
    assert turn == parse(text)
    assert turn.text == text
    assert len({fault.kind for fault in turn.faults}) == len(turn.faults)
    present = [bool(turn.searches), bool(turn.calls), turn.answer is not None]
    if turn.kind != "invalid":
        assert present.index(True) == ["exploration", "execution", "answer"].index(turn.kind)
        assert sum(present) == 1
    else:
        assert turn.answer is None
        assert turn.faults
    for call in turn.calls:
        if isinstance(call, Call):
            orjson.dumps(call.arguments)
    assert 0.0 <= well_formed(turn) <= 1.0


@pytest.mark.parametrize(
    "piece",
    [
        "<think>",
        "</think>",
        "<think></think>",
        "<plan",
        "<tool_call>{}",
        CALL,
        "<answer>x</answer>",
        "<search_tool>a: b",
    ],
)
def test_reading_takes_linear_time(piece):
    def seconds(copies: int) -> float:
        return timeit(lambda: parse(piece * copies), timer=time.process_time, number=1)  # without garbage collection

    seconds(100)
    small = min(seconds(2_000) for _ in range(3))
    assert min(seconds(20_000) for _ in range(2)) < 50 * small + 0.05

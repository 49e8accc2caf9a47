"""The plan state machine: when a plan is due, which is taken, which calls follow it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraagent.protocol.grammar import parse
from paraagent.protocol.monitor import PlanMonitor
from paraagent.protocol.plan import CallPlan, Dependency, SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.types import Call, Search


def flow(*steps, edges=(), tools=None):
    """`flow("a b", "c", edges=["a b > c"])`."""
    dependencies = tuple(Dependency(tuple(edge.split(" > ")[0].split()), edge.split(" > ")[1]) for edge in edges)
    names = tuple(dict.fromkeys(" ".join(steps).split()))
    return CallPlan(tuple(tools or names), dependencies, tuple(tuple(step.split()) for step in steps))


def slots(*names):
    return SearchPlan(names)


def searching(*names, plan=None):
    return parse(render_turn("t", plan=plan, searches=[Search(name, f"find {name}") for name in names]))


def calling(*calls, plan=None):
    """Each call is a tool name, or `id=tool`, then the ids it links to: `b=pay a`."""
    group = []
    for text in calls:
        head, *links = text.split()
        name, call_id = head.split("=")[::-1] if "=" in head else (head, None)
        group.append(Call(name, {f"p{n}": f"${link}.id" for n, link in enumerate(links)}, call_id))
    return parse(render_turn("t", plan=plan, calls=group))


def answering():
    return parse("<think>t</think><answer>x</answer>")


def run(monitor, turn, *ok):
    """Review a call turn and record its outcomes, all successes by default."""
    review = monitor.review(turn)
    monitor.record_calls(ok or [True] * len(turn.calls))
    return review


def planned(*calls, plan, mode="advise", ok=()):
    """A monitor after one call turn with this plan, all its tools known."""
    monitor = PlanMonitor(mode, surfaced=plan.available_tools)
    run(monitor, calling(*calls, plan=plan), *ok)
    return monitor


def deviations(review):
    return [(deviation.kind, deviation.index) for deviation in review.deviations]


# When a plan is due


def test_the_first_turn_of_a_phase_needs_a_plan():
    monitor = PlanMonitor()
    assert [monitor.requirement(kind) for kind in ("exploration", "execution", "answer", "invalid")] == [
        "required",
        "required",
        "forbidden",
        "forbidden",
    ]
    review = monitor.review(searching("a"))
    assert (review.requirement, review.outcome, review.plan_fits) == ("required", "none", False)
    assert deviations(review) == [("missing_plan", None)]
    assert monitor.requirement("exploration") == "required"


def test_search_plans_may_be_refreshed_once():
    monitor = PlanMonitor()
    outcomes = []
    for plan in (slots("a"), slots("a", "b"), slots("c")):
        review = monitor.review(searching("a", plan=plan))
        outcomes.append((review.requirement, review.outcome, review.plan_fits))
    assert outcomes == [
        ("required", "initial", True),
        ("optional", "revise", True),
        ("forbidden", "limited", False),
    ]
    assert monitor.review(searching("b")).plan_fits


def test_an_unfinished_call_plan_stands_until_something_fails():
    monitor = planned("a", plan=flow("a", "b"))
    assert monitor.requirement("execution") == "forbidden"
    review = run(monitor, calling("b", plan=flow("a", "c")), False)
    assert (review.outcome, review.plan_fits) == ("forbidden", False)
    assert monitor.requirement("execution") == "optional"


def test_a_finished_call_plan_needs_a_new_one_and_then_none_is_left():
    monitor = planned("a", plan=flow("a"))
    assert monitor.requirement("execution") == "required"
    review = run(monitor, calling("a", plan=flow("a")))
    assert (review.outcome, review.plan_fits) == ("restart", True)
    assert monitor.requirement("execution") == "forbidden"
    review = run(monitor, calling("a", plan=flow("a")))
    assert (review.outcome, deviations(review)) == ("limited", [("unneeded_plan", None), ("already_done", 0)])


def test_a_finished_plan_is_told_when_calls_go_on_without_one():
    review = run(planned("a", plan=flow("a")), calling("b"))
    assert deviations(review) == [("missing_plan", None), ("outside_plan", 0)]
    assert "finished" in review.deviations[0].message


def test_a_switch_of_phase_starts_afresh():
    monitor = planned("a", plan=flow("a", "b"))
    assert monitor.review(searching("x", plan=slots("x"))).phase == 2
    assert monitor.requirement("execution") == "required"
    review = run(monitor, calling("b", plan=flow("b")))
    assert (review.phase, review.outcome) == (3, "initial")


def test_an_invalid_turn_neither_ends_nor_starts_a_phase():
    monitor = planned("a", plan=flow("a", "b"))
    review = monitor.review(parse('<think>x</think><plan>{"capacity_slots": ["a"]}</plan>'))
    assert (review.kind, review.phase, review.requirement, review.outcome) == ("invalid", 1, "forbidden", "forbidden")
    assert not review.plan_fits
    assert run(monitor, calling("b")).phase == 1
    assert monitor.requirement("execution") == "required"


def test_an_answer_takes_no_plan():
    monitor = planned("a", plan=flow("a"))
    review = monitor.review(answering())
    assert (review.outcome, review.plan_fits, review.phase) == ("none", True, 2)


# Which plans are taken


def test_the_same_plan_again_is_redundant():
    monitor = planned("a", plan=flow("a", "b"), ok=[False])
    review = monitor.review(calling("a", plan=flow("A", "b", tools=["a", "b", "spare"])))
    assert (review.requirement, review.outcome, review.plan_fits) == ("optional", "redundant", True)
    assert deviations(review) == [("unneeded_plan", None)]
    searches = PlanMonitor()
    searches.review(searching("a", plan=slots("a", "b")))
    assert searches.review(searching("a", plan=slots("B", "a"))).outcome == "redundant"


def test_a_revision_keeps_what_is_done():
    monitor = planned("a", "b", plan=flow("a b", "c", edges=["a > c"]), ok=[True, False])
    review = run(monitor, calling("d", "c", plan=flow("a d", "c", edges=["a > c"])))
    assert (review.outcome, review.matched) == ("revise", ("d", "c"))
    assert deviations(review) == [("unsurfaced_tool", None)]
    assert review.ready == ("d", "c")
    assert monitor.requirement("execution") == "forbidden"


def test_a_revision_may_call_a_kept_tool_again():
    monitor = planned("a", "b", plan=flow("a b"), ok=[True, False])
    review = run(monitor, calling("a", "b", plan=flow("a b", "c")))
    assert review.matched == (None, "b")
    assert review.follows_plan


def test_a_revision_may_not_drop_unfinished_work():
    monitor = planned("a", plan=flow("a b c"), ok=[False])
    review = monitor.review(calling("a", plan=flow("a")))
    assert (review.outcome, review.plan_fits) == ("unsupported", False)
    assert "(a, b, c)" in review.deviations[0].message
    assert monitor.review(calling("a", plan=flow("a x y"))).outcome == "revise"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("<plan>{</plan>", "not valid JSON"),
        ('<plan>{"capacity_slots": ["a"]}</plan>', "available_tools"),
        ("<plan>", "not closed"),
        (
            '<plan>{"available_tools": ["a"], "dependencies": [], "execution_flow": '
            '[{"step": 1, "parallel": ["b"]}]}</plan>',
            "not in available_tools",
        ),
    ],
)
def test_a_plan_that_cannot_be_used_is_invalid_and_says_why(plan, said):
    monitor = PlanMonitor("enforce")
    review = monitor.review(parse(f'<think>x</think>{plan}<tool_call>{{"name": "a", "arguments": {{}}}}</tool_call>'))
    assert (review.outcome, review.plan_fits) == ("invalid", False)
    assert said in review.deviations[0].message
    assert review.refused == {0: review.deviations[0].message}


# What follows the plan


def test_each_search_takes_one_free_slot():
    monitor = PlanMonitor()
    review = monitor.review(searching("A", "b", "b", "x", plan=slots("a", "b")))
    assert deviations(review) == [("outside_slots", 2), ("outside_slots", 3)]
    assert not review.follows_plan
    assert monitor.review(searching("b")).follows_plan


def test_tools_no_search_has_shown_are_flagged():
    monitor = PlanMonitor(surfaced=["given"])
    monitor.review(searching("x", plan=slots("x")))
    monitor.record_searches([["Found", "other"], []])
    review = monitor.review(calling("given", plan=flow("given found guess")))
    assert deviations(review) == [("unsurfaced_tool", None)]
    assert "guess" in review.deviations[0].message
    assert "found," not in review.deviations[0].message
    assert review.plan_fits


def test_calls_take_the_ready_steps():
    monitor = PlanMonitor(surfaced="abc")
    plan = flow("a b", "c", edges=["a b > c"])
    review = run(monitor, calling("b", "a", plan=plan))
    assert (review.ready, review.matched, review.deviations) == (("a", "b"), ("b", "a"), ())
    review = run(monitor, calling("c"))
    assert (review.ready, review.matched) == (("c",), ("c",))
    assert monitor.requirement("execution") == "required"


def test_a_call_before_its_turn_is_told_what_it_waits_for():
    review = PlanMonitor("enforce", surfaced="abc").review(
        calling("a", "c", "z", plan=flow("a b", "c", edges=["a b > c"]))
    )
    assert deviations(review) == [("not_ready", 1), ("outside_plan", 2)]
    assert "wait for a, b" in review.deviations[0].message
    assert set(review.refused) == {1, 2}


def test_advise_refuses_nothing():
    assert PlanMonitor().review(calling("a")).refused == {}


def test_linked_calls_run_a_whole_dag_in_one_turn():
    plan = flow("a", "b b", "c", edges=["a > b#1", "a > b#2", "b#1 b#2 > c"])
    monitor = PlanMonitor("enforce", surfaced="abc")
    review = run(monitor, calling("c y z", "y=b x", "z=b x", "x=a", plan=plan))
    assert review.matched == ("c", "b#1", "b#2", "a")
    assert review.refused == {}
    assert monitor.requirement("execution") == "required"


def test_a_link_to_something_else_does_not_make_a_call_ready():
    plan = flow("a d", "b", edges=["a > b"])
    review = PlanMonitor(surfaced="abd").review(calling("x=a", "y=d", "b y", plan=plan))
    assert deviations(review) == [("not_ready", 2)]


def test_a_further_call_of_a_linked_step_must_link_too():
    plan = flow("a d", "b", edges=["a > b"])
    review = PlanMonitor(surfaced="abd").review(calling("x=a", "y=d", "b x", "b x", "b y", plan=plan))
    assert review.matched == ("a", "d", "b", "b", None)
    assert deviations(review) == [("not_ready", 4)]


def test_calls_linked_in_a_circle_are_judged_without_their_links():
    review = PlanMonitor(surfaced="ab").review(calling("x=a y", "y=b x", plan=flow("a", "b", edges=["a > b"])))
    assert review.matched[0] == "a"


def test_several_calls_may_carry_out_one_step_and_all_must_succeed():
    monitor = planned("a", "a", "b", plan=flow("a b"), ok=[True, False, True])
    assert {str(use) for use in monitor.done} == {"b#1"}
    assert run(monitor, calling("a")).matched == ("a",)
    assert monitor.requirement("execution") == "required"


def test_a_broken_call_is_a_failure_of_nobody_else():
    monitor = PlanMonitor(surfaced="ab")
    text = render_turn("t", plan=flow("a b"), calls=[Call("a", {})])
    turn = parse(text + '<tool_call>{"name": "b"</tool_call>')
    review = run(monitor, turn, True, False)
    assert review.matched == ("a", None)
    assert monitor.requirement("execution") == "optional"
    assert {str(use) for use in monitor.done} == {"a#1"}


def test_a_stray_call_allows_a_refresh_even_if_it_worked():
    monitor = planned("a", "z", plan=flow("a b", tools=["a", "b", "z"]))
    assert monitor.requirement("execution") == "optional"


def test_outcomes_must_fit_the_calls():
    monitor = PlanMonitor()
    with pytest.raises(ValueError, match="1 outcomes for 0 calls"):
        monitor.record_calls([True])
    monitor.review(calling("a", "b"))
    with pytest.raises(ValueError, match="1 outcomes for 2 calls"):
        monitor.record_calls([True])


turns = st.one_of(
    st.builds(
        lambda names, plan: searching(*names, plan=plan and slots(*plan)),
        st.lists(st.sampled_from("xyz"), min_size=1, max_size=3),
        st.none() | st.lists(st.sampled_from("xyz"), min_size=1, max_size=3),
    ),
    st.builds(
        lambda names, plan: calling(*names, plan=plan and flow(*map(" ".join, plan))),
        st.lists(st.sampled_from(["a", "b", "c", "d c"]), min_size=1, max_size=3),
        st.none() | st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=2), min_size=1, max_size=3),
    ),
    st.just(answering()),
    st.just(parse("nonsense <plan>")),
)


@given(st.lists(st.tuples(turns, st.lists(st.booleans(), min_size=3, max_size=3)), max_size=8))
@settings(max_examples=100)
def test_the_same_turns_give_the_same_reviews_and_the_rules_hold(steps):
    def replay(mode):
        monitor = PlanMonitor(mode)
        reviews = []
        for turn, ok in steps:
            wanted = monitor.requirement(turn.kind)
            reviews.append(monitor.review(turn))
            assert reviews[-1].requirement == wanted
            if turn.kind == "execution":
                monitor.record_calls(ok[: len(turn.calls)])
        return reviews

    reviews = replay("advise")
    assert reviews == replay("advise")
    assert all(review.refused == {} for review in reviews)
    for strict, review, (turn, _) in zip(replay("enforce"), reviews, steps, strict=True):
        assert strict.deviations == review.deviations
        assert set(strict.refused) >= {d.index for d in review.deviations if d.index is not None and turn.calls}
    taken = {}
    for review in reviews:
        taken[review.phase] = taken.get(review.phase, 0) + (review.outcome in ("initial", "revise", "restart"))
    assert all(number <= 2 for number in taken.values())

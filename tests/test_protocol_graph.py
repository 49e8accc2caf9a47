"""Call plans as dependency graphs: occurrences, resolution of names, readiness."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraagent.protocol.graph import MAX_OCCURRENCES, Occurrence, PlanGraph
from paraagent.protocol.plan import CallPlan, Dependency, PlanError


def plan(*steps, edges=(), tools=None):
    """`plan("a b", "c", edges=["a b > c"])`."""
    flow = tuple(tuple(step.split()) for step in steps)
    dependencies = tuple(Dependency(tuple(edge.split(" > ")[0].split()), edge.split(" > ")[1]) for edge in edges)
    return CallPlan(tuple(tools or dict.fromkeys(" ".join(steps).split())), dependencies, flow)


def graph(*steps, edges=(), tools=None):
    return PlanGraph.of(plan(*steps, edges=edges, tools=tools))


def needs(found):
    return {str(use): sorted(map(str, before)) for use, before in found.needs.items() if before}


def refs(found, done=()):
    wanted = {use for use in found.needs if found.ref(use) in done}
    return [found.ref(use) for use in found.ready(wanted)]


def test_readiness_follows_edges_and_not_steps():
    found = graph("a b", "c", "d", edges=["a > c"])
    assert refs(found) == ["a", "b", "d"]
    assert refs(found, ["a"]) == ["b", "c", "d"]
    assert refs(found, ["a", "b", "c", "d"]) == []


def test_names_compare_without_case_and_space():
    found = graph("Get_Order", "send", edges=["GET_ORDER > Send"], tools=["get_order ", "SEND"])
    assert needs(found) == {"send#1": ["get_order#1"]}


def test_a_tool_used_again_is_numbered_in_flow_order():
    found = graph("a a", "b a", edges=["a#2 > b"])
    assert [str(use) for use in found.needs] == ["a#1", "a#2", "b#1", "a#3"]
    assert found.ref(Occurrence("b", 1)) == "b"
    assert found.ref(Occurrence("a", 3)) == "a#3"
    assert needs(found) == {"b#1": ["a#2"], "a#3": ["a#1", "a#2"]}


def test_same_tool_in_later_steps_waits_for_the_nearest_earlier_step():
    assert needs(graph("a a", "b", "a", "a")) == {"a#3": ["a#1", "a#2"], "a#4": ["a#3"]}


def test_a_bare_source_means_its_latest_use_before_the_target():
    assert needs(graph("a", "a", "b", edges=["a > b"])) == {"a#2": ["a#1"], "b#1": ["a#2"]}


def test_a_bare_target_means_the_earliest_use_that_fits():
    assert needs(graph("b", "a", "b", edges=["a > b"])) == {"b#2": ["a#1", "b#1"]}


def test_tool_number_one_may_be_written_for_a_single_use():
    assert needs(graph("a", "b", edges=["a#1 > b#1"])) == {"b#1": ["a#1"]}


@pytest.mark.parametrize(
    ("steps", "edges", "said"),
    [
        (["a a", "b"], ["a > b"], "must lead from earlier steps"),
        (["a", "b b"], ["a > b"], "write tool#n"),
        (["a b"], ["a > b"], "must lead from earlier steps"),
        (["a", "b"], ["b > a"], "must lead from earlier steps"),
        (["a", "b"], ["a > a"], "must lead from earlier steps"),
        (["a", "b"], ["x > b"], "'x', which is not in execution_flow"),
        (["a", "b"], ["a > b#2"], "'b#2', which is not in execution_flow"),
        (["a", "b"], ["a#x > b"], "'a#x'"),
    ],
)
def test_an_edge_that_makes_no_sense_says_so(steps, edges, said):
    with pytest.raises(PlanError, match=said):
        graph(*steps, edges=edges)


def test_the_flow_may_only_name_available_tools():
    with pytest.raises(PlanError, match="'b', which is not in available_tools"):
        graph("a b", tools=["a"])
    with pytest.raises(PlanError, match="write 'a' without #n"):
        graph("a#1 a#2", tools=["a"])
    assert refs(graph("a", tools=["a", "spare"])) == ["a"]


def test_hostile_sizes_are_refused():
    with pytest.raises(PlanError, match="more than"):
        graph(" ".join(["a"] * (MAX_OCCURRENCES + 1)))
    with pytest.raises(PlanError, match="more than"):
        graph("a", "b", edges=["a " * 600 + "> b"])


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), min_size=1, max_size=4), st.data())
@settings(max_examples=100)
def test_running_the_frontier_again_and_again_finishes_any_plan(steps, data):
    uses = graph(*map(" ".join, steps)).needs
    names = st.sampled_from([*map(str, uses), "a", "b", "c"])
    edges = data.draw(st.lists(st.tuples(names, names), max_size=4))
    try:
        found = graph(*map(" ".join, steps), edges=[f"{source} > {target}" for source, target in edges])
    except PlanError:
        return
    layer = {use: number for number, uses in enumerate(found.layers) for use in uses}
    assert all(layer[before] < layer[use] for use, befores in found.needs.items() for before in befores)
    done: set[Occurrence] = set()
    while ready := found.ready(done):
        done.update(ready)
    assert done == found.needs.keys()

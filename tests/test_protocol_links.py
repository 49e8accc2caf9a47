"""Linked calls: what is a link, what it resolves to, and how a broken one is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.env.task import GoldCall, Task
from paraagent.protocol import links
from paraagent.protocol.links import LinkError, escape, is_id, resolve, upstream

RESULTS = {
    "a": {"items": [{"id": 7}, {"id": 8}], "@odata.next": "n", "x": {"y.z": 1, "0": "zero"}, "none": None},
    "call-2": [[1, 2], [3]],
    "_s": "text",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["$a", "$a.items.0", "$$", "$5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("link", "value"),
    [
        ("$a.items.0.id", 7),
        ("$a.items[1].id", 8),
        ("$a.items", [{"id": 7}, {"id": 8}]),
        ("$call-2[0].1", 2),
        ("$call-2.1", [3]),
        ("$_s", "text"),
        ("$a.@odata.next", "n"),
        ("$a.x.y.z", 1),
        ("$a.x.0", "zero"),
        ("$a.none", None),
    ],
)
def test_a_link_stands_for_the_value_it_points_to(link, value):
    assert resolve(link, RESULTS) == value


@pytest.mark.parametrize(
    "text",
    ["$5.00", "$", "$ a", "${a}", "$.store", "$a/bin", "cost: $a", "$a and more", "$1", "$-a.x", "a$a.items", ""],
)
def test_what_does_not_start_like_a_link_is_plain_text(text):
    assert resolve(text, RESULTS) == text
    assert upstream(text) == []


def test_links_are_resolved_at_any_depth_and_the_original_stays():
    arguments = {"to": ["$_s", {"ids": ["$a.items.0.id", "$$a"]}], "n": 1.5, "none": None}
    assert resolve(arguments, RESULTS) == {"to": ["text", {"ids": [7, "$a"]}], "n": 1.5, "none": None}
    assert arguments["to"][0] == "$_s"


def test_a_resolved_text_is_not_resolved_again():
    assert resolve("$evil", {"evil": "$secret", "secret": "s"}) == "$secret"


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("$b.items", ["'b'", "a, call-2", "$$b.items"]),
        ("$a.item.0", ["'item'", "the result", "items", "@odata.next"]),
        ("$a.items.id", ["'id'", "'items'", "list of 2 items"]),
        ("$a.items.2", ["'2'", "list of 2 items"]),
        ("$a.items.0.id.x", ["'x'", "'items.0.id'", "7", "no fields"]),
        ("$a.", [".field.0.field"]),
        ("$a.items[x]", [".field.0.field"]),
        ("$a..items", [".field.0.field"]),
        ("$a.items.-1", ["'-1'"]),
        ("$a.items.²", ["'²'"]),
        ("$a.items." + "9" * 5000, ["list of 2 items"]),
    ],
)
def test_a_link_that_leads_nowhere_says_what_there_was(link, said):
    with pytest.raises(LinkError) as failure:
        resolve({"deep": [link]}, RESULTS)
    assert failure.value.kind == "invalid_args"
    for part in said:
        assert part in str(failure.value)


def test_messages_stay_short_whatever_the_result_holds():
    huge = {"a": {f"{'k' * 500}{n}": n for n in range(500)}}
    with pytest.raises(LinkError) as failure:
        resolve("$a.x", huge)
    assert len(str(failure.value)) < 1500
    assert "488 more" in str(failure.value)


def test_long_paths_take_linear_time():
    with pytest.raises(LinkError):
        resolve("$a" + ".x" * 200_000, {"a": {"y": 1}})


def test_upstream_names_each_call_once_in_order():
    assert upstream({"p": ["$b.x", "$a", "$$c", "$5.00"], "q": {"r": "$b[0]"}}) == ["b", "a"]


def test_task_layers_follow_the_same_links():
    calls = (GoldCall("a", "t", {}), GoldCall("b", "t", {"p": "$a[0].id", "price": "$5.00"}))
    task = Task("t", "chain", "train", 0, "r", calls=calls)
    assert task.layers() == [1, 2]


@given(json_values.filter(lambda value: isinstance(value, str)) | st.from_regex(r"\A\$+[a-z]?[.\[]?"))
def test_escaped_text_resolves_to_itself(text):
    assert resolve(escape(text), RESULTS) == text
    assert upstream(escape(text)) == []


@given(json_values)
def test_a_value_resolves_or_names_its_link(value):
    try:
        resolved = resolve(value, RESULTS)
    except LinkError:
        assert upstream(value)
    else:
        assert type(resolved) is type(value) or upstream(value)


@given(st.text(max_size=70))
def test_every_valid_id_can_be_linked_to(text):
    if is_id(text):
        assert links.resolve(f"${text}.v", {text: {"v": 1}}) == 1
        assert upstream(f"${text}") == [text]

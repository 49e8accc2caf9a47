"""Files of demonstrations: what is written is read back equal, and what is malformed is named by its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.demos.demo import Demo
from paraagent.demos.formats import Format, RowError, from_row, line, read, row
from paraagent.demos.statistics import Statistics, gather, profile
from paraagent.errors import EnvironmentFault
from paraagent.protocol.plan import SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.types import Call, Message, Search

SEARCH = render_turn("look", plan=SearchPlan(("a",)), searches=[Search("a", "find a"), Search("a", "find it")])
CALL = render_turn("run", calls=[Call("tool_a", {"x": 1})])
ANSWER = render_turn("say", answer="It is 1.")
SHAREGPT: dict[str, Any] = {
    "system": "You are an agent.",
    "conversations": [
        {"from": "human", "value": "What is x?"},
        {"from": "gpt", "value": SEARCH},
        {"from": "human", "value": "<tools>\n</tools>"},
        {"from": "gpt", "value": ANSWER},
    ],
    "task_id": "4711",
    "dataset": "toolbench",
}

texts = st.text(min_size=1).filter(lambda text: bool(text.strip()))
bare = st.text(max_size=20)


@st.composite
def demos(draw: st.DrawFn) -> Demo:
    spoken = draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
    messages = [Message("system", draw(texts))] if draw(st.booleans()) else []
    for user, assistant in spoken:
        messages += [Message("user", user), Message("assistant", assistant)]
    loss = tuple(message.role == "assistant" and draw(st.booleans()) for message in messages)
    meta = draw(
        st.dictionaries(bare, st.one_of(st.integers(-(2**53), 2**53), bare, st.lists(bare, max_size=2)), max_size=3)
    )
    return Demo(draw(bare), tuple(messages), loss, draw(bare), draw(bare), draw(bare), meta)  # type: ignore[arg-type]


@given(demos())
def test_a_chat_row_is_read_back_equal(demo: Demo) -> None:
    text = line(demo, "chat")
    assert text is not None
    assert text.count(b"\n") == 1
    again = from_row(json.loads(text))
    assert again == demo
    assert line(again, "chat") == text


@given(demos())
def test_a_sharegpt_row_is_there_exactly_if_every_turn_is_learned(demo: Demo) -> None:
    text = line(demo, "sharegpt")
    learned_all = all(wanted == (m.role == "assistant") for m, wanted in zip(demo.messages, demo.loss, strict=True))
    assert (text is not None) == learned_all
    if text is not None:
        again = from_row(json.loads(text))
        assert (again.messages, again.loss) == (demo.messages, demo.loss)
        assert line(again, "sharegpt") is not None


@pytest.mark.parametrize(
    "changes", [{}, {"system": ""}, {"license": "x", "score": 0.5}], ids=["plain", "no system", "more fields"]
)
def test_a_published_row_goes_in_and_out_unchanged(changes: dict[str, Any]) -> None:
    published = {**SHAREGPT, **changes}
    assert row(from_row(published), "sharegpt") == published
    through_chat = from_row(json.loads(line(from_row(published), "chat") or b""))
    assert row(through_chat, "sharegpt") == published


def test_a_published_row_is_a_demonstration_whose_turns_are_all_learned() -> None:
    demo = from_row(SHAREGPT)
    assert [m.role for m in demo.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert demo.loss == (False, False, True, False, True)
    assert (demo.task_id, demo.dataset, demo.request) == ("4711", "toolbench", "What is x?")


def turn(speaker: object, value: object) -> dict[str, object]:
    return {"from": speaker, "value": value}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ([], "not a JSON object"),
        ({"system": "x"}, "neither `messages`"),
        ({**SHAREGPT, "system": None}, "`system` must be a text"),
        ({k: v for k, v in SHAREGPT.items() if k != "task_id"}, "`task_id` is missing"),
        ({**SHAREGPT, "task_id": 7}, "`task_id` must be a text"),
        ({**SHAREGPT, "conversations": "hi"}, "`conversations` must be a list"),
        ({**SHAREGPT, "conversations": []}, "holds no conversation"),
        ({**SHAREGPT, "conversations": [turn("human", "x")]}, "does not end with the assistant"),
        ({**SHAREGPT, "conversations": [turn("gpt", "x"), turn("human", "y")]}, "entry 1 .* not the user's"),
        ({**SHAREGPT, "conversations": [turn("human", "x"), turn("human", "y")]}, "entry 2 .* not the assistant's"),
        ({**SHAREGPT, "conversations": [turn("bot", "x")]}, "entry 1 is from 'bot'"),
        ({**SHAREGPT, "conversations": [turn(["human"], "x")]}, "use human or gpt"),
        ({**SHAREGPT, "conversations": [turn("human", 3)]}, "entry 1 must be an object"),
        ({**SHAREGPT, "conversations": [turn("human", "x"), turn("gpt", "  ")]}, "entry 2 .* is empty"),
        ({"task_id": "t", "messages": [{"role": "tool", "content": "x"}]}, "role 'tool'"),
        ({"task_id": "t", "messages": [{"role": "user"}]}, "message 1 must be an object"),
        (
            {"task_id": "t", "messages": [{"role": "user", "content": "x"}], "loss": [True]},
            "not the assistant's",
        ),
        ({"task_id": "t", "messages": [{"role": "user", "content": "x"}], "loss": [1]}, "one true or false"),
        ({"task_id": "t", "messages": [{"role": "user", "content": "x"}], "loss": []}, "one true or false"),
        ({"task_id": "t", "messages": [{"role": "user", "content": "x"}], "meta": 1}, "`meta` must be an object"),
        (
            {"task_id": "t", "messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "x"}]},
            "entry 2 .* the system's",
        ),
    ],
)
def test_malformed_rows_say_what_is_wrong(broken: object, said: str) -> None:
    with pytest.raises(RowError, match=said):
        from_row(broken)


def test_chat_rows_from_elsewhere_need_no_mask() -> None:
    demo = from_row(
        {"task_id": "t", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}
    )
    assert demo.loss == (False, True)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.jsonl"
    rows = [
        json.dumps(SHAREGPT),
        "",
        '{"half": ',
        json.dumps({**SHAREGPT, "task_id": 1}),
        "[" * 5000,
        json.dumps(SHAREGPT),
    ]
    path.write_text("\n".join(rows))
    return path


def test_malformed_rows_are_skipped_and_reported_with_their_line(mixed: Path) -> None:
    skipped: list[tuple[int, str]] = []
    assert len(list(read(mixed, "skip", lambda number, reason: skipped.append((number, reason))))) == 2
    assert [number for number, _ in skipped] == [3, 4, 5]
    assert "not valid JSON" in skipped[0][1]
    assert skipped[1][1] == "`task_id` must be a text"


def test_a_malformed_row_can_be_fatal(mixed: Path) -> None:
    demos = read(mixed, "fail")
    assert next(demos).task_id == "4711"
    with pytest.raises(EnvironmentFault, match=r"mixed\.jsonl, line 3: not valid JSON"):
        next(demos)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="cannot read"):
        next(read(tmp_path / "none.jsonl"))
    with pytest.raises(EnvironmentFault, match="cannot read"):
        next(read(tmp_path))


@pytest.mark.parametrize("form", ["chat", "sharegpt"])
def test_bytes_that_are_no_text_are_one_malformed_row(tmp_path: Path, form: Format) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xff\xfe\n" + (line(from_row(SHAREGPT), form) or b""))
    assert len(list(read(path, "skip"))) == 1


def test_pieces_join_to_chatml_and_mark_what_is_learned() -> None:
    demo = Demo(
        "t",
        (Message("user", "hi"), Message("assistant", "a"), Message("user", "go"), Message("assistant", "b")),
        (False, False, False, True),
    )
    pieces = list(demo.pieces())
    assert "".join(text for text, _ in pieces) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"
        "<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
    )
    assert [text for text, learn in pieces if learn] == ["b<|im_end|>"]


def test_statistics_of_published_rows_come_from_their_turns() -> None:
    demo = from_row(SHAREGPT)
    assert profile(demo) == {"turns": 2, "searches": 2, "calls": 0, "width": 2, "tools": []}
    statistics = gather([demo, demo])
    assert statistics.total == 2
    assert statistics.counts["dataset"] == {"toolbench": 2}
    assert statistics.counts["turns"] == {"2": 2}
    assert statistics.faulty_turns == 0
    assert statistics.to_json()["assistant_turns"] == 4


def test_inspecting_counts_turns_that_break_the_grammar() -> None:
    spoken = [turn("human", "x"), turn("gpt", "no tags at all"), turn("human", "y"), turn("gpt", CALL)]
    statistics = gather([from_row({**SHAREGPT, "conversations": spoken})])
    assert statistics.faulty_turns == 1
    assert statistics.faults["no_action"] == 1
    assert statistics.counts["calls"] == {"1": 1}
    assert statistics.tools == {"tool_a"}


def test_token_quantiles_of_nothing_are_nothing() -> None:
    assert Statistics().token_quantiles() == {}
    statistics = Statistics()
    for size in (4, 40, 400):
        statistics.add(Demo("t", (Message("user", "x" * size), Message("assistant", "")), (False, True)))
    assert statistics.token_quantiles() == {"mean": 37, "median": 10, "p90": 10, "max": 100}

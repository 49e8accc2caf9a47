"""The episode as told on a terminal: complete, readable without colour, and deaf to escape sequences."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from paraagent.trace.events import (
    CallEnd,
    CallStart,
    EpisodeEnd,
    EpisodeStart,
    Event,
    Note,
    Prompt,
    SearchDone,
    TurnText,
)
from paraagent.trace.plain import one_line, plain
from paraagent.trace.text import tell
from paraagent.trace.view import EpisodeView

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202egnp.exe\u200b[red]x[/red]\x00\ud800"


def start(number: int, name: str, at: float) -> CallStart:
    return CallStart(1, number, name, {}, "read", [], [], False, "key", at)


def events() -> list[Event]:
    plan = '{"execution_flow": [{"step": 1, "parallel": ["make_a", "make_b"]}, {"step": 2, "parallel": ["use_a"]}]}'
    return [
        EpisodeStart(1, "run-7", "ep-1", "Do a and b.", "rules", task={"id": "mixed-3"}, seed=5),
        Prompt("user", "Do a and b.", 0.0),
        TurnText(
            0,
            '<think>Two things are missing.</think><plan>{"capacity_slots": ["make a", "teleport"]}</plan>',
            0.0,
            1.0,
            input_tokens=1200,
            output_tokens=30,
            cached_tokens=600,
        ),
        SearchDone(
            0, 0, "make a", "create an a", [(f"tool_{i}", 0.9 - i / 10) for i in range(5)], 50011, False, 1.0, 1.1
        ),
        SearchDone(0, 1, "teleport", "move a person", [("ship_parcel", 0.07)], 50011, True, 1.0, 1.1),
        TurnText(1, f"<think>Now run them.</think><plan>{plan}</plan><tool_call>...", 1.1, 2.0),
        start(0, "make_a", 2.0),
        start(1, "make_b", 2.0),
        CallEnd(
            1, 1, "make_b", {"size": 3}, 2.0, 3.0, error="unavailable", message="HTTP 503", attempts=3, injected=True
        ),
        CallEnd(1, 0, "make_a", {"name": "x"}, 2.0, 4.0, id="a", value={"id": "a-1", "tags": ["new"]}, attempts=1),
        start(2, "use_a", 4.0),
        CallEnd(1, 2, "use_a", {"a": "a-1"}, 4.0, 6.0, raw_arguments={"a": "$a.id"}, value="done " * 200, attempts=1),
        CallEnd(1, 3, "make_a", {"name": "x"}, 2.0, 4.0, shared_with=0),
        CallEnd(1, 4, "no_such_tool", {}, 0.0, 0.0, error="tool_not_found", message="no tool of that name"),
        Note(1, "plan", "no_such_tool is not in the plan", 6.0),
        TurnText(2, "<think>Good.</think><answer>a is done,\nb is not.</answer>", 6.0, 7.0),
        EpisodeEnd(
            7.0,
            "answered",
            True,
            False,
            answer="a is done,\nb is not.",
            success=False,
            checks={"calls": "1 of 2: make_b failed"},
        ),
    ]


def told(events: Sequence[Event], width: int = 80, *, torn: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True).print(tell(EpisodeView(events, torn=torn)))
    return out.getvalue()


def lanes(text: str) -> dict[str, str]:
    """Return the bar of every call by its number."""
    rows = [line for line in text.splitlines() if "█" in line or "▒" in line]
    return {row.split()[0]: "".join(c for c in row if c in "█▒") for row in rows if row.split()[0].startswith("#")}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_all_that_matters_is_there_and_fits(width: int) -> None:
    text = told(events(), width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    flat = " ".join(text.split())
    for words in (
        "Episode ep-1 · run run-7 · policy rules · task mixed-3 · seed 5",
        "Exploration 1 · 0.00 to 1.10 s",
        "think Two things are missing.",
        "slots: make a, teleport",
        "search make a: create an a",
        "0.90 tool_0",
        "and 2 more of 50,011 tools",
        "nothing fits (best 0.07 ship_parcel) among 50,011 tools",
        "Execution 1 · 1.10 to 6.00 s",
        "make_a, make_b → use_a",
        '$a = make_a(name="x") → {"id": "a-1", "tags": ["new"]}',
        'use_a(a="$a.id")',
        "unavailable (injected): HTTP 503",
        "same as #1",
        "tool_not_found: no tool of that name",
        "plan: no_such_tool is not in the plan",
        "answer a is done, b is not.",
        "result failed calls: 1 of 2: make_b failed",
        "turn 1 #2 make_b: unavailable",
        "slowest turn 1 #1 make_a: 2.00 s",
        "3 turns, 2 searches, 5 calls (2 failed)",
        "actions 1.00 x critical path",
    ):
        assert words in flat, words


def test_lanes_show_true_starts_and_the_critical_path() -> None:
    text = told(events(), 100)
    bars = lanes(text)
    assert set(bars) == {"#1", "#2", "#3", "#4"}  # the unknown tool never ran
    assert set(bars["#1"]) == set(bars["#3"]) == {"█"}
    assert set(bars["#2"]) == set(bars["#4"]) == {"▒"}
    assert abs(len(bars["#1"]) - len(bars["#3"])) <= 1
    assert abs(len(bars["#1"]) - 2 * len(bars["#2"])) <= 1
    row = {line.split()[0]: line for line in text.splitlines() if line.strip().startswith("#") and "█" in line}
    assert row["#3"].index("█") == row["#1"].rindex("█") + 1  # it starts where the other ends


def test_long_results_are_capped() -> None:
    assert told(events()).count("done") < 60
    assert "…" in told(events())


def test_unfinished_and_torn_episodes_say_so() -> None:
    text = told(events()[:8], torn=True)
    assert "the episode was stopped or still runs" in text
    assert "its last line was cut short" in text
    assert "no answer: the episode stopped first" in text
    assert "unanswered" in text


def test_masked_episode_says_why() -> None:
    end = EpisodeEnd(1.0, "model_error", False, False, mask_sample=True, failure_kind="endpoint is down")
    text = told([events()[0], end])
    assert "not verified" in text
    assert "not for training: endpoint is down" in text


@pytest.mark.parametrize(
    "plan", ["{", "[]", "3", '{"execution_flow": 7}', '{"execution_flow": [1]}', '{"capacity_slots": 5}', "[" * 9999]
)
def test_unreadable_plan_is_shown_as_it_is(plan: str) -> None:
    text = told([events()[0], TurnText(0, f"<plan>{plan}</plan>", 0.0, 1.0)])
    assert f"plan    {plan[:20]}" in text


def hostile() -> list[Event]:
    """The same episode with every text replaced, kinds and roles apart."""

    def spoil(value: object) -> object:
        if isinstance(value, dict):
            return {f"{HOSTILE}{key}": spoil(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(spoil, value))
        return HOSTILE if isinstance(value, str) else value

    keep = {"role", "kind", "error", "effect", "stop_reason"}
    plan = f"<think>{HOSTILE}</think><plan>{HOSTILE}</plan><tool_call>"
    spoiled: list[Event] = []
    for event in events():
        fields = {name: spoil(getattr(event, name)) for name in event.__struct_fields__ if name not in keep}
        if isinstance(event, TurnText):
            fields["text"] = plan
        spoiled.append(msgspec.structs.replace(event, **fields))
    return spoiled


@pytest.mark.parametrize("width", [60, 120])
def test_nothing_in_a_trace_can_speak_to_the_terminal(width: int) -> None:
    text = told(hostile(), width)
    assert {unicodedata.category(character) for character in text} & {"Cc", "Cf", "Cs"} <= {"Cc"}
    assert {character for character in text if unicodedata.category(character) == "Cc"} == {"\n"}
    assert "\\x1b[2J" in text
    assert "[red]x[/red]" in text  # no markup either


@given(st.text())
def test_plain_text_is_printable(text: str) -> None:
    shown = plain(text)
    assert not {unicodedata.category(c) for c in shown if c != "\n"} & {"Cc", "Cs"}
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff")
    assert "\n" not in one_line(text)
    assert len(one_line(text, 20)) <= 20


def test_plain_leaves_ordinary_text_alone() -> None:
    text = "Grüße, 日本語, 🙂 and\nnew lines"
    assert plain(text) == text
    assert plain("a\tb\r\nc") == "a   b\nc"
    assert one_line("  a \n\n b\t") == "a b"
    assert one_line("abcdef", 4) == "abc…"

"""Reading episodes back: turns, phases, calls, figures; and every way a trace file can be damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.errors import TraceError
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
from paraagent.trace.measures import critical_chain
from paraagent.trace.reader import load
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Message

START = EpisodeStart(1, "run", "ep-1", "What is up?", "rules")


def turn(index: int, started: float, ended: float, **tokens: int) -> TurnText:
    return TurnText(index, f"turn {index}", started, ended, **tokens)


def search(index: int, number: int, started: float, ended: float) -> SearchDone:
    return SearchDone(index, number, "slot", "query", [("tool", 0.9)], 100, False, started, ended)


def call(
    index: int,
    number: int,
    started: float,
    ended: float,
    *,
    id: str | None = None,
    raw: JsonObject | None = None,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    exclusive: bool = False,
) -> list[Event]:
    """A call that ran and succeeded: its start and its end."""
    return [
        CallStart(index, number, "f", {}, "read", list(reads), list(writes), exclusive, "key", started),
        CallEnd(index, number, "f", {}, started, ended, id=id, raw_arguments=raw, attempts=1),
    ]


def chain(events: Sequence[Event]) -> list[int]:
    ends = [event for event in events if isinstance(event, CallEnd)]
    return [end.index for end in critical_chain(ends, [e for e in events if isinstance(e, CallStart)])]


def episode() -> list[Event]:
    return [
        START,
        Prompt("system", "Be brief.", 0.0),
        Prompt("user", "What is up?", 0.0),
        turn(0, 0.0, 1.0, input_tokens=100, output_tokens=10),
        search(0, 1, 1.0, 1.5),
        search(0, 0, 1.0, 1.25),
        Prompt("user", "<tools>", 1.5),
        turn(1, 1.5, 2.0, input_tokens=150, output_tokens=20, cached_tokens=100),
        Note(1, "protocol", "nothing to do in this turn", 2.0),
        turn(2, 2.0, 3.0),
        search(2, 0, 3.0, 3.0),
        turn(3, 3.0, 4.0),
        *call(3, 1, 4.0, 6.0, id="b"),
        *call(3, 0, 4.0, 5.0, id="a"),
        *call(3, 2, 6.0, 7.0, raw={"x": ["$b.items[0]"]}),
        CallEnd(3, 3, "nope", {}, 0.0, 0.0, error="tool_not_found", message="no such tool"),
        CallEnd(3, 4, "f", {}, 4.0, 5.0, shared_with=0),
        turn(4, 7.0, 8.0),
        search(4, 0, 8.0, 8.0),
        turn(5, 8.0, 9.0),
        EpisodeEnd(9.0, "answered", True, False, answer="42", success=True, checks={"state": "equal"}),
    ]


def test_turns_hold_what_they_caused_in_order() -> None:
    view = EpisodeView(episode())
    assert [t.kind for t in view.turns] == [
        "exploration",
        "invalid",
        "exploration",
        "execution",
        "exploration",
        "answer",
    ]
    assert [s.index for s in view.turns[0].searches] == [0, 1]
    assert [c.index for c in view.turns[3].calls] == [0, 1, 2, 3, 4]
    assert [n.text for n in view.turns[1].notes] == ["nothing to do in this turn"]
    assert view.turns[5].text == "turn 5"
    assert len(list(view.searches)) == 4


def test_calls_join_start_and_end() -> None:
    first, second, _, unknown, shared = EpisodeView(episode()).calls
    assert first.start is not None
    assert (first.started, first.ended, first.ok, first.ran) == (4.0, 5.0, True, True)
    assert second.end is not None
    assert second.end.id == "b"
    assert (unknown.start, unknown.ok, unknown.ran) == (None, False, False)
    assert (shared.start, shared.ok, shared.ran) == (None, True, True)


def test_invalid_turns_neither_end_a_phase_nor_start_one() -> None:
    view = EpisodeView(episode())
    phases = [(phase.kind, phase.number, [t.index for t in phase.turns]) for phase in view.phases]
    assert phases == [
        ("exploration", 1, [0, 1, 2]),
        ("execution", 1, [3]),
        ("exploration", 2, [4]),
        ("answer", 1, [5]),
    ]
    lost = EpisodeView([START, turn(0, 0, 1), turn(1, 1, 2), search(1, 0, 2, 2)])
    assert lost.turns[0].kind == "invalid"
    lost = EpisodeView([START, turn(0, 0, 1), turn(1, 1, 2), turn(2, 2, 3), search(2, 0, 3, 3)])
    assert [(phase.kind, len(phase.turns)) for phase in lost.phases] == [("invalid", 2), ("exploration", 1)]


def test_messages_are_the_chat_as_the_model_saw_it() -> None:
    messages = EpisodeView(episode()).messages
    assert messages[:5] == [
        Message("system", "Be brief."),
        Message("user", "What is up?"),
        Message("assistant", "turn 0"),
        Message("user", "<tools>"),
        Message("assistant", "turn 1"),
    ]


def test_end_answer_and_verdict() -> None:
    view = EpisodeView(episode())
    assert (view.request, view.answer, view.success) == ("What is up?", "42", True)
    running = EpisodeView(episode()[:-1])
    assert (running.end, running.answer, running.success) == (None, None, None)
    assert running.turns[-1].kind == "invalid"  # no answer is known yet


def test_measures() -> None:
    m = EpisodeView(episode()).measures
    assert (m.turns, m.searches, m.calls, m.failed_calls) == (6, 4, 5, 1)
    assert (m.mean_width, m.max_width) == ((2 + 1 + 5 + 1) / 4, 5)
    assert m.makespan == 9.0
    assert m.model_seconds == pytest.approx(1 + 0.5 + 1 + 1 + 1 + 1)
    assert m.group_seconds == pytest.approx(0.5 + 3.0)  # the call that never ran does not stretch its group to 0.0
    assert m.critical_path == pytest.approx(0.5 + 3.0)  # longest search; then call 1 and the call that links to it
    assert m.makespan_ratio == pytest.approx(1.0)
    assert (m.input_tokens, m.output_tokens, m.cached_tokens, m.tokens) == (250, 30, 100, 280)


def test_measures_of_an_episode_where_nothing_happened() -> None:
    m = EpisodeView([START]).measures
    assert (m.turns, m.mean_width, m.max_width, m.makespan, m.makespan_ratio) == (0, 0, 0, 0, None)


def test_unanswered_call_counts_as_failed() -> None:
    view = EpisodeView([START, turn(0, 0, 1), call(0, 0, 1.0, 2.0)[0]])
    (only,) = view.calls
    assert (only.ok, only.end, only.ended, only.started) == (False, None, None, 1.0)
    assert (view.measures.calls, view.measures.failed_calls, view.measures.max_width) == (1, 1, 1)


def test_critical_chain_follows_links() -> None:
    events = call(0, 0, 0, 2, id="a") + call(0, 1, 0, 3, id="b") + call(0, 2, 2, 5, raw={"x": {"y": ["$a.id"]}})
    assert chain(events) == [0, 2]


def test_critical_chain_follows_links_to_a_shared_run() -> None:
    events = [
        *call(0, 0, 0, 2),
        CallEnd(0, 1, "f", {}, 0, 2, id="twin", shared_with=0),
        *call(0, 2, 2, 3, raw={"x": "$twin"}),
    ]
    assert chain(events) == [0, 2]


@pytest.mark.parametrize("text", ["$$a.id", "costs $a", "$5.00", "$ab", "$"])
def test_what_only_looks_like_a_link_is_none(text: str) -> None:
    assert chain(call(0, 0, 0, 2, id="a") + call(0, 1, 2, 5, raw={"x": text})) == [1]


@pytest.mark.parametrize(
    ("one", "other", "waits"),
    [
        ({"writes": ["p/a/1"]}, {"writes": ["p/a/1"]}, True),
        ({"writes": ["p/a/1"]}, {"reads": ["p/a/1"]}, True),
        ({"reads": ["p/a"]}, {"writes": ["p/a/1"]}, True),
        ({"writes": ["p/a"]}, {"reads": ["p/a/1"]}, True),
        ({"writes": ["p/a/1"]}, {"writes": ["p/a/12"]}, False),
        ({"writes": ["p/a/1"]}, {"reads": ["p/ab"]}, False),
        ({"reads": ["p/a/1"]}, {"reads": ["p/a/1"]}, False),
        ({"exclusive": True}, {}, True),
        ({}, {}, False),
    ],
)
def test_critical_chain_follows_conflicts(
    one: dict[str, list[str]], other: dict[str, list[str]], waits: bool
) -> None:
    events = call(0, 0, 0, 2, **one) + call(0, 1, 2, 3, **other)  # type: ignore[arg-type]
    assert chain(events) == ([0, 1] if waits else [0])


def test_calls_that_overlapped_did_not_wait_for_each_other() -> None:
    assert chain(call(0, 0, 0, 2, id="a") + call(0, 1, 1, 4, raw={"x": "$a"})) == [1]


def group(rows: Sequence[tuple[int, int, str, bool]]) -> tuple[list[CallEnd], list[CallStart]]:
    """Calls `a`, `b`, `c`, ... by (start, duration, the call it links to, whether it excludes all others)."""
    events: list[Event] = []
    for number, (started, duration, link, exclusive) in enumerate(rows):
        end = started + duration
        events += call(0, number, started, end, id="abcdefgh"[number], raw={"x": f"${link}"}, exclusive=exclusive)
    return [e for e in events if isinstance(e, CallEnd)], [e for e in events if isinstance(e, CallStart)]


def rows(shortest: int) -> st.SearchStrategy[list[tuple[int, int, str, bool]]]:
    return st.lists(
        st.tuples(st.integers(0, 9), st.integers(shortest, 4), st.sampled_from("abcdefgh"), st.booleans()), max_size=8
    )


@given(rows(shortest=1))
def test_critical_chain_is_the_longest_of_all_paths(calls: list[tuple[int, int, str, bool]]) -> None:
    ends, starts = group(calls)

    def longest(down: int) -> int:
        started, duration, link, exclusive = calls[down]
        before = [
            longest(up)
            for up in range(len(calls))
            if calls[up][0] + calls[up][1] <= started and ("abcdefgh"[up] == link or exclusive or calls[up][3])
        ]
        return duration + max(before, default=0)

    found = critical_chain(ends, starts)
    assert sum(end.ended - end.started for end in found) == max(map(longest, range(len(calls))), default=0)


@given(rows(shortest=-4))
def test_critical_chain_of_an_absurd_trace_is_still_a_chain(calls: list[tuple[int, int, str, bool]]) -> None:
    """Calls that end before they start, or link in a circle at one instant."""
    found = critical_chain(*group(calls))
    assert all(up.ended <= down.started for up, down in pairwise(found))
    assert len({end.index for end in found}) == len(found)


def write(path: Path, events: Sequence[Event]) -> bytes:
    with Recorder(path) as recorder:
        for event in events:
            recorder.write(event)
    return path.read_bytes()


def test_load_reads_what_was_recorded(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", episode())
    view = load(tmp_path / "t.jsonl")
    assert view.events == EpisodeView(episode()).events
    assert not view.torn


def test_torn_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    data = write(tmp_path / "t.jsonl", episode())
    (tmp_path / "torn.jsonl").write_bytes(data[:-30])
    view = load(tmp_path / "torn.jsonl")
    assert view.torn
    assert view.events == tuple(episode()[:-1])
    (tmp_path / "whole.jsonl").write_bytes(data[:-1])  # only the newline is missing
    assert load(tmp_path / "whole.jsonl").end is not None


def test_cut_anywhere_it_is_a_shorter_episode_or_no_trace(tmp_path: Path) -> None:
    events = episode()[:5]
    data = write(tmp_path / "t.jsonl", events)
    for length in range(0, len(data), 3):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(data[:length])
        try:
            view = load(path)
        except TraceError:
            assert b"\n" not in data[:length]
        else:
            assert view.events == tuple(events[: len(view.events)])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([b""], "empty"),
        ([b"\x89PNG\r\n\x1a\n\x00\xff\xfe" * 40], "not a trace"),
        ([b"hello"], "not a trace"),
        ([b"[1, 2]", b""], "not a trace"),
        ([b'{"event": "note"', b""], "not a trace"),
        ([b"[" * 200_000, b""], "not a trace"),
        ([b"START", b'{"event": "no', b"END", b""], "line 2: damaged"),
        ([b"START", b"", b"END", b""], "line 2: damaged"),
        ([b"START", b"\x00" * 20, b""], "line 2: damaged"),
        ([b"START", b'{"event": "telepathy", "at": 1}', b""], "line 2: cannot read event 'telepathy'"),
        ([b"START", b'{"event": "telepathy", "at": 1}'], "line 2: cannot read event 'telepathy'"),
        ([b"START", b'{"event": "turn", "turn": "first"}', b""], "line 2: cannot read event 'turn'"),
        (
            [b'{"event": "episode_start", "version": 2, "new": 1}', b""],
            "line 1: written by a newer version (2, this one reads 1)",
        ),
        ([b"START", b"START", b""], "event 2: an episode has exactly one"),
        ([b"END", b""], "event 1: an episode has exactly one"),
        ([b"START", b"END", b"END", b""], "event 3: stands after the end"),
    ],
)
def test_damage_is_refused_with_file_and_line(tmp_path: Path, lines: list[bytes], words: str) -> None:
    start, end = write(tmp_path / "t.jsonl", [START, episode()[-1]]).split(b"\n")[:2]
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"\n".join({b"START": start, b"END": end}.get(line, line) for line in lines))
    with pytest.raises(TraceError) as caught:
        load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_directory_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(TraceError, match="cannot read the trace") as caught:
            load(path)
        assert str(path) in str(caught.value)


def test_additional_fields_are_ignored(tmp_path: Path) -> None:
    data = json.loads(write(tmp_path / "t.jsonl", [START]))
    (tmp_path / "more.jsonl").write_text(json.dumps(data | {"mood": "good"}) + "\n")
    assert load(tmp_path / "more.jsonl").start == START


def test_no_events_are_no_episode() -> None:
    with pytest.raises(TraceError, match="no events"):
        EpisodeView([])


@given(st.data())
def test_random_damage_never_escapes_as_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / "t.jsonl"
    raw = bytearray(write(path, episode()))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        view = load(path)
    except TraceError:
        return
    assert view.measures.turns == len(view.turns)
    assert sum(len(phase.turns) for phase in view.phases) == len(view.turns)

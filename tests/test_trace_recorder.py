"""The recorder: what is written is on file at once, nothing is overwritten, no secret and no bad text gets in."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraagent.errors import TraceError
from paraagent.trace.events import CallEnd, CallStart, EpisodeStart, Event, Note, TurnText
from paraagent.trace.reader import load
from paraagent.trace.recorder import Recorder, redactor
from paraagent.types import JsonValue

START = EpisodeStart(1, "run", "ep-1", "What is up?", "rules")
SECRET = 'sk-"canary"\\0123'


def note(text: str = "x") -> Note:
    return Note(0, "plan", text, 1.0)


def end(value: JsonValue) -> CallEnd:
    return CallEnd(0, 0, "read", {}, 0.0, 1.0, value=value)


def test_every_event_is_on_file_when_write_returns(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "t.jsonl"
    recorder = Recorder(path)
    for count, event in enumerate([START, note("zwölf"), note("line\nbreak")], 1):
        recorder.write(event)
        assert len(path.read_text(encoding="utf-8").splitlines()) == count
        assert load(path).events == tuple(recorder.events)
    recorder.close()


def test_without_a_path_events_stay_in_memory() -> None:
    with Recorder() as recorder:
        recorder.write(START)
        recorder.write(note(), durable=True)
    assert recorder.events == [START, note()]


def test_existing_file_is_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("precious")
    with pytest.raises(TraceError, match=r"t\.jsonl: exists already"):
        Recorder(path)
    assert path.read_text() == "precious"


def test_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match=r"file/t\.jsonl: cannot create"):
        Recorder(tmp_path / "file" / "t.jsonl")


def test_closing_twice_is_fine_and_writing_afterwards_is_not(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "t.jsonl")
    recorder.write(START)
    recorder.close()
    recorder.close()
    with pytest.raises(TraceError, match=r"t\.jsonl: the trace is closed"):
        recorder.write(note())
    assert recorder.events == [START]


def test_durable_syncs_and_plain_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    path = tmp_path / "t.jsonl"
    with Recorder(path) as recorder:
        recorder.write(START)
        assert synced == []
        recorder.write(note(), durable=True)
        assert synced[0] == path.stat().st_size  # both lines were there when the file was synced
        assert len(synced) == 2  # the file, then its directory, once
        recorder.write(note(), durable=True)
        assert len(synced) == 3


def test_killed_process_leaves_all_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    program = f"""
        import os, signal
        from pathlib import Path
        from paraagent.trace.events import EpisodeStart, Note
        from paraagent.trace.recorder import Recorder
        recorder = Recorder(Path({str(path)!r}))
        recorder.write(EpisodeStart(1, "run", "ep", "hi", "rules"))
        for i in range(100):
            recorder.write(Note(0, "plan", str(i), 0.0))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(load(path).events) == 101


def test_full_disk_is_an_error_that_names_the_file_and_spoils_one_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    recorder = Recorder(path)
    recorder.write(START)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 200, hard))
    try:
        recorder.write(note("fits"))
        with pytest.raises(TraceError, match=r"t\.jsonl: cannot write the trace"):
            recorder.write(note("x" * 500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(TraceError, match="closed"):
        recorder.write(note("later"))  # or it would stand behind a torn line
    view = load(path)
    assert view.torn
    assert view.events == tuple(recorder.events) == (START, note("fits"))


def test_no_secret_gets_into_file_or_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with Recorder(path, redact=redactor([SECRET, "hunter2", "", "abc"])) as recorder:
        recorder.write(
            msgspec.structs.replace(START, config={"key": SECRET, SECRET: ["abc", {"deep": f"<{SECRET}>"}]})
        )
        recorder.write(TurnText(0, f"my password is hunter2 and {SECRET}", 0.0, 1.0))
        recorder.write(CallStart(0, 0, "f", {"auth": SECRET}, "read", [SECRET], [], False, "k", 1.0), durable=True)
        recorder.write(note("nothing to hide"))
    text = path.read_text()
    assert "canary" not in text + repr(recorder.events)
    assert "hunter2" not in text + repr(recorder.events)
    assert '["abc",{"deep":"<[secret]>"}]' in text  # what is too short to be a secret stays
    assert load(path).events == tuple(recorder.events)


def test_redaction_works_in_memory_too() -> None:
    recorder = Recorder(redact=redactor(["hunter2"]))
    recorder.write(note("hunter2!"))
    assert recorder.events == [note("[secret]!")]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("a\ud800b", "a?b"),
        ({"\udfff": 1}, {"?": 1}),
        ({(1, 2): 3}, {"(1, 2)": 3}),
        (float("nan"), None),
        (2**100, 2**100),
        (Path("/tmp"), "/tmp"),
    ],
)
def test_what_no_json_file_can_hold_is_replaced(tmp_path: Path, value: JsonValue, stored: JsonValue) -> None:
    with Recorder(tmp_path / "t.jsonl") as recorder:
        recorder.write(START)
        recorder.write(end(value))
    last = load(tmp_path / "t.jsonl").events[-1]
    assert isinstance(last, CallEnd)
    assert last.value == stored


def test_bottomless_value_is_cut(tmp_path: Path) -> None:
    deep: JsonValue = "bottom"
    for _ in range(100_000):
        deep = [deep]
    with Recorder(tmp_path / "t.jsonl") as recorder:
        recorder.write(START)
        recorder.write(end(deep))
    assert len(load(tmp_path / "t.jsonl").events) == 2


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
events = st.one_of(
    st.builds(Note, st.integers(0, 9), st.just("plan"), st.text(), st.floats(0, 1e6)),
    st.builds(end, json_values),
    st.builds(TurnText, st.integers(0, 9), st.text(), st.floats(0, 1e6), st.floats(0, 1e6)),
)


@given(st.lists(events, max_size=4))
def test_file_and_memory_tell_the_same(tmp_path_factory: pytest.TempPathFactory, written: list[Event]) -> None:
    path = tmp_path_factory.mktemp("traces") / "t.jsonl"
    with Recorder(path) as recorder:
        for event in [START, *written]:
            recorder.write(event)
    assert load(path).events == tuple(recorder.events) == (START, *written)
    assert all(json.loads(line)["event"] for line in path.read_text(encoding="utf-8").split("\n")[:-1])

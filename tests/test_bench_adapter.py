"""Drills are the demonstrations in which the first tool is not the right one, and as many others, up to the call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from paraagent.demos.demo import Demo
from paraagent.demos.formats import from_row, row
from paraagent.types import Message

BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)


def line(name: str, *shown: str, call: str = "right", failed: bool = False) -> str:
    cards = "\n".join(f"{tool}() - do it" for tool in shown)
    turns = [
        ("system", "rules", False),
        ("user", name, False),
        ("assistant", "<search_tool>it: do it</search_tool>", True),
        ("user", f"<tools>\nit: {len(shown)} of 9 tools\n{cards}\n</tools>", False),
        *([("assistant", "<tool_call>{}</tool_call>", False), ("user", "no", False)] if failed else []),
        ("assistant", f'<tool_call>{{"name": "{call}"}}</tool_call>', True),
        ("user", "<tool_response>\n{}\n</tool_response>", False),
        ("assistant", "<answer>Done.</answer>", True),
    ]
    messages = tuple(Message(role, text) for role, text, _ in turns)  # type: ignore[arg-type]
    demo = Demo(name, messages, tuple(learn for *_, learn in turns), "single", meta={"tools": [call]})
    return json.dumps(row(demo, "chat"))


def test_hard_ones_and_as_many_others_are_cut_behind_the_call() -> None:
    import adapter

    lines = [line("easy", "right", "other"), line("hard", "other", "right"), line("more", "right")]
    drills = [from_row(json.loads(text)) for text in adapter.drills(lines)]
    assert [drill.task_id for drill in drills] == ["hard", "easy"]
    for drill in drills:
        assert "right" in drill.messages[-1].content
        assert len(drill.messages) == len(drill.loss) == 5
        assert drill.loss[-1]


def test_a_call_that_is_not_learned_does_not_end_a_drill() -> None:
    import adapter

    (drill,) = [from_row(json.loads(text)) for text in adapter.drills([line("hard", "other", "right", failed=True)])]
    assert len(drill.messages) == 7
    assert drill.loss == (False, False, True, False, False, False, True)

"""Reports: what they refuse, what they say, and that nothing in a trace can act in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import orjson
import pytest
import typer
from typer.testing import CliRunner, Result

from paraagent.cli.report import report
from paraagent.env.task import Task
from paraagent.errors import ModelError, UsageError
from paraagent.evaluate.compare import compare
from paraagent.evaluate.intervals import Interval
from paraagent.evaluate.report import Report
from paraagent.evaluate.report_document import Cell, Document, Section, Story, Table, Text, number
from paraagent.evaluate.report_html import to_html
from paraagent.evaluate.report_markdown import to_markdown
from paraagent.evaluate.report_plots import Series, curves, intervals, stacks
from paraagent.evaluate.report_run import open_run, open_runs
from paraagent.types import Call, JsonObject
from reward_play import DIRECT, NEEDED, PERFECT, TASK, do, look, play, say

app = typer.Typer()
app.command()(report)
Lines = Sequence[str | ModelError]
WRONG: Lines = [look(*NEEDED), say("Ada has 3 orders.")]


def make(
    path: Path, episodes: Mapping[str, tuple[Lines, Task]], config: JsonObject | None = None, planned: int = 0
) -> Path:
    """Write a run directory of scripted episodes."""
    (path / "traces").mkdir(parents=True)
    record = {"config": {"policy": "script"} | (config or {})}
    (path / "run.json").write_bytes(orjson.dumps(record))
    (path / "summary.json").write_bytes(orjson.dumps({"planned": planned or len(episodes)}))
    for name, (lines, task) in episodes.items():
        play(lines, task, path=path / "traces" / f"{name}.jsonl")
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return make(tmp_path / "good", {"a": (PERFECT, TASK), "b": (PERFECT, TASK), "d": ([say("42")], DIRECT)})


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return make(tmp_path / "bad", {"a": (PERFECT, TASK), "b": (WRONG, TASK), "d": ([say("41")], DIRECT)})


def written(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def complaint(result: Result, code: int = 2) -> str:
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


def test_a_report_is_one_page_and_one_text_with_the_same_figures(bad: Path, tmp_path: Path) -> None:
    result = written(bad, "--out", tmp_path / "out" / "r.html", "--json")
    found = json.loads(result.stdout)
    html, text = (Path(path).read_text() for path in found["written"])
    assert found["written"] == [str(tmp_path / "out" / "r.html"), str(tmp_path / "out" / "r.md")]
    assert found["runs"][0]["metrics"]["success"]["n"] == 3
    assert found["runs"][0]["behaviour"]["failures"] == {"no_evidence": 1, "misreported": 1}
    for page in (html, text):
        assert "solved 1 of 3 tasks: 0.333" in page
        assert "../bad/traces/b.jsonl" in page
    assert "http-equiv" in html
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)
    assert "answered without calling" in text.replace("\\", "")


def test_the_files_lie_in_the_first_run_unless_told(bad: Path) -> None:
    assert written(bad).exit_code == 0
    assert "traces/b.jsonl" in (bad / "report.md").read_text()
    assert (bad / "report.html").exists()


def test_runs_are_compared_task_by_task(good: Path, bad: Path) -> None:
    found = Report(open_runs([bad, good]))
    comparison = found.comparisons["good"]
    assert (comparison.tasks, comparison.gained, comparison.lost) == (3, ("b", "d"), ())
    assert comparison.figures["success"].difference.value == pytest.approx(2 / 3)
    assert comparison.figures["success"].p == pytest.approx(0.5)
    page = to_markdown(found.document(good))
    assert "2 solved only by good, 0 only by bad" in page
    assert "+0.667" in page


def test_a_figure_is_compared_only_where_it_applies_in_both(good: Path) -> None:
    metrics = open_run(good).metrics
    other = {**metrics, "a": replace(metrics["a"], gold_precision=None)}
    assert compare(metrics, other).figures["gold_precision"].difference.n == 1
    assert compare(metrics, {}).figures == {}


def test_equal_runs_are_samples_of_the_same_tasks(good: Path, tmp_path: Path) -> None:
    again = make(tmp_path / "again", {"a": (WRONG, TASK), "b": (PERFECT, TASK), "d": ([say("42")], DIRECT)})
    (samples,) = Report(open_runs([good, again])).repeated.values()
    assert samples[1].at_least_one.value == 1
    assert samples[1].all_of_them.value == pytest.approx(2 / 3)
    assert "pass@k" in to_html(Report(open_runs([good, again])).document(good))


def test_an_incomplete_run_is_refused_unless_told(tmp_path: Path) -> None:
    run = make(tmp_path / "r", {"a": (PERFECT, TASK), "b": ([ModelError("down")], TASK)}, planned=4)
    (run / "traces" / "c.jsonl").write_text("no trace")
    said = complaint(written(run))
    assert "1 missing, 1 unfinished or damaged, 1 failed outside the agent" in said
    assert "--allow-incomplete" in said
    assert written(run, "--allow-incomplete").exit_code == 0
    assert "incomplete and its figures may mislead" in (run / "report.md").read_text()


def test_a_mixed_run_is_refused_unless_told(good: Path) -> None:
    trace = good / "traces" / "a.jsonl"
    head, rest = trace.read_text().split("\n", 1)
    start = json.loads(head) | {"config": {"policy": "script", "seed": 7}}
    trace.write_text(f"{json.dumps(start)}\n{rest}")
    said = complaint(written(good))
    assert "seed" in said
    assert "--mixed" in said
    assert written(good, "--mixed").exit_code == 0


def test_runs_of_different_benchmarks_are_not_put_side_by_side(good: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other", {"a": (PERFECT, TASK)}, {"benchmark": "bfcl"})
    assert "differ in their benchmark" in complaint(written(good, other))
    assert written(good, other, "--mixed").exit_code == 0


def test_runs_without_a_common_task_say_so(good: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other", {"z": (PERFECT, TASK)})
    assert "no task in common" in to_markdown(Report(open_runs([good, other])).document(good))


def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path, good: Path) -> None:
    assert "no run directory" in complaint(written(tmp_path))
    assert "named twice" in complaint(written(good, good))
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.json").write_text("{")
    assert "cannot be read" in complaint(written(tmp_path / "r"), 3)
    empty = make(tmp_path / "empty", {})
    assert "no finished episode" in complaint(written(empty))
    with pytest.raises(UsageError):
        open_runs([])


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    runs = [make(tmp_path / parent / "run", {"a": (PERFECT, TASK)}) for parent in ("x", "y")]
    assert [run.name for run in open_runs(runs)] == ["x/run", "y/run"]


HOSTILE = "\x1b[31m<script>alert(1)</script> | [x](javascript:alert(1)) http://evil.example www.evil.example `x`"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    task = replace(TASK, request=HOSTILE)
    lines = [look(*NEEDED), do(Call("get_weather", {"city": HOSTILE}), Call(HOSTILE, {})), say(HOSTILE)]
    run = make(tmp_path / "r", {"a": (lines, task)})
    document = Report(open_runs([run])).document(run)
    html, text = to_html(document), to_markdown(document)
    tags = Tags()
    tags.feed(html)
    assert "script" not in {tag for tag, _ in tags.found}
    assert not [name for _, attrs in tags.found for name, _ in attrs if name.startswith("on")]
    assert all(
        (value or "").startswith(("#", "traces/")) for _, at in tags.found for name, value in at if name == "href"
    )
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html + text
    assert "<script" not in text


def test_markup_in_cells_and_stories_is_escaped_in_markdown() -> None:
    table = Table(("a", HOSTILE), ((Cell(HOSTILE), Cell("b\nc", HOSTILE)),))
    document = Document(
        HOSTILE, (Section(HOSTILE, (Text(HOSTILE), table, Story(HOSTILE, HOSTILE, "a b/<c>.jsonl"))),)
    )
    text, html = to_markdown(document), to_html(document)
    assert "\x1b" not in html
    assert "<script" not in html
    assert "<script" not in text
    assert "[x](" not in text
    assert "](a%20b/%3Cc%3E.jsonl)" in text
    assert not re.search(r"(?<!\\)://|(?<=www)\.", text.replace("\\:", ""))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (1.0, "1"), (0.7619, "0.762"), (1.853, "1.85"), (-12.34, "-12.3"), (1204.4, "1,204")],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


def test_plots_are_well_formed_whatever_they_are_named() -> None:
    one = Interval(0.5, 0.25, 0.75, 8)
    for svg in (
        intervals([(HOSTILE, [one, None]), ("b", [one, one])], [HOSTILE, "y" * 80]),
        stacks([("a", [1, 0, 2]), ("b", [0, 0, 0])], ["x_y", "<", "z"]),
        curves([Series("<a>", ((1.0, one), (20_000.0, one))), Series("b", ((1.0, one),))], "turns", "success"),
        stacks([], ["x"]),
        curves([], "x", "y"),
    ):
        root = ElementTree.fromstring(svg)
        assert root.attrib["viewBox"].startswith("0 0 360 ")


def test_an_interval_is_drawn_where_it_lies() -> None:
    svg = intervals([("a", [Interval(0.5, 0.25, 1.0, 8)])], ["run"])
    (line,) = re.findall(r'<line x1="([\d.]+)" x2="([\d.]+)"[^>]*stroke="#', svg)
    assert (float(line[0]), float(line[1])) == (pytest.approx(95), pytest.approx(350))
    assert 'cx="180.0"' in svg


def test_episodes_nobody_judged_are_neither_solved_nor_failed(tmp_path: Path) -> None:
    runs = [make(tmp_path / name, {}) for name in ("one", "two")]
    for run in runs:
        play(PERFECT, TASK, verified=False, path=run / "traces" / "a.jsonl")
    found = Report(open_runs(runs))
    assert found.comparisons["two"].figures["turns"].first == 3
    assert "success" not in found.comparisons["two"].figures
    assert found.repeated == {}
    page = to_markdown(found.document(tmp_path))
    assert "No episode was judged." in page
    assert "No judged episode failed." in page

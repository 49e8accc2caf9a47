"""`paraagent demos`: make, inspect and convert as a user meets them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from chat_server import MODEL, NO_MODEL, Answer, ChatServer
from paraagent.catalog.store import Catalog
from paraagent.cli.demos import app
from paraagent.demos.formats import read
from paraagent.search.search import SearchIndex


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, catalog: Catalog, index: SearchIndex) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def demos(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def complaint(result: Result, code: int) -> str:
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error:")
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@pytest.fixture
def where(catalog: Catalog) -> tuple[str, ...]:
    return ("--catalog", str(catalog.path), "--workers", "1")


@pytest.fixture
def made(where: tuple[str, ...]) -> Path:
    result = demos(
        "make", "--out", "data/set.jsonl", "--limit", "14", "--mistakes", "0.5", "--sharegpt", "share.jsonl", *where
    )
    assert result.exit_code == 0, result.output
    return Path("data/set.jsonl")


def test_making_writes_the_data_and_a_card_that_counts_it(made: Path) -> None:
    rows = [json.loads(text) for text in made.read_text().splitlines()]
    assert len(rows) == 14
    assert set(rows[0]) == {"task_id", "kind", "split", "dataset", "messages", "loss", "meta"}
    card = made.with_suffix(".md").read_text()
    assert card.startswith("# set.jsonl\n")
    for kind, count in Counter(row["kind"] for row in rows).items():
        assert f"| {kind} | {count} | {count / 14:.1%} |" in card
    for wanted in ("sha256", "seed: 0", "experts: builtin", "| reason | times |", "- linked: mix"):
        assert wanted in card
    unlearned = sum(row["loss"].count(False) - sum(m["role"] != "assistant" for m in row["messages"]) for row in rows)
    assert unlearned
    assert f"of which {unlearned} are shown but" in card


def test_the_sharegpt_file_holds_all_demonstrations_that_are_learned_whole(made: Path) -> None:
    whole = [demo for demo in read(made) if all(demo.loss[2::2])]
    shared = list(read(Path("share.jsonl")))
    assert [demo.messages for demo in shared] == [demo.messages for demo in whole]
    assert len(whole) < 14


def test_the_same_seed_gives_the_same_bytes_and_card(made: Path, where: tuple[str, ...]) -> None:
    before = made.read_bytes(), made.with_suffix(".md").read_bytes()
    again = ["make", "--out", str(made), "--limit", "14", "--mistakes", "0.5", "--sharegpt", "share.jsonl", *where]
    assert "exists already" in complaint(demos(*again), 2)
    assert demos(*again, "--overwrite").exit_code == 0
    assert (made.read_bytes(), made.with_suffix(".md").read_bytes()) == before
    assert demos(*again, "--overwrite", "--seed", "1").exit_code == 0
    assert made.read_bytes() != before[0]


def test_json_output_is_one_object(where: tuple[str, ...]) -> None:
    result = demos("make", "--out", "x.jsonl", "--limit", "3", "--kind", "direct,single", "--json", *where)
    record = json.loads(result.stdout)
    assert record["demonstrations"] == 3
    assert set(record["kind"]) <= {"direct", "single"}
    assert record["file"] == "x.jsonl"
    assert "refused" in record


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--split", "test-unseen"], "test-unseen is for measuring only"),
        (["--kind", "huge"], "unknown task kind 'huge'"),
        (["--experts", "http"], "needs --model"),
        (["--experts", "http", "--model", "m", "--roles", "boss"], "unknown role 'boss'"),
        (["--sharegpt", "set.jsonl"], "need different names"),
    ],
)
def test_usage_errors_are_one_line(arguments: list[str], said: str, where: tuple[str, ...]) -> None:
    assert said in complaint(demos("make", "--out", "set.jsonl", "--limit", "2", *arguments, *where), 2)
    assert not Path("set.jsonl").exists()


def test_held_out_splits_need_a_word(where: tuple[str, ...]) -> None:
    result = demos("make", "--out", "x.jsonl", "--limit", "2", "--split", "test-unseen", "--held-out", *where)
    assert result.exit_code == 0, result.output
    assert {demo.split for demo in read(Path("x.jsonl"))} == {"test-unseen"}


def test_without_a_catalog_it_says_how_to_build_one() -> None:
    assert "paraagent catalog build" in complaint(demos("make", "--out", "x.jsonl"), 3)


def test_a_folder_that_cannot_be_written_is_said(where: tuple[str, ...]) -> None:
    Path("file").touch()
    assert "cannot write there" in complaint(demos("make", "--out", "file/x.jsonl", "--limit", "1", *where), 3)


def test_an_unknown_model_is_said_before_anything_is_made(where: tuple[str, ...]) -> None:
    with ChatServer(default=NO_MODEL) as server:
        http = ["--experts", "http", "--model", "big", "--base-url", server.base_url]
        assert "does not know this model" in complaint(demos("make", "--out", "x.jsonl", *http, *where), 3)


def test_a_model_may_play_the_answerer(where: tuple[str, ...]) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        """Repeat all results: whatever is asked for is among them."""
        question = request["messages"][-1]["content"]
        return Answer(json.dumps({"answer": " ".join(re.findall(r'[^{}"]+', question)), "thought": "t"}))

    with ChatServer(answer) as server:
        http = ["--experts", "http", "--model", MODEL, "--base-url", server.base_url, "--roles", "answerer"]
        result = demos("make", "--out", "x.jsonl", "--limit", "3", "--kind", "single,chain", *http, *where)
    assert result.exit_code == 0, result.output
    assert "experts: tiny as answerer" in Path("x.md").read_text()
    assert {str(demo.meta["experts"]) for demo in read(Path("x.jsonl"))} == {"http:tiny as answerer"}


def test_a_model_that_is_of_no_use_is_given_up_soon_and_what_it_said_is_told(where: tuple[str, ...]) -> None:
    with ChatServer(default=Answer("I am only a parrot")) as server:
        http = ["--experts", "http", "--model", MODEL, "--base-url", server.base_url, "--kind", "direct"]
        said = complaint(demos("make", "--out", "x.jsonl", "--limit", "3", *http, *where), 2)
        assert "only 0 of 3 demonstrations could be made (model_failed" in said
        assert "gave no usable reply as planner" in said
        assert len(server.requests) < 300


def test_inspect_counts_and_tells_one(made: Path) -> None:
    result = demos("inspect", str(made))
    assert result.exit_code == 0
    assert re.search(r"^demonstrations +14 *$", result.stdout, re.MULTILINE)
    assert re.search(r"^faulty turns +0 *$", result.stdout, re.MULTILINE)
    chain = next(n for n, demo in enumerate(read(made)) if demo.kind == "chain")
    told = demos("inspect", str(made), "--index", str(chain)).stdout
    for wanted in ("exploration", "plan    slots:", "search  ", "execution", "call    ", "answer  "):
        assert wanted in told
    record = json.loads(demos("inspect", str(made), "--index", str(chain), "--json").stdout)
    assert record["kind"] == "chain"
    assert "fewer than 100 demonstrations" in complaint(demos("inspect", str(made), "--index", "99"), 2)


def test_inspect_reports_malformed_rows_by_line_or_stops_at_them(made: Path) -> None:
    made.write_text("{broken\n" + made.read_text())
    result = demos("inspect", str(made))
    assert "line 1 left out: not valid JSON" in result.stdout
    assert "14" in result.stdout
    assert "line 1: not valid JSON" in complaint(demos("inspect", str(made), "--on-error", "fail"), 3)


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    row = {
        "task_id": "\x1b[31mred",
        "messages": [
            {"role": "user", "content": "a\x1b]0;x\x07b"},
            {"role": "assistant", "content": "<answer>\x1b[2J</answer>"},
        ],
    }
    Path("x.jsonl").write_text(json.dumps(row) + "\n")
    for arguments in (["inspect", "x.jsonl", "--index", "0"], ["inspect", "x.jsonl"]):
        assert "\x1b" not in demos(*arguments).stdout


def test_convert_goes_both_ways_and_counts_what_has_no_place(made: Path) -> None:
    result = demos("convert", str(made), "to.jsonl", "--to", "sharegpt")
    assert result.exit_code == 0
    left_out = 14 - len(Path("to.jsonl").read_text().splitlines())
    assert left_out
    assert f"{left_out} left out" in result.stdout
    assert Path("to.jsonl").read_bytes() == Path("share.jsonl").read_bytes()
    assert demos("convert", "to.jsonl", "back.jsonl", "--to", "chat").exit_code == 0
    assert demos("convert", "back.jsonl", "again.jsonl", "--to", "sharegpt").exit_code == 0
    assert Path("again.jsonl").read_bytes() == Path("to.jsonl").read_bytes()
    assert "exists already" in complaint(demos("convert", "to.jsonl", "back.jsonl", "--to", "chat"), 2)
    assert "exists already" in complaint(demos("convert", "to.jsonl", "to.jsonl", "--to", "chat", "--overwrite"), 2)
    assert "cannot read" in complaint(demos("convert", "none.jsonl", "new.jsonl", "--to", "chat"), 3)
    assert not Path("new.jsonl").exists()


def test_an_empty_file_holds_no_demonstrations() -> None:
    Path("x.jsonl").touch()
    assert "holds no demonstrations" in complaint(demos("inspect", "x.jsonl"), 2)

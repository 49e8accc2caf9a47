"""The command line as a user meets it: output, JSON, exit codes, and one clear line for everything that is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from chat_server import KEY, MODEL, NO_MODEL, Answer, ChatServer
from paraagent.catalog.store import Catalog
from paraagent.cli.main import app
from paraagent.protocol.plan import SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.types import Search


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, without a user's catalog, keys or endpoints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def paraagent(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def complaint(result: Result, code: int) -> str:
    """Return the one line a failing command writes to stderr."""
    assert result.exit_code == code, result.output
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert lines[0].startswith("error:")
    assert "Traceback" not in result.output
    return " ".join(lines)


@pytest.fixture
def where(catalog: Catalog) -> tuple[str, str]:
    return "--catalog", str(catalog.path)


def test_without_a_catalog_every_command_says_how_to_build_one() -> None:
    for command in (["catalog", "info"], ["search", "x"], ["run"], ["tasks", "sample"], ["run", "do it"]):
        assert "paraagent catalog build" in complaint(paraagent(*command), 3)


def test_a_file_that_is_no_catalog_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "catalog.sqlite"
    bad.write_bytes(b"not a database at all" * 100)
    assert str(bad) in complaint(paraagent("catalog", "info", "--catalog", str(bad)), 3)


def test_catalog_info_has_the_keys_that_scripts_read(where: tuple[str, str]) -> None:
    result = paraagent("catalog", "info", "--json", *where)
    found = json.loads(result.stdout)
    assert found["tools"] == 157
    assert {"tools", "providers", "bytes", "digest"} <= found.keys()


def test_show_knows_what_was_meant(where: tuple[str, str], catalog: Catalog) -> None:
    name = catalog.names()[0]
    assert json.loads(paraagent("catalog", "show", name, "--json", *where).stdout)["name"] == name
    assert name in complaint(paraagent("catalog", "show", name[:-2], *where), 2)


def test_search_answers_every_query(where: tuple[str, str]) -> None:
    result = paraagent("search", "--json", "parcel: track a parcel", "xyzzy plugh", "-k", "2", *where)
    first, second = json.loads(result.stdout)["answers"]
    assert len(first["hits"]) <= 2
    assert first["total"] == 157
    assert second["nothing_fits"] is True


def test_run_prints_figures_and_keeps_a_trace_of_every_episode(where: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ("--split", "train", "--kind", "single,direct", "--limit", "4", "--out", str(out), *where)
    result = paraagent("run", "--json", "--policy", "oracle", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {"episodes", "success", "by_kind", "turns_mean", "width_mean", "makespan_ratio"} <= found.keys()
    assert (found["episodes"], found["success"]) == (4, 1.0)
    assert set(found["by_kind"]) == {"single", "direct"}
    traces = sorted((out / "traces").glob("*.jsonl"))
    assert len(traces) == 4
    told = paraagent("view", str(traces[-1]))
    assert told.exit_code == 0
    assert "Verdict" in told.stdout
    assert "name one of them" in complaint(paraagent("view", str(out)), 2)


def test_a_run_goes_on_where_it_was_and_refuses_other_settings(where: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = (
        "--policy",
        "oracle",
        "--split",
        "train",
        "--kind",
        "single",
        "--limit",
        "3",
        "--out",
        str(out),
        *where,
    )
    assert paraagent("run", *options).exit_code == 0
    kept, again, *_ = sorted((out / "traces").glob("*.jsonl"))
    again.write_bytes(again.read_bytes()[:200])
    before = kept.stat().st_mtime_ns
    assert json.loads(paraagent("run", "--json", *options).stdout)["episodes"] == 3
    assert kept.stat().st_mtime_ns == before
    assert "other settings (turns)" in complaint(paraagent("run", *options, "--turns", "3"), 2)
    assert paraagent("run", *options, "--turns", "3", "--overwrite").exit_code == 0


def test_fail_under_decides_the_exit_code(where: tuple[str, str]) -> None:
    options = ("run", "--split", "train", "--kind", "unanswerable", "--limit", "2", "--policy", "oracle", *where)
    assert paraagent(*options, "--fail-under", "0.9", "--out", "a").exit_code == 0
    options = ("run", "--split", "train", "--kind", "chain", "--limit", "2", "--turns", "1", *where)
    assert paraagent(*options, "--fail-under", "0.9", "--out", "b").exit_code == 1


def test_the_oracle_check_counts_what_was_dropped(where: tuple[str, str]) -> None:
    result = paraagent("tasks", "check", "--limit", "20", "--split", "train", "--json", *where)
    found = json.loads(result.stdout)
    assert found["kept"] + sum(found["dropped"].values()) == 20
    assert found["oracle_success"] == 1.0
    assert result.exit_code == 0


def test_sampled_tasks_can_be_written_and_are_the_same_again(where: tuple[str, str], tmp_path: Path) -> None:
    for name in ("one", "two"):
        options = ("--limit", "3", "--split", "train", "--kind", "parallel", "--out", str(tmp_path / name))
        assert paraagent("tasks", "sample", *options, *where).exit_code == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() != b""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--kind", "quick"], "unknown task kind"),
        (["run", "--policy", "http"], "--model"),
        (["run", "   "], "empty"),
        (["run", "--model", "m", "--max-money", "1"], "prices"),
        (["run", "--max-money", "1"], "rules is none: name a --model"),
        (["run", "--policy", "local", "--max-money", "1", "--prices", "p.toml"], "local is none: name a --model"),
        (["run", "--policy", "oracle", "--max-tokens", "9"], "oracle is none: leave it out"),
        (["run", "--prices", "p.toml"], "--model"),
        (["run", "--model", "m", "--prices", "nowhere.toml"], "nowhere.toml"),
        (["run", "do it", "--policy", "oracle"], "oracle"),
        (["view", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_wrong_usage_gets_one_line(arguments: list[str], says: str, where: tuple[str, str]) -> None:
    extra = where if arguments[0] == "run" else ()
    result = paraagent(*arguments, *extra)
    assert says in complaint(result, 3 if "nowhere" in says else 2)


def test_a_corrupt_trace_is_refused_with_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "bad.jsonl"
    trace.write_text('{"event": "episode_start", "version": 1}\nnonsense\n')
    assert "bad.jsonl" in complaint(paraagent("view", str(trace)), 3)


def test_an_unreachable_endpoint_a_bad_key_and_an_unknown_model_get_one_line(
    where: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ("--base-url", "http://127.0.0.1:9/v1")
    for what in (["run", "do it"], ["run", "--limit", "1"]):
        assert "127.0.0.1:9" in complaint(paraagent(*what, "--model", "m", *gone, *where), 3)
    with ChatServer(default=NO_MODEL, key=KEY) as server:
        result = paraagent("run", "do it", "--model", "big", "--base-url", server.base_url, *where)
        assert "big" in complaint(result, 3)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-canary")
        said = complaint(paraagent("run", "do it", "--model", MODEL, "--base-url", server.base_url, *where), 3)
        assert "OPENAI_API_KEY" in said
        assert "sk-wrong-canary" not in said


def test_a_request_is_told_as_it_runs_and_no_key_enters_its_trace(where: tuple[str, str], tmp_path: Path) -> None:
    search = render_turn("look", plan=SearchPlan(("parcel",)), searches=[Search("parcel", "track a parcel")])
    answer = render_turn("done", answer=f"It is on its way; your key is {KEY}.")
    with ChatServer([Answer("."), Answer(search), Answer(answer)], key=KEY) as server:
        out = tmp_path / "run"
        options = ("--model", MODEL, "--base-url", server.base_url, "--out", str(out), *where)
        result = paraagent("run", "Where is my parcel?", *options)
    assert result.exit_code == 0, result.output
    assert "exploration" in result.output
    assert "It is on its way" in result.output
    assert KEY not in (out / "traces" / "request.jsonl").read_text()


def test_ctrl_c_ends_cleanly_and_keeps_what_was_done(catalog: Catalog, tmp_path: Path) -> None:
    answers = [Answer("."), Answer(render_turn("t", answer="It cannot be done.")), Answer(hang=True)]
    with ChatServer(answers, default=Answer(hang=True), key=KEY) as server:
        command = [sys.executable, "-m", "paraagent.cli.main", "run", "--model", MODEL, "--base-url", server.base_url]
        command += ["--catalog", str(catalog.path), "--out", str(tmp_path / "run"), "--concurrency", "1"]
        command += ["--split", "train", "--kind", "single", "--limit", "3"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
        )
        deadline = time.monotonic() + 30
        while len(server.requests) < 3 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "1 episodes are kept" in output
    assert len(list((tmp_path / "run" / "traces").glob("*.jsonl"))) == 2

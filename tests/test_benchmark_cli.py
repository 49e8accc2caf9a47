"""`paraagent eval` as a user meets it: figures, JSON, checks, and one clear line for what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from benchmark_data import apibank, toolbench
from chat_server import KEY, MODEL, Answer, ChatServer
from paraagent.catalog.store import Catalog
from paraagent.cli.eval import evaluate

app = typer.Typer()
app.command("eval")(evaluate)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, without a user's catalog, keys or endpoints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def complaint(result: Result, code: int) -> str:
    """Return the one line a failing command writes to stderr."""
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error:")
    assert "Traceback" not in result.output
    return result.stderr


def test_apibank_counts_tasks_and_calls(tmp_path: Path) -> None:
    apibank(tmp_path / "data")
    result = run("apibank", "--policy", "oracle", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["tasks_solved"], found["calls_matched"], found["success"]) == (3, 5, 1.0)
    assert found["by_group"]["2 calls"]["tasks"] == 2
    assert len(list(Path(found["traces"]).glob("*.jsonl"))) == 3
    nothing = json.loads(run("apibank", "--policy", "empty", "--json", "--limit", "1").stdout)
    assert (nothing["tasks"], nothing["success"]) == (1, 0.0)


def test_a_run_goes_on_and_scores_the_same(tmp_path: Path) -> None:
    apibank(tmp_path)
    options = ("apibank", "--data", str(tmp_path), "--policy", "oracle", "--out", "run", "--json")
    before = json.loads(run(*options).stdout)
    (tmp_path / "run" / "traces" / "apibank-01.jsonl").unlink()
    after = json.loads(run(*options).stdout)
    assert {key: before[key] for key in before if key != "seconds"} == {
        key: after[key] for key in after if key != "seconds"
    }


def test_the_check_proves_the_harness(tmp_path: Path) -> None:
    apibank(tmp_path)
    result = run("apibank", "--data", str(tmp_path), "--check", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["sound"] is True
    assert (found["gold"]["success"], found["empty"]["success"]) == (1.0, 0.0)
    assert found["spoilt"] == found["expected"]


def test_fail_under_decides_the_exit_code(tmp_path: Path) -> None:
    apibank(tmp_path)
    options = ("apibank", "--data", str(tmp_path), "--fail-under", "0.5")
    assert run(*options, "--policy", "oracle", "--out", "a").exit_code == 0
    assert run(*options, "--policy", "empty", "--out", "b").exit_code == 1


def test_toolenv_has_figures_by_split_and_kind(catalog: Catalog) -> None:
    options = ("--catalog", str(catalog.path), "--split", "train", "--kind", "single,direct", "--limit", "4")
    result = run("toolenv", "--policy", "oracle", "--json", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["tasks"], found["success"]) == (4, 1.0)
    assert set(found["by_group"]) == {"train single", "train direct"}
    assert set(found["by_kind"]) == {"single", "direct"}
    assert json.loads(run("toolenv", "--check", "--json", *options).stdout)["sound"] is True


@pytest.mark.parametrize("paradigm", ["no-links", "react-eae", "react-ete"])
def test_every_paradigm_can_be_played(catalog: Catalog, paradigm: str) -> None:
    options = ("--catalog", str(catalog.path), "--split", "train", "--kind", "single", "--limit", "2")
    result = run("toolenv", "--policy", "oracle", "--paradigm", paradigm, "--json", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tasks"] == 2


def test_toolbench_scores_search_agents_and_a_judges_word(tmp_path: Path) -> None:
    toolbench(tmp_path)
    alone = json.loads(run("toolbench", "--data", str(tmp_path), "--search-only", "--json").stdout)["search"]
    assert alone["requests"] == 6
    assert 0 < alone["recall_at_1"] <= alone["recall_at_5"]
    assert set(alone["by_split"]) == {
        "G1_instruction",
        "G1_category",
        "G1_tool",
        "G2_instruction",
        "G2_category",
        "G3_instruction",
    }
    verdicts = {"without": '{"status": "unsure"}', "with": '{"status": "solved", "reason": "all there"}'}

    def answer(request: dict[str, object]) -> Answer:
        return Answer(verdicts["with" if "the work" in str(request["messages"]) else "without"])

    with ChatServer(answer) as server:
        result = run(
            "toolbench", "--data", str(tmp_path), "--policy", "oracle", "--split", "G1_tool,G2_category", "--json",
            "--judge", MODEL, "--judge-url", server.base_url,
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["tasks"], found["apis_matched"], found["apis_called"]) == (2, 2, 2)
    assert found["called_share"] == 1.0
    assert found["judge"]["by_split"]["G1_tool"]["solved_rate"] == found["judge"]["pass_rate"] == 1.0
    assert KEY not in result.output


def test_a_model_can_play_the_apis(tmp_path: Path) -> None:
    toolbench(tmp_path)
    with ChatServer(default=Answer('{"high": "at noon", "metres": 2.5}')) as server:
        result = run(
            "toolbench", "--data", str(tmp_path), "--policy", "oracle", "--split", "G1_instruction", "--out", "run",
            "--backend", MODEL, "--backend-url", server.base_url,
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    trace = next((tmp_path / "run" / "traces").glob("*.jsonl")).read_text()
    assert "at noon" in trace
    assert list((tmp_path / "run" / "backend").glob("*.json"))


def test_native_function_calling_is_played_against_an_endpoint(catalog: Catalog) -> None:
    with ChatServer(default=Answer("I cannot do this: no tool for it was found.")) as server:
        result = run(
            "toolenv", "--catalog", str(catalog.path), "--split", "train", "--kind", "unanswerable", "--limit", "1",
            "--model", MODEL, "--base-url", server.base_url, "--paradigm", "native", "--json",
        )  # fmt: skip
        asked = server.requests[-1]
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["success"] == 1.0
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["search_tools", "call_tool"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("apibank",), 3, "expected data/apibank/level-3.json"),
        (("toolbench", "--data", "nowhere"), 3, "nowhere/stabletoolbench/G1_instruction.json"),
        (("bfcl", "--data", "."), 3, "pip install --no-deps --target DIR bfcl-eval"),
        (("toolenv",), 3, "paraagent catalog build"),
        (("toolenv", "--paradigm", "magic"), 2, "use paraact, no-plans"),
        (("toolenv", "--mixed"), 2, "--mixed means nothing to toolenv"),
        (("apibank", "--judge", "m"), 2, "--judge means nothing to apibank"),
        (("toolenv", "--split", "G1_tool"), 2, "toolenv has no split 'G1_tool'"),
        (("apibank", "--policy", "http"), 2, "needs --model"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(arguments: tuple[str, ...], code: int, says: str) -> None:
    assert says in complaint(run(*arguments), code).replace("\n", " ")


def test_native_needs_an_endpoint_only_if_a_model_plays(tmp_path: Path) -> None:
    apibank(tmp_path)
    options = ("apibank", "--data", str(tmp_path), "--paradigm", "native", "--policy", "oracle", "--json")
    assert json.loads(run(*options).stdout)["success"] == 1.0

"""`paraagent reward`: what a person and a program get to see of an episode's reward and of a run's audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from chat_server import MODEL, Answer, ChatServer
from paraagent.cli.reward import app
from paraagent.errors import ModelError
from paraagent.reward.audit import Episode, audit
from paraagent.reward.rules import REFERENCE
from paraagent.reward.score import score
from reward_play import DIRECT, PERFECT, TASK, WEATHER, do, flow, look, play, say

LAZY = [say("I do not know.")]
CLUMSY = [look("get_weather"), do(WEATHER, plan=flow(("get_weather",))), say("Oslo has 17 degrees.")]


def run(*args: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}).invoke(app, [str(arg) for arg in args])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    play(CLUMSY, path=path)
    return path


def test_every_term_is_printed_with_its_reason_in_eighty_columns(trace: Path) -> None:
    result = run(trace)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    for said in (
        "steps (mean 1.000)",
        "phase 1",
        "1 of 3 missing capabilities",
        "every listed tool had been found",
        "1 done of 1 due",
        "1 of 3 gold calls done",
        "not verified: call c1",
        "by the default rules",
    ):
        assert said in " ".join(result.output.split())


def test_show_may_be_spelled_out_and_options_may_come_first(trace: Path) -> None:
    assert run("show", trace).output == run(trace).output
    assert "by the reference rules" in run("--rules", "reference", trace).output


def test_json_holds_the_whole_record(trace: Path) -> None:
    result = run(trace, "--rules", "reference", "--json")
    assert json.loads(result.stdout) == score(play(CLUMSY), REFERENCE).to_json()


def test_hostile_text_reaches_the_terminal_escaped(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    play([look("get_weather"), do(plan=flow(("\x1b[31mred[bold]",))) + do(WEATHER)[17:], say()], path=path)
    result = run(path)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "\\x1b[31mred[bold]" in "".join(result.output.split())


def test_an_episode_that_nobody_judged_is_masked_and_a_judge_can_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    play(PERFECT, None, path=path)
    assert "masked: not_judged" in run(path).output
    verdict = '{"utility": "YES", "faithfulness": "YES", "quality": "YES", "reason": "fine"}'
    with ChatServer([Answer(verdict)]) as server:
        options = ("--judge", MODEL, "--judge-url", server.base_url, "--judge-cache", tmp_path / "cache")
        first, second = run(path, *options), run(path, *options)
    assert "judged: quality YES, faithfulness YES, utility YES (fine)" in " ".join(first.output.split())
    assert first.output == second.output
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("args", "code", "said"), [(("nothing.jsonl",), 3, "cannot read"), (("audit", "."), 2, "RUN")]
)
def test_what_is_not_there_is_said_in_one_line(
    args: tuple[str, ...], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*args)
    assert result.exit_code == code
    assert said in result.output or "traces/*.jsonl" in result.output


# the audit


def episodes() -> list[Episode]:
    lines = [PERFECT, PERFECT, CLUMSY, LAZY]
    views = [play(script) for script in lines]
    return [Episode.of(view, score(view), bool(view.success)) for view in views]


def test_the_audit_compares_rollouts_of_one_task() -> None:
    found = audit(episodes())
    assert (found.grouping, found.groups, found.episodes, found.solved) == ("task", 1, 4, 2)
    levels = {level.level: level for level in found.levels}
    assert levels["trajectory"].agreement == 1.0
    assert levels["trajectory"].judged == 4
    assert (levels["step"].agreement, levels["step"].constant) == (None, 1.0)
    terms = {(term.level, term.name): term for term in found.terms}
    outcome = terms["trajectory", "outcome"]
    assert (outcome.variance, outcome.solved, outcome.failed) == (0.25, 1.0, 0.0)
    assert not outcome.pays_without_success
    assert terms["phase", "found"].solved == 0.5
    assert terms["phase", "found"].failed == pytest.approx(1 / 6)


def test_a_term_that_pays_failures_as_much_is_flagged() -> None:
    sloppy = [PERFECT[0], PERFECT[1], f"well {PERFECT[2]}"]
    views = [play(sloppy), play(CLUMSY)]
    assert views[0].success
    found = audit([Episode.of(view, score(view), bool(view.success)) for view in views])
    assert found.to_json()["pays_without_success"] == ["step.form"]


def test_where_each_task_has_one_episode_kinds_are_compared() -> None:
    views = [play(PERFECT), play([say("42")], DIRECT)]
    found = audit([Episode.of(view, score(view), bool(view.success)) for view in views])
    assert (found.grouping, found.groups) == ("kind", 2)
    assert {level.level: level.singletons for level in found.levels}["trajectory"] == 1.0


def test_masked_episodes_are_counted_apart() -> None:
    views = [play(PERFECT), play([ModelError("down")], TASK)]
    found = audit([Episode.of(view, score(view), bool(view.success)) for view in views])
    assert (found.episodes, found.masked) == (1, 1)
    assert audit([]).to_json()["episodes"] == 0


def test_the_audit_command_prints_terms_and_levels(tmp_path: Path) -> None:
    for number, script in enumerate([PERFECT, CLUMSY, LAZY]):
        play(script, path=tmp_path / "traces" / f"e{number}.jsonl")
    result = run("audit", tmp_path)
    assert result.exit_code == 0, result.output
    assert "3 episodes: 1 solved, 0 more masked" in result.output
    assert "1 groups: episodes of the same task" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    found = json.loads(run("audit", tmp_path, "--json", "--rules", "reference").stdout)
    assert {term["name"] for term in found["terms"]} >= {"outcome", "form", "frontier"}

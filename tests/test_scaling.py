"""Test-time scaling: curves and choices worked out by hand, and an experiment from the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from chat_server import KEY, MODEL, Answer, ChatServer
from paraagent.agent.context import Context
from paraagent.catalog.store import Catalog
from paraagent.cli.report import report
from paraagent.cli.scale import scale
from paraagent.errors import ModelError, UsageError
from paraagent.evaluate.evidence import evidence
from paraagent.evaluate.intervals import ratio
from paraagent.evaluate.scaling import gap, measure, parallel, plateau, sequential, trust
from paraagent.evaluate.scaling_run import Experiment, ScaleConfig, insisting
from paraagent.evaluate.selecting import SELECTORS, Sample, agreement, choose, expected
from paraagent.evaluate.slips import SlippingPolicy
from paraagent.protocol.grammar import parse
from paraagent.protocol.render import render_turn
from paraagent.trace.events import Prompt
from paraagent.trace.reader import load
from paraagent.types import Call, Reply
from reward_play import CUSTOMER, NEEDED, ORDERS, PERFECT, UNANSWERABLE, WEATHER, Script, do, look, play, say

GOOD = Sample(True, "Ada has 31 orders", 10, verifier=1.0, judge=1.0)
BAD = Sample(False, "Ada has 3 orders", 30, verifier=0.5, judge=1.0)
NONE = Sample(False, "", 50)

samples = st.builds(
    Sample,
    success=st.booleans(),
    answer=st.sampled_from(["", "a b", "a b c", "x"]),
    verifier=st.sampled_from([0.0, 0.5, 1.0]),
    judge=st.sampled_from([None, 0.0, 1.0]),
)


def test_each_selector_chooses_as_it_says() -> None:
    tries = [BAD, GOOD, GOOD]
    assert choose("random", tries) == pytest.approx(2 / 3)
    assert choose("majority", tries) == 1
    assert choose("verifier", tries) == 1
    assert choose("judge", tries) == pytest.approx(2 / 3)  # all tie
    assert choose("oracle", [BAD, BAD, GOOD]) == 1
    assert choose("majority", [GOOD, BAD, BAD]) == 0
    with pytest.raises(ValueError, match="nothing to choose"):
        choose("random", [])


def test_pairs_choose_the_sample_that_wins_most_and_of_equals_the_earliest() -> None:
    a = Sample(True, "a", number=0, beats={2: 1.0})
    twin = Sample(True, "a", number=1, beats={2: 0.5})
    b = Sample(False, "b", number=2, beats={0: 0.0, 1: 0.5})
    assert choose("pairs", [a, twin, b]) == 1
    assert choose("pairs", [b, twin]) == 0  # a tie
    assert choose("pairs", [twin, b]) == 1
    assert choose("pairs", [replace(b, beats={}), a]) == 1
    assert choose("pairs", [BAD, GOOD]) == 0
    many = [replace(a, number=n, beats={3: 0.5}) for n in range(3)]
    crowded = Sample(False, "b", number=3, beats={0: 0.5, 1: 0.5, 2: 0.0})
    assert choose("pairs", [*many, crowded]) == 1  # more comparisons are no merit


def test_no_answer_is_never_the_majority() -> None:
    assert choose("majority", [NONE, NONE, GOOD]) == 1
    assert agreement(["", "a b", "b c"]) == [-1.0, pytest.approx(1 / 6), pytest.approx(1 / 6)]


@given(st.lists(samples, min_size=1, max_size=6), st.data())
def test_no_selector_beats_the_oracle_and_one_sample_leaves_no_choice(
    tries: Sequence[Sample], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(tries)))
    best = expected("oracle", tries, k)
    for selector in SELECTORS:
        assert 0 <= expected(selector, tries, k) <= best + 1e-9
        assert expected(selector, tries, 1) == pytest.approx(expected("random", tries, k))


def test_a_parallel_curve_goes_over_all_subsets_and_spends_k_times_as_much() -> None:
    curve = parallel("oracle", {"a": [GOOD, BAD], "b": [BAD, BAD]})
    assert [point.success.value for point in curve.points] == [0.25, 0.5]
    assert [point.tokens.value for point in curve.points] == [25.0, 50.0]


def test_a_sequential_curve_keeps_to_the_tasks_that_all_budgets_have() -> None:
    curve = sequential("turns", {4.0: {"a": GOOD, "b": GOOD}, 2.0: {"a": BAD}})
    assert [(point.x, point.success.value, point.success.n) for point in curve.points] == [(2, 0, 1), (4, 1, 1)]
    assert sequential("turns", {}).points == ()


def test_the_plateau_begins_where_more_brings_nothing_beyond_doubt() -> None:
    values: Mapping[float, Sequence[float]] = {1: [0.0] * 30, 2: [1.0] * 20 + [0.0] * 10, 4: [1.0] * 21 + [0.0] * 9}
    assert plateau(values) == 2
    assert plateau({1: [0.0] * 30, 2: [0.0] * 15 + [1.0] * 15}) is None
    assert plateau({1: [0.0] * 30, 2: [0.0] * 30, 3: [1.0] * 30}) is None
    assert plateau({1: [1.0]}) is None
    assert plateau({1: [1.0] * 5, 2: [0.0] * 5}) == 1


def test_the_verification_gap_and_how_far_from_random_to_oracle() -> None:
    tries = {str(number): [GOOD, BAD] for number in range(10)}
    by_majority, by_verifier = gap("majority", tries), gap("verifier", tries)
    assert by_majority.against_oracle.difference.value == 0.5
    assert by_verifier.against_oracle.difference.value == 0
    assert by_majority.recovered is not None
    assert by_verifier.recovered is not None
    assert (by_majority.recovered.value, by_verifier.recovered.value) == (0, 1)
    assert gap("majority", {"a": [GOOD, GOOD]}).recovered is None
    with pytest.raises(ValueError, match="no samples"):
        gap("majority", {})


def test_a_ratio_is_that_of_the_sums() -> None:
    found = ratio([1, 0, 1, 1], [2, 1, 1, 0])
    assert found is not None
    assert found.value == 0.75
    assert found.low <= 0.75 <= found.high
    assert ratio([0], [0]) is None
    with pytest.raises(ValueError, match="cannot be paired"):
        ratio([1], [])


def test_trust_is_what_passes_among_solved_and_failed() -> None:
    found = trust("judge", {"a": [GOOD, BAD], "b": [BAD, NONE]})
    assert found.true_positives is not None
    assert found.false_positives is not None
    assert (found.true_positives.value, found.false_positives.value) == (1, pytest.approx(2 / 3))
    assert trust("verifier", {"a": [BAD]}).true_positives is None


def test_a_judge_counts_only_if_it_judged_every_answer() -> None:
    unjudged = replace(GOOD, judge=None)
    assert "judge" not in {one.name for one in measure({"a": [GOOD, unjudged]}, {}).parallel}
    assert "judge" in {one.name for one in measure({"a": [GOOD, BAD]}, {}).parallel}
    with pytest.raises(ValueError, match="same number"):
        measure({"a": [GOOD], "b": [GOOD, GOOD]}, {})


def test_pairs_count_only_if_a_pair_was_judged() -> None:
    tries = [replace(GOOD, number=0, beats={}), replace(BAD, number=1, beats={})]
    assert "pairs" not in {one.name for one in measure({"a": tries}, {}).parallel}
    tries = [replace(GOOD, number=0, beats={1: 1.0}), replace(BAD, number=1, beats={0: 0.0})]
    found = measure({"a": tries}, {})
    assert [gap.against_oracle.first for gap in found.gaps if gap.selector == "pairs"] == [1.0]


def test_evidence_is_full_for_an_answer_that_its_results_bear_out() -> None:
    assert evidence(play(PERFECT)) == 1
    made_up = play([*PERFECT[:2], say("Ada has 32 orders, and Oslo has 17 degrees.")])
    assert evidence(made_up) == pytest.approx((0.5 + 1 + 1) / 3)
    blind = play([say("Ada has 32 orders.")])
    assert evidence(blind) == pytest.approx((0 + 1 + 0.5) / 3)
    broken = play([look("locked"), do(Call("locked", {})), say("It is done.")])
    assert evidence(broken) == pytest.approx((1 + 0 + 0.5) / 3)
    assert evidence(play([ModelError("down")])) == 0


def test_evidence_for_declining_is_a_search_that_led_nowhere() -> None:
    decline = say("I could not find a tool for that.")
    assert evidence(play([look("moon"), decline], UNANSWERABLE)) == 1
    assert evidence(play([decline], UNANSWERABLE)) == pytest.approx((1 + 1 + 0.5) / 3)
    assert evidence(play([look(*NEEDED), do(CUSTOMER, ORDERS, WEATHER), decline])) == pytest.approx(2 / 3)


def spoilt(line: str, rate: float, seed: int = 1) -> Reply:
    return asyncio.run(SlippingPolicy(Script([line]), rate, seed).act(Context("request")))


def test_slips_spoil_one_literal_argument_and_nothing_else() -> None:
    calls = [Call("a", {"n": 1, "on": True}), Call("b", {"x": "$c.id", "name": "Ada"})]
    line = render_turn("t", calls=calls)
    assert spoilt(line, 0.0).text == line
    changed = [one for one in parse(spoilt(line, 1.0).text).calls if one not in calls]
    assert len(changed) == 1
    assert {spoilt(line, 1.0, seed).text for seed in range(20)} > {spoilt(line, 1.0).text}
    assert spoilt(line, 1.0, 3) == spoilt(line, 1.0, 3)
    linked = render_turn("t", calls=[Call("b", {"x": "$c.id"})])
    assert spoilt(linked, 1.0).text == linked
    assert spoilt(look("x"), 1.0).text == look("x")


def test_an_experiment_plays_no_budget_twice() -> None:
    found = Experiment(ScaleConfig(turns=15), 2, turns=(4, 15), tokens=(900,))
    assert list(found.cells) == ["sample-1", "sample-2", "turns-4", "tokens-900"]
    assert found.sequential() == {"turns": {4: "turns-4", 15: "sample-1"}, "tokens": {900: "tokens-900"}}
    assert list(Experiment(ScaleConfig(), 1, rounds=(0, 2)).cells) == ["sample-1", "rounds-2"]
    with pytest.raises(UsageError, match="at least 1"):
        Experiment(ScaleConfig(), 0)
    with pytest.raises(UsageError, match="negative"):
        Experiment(ScaleConfig(), 1, rounds=(-1,))


def test_an_insisting_user_sends_back_so_many_answers() -> None:
    user = insisting(2)
    assert ["every part" in (user("done") or "") for _ in range(3)] == [True, True, False]


app = typer.Typer()
app.command()(scale)
app.command()(report)


@pytest.fixture
def where(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return [
        "--catalog",
        str(catalog.path),
        "--out",
        "out",
        "--split",
        "train",
        "--kind",
        "single,chain",
        "--limit",
        "4",
    ]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_an_experiment_writes_curves_runs_and_a_report(where: list[str]) -> None:
    options = ["--samples", "3", "--turns", "1,3,15", "--rounds", "0,1", "--slips", "0.5", "--json"]
    result = invoke("scale", *where, *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["tasks"] == 4
    assert [curve["name"] for curve in found["parallel"]] == ["random", "majority", "verifier", "oracle"]
    assert [point["x"] for point in found["sequential"][0]["points"]] == [1, 3, 15]
    assert len(found["pass_k"]) == 3
    cells = sorted(path.name for path in Path("out").iterdir() if path.is_dir())
    assert cells == ["rounds-1", "sample-1", "sample-2", "sample-3", "turns-1", "turns-3"]
    checked = [load(trace) for trace in Path("out/rounds-1/traces").iterdir()]
    assert all(any(e.content.startswith("Check this") for e in v.events if isinstance(e, Prompt)) for v in checked)
    assert "Verification gap of verifier" in Path("out/report.md").read_text()
    again = invoke("scale", *where, *options)
    assert json.loads(again.stdout)["parallel"] == found["parallel"]
    assert invoke("report", "out", "--out", "again").exit_code == 0
    assert "<svg" in Path("again.html").read_text()
    samples = invoke("report", "out/sample-1", "out/sample-2", "--json")
    assert json.loads(samples.stdout)["repeated"]


def test_a_model_is_sampled_and_can_judge_itself(where: list[str]) -> None:
    verdict = '{"quality": "YES", "faithfulness": "YES", "utility": "YES", "reason": "fine"}'
    with ChatServer(
        lambda request: Answer(verdict if "faithfulness" in str(request) else "<answer>It is 7 now.</answer>")
    ) as server:
        options = [
            "--model",
            MODEL,
            "--base-url",
            server.base_url,
            "--judge",
            "self",
            "--samples",
            "2",
            "--turns",
            "2",
        ]
        result = invoke("scale", *where, *options, "--json")
        assert result.exit_code == 0, result.output
        asked = [request for request in server.requests if "faithfulness" not in str(request)]
    found = json.loads(result.stdout)
    assert "judge" in {curve["name"] for curve in found["parallel"]}
    assert found["config"]["temperature"] == 0.7
    assert found["parallel"][0]["points"][0]["tokens"]["value"] > 0
    assert asked


def test_a_model_compares_its_samples_in_pairs(where: list[str]) -> None:
    judgement = '{"quality": "YES", "faithfulness": "YES", "utility": "YES", "reason": "fine"}'
    answers = count(1)

    def answer(request: dict[str, object]) -> Answer:
        if "FIRST or SECOND" in str(request):
            return Answer('{"reason": "it stands first", "better": "FIRST"}')
        if "faithfulness" in str(request):
            return Answer(judgement)
        return Answer(f"<answer>It is {next(answers)} now.</answer>")

    with ChatServer(answer) as server:
        options = [
            "--model",
            MODEL,
            "--base-url",
            server.base_url,
            "--judge",
            "self",
            "--samples",
            "2",
            "--turns",
            "15",
        ]
        result = invoke("scale", *where, *options, "--json")
        assert result.exit_code == 0, result.output
        compared = [request for request in server.requests if "FIRST or SECOND" in str(request)]
        assert invoke("scale", *where, *options).exit_code == 0
        again = [request for request in server.requests if "FIRST or SECOND" in str(request)]
        assert invoke("scale", *where, *options, "--no-pairs", "--json").exit_code == 0
    found = json.loads(result.stdout)
    (gap,) = [gap for gap in found["gaps"] if gap["selector"] == "pairs"]
    assert {"value", "low", "high"} <= gap["against_oracle"]["difference"].keys()
    assert [curve["name"] for curve in found["parallel"]][-3:] == ["judge", "pairs", "oracle"]
    assert len(compared) == 4 * 2
    assert again == compared
    assert "pairs" in Path("out/report.md").read_text()


def test_wrong_requests_are_refused_in_one_line(where: list[str]) -> None:
    for options, says in (
        (["--turns", "2,x"], "whole numbers"),
        (["--turns", "0"], "at least 1"),
        (["--judge", "self"], "built-in policy cannot judge"),
        (["--judge", "self", "--judge-url", "http://127.0.0.1:1/v1"], "leave out --judge-url"),
        (["--policy", "http"], "needs --model"),
        (["--tokens", "900"], "--tokens limits what a model reads and writes"),
    ):
        result = invoke("scale", *where, *options)
        assert result.exit_code == 2
        assert says in " ".join(result.stderr.split())


def test_a_result_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "scale.json").write_text("{}")
    result = invoke("report", str(tmp_path))
    assert result.exit_code == 3
    assert "cannot be read" in " ".join(result.stderr.split())

"""ToolBench: reading, recall of search and of agents, soundness, and the two-stage judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmark_data import SPLITS
from benchmark_data import toolbench as write
from paraagent.agent.context import Context
from paraagent.agent.settings import Settings
from paraagent.errors import EnvironmentFault, ModelError
from paraagent.evaluate.benchmarks import soundness
from paraagent.evaluate.benchmarks.base import Points
from paraagent.evaluate.benchmarks.completeness import Completeness, CompletenessJudge, rates, read_status
from paraagent.evaluate.benchmarks.toolbench import ToolBench, recall
from paraagent.evaluate.benchmarks.toolbench_data import read
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import Reply, Search

SETTINGS = Settings(durable=False)


@pytest.fixture
def bench(tmp_path: Path) -> ToolBench:
    return ToolBench(read(write(tmp_path)), k=2)


def episode(bench: ToolBench, place: int) -> EpisodeView:
    recorder, item = Recorder(), bench.items[place]
    asyncio.run(bench.play(item, bench.gold(item), recorder, SETTINGS))
    return EpisodeView(recorder.events)


def test_apis_become_tools_with_schemas_of_parameters_and_answers(tmp_path: Path) -> None:
    data = read(write(tmp_path))
    tides, harbours, star, draw = data.tools.values()
    assert tides.name == "toolbench_0_tide_times_gettides"
    assert (tides.category, tides.effect, draw.effect) == ("Open Sea", "read", "action")
    assert tides.returns == {
        "type": "object",
        "properties": {"high": {"type": "string"}, "metres": {"type": "number"}},
    }
    assert harbours.returns["properties"] == {"harbours": {"type": "array", "items": {"type": "string"}}}
    assert star.returns == {"type": "object"}  # its template was cut short
    properties = star.parameters["properties"]
    assert isinstance(properties, dict)
    assert properties["year"] == {"type": "number", "description": "year"}
    assert [request.split for request in data.requests] == list(SPLITS)


def test_recall_of_search_alone_is_the_mean_share_of_relevant_apis(bench: ToolBench) -> None:
    found = recall(bench.index, bench.requests)
    by_hand = []
    for request in bench.requests:
        hits = bench.index.search([Search("", request.text)], 1)[0].hits
        by_hand.append(sum(hit.tool.name in request.relevant for hit in hits) / len(request.relevant))
    assert found["recall_at_1"] == pytest.approx(sum(by_hand) / len(by_hand))
    assert 0 < found["recall_at_1"] < found["recall_at_5"] == found["recall_at_10"] <= 1.0


def test_gold_finds_and_calls_every_relevant_api_and_the_harness_is_sound(bench: ToolBench) -> None:
    found = asyncio.run(soundness.check(bench, bench.items, SETTINGS, seed=1))
    assert found.sound, found.wrong
    assert found.gold == Points(6, 6, 9, 9)
    assert found.spoilt.matched < 9
    assert found.empty == Points(6, 0, 0, 9)
    assert bench.called(bench.items[3], episode(bench, 3)) == 2


def test_missing_data_says_what_is_expected_where(tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentFault, match=r"stabletoolbench.G1_instruction\.json; get it from .*StableToolBench"
    ):
        read(tmp_path)
    write(tmp_path)
    (tmp_path / "stabletoolbench" / "G2_category.json").unlink()
    with pytest.raises(EnvironmentFault, match=r"expected .*G2_category\.json"):
        read(tmp_path)
    (tmp_path / "stabletoolbench" / "G2_category.json").write_text("{}")
    with pytest.raises(EnvironmentFault, match="is not ToolBench's"):
        read(tmp_path)


class Judge:
    """Gives scripted verdicts and keeps what it was asked."""

    name = "judge"

    def __init__(self, replies: Sequence[str | ModelError]) -> None:
        self.replies = list(replies)
        self.asked: list[str] = []

    async def act(self, context: Context) -> Reply:
        self.asked.append("\n".join(message.content for message in context.messages))
        reply = self.replies.pop(0)
        if isinstance(reply, ModelError):
            raise reply
        return Reply(reply)


def judged(view: EpisodeView, model: Judge, cache: Path | None = None) -> Completeness | None:
    return asyncio.run(CompletenessJudge(model, cache).judge(view))


SOLVED, UNSURE, UNSOLVED = (f'{{"status": "{name}", "reason": "so"}}' for name in ("solved", "unsure", "unsolved"))


def test_the_work_is_looked_at_only_if_the_answer_alone_does_not_decide(bench: ToolBench) -> None:
    view = episode(bench, 0)
    first = Judge([UNSOLVED])
    assert judged(view, first) == Completeness("unsolved", 1, "so")
    both = Judge([UNSURE, f"<think>unsolved?</think>{SOLVED}"])
    assert judged(view, both) == Completeness("solved", 2, "so")
    assert "toolbench_0_tide_times_gettides" not in both.asked[0]
    assert "toolbench_0_tide_times_gettides" in both.asked[1]


def test_without_an_answer_nobody_is_asked(bench: ToolBench) -> None:
    view = EpisodeView(episode(bench, 0).events[:-1])
    assert judged(view, Judge([])) == Completeness("unsolved", 0, "no answer")


def test_what_cannot_be_judged_is_no_verdict(bench: ToolBench) -> None:
    view = episode(bench, 0)
    assert judged(view, Judge(["who knows", "no idea"])) is None
    assert judged(view, Judge(["who knows", SOLVED])) == Completeness("solved", 1, "so")
    assert judged(view, Judge([ModelError("down")])) is None
    assert read_status(f"{SOLVED} or {UNSOLVED}", 1) is None
    assert read_status('{"status": "Solved"}', 2) == Completeness("solved", 2)


def test_verdicts_are_kept_and_reused(bench: ToolBench, tmp_path: Path) -> None:
    view = episode(bench, 0)
    assert judged(view, Judge([UNSURE, UNSOLVED]), tmp_path / "cache") == Completeness("unsolved", 2, "so")
    assert judged(view, Judge([]), tmp_path / "cache") == Completeness("unsolved", 2, "so")


def test_rates_count_unsure_half_and_the_unjudged_apart() -> None:
    verdicts = [Completeness("solved", 1), Completeness("unsure", 2), Completeness("unsolved", 0), None]
    found = rates(verdicts)
    assert found == {"judged": 3, "unjudged": 1, "solved_rate": pytest.approx(1 / 3), "pass_rate": pytest.approx(0.5)}
    assert rates([])["pass_rate"] == 0.0

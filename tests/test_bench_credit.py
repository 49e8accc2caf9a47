"""The small policy of bench/credit.py: what it decides, its gradient, and that its training can be repeated."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from paraagent.catalog.store import Catalog
from paraagent.cli.world import World
from paraagent.env.tasks import TaskSampler

if TYPE_CHECKING:
    from paraagent.search.search import SearchIndex

BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)


@pytest.fixture
def field(bench: None, catalog: Catalog, index: SearchIndex) -> Any:
    from credit import Field, Plan

    plan = Plan(
        difficulty=None, demos=6, passes=10, steps=6, prompts=3, rollouts=4, lr=0.2, limit=6, tasks=12, every=3
    )
    return Field(World(catalog, index, TaskSampler(catalog, index)), plan)


def test_the_gradient_is_that_of_the_log_probability(bench: None) -> None:
    from credit_policy import FEATURES, Decision, probabilities

    random = np.random.default_rng(0)
    decision = Decision(random.normal(size=(4, len(FEATURES))), 2)
    weights, change = random.normal(size=(2, len(FEATURES))) * 0.1

    def log_probability(weights: np.ndarray) -> float:
        return float(np.log(probabilities(decision.options @ weights)[decision.taken]))

    slope = (log_probability(weights + 1e-6 * change) - log_probability(weights - 1e-6 * change)) / 2e-6
    assert decision.gradient(weights) @ change == pytest.approx(slope, rel=1e-5)


def test_the_expert_solves_about_what_the_rules_solve(field: Any) -> None:
    from credit_policy import EXPERT, weights_of
    from paraagent.agent.policies.rules import RulesPolicy
    from paraagent.trace.recorder import Recorder
    from paraagent.trace.view import EpisodeView

    tasks = field.tasks("train", 36)

    async def by_rules(task: Any) -> bool:
        recorder = Recorder()
        await field.arena.play(task, RulesPolicy(), recorder)
        return bool(EpisodeView(recorder.events).success)

    expert = sum(bool(one.view.success) for one in field.play(tasks, weights_of(EXPERT)))
    assert expert >= 18
    assert abs(expert - sum(asyncio.run(by_rules(task)) for task in tasks)) <= 3


def test_whatever_is_decided_can_be_read(field: Any) -> None:
    from credit_policy import EXPERT, weights_of

    played = field.play(field.tasks("train", 48), 0.1 * weights_of(EXPERT), (1,))
    turns = [turn for one in played for turn in one.view.turns]
    assert {turn.kind for turn in turns} == {"exploration", "execution", "answer"}
    assert all(len(one.turns) == len(one.view.turns) for one in played)


def test_every_decision_gets_the_advantage_of_its_turn(field: Any) -> None:
    from credit import rollout
    from credit_policy import weights_of
    from paraagent.reward.credit import assign
    from paraagent.reward.score import score

    task = field.tasks("train", 3)[2]
    played = field.play([task] * 8, weights_of({}), (1,))
    rollouts = [rollout(one, score(one.view)) for one in played]
    for one, found, advantages in zip(played, rollouts, assign(rollouts, "local").tokens, strict=True):
        assert len(advantages) == sum(map(len, one.turns))
        assert [span.end - span.start for span in found.turns] == [len(turn) for turn in one.turns]
        for span in found.turns:
            assert len(set(advantages[span.start : span.end])) <= 1


def test_training_can_be_repeated_and_raises_the_reward(field: Any) -> None:
    from credit import clone, train

    start = clone(field)
    runs = [train(field, start, "local", seed) for seed in (0, 0, 1)]
    assert (runs[0][0] == runs[1][0]).all()
    assert runs[0][1] == runs[1][1]
    assert (runs[0][0] != runs[2][0]).any()
    assert [*runs[0][1]["validation"]] == [3, 6]
    field.plan = replace(field.plan, steps=15, prompts=4, tasks=4, every=99)
    rewards = train(field, start, "local", 0)[1]["reward"]
    assert np.mean(rewards[-4:]) > np.mean(rewards[:4]) + 0.2


def test_the_page_tells_every_mode_and_keeps_its_notes(field: Any, tmp_path: Path, capsys: Any) -> None:
    import credit
    import credit_report
    from credit import clone, train
    from credit_policy import EXPERT, weights_of
    from learning_credit import MODES

    field.plan = replace(field.plan, steps=1, prompts=1, rollouts=2, every=1)
    start = clone(field)
    tested = {"expert": field.test(weights_of(EXPERT)), "start": field.test(start)}
    logs: dict[str, Any] = {}
    for mode in MODES:
        weights, logs[mode, 0] = train(field, start, mode, 0)
        tested[f"{mode}-0"] = field.test(weights)
    out = tmp_path / "credit"
    out.with_suffix(".md").write_text("# Old\n\n## Notes\n\n- kept\n")
    credit_report.write(out, credit.gathered(field.plan, 1, tested, logs))
    page = out.with_suffix(".md").read_text()
    assert all(f"| {mode} |" in page for mode in MODES)
    assert "| local - outcome |" in page
    assert page.endswith("## Notes\n\n- kept\n")
    assert "<svg" in out.with_suffix(".svg").read_text()

"""The small policy of bench/credit.py: what it decides, its gradient, and that its training can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
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

    plan = Plan(None, demos=6, passes=8, steps=4, prompts=3, rollouts=4, lr=0.05, limit=3, tasks=12, every=2)
    return Field(World(catalog, index, TaskSampler(catalog, index)), plan)


def test_the_gradient_is_that_of_the_log_probabilities(bench: None) -> None:
    from credit_net import Decision, Net, probabilities

    random = np.random.default_rng(0)
    decisions = [Decision(random.normal(size=(size, 5)), size - 2) for size in (4, 2, 3)]
    weights = [1.0, -0.5, 2.0]
    net, change = Net.random(5, 7, seed=1), Net.random(5, 7, seed=2)

    def objective(step: float) -> float:
        moved = Net(net.into + step * change.into, net.out + step * change.out)
        found = [np.log(probabilities(moved(one.options))[one.taken]) for one in decisions]
        return float(np.dot(weights, found))

    slope = (objective(1e-6) - objective(-1e-6)) / 2e-6
    found = net.gradient(decisions, weights)
    assert (found.into * change.into).sum() + found.out @ change.out == pytest.approx(slope, rel=1e-5)


def test_the_expert_solves_about_what_the_rules_solve(field: Any) -> None:
    from credit_policy import expert
    from paraagent.agent.policies.rules import RulesPolicy
    from paraagent.trace.recorder import Recorder
    from paraagent.trace.view import EpisodeView

    tasks = field.tasks("train", 36)

    async def by_rules(task: Any) -> bool:
        recorder = Recorder()
        await field.arena.play(task, RulesPolicy(), recorder)
        return bool(EpisodeView(recorder.events).success)

    solved = sum(bool(one.view.success) for one in field.play(tasks, expert))
    assert solved >= 18
    assert abs(solved - sum(asyncio.run(by_rules(task)) for task in tasks)) <= 3


def test_whatever_is_decided_can_be_read(field: Any) -> None:
    from credit_policy import expert

    played = field.play(field.tasks("train", 48), lambda options: 0.1 * expert(options), (1,))
    turns = [turn for one in played for turn in one.view.turns]
    assert {turn.kind for turn in turns} == {"exploration", "execution", "answer"}
    assert all(len(one.turns) == len(one.view.turns) for one in played)


def test_a_decision_gets_the_advantage_of_its_own_turn(field: Any) -> None:
    from credit import rollout
    from credit_policy import expert
    from paraagent.reward.credit import Weights, assign

    task = next(task for task in field.tasks("train", 6) if task.kind == "chain")
    played = field.play([task] * 16, lambda options: 0.2 * expert(options), (2,))
    steps = assign([rollout(one) for one in played], "local", Weights(trajectory=0, phase=0)).tokens
    seen = set()
    for one, advantages in zip(played, steps, strict=True):
        found = np.split(advantages, np.cumsum([len(turn) for turn in one.turns])[:-1])
        for turn, reward, own in zip(one.view.turns, one.reward.turns, found, strict=True):
            rivals = [r.reward for other in played for r in other.reward.turns if r.kind == turn.kind]
            assert (np.sign(own) == np.sign(round(reward.reward - np.mean(rivals), 9))).all()
            seen |= {(turn.kind, float(np.sign(own[0])))} if len(own) else set()
    assert {kind for kind, sign in seen if sign} >= {"exploration", "execution"}


def test_training_can_be_repeated_and_raises_the_reward(field: Any) -> None:
    from credit import clone, train

    runs = [train(field, clone(field, 0), "local", 0) for _ in range(2)]
    assert (runs[0][0].into == runs[1][0].into).all()
    assert runs[0][1] == runs[1][1]
    assert (clone(field, 1).into != clone(field, 0).into).any()
    assert [*runs[0][1]["validation"]] == [0, 2, 4]
    field.plan = replace(field.plan, steps=15, prompts=3, tasks=3, every=99)
    rewards = train(field, clone(field, 0), "local", 0)[1]["reward"]
    assert np.mean(rewards[-4:]) > np.mean(rewards[:4]) + 0.2


def test_the_page_tells_every_mode_and_keeps_its_notes(field: Any, tmp_path: Path, monkeypatch: Any) -> None:
    import credit
    import credit_report
    from credit_policy import expert
    from learning_credit import MODES

    field.plan = replace(field.plan, steps=1, prompts=1, rollouts=2, every=99)
    monkeypatch.setattr(credit, "field_of", lambda catalog, plan: field)
    monkeypatch.setattr(credit, "SPLITS", ("test-unseen",))

    def results() -> Iterator[Any]:
        yield "expert", field.test(expert), {}
        for name in ("start", *MODES):
            yield f"{name}-0", *credit.perform((name, 0), field.plan, None)

    out = tmp_path / "credit-0.5"
    out.with_name("credit-0.5.md").write_text("# Old\n\n## Notes\n\n- kept\n")
    credit_report.write(out, {"difficulty": None, **{name: 1 for name in SETTINGS}}, results())
    page = out.with_name("credit-0.5.md").read_text()
    assert all(f"| {mode} |" in page for mode in ("expert", "start", *MODES))
    assert page.count("| local - outcome |") == 2
    assert page.endswith("## Notes\n\n- kept\n")
    assert "<svg" in out.with_name("credit-0.5.svg").read_text()


SETTINGS = ("hidden", "demos", "passes", "steps", "prompts", "rollouts", "lr")

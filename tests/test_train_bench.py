"""Credit modes are compared over equal runs and equal tasks only, and chance alone shows no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import numpy as np
import orjson

from paraagent.train.config import rl_preset

BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)


def played(shifts: dict[str, float], seed: int, tasks: int = 200) -> dict[str, Any]:
    """Return what runs have solved, by run: a share of the tasks that varies by run as much as by mode."""
    random = np.random.default_rng(seed)
    hardness = random.random(tasks)
    found = {}
    for run in ("start", *(f"{mode}-{number}" for mode in shifts for number in range(3))):
        bound = 0.5 + shifts.get(run.rpartition("-")[0], 0.0) + random.normal(0, 0.02)
        solved = "".join(str(int(value < bound)) for value in hardness + random.normal(0, 0.1, tasks))
        figures = {"success": solved.count("1") / tasks, "solved": solved, "tasks": "digest", "episodes": tasks}
        found[run] = {"test_unseen": {**figures, "turns": 3.0, "width": 1.5}}
    return found


def test_a_real_difference_is_seen() -> None:
    from learning_credit import contrasts

    found = contrasts(played({"local": 0.15, "outcome": 0.0}, seed=1))["test_unseen"]
    assert set(found) == {"local - start", "outcome - start", "local - outcome"}
    assert found["local - outcome"].low > 0
    assert found["local - outcome"].value == pytest.approx(0.15, abs=0.06)


def test_equal_modes_seldom_differ() -> None:
    from learning_credit import contrasts

    seen = 0
    for seed in range(20):
        found = contrasts(played({"local": 0.0, "outcome": 0.0}, seed))["test_unseen"]["local - outcome"]
        seen += not found.low <= 0 <= found.high
    assert seen <= 4


def test_runs_that_played_other_tasks_are_told() -> None:
    from learning_credit import contrasts

    runs = played({"local": 0.0}, seed=1)
    runs["local-1"]["test_unseen"]["tasks"] = "other"
    with pytest.raises(SystemExit, match="local-1 has not played the same tasks"):
        contrasts(runs)


def test_only_equal_runs_are_compared(tmp_path: Path) -> None:
    from learning_credit import finals

    for name, changes in {
        "local-0": {"credit": "local"},
        "outcome-1": {"credit": "outcome", "seed": 1},
    }.items():
        config = rl_preset("cpu-small", str(tmp_path / name), adapter="start", **changes)
        (tmp_path / name / "final").mkdir(parents=True)
        (tmp_path / name / "config.json").write_bytes(orjson.dumps(config.to_json()))
    assert set(finals(tmp_path, "smollm2", "start")) == {"local-0", "outcome-1"}
    with pytest.raises(SystemExit, match="another adapter"):
        finals(tmp_path, "smollm2", "other")
    config = rl_preset("cpu-small", "x", adapter="start", steps=7)
    (tmp_path / "outcome-1" / "config.json").write_bytes(orjson.dumps(config.to_json()))
    with pytest.raises(SystemExit, match="another steps"):
        finals(tmp_path, "smollm2", "start")

"""The fault campaign in small: it finds nothing in the runtime, and would find what it looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from paraagent.agent.past import Past

BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)


def test_crashes_and_faults_double_nothing_and_lose_nothing() -> None:
    from faults import campaign

    tally = campaign(150, 300)
    assert not tally.problems, tally.first
    assert tally.crash_points == 150
    assert tally.faults.total() >= 300
    assert tally.unknown_done
    assert tally.unknown_not_done


def test_a_runtime_that_forgets_unfinished_writes_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from faults import campaign

    recorded = Past.results

    def forgetful(self: Past, turn: int, calls: object) -> object:
        known = recorded(self, turn, calls)  # type: ignore[arg-type]
        return {index: one for index, one in known.items() if one.error is None or "stopped" not in one.error.message}

    monkeypatch.setattr(Past, "results", forgetful)
    assert campaign(150, 0).problems["duplicate_effects"]


def test_a_runtime_that_forgets_results_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from faults import campaign

    monkeypatch.setattr(Past, "results", lambda *_: {})
    problems = campaign(60, 0).problems
    assert problems["duplicate_effects"]

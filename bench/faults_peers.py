"""The same failures and crashes for ParaAgent and four other runtimes, as their documentation starts them.

A model asks for 3 to 6 calls at once. In a failing turn one of them raises, returns what no model can read, or
cancels itself; in a crash the process dies after any number of side effects and goes on as the runtime can: from its
trace, from its checkpoints, or from the start. Nothing here times out, since most of them wait for ever by default.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from peers.host import AGENT_CHECKPOINTED, CHECKPOINTED, OURS, PEERS, TOOL_FAILED, Process, Runtime

RUNTIMES = (OURS, *PEERS, TOOL_FAILED, CHECKPOINTED, AGENT_CHECKPOINTED)
Failure = Literal["raises", "garbage", "cancels"]
FAILURES: tuple[Failure, ...] = ("raises", "garbage", "cancels")


@dataclass(frozen=True, slots=True)
class Compared:
    """What one runtime made of the script."""

    answered: float
    """Share of the runs with one failing call that came to an answer."""
    kept: float
    """Share of the successful siblings of a failing call that the model was shown."""
    kept_by: dict[Failure, float]
    results_per_call: float
    """Results shown to the model per call, over the runs with one failing call."""
    done: int
    """Side effects that had happened when processes died."""
    duplicates: int
    """Side effects that happened twice after going on."""
    not_done: int
    """Side effects that did not happen after going on: their calls are reported to be of unknown outcome."""
    after_crash_results_per_call: float
    errors: tuple[str, ...]


def compare(scripts: int, *, seed: int = 3, runtimes: Sequence[Runtime] = RUNTIMES) -> dict[str, Compared]:
    return {runtime.name: _compare(runtime, scripts, seed) for runtime in runtimes}


def _compare(runtime: Runtime, scripts: int, seed: int) -> Compared:
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    errors: list[str] = []
    with Process(runtime) as process:
        for number in range(scripts):
            calls = [
                {"id": f"w{n}", "seconds": rng.uniform(0, 0.03), "fault": None} for n in range(rng.randint(3, 6))
            ]
            crash_after = rng.randint(0, len(calls))
            failing, failure = rng.randrange(len(calls)), FAILURES[number % len(FAILURES)]
            crashed = process.ask({"do": "crash", "calls": calls, "crash_after": crash_after})
            calls[failing]["fault"] = failure
            failed = process.ask({"do": "case", "calls": calls})
            errors += [answer["error"] for answer in (failed, crashed) if "error" in answer]
            if "error" not in failed:
                _count(seen, failed, failure, len(calls))
            if "error" not in crashed:
                seen["crash_calls"] += len(calls)
                for key in ("before", "duplicates", "not_done"):
                    seen[key] += crashed[key]
                seen["crash_results"] += crashed["results"]
    return _compared(seen, errors)


def _count(seen: Counter[str], answer: dict[str, Any], failure: Failure, calls: int) -> None:
    seen["runs"] += 1
    seen["answered"] += answer["ended"] == "answered"
    seen["calls"] += calls
    seen["results"] += answer["results"]
    for key in ("kept", "good"):
        seen[key] += answer[key]
        seen[f"{key} {failure}"] += answer[key]


def _compared(seen: Counter[str], errors: list[str]) -> Compared:
    def share(part: str, whole: str) -> float:
        return round(seen[part] / seen[whole], 3) if seen[whole] else float("nan")

    return Compared(
        answered=share("answered", "runs"),
        kept=share("kept", "good"),
        kept_by={failure: share(f"kept {failure}", f"good {failure}") for failure in FAILURES},
        results_per_call=share("results", "calls"),
        done=seen["before"],
        duplicates=seen["duplicates"],
        not_done=seen["not_done"],
        after_crash_results_per_call=share("crash_results", "crash_calls"),
        errors=tuple(errors[:3]),
    )

"""Episodes per second of the whole harness, beside inspect_ai: scripted policy, trivial tools, logs on disk.

    python bench/harness.py --setup     makes the peer's virtual environment (pip install inspect_ai), once
    python bench/harness.py [--json] [--episodes 100] [--rounds 5]

An episode is 5 turns of 4 parallel calls of one async Python function, then an answer. Ours has a search before that,
since no tool is shown unasked. Both write their logs to disk and check the answer. The two take turns; figures are
medians over the rounds. Start-up and imports are not counted.

Keys:
    episodes_per_s, calls_per_s                           ours
    inspect_ai_episodes_per_s, inspect_ai_calls_per_s     the peer's
    ratio                                                 median over rounds of ours / the peer's
    ratio_min                                             the worst round
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from paraagent.agent.context import Context
from paraagent.agent.loop import Loop
from paraagent.agent.settings import Settings
from paraagent.agent.toolboxes.functions import FunctionToolbox, declare
from paraagent.clock import WallClock
from paraagent.evaluate import suite
from paraagent.evaluate.suite import Episode, RunDirectory
from paraagent.protocol.flow import call_plan
from paraagent.protocol.plan import SearchPlan
from paraagent.protocol.render import render_turn
from paraagent.trace.events import TRACE_VERSION, EpisodeStart
from paraagent.trace.recorder import Recorder
from paraagent.types import Call, JsonObject, Reply, Result, Search

PEER = "inspect_ai==0.3.285"
TURNS, CALLS = 5, 4


@declare("read")
async def get_part(
    order_id: Annotated[str, "As on the invoice."], part: Annotated[int, "Number of the part."]
) -> dict[str, object]:
    """Get one part of an order."""
    return {"id": order_id, "part": part, "status": "shipped"}


class Script:
    """Searches, then calls four parts of an order in each turn, then answers."""

    name = "script"

    async def act(self, context: Context) -> Reply:
        turn = len(context.exchanges)
        if turn == 0:
            return Reply(render_turn("I look it up.", plan=SearchPlan(("part",)), searches=[Search("part", "order")]))
        if turn > TURNS:
            return Reply(render_turn("That is all.", answer="The status is shipped."))
        calls = [Call("get_part", {"order_id": f"A{turn}", "part": part}) for part in range(CALLS)]
        return Reply(render_turn("I get the parts.", plan=call_plan(calls) if turn == 1 else None, calls=calls))


@dataclass(frozen=True, slots=True)
class Shipped:
    """Whether the answer says what it must."""

    success: bool

    def to_json(self) -> JsonObject:
        return {"answer": self.success}


def judge(results: Sequence[Result], answer: str | None) -> Shipped:
    return Shipped("shipped" in (answer or "") and sum(result.ok for result in results) == TURNS * CALLS)


def ours(count: int, folder: Path) -> float:
    """Play the episodes and return the seconds that took."""
    policy, toolbox = Script(), FunctionToolbox([get_part])

    def episode(number: int) -> Episode:
        name = f"episode-{number}"

        async def play(recorder: Recorder) -> object:
            start = EpisodeStart(TRACE_VERSION, "bench", name, f"What is the status of order B{number}?", "script")
            return await Loop(start, policy, toolbox, WallClock(), recorder, Settings(), verify=judge).run()

        return Episode(name, play)

    directory = RunDirectory(folder)
    directory.prepare({})
    started = time.perf_counter()
    summary = asyncio.run(suite.run([episode(number) for number in range(count)], directory))
    seconds = time.perf_counter() - started
    assert (summary.overall.episodes, summary.overall.success) == (count, 1.0), summary
    return seconds


def theirs(python: Path, count: int, folder: Path) -> float:
    """Let the peer play the episodes and return the seconds that took."""
    script = Path(__file__).with_name("harness_inspect.py")
    arguments = [str(count), str(TURNS), str(CALLS), str(folder)]
    done = subprocess.run([python, script, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the peer failed: {done.stderr.strip().splitlines()[-1:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["status"], found["calls"]) == ("success", count * TURNS * CALLS), found
    return float(found["seconds"])


def environment() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "paraagent" / "bench" / PEER.replace("==", "-")


def peer_python() -> Path:
    return environment() / "bin" / "python"


def set_up() -> None:
    """Make the peer's environment."""
    if not peer_python().exists():
        venv.create(environment(), with_pip=True)
    subprocess.run([peer_python(), "-m", "pip", "install", "--quiet", PEER], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true", help="make the peer's virtual environment first")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.setup:
        set_up()
    if not peer_python().exists():
        sys.exit(
            f"{PEER} is not there: run `python {sys.argv[0]} --setup` once, which installs it into a place apart"
        )
    folder = Path(tempfile.mkdtemp(prefix="paraagent-harness-"))
    times: list[tuple[float, float]] = []
    try:
        ours(options.episodes, folder / "warm-up")
        for number in range(options.rounds):
            mine = ours(options.episodes, folder / f"ours-{number}")
            times.append((mine, theirs(peer_python(), options.episodes, folder / f"theirs-{number}")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report(options.episodes, times, options.json)


def report(episodes: int, times: Sequence[tuple[float, float]], as_json: bool) -> None:
    mine, peer = (episodes / statistics.median(side) for side in zip(*times, strict=True))
    ratios = [theirs_ / ours_ for ours_, theirs_ in times]
    figures = {
        "episodes_per_s": mine,
        "inspect_ai_episodes_per_s": peer,
        "calls_per_s": mine * TURNS * CALLS,
        "inspect_ai_calls_per_s": peer * TURNS * CALLS,
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
    }
    if as_json:
        print(json.dumps({key: round(value, 2) for key, value in figures.items()}, indent=2))
    else:
        print("\n".join(f"{key:28} {value:10.1f}" for key, value in figures.items()))


if __name__ == "__main__":
    main()

"""Kills agents at every moment of many random episodes full of faults, and counts what is done twice or lost.

    python bench/faults.py [--json] [--crash-points 3000] [--faults 10000]      (once with --setup, for the others)

Random scripted episodes (`faults_script`) in a world whose tools fail in 14 ways (`faults_world`) are killed after
any event of their trace, with the world at any moment between two events, and go on from the trace alone; some are
killed again, and each is also cancelled once (`faults_crash`). Time is virtual. A short version of the script is then
played by ParaAgent and four other runtimes (`faults_peers`).

Keys, all of which should be 0 but the last four:
    duplicate_effects   side effects beyond those of the same episode without a crash
    lost_results        successes without an effect, and recorded results that the model was not shown
    missing_results     calls without exactly one answer
    not_durable         writes dispatched without their start having been asked to reach the disk
    different           resumed episodes in which nothing was unknown and yet the model was shown something else
    crash_points, faults, unknown_done, unknown_not_done
                        writes under way in a crash, reported as of unknown outcome and never repeated: those that had
                        happened, and those that had not
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from faults_crash import Problem, Tally, check, crash, last_turn, moments, play
from faults_peers import Compared, compare
from faults_script import random_script
from faults_world import World
from peers.host import SETUP, ready, setup, versions

PER_EPISODE = 60
"""Moments tried of one episode at most; a random sample of a longer one."""


def campaign(crash_points: int, faults: int, *, seed: int = 1) -> Tally:
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        number = 0
        while tally.crash_points < crash_points or tally.faults.total() < faults:
            episode(Path(folder) / str(number), f"{seed}.{number}", tally, crash_points)
            number += 1
    return tally


def episode(folder: Path, seed: str, tally: Tally, crash_points: int) -> None:
    """Play one episode whole, then once for each of its moments up to there and on."""
    folder.mkdir()
    rng = random.Random(seed)
    script = random_script(rng)
    world_seed, fault_rate = rng.randrange(10**9), rng.choice([0.0, 0.3, 0.6])

    def fresh() -> World:
        return World(world_seed, fault_rate)

    whole = play(folder / "whole", script, fresh())
    view = whole.view()
    assert view.end is not None
    tally.episodes += 1
    tally.calls += len(list(view.calls))
    check(whole, whole, last_turn(view), True, tally, f"{seed} whole")
    stopped = play(folder / "stopped", script, fresh(), stop=rng.uniform(0.0, view.end.at))
    turn = last_turn(stopped.view())
    if (end := stopped.view().end) is None or end.mask_sample:
        resumed = play(stopped.path, script, stopped.world, resume=True)
        check(resumed, whole, turn, False, tally, f"{seed} stopped")
    points = list(moments(whole))
    for number, at in enumerate(rng.sample(points, min(PER_EPISODE, len(points)))):
        if tally.crash_points >= crash_points:
            return
        path, turn = folder / str(number), last_turn(view, at.events)
        resumed = play(path, script, crash(whole, at, path, rng), resume=True)
        tally.crash_points += 1
        check(resumed, whole, turn, not script.timed, tally, f"{seed} {at}")
        if rng.random() < 0.3 and (again := list(moments(resumed))):
            second, path = rng.choice(again), folder / f"{number}-again"
            twice = play(path, script, crash(resumed, second, path, rng), resume=True)
            tally.crash_points += 1
            check(twice, whole, turn, not script.timed, tally, f"{seed} {at} {second}")


def figures(tally: Tally) -> dict[str, int]:
    return {problem: tally.problems[problem] for problem in get_args(Problem)} | {
        "crash_points": tally.crash_points,
        "faults": tally.faults.total(),
        "unknown_done": tally.unknown_done,
        "unknown_not_done": tally.unknown_not_done,
        "episodes": tally.episodes,
        "calls": tally.calls,
    }


def show(tally: Tally, compared: dict[str, Compared]) -> None:
    for key, value in figures(tally).items():
        print(f"{key:20} {value:8,}")
    print("faults:", ", ".join(f"{name} {count:,}" for name, count in sorted(tally.faults.items())))
    for problem, where in tally.first.items():
        print(f"first {problem}: {where}")
    if not compared:
        return
    print(f"\n{', '.join(versions())}")
    print(f"{'':30}{'answered':>9}{'kept':>7}{'results':>9}{'done':>6}{'twice':>6}{'not done':>9}{'results':>9}")
    for name, one in compared.items():
        row = f"{name:30}{one.answered:9.2f}{one.kept:7.2f}{one.results_per_call:9.2f}"
        row += f"{one.done:6}{one.duplicates:6}{one.not_done:9}{one.after_crash_results_per_call:9.2f}"
        print(row, "; ".join(one.errors), f"  kept by failure: {one.kept_by}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count what crashes and faults make an agent do twice or lose.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--setup", action="store_true", help="fetch the other runtimes first")
    parser.add_argument("--crash-points", type=int, default=3_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, help="of the campaign (default 1)")
    parser.add_argument("--faults", type=int, default=10_000, metavar="N")
    parser.add_argument("--scripts", type=int, default=24, metavar="N", help="scripts for the other runtimes")
    options = parser.parse_args()
    if options.setup:
        setup()
    tally = campaign(options.crash_points, options.faults, seed=options.seed)
    compared = compare(options.scripts) if ready() else {}
    if not ready():
        print(SETUP, file=sys.stderr)
    if options.json:
        print(json.dumps(figures(tally) | {"peers": {name: asdict(one) for name, one in compared.items()}}))
    else:
        show(tally, compared)
    sys.exit(any(tally.problems.values()))


if __name__ == "__main__":
    main()

"""What a runtime adds to the time its tools take, beside four others on the same script, in one run.

    python bench/overhead.py [--json] [--rounds 5]      (once with --setup, to fetch the others)

Two workloads for a whole agent with a scripted model: groups of 8 calls without latency, and groups of 32 calls of
20 ms. A turn is measured from one question to the model to the next. Every runtime has its own process; in each round
all take their turn one after the other. ParaAgent writes its full trace to a file; the others run as their
documentation starts, and once more with tracing or log off. On a busy machine a turn is often interrupted, a long one
more than a short one, so the figure of a round is its 10th percentile; the medians are printed beside it.

Keys:
    overhead_us             ours, microseconds per call without latency
    best_peer_overhead_us   the fastest peer as its documentation starts it
    best_quiet_overhead_us  the fastest peer in any setting
    wide_ratio              ours, 32 calls of 20 ms: time of a turn / 20 ms; without the default limit of 8 calls
                            at once per server, since here all tools are on one
    bare_wide_ratio         32 bare `asyncio.sleep` in a TaskGroup, no agent
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from peers.host import CHECKPOINTED, OURS, PEERS, QUIET, SETUP, Process, Runtime, ready, setup, versions

BARE = Runtime("bare TaskGroup", "run_bare.py", ours=True)
OPEN = Runtime("paraagent, no limit per server", OURS.script, ("--no-limit",), ours=True)
WORK = {
    "instant": {"do": "time", "calls": [{"id": f"w{n}", "seconds": 0, "fault": None} for n in range(8)], "turns": 24},
    "wide": {
        "do": "time",
        "calls": [{"id": f"w{n}", "seconds": 0.02, "fault": None} for n in range(32)],
        "turns": 20,
    },
}
Figures = dict[str, dict[str, dict[str, Any]]]
"""By workload and runtime: `low` and `median` seconds of a turn, or `error`."""


def measure(rounds: int) -> Figures:
    """Let all runtimes take turns; figures are medians over the rounds."""
    runtimes = (BARE, OURS, OPEN, *((*PEERS, CHECKPOINTED, *QUIET) if ready() else ()))
    turns: dict[str, dict[str, list[list[float]]]] = {name: {one.name: [] for one in runtimes} for name in WORK}
    errors: Figures = {name: {} for name in WORK}
    with ExitStack() as stack:
        processes = {one.name: stack.enter_context(Process(one)) for one in runtimes}
        for number in range(rounds + 1):  # the first warms up
            for work, request in WORK.items():
                for name, process in processes.items():
                    answer = process.ask(request)
                    if "error" in answer:
                        errors[work][name] = answer
                    elif number:
                        turns[work][name].append(answer["turns"])
    return {
        work: {name: errors[work].get(name) or _figures(taken) for name, taken in turns[work].items()}
        for work in WORK
    }


def _figures(rounds: list[list[float]]) -> dict[str, Any]:
    return {
        "low": statistics.median(statistics.quantiles(turns, n=10)[0] for turns in rounds),
        "median": statistics.median(statistics.median(turns) for turns in rounds),
    }


def summary(figures: Figures) -> dict[str, float]:
    def best(peers: Iterable[Runtime]) -> float:
        instant = [figures["instant"].get(peer.name, {}) for peer in peers]
        known = [found["low"] for found in instant if "low" in found]
        return min(known) / 8 * 1e6 if known else float("nan")

    return {
        "overhead_us": figures["instant"][OURS.name]["low"] / 8 * 1e6,
        "best_peer_overhead_us": best(PEERS),
        "best_quiet_overhead_us": best([*PEERS, CHECKPOINTED, *QUIET]),
        "wide_ratio": figures["wide"][OPEN.name]["low"] / 0.02,
        "bare_wide_ratio": figures["wide"][BARE.name]["low"] / 0.02,
    }


def show(figures: Figures, told: dict[str, float]) -> None:
    print(f"python {platform.python_version()}; {', '.join(versions())}")
    print(f"{'':32} {'us per call':>12} {'(median)':>10} {'wide / 20 ms':>14} {'(median)':>10}")
    for name in figures["instant"]:
        instant, wide = (figures[work][name] for work in WORK)
        if "error" in instant or "error" in wide:
            print(f"{name:32} failed: {instant.get('error') or wide.get('error')}")
            continue
        cells = (instant["low"] / 8 * 1e6, instant["median"] / 8 * 1e6, wide["low"] / 0.02, wide["median"] / 0.02)
        print(f"{name:32} {cells[0]:12.0f} {cells[1]:10.0f} {cells[2]:14.2f} {cells[3]:10.2f}")
    print(f"ours / best peer as documented: {told['overhead_us'] / told['best_peer_overhead_us']:.2f}   (bar: 0.2)")
    print(f"ours / best peer in any setting: {told['overhead_us'] / told['best_quiet_overhead_us']:.2f}")
    print(f"32 calls of 20 ms / 20 ms: {told['wide_ratio']:.2f}   (bar: 1.15; bare: {told['bare_wide_ratio']:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a runtime adds to the time of its tools.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--setup", action="store_true", help="fetch the other runtimes first")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the medians of (default 5)")
    options = parser.parse_args()
    if options.setup:
        setup()
    elif not ready():
        print(SETUP, file=sys.stderr)
    figures = measure(options.rounds)
    told = summary(figures)
    if options.json:
        print(json.dumps({key: round(value, 3) for key, value in told.items()} | {"all": figures}))
    else:
        show(figures, told)


if __name__ == "__main__":
    main()

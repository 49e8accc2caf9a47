"""Speed, recall and abstention of tool search, with bm25s on the same text in the same run.

`python bench/search.py [--data DIR] [--catalog PATH] [--json]`

Recall is the mean share of a request's labelled APIs among the best k, on the 765 requests of StableToolBench: over
its 2,479 APIs alone, and with the whole catalog mixed in, where other tools that would serve count as misses. `fit`
is the half that constants were tuned on, `report` the half they never saw. Times are for one query at a time,
`search` as an agent calls it: reading the query, ranking, reasons, and five tool records from disk.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from paraagent.catalog.store import Catalog
from paraagent.search.search import SearchIndex
from paraagent.search.verdict import FLOOR, probability
from paraagent.types import Search
from search_data import ANSWERABLE, Case, Query, Worlds, pieces, worlds
from search_peers import Peer, Top, bm25s, have, tantivy

Figures = dict[str, float]
CUTS = (1, 5, 10)
WHOLE = 2.0
"""Weight of the whole request beside each of its pieces."""
BLOCK = 30
SHORT = (
    "currency conversion: convert an amount from USD to EUR",
    "get the status of an order",
    "send an sms message",
    "list storage buckets",
    "weather forecast for a city",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of StableToolBench's test_instruction files")
    parser.add_argument("--catalog", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    catalog = Catalog.open(options.catalog)
    world = worlds(options.data, catalog)
    figures = {"tools": float(len(catalog)), **quality(world), **verdicts(world)}
    figures |= {**peers(world), **speed(catalog, world)}
    if options.json:
        print(json.dumps({key: round(value, 4) for key, value in figures.items()}, indent=2))
    else:
        print("\n".join(f"{key:48} {value:10.4f}" for key, value in figures.items()))


def quality(world: Worlds) -> Figures:
    """Return our recall."""
    figures: Figures = {}
    for key, name in (
        ("alone", "toolbench alone"),
        ("mixed", "toolbench mixed"),
        ("catalog", "catalog slots"),
        ("brief", "catalog brief"),
    ):
        halves = world.sets[name]
        top = searcher(halves[0][0].index)
        any_one = key in ("catalog", "brief")
        figures |= recall(f"_{key}", top, [case.query for half in halves for case in half], any_one)
        for half, cases in zip(("fit", "report"), halves, strict=True):
            figures |= recall(f"_{key}_{half}", top, [case.query for case in cases], any_one)
        ranked = ranker(halves[0][0].index)
        figures |= recall(f"_{key}_unjudged", ranked, [case.query for half in halves for case in half], any_one)
    requests = requested(world)
    figures |= recall("_mixed_slots", split(searcher(world.mixed)), requests)
    for group in dict.fromkeys(query.group for query in requests):
        part = [query for query in requests if query.group == group]
        figures[f"recall_at_10_mixed_{group}"] = recall("", searcher(world.mixed), part)["recall_at_10"]
    return figures


def requested(world: Worlds) -> list[Query]:
    """Return all of ToolBench's requests."""
    return [case.query for half in world.sets["toolbench alone"] for case in half]


def recall(suffix: str, top: Top, queries: Sequence[Query], any_one: bool = False) -> Figures:
    """Return the mean share of wanted tools among the best k; `any_one`: of queries that have one of them there."""
    found: dict[int, list[float]] = defaultdict(list)
    for query in queries:
        names = top(f"{query.slot} {query.text}".strip(), max(CUTS))
        for k in CUTS:
            hits = len(query.wanted.intersection(names[:k]))
            found[k].append(float(hits > 0) if any_one else hits / len(query.wanted))
    return {f"recall_at_{k}{suffix}": float(np.mean(values)) for k, values in found.items()}


def searcher(index: SearchIndex) -> Top:
    return lambda text, k: [hit.tool.name for hit in index.search([Search("", text)], k)[0].hits]


def ranker(index: SearchIndex) -> Top:
    return lambda text, k: index.evidence(Search("", text), k)[0]


def split(top: Top) -> Top:
    """Search a request and each of its pieces, and fuse by reciprocal rank."""

    def fused(text: str, k: int) -> list[str]:
        scores: dict[str, float] = defaultdict(float)
        parts = pieces(text)
        for part, weight in ((text, WHOLE), *((part, 1.0) for part in parts if len(parts) > 1)):
            for rank, name in enumerate(top(part, k)):
                scores[name] += weight / (rank + 5)
        return sorted(scores, key=lambda name: -scores[name])[:k]

    return fused


def verdicts(world: Worlds) -> Figures:
    """Return how many answerable queries keep an answer and how many unanswerable ones get one."""
    figures: Figures = {}
    for half, suffix in enumerate(("_fit", "")):
        best = {name: np.array([surest(case) for case in sets[half]]) for name, sets in world.sets.items()}
        certain = np.concatenate([best["nobody"], best["other box"]])
        for name, values in best.items():
            kind = "kept" if name in ANSWERABLE else "false_answers"
            figures[f"{kind}_{name.replace(' ', '_')}{suffix}"] = float(np.mean(values >= FLOOR))
        figures[f"kept_answers{suffix}"] = float(np.mean([np.mean(best[name] >= FLOOR) for name in ANSWERABLE]))
        figures[f"false_answer_rate{suffix}"] = float(np.mean(certain >= FLOOR))
        figures[f"unanswerable_queries{suffix}"] = float(len(certain))
        for keep in (0.9, 0.95, 0.99):
            floor = np.mean([np.quantile(best[name], 1 - keep) for name in ANSWERABLE])
            figures[f"false_answer_rate_keeping_{keep:.2f}{suffix}"] = float(np.mean(certain >= floor))
            gone = float(np.mean(best["category gone"] >= floor))
            figures[f"false_answers_category_gone_keeping_{keep:.2f}{suffix}"] = gone
    return figures | calibration(world)


def surest(case: Case) -> float:
    """Return the probability of the best hit."""
    return float(np.max(probability(case.index.evidence(case.query.search, 1)[1]), initial=0.0))


def calibration(world: Worlds) -> Figures:
    """Return the expected calibration error of hit scores on the reported halves, in ten equal bins."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for _, cases in world.sets.values():
        for case in cases:
            for hit in case.index.search([case.query.search])[0].hits:
                bins[min(int(hit.score * 10), 9)].append((hit.score, hit.tool.name in case.query.wanted))
    total = sum(map(len, bins.values()))
    gaps = [len(pairs) * abs(np.mean([score - wanted for score, wanted in pairs])) for pairs in bins.values()]
    return {"calibration_error": float(sum(gaps) / total)}


def peers(world: Worlds) -> Figures:
    """Return recall of other engines over the same tools; bm25s with the better of two texts.

    Other engines give no verdict: whatever shares a word with a query that nobody serves is a false answer.
    """
    figures: Figures = {}
    requests = requested(world)
    both = [*world.apis, *world.catalog]
    for key, tools in (("alone", world.apis), ("mixed", both)):
        tops = [bm25s(tools, "numpy", notes).top for notes in (True, False)]
        variants = [recall(f"_{key}", top, requests) for top in tops]
        if key == "mixed":
            nobody = [case.query.text for half in world.sets["nobody"] for case in half]
            figures["bm25s_false_answers_nobody"] = float(np.mean([bool(tops[0](text, 1)) for text in nobody]))
        better = max(variants, key=lambda figures: figures[f"recall_at_10_{key}"])
        figures |= {f"bm25s_{name}": value for name, value in better.items()}
        if have("tantivy"):
            figures |= {
                f"tantivy_{name}": value for name, value in recall(f"_{key}", tantivy(tools).top, requests).items()
            }
    return figures


def speed(catalog: Catalog, world: Worlds) -> Figures:
    """Return times over the catalog, engines taking turns in blocks of queries."""
    index = SearchIndex.open(catalog)
    opening = [timed(lambda: SearchIndex.open(catalog))[0] for _ in range(5)]
    engines: dict[str, Callable[[str], object]] = {
        "": lambda text: index.search([Search("", text)]),
        "ranking_": lambda text: index.evidence(Search("", text), 5),
    }
    for peer, key in _built(world):
        engines[key] = lambda text, peer=peer: peer.top(text, 5)  # type: ignore[misc]
    texts = [query.text for query in requested(world)[:300]]
    figures = {"open_ms": float(np.median(opening)) * 1e3}
    for label, asked in (("", texts), ("short_", [*SHORT] * 30)):
        times: dict[str, list[tuple[float, float]]] = {key: [] for key in engines}
        for start in range(0, len(asked), BLOCK):
            for key, engine in engines.items():
                for text in asked[start : start + BLOCK]:
                    times[key].append(timed(lambda engine=engine, text=text: engine(text)))  # type: ignore[misc]
        for key, values in times.items():
            wall, cpu = np.array(values).T * 1e3
            figures[f"{key}{label}p50_ms"] = float(np.median(wall))
            figures[f"{key}{label}p99_ms"] = float(np.quantile(wall, 0.99))
            figures[f"{key}{label}cpu_p50_ms"] = float(np.median(cpu))
            figures[f"{key}{label}cpu_p99_ms"] = float(np.quantile(cpu, 0.99))
    figures["queries_per_second"] = 1e3 / figures["p50_ms"]
    return figures


def _built(world: Worlds) -> list[tuple[Peer, str]]:
    found = [(bm25s(world.catalog, "numpy", True), "bm25s_numpy_")]
    if have("numba"):
        found.append((bm25s(world.catalog, "numba", True), "bm25s_numba_"))
    if have("tantivy"):
        found.append((tantivy(world.catalog), "tantivy_"))
    for peer, _ in found:
        peer.top("compile and warm up", 5)
    return found


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds on the wall and of this thread's computing."""
    started, computed = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - started, time.thread_time() - computed


if __name__ == "__main__":
    main()

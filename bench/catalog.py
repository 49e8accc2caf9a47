"""Measures the catalog: build time, peak memory, size, opening, look-ups. Prints a table, or JSON with --json.

    python bench/catalog.py                      build in a temporary folder from the downloaded archives, then read
    python bench/catalog.py --existing PATH      only read a catalog that is there

Archives that were not downloaded yet are fetched first, outside the measured time.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from paraagent.catalog import fetch
from paraagent.catalog.build import BuildConfig, build
from paraagent.catalog.store import Catalog, default_path


def measure_build(path: Path, downloads: Path) -> dict[str, float]:
    """Build in a process of its own; return seconds on the clock and of processor time, and peak memory in MB."""
    command = [sys.executable, __file__, "--build", str(path), "--downloads", str(downloads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def timed_build(path: Path, downloads: Path) -> dict[str, float]:
    began = time.perf_counter()
    build(BuildConfig(path=path, downloads=downloads, force=True)).close()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "build_seconds": round(time.perf_counter() - began, 1),
        "build_cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "build_peak_mb": round(usage.ru_maxrss / 1024),
    }


def measure_reading(path: Path, rounds: int = 5, look_ups: int = 2000) -> dict[str, float | int | str]:
    """Return medians over rounds: opening, one look-up by name, all tools in order."""
    opening, looking = [], []
    with Catalog.open(path) as catalog:
        names = random.Random(0).sample(catalog.names(), min(look_ups, len(catalog)))
        info = catalog.info()
        began = time.perf_counter()
        count = sum(1 for _ in catalog)
        iterating = time.perf_counter() - began
    for _ in range(rounds):
        began = time.perf_counter()
        catalog = Catalog.open(path)
        opening.append(time.perf_counter() - began)
        began = time.perf_counter()
        for name in names:
            catalog.get(name)
        looking.append((time.perf_counter() - began) / len(names))
        catalog.close()
    return {
        "tools": count,
        "described_answers": info.tools - info.synthetic,
        "providers": info.providers,
        "apis": info.apis,
        "mb": round(info.bytes / 2**20, 1),
        "open_ms": round(1000 * statistics.median(opening), 2),
        "lookup_ms": round(1000 * statistics.median(looking), 4),
        "iterate_seconds": round(iterating, 1),
        "digest": info.digest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--existing", type=Path, help="read this catalog instead of building one")
    parser.add_argument("--downloads", type=Path, default=default_path().parent / "downloads")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        print(json.dumps(timed_build(options.build, options.downloads)))
        return
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, float | int | str] = {}
        path = options.existing or Path(folder) / "catalog.sqlite"
        if not options.existing:
            for pinned in fetch.Lock.read().archives:
                fetch.fetch(pinned, options.downloads)
            found |= measure_build(path, options.downloads)
        found |= measure_reading(path)
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:18} {value}")


if __name__ == "__main__":
    main()

"""What a command takes at most: memory of it and its child processes, in all, every second.

Memory that processes share counts once (proportional set size), so it is Linux only; files count if they are mapped,
as weights are. A peak between two looks can be missed. Needs the extra `train`.

    python bench/memory.py train rl --adapter DIR --out DIR --steps 1
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

PERIOD = 1.0
"""Seconds between two looks."""


def watch(command: list[str]) -> tuple[int, int, int, float]:
    """Run a command and return its exit code, most bytes, processes at that moment, and seconds until then."""
    began = time.monotonic()
    running = subprocess.Popen(command)
    most, processes, at = 0, 0, 0.0
    try:
        while running.poll() is None:
            parts = [size for size in map(_size, _family(running.pid)) if size]
            if sum(parts) > most:
                most, processes, at = sum(parts), len(parts), time.monotonic() - began
            time.sleep(PERIOD)
    finally:
        running.terminate()
    return running.wait(), most, processes, at


def _family(pid: int) -> list[psutil.Process]:
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _size(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    paraagent = Path(sys.executable).with_name("paraagent")
    code, most, processes, at = watch([str(paraagent), *sys.argv[1:]])
    print(f"at most {most / 1e9:.2f} GB in {processes} processes, after {at:.0f} s; exit code {code}")
    raise SystemExit(code)


if __name__ == "__main__":
    main()

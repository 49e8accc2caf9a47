"""Runs many episodes at once and keeps each as a trace file in one run directory.

Place in the flow: layer 5; `paraagent run` and every evaluation use `Suite.run`. A run directory holds `run.json`
(config, versions, catalog digest), `traces/<episode>.jsonl` and, at the end, `summary.json`. A run that was stopped
is continued with the same call: finished traces are kept, an unfinished one starts over.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from paraagent.errors import EnvironmentFault, TraceError, UsageError
from paraagent.evaluate.summary import Summary, summarise
from paraagent.trace import reader
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, JsonValue

Play = Callable[[Recorder], Awaitable[object]]
"""Plays one episode into a recorder, from its first event to its last."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode to run: a name that is unique in the run and fit for a file, and how to play it."""

    name: str
    play: Play


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Where a run keeps its files."""

    path: Path

    @property
    def traces(self) -> Path:
        return self.path / "traces"

    def trace(self, episode: str) -> Path:
        return self.traces / f"{episode}.jsonl"

    def prepare(self, config: JsonObject, *, overwrite: bool = False) -> None:
        """Make the directory ready: new, emptied, or left as it is when it holds the same run.

        Raises:
            UsageError: it holds another run and `overwrite` is False.
            EnvironmentFault: it cannot be written.
        """
        marker = self.path / "run.json"
        try:
            if overwrite and marker.exists():
                shutil.rmtree(self.traces, ignore_errors=True)
                marker.unlink()
                (self.path / "summary.json").unlink(missing_ok=True)
            if marker.exists():
                other = _differing(_read_json(marker).get("config"), config)
                if other:
                    raise UsageError(
                        f"{self.path} holds a run with other settings ({', '.join(other)}): choose another --out, or "
                        "--overwrite it"
                    )
                return
            if self.path.exists() and any(self.path.iterdir()):
                raise UsageError(f"{self.path} is not empty and holds no run: choose another --out")
            self.traces.mkdir(parents=True, exist_ok=True)
            marker.write_bytes(orjson.dumps({"config": config}, option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise EnvironmentFault(f"{self.path}: cannot keep the run there ({error.strerror})") from error

    def finished(self, episode: str) -> EpisodeView | None:
        """Return the episode's trace if it is complete; remove an incomplete one so that it starts over."""
        path = self.trace(episode)
        if not path.exists():
            return None
        try:
            found = reader.load(path)
        except TraceError:
            found = None
        if found is not None and found.end is not None and not found.end.mask_sample:
            return found
        path.unlink()
        return None

    def write_summary(self, summary: Summary, planned: int) -> None:
        """Keep the figures, and of how many episodes the run is to have; scoring tells by it what is missing."""
        record = summary.to_json() | {"planned": planned}
        (self.path / "summary.json").write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2))

    def summary(self) -> JsonObject:
        """Return the figures that were written last; empty if there are none."""
        path = self.path / "summary.json"
        return _read_json(path) if path.exists() else {}


async def run(
    episodes: Sequence[Episode],
    directory: RunDirectory,
    *,
    concurrency: int = 8,
    redact: Callable[[str], str] | None = None,
    on_done: Callable[[str, EpisodeView], None] | None = None,
) -> Summary:
    """Play all episodes, at most `concurrency` at once, and return the figures of those that ended.

    `redact` takes secrets out of every text before it is recorded.

    If the caller cancels, the episodes in flight are closed as cancelled and what was done is kept.
    """
    started = time.monotonic()
    views: list[EpisodeView] = []
    directory.write_summary(summarise(views), len(episodes))

    def keep(name: str, found: EpisodeView) -> None:
        views.append(found)
        if on_done is not None:
            on_done(name, found)

    waiting = iter(episodes)
    workers = [asyncio.create_task(_worker(waiting, directory, redact, keep)) for _ in range(max(1, concurrency))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        summary = summarise(views, time.monotonic() - started)
        directory.write_summary(summary, len(episodes))
    return summary


async def _worker(
    waiting: Iterable[Episode],
    directory: RunDirectory,
    redact: Callable[[str], str] | None,
    keep: Callable[[str, EpisodeView], None],
) -> None:
    for episode in waiting:
        found = directory.finished(episode.name)
        if found is None:
            with Recorder(directory.trace(episode.name), redact=redact) as recorder:
                await episode.play(recorder)
            found = EpisodeView(recorder.events)
        keep(episode.name, found)
        await asyncio.sleep(0)  # lets the others, and Ctrl-C, have their turn between fast episodes


def _read_json(path: Path) -> JsonObject:
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise EnvironmentFault(f"{path} cannot be read ({error}): remove it or choose another --out") from error
    return value if isinstance(value, dict) else {}


def _differing(kept: JsonValue, wanted: JsonObject) -> list[str]:
    """Return the names of the settings in which a kept run differs."""
    kept, wanted = (kept if isinstance(kept, dict) else {}), orjson.loads(orjson.dumps(wanted))
    return sorted(name for name in kept.keys() | wanted.keys() if kept.get(name) != wanted.get(name))

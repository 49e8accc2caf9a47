"""Opens run directories for scoring, and refuses those whose figures would mislead.

Place in the flow: layer 5, between `suite.RunDirectory` and `compare` and `report`. A run is *incomplete* if episodes
are missing, unfinished, damaged or masked: what is left may be the easy part. It is *mixed* if its traces do not
share one config, policy, catalog and version; several runs are mixed if their benchmarks or catalogs differ. Either
needs the caller's word. Limits: without a `summary.json` nobody knows how many episodes there should be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import orjson

from paraagent.errors import EnvironmentFault, TraceError, UsageError
from paraagent.evaluate.behaviour import Behaviour, behaviour, behaviour_by_kind
from paraagent.evaluate.metrics import EpisodeMetrics, episode_metrics
from paraagent.trace import reader
from paraagent.trace.plain import one_line
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject


@dataclass(frozen=True)
class ScoredRun:
    """A run whose episodes are read and measured."""

    path: Path
    config: JsonObject
    views: Mapping[str, EpisodeView]
    """Counted episodes by name, in the order of their names."""
    masked: int
    """Episodes that failed outside the agent."""
    unfinished: int
    """Traces that have no end or cannot be read."""
    missing: int
    """Episodes the run was to have and has no trace of."""
    name: str = ""
    """What reports call it; unique among the runs of one report."""

    @cached_property
    def metrics(self) -> dict[str, EpisodeMetrics]:
        """The figures of every counted episode by its name."""
        found = {name: episode_metrics(view) for name, view in self.views.items()}
        return {name: one for name, one in found.items() if one is not None}

    @cached_property
    def behaviour(self) -> Behaviour:
        return behaviour(self.views.values())

    @cached_property
    def behaviour_by_kind(self) -> dict[str, Behaviour]:
        return behaviour_by_kind(self.views.values())

    @property
    def policy(self) -> str:
        return next((view.start.policy for view in self.views.values()), str(self.config.get("policy", "?")))

    @property
    def catalog(self) -> str:
        """Digest of the catalog; empty if the traces name none."""
        return next((str(view.start.software.get("catalog", "")) for view in self.views.values()), "")

    @property
    def complete(self) -> bool:
        return not (self.masked or self.unfinished or self.missing)

    def trace(self, episode: str) -> Path:
        return self.path / "traces" / f"{episode}.jsonl"


def open_runs(paths: Sequence[Path], *, allow_incomplete: bool = False, mixed: bool = False) -> list[ScoredRun]:
    """Open runs to be reported together, the first as the one that others are compared to.

    Raises:
        UsageError: a path is no run; or a run is incomplete or mixed and that was not allowed.
        EnvironmentFault: a run cannot be read.
    """
    if not paths:
        raise UsageError("name at least one run directory")
    labels = _labels(paths)
    if len(set(labels)) < len(labels):
        raise UsageError("the same run is named twice")
    runs = [
        open_run(path, allow_incomplete=allow_incomplete, mixed=mixed, name=label)
        for path, label in zip(paths, labels, strict=True)
    ]
    for what in () if mixed else ("benchmark", "catalog"):
        values = [run.catalog if what == "catalog" else str(run.config.get(what) or "toolenv") for run in runs]
        if len(set(values)) > 1:
            raise UsageError(
                f"these runs differ in their {what} ({_some(values)}), so their tasks do too: "
                "report them apart, or pass --mixed"
            )
    return runs


def open_run(path: Path, *, allow_incomplete: bool = False, mixed: bool = False, name: str = "") -> ScoredRun:
    """Open one run; raises as `open_runs`."""
    config = _config(path)
    views: dict[str, EpisodeView] = {}
    masked = unfinished = 0
    found = sorted((path / "traces").glob("*.jsonl"))
    for file in found:
        try:
            view = reader.load(file)
        except TraceError:
            view = None
        if view is None or view.end is None:
            unfinished += 1
        elif view.end.mask_sample:
            masked += 1
        else:
            views[file.stem] = view
    planned = _planned(path)
    run = ScoredRun(path, config, views, masked, unfinished, max(0, planned - len(found)), name or path.name)
    if not allow_incomplete and not run.complete:
        raise UsageError(
            f"{path} is incomplete ({_lacks(run)}): finish it with its own command, or --allow-incomplete"
        )
    if not views:
        raise UsageError(f"{path} holds no finished episode to report")
    if not mixed and (differing := next(_differences(run), None)):
        raise UsageError(f"{path} is mixed: its traces differ in {differing}: play it anew, or pass --mixed")
    return run


def _config(path: Path) -> JsonObject:
    marker = path / "run.json"
    try:
        record = orjson.loads(marker.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path} is no run directory: it has no run.json") from None
    except (OSError, orjson.JSONDecodeError) as error:
        raise EnvironmentFault(f"{marker} cannot be read ({error})") from error
    config = record.get("config") if isinstance(record, dict) else None
    if not isinstance(config, dict):
        raise EnvironmentFault(f"{marker} holds no config: it was not written by this program")
    return config


def _planned(path: Path) -> int:
    """Return how many episodes the run was to have, 0 if it does not say."""
    try:
        record = orjson.loads((path / "summary.json").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return 0
    planned = record.get("planned") if isinstance(record, dict) else None
    return planned if isinstance(planned, int) else 0


def _lacks(run: ScoredRun) -> str:
    counts = {"missing": run.missing, "unfinished or damaged": run.unfinished, "failed outside the agent": run.masked}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _differences(run: ScoredRun) -> Iterator[str]:
    """Yield what the traces of a run do not agree about."""
    starts = [view.start for view in run.views.values()]
    configs = [run.config, *(start.config for start in starts if start.config)]
    for key in sorted(set().union(*configs)):
        values = [orjson.dumps(config.get(key)).decode() for config in configs]
        if len(set(values)) > 1:
            yield f"{one_line(key, 40)} ({_some(values)})"
    for what in ("catalog", "paraagent"):
        versions = [str(start.software.get(what, "")) for start in starts]
        if len(set(versions)) > 1:
            yield f"{what} ({_some(versions)})"
    policies = [start.policy for start in starts]
    if len(set(policies)) > 1:
        yield f"policy ({_some(policies)})"


def _some(values: Sequence[str]) -> str:
    return " and ".join(one_line(value, 24) or "none" for value in list(dict.fromkeys(values))[:2])


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return the shortest names that tell the runs apart, one or more last parts of each path."""
    full = [path.resolve().parts for path in paths]
    for parts in range(1, max(map(len, full)) + 1):
        labels = ["/".join(one[-parts:]) for one in full]
        if len(set(labels)) == len(labels):
            break
    return labels

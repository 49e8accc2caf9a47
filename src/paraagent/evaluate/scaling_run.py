"""Plays what `scaling` measures: the same tasks at several budgets, and several times at one.

Place in the flow: layer 5. Each budget and each sample is a *cell*: a run directory of its own, which `report` reads
like any other and which a stopped experiment continues from. The first sample also stands in for a budget that is the
base budget. Limits: every larger budget plays anew, since an agent that sees its last turn coming acts otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

from paraagent.agent.budget import Budget
from paraagent.agent.settings import Settings, User
from paraagent.env.task import Task
from paraagent.errors import UsageError
from paraagent.evaluate import suite
from paraagent.evaluate.arena import Arena
from paraagent.evaluate.evidence import evidence
from paraagent.evaluate.scaling import Samples
from paraagent.evaluate.selecting import Sample
from paraagent.reward.judge import Judge, Judgement
from paraagent.reward.pairs import PairJudge
from paraagent.trace.events import EpisodeEnd
from paraagent.trace.recorder import Recorder
from paraagent.trace.view import EpisodeView
from paraagent.types import JsonObject, Policy

_CHECK = (
    "Check this answer against the results before you leave it at that: is every part of the request done, and every "
    "value right? Search or call again where it is not, then write the whole answer."
)
PolicyFor = Callable[[Task, int], Policy]
"""Chooses the policy of a task and a sample's number, from 1."""


@dataclass(frozen=True, slots=True)
class ScaleConfig:
    """Everything that decides what is played; the same for all cells but for their budgets."""

    policy: str = "rules"
    model: str | None = None
    base_url: str | None = None
    model_dir: str | None = None
    adapter: str | None = None
    guide: str | None = None
    weights: str | None = None
    """Digest of what a model on this machine has learned."""
    temperature: float | None = None
    slips: float = 0.0
    split: str = "validation"
    kind: str = "all"
    limit: int = 42
    seed: int = 0
    difficulty: float | None = None
    turns: int = 15
    """The base budget, which all samples have."""
    tokens: int | None = None
    rounds: int = 0
    """How often an answer is sent back to be checked, while turns are left."""
    searches: int = 60
    calls: int = 100
    top_k: int = 5

    def to_json(self) -> JsonObject:
        return asdict(self)

    def settings(self) -> Settings:
        budget = Budget(turns=self.turns, searches=self.searches, calls=self.calls, tokens=self.tokens)
        return Settings(budget=budget, durable=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the experiment."""

    name: str
    """Its directory's."""
    config: ScaleConfig
    sample: int = 1


@dataclass(frozen=True, slots=True)
class Experiment:
    """Which cells there are and what each stands for."""

    base: ScaleConfig
    samples: int
    turns: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    rounds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.samples < 1 or any(size < 1 for size in self.turns + self.tokens):
            raise UsageError("samples and budgets must be at least 1")
        if any(size < 0 for size in self.rounds):
            raise UsageError("rounds cannot be negative")

    @property
    def cells(self) -> dict[str, Cell]:
        """All cells by name, samples first."""
        cells = [Cell(f"sample-{number}", self.base, number) for number in range(1, self.samples + 1)]
        for name, sizes in self._grown().items():
            cells += [Cell(f"{name}-{size}", config) for size, config in sizes.items() if config != self.base]
        return {cell.name: cell for cell in cells}

    def sequential(self) -> dict[str, dict[float, str]]:
        """Return what grows, its sizes, and the cell of each."""
        return {
            name: {
                float(size): "sample-1" if config == self.base else f"{name}-{size}" for size, config in sizes.items()
            }
            for name, sizes in self._grown().items()
        }

    def _grown(self) -> dict[str, dict[int, ScaleConfig]]:
        """Return the settings at every size of what grows."""
        found = {
            "turns": {size: replace(self.base, turns=size) for size in self.turns},
            "tokens": {size: replace(self.base, tokens=size) for size in self.tokens},
            "rounds": {size: replace(self.base, rounds=size) for size in self.rounds},
        }
        return {name: sizes for name, sizes in found.items() if sizes}


async def play(
    cell: Cell,
    tasks: Sequence[Task],
    arena: Arena,
    policy_for: PolicyFor,
    directory: suite.RunDirectory,
    *,
    concurrency: int = 8,
    redact: Callable[[str], str] | None = None,
    on_done: Callable[[str, EpisodeView], None] | None = None,
) -> dict[str, EpisodeView]:
    """Play a cell into a prepared directory, or go on with it; return its finished episodes by task."""
    ground = replace(arena, settings=cell.config.settings())
    ground.interfaces = arena.interfaces  # compiled once for all cells
    views: dict[str, EpisodeView] = {}

    def keep(name: str, view: EpisodeView) -> None:
        views[name] = view
        if on_done is not None:
            on_done(name, view)

    def episode(task: Task) -> suite.Episode:
        async def play_it(recorder: Recorder) -> EpisodeEnd:
            policy, config = policy_for(task, cell.sample), cell.config
            user = insisting(config.rounds) if config.rounds else None
            return await ground.play(task, policy, recorder, run=cell.name, config=config.to_json(), user=user)

        return suite.Episode(task.id, play_it)

    await suite.run(
        [episode(task) for task in tasks], directory, concurrency=concurrency, redact=redact, on_done=keep
    )
    return views


def insisting(rounds: int) -> User:
    """Return a user who sends the first answers of an episode back."""
    left = rounds

    def user(answer: str) -> str | None:
        nonlocal left
        left -= 1
        return _CHECK if left >= 0 else None

    return user


def prepare(path: Path, cell: Cell, *, overwrite: bool = False) -> suite.RunDirectory:
    """Make a cell's directory; raises as `RunDirectory.prepare`."""
    directory = suite.RunDirectory(path / cell.name)
    directory.prepare(cell.config.to_json(), overwrite=overwrite)
    return directory


async def sample_of(view: EpisodeView, judge: Judge | None = None) -> Sample:
    """Return a finished episode as a sample; one that the judge fails on counts as judged worthless."""
    judged = await judge.judge(view) if judge is not None else None
    value = judged.value() if isinstance(judged, Judgement) else None if judge is None else 0.0
    return Sample(bool(view.success), (view.answer or "").strip(), view.measures.tokens, evidence(view), value)


async def compared(
    samples: Samples, cells: Mapping[str, Mapping[str, EpisodeView]], judge: PairJudge
) -> dict[str, list[Sample]]:
    """Return the samples with how each fared against those of its task that answer otherwise."""

    async def one(task: str) -> list[Sample]:
        tries = samples[task]
        views = [cells[f"sample-{number}"][task] for number in range(1, len(tries) + 1)]
        pairs = [(i, j) for i, j in combinations(range(len(tries)), 2) if tries[i].answer != tries[j].answer]
        shares = await asyncio.gather(*(judge.compare(views[i], views[j]) for i, j in pairs))
        beats: list[dict[int, float]] = [{} for _ in tries]
        for (i, j), share in zip(pairs, shares, strict=True):
            if share is not None:
                beats[i][j], beats[j][i] = share, 1 - share
        return [replace(each, number=n, beats=beats[n]) for n, each in enumerate(tries)]

    return dict(zip(samples, await asyncio.gather(*map(one, samples)), strict=True))


def not_compared(samples: Samples) -> int:
    """Return how many pairs of samples with different answers have no verdict."""
    return sum(
        one.answer != other.answer and other.number not in (one.beats or {})
        for tries in samples.values()
        for one, other in combinations(tries, 2)
    )


def complete(
    cells: Mapping[str, Mapping[str, EpisodeView]], tasks: Sequence[Task], allow_incomplete: bool
) -> list[str]:
    """Return the tasks that every cell has played to an end of the agent's own.

    Raises:
        UsageError: some cell lacks some, and that was not allowed; or there are none.
    """
    counted = {
        name: {task for task, view in views.items() if view.end is not None and not view.end.mask_sample}
        for name, views in cells.items()
    }
    lacking = {name: len(tasks) - len(done) for name, done in counted.items() if len(done) < len(tasks)}
    if lacking and not allow_incomplete:
        told = ", ".join(f"{name} lacks {count}" for name, count in lacking.items())
        raise UsageError(f"the experiment is incomplete ({told}): run it again to go on, or pass --allow-incomplete")
    everywhere = [task.id for task in tasks if all(task.id in done for done in counted.values())]
    if not everywhere:
        raise UsageError("no task was played to its end everywhere")
    return everywhere


def budgets_of(
    experiment: Experiment, cells: Mapping[str, Mapping[str, Sample]]
) -> dict[str, dict[float, Mapping[str, Sample]]]:
    """Return the samples for the sequential way, as `scaling.measure` takes them."""
    return {
        name: {size: cells[cell] for size, cell in sizes.items()} for name, sizes in experiment.sequential().items()
    }


def samples_of(experiment: Experiment, cells: Mapping[str, Mapping[str, Sample]]) -> Samples:
    """Return the samples of every task for the parallel way, as `scaling.measure` takes them."""
    tries = [cells[f"sample-{number}"] for number in range(1, experiment.samples + 1)]
    return {task: [one[task] for one in tries] for task in tries[0]}

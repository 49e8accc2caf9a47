"""What commands that work in the simulated world share: the open catalog, its index and a task sampler.

Place in the flow: layer 7; imported inside commands, since it loads the search index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from paraagent.catalog.store import Catalog
from paraagent.env.shapes import Dials
from paraagent.env.task import Task
from paraagent.env.tasks import TaskSampler
from paraagent.errors import UsageError
from paraagent.search.search import SearchIndex
from paraagent.types import Split, TaskKind

_PATIENCE = 200
"""Seeds in a row without a task after which sampling gives up."""


@dataclass(frozen=True, slots=True)
class World:
    catalog: Catalog
    index: SearchIndex
    sampler: TaskSampler


def open_world(path: Path | None) -> World:
    """Open the catalog and its index.

    Raises:
        CatalogError: there is no catalog, or it cannot be read.
    """
    catalog = Catalog.open(path)
    index = SearchIndex.open(catalog)
    return World(catalog, index, TaskSampler(catalog, index))


def dials_from(
    difficulty: float | None,
    width: int | None,
    depth: int | None,
    distractors: int | None,
    fault_rate: float | None,
    writes: float | None,
) -> Dials:
    """Return the dials of a command's flags: those of the difficulty, with the ones that were set on top."""
    dials = Dials() if difficulty is None else Dials.at(difficulty)
    return dials.set(width=width, depth=depth, distractors=distractors, fault_rate=fault_rate, writes=writes)


def take_tasks(
    world: World, split: Split, kinds: Sequence[TaskKind], seed: int, limit: int, dials: Dials
) -> tuple[list[Task], Counter[str]]:
    """Return `limit` tasks from `seed` on, the kinds in turns and equally often, and why seeds in between gave none.

    Raises:
        UsageError: the catalog gives no such tasks.
    """
    tasks: list[Task] = []
    dropped: Counter[str] = Counter()
    seeds = {kind: count(seed) for kind in kinds}
    for number in range(limit):
        kind = kinds[number % len(kinds)]
        for _ in range(_PATIENCE):
            found = world.sampler.sample(split, kind, next(seeds[kind]), dials)
            if isinstance(found, Task):
                tasks.append(found)
                break
            dropped[found.reason] += 1
        else:
            why = ", ".join(f"{reason} {times}" for reason, times in dropped.most_common(3))
            raise UsageError(f"no {kind} task in {_PATIENCE} seeds of {split} ({why}): use a larger catalog")
    return tasks, dropped

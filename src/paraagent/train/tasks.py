"""The tasks of a reinforcement learning run: sampled once, kept beside the run, gone through in random order.

Place in the flow: layer 6, used by `rl`. The file makes a resumed run see the same tasks, and says what was used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from paraagent.env.shapes import Dials
from paraagent.env.task import Task
from paraagent.env.tasks import TaskSampler
from paraagent.errors import UsageError
from paraagent.train.config import RlConfig
from paraagent.train.runs import Say

_PATIENCE = 500
"""Seeds in a row without a task after which sampling gives up."""


def training_tasks(config: RlConfig, sampler: TaskSampler, path: Path, say: Say) -> list[Task]:
    """Return the run's tasks, from its file if it has one.

    Raises:
        UsageError: the catalog gives no such tasks, or the file's tasks are of another catalog.
    """
    if path.exists():
        tasks = [Task.from_json(line) for line in path.read_bytes().splitlines()]
        if any(task.catalog != sampler.catalog.digest for task in tasks):
            raise UsageError(f"{path} holds tasks of another catalog: build that one, or start a new run")
        return tasks
    say(f"sampling {config.tasks} training tasks")
    tasks = list(_sample(config, sampler))
    beside = path.with_suffix(".tmp")
    beside.write_bytes(b"".join(task.to_json() + b"\n" for task in tasks))
    os.replace(beside, path)
    return tasks


def _sample(config: RlConfig, sampler: TaskSampler) -> Iterator[Task]:
    """Yield training tasks, the kinds in turns."""
    dials = Dials(width=config.width, depth=config.depth)
    kept, barren, seed = 0, 0, config.task_seed
    while kept < config.tasks:
        kind = config.kinds[kept % len(config.kinds)]
        found = sampler.sample("train", kind, seed, dials)
        seed += 1
        if isinstance(found, Task):
            kept, barren = kept + 1, 0
            yield found
            continue
        barren += 1
        if barren > _PATIENCE:
            raise UsageError(f"no {kind} task in {_PATIENCE} seeds: use a larger catalog or other kinds")

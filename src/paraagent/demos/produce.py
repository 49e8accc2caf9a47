"""Makes lots on several cores, or with a model many at once, and merges them in the order of their numbers.

Place in the flow: layer 5, above `maker`. What is kept depends on that order alone, so the number of processes does
not change a single byte. Worker k of n makes the lots of every n-th batch and hands them over through its own bounded
queue; the batches are taken in turn.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import signal
from collections import Counter, deque
from collections.abc import Callable, Generator
from itertools import count
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import TYPE_CHECKING

from paraagent.catalog.store import Catalog
from paraagent.demos.demo import Demo
from paraagent.demos.maker import Made, Maker
from paraagent.demos.recipe import Recipe
from paraagent.errors import EnvironmentFault, ParaAgentError, UsageError
from paraagent.search.search import SearchIndex

BATCH = 8
"""Lots that a worker makes before it hands them over."""
AHEAD = 4
"""Batches a worker may be ahead."""
PATIENCE = 400

if TYPE_CHECKING:
    Results = Queue[list[Made] | Exception]


class Keeper:
    """Decides in order what is kept: nothing that is too like what came before, and no more than the recipe wants.

    Args:
        keep: takes every demonstration that is kept.
        patience: lots in a row without anything new to keep after which making ends.
    """

    def __init__(self, recipe: Recipe, keep: Callable[[Demo], None], patience: int = PATIENCE) -> None:
        self.kept = 0
        self.refused: Counter[str] = Counter()
        self._limit = recipe.limit
        self._keep = keep
        self._patience = patience
        self._keys: set[str] = set()
        self._idle = 0

    @property
    def full(self) -> bool:
        return self.kept >= self._limit

    def take(self, made: Made) -> None:
        """Take the next lot.

        Raises:
            UsageError: it has been long since something could be kept.
        """
        self.refused += made.refused
        self._idle += 1
        if made.demo is None:
            self.refused["empty lot"] += 1
        elif made.key in self._keys:
            self.refused["duplicate"] += 1
        else:
            self._keys.add(made.key)
            self.kept += 1
            self._idle = 0
            self._keep(made.demo)
        if self._idle >= self._patience:
            raise self._too_little(made.trouble)

    def _too_little(self, trouble: str) -> UsageError:
        why = ", ".join(f"{reason} {times}" for reason, times in self.refused.most_common(4))
        if trouble:
            return UsageError(f"only {self.kept} of {self._limit} demonstrations could be made ({why}): {trouble}")
        return UsageError(
            f"only {self.kept} of {self._limit} demonstrations can be made of this catalog ({why}): "
            "ask for fewer, allow more kinds, or use a larger catalog"
        )


def produce(recipe: Recipe, catalog: Path | None, workers: int, keeper: Keeper) -> None:
    """Let the built-in experts make demonstrations until the keeper is full.

    Raises:
        CatalogError: the catalog cannot be read.
        EnvironmentFault: a worker process ended.
        UsageError: the recipe makes no sense, or the catalog gives too little.
    """
    recipe.check()
    stream = _alone(recipe, catalog) if workers < 2 else _together(recipe, catalog, workers)
    try:
        while not keeper.full:
            keeper.take(next(stream))
    finally:
        stream.close()


async def produce_live(maker: Maker, concurrency: int, keeper: Keeper) -> None:
    """Make demonstrations in this process, several at once, until the keeper is full: for casts that wait for models.

    Raises:
        UsageError: too little could be made.
    """
    numbers = count()
    running: deque[asyncio.Task[Made]] = deque()
    try:
        while not keeper.full:
            while len(running) < concurrency:
                running.append(asyncio.create_task(maker.make(next(numbers))))
            keeper.take(await running.popleft())
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _alone(recipe: Recipe, path: Path | None) -> Generator[Made, None, None]:
    with Catalog.open(path) as catalog, asyncio.Runner() as runner:
        maker = Maker(catalog, SearchIndex.open(catalog), recipe)
        for number in count():
            yield runner.run(maker.make(number))


def _together(recipe: Recipe, path: Path | None, workers: int) -> Generator[Made, None, None]:
    with Catalog.open(path) as catalog:
        SearchIndex.open(catalog)  # built once here rather than by every worker
    context = multiprocessing.get_context("spawn")
    queues: list[Results] = [context.Queue(AHEAD) for _ in range(workers)]
    processes = [
        context.Process(target=_work, args=(recipe, path, worker, workers, queues[worker]), daemon=True)
        for worker in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        for batch in count():
            worker = batch % workers
            made = _receive(queues[worker], processes[worker])
            if isinstance(made, Exception):
                raise made
            yield from made
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _receive(results: Results, process: BaseProcess) -> list[Made] | Exception:
    while True:
        try:
            return results.get(timeout=1.0)
        except queue.Empty:
            if not process.is_alive() and results.empty():
                raise EnvironmentFault(
                    f"a worker process ended with code {process.exitcode}: try again with --workers 1"
                ) from None


def _work(recipe: Recipe, path: Path | None, worker: int, workers: int, results: Results) -> None:
    """Make every n-th batch of lots until the parent ends this process or is gone itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Catalog.open(path) as catalog, asyncio.Runner() as runner:
            maker = Maker(catalog, SearchIndex.open(catalog), recipe)
            for batch in count(worker, workers):
                numbers = range(batch * BATCH, (batch + 1) * BATCH)
                if not _hand_over(results, [runner.run(maker.make(number)) for number in numbers]):
                    return
    except ParaAgentError as error:
        results.put(error)
    except Exception as error:
        results.put(RuntimeError(f"{type(error).__name__} in a worker: {error}"))
        raise


def _hand_over(results: Results, made: list[Made]) -> bool:
    """Wait for room in the queue and put a batch there; False if the parent was killed and nobody will take it."""
    parent = multiprocessing.parent_process()
    while parent is None or parent.is_alive():
        try:
            results.put(made, timeout=1.0)
        except queue.Full:
            continue
        return True
    results.cancel_join_thread()
    return False

"""Several processes that share the weights in training, so that a CPU's cores all work on gradients and episodes.

Place in the flow: layer 6; both trainers use it on a CPU. Two threads on one row gain a factor of 1.6, two rows side
by side up to 2. A worker is a process with one thread and a model of its own, whose weights in training lie in
memory that all share: a step of the optimiser is seen by every worker. The trainer's own process works along.

    scores = workers.score(rows)        forward, rows spread by length; the result is part of the trainer's graph
    loss_of(scores).backward()          workers compute their gradients at the same time
    workers.collect()                   and add them to the parameters' own
    workers.perform(shares)             something else with the model as it is, one share per process

Limits: one backward pass per `score`; models without dropout or other state that changes in a forward pass; scripts
that train need the guard `if __name__ == "__main__"`. Where a row is scored follows from the lengths and the number
of processes alone, so equal batches give equal gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.multiprocessing as processes
from transformers import PreTrainedModel

from paraagent.errors import EnvironmentFault
from paraagent.train.head import Scores
from paraagent.train.runs import release_memory
from paraagent.train.worker import TRIM_EVERY, Build, ScoredRow, Scoring, Seat, parts, score_rows, trained, work

_LOST = "a training worker ended: the machine may be out of memory; go on with --resume, or with --threads 1"

_PATIENCE = 5.0
"""Seconds that a worker gets to end by itself."""


class Workers:
    """The processes at work on a model in training.

    Args:
        seat: the trainer's own.
        build: makes the others.
        count: processes in all, the trainer's own included; they divide the threads that PyTorch may use.
    """

    def __init__(self, seat: Seat, build: Build, count: int) -> None:
        self._seat = seat
        self._parameters = trained(seat.model)
        self._build = build
        self.count = max(1, count)
        self._workers: list[_Worker] = []
        self._asked: list[_Worker] = []
        self._collected = 0
        self._threads = torch.get_num_threads()

    def score(
        self, rows: Sequence[ScoredRow], scoring: Scoring, model: PreTrainedModel | None = None
    ) -> list[Scores]:
        """Return the scores of the rows, in order.

        Args:
            model: another one than is trained, as a reference; only without gradients.
        """
        if self.count == 1 or len(rows) == 1 or not torch.is_grad_enabled():
            return score_rows(model or self._seat.model, rows, scoring)
        own, *others = (share for share in _spread([len(row.ids) for row in rows], self.count) if share)
        self._asked = self._ready(len(others))
        for worker, share in zip(self._asked, others, strict=True):
            worker.send([rows[place] for place in share], scoring)
        found = dict(zip(own, score_rows(self._seat.model, [rows[place] for place in own], scoring), strict=True))
        for worker, share in zip(self._asked, others, strict=True):
            found |= zip(share, worker.scores(self._parameters[0]), strict=True)
        return [found[place] for place in range(len(rows))]

    def collect(self) -> None:
        """Wait for the gradients of the last backward pass and add them to the parameters'."""
        asked, self._asked = self._asked, []
        self._collected += 1
        if self._collected % TRIM_EVERY == 0:
            release_memory()
        for worker in asked:
            gradient = worker.gradient()
            for parameter, part in zip(self._parameters, parts(gradient, self._parameters), strict=True):
                parameter.grad = part.clone() if parameter.grad is None else parameter.grad.add_(part)
        torch.set_num_threads(self._threads)

    def perform(self, shares: Sequence[Any]) -> list[Any]:
        """Let each process do its share with the model as it is; return what they found, in order."""
        assert self._seat.perform is not None
        own, *others = shares
        asked = self._ready(len(others))
        try:
            for worker, share in zip(asked, others, strict=True):
                worker.tell("perform", share)
            return [self._seat.perform(own), *(worker.hear() for worker in asked)]
        finally:
            torch.set_num_threads(self._threads)

    def close(self) -> None:
        """End the workers, also those still at work."""
        for worker in self._workers:
            worker.close()
        self._workers, self._asked = [], []
        torch.set_num_threads(self._threads)

    def _ready(self, wanted: int) -> list[_Worker]:
        """Return so many workers, all started when the first is needed; leave them their part of the threads."""
        if wanted:
            if not self._workers:
                self._start()
            torch.set_num_threads(self._each)
        return self._workers[:wanted]

    @property
    def _each(self) -> int:
        each: int = self._threads // self.count
        return max(1, each)

    def _start(self) -> None:
        shared = _shared(torch.cat([parameter.detach().flatten() for parameter in self._parameters]))
        for parameter, part in zip(self._parameters, parts(shared, self._parameters), strict=True):
            parameter.data = part
        self._workers = [_Worker(self._build, shared, self._each) for _ in range(self.count - 1)]


class _Worker:
    """One process, seen from the trainer."""

    def __init__(self, build: Build, shared: torch.Tensor, threads: int) -> None:
        self._gradient = _shared(torch.zeros_like(shared))
        self._pipe, end = processes.Pipe()
        context = processes.get_context("spawn")
        arguments = (end, build, shared, self._gradient, threads)
        self._process = context.Process(target=work, args=arguments, daemon=True)
        self._process.start()
        end.close()

    def send(self, rows: Sequence[ScoredRow], scoring: Scoring) -> None:
        self.tell("score", [row.to_plain() for row in rows], scoring)

    def scores(self, anchor: torch.Tensor) -> list[Scores]:
        """Return what was asked for; a backward pass over it asks the worker for its gradient."""
        parts: list[tuple[list[float], list[float], list[bool]]] = self.hear()
        log_probs = _Remote.apply(anchor, torch.tensor([value for part in parts for value in part[0]]), self)
        split = log_probs.split([len(part[0]) for part in parts])
        return [
            Scores(own, torch.tensor(entropy), torch.tensor(top, dtype=torch.bool))
            for own, (_, entropy, top) in zip(split, parts, strict=True)
        ]

    def gradient(self) -> torch.Tensor:
        self.hear()
        return self._gradient

    def close(self) -> None:
        self._pipe.close()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    def tell(self, *message: object) -> None:
        try:
            self._pipe.send(message)
        except OSError as error:
            raise EnvironmentFault(_LOST) from error

    def hear(self) -> Any:
        """Return the worker's answer; raises what it raised."""
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise EnvironmentFault(_LOST) from error
        if isinstance(answer, Exception):
            raise answer
        return answer


class _Remote(torch.autograd.Function):  # type: ignore[misc]
    """Ties a worker's scores to the trainer's graph."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, log_probs: torch.Tensor, worker: _Worker) -> torch.Tensor:
        ctx.worker = worker
        return log_probs.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, None, None]:
        ctx.worker.tell("gradient", gradient.tolist())
        return None, None, None


def _shared(flat: torch.Tensor) -> torch.Tensor:
    """Move a tensor to memory that processes share."""
    try:
        return flat.share_memory_()
    except RuntimeError as error:
        raise EnvironmentFault(
            f"no shared memory for the workers ({flat.nbytes / 1e6:.0f} MB each): enlarge /dev/shm (in a container "
            "--shm-size), or use --threads 1"
        ) from error


def _spread(lengths: Sequence[int], count: int) -> list[list[int]]:
    """Return the places of the rows for each process, the longest first, each to the one with the least to do."""
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        least = loads.index(min(loads))
        shares[least].append(place)
        loads[least] += lengths[place]
    return [sorted(share) for share in shares]

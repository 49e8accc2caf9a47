"""What one process does for a model in training: score rows, give gradients, perform; and serve a trainer that asks.

Place in the flow: layer 6, below `workers`, which hands out the work. A worker's parameters in training lie in memory
that it shares with the trainer.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from paraagent.errors import EnvironmentFault
from paraagent.train.head import Scores, score
from paraagent.train.room import make_room
from paraagent.train.runs import quiet, release_memory

_TOGETHER = 8
"""Rows of one forward pass on a GPU."""
TRIM_EVERY = 20
"""Gradients after which a process gives unused memory back."""


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row without padding: its tokens, and which of them are scored; both (tokens,)."""

    ids: torch.Tensor
    chosen: torch.Tensor
    masks: NDArray[np.int32] | None = None
    """What could come at the chosen places, as bits (chosen, vocabulary / 32); None if everything could."""

    def to_plain(self) -> PlainRow:
        return self.ids.tolist(), self.chosen.tolist(), self.masks

    @classmethod
    def of(cls, plain: PlainRow) -> ScoredRow:
        return cls(torch.tensor(plain[0]), torch.tensor(plain[1]), plain[2])


PlainRow = tuple[list[int], list[bool], NDArray[np.int32] | None]
"""A row on its way to another process."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How rows are scored."""

    temperature: float = 1.0
    bf16: bool = False
    entropy: bool = True
    checkpointing: bool = False
    """Layers are computed again in any case, not only where memory asks for it."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What a process works with."""

    model: PreTrainedModel
    perform: Callable[[Any], Any] | None = None
    """Something else to do with the model."""


Build = Callable[[], Seat]
"""Makes a seat in another process, with the same parameters; must be picklable."""


def work(pipe: Connection, build: Build, shared: torch.Tensor, gradient: torch.Tensor, threads: int) -> None:
    """Answer the trainer until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer decides
    torch.set_num_threads(threads)
    with contextlib.suppress(EOFError, OSError):
        try:
            with quiet():
                duty = _Duty(build(), shared, gradient)
        except Exception as error:
            pipe.recv()
            pipe.send(_portable(error))
            return
        while True:
            what, *arguments = pipe.recv()
            try:
                answer = getattr(duty, what)(*arguments)
            except Exception as error:
                answer = _portable(error)
            pipe.send(answer)


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent, with where it happened."""
    error.add_note("in a training worker: " + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return EnvironmentFault(f"a training worker failed: {error!r}")
    return error


class _Duty:
    """What a worker answers, by the first word of the message."""

    def __init__(self, seat: Seat, shared: torch.Tensor, gradient: torch.Tensor) -> None:
        self._seat = seat
        self._parameters = trained(seat.model)
        for parameter, part in zip(self._parameters, parts(shared, self._parameters), strict=True):
            parameter.data = part
        self._places = list(parts(gradient, self._parameters))
        self._log_probs = torch.zeros(0)
        self._done = 0

    def score(self, rows: Sequence[PlainRow], scoring: Scoring) -> list[tuple[list[float], ...]]:
        scores = score_rows(self._seat.model, [ScoredRow.of(row) for row in rows], scoring)
        self._log_probs = torch.cat([one.log_probs.float() for one in scores])
        return [(one.log_probs.tolist(), one.entropy.tolist(), one.top.tolist()) for one in scores]

    def gradient(self, weights: list[float]) -> None:
        log_probs, self._log_probs = self._log_probs, torch.zeros(0)
        found = torch.autograd.grad(log_probs, self._parameters, torch.tensor(weights), allow_unused=True)
        for place, part in zip(self._places, found, strict=True):
            place.zero_() if part is None else place.copy_(part)
        self._done += 1
        if not self._done % TRIM_EVERY:
            release_memory()

    def perform(self, share: Any) -> Any:
        assert self._seat.perform is not None
        return self._seat.perform(share)


def score_rows(model: PreTrainedModel, rows: Sequence[ScoredRow], scoring: Scoring) -> list[Scores]:
    """Score rows with the model: on a CPU one by one, on a GPU several at once, with padding."""
    together = 1 if model.device.type == "cpu" else _TOGETHER
    if together == 1 and torch.is_grad_enabled() and not scoring.checkpointing:
        make_room(model, [len(row.ids) for row in rows], 2 if scoring.bf16 else 4)
    found: list[Scores] = []
    with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=scoring.bf16):
        for start in range(0, len(rows), together):
            found += score_padded(model, rows[start : start + together], scoring)
    return found


def score_padded(model: PreTrainedModel, rows: Sequence[ScoredRow], scoring: Scoring) -> list[Scores]:
    """Score rows in one forward pass."""
    ids = pad_sequence([row.ids for row in rows], batch_first=True)
    chosen = pad_sequence([row.chosen for row in rows], batch_first=True)
    real = pad_sequence([torch.ones_like(row.ids) for row in rows], batch_first=True)
    masks = [row.masks for row in rows if row.masks is not None]
    scores = score(
        model,
        ids.to(model.device),
        real.to(model.device) if len(rows) > 1 else None,
        chosen.to(model.device),
        scoring.temperature,
        masks=np.concatenate(masks) if masks else None,
        entropy=scoring.entropy,
    )
    sizes = [int(row.chosen.sum()) for row in rows]
    split = (part.split(sizes) for part in (scores.log_probs, scores.entropy, scores.top))
    return [Scores(*parts) for parts in zip(*split, strict=True)]


def trained(model: PreTrainedModel) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def parts(flat: torch.Tensor, parameters: Sequence[torch.nn.Parameter]) -> Iterator[torch.Tensor]:
    """Yield the pieces of a flat tensor that belong to the parameters, in their shapes."""
    pieces = flat.split([parameter.numel() for parameter in parameters])
    return (piece.view_as(parameter) for piece, parameter in zip(pieces, parameters, strict=True))

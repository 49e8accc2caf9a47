"""Continuous batching: the turns of many concurrent episodes are written together, one token each per step.

Place in the flow: layer 3, optional; `policies.model` sends it requests, training rolls out through the same object.
A `Stream` is one episode's token sequence. Its keys and values stay in a slot between turns, so a turn costs only its
new tokens: prompt parts are read in the same forward passes in which other streams write.
Results do not depend on who shares a batch, up to rounding. Everything runs in one event loop, so a run with virtual
tools is repeatable.
Limits: one model, one device, one process.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from paraagent.agent.engine.cache import Row, SlotCache, Step, check_supported, ragged_attention
from paraagent.agent.engine.guide import Guide, Guides, masks_of
from paraagent.agent.engine.sampling import Sampling, choose, narrow
from paraagent.agent.engine.streams import Request, Seats, Stream, Written

_PATIENCE = 200
"""Rounds of the event loop that a step waits for episodes between two turns to come back."""
_STOP_TAIL = 24
"""Tokens at the end of a turn in which a stop text is looked for."""


@dataclass(slots=True)
class EngineStats:
    """Counts since the engine was made."""

    steps: int = 0
    read: int = 0
    """Prompt tokens that were computed."""
    written: int = 0
    seconds: float = 0.0
    """In forward passes."""


class Engine:
    """Writes turns for many streams at once.

    Args:
        model: a causal language model, also one that is being trained or wraps adapters; its weights are read at
            every step, so what was trained is what is sampled.
        stop_ids: tokens that end a turn.
        slots: how many streams are held in memory and written at once.
        read_tokens: how many prompt tokens one step reads at most.
        max_length: tokens of one stream at most; a turn that would exceed it is cut short.

    Raises:
        UsageError: the model's architecture is not supported.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: Sequence[int],
        *,
        slots: int = 32,
        read_tokens: int = 1024,
        max_length: int = 4096,
    ) -> None:
        self.model = model
        self.stats = EngineStats()
        self.max_length = max_length
        self._base = model.get_base_model() if hasattr(model, "get_base_model") else model
        check_supported(self._base)
        self._tokenizer = tokenizer
        self._stop_ids = frozenset(stop_ids)
        self._read_tokens = read_tokens
        self._device = self._base.device
        self._cache = SlotCache(slots, one_by_one=self._device.type == "cpu")
        self.seats = Seats(self._cache)
        self._waiting: deque[Request] = deque()
        self._active: list[Request] = []
        self._between = 0
        """Episodes that got a turn and have neither come back nor ended."""
        self._runner: asyncio.Task[None] | None = None
        self._guides: Guides | None = None

    async def write(self, stream: Stream, sampling: Sampling, random: Random) -> Written:
        """Write one turn at the end of the stream, whose new prompt tokens the caller has appended.

        The turn's tokens are appended to the stream. Without room for a single one the turn is empty.
        """
        if len(stream.tokens) >= self.max_length:
            return Written((), (), ended=False)
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        request = Request(stream, sampling, random, done, self._guide(sampling))
        self._waiting.append(request)
        self._between = max(0, self._between - 1)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.get_running_loop().create_task(self._run())
        try:
            return await done
        except asyncio.CancelledError:
            self._drop(request)
            raise

    def close(self, stream: Stream) -> None:
        """Say that a stream will not be continued: its slot is free for another one."""
        self._between = max(0, self._between - 1)
        self.seats.evict(stream)

    def reset(self) -> None:
        """Forget everything cached, as after the weights changed, and give the memory back."""
        self.seats.clear()

    def _guide(self, sampling: Sampling) -> Guide | None:
        if not sampling.grammar:
            return None
        if self._guides is None:
            vocabulary = self._base.get_output_embeddings().weight.shape[0]
            self._guides = Guides(self._tokenizer, sorted(self._stop_ids), vocabulary)
        return self._guides.begin(sampling)

    async def _run(self) -> None:
        """Step until nothing is left to do; a failure is passed to everybody who waits."""
        try:
            while self._waiting or self._active:
                self._admit()
                if self._step():
                    await self._settle()
                else:
                    await asyncio.sleep(0)  # a cancel, a key press or an answer from elsewhere is not kept waiting
        except BaseException as error:
            for request in [*self._active, *self._waiting]:
                if not request.done.done():
                    request.done.set_exception(error)
            self._active.clear()
            self._waiting.clear()
            self.reset()
            if not isinstance(error, Exception):
                raise

    async def _settle(self) -> None:
        """Let episodes that got their turn come back with the next one or end, as far as that takes no real time."""
        for _ in range(_PATIENCE):
            await asyncio.sleep(0)
            if not self._between:
                return
        self._between = 0  # they wait for something real; the others go on

    def _admit(self) -> None:
        """Let requests take part: first those that hold a slot, so that none waits behind one that needs theirs."""
        for request in [one for one in self._waiting if one.stream.slot is not None]:
            self._waiting.remove(request)
            self._active.append(request)
        while self._waiting and self.seats.seat(self._waiting[0], self._active, self._waiting, self.stats.steps):
            self._active.append(self._waiting.popleft())

    def _drop(self, request: Request) -> None:
        """Take a cancelled request out."""
        for queue in (self._waiting, self._active):
            if request in queue:
                queue.remove(request)
        self.seats.evict(request.stream)

    def _step(self) -> bool:
        """Compute one forward pass; True if a turn ended with it."""
        rows, ready = self._rows()
        if not rows:
            return True
        began = time.perf_counter()
        logits = self._forward(rows, [place for place, _ in ready])
        self.stats.seconds += time.perf_counter() - began
        for request, row in rows:
            prompt = len(request.stream.tokens) - len(request.written)
            request.stream.cached += row.tokens
            request.stream.last_used = self.stats.steps
            self.stats.read += max(0, min(request.stream.cached, prompt) - row.start)
        requests = [request for _, request in ready]
        if not requests:
            return False
        masks = masks_of([request.guide for request in requests], logits.shape[1])
        logits = narrow(logits, masks)
        tokens, logprobs = choose(logits, [r.sampling for r in requests], [r.random for r in requests])
        if masks is not None:
            for request, mask in zip(requests, masks, strict=True):
                if request.guide is not None:
                    request.keep(mask)
        ended = [self._take(*one) for one in zip(requests, tokens, logprobs, strict=True)]
        return any(ended)

    def _rows(self) -> tuple[list[tuple[Request, Row]], list[tuple[int, Request]]]:
        """Return the rows of the next step, and the places of those that will have read all they were given."""
        left = self._read_tokens
        rows: list[tuple[Request, Row]] = []
        ready: list[tuple[int, Request]] = []
        for request in self._active:
            stream = request.stream
            if not self.seats.ready(request):
                continue
            new = len(stream.tokens) - stream.cached
            taken = min(new, left) if new > 1 else new
            if not taken:
                continue
            if new > 1:
                left -= taken
            assert stream.slot is not None
            if taken == new:
                ready.append((len(rows), request))
            rows.append((request, Row(stream.slot, stream.cached, taken)))
        return rows, ready

    def _forward(self, rows: Sequence[tuple[Request, Row]], ready: Sequence[int]) -> torch.Tensor:
        """Return the logits after the last token of the ready rows, (ready, vocabulary)."""
        new = [token for request, row in rows for token in request.stream.tokens[row.start : row.start + row.tokens]]
        with torch.inference_mode(), ragged_attention(self._base):
            step = Step(self._cache, [row for _, row in rows], self._device)
            out = self.model(
                input_ids=torch.tensor([new], device=self._device),
                position_ids=step.position_of[None],
                use_cache=False,
                logits_to_keep=step.last[list(ready)],
                ragged=step,
            )
        self.stats.steps += 1
        logits: torch.Tensor = out.logits[0]
        return logits

    def _take(self, request: Request, token: int, logprob: float) -> bool:
        """Append a sampled token and what can only follow it; True if that ends the turn."""
        forced = request.guide.take(token) if request.guide else []
        room = min(request.sampling.max_tokens - len(request.written), self.max_length - len(request.stream.tokens))
        new = [token, *forced][:room]
        request.written += new
        request.logprobs += [logprob, *[0.0] * len(new[1:])]
        if request.guide is not None:
            request.masks += [None] * len(new[1:])
        request.stream.tokens += new
        self.stats.written += len(new)
        ended = new[-1] in self._stop_ids or self._stopped(request)
        cut = len(request.written) >= request.sampling.max_tokens or len(request.stream.tokens) >= self.max_length
        if not ended and not cut:
            return False
        self._active.remove(request)
        self._between += 1
        if not request.done.done():
            written = (tuple(request.written), tuple(request.logprobs), ended, tuple(request.masks))
            request.done.set_result(Written(*written))
        return True

    def _stopped(self, request: Request) -> bool:
        if not request.sampling.stop:
            return False
        tail = self._tokenizer.decode(request.written[-_STOP_TAIL:])
        return any(text in tail for text in request.sampling.stop)

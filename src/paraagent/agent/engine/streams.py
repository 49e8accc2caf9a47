"""What the engine works on: token streams, requests to write at their end, and the slots that hold them.

Place in the flow: layer 3, optional; part of `engine`. `Seats` decides which stream is in which slot of the cache: a
stream that is closed makes room at once; one that waits keeps its slot, unless others wait for room and it has been
idle for long. A beginning that another stream has read too, as a system prompt, is copied from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from paraagent.agent.engine.cache import SlotCache
from paraagent.agent.engine.guide import Guide
from paraagent.agent.engine.sampling import Sampling

_IDLE_STEPS = 64
"""Steps after which a waiting stream may lose its slot to one that has none."""
_SHARED = 16
"""Tokens from which on a common beginning is worth a copy."""


@dataclass(frozen=True, slots=True)
class Written:
    """One turn as it was sampled."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Of every token, at the temperature it was sampled with."""
    ended: bool
    """Whether it ended by itself and not at a limit."""
    masks: tuple[NDArray[np.int32] | None, ...] = field(default=(), compare=False)
    """Of every token of a guided turn: what could have come in its place, as bits (vocabulary / 32); None where
    nothing else could. Empty if the turn was not guided."""


@dataclass(slots=True, eq=False)
class Stream:
    """One episode's tokens: what was read and written so far."""

    tokens: list[int] = field(default_factory=list)
    cached: int = 0
    """How many of them have their keys and values in the slot."""
    slot: int | None = None
    last_used: int = 0
    """Step in which it last took part."""


class Writer(Protocol):
    """Writes turns at the ends of streams: the engine here, or one elsewhere."""

    async def write(self, stream: Stream, sampling: Sampling, random: Random) -> Written:
        """Write one turn and append its tokens to the stream."""
        ...

    def close(self, stream: Stream) -> None:
        """Take note that a stream will not be continued."""
        ...


@dataclass(slots=True, eq=False)
class Request:
    """One turn to be written."""

    stream: Stream
    sampling: Sampling
    random: Random
    done: asyncio.Future[Written]
    guide: Guide | None = None
    donor: Stream | None = None
    """Reads the same beginning, which is copied once it has."""
    shared: int = 0
    """Length of that beginning."""
    written: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    masks: list[NDArray[np.int32] | None] = field(default_factory=list)

    def keep(self, mask: NDArray[np.int32]) -> None:
        """Note what may come next; a mask that stays the same, as within a text, is kept once."""
        last = next((one for one in reversed(self.masks) if one is not None), None)
        self.masks.append(last if last is not None and np.array_equal(last, mask) else mask.copy())


class Seats:
    """Who is in which slot."""

    def __init__(self, cache: SlotCache) -> None:
        self.cache = cache
        self.held: list[Stream] = []
        self.free = list(range(cache.slots))
        self.evicted = 0
        """Streams that lost their slot to another one."""
        self.copied = 0
        """Tokens that another stream had computed."""

    def seat(self, request: Request, active: Iterable[Request], waiting: Iterable[Request], step: int) -> bool:
        """Give a request's stream a slot, if there is one or somebody's can be taken."""
        stream = request.stream
        if stream.slot is None:
            reading = {id(other.stream) for other in active}
            if not self.free:
                busy = reading | {id(other.stream) for other in waiting}
                idle = [other for other in self.held if id(other) not in busy]
                longest = min(idle, key=lambda other: other.last_used, default=None)
                if longest is None or (reading and step - longest.last_used < _IDLE_STEPS):
                    return False
                self.evict(longest)
                self.evicted += 1
            stream.slot, stream.cached = self.free.pop(), 0
            self.held.append(stream)
            self._find_donor(request, reading)
        return True

    def evict(self, stream: Stream) -> None:
        """Take a stream's slot."""
        if stream.slot is not None:
            self.free.append(stream.slot)
            self.held.remove(stream)
            stream.slot, stream.cached = None, 0

    def clear(self) -> None:
        """Take all slots and give the memory back."""
        for stream in [*self.held]:
            self.evict(stream)
        self.cache.clear()

    def ready(self, request: Request) -> bool:
        """Copy the common beginning if the donor has read it by now; False while it has not."""
        donor, stream = request.donor, request.stream
        if donor is None:
            return True
        if _common(donor.tokens, stream.tokens) < request.shared:  # the donor has written its turn anew
            request.donor = None
            return True
        if donor.slot is not None and donor.cached < request.shared:
            return False
        request.donor = None
        if donor.slot is not None and stream.slot is not None:
            self.cache.copy(donor.slot, stream.slot, request.shared)
            stream.cached = request.shared
            self.copied += request.shared
        return True

    def _find_donor(self, request: Request, reading: set[int]) -> None:
        """Look for the stream with the longest beginning in common that is being read or has been."""
        tokens = request.stream.tokens
        for other in self.held:
            if other is request.stream:
                continue
            known = other.tokens if id(other) in reading else other.tokens[: other.cached]
            shared = min(_common(tokens, known), len(tokens) - 1)
            if shared >= max(_SHARED, request.shared + 1):
                request.donor, request.shared = other, shared


def _common(one: list[int], other: list[int]) -> int:
    """Return how many first tokens two sequences share."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))

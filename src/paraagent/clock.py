"""Time behind one interface: the wall clock, and a virtual clock that jumps when nothing is running.

Place in the flow: layer 0; the scheduler, the simulated tools and the tests take a `Clock` and never call `time` or
`asyncio.sleep`. Work whose waiting should count runs under `spawn`; the virtual clock counts how many spawned tasks
are busy and, when all of them sleep, jumps to the earliest wake-up. A spawned task that waits for anything else (a
socket, a model) counts as busy, so virtual time never runs ahead of real work. Inspired by trio's MockClock.
Limits: one virtual clock belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Seconds since the clock was made, and ways to wait in them."""

    def now(self) -> float:
        """Return seconds since this clock was made."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long on this clock; only inside a spawned task."""
        ...

    def spawn(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        """Run a coroutine as a task whose waiting this clock knows about."""
        ...

    async def timeout(self, seconds: float | None, work: Coroutine[None, None, T]) -> T:
        """Await work inside a spawned task and raise TimeoutError once it has taken that long; work is cancelled."""
        ...

    def advance(self, seconds: float) -> None:
        """Charge time that passed elsewhere; the wall clock ignores it, since it sees such time by itself."""
        ...

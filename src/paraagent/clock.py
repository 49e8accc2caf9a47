"""Time behind one interface: the wall clock, and a virtual clock that jumps when nothing is running.

Place in the flow: layer 0; the scheduler, the simulated tools and the tests take a `Clock` and never call `time` or
`asyncio.sleep`. Work whose waiting should count runs under `spawn`. The virtual clock counts how many spawned tasks
are busy and, when none is, jumps to the earliest timer; timers of one instant fire in the order they were set. A
spawned task is busy unless it is inside `sleep` or `wait`: one that waits for a socket or a model is busy, so virtual
time never runs ahead of real work. Inspired by trio's MockClock.
Limits: one virtual clock belongs to one event loop (a loop serves many clocks). A spawned task that awaits other work
on the same clock must do so through `wait`; a plain `await` counts as busy and so holds the time still for ever.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Coroutine
from typing import Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_COMPACT_AT = 256
"""Cancelled timers that may lie in a heap before it is looked over."""


class Timer(Protocol):
    """A callback that will run later."""

    def cancel(self) -> None:
        """Make sure it will not run; harmless afterwards."""
        ...


class Clock(Protocol):
    """Seconds since the clock was made, and ways to wait in them."""

    def now(self) -> float:
        """Return seconds since this clock was made."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long on this clock; only inside a spawned task. Zero or less lets other tasks run once."""
        ...

    def spawn(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        """Run a coroutine as a task whose waiting this clock knows about."""
        ...

    async def wait(self, work: asyncio.Future[T]) -> T:
        """Await a spawned task, or a future that tasks or timers of this clock will complete."""
        ...

    async def timeout(self, seconds: float | None, work: Coroutine[None, None, T]) -> T:
        """Await work inside a spawned task and raise TimeoutError once it has taken that long; work is cancelled."""
        ...

    def call_later(self, seconds: float, callback: Callable[[*Ts], object], *args: *Ts) -> Timer:
        """Run a plain function after that long; it must be quick and must not raise."""
        ...

    def advance(self, seconds: float) -> None:
        """Charge time that passed elsewhere; the wall clock ignores it, since it sees such time by itself."""
        ...


class WallClock:
    """Real time; `elapsed` is where it starts, for an episode that goes on."""

    def __init__(self, elapsed: float = 0.0) -> None:
        self._start = time.monotonic() - elapsed

    def now(self) -> float:
        return time.monotonic() - self._start

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def spawn(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        return asyncio.get_running_loop().create_task(work)

    async def wait(self, work: asyncio.Future[T]) -> T:
        return await work

    async def timeout(self, seconds: float | None, work: Coroutine[None, None, T]) -> T:
        return await _timeout(self, seconds, work)

    def call_later(self, seconds: float, callback: Callable[[*Ts], object], *args: *Ts) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)

    def advance(self, seconds: float) -> None:
        pass


class VirtualClock:
    """Time that stands still while anything is busy and else jumps to the next timer. One per episode."""

    def __init__(self) -> None:
        self._now = 0.0
        self._tasks: set[asyncio.Task[object]] = set()
        self._busy = 0  # spawned tasks that are neither in sleep nor in wait
        self._idle = 0  # tasks in sleep or wait; with none, nobody would notice a jump
        self._heap: list[tuple[float, int, _VirtualTimer]] = []
        self._sequence = 0
        self._cancelled = 0
        self._armed = False
        self._rearm = False

    def now(self) -> float:
        return self._now

    def spawn(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self._busy += 1
        task.add_done_callback(self._ended)
        return task

    async def sleep(self, seconds: float) -> None:
        """Wait that long on this clock.

        Raises:
            RuntimeError: called outside a task started with `spawn`.
        """
        if asyncio.current_task() not in self._tasks:
            raise RuntimeError("VirtualClock.sleep outside a spawned task: start the task with clock.spawn(...)")
        if not seconds > 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, self._wake, future)
        self._busy -= 1
        self._idle += 1
        if not self._busy:
            self._arm()
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():  # else the timer was first and has counted this task as busy
                timer.cancel()
                self._idle -= 1
                self._busy += 1
            raise

    def _wake(self, future: asyncio.Future[None]) -> None:
        # Counted here and not on resumption: no jump may happen in between.
        if not future.done():
            future.set_result(None)
            self._idle -= 1
            self._busy += 1

    async def wait(self, work: asyncio.Future[T]) -> T:
        counted = asyncio.current_task() in self._tasks
        self._busy -= counted
        self._idle += 1
        if not self._busy:
            self._arm()
        try:
            return await work
        finally:
            self._idle -= 1
            self._busy += counted

    async def timeout(self, seconds: float | None, work: Coroutine[None, None, T]) -> T:
        return await _timeout(self, seconds, work)

    def call_later(self, seconds: float, callback: Callable[[*Ts], object], *args: *Ts) -> _VirtualTimer:
        timer = _VirtualTimer(self, callback, args)
        self._sequence += 1
        heapq.heappush(self._heap, (self._now + (seconds if seconds > 0 else 0.0), self._sequence, timer))
        if not self._busy:
            self._arm()
        return timer

    def advance(self, seconds: float) -> None:
        self._now += max(seconds, 0.0)
        self._fire()

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        self._busy -= 1
        if not self._busy:
            self._arm()

    def _arm(self) -> None:
        """Look for a jump once everything that is ready now has run."""
        if self._armed:
            self._rearm = True
        else:
            self._armed = True
            asyncio.get_running_loop().call_soon(self._jump)

    def _jump(self) -> None:
        self._armed = False
        if self._rearm:  # a task went idle after this was arranged, and what it set off has yet to run
            self._rearm = False
            self._arm()
            return
        self._drop_cancelled()
        if self._busy or not self._idle or not self._heap or self._heap[0][0] == math.inf:
            return
        self._now = self._heap[0][0]
        try:
            self._fire()
        finally:
            if not self._busy:
                self._arm()

    def _fire(self) -> None:
        """Run every timer that is due, also those that become due by running one."""
        heap, now = self._heap, self._now
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            callback, args = timer.callback, timer.args
            if callback is None:
                self._cancelled -= 1
                continue
            timer.callback = None
            callback(*args)

    def _drop_cancelled(self) -> None:
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
            self._cancelled -= 1

    def _forget(self) -> None:
        """Count a cancelled timer; clear the heap of them when they are many."""
        self._cancelled += 1
        if self._cancelled > _COMPACT_AT and 2 * self._cancelled > len(self._heap):
            self._heap[:] = [
                entry for entry in self._heap if entry[2].callback is not None
            ]  # in place: _fire holds it
            heapq.heapify(self._heap)
            self._cancelled = 0


class _VirtualTimer:
    """One entry of a virtual clock's heap; without a callback it is spent or cancelled."""

    __slots__ = ("args", "callback", "clock")

    def __init__(self, clock: VirtualClock, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        self.clock = clock
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.args = ()
            self.clock._forget()


async def _timeout(clock: Clock, seconds: float | None, work: Coroutine[None, None, T]) -> T:
    """Like `asyncio.timeout`, but on any clock."""
    task = asyncio.current_task()
    if seconds is None or task is None:
        return await work
    expired = False
    pending = task.cancelling()

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    timer = clock.call_later(seconds, expire)
    try:
        return await work
    except asyncio.CancelledError:
        if expired and task.uncancel() <= pending:
            raise TimeoutError(f"took longer than {seconds:g} s") from None
        raise
    finally:
        timer.cancel()

"""How hard a group may press: time per call, repeats, calls in flight per server, and pauses a server asks for.

Place in the flow: layer 3, used by `schedule`. `Limits` is plain configuration. `Servers` is the one object with
state: pass the same one to all groups on a clock, so that what a server asked for outlives the turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from paraagent.clock import Clock, Timer
from paraagent.errors import ERROR_TRAITS, UsageError
from paraagent.types import Effects, ToolError

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for the calls of a group; times in seconds."""

    timeout: float | None = 60.0
    """How long one attempt of a call may take; None for ever."""
    per_server: int | None = 8
    """Calls in flight per server; None for no limit."""
    attempts: int = 3
    """How often a call is invoked at most."""
    backoff: float = 0.5
    """Wait before the first repeat; it doubles with each further one."""
    longest_wait: float = 60.0
    """A server that asks for a longer wait is not waited for: the agent is told instead."""

    def __post_init__(self) -> None:
        positive = (self.timeout is None or self.timeout > 0) and (self.per_server is None or self.per_server > 0)
        if not (positive and self.attempts > 0 and self.backoff >= 0 and self.longest_wait >= 0):
            raise UsageError(f"limits must be positive: {self}")

    def repeat_after(self, error: ToolError, effects: Effects, attempts: int) -> float | None:
        """Return how long to wait before a failed call is invoked again, or None if it must not be.

        A repeat must be able to help and be safe: the call only reads, or the server says that it did not run it.
        """
        safe = effects.read_only or error.kind == "rate_limited"
        if not (safe and ERROR_TRAITS[error.kind].retry_helps) or error.kind == "cancelled":
            return None
        if attempts >= self.attempts:
            return None
        wait = max(self.backoff * 2.0 ** (attempts - 1), asked_wait(error))
        return wait if wait <= self.longest_wait else None


def asked_wait(error: ToolError) -> float:
    """Return the seconds that the server asked to wait; 0 if it did not, or asked for nonsense."""
    seconds = error.retry_after
    return seconds if seconds is not None and seconds > 0 else 0.0


class Servers(Generic[R]):
    """Admits calls to servers, first come first served, within the limit and outside pauses."""

    def __init__(self, clock: Clock, per_server: int | None) -> None:
        self._clock = clock
        self._limit = per_server
        self._servers: dict[str, _Server[R]] = {}

    def admit(self, name: str, start: Callable[[R], bool], call: R) -> None:
        """Run `start(call)` now or once there is room; it says whether the call was really started.

        A started call holds its place until `release`.
        """
        server = self._servers.get(name)
        if server is None:
            server = self._servers[name] = _Server()
        server.queue.append((start, call))
        self._pump(server)

    def release(self, name: str) -> None:
        """Give a place back; the next call that waits starts at once."""
        server = self._servers[name]
        server.in_flight -= 1
        if server.queue:
            self._pump(server)

    def pause(self, name: str, seconds: float) -> None:
        """Start nothing on this server for that long; other servers go on."""
        server = self._servers[name]
        server.resumes = max(server.resumes or 0.0, self._clock.now() + seconds)

    def _pump(self, server: _Server[R]) -> None:
        while server.queue and (self._limit is None or server.in_flight < self._limit):
            if server.resumes is not None and not self._resumed(server, server.resumes):
                return
            start, call = server.queue.popleft()
            server.in_flight += 1
            if not start(call):
                server.in_flight -= 1

    def _resumed(self, server: _Server[R], resumes: float) -> bool:
        left = resumes - self._clock.now()
        if left > 0 and server.timer is None:
            server.timer = self._clock.call_later(left, self._resume, server, resumes)
        return left <= 0

    def _resume(self, server: _Server[R], resumes: float) -> None:
        server.timer = None
        if server.resumes == resumes:  # else the pause was prolonged meanwhile
            server.resumes = None
        self._pump(server)


class _Server(Generic[R]):
    __slots__ = ("in_flight", "queue", "resumes", "timer")

    def __init__(self) -> None:
        self.in_flight = 0
        self.queue: deque[tuple[Callable[[R], bool], R]] = deque()
        self.resumes: float | None = None
        self.timer: Timer | None = None

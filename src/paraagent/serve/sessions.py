"""The sessions of a server, by the id that its transport gives each.

Place in the flow: layer 7, between `mcp` and `session`. A transport does not say when a session has ended, so one
that has had no request for a while is forgotten, by the same rule by which the transport itself ends it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paraagent.serve.session import Session

IDLE = 30 * 60.0
"""Seconds without a request after which a session ends."""
MOST = 100
"""Sessions at once."""


class Sessions:
    """Makes a session when it is first asked for.

    Args:
        now: a clock in seconds.
    """

    def __init__(self, new: Callable[[], Session], now: Callable[[], float] = time.monotonic) -> None:
        self._new = new
        self._now = now
        self._sessions: dict[str, Session] = {}
        self._used: dict[str, float] = {}
        self._requests: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def of(self, key: str) -> Session:
        """Return the session of an id."""
        if key not in self._sessions:
            self._forget_idle()
            self._sessions[key] = self._new()
        self._used[key] = self._now()
        return self._sessions[key]

    @contextmanager
    def request(self, key: str) -> Iterator[None]:
        """Keep a session while a request of it is served."""
        self._requests[key] += 1
        try:
            yield
        finally:
            self._requests[key] -= 1
            if not self._requests[key]:
                del self._requests[key]
            if key in self._used:
                self._used[key] = self._now()

    def forget(self, key: str) -> None:
        """End a session; it may be unknown."""
        self._sessions.pop(key, None)
        self._used.pop(key, None)

    def _forget_idle(self) -> None:
        limit = self._now() - IDLE
        for key in [key for key, used in self._used.items() if used < limit and key not in self._requests]:
            self.forget(key)

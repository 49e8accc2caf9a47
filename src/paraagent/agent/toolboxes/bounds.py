"""How long a real tool may take and how much it may say.

Place in the flow: layer 3. Toolboxes for real tools keep their own time, since only they see a tool's progress: run
them under a scheduler whose `Limits.timeout` is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from paraagent.errors import UsageError


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds for the calls of one source."""

    timeout: float = 60.0
    """Seconds without an answer or a sign of progress after which a call is given up."""
    ceiling: float = 600.0
    """Seconds after which a call is given up whatever progress it reports."""
    start: float = 30.0
    """Seconds that a server has to start and to list its tools."""
    size: int = 5_000_000
    """Bytes of one answer; a longer one is cut off and becomes an error."""

    def __post_init__(self) -> None:
        if min(self.timeout, self.ceiling, self.start, self.size) <= 0:
            raise UsageError(f"time-outs and sizes must be positive: {self}")

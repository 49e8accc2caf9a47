"""Every error of the package, and for tool errors: whose fault, can a retry help, what the model is shown.

    ParaAgentError                   base; a message that says what to do
    |- UsageError                    the caller asked for something that cannot be (exit code 2)
    |- EnvironmentFault              a missing file, dead endpoint, wrong hash, full disk (exit code 3)
    |  |- CatalogError               no catalog, or one that cannot be read or built
    |  |- TraceError                 a trace that cannot be read; says the file and line
    |  `- ModelError                 the model endpoint failed; `retryable` says whether later may work
    `- ToolFailure                   one call failed; becomes a `ToolError` in its result, never ends a run

A tool failure is data: the scheduler turns it into the call's result and its siblings go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

ErrorKind = Literal[
    "invalid_args",
    "tool_not_found",
    "not_found",
    "conflict",
    "permission",
    "rate_limited",
    "unavailable",
    "timeout",
    "cancelled",
    "outcome_unknown",
    "tool_error",
]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)

Fault = Literal["agent", "tool", "world", "runtime"]


@dataclass(frozen=True, slots=True)
class ErrorTraits:
    """What a kind of tool error means."""

    fault: Fault
    """Who can mend it: the agent (other arguments), the tool's server, the state of the world, or the runtime."""
    retry_helps: bool
    """Whether the same call may succeed later; a retry still needs the call to be safe to repeat."""
    advice: str
    """One sentence shown to the model after the message."""


ERROR_TRAITS: dict[ErrorKind, ErrorTraits] = {
    "invalid_args": ErrorTraits("agent", False, "Correct the arguments and call again."),
    "tool_not_found": ErrorTraits("agent", False, "Search for a tool that exists and use its exact name."),
    "not_found": ErrorTraits("agent", False, "Check the identifier; look it up with another tool if needed."),
    "conflict": ErrorTraits("world", False, "Read the current state before you write again."),
    "permission": ErrorTraits("world", False, "Use another tool or tell the user that access is refused."),
    "rate_limited": ErrorTraits("tool", True, "Wait, then call again."),
    "unavailable": ErrorTraits("tool", True, "Call again later or use an equivalent tool."),
    "timeout": ErrorTraits("tool", True, "Call again or use an equivalent tool."),
    "cancelled": ErrorTraits("runtime", True, "The call did not run to its end."),
    "outcome_unknown": ErrorTraits("runtime", False, "Read the state first: the write may have happened."),
    "tool_error": ErrorTraits("tool", False, "Try other arguments or another tool."),
}


class ParaAgentError(Exception):
    """Base of all errors raised by this package; the message is fit for a user and says what to do."""


class UsageError(ParaAgentError):
    """The request itself cannot be met as given."""


class EnvironmentFault(ParaAgentError):
    """Something outside the program is missing or broken."""


class CatalogError(EnvironmentFault):
    """The tool catalog is missing, corrupt, or could not be built."""


class TraceError(EnvironmentFault):
    """A trace file cannot be read."""


class ModelError(EnvironmentFault):
    """The model endpoint failed.

    `retryable` tells a suite whether the episode should be masked and tried again later.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class ToolFailure(ParaAgentError):
    """Raised by a toolbox when a call fails; `kind` decides how the runtime treats it.

    `retry_after` is in seconds, when the server said how long to wait; `injected` marks a failure that a simulator
    made on purpose.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, retry_after: float | None = None, injected: bool = False
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.retry_after = retry_after
        self.injected = injected

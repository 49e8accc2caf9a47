"""What an HTTP status means for a tool call.

Place in the flow: layer 3, shared by `openapi` and the HTTP transport of `mcp`.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from paraagent.errors import ErrorKind, ToolFailure

_KINDS: dict[int, ErrorKind] = {
    400: "invalid_args",
    401: "permission",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    410: "not_found",
    412: "conflict",
    415: "invalid_args",
    422: "invalid_args",
    423: "conflict",
    425: "unavailable",
    429: "rate_limited",
}
_UNSURE = frozenset({502, 504})
"""Statuses of a gateway that lost sight of the server: a write may have happened."""


def status_failure(
    status: int, said: str = "", *, retry_after: str | None = None, writing: bool = False
) -> ToolFailure:
    """Return the failure for a status of 300 or above; `said` is what the server wrote, already cut to fit."""
    kind: ErrorKind = _KINDS.get(status, "unavailable" if status >= 500 else "tool_error")
    message = f"HTTP {status} {_phrase(status)}".rstrip()
    if writing and status in _UNSURE:
        kind, message = "outcome_unknown", f"{message}; the write may have happened"
    wait = seconds_to_wait(retry_after) if kind in ("rate_limited", "unavailable") else None
    return ToolFailure(kind, f"{message}: {said}" if said else message, retry_after=wait)


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Read a `Retry-After` header, which holds seconds or a date; None if it says nothing sensible."""
    if not retry_after:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""

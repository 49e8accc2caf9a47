"""What an error of an MCP request means for a tool call.

Place in the flow: layer 3, between the MCP transports, which report more than JSON-RPC has codes for, and `toolbox`.
"""

from __future__ import annotations

from typing import cast

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, PARSE_ERROR, REQUEST_TIMEOUT

from paraagent.agent.toolboxes.http_status import status_failure
from paraagent.errors import ToolFailure
from paraagent.types import JsonValue

# JSON-RPC leaves these codes to the implementation.
NOT_SENT = -32095
"""The request did not reach the server."""
LOST = -32096
"""The request was sent, then the connection broke."""
HTTP_STATUS = -32097
"""The server answered with an HTTP error; `data` holds `status` and `retryAfter`."""
TOO_LONG = -32098
"""The answer was cut off."""

_SHOWN = 500
_GONE = (404, 405, 410)
_EVENT_FAILED = "SSE stream failed"
"""How the SDK begins the message about an event that was too long."""


def call_failure(error: MCPError, *, writing: bool) -> ToolFailure:
    """Return the failure of a call; `writing` says whether the call may have changed something."""
    said = one_line(error.message)
    if error.code in (TOO_LONG, PARSE_ERROR) or said.startswith(_EVENT_FAILED):
        return ToolFailure("tool_error", f"{said}; the call itself may have done its work" if writing else said)
    if error.code == NOT_SENT:
        return ToolFailure("unavailable", said)
    if error.code in (LOST, CONNECTION_CLOSED):
        if writing:
            return ToolFailure("outcome_unknown", f"{said}; the write may have happened")
        return ToolFailure("unavailable", said)
    if error.code == HTTP_STATUS:
        status, retry_after = http_status(error)
        if status in _GONE:
            return ToolFailure("unavailable", f"HTTP {status}: the server is no longer there: {said}")
        return status_failure(status, said, retry_after=retry_after, writing=writing)
    if error.code == REQUEST_TIMEOUT:
        return ToolFailure("timeout", said)
    return ToolFailure("invalid_args" if error.code == INVALID_PARAMS else "tool_error", said)


def http_status(error: MCPError) -> tuple[int, str | None]:
    """Return the HTTP status that an error reports and its `Retry-After`; 0 if it reports none."""
    data = cast(JsonValue, error.data)
    if error.code != HTTP_STATUS or not isinstance(data, dict):
        return 0, None
    status, wait = data.get("status"), data.get("retryAfter")
    return status if isinstance(status, int) else 0, wait if isinstance(wait, str) else None


def one_line(text: str, limit: int = _SHOWN) -> str:
    """Return a stranger's message on one line, cut to fit."""
    text = " ".join(text[: 4 * limit].split())
    return text if len(text) <= limit else text[: limit - 1] + "…"

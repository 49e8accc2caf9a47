"""What comes back from an OpenAPI call: a value, or why there is none.

Place in the flow: layer 3, pure functions under `toolbox`.
"""

from __future__ import annotations

import httpx2
import orjson

from paraagent.agent.toolboxes.openapi.client import Fetched
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, JsonValue, Tool

_SAID = 500
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_TEXT = ("xml", "yaml", "javascript", "csv")
_TELLING = ("message", "detail", "error_description", "error", "title", "errors")


def answer_value(fetched: Fetched, tool: Tool, arguments: JsonObject) -> JsonValue:
    """Return an answer as JSON, or as text; of other media only type and size.

    A missing answer becomes the acknowledgement that the tool's card promises, if it does.

    Raises:
        ToolFailure: the answer is not what it claims to be.
    """
    if not fetched.body:
        return _acknowledgement(tool, arguments) if tool.synthetic_returns else None
    kind = fetched.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind.endswith(("/json", "+json")):
        try:
            value: JsonValue = orjson.loads(fetched.body)
        except ValueError as problem:
            head = fetched.body[:80].decode("utf-8", "replace")
            message = f"the answer claims to be {kind} and is not ({problem}); it starts with {head!r}"
            raise ToolFailure("tool_error", message) from None
        return value
    if kind.startswith("text/") or kind.endswith(_TEXT):
        return httpx2.Response(200, headers={"content-type": _plain(fetched)}, content=fetched.body).text
    return {"media_type": kind, "bytes": len(fetched.body)}


def refusal_text(fetched: Fetched) -> str:
    """Return what an error answer says: its message, if it is JSON with one, else its beginning."""
    text = fetched.body[: 4 * _SAID].decode("utf-8", "replace")
    try:
        found: JsonValue = orjson.loads(fetched.body)
    except ValueError:
        found = None
    for _ in range(2):
        if isinstance(found, dict):
            found = next((found[key] for key in _TELLING if found.get(key)), None)
    if found is not None:
        text = found if isinstance(found, str) else orjson.dumps(found).decode()
    return " ".join(text.split())[:_SAID]


def network_failure(error: httpx2.HTTPError, host: str, *, writing: bool) -> ToolFailure:
    """Return the failure for a request that got no complete answer."""
    why = str(error) or type(error).__name__
    if isinstance(error, _UNSENT):
        return ToolFailure("unavailable", f"{host} cannot be reached ({why})")
    if isinstance(error, httpx2.LocalProtocolError):
        return ToolFailure("invalid_args", f"the arguments cannot be sent: {why}")
    message = f"the connection to {host} broke off ({why})"
    if writing:
        return ToolFailure("outcome_unknown", f"{message}; the write may have happened")
    return ToolFailure("timeout" if isinstance(error, httpx2.TimeoutException) else "unavailable", message)


def _acknowledgement(tool: Tool, arguments: JsonObject) -> JsonObject:
    promised = tool.returns.get("properties")
    names = promised if isinstance(promised, dict) else {}
    return {**{name: arguments[name] for name in names if name in arguments}, "status": "ok"}


def _plain(fetched: Fetched) -> str:
    return fetched.headers.get("content-type", "text/plain")

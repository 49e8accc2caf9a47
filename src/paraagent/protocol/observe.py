"""What the world answers, written for the model: one `<tools>` block per search, one `<tool_response>` per call.

Place in the flow: layer 2; the loop appends these to the prompt. All of it is untrusted text: tags of the protocol
are neutralised, so one answer is exactly one block. A long result is cut here and nowhere else, keeping head and
tail; the whole of it stays in the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from paraagent.errors import ERROR_TRAITS
from paraagent.protocol.card import card, schema_card
from paraagent.protocol.jsontext import write_json
from paraagent.protocol.neutralise import neutralise
from paraagent.types import Found, JsonObject, JsonValue, Result, ToolError

ToolStyle = Literal["card", "schema"]
RESULT_CAP = 8_000
"""Characters of one result that the model is shown."""
_MESSAGE_CAP = 1_000
_HEAD_SHARE = 0.7


def render_found(found: Found, style: ToolStyle = "card") -> str:
    """Write the answer to one search: how many of how many tools fit, then one tool a line, best first."""
    slot = neutralise(" ".join(found.search.slot.split())[:200])
    if found.nothing_fits or not found.hits:
        head = f"{slot}: nothing fits among {found.total:,} tools. Say it differently once, or do without."
    else:
        head = f"{slot}: {len(found.hits)} of {found.total:,} tools"
    show = card if style == "card" else schema_card
    return "\n".join(["<tools>", head, *(show(hit.tool) for hit in found.hits), "</tools>"])


def render_result(result: Result, cap: int = RESULT_CAP) -> str:
    """Write the answer to one call as one line of JSON."""
    return f"<tool_response>\n{write_json(result_body(result, cap), compact=True)}\n</tool_response>"


def result_body(result: Result, cap: int = RESULT_CAP) -> JsonObject:
    """Return the answer to one call as JSON: `result`, or `error` with kind, message and advice.

    A result that takes more than `cap` characters of JSON is shown as a string with its middle left out.
    """
    body: JsonObject = {"name": result.call.name}
    if result.call.id is not None:
        body["id"] = result.call.id
    if result.error is None:
        body["result"] = capped(result.value, cap)
    else:
        body["error"] = _error(result.error)
    return body


def render_notes(messages: Sequence[str]) -> str:
    """Write what the agent is told about its own turn, one note a line, each only once."""
    return "\n".join(f"Note: {neutralise(' '.join(message.split()))}" for message in dict.fromkeys(messages))


def _error(error: ToolError) -> JsonObject:
    body: JsonObject = {
        "kind": error.kind,
        "message": _cut(error.message, _MESSAGE_CAP),
        "advice": ERROR_TRAITS[error.kind].advice,
    }
    return body if error.retry_after is None else body | {"retry_after_seconds": error.retry_after}


def capped(value: JsonValue, cap: int) -> JsonValue:
    """Return a value, or its head and tail as a string if it takes more than `cap` characters of JSON."""
    if isinstance(value, str):
        return _cut(value, cap)
    text = write_json(value, compact=True)
    return value if len(text) <= cap else _cut(text, cap)


def _cut(text: str, cap: int) -> str:
    """Keep the head and the tail of a text that is longer than `cap`."""
    if len(text) <= cap:
        return text
    head = int(cap * _HEAD_SHARE)
    left_out = f"[... {len(text) - cap:,} of {len(text):,} characters left out ...]"
    return f"{text[:head]} {left_out} {text[len(text) - (cap - head) :]}"

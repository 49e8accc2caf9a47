"""What the dialects of baselines share: the one retrieval of ETE, and what the world answers without protocol tags.

Place in the flow: layer 5, under `react`, `native` and `restricted`. The texts are those that a ParaAct agent is
shown, so no paradigm is told more than another.
"""

from __future__ import annotations

from collections.abc import Sequence

from paraagent.protocol import links
from paraagent.protocol.observe import render_found, render_result
from paraagent.protocol.render import render_turn
from paraagent.types import Call, Found, JsonObject, Message, Reply, Result, Search

LAST_STEP = "This is the last step: give the answer now, with what is known."
LAST_TURN = "This is the last turn: write the <answer> now, with what is known."


def retrieval(request: str) -> Reply:
    """Return the turn that is taken for an agent without a search tool: one search with the whole request."""
    return Reply(render_turn("One retrieval.", searches=[Search("the request", " ".join(request.split()))]))


def found_text(found: Found) -> str:
    """Return the answer to a search: how many tools fit, then one tool a line."""
    return _inside(render_found(found))


def result_text(result: Result) -> str:
    """Return the answer to a call as one line of JSON."""
    return _inside(render_result(result))


def plain_arguments(call: Call) -> JsonObject:
    """Return arguments as a model without links writes them."""
    plain = links.resolve(call.arguments, {}) if not links.upstream(call.arguments) else call.arguments
    assert isinstance(plain, dict)
    return plain


def literal_call(name: str, arguments: JsonObject) -> Call:
    """Return a call in which nothing reads as a link."""
    return Call(name, {key: links.literal(value) for key, value in arguments.items()})


def user(parts: Sequence[str]) -> Message:
    return Message("user", "\n".join(part for part in parts if part))


def _inside(block: str) -> str:
    """Return a block of the protocol without its first and last line, the tags."""
    return "\n".join(block.split("\n")[1:-1])

"""Turns written as text: the inverse of `grammar.parse`.

Place in the flow: layer 2; the built-in policies and the demonstrations speak through these functions, so their turns
read back as what was meant. Limits: a slot must not hold a colon, since the first colon ends it.
"""

from __future__ import annotations

from collections.abc import Sequence

from paraagent.protocol.call import BrokenCall
from paraagent.protocol.grammar import Turn
from paraagent.protocol.jsontext import write_json
from paraagent.protocol.plan import Plan
from paraagent.types import Call, JsonObject, Search


def render_think(text: str) -> str:
    return _block("think", text)


def render_plan(plan: Plan) -> str:
    return _block("plan", write_json(plan.to_json()))


def render_search(search: Search) -> str:
    """Write one search block.

    Raises:
        ValueError: the slot is empty or holds a colon, so it could not be read back.
    """
    if ":" in search.slot or not search.slot.strip():
        raise ValueError(f"a slot must be non-empty and without a colon: {search.slot!r}")
    return _block("search_tool", f"{search.slot}: {search.query}")


def render_call(call: Call) -> str:
    body: JsonObject = {} if call.id is None else {"id": call.id}
    return _block("tool_call", write_json(body | {"name": call.name, "arguments": call.arguments}))


def render_answer(text: str) -> str:
    return _block("answer", text)


def render_turn(
    think: str,
    *,
    plan: Plan | None = None,
    searches: Sequence[Search] = (),
    calls: Sequence[Call] = (),
    answer: str | None = None,
) -> str:
    """Write a whole turn, one block per line; give exactly one of searches, calls and answer."""
    blocks = [render_think(think)]
    if plan is not None:
        blocks.append(render_plan(plan))
    blocks += map(render_search, searches)
    blocks += map(render_call, calls)
    if answer is not None:
        blocks.append(render_answer(answer))
    return "\n".join(blocks)


def render(turn: Turn) -> str:
    """Write a parsed turn in its clean form; calls that could not be read are written as they were."""
    parts = [render_turn(turn.think, plan=turn.plan, searches=turn.searches)]
    parts += (_block("tool_call", c.text) if isinstance(c, BrokenCall) else render_call(c) for c in turn.calls)
    if turn.answer is not None:
        parts.append(render_answer(turn.answer))
    return "\n".join(parts)


def _block(tag: str, body: str) -> str:
    """Wrap a body in its tag; only its own closing tag could end the block early, so only that is escaped."""
    return f"<{tag}>{body.strip().replace(f'</{tag}>', f'&lt;/{tag}>')}</{tag}>"

"""Native function calling for a model: two functions, one that searches for tools and one that calls what was found.

Place in the flow: layer 5, a baseline's dialect. The `tools` of a request stay the same and small for a whole
episode, so the prompt's prefix does; tools that were found are called through the second function. Several calls in
one message run in parallel; a message that searches and calls at once only searches. A message without calls is the
answer. The history is written anew from the episode's, as in `react`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from paraagent.agent.context import Context, Exchange
from paraagent.agent.policies.http_draft import Draft, FunctionCall
from paraagent.evaluate.baselines.dialect import (
    LAST_STEP,
    found_text,
    literal_call,
    plain_arguments,
    result_text,
)
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.jsontext import read_json, write_json
from paraagent.protocol.prompt import OPENING, RULES
from paraagent.protocol.render import render_call, render_think, render_turn
from paraagent.types import JsonObject, JsonValue, Reply, Search

_PROMPT = """\
{opening}

Work in turns. In a turn call search_tools or call_tool, as often as helps at once: the calls of a turn run in \
parallel. search_tools shows tools one a line: name(parameter: type, optional?: type) - purpose -> {{result \
fields}}. call_tool runs a tool that was shown. When you are done, write the answer as plain text without calling \
anything; it ends the task.

Rules
- Search all missing capabilities in one turn, and run every call that is ready in one turn.
{rules}
- You have at most {turns} turns."""


def _function(name: str, description: str, properties: JsonObject) -> JsonObject:
    required: list[JsonValue] = list(properties)
    parameters: JsonObject = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS: tuple[JsonObject, ...] = (
    _function(
        "search_tools",
        "Show the tools that fit one missing capability.",
        {"query": {"type": "string", "description": "What the tool must do."}},
    ),
    _function(
        "call_tool",
        "Run a tool that a search has shown.",
        {
            "name": {"type": "string", "description": "The tool's exact name."},
            "arguments": {"type": "object", "description": "The tool's arguments, as its signature says."},
        },
    ),
)


@runtime_checkable
class Chat(Protocol):
    """A chat endpoint with function calling, as `HttpPolicy` is."""

    name: str

    async def complete(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] = (), *, most: int | None = None
    ) -> Draft: ...


class NativePolicy:
    """A model that works by native function calls."""

    def __init__(self, chat: Chat) -> None:
        self.name = f"{chat.name} as native"
        self._chat = chat

    async def act(self, context: Context) -> Reply:
        """Return the model's next message as a turn of the protocol; `seconds` is the real time that took."""
        began = time.monotonic()
        draft = await self._chat.complete(list(_messages(context)), TOOLS, most=context.reply_tokens)
        text = read_message(draft.text(), list(draft.calls.values()), len(context.exchanges) + 1)
        return Reply(text, draft.usage, time.monotonic() - began)


def read_message(text: str, calls: Sequence[FunctionCall], number: int) -> str:
    """Return a message, the n-th of its episode, as a turn of the protocol."""
    reasoning, closed, said = text.rpartition("</think>")
    thought = reasoning.partition("<think>")[2].strip() if closed else ""
    said = said.strip()
    if not calls:
        return render_turn(thought, answer=said) if said else render_think(thought)
    thought = "\n".join(filter(None, (thought, said)))
    queries = [query for call in calls if call.name == "search_tools" and (query := _query(call.arguments))]
    if queries:
        searches = [Search(f"turn {number} query {place}", query) for place, query in enumerate(queries, 1)]
        return render_turn(thought, searches=searches)
    return "\n".join([render_think(thought), *map(_call, calls)])


def _query(arguments: str) -> str:
    try:
        given = read_json(arguments)
    except ValueError:
        return arguments.strip()
    query = given.get("query") if isinstance(given, dict) else None
    return query.strip() if isinstance(query, str) else arguments.strip()


def _call(call: FunctionCall) -> str:
    """Return a call as a block of the protocol; one that cannot be read gets its answer there."""
    try:
        given = read_json(call.arguments or "{}")
    except ValueError:
        given = None
    if call.name == "call_tool" and isinstance(given, dict):
        name, arguments = given.get("name"), given.get("arguments", {})
        if isinstance(name, str) and isinstance(arguments, dict):
            return render_call(literal_call(name, arguments))
        return f"<tool_call>{write_json(given)}</tool_call>"
    if isinstance(given, dict):  # the model took the name of a tool for that of a function
        return render_call(literal_call(call.name, given))
    return f"<tool_call>{write_json({'name': call.name, 'arguments': call.arguments})}</tool_call>"


def _messages(context: Context) -> Iterator[JsonObject]:
    turns = len(context.exchanges) + context.turns_left
    rules = RULES.format(forgery="")
    yield {"role": "system", "content": _PROMPT.format(opening=OPENING, rules=rules, turns=turns)}
    yield {"role": "user", "content": context.request}
    for place, exchange in enumerate(context.exchanges):
        yield from _past(exchange, place)
        if exchange.turn.kind == "answer":
            yield {"role": "user", "content": exchange.reply}
    if context.turns_left == 1:
        yield {"role": "user", "content": LAST_STEP}


def _past(exchange: Exchange, number: int) -> Iterator[JsonObject]:
    """Yield a past message with its calls and what came back."""
    turn = exchange.turn
    made: list[tuple[str, JsonObject]] = [("search_tools", {"query": search.query}) for search in turn.searches]
    made += [
        ("call_tool", {"text": call.text})
        if isinstance(call, BrokenCall)
        else ("call_tool", {"name": call.name, "arguments": plain_arguments(call)})
        for call in turn.calls
    ]
    told = [*map(found_text, exchange.found), *map(result_text, exchange.results)]
    calls: list[JsonValue] = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": write_json(arguments)},
        }
        for place, (name, arguments) in enumerate(made)
    ]
    message: JsonObject = {"role": "assistant", "content": turn.think or turn.answer or ""}
    yield message | {"tool_calls": calls} if calls else message
    for place in range(len(made)):
        content = told[place] if place < len(told) else "not run"
        yield {"role": "tool", "tool_call_id": f"call_{number}_{place}", "content": content}
    if exchange.notes:
        yield {"role": "user", "content": "\n".join(exchange.notes)}

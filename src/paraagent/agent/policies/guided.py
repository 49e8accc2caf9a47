"""The grammar of a model's next turn in the compact dialect, from what the episode has shown so far.

Place in the flow: layer 3, optional; `local` keeps small models within it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count, islice

from paraagent.agent.context import Context
from paraagent.agent.policies.critic import ANSWER, Without, told
from paraagent.errors import ERROR_TRAITS, ErrorKind
from paraagent.protocol import compact
from paraagent.protocol.jsontext import write_json
from paraagent.protocol.lark import LINES, Shown, turn_grammar
from paraagent.protocol.shorten import View
from paraagent.types import Call, JsonObject, Result, Tool

_SHORT = 1_000
"""Characters of arguments that are told to be repeated."""
_TRIES = 3
"""Equal calls of a tool in a row, with equal results, after which it is not called any more."""


def next_turn(context: Context, again: Without | None = None, begun: str = "") -> str:
    """Return the grammar of what may be written now.

    A tool that always does the same is left out. One that has just failed for a reason that passes is called with the
    same arguments again or not at all.

    Args:
        again: what the turn must do without when it is written again; strings and numbers in calls must then stand in
            the request or in results, word for word.
        begun: what has been written of the turn. If that is whole lines with calls, the grammar is of those that
            follow, which know what they can link to; else there is none, as nothing has changed.
    """
    lines = _calls(begun, context) if begun else {}
    if begun and not lines:
        return ""
    if context.turns_left == 1:
        return turn_grammar([], last=True)
    visible, without = View().tools, again or frozenset()
    barred = _stuck(context) | {tool for tool, argument in without if argument is None}
    pending = _pending(context)
    shown = [
        Shown(
            found.search.slot,
            tuple(
                _less(pending.get(hit.tool.name, hit.tool), without)
                for hit in found.hits[:visible]
                if hit.tool.name not in barred
            ),
        )
        for exchange in context.exchanges
        for found in exchange.found
    ]
    tools, known = context.surfaced(), context.values()
    used = {result.call.id: result.call.name for result in context.results() if result.call.id is not None}
    fresh = (name for number in count(len(used) + 1) if (name := f"c{number}") not in used)
    made_by = {name: tools[used[name]] for name in known if used[name] in tools} | lines
    return turn_grammar(
        shown,
        known=known,
        made_by=made_by,
        begun=len(lines),
        free=[name for name in islice(fresh, LINES) if name not in lines],
        quoted=None if again is None else f"{context.said()}\n{told(context)}",
        early=(ANSWER, None) in without,
    )


def _calls(begun: str, context: Context) -> dict[str, Tool]:
    """Return the tools that a turn calls in its whole lines so far, by the ids of the calls."""
    if not begun.endswith("\n"):
        return {}
    calls = compact.parse(begun).calls
    tools = context.surfaced()
    if not all(isinstance(call, Call) and call.id and call.name in tools for call in calls):
        return {}
    return {call.id: tools[call.name] for call in calls if isinstance(call, Call) and call.id}


def _less(tool: Tool, without: Without) -> Tool:
    """Return the tool without some of its arguments."""
    properties = tool.parameters.get("properties")
    if not isinstance(properties, dict) or not any((tool.name, name) in without for name in properties):
        return tool
    left = {name: schema for name, schema in properties.items() if (tool.name, name) not in without}
    return replace(tool, parameters={**tool.parameters, "properties": left})


def _pending(context: Context) -> dict[str, Tool]:
    """Return the tools that failed in the last calls for a reason that passes, by name, with no other arguments.

    Left out are tools that were called in several ways, that have failed so again and again, or with long arguments.
    """
    exchanges = [exchange for exchange in context.exchanges if exchange.results or exchange.reply]
    if not exchanges or exchanges[-1].reply:
        return {}
    tools, calls = context.surfaced(), dict[str, list[Result]]()
    for result in exchanges[-1].results:
        calls.setdefault(result.call.name, []).append(result)
    return {
        name: _fixed(tools[name], made[0].arguments)
        for name, made in calls.items()
        if name in tools and len(made) == 1 and _may_pass(made[0], context)
    }


def _may_pass(result: Result, context: Context) -> bool:
    if result.error is None or not _passes(result.error.kind):
        return False
    same = [one for one in context.results() if one.call.name == result.call.name and one.error is not None]
    plain = not any(isinstance(value, dict | list) for value in result.arguments.values())
    return plain and len(same) < _TRIES and len(write_json(result.arguments)) < _SHORT


def _passes(kind: ErrorKind) -> bool:
    return ERROR_TRAITS[kind].retry_helps and ERROR_TRAITS[kind].fault == "tool"


def _fixed(tool: Tool, arguments: JsonObject) -> Tool:
    """Return the tool such that it takes these arguments only."""
    properties: JsonObject = {name: {"const": value} for name, value in arguments.items()}
    return replace(tool, parameters={"type": "object", "properties": properties, "required": [*arguments]})


def _stuck(context: Context) -> set[str]:
    """Return the tools that were called in the same way again and again, and will do the same again."""
    calls: dict[str, list[Result]] = {}
    for result in context.results():
        calls.setdefault(result.call.name, []).append(result)
    return {name for name, made in calls.items() if len(made) >= _TRIES and _same(made[-_TRIES:])}


def _same(results: list[Result]) -> bool:
    first = results[0]
    if first.error is not None and ERROR_TRAITS[first.error.kind].retry_helps:
        return False
    return all((one.arguments, one.value, one.ok) == (first.arguments, first.value, first.ok) for one in results)

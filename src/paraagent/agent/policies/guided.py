"""The grammar of a model's next turn in the compact dialect, from what the episode has shown so far.

Place in the flow: layer 3, optional; `local` keeps small models within it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count, islice

from paraagent.agent.context import Context
from paraagent.agent.policies.critic import ANSWER, Without, told
from paraagent.errors import ERROR_TRAITS
from paraagent.protocol.lark import LINES, Shown, turn_grammar
from paraagent.protocol.shorten import View
from paraagent.types import Result, Tool

_TRIES = 3
"""Equal calls of a tool in a row, with equal results, after which it is not called any more."""


def next_turn(context: Context, again: Without | None = None) -> str:
    """Return the grammar of what may be written now. A tool that always does the same is left out.

    Args:
        again: what the turn must do without when it is written again; strings and numbers in calls must then stand in
            the request or in results, word for word.
    """
    if context.turns_left == 1:
        return turn_grammar([], last=True)
    visible, without = View().tools, again or frozenset()
    barred = _stuck(context) | {tool for tool, argument in without if argument is None}
    shown = [
        Shown(
            found.search.slot,
            tuple(_less(hit.tool, without) for hit in found.hits[:visible] if hit.tool.name not in barred),
        )
        for exchange in context.exchanges
        for found in exchange.found
    ]
    known = context.values()
    used = dict.fromkeys(result.call.id for result in context.results() if result.call.id is not None)
    fresh = (name for number in count(len(used) + 1) if (name := f"c{number}") not in used)
    quoted = None if again is None else f"{context.said()}\n{told(context)}"
    return turn_grammar(
        shown, known=known, free=[*islice(fresh, LINES)], quoted=quoted, early=(ANSWER, None) in without
    )


def _less(tool: Tool, without: Without) -> Tool:
    """Return the tool without some of its arguments."""
    properties = tool.parameters.get("properties")
    if not isinstance(properties, dict) or not any((tool.name, name) in without for name in properties):
        return tool
    left = {name: schema for name, schema in properties.items() if (tool.name, name) not in without}
    return replace(tool, parameters={**tool.parameters, "properties": left})


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

"""The grammar of a model's next turn in the compact dialect, from what the episode has shown so far.

Place in the flow: layer 3, optional; `local` keeps small models within it.
"""

from __future__ import annotations

from itertools import count, islice

from paraagent.agent.context import Context
from paraagent.protocol.lark import LINES, Shown, turn_grammar
from paraagent.protocol.shorten import View
from paraagent.types import JsonObject

_TRIES = 3
"""Equal calls of a tool in a row after which it is not called any more."""
_QUOTED = 40_000
"""Characters of the latest observations in which quoted values are looked for."""


def grammar(context: Context, *, quoting: bool) -> str:
    """Return what may be written now. A tool that was called alike three times in a row is left out.

    Args:
        quoting: strings and numbers must stand in the request or in what came back, word for word.
    """
    if context.turns_left == 1:
        return turn_grammar([], last=True)
    visible, stuck = View().tools, _repeated(context)
    shown = [
        Shown(found.search.slot, tuple(hit.tool for hit in found.hits[:visible] if hit.tool.name not in stuck))
        for exchange in context.exchanges
        for found in exchange.found
    ]
    known = context.values()
    used = dict.fromkeys(result.call.id for result in context.results() if result.call.id is not None)
    fresh = (name for number in count(len(used) + 1) if (name := f"c{number}") not in used)
    free = [*islice(fresh, LINES), *(name for name in used if name not in known)]
    return turn_grammar(shown, known=[*known], free=free, quoted=_told(context) if quoting else None)


def _repeated(context: Context) -> set[str]:
    """Return the tools that were called in the same way again and again."""
    calls: dict[str, list[JsonObject]] = {}
    for result in context.results():
        calls.setdefault(result.call.name, []).append(result.arguments)
    return {name for name, given in calls.items() if len(given) >= _TRIES and given[-_TRIES:] == given[-1:] * _TRIES}


def _told(context: Context) -> str:
    """Return the request and what came back."""
    told = "\n".join(message.content for message in context.messages if message.role == "user")
    return f"{context.request}\n{told[-_QUOTED:]}"

"""What speaks against a turn, from what the episode has shown: the grounds for a small model's second thoughts.

Place in the flow: layer 3, optional; `local` asks for objections and has the turn written again without what they are
about. Objected to are calls that cannot be read, invent a value, give one value twice that the request says once, do
again what was done already, or leave out a value that the request states; and an answer that leaves one out while
there are tools that were not tried. Nothing here knows the task or its verifier.
Limits: a value that was rightly concluded (a code from a name, a sum) counts as invented; links are trusted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from paraagent.agent.context import Context
from paraagent.agent.policies.filling import literals
from paraagent.catalog.names import words
from paraagent.errors import ERROR_TRAITS
from paraagent.protocol import links
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.grammar import Turn
from paraagent.types import Call, JsonObject, JsonValue, Tool

Reason = Literal["unreadable", "invented", "twice", "done", "left_out"]
_WEIGHTS: Mapping[Reason, int] = {"unreadable": 9, "invented": 1, "twice": 1, "done": 1, "left_out": 1}
ANSWER = ""
_TOOL = re.compile(r"(\w[\w.\-/]*)\(")
_GIVEN = re.compile(r"[(,]\s*([^\s=,(\"]+)=")


@dataclass(frozen=True, slots=True)
class Objection:
    """What a turn might better do without."""

    reason: Reason
    about: str
    """The value or call that is objected to; of a value that is left out every call of the turn may be the cause."""
    tool: str
    """`ANSWER` for answering already."""
    argument: str | None = None
    """Of the tool's optional arguments; None is the tool itself."""


def objections(turn: Turn, context: Context) -> list[Objection]:
    """Return what speaks against a turn; nothing speaks against searches."""
    if turn.kind == "answer":
        unserved = _unserved(context)
        return [Objection("left_out", value, ANSWER) for value in _left_out([], context) if unserved]
    calls = [call for call in turn.calls if isinstance(call, Call)]
    read = Read(context)
    found = [objection for call in calls for objection in _against(call, context, read)]
    broken = [call for call in turn.calls if isinstance(call, BrokenCall)]
    found += [objection for call in broken for objection in _unreadable(call, context)]
    left_out = _left_out(calls, context) if calls else []
    return found + [Objection("left_out", value, call.name) for value in left_out for call in calls]


def weight(found: Iterable[Objection]) -> int:
    """Return how much the objections say against a turn."""
    return sum(_WEIGHTS[reason] for reason, _ in {(one.reason, one.about) for one in found})


class Read:
    """The request and results, as a text to look values up in."""

    def __init__(self, context: Context) -> None:
        told = (leaf for result in context.results() for leaf in leaves(result.value))
        self.request = _plain(context.said())
        self._text = f"{self.request}\n{_plain(chr(10).join(told))}"

    def has(self, value: JsonValue) -> bool:
        return _stands(_plain(str(value)), self._text)

    def times(self, value: JsonValue) -> int:
        return len(re.findall(_word(_plain(str(value))), self.request))


def leaves(value: JsonValue) -> Iterator[str]:
    """Yield the texts and numbers in a value."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _against(call: Call, context: Context, read: Read) -> Iterator[Objection]:
    tool = context.surfaced().get(call.name)
    if tool is None:
        return
    if _done(call, context):
        yield Objection("done", call.name, call.name)
    needed = _required(tool)
    given: set[str] = set()
    for name, value in sorted(call.arguments.items(), key=lambda item: item[0] not in needed):
        optional = name not in needed
        if isinstance(value, str) and links.upstream(value):
            continue
        if _invented(tool, name, value, read, optional):
            yield Objection("invented", f"{call.name} {name}={value}", call.name, name if optional else None)
        elif optional and str(value) in given and read.times(value) == 1:
            yield Objection("twice", f"{call.name} {value}", call.name, name)
        given.add(str(value))


def _unreadable(call: BrokenCall, context: Context) -> Iterator[Objection]:
    """Yield what may have made a call unreadable: an argument given again, or else the tool."""
    name = next((name for name in _TOOL.findall(call.text) if name in context.surfaced()), None)
    if name is None:
        return
    given = Counter(_GIVEN.findall(call.text))
    needed = _required(context.surfaced()[name])
    for argument in [argument for argument, times in given.items() if times > 1 and argument not in needed]:
        yield Objection("unreadable", call.text, name, argument)
    yield Objection("unreadable", call.text, name)


def _required(tool: Tool) -> list[JsonValue]:
    required = tool.parameters.get("required")
    return required if isinstance(required, list) else []


def _invented(tool: Tool, name: str, value: JsonValue, read: Read, optional: bool) -> bool:
    """Tell whether a value comes from nowhere; one of a few choices has to, where one is required."""
    named = any(_stands(word, read.request) for word in words(name) if len(word) > 2)
    if isinstance(value, bool) or _chosen(tool, name):
        return optional and not named and not _stands(_plain(str(value)), read.request)
    told = [*leaves(value)]
    if optional and (not told or (all(map(_is_word, told)) and not named)):
        return True
    return not all(map(read.has, told))


def _is_word(text: str) -> bool:
    """Tell whether a text could stand anywhere without being meant as a value."""
    return text.isalpha() and text.islower()


def _chosen(tool: Tool, name: str) -> bool:
    properties = tool.parameters.get("properties")
    schema = properties.get(name) if isinstance(properties, dict) else None
    return isinstance(schema, dict) and ("enum" in schema or "const" in schema)


def _done(call: Call, context: Context) -> bool:
    """Tell whether an equal call was made whose result a repetition would not change."""
    return any(
        (result.call.name, _resolved(result.call, context)) == (call.name, _resolved(call, context))
        and (result.error is None or not ERROR_TRAITS[result.error.kind].retry_helps)
        for result in context.results()
    )


def _resolved(call: Call, context: Context) -> JsonObject:
    try:
        resolved = links.resolve(call.arguments, context.values())
    except links.LinkError:
        return call.arguments
    return resolved if isinstance(resolved, dict) else call.arguments


def _unserved(context: Context) -> bool:
    """Tell whether something was done, but none of the tools that one of the searches showed was called."""
    done = {result.call.name for result in context.results() if result.ok}
    tried = {result.call.name for result in context.results()}
    found = [found for exchange in context.exchanges for found in exchange.found]
    return bool(done) and any(one.hits and tried.isdisjoint(hit.tool.name for hit in one.hits) for one in found)


def _left_out(calls: Sequence[Call], context: Context) -> list[str]:
    """Return the values of the request that no call has taken up."""
    made = [*(result.call for result in context.results()), *calls]
    taken = [leaf for call in made for leaf in leaves(call.arguments)]
    services = {f"{tool.api_title} {tool.provider} {tool.api}" for tool in context.surfaced().values()}
    text = _plain("\n".join([*taken, *services]))
    return [value for value in dict.fromkeys(literals(context.said())) if not _stands(_plain(value), text)]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", text).lower().split())


def _stands(value: str, text: str) -> bool:
    return not value or re.search(_word(value), text) is not None


def _word(value: str) -> str:
    return rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)"

"""What speaks against a turn, from what the episode has shown: the grounds for a small model's second thoughts.

Place in the flow: layer 3, optional; `local` asks for objections and has the turn written again without what they are
about. Objected to are calls that cannot be read, invent a value, give one value twice that the request says once, do
again what was done already, or leave out a value that the request states; and an answer that leaves one out while
there are tools that were not tried. Nothing here knows the task or its verifier.
Limits: a value that was rightly concluded (a code from a name, a sum) counts as invented, and so does an optional
word in small letters behind an article; a value that is only meant for the answer counts as left out; reading again
what another agent has changed counts as done. Links are trusted.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from paraagent.agent.context import Context
from paraagent.agent.policies.filling import SEARCHED, literals
from paraagent.catalog.names import words
from paraagent.errors import ERROR_TRAITS
from paraagent.protocol import links
from paraagent.protocol.call import BrokenCall
from paraagent.protocol.grammar import Turn
from paraagent.types import Call, JsonObject, JsonValue, Result, Tool

Reason = Literal["unreadable", "invented", "twice", "done", "left_out"]
Without = frozenset[tuple[str, str | None]]
"""What a turn must do without: tools, or with them one of their optional arguments; `ANSWER` is a tool here."""
ANSWER = "say"
READ = 40_000
"""Characters of the latest results in which values are looked for."""
_LONG = re.compile(r"\S{300,}")
_UNREADABLE = 9
"""What a call that cannot be read weighs: more than anything that could be said against one that can."""
_TOOL = re.compile(r"(\w[\w.\-/]*)\(")
_GIVEN = re.compile(r"[(,]\s*([^\s=,(\"]+)=")


@dataclass(frozen=True, slots=True)
class Objection:
    """What a turn might better do without."""

    reason: Reason
    about: str
    """The value or call that is objected to; of a value that is left out every call of the turn may be the cause."""
    tool: str
    argument: str | None = None
    """Of the tool's optional arguments; None is the tool itself."""


def objections(turn: Turn, context: Context) -> list[Objection]:
    """Return what speaks against a turn; nothing speaks against searches."""
    if turn.kind == "answer":
        early = context.turns_left != 1 and _unserved(context)
        return [Objection("left_out", value, ANSWER) for value in _left_out([], context)] if early else []
    calls = [call for call in turn.calls if isinstance(call, Call)]
    read = _Read(context)
    found = [objection for call in calls for objection in _against(call, context, read)]
    broken = [call for call in turn.calls if isinstance(call, BrokenCall)]
    found += [objection for call in broken for objection in _unreadable(call, context)]
    left_out = _left_out(calls, context) if calls else []
    return found + [Objection("left_out", value, call.name) for value in left_out for call in calls]


def weight(found: Iterable[Objection]) -> int:
    """Return how much the objections say against a turn."""
    reasons = Counter(reason for reason, _ in {(one.reason, one.about) for one in found})
    return reasons.total() + reasons["unreadable"] * (_UNREADABLE - 1)


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
        yield repr(value)


def told(context: Context) -> str:
    """Return the texts and numbers of the latest results."""
    return "\n".join(leaf for result in context.results() for leaf in leaves(result.value))[-READ:]


class _Read:
    """What the user said, and what results told, to look values up in."""

    def __init__(self, context: Context) -> None:
        self.said = _plain(context.said())
        self._all = f"{self.said}\n{_plain(told(context))}"

    def has(self, value: str) -> bool:
        return _stands(value, self._all)

    def means(self, word: str) -> bool:
        """Tell whether a word stands somewhere as more than the name of some thing: not only behind an article."""
        return re.search(rf"(?<!\ba )(?<!\ban )(?<!\bthe ){_word(word)}", self._all) is not None

    def times(self, value: str) -> int:
        return len(re.findall(_word(_readings(value)[0]), _readings(self.said)[0]))


def _against(call: Call, context: Context, read: _Read) -> Iterator[Objection]:
    tool = context.surfaced().get(call.name)
    if tool is None:
        return
    if _done(call, context):
        yield Objection("done", call.name, call.name)
    needed = _required(tool)
    given: set[str] = set()
    for name, value in sorted(call.arguments.items(), key=lambda item: item[0] not in needed):
        optional = name not in needed
        own = [leaf for leaf in leaves(value) if not links.upstream(leaf)]
        if _invented(tool, name, value, own, read, optional):
            yield Objection("invented", f"{call.name} {name}={value}", call.name, name if optional else None)
        elif optional and any(leaf in given and read.times(leaf) == 1 for leaf in own) and not _chosen(tool, name):
            yield Objection("twice", f"{call.name} {name}={value}", call.name, name)
        given.update(own)


def _invented(tool: Tool, name: str, value: JsonValue, own: Sequence[str], read: _Read, optional: bool) -> bool:
    """Tell whether a value comes from nowhere; one of a few choices has to, where one is required."""
    parts = words(name)
    named = not SEARCHED.isdisjoint(parts) or any(_stands(part, read.said) for part in parts if len(part) > 2)
    if isinstance(value, bool) or _chosen(tool, name):
        return optional and not named and not _stands(str(value), read.said)
    if not all(map(read.has, own)):
        return True
    if not optional or links.upstream(value):
        return False
    return not any(map(str.strip, own)) or (not named and all(map(_is_word, own)) and not any(map(read.means, own)))


def _is_word(text: str) -> bool:
    """Tell whether a text could stand anywhere without being meant as a value."""
    return text.isalpha() and text.islower()


def _unreadable(call: BrokenCall, context: Context) -> Iterator[Objection]:
    """Yield what may have made a call unreadable: an argument given again, or else the tool."""
    shown = context.surfaced()
    name = call.name or next((name for name in _TOOL.findall(call.text) if name in shown), "")
    needed = _required(shown[name]) if name in shown else []
    for argument, times in Counter(_GIVEN.findall(call.text)).items():
        if times > 1 and argument not in needed:
            yield Objection("unreadable", call.text, name, argument)
    yield Objection("unreadable", call.text, name)


def _required(tool: Tool) -> list[JsonValue]:
    required = tool.parameters.get("required")
    return required if isinstance(required, list) else []


def _chosen(tool: Tool, name: str) -> bool:
    properties = tool.parameters.get("properties")
    schema = properties.get(name) if isinstance(properties, dict) else None
    return isinstance(schema, dict) and ("enum" in schema or "const" in schema)


def _done(call: Call, context: Context) -> bool:
    """Tell whether an equal call was made since something was changed or said, and would do the same again."""
    asked = call.name, _resolved(call, context)
    return any(
        (result.call.name, result.arguments) == asked
        and (result.error is None or not ERROR_TRAITS[result.error.kind].retry_helps)
        for result in _since_change(context)
    )


def _since_change(context: Context) -> Iterator[Result]:
    """Yield results, the latest first, down to the last call that changed something or to the user's last words."""
    for exchange in reversed(context.exchanges):
        if exchange.reply:
            return
        for call, result in reversed([*zip(exchange.turn.calls, exchange.results, strict=False)]):
            if isinstance(call, Call):
                yield result
                tool = context.surfaced().get(call.name)
                if result.ok and (tool is None or tool.effect != "read"):
                    return


def _resolved(call: Call, context: Context) -> JsonObject:
    try:
        resolved = links.resolve(call.arguments, context.values())
    except links.LinkError:
        return call.arguments
    return resolved if isinstance(resolved, dict) else call.arguments


def _unserved(context: Context) -> bool:
    """Tell whether something was done, but none of the tools that one of the searches showed was called."""
    results = list(context.results())
    tried = {result.call.name for result in results}
    shown = [{hit.tool.name for hit in found.hits} for exchange in context.exchanges for found in exchange.found]
    return any(result.ok for result in results) and any(names and tried.isdisjoint(names) for names in shown)


def _left_out(calls: Sequence[Call], context: Context) -> list[str]:
    """Return the values of the request that no call took up: what it quotes, and what holds a digit or an `@`."""
    said = _LONG.sub(" ", context.said())
    stated = (value.strip("'`#[]{}()$%*") for value in literals(said))
    values = [value for value in dict.fromkeys(stated) if re.search(r"[\d_@]", value) or f'"{value}"' in said]
    given = [*(result.arguments for result in context.results()), *(_resolved(call, context) for call in calls)]
    services = {f"{tool.api_title} {tool.provider} {tool.api}" for tool in context.surfaced().values()}
    taken = _plain("\n".join([*(leaf for arguments in given for leaf in leaves(arguments)), *services]))
    return [
        value
        for value in values
        if not (_stands(value, taken) or all(_stands(one, taken) for one in value.split(",")))
    ]


def _plain(text: str) -> str:
    """Return a text to look values up in."""
    return "\n".join(_readings(text))


def _readings(text: str) -> list[str]:
    """Return a text in one spelling of letters and numbers: as it is, and with commas taken to part thousands."""
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    text = re.sub(r"(?<![\w.])(\d+)(\.\d*?)0+(?!\w|\.\d)", lambda number: number[1] + number[2].rstrip("."), text)
    return list(dict.fromkeys([text, re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", text)]))


def _stands(value: str, text: str) -> bool:
    """Tell whether a value stands in a plain text as a word or number of its own."""
    return any(not reading or re.search(_word(reading), text) is not None for reading in _readings(value))


def _word(reading: str) -> str:
    """Return what finds a reading as a word or number of its own; a part of a date is none."""
    return (
        rf"(?<![\w.])(?!(?<=\d{{4}}-)\d\d-\d\d)(?!(?<=\d{{4}}-\d\d-)\d\d)"
        rf"{re.escape(reading)}(?!\w|\.\d|-\d\d-\d\d)"
    )

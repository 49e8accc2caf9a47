"""The compact dialect as a grammar in Lark, for engines that keep a model within one as it writes.

Place in the flow: layer 2, optional; `policies.guided` writes one per turn, and one of the lines that follow whenever
a line with a call is written (`begun`). A call in it names a tool that was shown, behind the search that showed it if
it names one; the arguments that this tool requires, and others that it has; values of their types, choices, or links
to calls that there are. Queries and answers are free.
Limits: that a link leads to an earlier line is told of the first lines only, and which tool makes the call there only
where it is written; not that an optional argument stands there once only; of more than five required arguments their
number is. Of the schemas types and choices are told, of lists and objects no more. A string is short unless it is
quoted; quoted words are what spaces and signs part; lists, objects and untyped values quote nothing. Thoughts and
explicit plans are left out, and so are tools whose names the dialect cannot read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from paraagent.protocol import links
from paraagent.protocol.compact import argument_name
from paraagent.protocol.jsontext import write_json
from paraagent.protocol.paths import Links
from paraagent.types import JsonValue, Tool

LINES = 8
"""Searches or calls of a turn at most."""
ANSWER_HEAD = "say\n"
"""How a turn begins that answers."""
_STAGES = 3
"""Lines of a turn for which it is told apart to which calls they can link: only to earlier ones."""
_MOST = 5
"""Required arguments of which each is told to stand there; of more only their number."""
_BETWEEN = 16
"""Optional arguments before a required one at most."""
_CHOICES = 400
"""Values of an enum, or optional arguments of a tool, that are told apart."""
_LONGEST = 300
"""Characters of a string: a small model may never end one by itself, which costs the whole turn."""
_NUMBERS = 200
"""Quoted numbers that are told apart, the latest."""
_NAME = re.compile(r"\w[\w.\-/]*")
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FIND = f'find: "find" " more"? ("\\n" QUERY){{1,{LINES}}}\nQUERY: /[^\\n]*[^\\s][^\\n]*/'
_SAY = f"say: {json.dumps(ANSWER_HEAD)} ANSWER\nANSWER: /(.|\\n)*[^\\s](.|\\n)*/"
_ANYTHING = '"x-guidance": {"whitespace_pattern": "[ ]?"}'  # on one line
_VALUES = f"""
flag: "true" | "false"
null: "null"
list: %json {{"type": "array", {_ANYTHING}}}
object: %json {{"type": "object", {_ANYTHING}}}
any: %json {{{_ANYTHING}}}"""
_PLAIN = r'[^"\\\x00-\x1F\x7F]'
_ESCAPED = r'\\(["\\\/bfnrt]|u[a-fA-F0-9]{4})'
_FIRST = rf'[^"\\$\x00-\x1F\x7F]|{_ESCAPED}|\$([^A-Za-z_"\\\x00-\x1F\x7F]|{_ESCAPED})'  # no link
_INTEGER = "/-?(0|[1-9][0-9]{0,18})/"
_NUMBER = '%json {"type": "number"}'
_FREE = rf"""
string: /"(\$|({_FIRST})({_PLAIN}|{_ESCAPED}){{0,{_LONGEST}}})?"/
integer: {_INTEGER}
number: {_NUMBER}"""
_RULE_OF = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "flag",
    "array": "list",
    "object": "object",
    "null": "null",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """What one search showed."""

    slot: str
    tools: tuple[Tool, ...]


def turn_grammar(
    shown: Sequence[Shown],
    *,
    known: Mapping[str, JsonValue] = MappingProxyType({}),
    made_by: Mapping[str, Tool] = MappingProxyType({}),
    begun: int = 0,
    free: Sequence[str] = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"),
    quoted: str | None = None,
    last: bool = False,
    early: bool = False,
) -> str:
    """Return the grammar of one compact turn, in the dialect of Lark that llguidance reads.

    Args:
        shown: what the agent was shown; without any tool there is nothing to run.
        known: results by the ids of their calls.
        made_by: the tools of these calls, and of the calls in lines that the turn has begun with, by their ids.
        begun: how many lines the turn has begun with; the grammar is of the lines that follow.
        free: ids of new calls, in the order of their lines.
        quoted: text in which strings and numbers must stand word for word; None leaves them free.
        last: only an answer is left to be written.
        early: it is too early for an answer, where there are tools.
    """
    shown = [replace(one, tools=tuple(tool for tool in one.tools if _NAME.fullmatch(tool.name))) for one in shown]
    free = [name for name in free if _ID.fullmatch(name)]
    known = {name: value for name, value in known.items() if _ID.fullmatch(name)}
    tools = list({tool.name: tool for one in shown for tool in one.tools}.values())
    if last or not tools:
        return f"start: say\n{_SAY}" if last else f"start: find | say\n{_FIND}\n{_SAY}"
    made_by = {name: tool for name, tool in made_by.items() if _ID.fullmatch(name)}
    stages, paths = range(min(_STAGES, len(free))), Links(known, made_by, tools)
    more = "".join(f' ("\\n" line{stage}' for stage in stages[1:-1])
    rest = f' ("\\n" line{stages[-1]}){{0,{max(0, LINES - begun - len(stages) + 1)}}}' if len(stages) > 1 else ""
    lines = f"line0{more}{rest}{')?' * len(stages[1:-1])}"
    return "\n".join(
        [
            f"start: {lines}" if begun else f"start: find | run{' | say' * (not early)}\n{_FIND}\n{_SAY}",
            *([] if begun else [f'run: "run" " more"? "\\n" {lines}']),
            *(rule for stage in stages for rule in _line(stage, stages, shown, tools, free, paths)),
            *paths.rules([free[: _before(stage, stages, free)] for stage in stages]),
            (_FREE if quoted is None else _quoting(quoted)) + _VALUES,
        ]
    )


def _before(stage: int, stages: range, free: Sequence[str]) -> int:
    """Return how many of the new calls a line of a stage may link to."""
    return len(free) if stage == stages[-1] and stage else stage


def _line(
    stage: int, stages: range, shown: Iterable[Shown], tools: Sequence[Tool], free: Sequence[str], paths: Links
) -> Iterator[str]:
    """Yield the rules of a turn's line: the first ones have a stage each, all later ones share the last."""
    place = {tool.name: f"{number}s{stage}" for number, tool in enumerate(tools)}
    ids = _either(_text(f"{name} = ") for name in (free[stage:] if stage == stages[-1] else free[stage : stage + 1]))
    named = [f"{_text(_flat(one.slot) + ': ')} id{stage} {_calls(one.tools, place)}" for one in shown if one.tools]
    yield f"id{stage}: {ids}"
    yield f"line{stage}: {_either([f'id{stage} {_calls(tools, place)}', *named])}"
    for tool in tools:
        yield from _tool(place[tool.name], tool, stage, paths)


def _calls(tools: Iterable[Tool], place: Mapping[str, str]) -> str:
    return f"({_either(f'call{place[tool.name]}' for tool in tools)})"


def _tool(number: str, tool: Tool, stage: int, paths: Links) -> Iterator[str]:
    """Yield the rules of a tool's call."""
    properties = tool.parameters.get("properties")
    known = properties if isinstance(properties, dict) else {}
    wanted = tool.parameters.get("required")
    required = [name for name in known if name in wanted] if isinstance(wanted, list) else []
    optional = [name for name in known if name not in required][:_CHOICES]
    named = {}
    for name in (name for name in known if name in required or name in optional):
        link = f"link{stage}k{paths.kind(tool, name, required=name in required, near=stage == 0)}"
        named[name] = f"{_text(argument_name(name) + '=')} {_value(known[name], link, f'deep{stage}')}"
    begin = f"call{number}: {_text(f'{tool.name}(')}"
    if not named:
        yield f'{begin} ")"'
    elif not required or len(required) > _MOST:
        least = max(0, len(required) - 1)
        more = f'(", " any{number}){{{least},{len(named) - 1}}}' if len(named) > 1 else ""
        yield f'{begin} any{number} {more} ")"' if required else f'{begin} (any{number} {more})? ")"'
        yield f"any{number}: {_either(named.values())}"
    else:
        yield f'{begin} left{number}_{2 ** len(required) - 1} ")"'
        yield from _in_any_order(number, named, required)


def _in_any_order(number: str, named: Mapping[str, str], required: Sequence[str]) -> Iterator[str]:
    """Yield a rule of what may stand there for every set of required arguments that are still missing."""
    optional = [text for name, text in named.items() if name not in required]
    if optional:
        yield f"more{number}: {_either(optional)}"
    before = f'(more{number} ", "){{0,{min(_BETWEEN, len(optional))}}} ' if optional else ""
    after = f' (", " more{number}){{0,{len(optional)}}}' if optional else ""
    for missing in range(1, 2 ** len(required)):
        options = []
        for place, name in enumerate(required):
            rest = missing & ~(1 << place)
            if rest != missing:
                options.append(named[name] + (f' ", " left{number}_{rest}' if rest else after))
        yield f"left{number}_{missing}: {before}({_either(options)})"


def _value(schema: JsonValue, link: str, deep: str) -> str:
    """Return what an argument's value may be: a link fits everywhere, where one value is wanted to one only."""
    if not isinstance(schema, dict):
        return f"(any | {deep})"
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= _CHOICES:
        options = [_text(write_json(links.literal(choice))) for choice in choices]
    else:
        options = [_RULE_OF.get(kind, "any") for kind in _kinds(schema)]
    whole = any(option in ("list", "object", "any") for option in options)
    return f"({_either([*options, deep if whole else link])})"


def _kinds(schema: JsonValue) -> list[str]:
    """Return the types that a value may have; `any` where they are not told plainly."""
    if not isinstance(schema, dict):
        return ["any"]
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list):
        return [kind for option in options for kind in _kinds(option)]
    kind = schema.get("type")
    kinds = [entry for entry in (kind if isinstance(kind, list) else [kind]) if isinstance(entry, str)]
    return [*kinds, *["null"] * (schema.get("nullable") is True)] if kinds else ["any"]


def _quoting(text: str) -> str:
    """Return the rules of values that stand in the text, word for word; without any number there, of all numbers."""
    words = _text(json.dumps(_flat(text), ensure_ascii=False)[1:-1])
    joined = re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", text)  # commas part thousands or values
    spread = re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", " ", f"{text}\n{joined}")
    numbers = re.findall(r"(?<![\w.])-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?![\w]|\.[0-9])", spread)
    numbers = list(dict.fromkeys(reversed(numbers)))[:_NUMBERS]
    whole = [number for number in numbers if "." not in number]
    return "\n".join(
        [
            'string: "\\"" WORDS "\\""',
            f'WORDS: %regex {{"substring_words": {words}}}',
            f"integer: {_either(map(_text, whole)) or _INTEGER}",
            f"number: {_either(map(_text, numbers)) or _NUMBER}",
        ]
    )


def _either(options: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(options))


def _flat(text: str) -> str:
    return " ".join(text.split())


def _text(text: str) -> str:
    """Return a text as a literal of the grammar."""
    return json.dumps(text.encode(errors="replace").decode(), ensure_ascii=False)

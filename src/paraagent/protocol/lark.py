"""The compact dialect as a grammar in Lark, for engines that keep a model within one as it writes.

Place in the flow: layer 2, optional; `policies.guided` writes one per turn. A call in it names a tool that
was shown, behind the search that showed it if it names one; the arguments that this tool requires, and others that it
has; values of their types, choices, or links to calls that there are. Queries and answers are free.
Limits: that a link leads to an earlier line is not told, nor that an optional argument stands there once; of the
schemas only types and choices are. Thoughts and explicit plans are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from paraagent.protocol.compact import argument_name
from paraagent.types import JsonObject, JsonValue, Tool

LINES = 8
"""Searches or calls of a turn at most."""
_MOST = 5
"""Required arguments of which each is told to stand there; of more only their number."""
_BETWEEN = 4
"""Optional arguments before a required one."""
_NUMBERS = 200
"""Quoted numbers that are told apart."""
_DIGIT = "/[0-9]/"
_FIND = f'find: "find" " more"? ("\\n" QUERY){{1,{LINES}}}\nQUERY: /[^\\n]*[^\\s][^\\n]*/'
_SAY = 'say: "say\\n" ANSWER\nANSWER: /(.|\\n)*[^\\s](.|\\n)*/'
_VALUES = r"""
flag: "true" | "false"
list: %json {"type": "array"}
object: %json {"type": "object"}
any: %json {}"""
_ESCAPED = r'\\(["\\\/bfnrt]|u[a-fA-F0-9]{4})'
_REST = rf'([^"\\\x00-\x1F\x7F]|{_ESCAPED})*'
_FREE = rf"""
string: /"(([^"\\$\x00-\x1F\x7F]|\$\$|{_ESCAPED}){_REST})?"/
integer: /-?(0|[1-9][0-9]{{0,17}})/
number: %json {{"type": "number"}}"""
_RULE_OF = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "flag",
    "array": "list",
    "object": "object",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """What one search showed."""

    slot: str
    tools: tuple[Tool, ...]


def turn_grammar(
    shown: Sequence[Shown],
    *,
    known: Sequence[str] = (),
    free: Sequence[str] = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"),
    quoted: str | None = None,
    last: bool = False,
) -> str:
    """Return the grammar of one compact turn, in the dialect of Lark that llguidance reads.

    Args:
        shown: what the agent was shown; without any tool there is nothing to run.
        known: ids of calls that have results.
        free: ids that new calls may have.
        quoted: text in which strings and numbers must stand word for word; None leaves them free.
        last: only an answer is left to be written.
    """
    tools = list({tool.name: tool for one in shown for tool in one.tools}.values())
    if last or not tools:
        return f"start: say\n{_SAY}" if last else f"start: find | say\n{_FIND}\n{_SAY}"
    linked = [name for name in [*known, *free] if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name)]
    place = {tool.name: number for number, tool in enumerate(tools)}
    named = [f"{_text(_flat(one.slot) + ': ')} ID {_calls(one.tools, place)}" for one in shown if one.tools]
    return "\n".join(
        [
            f"start: find | run | say\n{_FIND}\n{_SAY}",
            f'run: "run" " more"? ("\\n" line){{1,{LINES}}}',
            f"line: {_either([f'ID {_calls(tools, place)}', *named])}",
            f'ID: ({_either(map(_text, free))}) " = "',
            rf"LINK: /\$({'|'.join(linked)})([.\[][A-Za-z0-9_.\[\]@-]*)?/",
            *(rule for number, tool in enumerate(tools) for rule in _tool(number, tool)),
            (_FREE if quoted is None else _quoting(quoted)) + _VALUES,
        ]
    )


def _calls(tools: Iterable[Tool], place: Mapping[str, int]) -> str:
    return f"({_either(f'call{place[tool.name]}' for tool in tools)})"


def _tool(number: int, tool: Tool) -> Iterator[str]:
    """Yield the rules of a tool's call."""
    properties = tool.parameters.get("properties")
    known = properties if isinstance(properties, dict) else {}
    named = {name: f"{_text(argument_name(name) + '=')} {_value(schema)}" for name, schema in known.items()}
    wanted = tool.parameters.get("required")
    required = [name for name in named if name in wanted] if isinstance(wanted, list) else []
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


def _in_any_order(number: int, named: Mapping[str, str], required: Sequence[str]) -> Iterator[str]:
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


def _value(schema: JsonValue) -> str:
    """Return what an argument's value may be; a link fits everywhere."""
    if not isinstance(schema, dict):
        return "(any | LINK)"
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and choices:
        options = [_text(json.dumps(choice, ensure_ascii=False)) for choice in choices]
    else:
        options = [_RULE_OF.get(kind, "any") for kind in _kinds(schema)]
    return f"({_either([*options, 'LINK'])})"


def _kinds(schema: JsonObject) -> list[str]:
    kind = schema.get("type")
    if isinstance(kind, list):
        return [entry for entry in kind if isinstance(entry, str)] or ["any"]
    return [kind] if isinstance(kind, str) else ["any"]


def _quoting(text: str) -> str:
    """Return the rules of values that stand in the text, word for word."""
    words = json.dumps(json.dumps(text, ensure_ascii=False)[1:-1], ensure_ascii=False)
    numbers = list(dict.fromkeys(re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\d)", text)))[:_NUMBERS]
    whole = [number for number in numbers if re.fullmatch(r"-?(0|[1-9]\d*)", number)]
    return "\n".join(
        [
            'string: "\\"" WORDS "\\""',
            f'WORDS: %regex {{"substring_words": {words}}}',
            f"integer: {_either(map(_text, whole)) or _DIGIT}",
            f"number: {_either(map(_text, numbers)) or _DIGIT}",
        ]
    )


def _either(options: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(options))


def _flat(text: str) -> str:
    return " ".join(text.split())


def _text(text: str) -> str:
    """Return a text as a literal of the grammar."""
    return json.dumps(text, ensure_ascii=False)

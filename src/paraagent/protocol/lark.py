"""The compact dialect as a grammar in Lark, for engines that keep a model within one as it writes.

Place in the flow: layer 2, optional; `policies.guided` writes one per turn. A call in it names a tool that
was shown, behind the search that showed it if it names one; arguments that this tool has, at least as many as it
requires; values of their types, choices, or links to calls that there are. Queries and answers are free.
Limits: that each required argument stands there exactly once is not told, nor that a link leads to an earlier line;
of the schemas only types and choices are. Thoughts and explicit plans are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paraagent.protocol.compact import argument_name
from paraagent.types import JsonObject, JsonValue, Tool

LINES = 8
"""Searches or calls of a turn at most."""
_NUMBERS = 200
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
    place = {tool.name: number for number, tool in enumerate(tools)}
    named = [f"{_text(_flat(one.slot) + ': ')} ID {_calls(one.tools, place)}" for one in shown if one.tools]
    return "\n".join(
        [
            f"start: find | run | say\n{_FIND}\n{_SAY}",
            f'run: "run" " more"? ("\\n" line){{1,{LINES}}}',
            f"line: {_either([f'ID {_calls(tools, place)}', *named])}",
            f'ID: ({_either(map(_text, free))}) " = "',
            rf"LINK: /\$({'|'.join(re.escape(name) for name in [*known, *free])})([.\[][A-Za-z0-9_.\[\]@-]*)?/",
            *(rule for number, tool in enumerate(tools) for rule in _tool(number, tool)),
            (_FREE if quoted is None else _quoting(quoted)) + _VALUES,
        ]
    )


def _calls(tools: Iterable[Tool], place: Mapping[str, int]) -> str:
    return f"({_either(f'call{place[tool.name]}' for tool in tools)})"


def _tool(number: int, tool: Tool) -> list[str]:
    """Return the rules of a tool's call and of one of its arguments."""
    properties = tool.parameters.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = tool.parameters.get("required")
    least = len({name for name in required if name in known}) if isinstance(required, list) else 0
    begin = _text(f"{tool.name}(")
    if not known:
        return [f'call{number}: {begin} ")"']
    more = f'(", " argument{number}){{{max(0, least - 1)},{len(known) - 1}}}' if len(known) > 1 else ""
    arguments = f"argument{number} {more}"
    inside = arguments if least else f"({arguments})?"
    named = _either(f"{_text(argument_name(name) + '=')} {_value(schema)}" for name, schema in known.items())
    return [f'call{number}: {begin} {inside} ")"', f"argument{number}: {named}"]


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

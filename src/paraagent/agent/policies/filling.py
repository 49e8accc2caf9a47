"""Fills a tool's arguments from a clause of the request, without a model.

Place in the flow: layer 3, used by the `rules` policy. A value is taken when the clause names the parameter right
before it (`the order A17`, `with quantity 3`), when it is the only one of an enum that stands there, or, for a
required parameter, when it is the one literal left that fits its type. Limits: scalars and lists of scalars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from paraagent.catalog.names import BARE_WORDS, noun, path_noun, words
from paraagent.types import JsonObject, JsonValue, Tool

_VALUE = r'(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+))'
_LITERAL = re.compile(r'"(?P<quoted>[^"]*)"|(?P<bare>https?://\S+|[^\s"]*[@\d_][^\s"]*|[^\s"]+[./:][^\s"]+)')
_JOIN = r"(?:\s+(?:set to|equal to|is|of|to|as|with id|with|named|called|id|number|=))*\s+"
SEARCHED = frozenset({"q", "query", "search", "term", "keyword", "keywords", "phrase", "text", "s", "search term"})
_TRUE = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(slots=True)
class Filled:
    """Arguments found for one tool in one clause."""

    arguments: JsonObject = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """Required parameters without a value."""
    used: set[str] = field(default_factory=set)
    """Literals of the clause that went into an argument."""
    unused: int = 0
    """Literals of the clause that no parameter took."""
    guessed: int = 0
    """Required parameters that took a literal only because it was left over."""


def literals(clause: str) -> list[str]:
    """Return what looks like a literal in a clause: quoted text, numbers, identifiers, addresses, dates."""
    return [text for text, _ in _literals(clause)]


def fill(tool: Tool, clause: str) -> Filled:
    """Return the arguments that a clause gives for a tool."""
    filled = Filled()
    properties, required = _schema(tool)
    taken: list[tuple[int, int]] = []
    for name, schema in sorted(properties.items(), key=lambda item: -len(item[0])):
        found = _named(tool, name, schema, clause, taken)
        if found is not None:
            _take(filled, name, *found, taken)
    for name in required:
        if name not in filled.arguments:
            found = _left_over(tool, name, properties.get(name, {}), clause, taken)
            if found is not None:
                _take(filled, name, *found, taken)
                filled.guessed += 1
    filled.missing = tuple(name for name in required if name not in filled.arguments)
    filled.unused = sum(1 for _, span in _literals(clause) if not _overlaps(span, taken))
    filled.arguments = {name: filled.arguments[name] for name in properties if name in filled.arguments}
    return filled


_Span = tuple[int, int]


def _take(filled: Filled, name: str, value: JsonValue, span: _Span, taken: list[_Span]) -> None:
    filled.arguments[name] = value
    filled.used.add(str(value))
    taken.append(span)


def _schema(tool: Tool) -> tuple[dict[str, JsonObject], list[str]]:
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    found = {n: s for n, s in properties.items() if isinstance(s, dict)} if isinstance(properties, dict) else {}
    return found, [str(name) for name in required] if isinstance(required, list) else []


def _literals(clause: str) -> Iterator[tuple[str, _Span]]:
    for match in _LITERAL.finditer(clause):
        text = match["quoted"] if match["quoted"] is not None else _trimmed(match["bare"])
        if text:
            yield text, match.span()


def _names(tool: Tool, name: str) -> list[str]:
    """Return what a clause may call a parameter, the most exact first."""
    parts = words(name)
    spoken = [" ".join(parts)]
    thing = noun(name)
    if thing and thing[-1] in BARE_WORDS:
        owner = thing[:-1] or path_noun(tool.path, name) or noun(tool.resource)
        spoken.append(" ".join(owner))
        if len(owner) > 1:
            spoken.append(owner[-1])
    if len(parts) > 1 and parts[-1] in ("name", "code", "type"):
        spoken.append(" ".join(parts[:-1]))
    return [text for text in dict.fromkeys(spoken) if len(text) > 1]


def _named(
    tool: Tool, name: str, schema: JsonObject, clause: str, taken: list[_Span]
) -> tuple[JsonValue, _Span] | None:
    """Find a value that stands right after one of the parameter's names."""
    spoken = _names(tool, name)
    if {" ".join(words(name))} & SEARCHED:
        spoken.append("for")
    for text in spoken:
        for match in _overlapping(_after(text), clause):
            span = match.span("quoted") if match["quoted"] is not None else match.span("bare")
            if _overlaps(span, taken):
                continue
            value = _value(match, schema, clause)
            if value is not None:
                return value, span
    return None


@lru_cache(maxsize=4096)
def _after(name: str) -> re.Pattern[str]:
    """Return what finds the value after a spoken name."""
    pattern = r"[\s_-]?".join(map(re.escape, name.split()))
    return re.compile(rf"\b{pattern}s?{_JOIN}{_VALUE}", re.IGNORECASE)


def _overlapping(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield matches from every position, so that one that leads nowhere does not hide the next."""
    position = 0
    while match := pattern.search(text, position):
        yield match
        position = match.start() + 1


def _left_over(
    tool: Tool, name: str, schema: JsonObject, clause: str, taken: list[_Span]
) -> tuple[JsonValue, _Span] | None:
    """Find the one literal left that fits; or the one value of an enum that the clause holds."""
    if isinstance(schema.get("enum"), list):
        return _from_enum(schema, clause)
    fits = []
    for text, span in _literals(clause):
        value = convert(text, schema)
        if value is not None and not _overlaps(span, taken):
            fits.append((value, span))
    return fits[0] if fits else None


def _from_enum(schema: JsonObject, clause: str) -> tuple[JsonValue, _Span] | None:
    options = schema.get("enum")
    for option in sorted(map(str, options), key=len, reverse=True) if isinstance(options, list) else ():
        match = re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", clause)
        if match:
            value = convert(option, schema)
            return None if value is None else (value, match.span())
    return None


def _value(match: re.Match[str], schema: JsonObject, clause: str) -> JsonValue:
    if schema.get("type") == "array":
        return _list(
            clause[match.start("quoted") - 1 if match["quoted"] is not None else match.start("bare") :], schema
        )
    quoted = match["quoted"] is not None
    text = match["quoted"] if quoted else _trimmed(match["bare"])
    if not quoted and not _looks_literal(text, schema):
        return None
    return convert(text, schema)


def _list(text: str, schema: JsonObject) -> JsonValue:
    """Read `a and b and c` from the start of a text."""
    items = schema.get("items")
    inner = items if isinstance(items, dict) else {}
    found: list[JsonValue] = []
    end = 0
    for match in re.finditer(rf"(?:^|\s+and\s+|,\s+){_VALUE}", text):
        if match.start() != end:
            break
        word = match["quoted"] if match["quoted"] is not None else _trimmed(match["bare"])
        value = convert(word, inner)
        if value is None or (match["quoted"] is None and not _looks_literal(word, inner)):
            break
        found.append(value)
        end = match.end()
    return found or None


def convert(text: str, schema: JsonObject) -> JsonValue:
    """Return the text as a value of the schema's type, or None if it is none."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), None)
    options = schema.get("enum")
    if kind == "boolean":
        return _TRUE.get(text.lower())
    try:
        value: JsonValue = int(text) if kind == "integer" else float(text) if kind == "number" else text
    except ValueError:
        return None
    if isinstance(value, float) and value.is_integer() and "." not in text:
        value = int(text)
    if kind == "array":
        return _list(text, schema)
    if kind == "object" or (isinstance(options, list) and value not in options):
        return None
    return value if _format_fits(text, str(schema.get("format", ""))) else None


def _format_fits(text: str, wanted: str) -> bool:
    patterns = {
        "email": r"[^@\s]+@[^@\s]+",
        "date": r"\d{4}-\d{2}-\d{2}",
        "date-time": r"\d{4}-\d{2}-\d{2}T.+",
        "uri": r"\w+:.+",
        "uuid": r"[0-9a-fA-F-]{32,36}",
    }
    return wanted not in patterns or re.fullmatch(patterns[wanted], text) is not None


def _looks_literal(text: str, schema: JsonObject) -> bool:
    """Tell whether a bare word can be a value and not just the next word of the sentence."""
    options = schema.get("enum")
    if isinstance(options, list):
        return text in map(str, options)
    if schema.get("type") in ("integer", "number", "boolean"):
        return True
    return re.search(r"[\d_@A-Z./:-]", text) is not None or text.islower() is False


def _trimmed(text: str) -> str:
    return text.rstrip(".,;:!?)").removesuffix("'s").lstrip("(")


def _overlaps(span: _Span, taken: list[_Span]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in taken)

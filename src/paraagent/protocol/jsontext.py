"""JSON as it stands inside a block of the protocol: read strictly, written so that it cannot close its block.

Place in the flow: layer 2; `grammar` reads plans and calls with `read_json`, `render` and `observe` write with
`write_json`. Reading refuses what would be ambiguous or could not be stored later: a key that stands twice in one
object, NaN and Infinity, numbers beyond 64 bits, half surrogates, nesting deeper than 64. A Markdown fence around the
JSON is taken off.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import NoReturn

import orjson

from paraagent.protocol.neutralise import escape_tags, is_storable
from paraagent.types import JsonObject, JsonValue

_MAX_DEPTH = 64


def read_json(text: str) -> JsonValue:
    """Return the one JSON value in `text`.

    Raises:
        ValueError: not one such value; the message says what is wrong and where.
    """
    try:
        value: JsonValue = _DECODER.decode(text := unfence(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise ValueError(f"nested more than {_MAX_DEPTH} levels deep") from None
    if text.count("[") + text.count("{") > _MAX_DEPTH and _deeper_than(value, _MAX_DEPTH):
        raise ValueError(f"nested more than {_MAX_DEPTH} levels deep")
    try:
        orjson.dumps(value)
    except (TypeError, ValueError):
        raise ValueError("holds a number beyond 64 bits (write it as a string) or half a surrogate pair") from None
    return value


def write_json(value: JsonValue, *, compact: bool = False) -> str:
    """Return `value` as JSON on one line; reading it back gives an equal value, and no protocol tag stands in it."""
    text = (_COMPACT if compact else _SPACED).encode(value)
    if not is_storable(text):
        text = json.dumps(value, separators=(",", ":") if compact else None)
    return escape_tags(text, "json")


def unfence(text: str) -> str:
    """Return the inside of a Markdown code fence, or the text itself, without the space around it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3].strip()
    return text


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {twice[:60]!r} stands twice in one object")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:30]} is too large")
    return number


def _deeper_than(value: JsonValue, levels: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels == 0 or _deeper_than(child, levels - 1) for child in children)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_finite)
_SPACED = json.JSONEncoder(ensure_ascii=False)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

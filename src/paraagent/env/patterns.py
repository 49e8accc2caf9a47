"""A text that matches a regular expression, chosen by a number.

Place in the flow: layer 3, used by `ids` and `values` for fields with a `pattern`. The same pattern and number give
the same text in every process. Limits: look-arounds, back references and Unicode classes are not followed, so what
comes out is only likely to match and the caller must check it; `text` is None for a pattern that Python cannot read.
Reads the standard library's own parse of the pattern.
"""

from __future__ import annotations

import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from paraagent.types import JsonObject

_PRINTABLE = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:/@+ "
_CATEGORIES = {op.CATEGORY_DIGIT: "0123456789", op.CATEGORY_SPACE: " ", op.CATEGORY_WORD: _PRINTABLE[:62]}
_USUAL = 8
"""How much longer than its least length a repeated part is made at most, unless a longer text is wanted."""
_MOST = 512
_TEXTS = 48


def texts(schema: JsonObject) -> Iterator[str]:
    """Yield texts of different lengths made after a schema's pattern, most of which the schema allows."""
    pattern, least, most = schema.get("pattern"), schema.get("minLength"), schema.get("maxLength")
    if not isinstance(pattern, str):
        return
    low = least if isinstance(least, int) else 0
    high = most if isinstance(most, int) else _MOST
    for key in range(_TEXTS):
        made = text(pattern, key, (0, max(low, 12))[key % 2])
        if made is not None:
            yield from (made, made[:high])


def text(pattern: str, key: int, length: int = 0) -> str | None:
    """Return a text made after a pattern, every repeat stretched to about `length` if that is not 0."""
    parsed = _parsed(pattern)
    return None if parsed is None else "".join(_Writer(key, length).sequence(parsed))


@lru_cache(maxsize=4096)
def _parsed(pattern: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about syntax that may change its meaning some day
        try:
            return parser.parse(pattern)
        except (parser.error, RecursionError, OverflowError):
            return None


class _Writer:
    """Writes one text; every choice takes the next number of a congruential sequence."""

    def __init__(self, key: int, length: int) -> None:
        self._state = key
        self._length = min(length, _MOST)

    def _choose(self, count: int) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (self._state >> 33) % count

    def sequence(self, nodes: Any) -> list[str]:
        return [piece for code, value in nodes for piece in self._node(code, value)]

    def _node(self, code: Any, value: Any) -> list[str]:
        if code is op.LITERAL:
            return [chr(value)]
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            least, most, inner = value
            more = int(most) - least
            times = least + (min(more, self._length) if self._length else self._choose(min(more, _USUAL) + 1))
            return [piece for _ in range(min(times, _MOST)) for piece in self.sequence(inner)]
        if code is op.SUBPATTERN:
            return self.sequence(value[-1])
        if code is op.ATOMIC_GROUP:
            return self.sequence(value)
        if code is op.BRANCH:
            return self.sequence(value[1][self._choose(len(value[1]))])
        if code in (op.IN, op.ANY, op.NOT_LITERAL):
            letters = _letters(code, value)
            return [letters[self._choose(len(letters))]] if letters else []
        return []


def _letters(code: Any, value: Any) -> str:
    """Return the characters that a class allows, common ones only where it is open."""
    if code is op.ANY:
        return _PRINTABLE[:62]
    if code is op.NOT_LITERAL:
        return _PRINTABLE.replace(chr(value), "")
    negated = bool(value) and value[0][0] is op.NEGATE
    found = "".join(_members(kind, member) for kind, member in value if kind is not op.NEGATE)
    return "".join(letter for letter in _PRINTABLE if letter not in found) if negated else found


def _members(kind: Any, member: Any) -> str:
    if kind is op.LITERAL:
        return chr(member)
    if kind is op.RANGE:
        return "".join(map(chr, range(member[0], min(member[1], member[0] + 255) + 1)))
    return _CATEGORIES.get(member, _PRINTABLE[:26])

"""Characters that a person does not see and a model reads.

Place in the flow: layer 1, used by `screen`. Known harmless uses are left alone: joiners in emoji and in scripts that
need them, flags, single variation selectors, a byte order mark in front.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from paraagent.catalog.screening.mark import Mark, Severity

_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]+")
_SELECTORS = re.compile(
    "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}|(?<![\u3400-\u9fff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]+"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_ANY = re.compile(
    "|".join(pattern.pattern for pattern in (_TAGS, _BIDI, _UNSEEN, _CONTROL))
    + "|[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_FLAG = "\U0001f3f4"
_MANY = 8
"""So many unseen characters may carry a message."""


def hidden(text: str, *, name: bool = False) -> Iterator[Mark]:
    """Mark characters that cannot be seen; in a name none has a harmless use."""
    if not _ANY.search(text):
        return
    for match in _TAGS.finditer(text):
        if not (match.start() and text[match.start() - 1] == _FLAG and len(match[0]) <= 7):
            yield Mark("hidden-text", "high", *match.span(), shown=f"tag characters that say {_tags(match[0])!r}")
    yield from _marks(_BIDI, text, "high", "characters that reverse the order of text")
    for match in _SELECTORS.finditer(text):
        yield Mark(
            "hidden-text", "high", *match.span(), shown=f"{len(match[0])} variation selectors: {_bytes(match[0])!r}"
        )
    found = [match for match in _UNSEEN.finditer(text) if name or not _is_harmless(text, match)]
    many = name or sum(len(match[0]) for match in found) >= _MANY or any(len(match[0]) > 3 for match in found)
    for match in found[:1]:
        yield Mark("hidden-text", "high" if many else "medium", *match.span(), shown=_named(match[0]))
    yield from _marks(_CONTROL, text, "high" if name or "\x1b" in text else "medium", "control characters")


def visible(text: str) -> str:
    """Return the text as a model may read it once what cannot be seen is taken out, tags decoded."""
    if text.isascii() or not _ANY.search(text):
        return text
    return _ANY.sub(lambda match: _tags(match[0]), text)


def _marks(pattern: re.Pattern[str], text: str, severity: Severity, what: str) -> Iterator[Mark]:
    match = pattern.search(text)
    if match:
        yield Mark("hidden-text", severity, *match.span(), shown=f"{what}: {_named(match[0])}")


def _is_harmless(text: str, match: re.Match[str]) -> bool:
    before = text[match.start() - 1] if match.start() else ""
    after = text[match.end()] if match.end() < len(text) else ""
    if match[0] == "\ufeff":
        return not before
    if match[0] in ("\u200c", "\u200d", "\u200e", "\u200f"):
        return any(char and not char.isascii() for char in (before, after))
    return match[0] == "\u00ad" and before.isalpha() and after.isalpha()


def _tags(text: str) -> str:
    return "".join(chr(ord(char) - 0xE0000) for char in text if 0xE0020 <= ord(char) < 0xE007F)


def _bytes(text: str) -> str:
    """Return the bytes that variation selectors stand for, as they are used to hide them."""
    values = (ord(char) - 0xFE00 if ord(char) < 0xFFFF else ord(char) - 0xE0100 + 16 for char in text)
    return bytes(value for value in values if value < 256).decode("utf-8", "replace")


def _named(text: str) -> str:
    names = dict.fromkeys(unicodedata.name(char, f"U+{ord(char):04X}").lower() for char in text[:20])
    return ", ".join(list(names)[:3])

"""Untrusted text made harmless: no tag of the protocol, in any spelling, survives in it.

Place in the flow: layer 2, below everything that writes text a model will read. Tool names, descriptions, results and
error messages come from strangers; a `</tool_response>` in them could close its block and speak as the system. The
opening bracket of whatever reads as a protocol tag is replaced: inside JSON by its `\\u003c` escape, which changes no
value, elsewhere by `&lt;`. Upper case, spaces inside the tag, attributes, zero-width characters, accents, full-width,
Cyrillic and Greek look-alikes are seen through, and so are the control tokens `<|...|>` of chat templates.
Text that is already an HTML entity is left as it is, since it forms no tag. Limits: tags only; what the text *says*
is not judged here.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

TAGS = ("think", "plan", "search_tool", "tool_call", "answer", "tools", "tool_response")

_BRACKETS = "<＜﹤‹〈〈⟨❮❰⧼˂ᐸ≺⋖«"
_NAMES = "|".join(tag.replace("_", r"[\s_-]*") for tag in TAGS)
_TAG = re.compile(rf"<(?=\s*(?:[/\\]\s*)?(?:{_NAMES})(?![a-z0-9_])|\|)")
_LOOKALIKES = str.maketrans(
    "аαɑсϲеєһіıιкκӏǀɩпηоοσрρгѕтτѡωԝ‐‑‒–—―−⁄∕⧸¦∣",
    "aaacceehiiikkllinnooopprsttwww-------///||",
)


def neutralise(text: str) -> str:
    """Return plain text in which nothing reads as a protocol tag; all else but half surrogates is unchanged."""
    return escape_tags(text if is_storable(text) else text.encode("utf-8", "replace").decode(), "text")


def is_storable(text: str) -> bool:
    """Tell whether text can be written as UTF-8, that is, holds no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escape_tags(text: str, inside: Literal["text", "json"]) -> str:
    """Replace the opening bracket of everything that reads as a protocol tag, by its escape in JSON or by `&lt;`."""
    if not ("<" in text if text.isascii() else any(bracket in text for bracket in _BRACKETS)):
        return text
    places = _tag_places(text)
    if not places:
        return text
    pieces: list[str] = []
    position = 0
    for place in places:
        pieces += text[position:place], f"\\u{ord(text[place]):04x}" if inside == "json" else "&lt;"
        position = place + 1
    return "".join([*pieces, text[position:]])


def _tag_places(text: str) -> list[int]:
    if text.isascii() and text.isprintable():
        return [match.start() for match in _TAG.finditer(text.lower())]
    plain = [(letter, index) for index, char in enumerate(text) for letter in _plain(char)]
    skeleton = "".join(letter for letter, _ in plain)
    return sorted({plain[match.start()][1] for match in _TAG.finditer(skeleton)})


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    """Return the plain lower-case letters that a character looks like; nothing for an invisible one."""
    if char.isspace():
        return " "
    if char in _BRACKETS:
        return "<"
    letters = unicodedata.normalize("NFKD", char).casefold().translate(_LOOKALIKES)
    return "".join(letter for letter in letters if unicodedata.category(letter) not in ("Mn", "Me", "Cf", "Cc", "Cn"))

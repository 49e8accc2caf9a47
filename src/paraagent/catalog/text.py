"""Plain prose from HTML and Markdown.

Place in the flow: layer 1, used by every catalog source for the descriptions it reads. Pure; keeps no markup.
"""

from __future__ import annotations

import html
import re

_MARKUP = re.compile(r"[<>`*#|\[\]&~\n\r\t]|  ")
_TAG = re.compile(r"</?[a-zA-Z!][^<>]{0,2000}>")
_INLINE = re.compile(
    r"</?(?:a|b|i|u|em|code|span|strong|tt|kbd|sup|sub|small|font)(?:\s[^<>]{0,2000})?>", re.IGNORECASE
)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s[^()]*)?\)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+", re.MULTILINE)
_TABLE = re.compile(r"\|[-:| ]*")
_SPACE_BEFORE_STOP = re.compile(r" ([.,;:!?])(?=\s|$)")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")


def clean(text: object, limit: int) -> str:
    """Return one plain paragraph of at most `limit` characters, without HTML or Markdown; "" for anything but text.

    It is cut after a whole sentence where one ends in the second half, else after a word with "..." added.
    """
    if not isinstance(text, str):
        return ""
    text = text[: 4 * limit + 1000]
    if _MARKUP.search(text) or not text.isprintable():
        text = _strip(text)
    text = text.strip()
    return text if len(text) <= limit else _cut(text, limit)


def _strip(text: str) -> str:
    """Remove markup; each pattern runs only where its first character occurs, since there are millions of texts."""
    if "`" in text:
        text = _FENCE.sub(" ", text).replace("`", "")
    if "<" in text:
        text = _TAG.sub(" ", _INLINE.sub("", text))
    if "&" in text:
        text = html.unescape(text)
    if "[" in text:
        text = _LINK.sub(r"\1", text)
    if "#" in text:
        text = _HEADING.sub("", text)
    if "|" in text:
        text = _TABLE.sub(" ", text)
    text = " ".join(text.replace("*", "").replace("~~", "").split())
    if not text.isprintable():
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return _SPACE_BEFORE_STOP.sub(r"\1", text)


def _cut(text: str, limit: int) -> str:
    ends = [match.end() for match in _SENTENCE_END.finditer(text[: limit + 1]) if match.end() <= limit]
    if ends and ends[-1] >= limit // 2:
        return text[: ends[-1]]
    head = text[: limit - 3]
    return (head.rsplit(" ", 1)[0] if " " in head else head).rstrip(" ,;:") + "..."

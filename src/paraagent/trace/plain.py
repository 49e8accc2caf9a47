"""Untrusted text made safe to print: no escape sequences, no invisible or direction-changing characters.

Place in the flow: layer 1; everything that shows a trace or a server's message to a person passes text through here.
Limits: this protects a terminal, not a model; the prompt has its own neutralising.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline; ESC and the one-byte CSI among them
    "\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, separators, bidirectional
    "\ud800-\udfff\U000e0000-\U000e007f]"  # lone surrogates, tag characters
)


def plain(text: str) -> str:
    """Return text with each unsafe character written as its escape (`\\x1b`), newlines kept and tabs widened."""
    text = text.replace("\r\n", "\n").expandtabs(4)
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str, limit: int = 200) -> str:
    """Return safe text on one line of at most `limit` characters; white space collapses, the cut shows as `…`."""
    flat = plain(" ".join(text[: 8 * limit].split()))
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"

"""Encoded text, links and secrets inside a description.

Place in the flow: layer 1, used by `screen`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from paraagent.catalog.screening.mark import Mark

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,}={0,2}(?![A-Za-z0-9+/_-])")
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){30,}(?![0-9A-Fa-f])")
_PROSE = re.compile(r"(?:[A-Za-z]{2,}[ ,.]+){3}")
_PASSWORD = re.compile(r"https?://[^\s/@:<>{}\[\]$]+:[^\s/@<>{}\[\]$*]{6,}@[\w.-]+")
_EXAMPLES = re.compile(r"example|user|pass|secret|login|your|xxx|foo|\.\.\.", re.IGNORECASE)
_COLLECTOR = re.compile(
    r"\b(?:webhook\.site|requestbin\.(?:com|net)|pipedream\.net|beeceptor\.com|requestcatcher\.com|interact\.sh|oastify\.com|"
    r"burpcollaborator\.net|oast\.(?:fun|me|pro|live|site)|trycloudflare\.com)\b",
    re.IGNORECASE,
)
_IMAGE = re.compile(r"!\[[^\]]*\]\(\s*https?://[^)\s]*[?&=/][^)\s]*[{<$][^)]*\)", re.IGNORECASE)
_SECRET = re.compile(
    r"\b(?:AKIA(?!\w*EXAMPLE)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|xox[abprs]-\d[\w-]{20,}|"
    r"sk-(?:proj-|ant-)?(?=\w*\d)(?=\w*[A-Z])\w{24,}|AIza[\w-]{35})\b"
)


def data(text: str) -> Iterator[Mark]:
    """Mark links that carry or collect data, and secrets."""
    if "http" in text or "." in text:
        for match in _IMAGE.finditer(text):
            yield Mark("link", "high", *match.span(), shown="an image whose address carries data away")
        for match in _COLLECTOR.finditer(text):
            yield Mark("link", "medium", *match.span(), shown="a place that collects requests")
        for match in _PASSWORD.finditer(text):
            if not _EXAMPLES.search(match[0]):
                yield Mark("secret", "medium", *match.span(), shown="an address with a password")
    if key := _SECRET.search(text):
        yield Mark("secret", "medium", *key.span(), shown=f"a key: {key[0][:8]}...")


def encoded(text: str) -> Iterator[tuple[Mark, str]]:
    """Mark Base64 and hexadecimal that hold prose, each with what it says."""
    if len(text) < 40:
        return
    for pattern, decode in ((_HEX, bytes.fromhex), (_BASE64, _from_base64)):
        for match in pattern.finditer(text):
            said = decode(match[0]).decode("utf-8", "replace")
            if _PROSE.search(said):
                yield Mark("encoded", "low", *match.span(), shown=f"encoded text that says {said[:80]!r}"), said


def _from_base64(text: str) -> bytes:
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""

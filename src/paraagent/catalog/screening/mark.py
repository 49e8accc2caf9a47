"""What a check of the lint found in a text.

Place in the flow: layer 1, shared by the modules beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["high", "medium", "low"]
Rule = Literal[
    "hidden-text",
    "mixed-script",
    "override",
    "secrecy",
    "tool-order",
    "addressing",
    "protocol-tag",
    "exfiltration",
    "consent",
    "redirection",
    "phishing",
    "reply",
    "command",
    "threat",
    "encoded",
    "link",
    "secret",
    "look-alike",
    "same-name",
]


@dataclass(frozen=True, slots=True)
class Mark:
    """One suspicious stretch of a text."""

    rule: Rule
    severity: Severity
    start: int
    end: int
    shown: str = ""
    """What stands there in truth, if it cannot be seen: decoded text, or names of characters."""

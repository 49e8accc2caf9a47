"""What an agent can know from what it was shown: fields on a tool's card, and texts in messages.

Place in the flow: layer 5; the experts link only along fields that a card shows, `screen` refuses demonstrations
whose calls hold names or values that no message has shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from paraagent.protocol.card import card
from paraagent.types import JsonValue, Tool


def reachable(tool: Tool, link: str) -> bool:
    """Tell whether every field of a link `$id.path` stands in the result part of the tool's card."""
    result = card(tool).rpartition(" -> ")[2]
    fields = set(re.findall(r"[^\s,{}\[\]]+", result))
    steps = [step for step in re.split(r"[.\[\]]+", link)[1:] if step and not step.isdigit()]
    return fields.issuperset(steps)


def scalars(value: JsonValue) -> Iterator[str | int | float]:
    """Yield the texts and numbers inside a JSON value; booleans and null need not be shown anywhere."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from scalars(child)


def holds(text: str, value: str | int | float) -> bool:
    """Tell whether a message shows a value, plain or as JSON."""
    plain = str(value)
    return plain in text or json.dumps(value, ensure_ascii=False).strip('"') in text

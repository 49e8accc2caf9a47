"""A result cut down to what a small model can read: first items, first fields, no deep nesting, the start of texts.

Place in the flow: layer 2, used by the compact dialect. What is cut is said so in its place; the trace keeps it all.
"""

from __future__ import annotations

from dataclasses import dataclass

from paraagent.types import JsonValue


@dataclass(frozen=True, slots=True)
class View:
    """How much of what came back is shown."""

    tools: int = 3
    """Of each search."""
    items: int = 1
    """Of each list."""
    fields: int = 24
    """Of each object."""
    depth: int = 4
    """Objects and lists inside each other; what lies deeper is left out."""
    text: int = 100
    """Characters of each text."""


def shorten(value: JsonValue, view: View) -> JsonValue:
    """Return a copy of a value with no more in it than the view shows."""
    return _shorten(value, view, view.depth)


def _shorten(value: JsonValue, view: View, depth: int) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= view.text else value[: view.text] + "..."
    if not isinstance(value, list | dict) or not value:
        return value
    if not depth:
        return "..."
    if isinstance(value, list):
        shown = [_shorten(item, view, depth - 1) for item in value[: view.items]]
        return shown if len(value) <= view.items else [*shown, f"+{len(value) - view.items}"]
    kept = {key: _shorten(child, view, depth - 1) for key, child in list(value.items())[: view.fields]}
    return kept if len(value) <= view.fields else kept | {"...": f"+{len(value) - view.fields}"}

"""Linked calls: an argument `$id.path.to.field` stands for a value in another call's result.

Place in the flow: layer 2; the scheduler resolves links before it dispatches, the plan monitor and the task record
read which calls an argument waits for. A string is a link if it *starts* like one: `$`, an id (a letter or `_`, then
letters, digits, `_`, `-`), then the end, a `.` or a `[`. So `$5.00`, `$`, `${x}`, `$.store` and `$HOME/bin` are plain
text, while a link whose id or path does not exist fails loudly instead of being sent as text. `$$` at the start
stands for one literal `$` (`$$total` is the text `$total`). List items are `.0` or `[0]`; a key that holds dots is
found too (`$a.@odata.id`). Limits: a link is a whole string, never a part of one; a key that holds a bracket, or more
than seven dots, cannot be named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from paraagent.errors import ToolFailure
from paraagent.types import JsonValue

_ID = r"[A-Za-z_][A-Za-z0-9_-]*"
_WHOLE_ID = re.compile(_ID)
_LINK = re.compile(rf"\$({_ID})((?:[.\[].*)?)", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_KEYS_SHOWN = 12
_JOINED = 8


class LinkError(ToolFailure):
    """A link that cannot be resolved; the message names the path and what there was instead."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_args", message)


def is_id(text: str) -> bool:
    """Tell whether a call may carry this id, that is, whether `$id` can link to it."""
    return len(text) <= 64 and _WHOLE_ID.fullmatch(text) is not None


def resolve(value: JsonValue, results: Mapping[str, JsonValue]) -> JsonValue:
    """Return a copy of `value` with every link replaced by what it points to in `results`, which is keyed by call id.

    Raises:
        LinkError: a link's id is not in `results`, or its path does not exist there.
    """
    if isinstance(value, str):
        return _resolve_text(value, results)
    if isinstance(value, dict):
        return {key: resolve(child, results) for key, child in value.items()}
    if isinstance(value, list):
        return [resolve(child, results) for child in value]
    return value


def upstream(value: JsonValue) -> list[str]:
    """Return the ids that `value` links to, each once, in order of appearance."""
    return list(dict.fromkeys(_ids(value)))


def escape(text: str) -> str:
    """Return the string that `resolve` turns into exactly `text`, whatever it looks like."""
    return "$" + text if text.startswith("$$") or _LINK.fullmatch(text) else text


def literal(value: JsonValue) -> JsonValue:
    """Return the value that `resolve` turns into exactly `value`: nothing in it reads as a link."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {key: literal(child) for key, child in value.items()}
    return [literal(child) for child in value] if isinstance(value, list) else value


def _ids(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        if match := _LINK.fullmatch(value):
            yield match[1]
        return
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _ids(child)


def _resolve_text(text: str, results: Mapping[str, JsonValue]) -> JsonValue:
    if text.startswith("$$"):
        return text[1:]
    match = _LINK.fullmatch(text)
    if match is None:
        return text
    if match[1] not in results:
        known = ", ".join(sorted(results)[:_KEYS_SHOWN]) or "none"
        raise LinkError(
            f"link {_short(text)}: no result of a call with id {match[1]!r} (ids there are: {known}); "
            f"for plain text write {_short('$' + text)}"
        )
    return _follow(results[match[1]], _steps(text, match[2]), text)


def _steps(link: str, path: str) -> list[str]:
    """Split `.a[0].b` into its keys."""
    steps: list[str] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise LinkError(f"link {_short(link)}: the path must look like .field.0.field or .field[0].field")
        steps.append(match[1] or match[2])
        position = match.end()
    return steps


def _follow(value: JsonValue, steps: list[str], link: str) -> JsonValue:
    done = 0
    while done < len(steps):
        used = _step_length(value, steps[done:])
        if not used:
            raise LinkError(f"link {_short(link)}: no {steps[done]!r} in {_describe(value, steps[:done])}")
        key = ".".join(steps[done : done + used])
        value = value[key] if isinstance(value, dict) else value[int(key)] if isinstance(value, list) else None
        done += used
    return value


def _step_length(value: JsonValue, steps: list[str]) -> int:
    """Return how many steps name one key of `value`: 1, or more for a key that holds dots; 0 if there is none."""
    if isinstance(value, dict):
        lengths = range(1, min(len(steps), _JOINED) + 1)
        return next((used for used in lengths if ".".join(steps[:used]) in value), 0)
    index = steps[0]
    in_list = isinstance(value, list) and index.isascii() and index.isdigit() and len(index) < 10
    return int(in_list and int(index) < len(value)) if isinstance(value, list) else 0


def _describe(value: JsonValue, steps: list[str]) -> str:
    """Say what stands at the place where the path broke off."""
    place = f"{'.'.join(steps)!r}" if steps else "the result"
    if isinstance(value, dict):
        keys = list(value)
        more = f" and {len(keys) - _KEYS_SHOWN} more" if len(keys) > _KEYS_SHOWN else ""
        return f"{place}; keys there: {', '.join(map(_short, keys[:_KEYS_SHOWN])) or 'none'}{more}"
    if isinstance(value, list):
        return f"{place}, a list of {len(value)} items; use an index from 0"
    return f"{place}, which is {_short(repr(value))} and has no fields"


def _short(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"

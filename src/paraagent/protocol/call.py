"""The body of a `<tool_call>` block: one JSON object with `name`, `arguments` and, for linked calls, `id`.

Place in the flow: layer 2, part of `grammar`. A body that cannot be read becomes a `BrokenCall` in its place, so that
every block still gets exactly one answer. Missing arguments mean `{}`, arguments may be a JSON string of an object
and a fence may stand around the JSON (all three are told, not refused). Any other key is refused: a misspelt
`parameters` must not silently become a call without arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paraagent.protocol.jsontext import read_json
from paraagent.protocol.links import is_id
from paraagent.types import Call, JsonObject, JsonValue, ToolError

CallFault = tuple[Literal["bad_call_json", "duplicate_call_id", "loose_call"], str]

_KEYS = {"name", "arguments", "id"}


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """A call block that cannot be run."""

    text: str
    reason: str
    name: str = ""
    """The tool's name, if that much could be read."""
    id: str | None = None
    """The call's id, if that much could be read."""

    @property
    def error(self) -> ToolError:
        """The answer this block gets in place of a tool's."""
        return ToolError("invalid_args", self.reason)

    def as_call(self) -> Call:
        """Return a call to stand in its place, which must not run."""
        return Call(self.name, {}, self.id)


def read_calls(bodies: Sequence[str]) -> tuple[list[Call | BrokenCall], list[CallFault]]:
    """Read the call blocks of one turn, in order, and what was wrong with them."""
    calls: list[Call | BrokenCall] = []
    faults: list[CallFault] = []
    ids: set[str] = set()
    for body in bodies:
        call, loose = _read_call(body)
        if isinstance(call, Call) and call.id in ids:
            reason = f"the id {call.id!r} is taken by an earlier call of this turn; give every call its own id"
            call = BrokenCall(body, reason, call.name)
            faults.append(("duplicate_call_id", f"A call was not run: {reason}."))
        elif isinstance(call, BrokenCall):
            faults.append(("bad_call_json", f"A call was not run: {call.reason}."))
        elif loose:
            faults.append(("loose_call", 'Write a call as {"name": "...", "arguments": {...}}, arguments an object.'))
        if call.id is not None:
            ids.add(call.id)
        calls.append(call)
    return calls, faults


def _read_call(body: str) -> tuple[Call | BrokenCall, bool]:
    """Return the call, and whether its form was loose."""
    try:
        value = read_json(body)
    except ValueError as error:
        return BrokenCall(body, f"the call is {error}"), False
    if not isinstance(value, dict):
        return BrokenCall(body, "a call is one JSON object per <tool_call> block"), False
    name, call_id, given = value.get("name"), value.get("id"), value.get("arguments", {})
    arguments = _arguments(given)
    known_name = name.strip() if isinstance(name, str) else ""
    known_id = call_id if isinstance(call_id, str) and is_id(call_id) else None
    if reason := _wrong(value, known_name, known_id, arguments):
        return BrokenCall(body, reason, known_name, known_id), False
    assert not isinstance(arguments, str)
    loose = "arguments" not in value or arguments is not given or body.startswith("```")
    return Call(known_name, arguments, known_id), loose


def _wrong(value: JsonObject, name: str, call_id: str | None, arguments: JsonObject | str) -> str | None:
    """Return what is wrong with a call object, or None."""
    if not name:
        return "the call lacks a name"
    if not value.keys() <= _KEYS:
        return f"the call has the key {min(value.keys() - _KEYS)[:60]!r}; the keys are name, arguments and id"
    if call_id is None and value.get("id") is not None:
        return "the id of a call is a string of letters, digits, _ and - that starts with a letter or _"
    return arguments if isinstance(arguments, str) else None


def _arguments(given: JsonValue) -> JsonObject | str:
    """Return the arguments as an object, or what is wrong with them."""
    if isinstance(given, str):
        try:
            given = read_json(given)
        except ValueError as error:
            return f"the arguments are a string that is {error}"
    return given if isinstance(given, dict) else "the arguments are not a JSON object"

"""Demonstrations as JSON lines: our chat format, and the ShareGPT format of published sets; both read and written.

Place in the flow: layer 5, between `demo` and files. One row per line:

    chat       {"task_id", "kind", "split", "dataset", "messages": [{"role", "content"}], "loss": [bool], "meta": {}}
    sharegpt   {"system", "conversations": [{"from": "human" | "gpt", "value"}], "task_id", "dataset"}

Which one a row is, its keys tell. Reading and writing a row again gives an equal row. Limits: ShareGPT has no place
for a loss mask, so a demonstration with turns that must not be learned has no such row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import orjson

from paraagent.demos.demo import Demo
from paraagent.errors import EnvironmentFault
from paraagent.types import JsonObject, JsonValue, Message

Format = Literal["chat", "sharegpt"]
OnError = Literal["skip", "fail"]
_ROLES: dict[str, Literal["user", "assistant"]] = {"human": "user", "gpt": "assistant"}
_CHAT_ROLES: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
}
_SPEAKERS = {role: speaker for speaker, role in _ROLES.items()}
_SHAREGPT_KEYS = ("system", "conversations", "task_id", "dataset")


class RowError(ValueError):
    """A row that is no demonstration; the message says what is wrong with it."""


def row(demo: Demo, form: Format) -> JsonObject | None:
    """Return the demonstration as a row, or None if this format cannot hold it."""
    return _chat_row(demo) if form == "chat" else _sharegpt_row(demo)


def line(demo: Demo, form: Format) -> bytes | None:
    """Return the row as a line of a file; the same demonstration always gives the same bytes."""
    found = row(demo, form)
    return None if found is None else orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE)


def from_row(value: JsonValue) -> Demo:
    """Read one row of either format.

    Raises:
        RowError: it is neither.
    """
    if not isinstance(value, dict):
        raise RowError("not a JSON object")
    if "conversations" in value:
        demo = _from_sharegpt(value)
    elif "messages" in value:
        demo = _from_chat(value)
    else:
        raise RowError("has neither `messages` (chat) nor `conversations` (ShareGPT)")
    _check_order(demo.messages)
    return demo


def read(path: Path, on_error: OnError = "fail", on_skip: Callable[[int, str], None] | None = None) -> Iterator[Demo]:
    """Yield the demonstrations of a file, one line at a time; empty lines are passed over.

    Args:
        on_error: whether a malformed row ends the reading or is left out.
        on_skip: told the line number, from 1, and the reason for every row that is left out.

    Raises:
        EnvironmentFault: the file cannot be read, or a row is malformed and `on_error` is `fail`.
    """
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    continue
                try:
                    yield from_row(orjson.loads(text))
                except ValueError as error:
                    reason = str(error) if isinstance(error, RowError) else f"not valid JSON: {error}"
                    if on_error == "fail":
                        raise EnvironmentFault(f"{path}, line {number}: {reason}") from None
                    if on_skip is not None:
                        on_skip(number, reason)
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot read the demonstrations ({error.strerror})") from None


def _chat_row(demo: Demo) -> JsonObject:
    return {
        "task_id": demo.task_id,
        "kind": demo.kind,
        "split": demo.split,
        "dataset": demo.dataset,
        "messages": [{"role": message.role, "content": message.content} for message in demo.messages],
        "loss": [*demo.loss],
        "meta": demo.meta,
    }


def _from_chat(value: JsonObject) -> Demo:
    messages = tuple(_message(entry, number) for number, entry in enumerate(_list(value, "messages"), 1))
    spoken = [message.role == "assistant" for message in messages]
    loss = _list(value, "loss") if "loss" in value else [*spoken]
    if len(loss) != len(messages) or not all(isinstance(wanted, bool) for wanted in loss):
        raise RowError("`loss` must hold one true or false per message")
    if any(wanted and not said for wanted, said in zip(loss, spoken, strict=True)):
        raise RowError("`loss` marks a message that is not the assistant's")
    meta = value.get("meta", {})
    if not isinstance(meta, dict):
        raise RowError("`meta` must be an object")
    return Demo(
        _text(value, "task_id"),
        messages,
        tuple(wanted is True for wanted in loss),
        _text(value, "kind", ""),
        _text(value, "split", ""),
        _text(value, "dataset", ""),
        meta,
    )


def _sharegpt_row(demo: Demo) -> JsonObject | None:
    spoken = [message.role == "assistant" for message in demo.messages]
    if [*demo.loss] != spoken:
        return None
    system = demo.messages[0].content if demo.messages[0].role == "system" else ""
    rest = demo.messages[1:] if demo.messages[0].role == "system" else demo.messages
    found: JsonObject = {
        "system": system,
        "conversations": [{"from": _SPEAKERS[m.role], "value": m.content} for m in rest if m.role != "system"],
        "task_id": demo.task_id,
        "dataset": demo.dataset,
    }
    extra = demo.meta.get("extra")
    return found | extra if isinstance(extra, dict) else found


def _from_sharegpt(value: JsonObject) -> Demo:
    system = _text(value, "system")
    messages = [Message("system", system)] if system else []
    messages += [_turn(entry, number) for number, entry in enumerate(_list(value, "conversations"), 1)]
    extra = {name: kept for name, kept in value.items() if name not in _SHAREGPT_KEYS}
    return Demo(
        _text(value, "task_id"),
        tuple(messages),
        tuple(message.role == "assistant" for message in messages),
        dataset=_text(value, "dataset"),
        meta={"extra": extra} if extra else {},
    )


def _message(entry: JsonValue, number: int) -> Message:
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise RowError(f"message {number} must be an object with `role` and a text as `content`")
    role = entry.get("role")
    if not isinstance(role, str) or role not in _CHAT_ROLES:
        raise RowError(f"message {number} has the role {str(role)[:40]!r}: use system, user or assistant")
    return Message(_CHAT_ROLES[role], str(entry["content"]))


def _turn(entry: JsonValue, number: int) -> Message:
    if not isinstance(entry, dict) or not isinstance(entry.get("value"), str):
        raise RowError(f"conversation entry {number} must be an object with `from` and a text as `value`")
    speaker = entry.get("from")
    if not isinstance(speaker, str) or speaker not in _ROLES:
        raise RowError(f"conversation entry {number} is from {str(speaker)[:40]!r}: use human or gpt")
    return Message(_ROLES[speaker], str(entry["value"]))


def _check_order(messages: tuple[Message, ...]) -> None:
    """Raise RowError unless user and assistant take turns, after at most one system message, and none is empty."""
    spoken = messages[1:] if messages and messages[0].role == "system" else messages
    if not spoken:
        raise RowError("holds no conversation")
    for number, message in enumerate(spoken):
        wanted = "assistant" if number % 2 else "user"
        if message.role != wanted:
            raise RowError(f"entry {number + 1} of the conversation is the {message.role}'s, not the {wanted}'s")
        if not message.content.strip():
            raise RowError(f"entry {number + 1} of the conversation is empty")
    if len(spoken) % 2:
        raise RowError("the conversation does not end with the assistant")


def _list(value: JsonObject, name: str) -> list[JsonValue]:
    found = value.get(name)
    if not isinstance(found, list):
        raise RowError(f"`{name}` must be a list")
    return found


def _text(value: JsonObject, name: str, default: str | None = None) -> str:
    found = value.get(name, default)
    if not isinstance(found, str):
        raise RowError(f"`{name}` must be a text" if name in value else f"`{name}` is missing")
    return found

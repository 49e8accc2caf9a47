"""Writes one episode's events: always to memory and, with a path, to an append-only file of JSON lines.

Place in the flow: layer 1; the loop and the scheduler's observer write here, `trace.view` reads the same events back.
Every event reaches the operating system before `write` returns, so a killed process loses nothing; `durable=True`
also survives a power cut. A group is made durable at the price of one sync: write its events, the last one durable.
Limits: one recorder has one writer. A failed write leaves at most a torn last line and closes the file for good.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from paraagent.errors import TraceError
from paraagent.trace.events import Event
from paraagent.trace.reader import unfinished

_MAX_DEPTH = 100
_encode = msgspec.json.Encoder(enc_hook=str).encode

E = TypeVar("E", bound=Event)


class Recorder:
    """The trace of a running episode.

    Args:
        path: the file to create, parents included; None keeps the events in memory only.
        redact: takes what is secret out of a text, as made by `redactor`. It is asked once about a whole JSON line,
            so it has to find its targets there, and only if it would change the line about each text in it.

    Raises:
        TraceError: the file exists already or cannot be created.
    """

    def __init__(self, path: Path | None = None, *, redact: Callable[[str], str] | None = None) -> None:
        self.path = path
        self.events: list[Event] = []
        """Everything written so far, as it stands in the file."""
        self._redact = redact
        self._file = None if path is None else _create(path)
        self._named = False

    @classmethod
    def resume(cls, path: Path, *, redact: Callable[[str], str] | None = None) -> Recorder:
        """Open the trace of a stopped episode to go on with it.

        A last line that was cut short is removed, and so is an end that says the episode was cut off (`mask_sample`).

        Raises:
            TraceError: the trace is damaged, its episode has ended, or the file cannot be written.
        """
        events, size = unfinished(path)
        recorder = cls(None, redact=redact)
        recorder.path = path
        recorder.events = list(events)
        recorder._file = _reopen(path, size)
        return recorder

    def write(self, event: Event, durable: bool = False) -> None:
        """Append one event; `durable` returns only once it and all before it are on disk.

        Raises:
            TraceError: the recorder is closed, or the file cannot be written.
        """
        if self.path is None and self._redact is None:
            self.events.append(event)
            return
        event, line = _encoded(event)
        if self._redact is not None and self._redact(text := line.decode()) != text:
            event, line = _encoded(_rewrite(event, self._redact))
        if self.path is not None:
            self._append(line)
            if durable:
                self._sync()
        self.events.append(event)

    def close(self) -> None:
        """Close the file; the events stay readable. Closing again does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, line: bytes) -> None:
        if self._file is None:
            raise TraceError(f"{self.path}: the trace is closed; open a new one to record further events")
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as err:
            raise self._broken(err) from err

    def _sync(self) -> None:
        assert self._file is not None
        assert self.path is not None
        try:
            os.fsync(self._file)
            if not self._named:  # a new file is safe only once its directory is, too
                _sync_directory(self.path.parent)
                self._named = True
        except OSError as err:
            raise self._broken(err) from err

    def _broken(self, err: OSError) -> TraceError:
        self.close()
        return TraceError(
            f"{self.path}: cannot write the trace ({err.strerror}); free some space or choose another path"
        )


def redactor(secrets: Iterable[str], mark: str = "[secret]") -> Callable[[str], str]:
    """Return a function that replaces every given secret inside a text; those under 6 characters are ignored."""
    forms = {
        form
        for secret in secrets
        if len(secret) >= 6
        for form in (secret, json.dumps(secret, ensure_ascii=False)[1:-1])
    }
    known = sorted(forms, key=len, reverse=True)

    def redact(text: str) -> str:
        for secret in known:
            text = text.replace(secret, mark)
        return text

    return redact


def _create(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o644)
    except OSError as err:
        if path.exists():
            raise TraceError(f"{path}: exists already and is never overwritten; choose another path") from err
        raise TraceError(f"{path}: cannot create the trace ({err.strerror})") from err


def _reopen(path: Path, size: int) -> int:
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
        os.ftruncate(file, size)
    except OSError as err:
        raise TraceError(f"{path}: cannot go on with the trace ({err.strerror})") from err
    return file


def _sync_directory(path: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there; NTFS journals names by itself
        return
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _encoded(event: E) -> tuple[E, bytes]:
    """Return the event and its line; what no JSON file can hold is replaced in both."""
    try:
        return event, _encode(event) + b"\n"
    except (UnicodeEncodeError, RecursionError, TypeError):
        event = _rewrite(event, lambda text: text.encode("utf-8", "replace").decode())
        return event, _encode(event) + b"\n"


def _rewrite(event: E, fix: Callable[[str], str]) -> E:
    """Return the event with `fix` applied to every text in it, keys included."""
    fields = {name: _map_text(getattr(event, name), fix) for name in event.__struct_fields__}
    return msgspec.structs.replace(event, **fields)


def _map_text(value: object, fix: Callable[[str], str], depth: int = 0) -> object:
    if isinstance(value, str):
        return fix(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {fix(str(key)): _map_text(item, fix, depth + 1) for key, item in value.items()}
    return type(value)(_map_text(item, fix, depth + 1) for item in value)

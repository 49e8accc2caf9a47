"""Reads a trace file: whole, to look at it, or up to where it stopped, to go on with it.

Place in the flow: layer 1, between a file and `view`. A last line cut short is left out; damage anywhere else is
refused with its place, since a trace with a hole proves nothing.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from paraagent.errors import TraceError
from paraagent.trace.events import TRACE_VERSION, EpisodeEnd, Event
from paraagent.trace.view import EpisodeView

_decoder = msgspec.json.Decoder(Event)


def load(path: Path) -> EpisodeView:
    """Read a trace file; a last line cut short is left out and reported as `torn`.

    Raises:
        TraceError: the file cannot be read, is no trace, or is damaged; names the file and the line.
    """
    try:
        data = path.read_bytes()
    except OSError as err:
        raise TraceError(f"{path}: cannot read the trace ({err.strerror})") from err
    *lines, rest = data.split(b"\n")
    torn = bool(rest and lines) and not _is_json(rest)
    if rest and not torn:
        lines.append(rest)
    if not lines:
        raise TraceError(f"{path}: the file is empty, so it holds no trace")
    events = [_event(path, number, line) for number, line in enumerate(lines, 1)]
    try:
        return EpisodeView(events, torn=torn)
    except TraceError as err:
        raise TraceError(f"{path}: {err}") from err


def unfinished(path: Path) -> tuple[list[Event], int]:
    """Return the events of a stopped episode, and how many bytes of its file they take.

    Raises:
        TraceError: the trace cannot be read, is damaged, or its episode has come to an end.
    """
    events = list(load(path).events)
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) == len(events) and not lines[-1].endswith(b"\n"):  # cut just before its end, so never acted upon
        events.pop()
    if not events:
        raise TraceError(f"{path}: holds no complete event")
    end = events[-1]
    if isinstance(end, EpisodeEnd):
        if not end.mask_sample:
            raise TraceError(f"{path}: the episode has ended ({end.stop_reason}): there is nothing to resume")
        events.pop()
    return events, sum(map(len, lines[: len(events)]))


class _Head(msgspec.Struct):
    """What every line has, whatever its version."""

    event: str
    version: int = 0


def _event(path: Path, number: int, line: bytes) -> Event:
    where = f"{path}, line {number}"
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (msgspec.DecodeError, RecursionError) as err:
        if number == 1:
            raise TraceError(f"{path}: not a trace: the first line is no event ({err})") from err
        raise TraceError(f"{where}: damaged: {err}") from err
    if head.version > TRACE_VERSION:
        raise TraceError(
            f"{where}: written by a newer version ({head.version}, this one reads {TRACE_VERSION}): update"
        )
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as err:
        raise TraceError(f"{where}: cannot read event {head.event[:40]!r}: {err}") from err


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True

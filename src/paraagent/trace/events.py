"""The closed, versioned set of things that can happen in an episode, as they stand in a trace file.

Place in the flow: layer 1; the loop writes these through `trace.recorder`, everything that comes after (rewards,
demonstrations, evaluation, resume, viewer) reads them through `trace.view` and nothing else. One trace is one
episode: JSON lines, `EpisodeStart` first, `EpisodeEnd` last. `at`, `started` and `ended` are seconds on the
episode's clock, which is virtual for simulated tools.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from paraagent.errors import ErrorKind
from paraagent.types import EffectKind, JsonObject, JsonValue, StopReason

TRACE_VERSION = 1

NoteKind = Literal["protocol", "plan", "budget"]


class _Event(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True):
    """Base: one JSON object with its kind under `event`."""


class EpisodeStart(_Event, frozen=True, tag="episode_start"):
    """The run, the request and everything needed to repeat it."""

    version: int
    run: str
    episode: str
    request: str
    policy: str
    at: float = 0.0
    task: JsonObject | None = None
    """The task record, if the episode came from ToolEnv."""
    seed: int | None = None
    config: JsonObject = {}
    """Values of the command's frozen config."""
    software: JsonObject = {}
    """Versions of the package, Python and the catalog digest."""


class Prompt(_Event, frozen=True, tag="prompt"):
    """Messages that were appended to the prompt: the system and user message at the start, observations later."""

    role: Literal["system", "user"]
    content: str
    at: float


class TurnText(_Event, frozen=True, tag="turn"):
    """One assistant message, exactly as the policy produced it."""

    turn: int
    text: str
    started: float
    ended: float
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    """In the currency of the table of prices; None without one."""


class SearchDone(_Event, frozen=True, tag="search"):
    """One search and what it found."""

    turn: int
    index: int
    slot: str
    query: str
    hits: list[tuple[str, float]]
    """Tool name and score, best first."""
    total: int
    nothing_fits: bool
    started: float
    ended: float


class CallStart(_Event, frozen=True, tag="call_start"):
    """A call is about to be dispatched; for a write this line is on disk before the tool is invoked."""

    turn: int
    index: int
    name: str
    arguments: JsonObject
    """After links were resolved."""
    effect: EffectKind | None
    reads: list[str]
    writes: list[str]
    exclusive: bool
    key: str
    """Idempotency key: run, tool, canonical arguments, ordinal."""
    at: float


class CallEnd(_Event, frozen=True, tag="call_end"):
    """The one answer to a call; a call that never started has an end without a start."""

    turn: int
    index: int
    name: str
    arguments: JsonObject
    started: float
    ended: float
    id: str | None = None
    raw_arguments: JsonObject | None = None
    """As the agent wrote them, when links were resolved."""
    value: JsonValue = None
    error: ErrorKind | None = None
    message: str | None = None
    retry_after: float | None = None
    attempts: int = 0
    shared_with: int | None = None
    injected: bool = False
    """True if the simulator made this failure on purpose."""


class Note(_Event, frozen=True, tag="note"):
    """Something the agent was told about its turn: a protocol fault, a plan deviation, a budget."""

    turn: int
    kind: NoteKind
    text: str
    at: float


class EpisodeEnd(_Event, frozen=True, tag="episode_end"):
    """How it ended."""

    at: float
    stop_reason: StopReason
    terminated: bool
    truncated: bool
    answer: str | None = None
    success: bool | None = None
    """The verifier's verdict; None when there is no verifier."""
    checks: JsonObject = {}
    """The verifier's parts: calls matched, state, facts, with reasons."""
    mask_sample: bool = False
    failure_kind: str | None = None


Event = EpisodeStart | Prompt | TurnText | SearchDone | CallStart | CallEnd | Note | EpisodeEnd

"""Everything an episode records goes through here: once, in order, and told to whoever watches.

Place in the flow: layer 3, between `loop` and `trace.recorder`. In a resumed episode what the trace holds already is
neither written nor told again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paraagent.agent.past import Past
from paraagent.clock import Clock
from paraagent.trace.events import Event, Note, NoteKind, Prompt
from paraagent.trace.recorder import Recorder
from paraagent.types import Message


class Journal:
    """The writing side of one episode's trace."""

    def __init__(
        self, recorder: Recorder, clock: Clock, past: Past, on_event: Callable[[Event], None] | None = None
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._past = past
        self._on_event = on_event
        self._prompts = 0

    def emit(self, event: Event, durable: bool = False) -> None:
        """Record an event; `durable` returns only once it is on disk."""
        if self._past.knows(event):
            return
        self._recorder.write(event, durable)
        if self._on_event is not None:
            self._on_event(event)

    def note(self, turn: int, kind: NoteKind, messages: Sequence[str]) -> None:
        """Record what the agent is told about a turn."""
        for text in messages:
            self.emit(Note(turn=max(0, turn), kind=kind, text=text, at=self._clock.now()))

    def now(self) -> float:
        """Return the time; in a resumed episode the one at which the coming prompt message was first recorded."""
        recorded = self._past.prompt(self._prompts)
        return self._clock.now() if recorded is None else recorded.at

    def prompt(self, message: Message) -> Message:
        """Record a message to the model and return it; a resumed one comes back as the model saw it then."""
        assert message.role != "assistant"
        recorded = self._past.prompt(self._prompts)
        self._prompts += 1
        if recorded is not None:
            return Message(message.role, recorded.content)
        self.emit(Prompt(role=message.role, content=message.content, at=self._clock.now()))
        return message

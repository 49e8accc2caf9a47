"""Asks a model for a verdict, once more if its reply cannot be read, and keeps verdicts on disk.

Place in the flow: layer 4, under `judge` and `pairs`. A failure is never a verdict, and is not kept.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from paraagent.agent.context import Context
from paraagent.errors import EnvironmentFault, ModelError
from paraagent.trace.plain import one_line
from paraagent.types import Message, Policy

T = TypeVar("T")
_AGAIN = "That was not the JSON object that was asked for. Reply with that object and nothing else."


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Why there is no judgement; the episode is masked."""

    failure_kind: str
    """`judge_failed`, `judge_unparseable` or `not_judged`."""
    reason: str


class Asker(Generic[T]):
    """A model that gives verdicts of one kind.

    Args:
        model: writes them; best at temperature 0.
        kind: a type that goes to JSON and back without loss.
        read: takes a verdict out of a reply; None if it holds none.
        cache: a directory; a case that a model of this name has judged before is not asked about again.
    """

    def __init__(self, model: Policy, kind: type[T], read: Callable[[str], T | None], cache: Path | None) -> None:
        self._model = model
        self._kind = kind
        self._read = read
        self._cache = cache

    async def verdict(self, messages: Sequence[Message]) -> T | Unjudged:
        """Return the verdict that was kept, or ask for one and keep it.

        Raises:
            EnvironmentFault: the cache cannot be written.
        """
        if (known := self.known(messages)) is not None:
            return known
        found = await self.ask(messages)
        if not isinstance(found, Unjudged):
            self.keep(messages, found)
        return found

    async def ask(self, messages: Sequence[Message]) -> T | Unjudged:
        """Ask, and once more if the reply cannot be read."""
        told = list(messages)
        try:
            for _ in range(2):
                reply = await self._model.act(Context("", messages=told))
                if (verdict := self._read(reply.text)) is not None:
                    return verdict
                told += [Message("assistant", reply.text), Message("user", _AGAIN)]
        except ModelError as error:
            return Unjudged("judge_failed", f"the judge could not be asked: {error}")
        return Unjudged("judge_unparseable", f"the judge gave no verdicts: {one_line(reply.text, 120)}")

    def known(self, messages: Sequence[Message]) -> T | None:
        """Return the verdict that was kept for these messages."""
        path = self._path(messages)
        try:
            return None if path is None else msgspec.json.decode(path.read_bytes(), type=self._kind)
        except (OSError, msgspec.DecodeError):
            return None

    def keep(self, messages: Sequence[Message], verdict: T) -> None:
        """Keep the verdict on these messages, if there is a cache.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        path = self._path(messages)
        if path is None:
            return
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode(verdict))
            part.replace(path)
        except OSError as error:
            raise EnvironmentFault(f"{path}: cannot keep the judgement there ({error.strerror})") from error

    def _path(self, messages: Sequence[Message]) -> Path | None:
        if self._cache is None:
            return None
        content = "\n".join([self._model.name, *(message.content for message in messages)])
        return self._cache / f"{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}.json"

"""A language model in the part of the services: it rewrites the world's answers so that they read like real ones.

Place in the flow: layer 3, one of the `backends`. The world carries a call out and drafts the answer (`behave`); the
model may change every value in it except identifiers, and what it writes must fit the tool's response schema.
Each distinct request is asked once and kept on disk, so a second run costs nothing and answers the same.
Limits: only identifiers stay consistent between different calls. A write whose answer could not be improved gets the
draft, since it has happened; a read fails as `unavailable`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from paraagent.env.ids import DIGITS
from paraagent.env.interface import Interface
from paraagent.errors import ToolFailure
from paraagent.types import JsonObject, JsonValue

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_PROMPT = (
    "You play the web service behind an API operation. You get the operation, the arguments of one call, the JSON "
    "Schema of the answer and a draft of it. Write the answer the real service would give: believable values that "
    "fit the arguments and each other. Keep every identifier of the draft, and its structure. Reply with the JSON."
)
TRIES = 2
"""How often the model is asked for one answer before the call fails."""


class LlmBackend:
    """Asks any OpenAI-compatible endpoint.

    Args:
        cache: a directory for the answers, made if absent; several processes may share it.
        base_url: the endpoint; `OPENAI_BASE_URL` or the vendor's own if None.
        api_key: `OPENAI_API_KEY` if None; local servers take any.
        timeout: seconds per request.
    """

    def __init__(
        self,
        model: str,
        cache: Path,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._model = model
        self._cache = cache
        self._base_url = base_url
        self._api_key = api_key
        self._timeout = timeout
        self._client: AsyncOpenAI | None = None

    async def answer(self, interface: Interface, arguments: JsonObject, draft: Callable[[], JsonValue]) -> JsonValue:
        drafted = draft()
        request = _request(interface, arguments, drafted)
        path = self._cache / f"{blake2b(self._model.encode() + request, digest_size=16).hexdigest()}.json"
        if path.is_file():
            kept: JsonValue = orjson.loads(path.read_bytes())
            return kept
        reason = ""
        for _ in range(TRIES):
            try:
                value = _parsed(await self._ask(request))
            except ValueError as error:
                reason = str(error)
                continue
            reason = _fault(interface, drafted, value)
            if not reason:
                _write(path, value)
                return value
        if interface.tool.effect != "read":
            return drafted
        raise ToolFailure("unavailable", f"the model that plays the service gave no usable answer: {reason}")

    async def close(self) -> None:
        """Close the connections to the endpoint."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _ask(self, request: bytes) -> str:
        from openai import AsyncOpenAI, OpenAIError

        try:
            if self._client is None:
                self._client = AsyncOpenAI(
                    base_url=self._base_url,
                    api_key=self._api_key or os.environ.get("OPENAI_API_KEY") or "none",
                    timeout=self._timeout,
                )
            reply = await self._client.chat.completions.create(
                model=self._model,
                messages=[{"role": "system", "content": _PROMPT}, {"role": "user", "content": request.decode()}],
                temperature=0.0,
            )
        except OpenAIError as error:
            raise ValueError(f"{type(error).__name__} at {self._base_url or 'the default endpoint'}") from None
        return (reply.choices[0].message.content or "") if reply.choices else ""


def _request(interface: Interface, arguments: JsonObject, draft: JsonValue) -> bytes:
    tool = interface.tool
    what: JsonObject = {
        "operation": tool.name,
        "description": tool.description,
        "arguments": arguments,
        "answer_schema": tool.returns,
        "draft": draft,
    }
    return orjson.dumps(what, option=orjson.OPT_SORT_KEYS)


def _parsed(text: str) -> JsonValue:
    """Return the JSON of a reply, which may stand in a fence."""
    text = text.strip()
    if text.startswith("```"):
        text = text.partition("\n")[2].rpartition("```")[0]
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    return value


def _fault(interface: Interface, draft: JsonValue, value: JsonValue) -> str:
    """Return why a value cannot stand for the draft; "" if it can."""
    error = next(iter(interface.returns.iter_errors(value)), None)
    if error is not None:
        return f"it breaks the schema: {error.message[:200]}"
    lost = set(_identifiers(draft)) - set(_identifiers(value))
    return f"it lost the identifier {min(lost)}" if lost else ""


def _identifiers(value: JsonValue) -> Iterator[str]:
    """Yield the scalars that end like this world's identifiers."""
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _identifiers(child)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        text = str(value)
        if text[-DIGITS:].isdecimal() and len(text) >= DIGITS:
            yield text


def _write(path: Path, value: JsonValue) -> None:
    """Put a file in place whole, whoever else writes it at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".answer")
    with os.fdopen(handle, "wb") as file:
        file.write(orjson.dumps(value))
    os.replace(name, path)

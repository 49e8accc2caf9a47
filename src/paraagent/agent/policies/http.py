"""A policy that asks a model behind any OpenAI-compatible chat endpoint: hosted, vLLM, llama.cpp, Ollama and others.

Place in the flow: layer 3; the loop awaits `act` once per turn. One policy holds one client with a bounded number of
requests in flight and serves all episodes of its event loop; a rate limit that one episode meets pauses them all.
The retries are ours and not the client library's because they also cover a stream that breaks off, waits of any
length that the server asks for, and the shared pause.
Limits: one choice per request. `act` makes no native tool calls: actions are text in the protocol's grammar.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from urllib.parse import SplitResult, urlsplit, urlunsplit

from paraagent.agent.policies.http_draft import Draft, UnusableAnswer
from paraagent.agent.policies.http_faults import Fault, diagnose, error_text
from paraagent.errors import ModelError, UsageError
from paraagent.trace.plain import one_line
from paraagent.trace.recorder import redactor
from paraagent.types import JsonObject, Message, Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from paraagent.agent.context import Context

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_LONGEST_BACKOFF = 30.0


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """How to ask; holds no secret, so it can be printed into a trace."""

    model: str
    base_url: str | None = None
    """Ends in `/v1` for most servers; None takes `OPENAI_BASE_URL`, else OpenAI's own."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; local servers need none."""
    temperature: float | None = None
    """None leaves it to the server."""
    max_tokens: int | None = 4096
    """Per turn, thinking included; None leaves it to the server."""
    timeout: float = 300.0
    """Seconds for one whole answer."""
    retries: int = 4
    """After failures that may pass, time-outs once only; the back-off doubles from half a second."""
    max_wait: float = 120.0
    """Seconds one turn may wait between its attempts, all in all; rate limits are waited out up to this."""
    max_connections: int = 64
    """Requests in flight; further ones queue, and queueing does not count towards `timeout`."""
    stream: bool = True
    seed: int | None = None
    extra_body: JsonObject = field(default_factory=dict)
    """Further fields of the request, as the server documents them."""


class HttpPolicy:
    """Implements `types.Policy`.

    Args:
        config: what to ask and how.
        on_text: called with the whole text of the turn so far whenever more of it arrives; again from the start
            after a retry. For one episode at a time.
        sleep: waits between attempts.

    Raises:
        UsageError: the base URL is none.
    """

    def __init__(
        self,
        config: HttpConfig,
        *,
        on_text: Callable[[str], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.config = config
        self.name = f"http:{config.model}"
        self._url = config.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        self._key = os.environ.get(config.api_key_env, "").strip()
        self._on_text = on_text
        self._sleep = sleep
        self._session: _Session | None = None
        self._resume_at = 0.0
        self._refused: set[str] = set()
        parts = _split(self._url)
        self.secrets = tuple(secret for secret in (self._key, parts.password) if secret)
        """What must appear in no trace and no message."""
        self.base_url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
        """Fit for messages: without credentials."""
        self._redact = redactor(self.secrets)

    async def act(self, context: Context) -> Reply:
        """Ask for the next turn; `seconds` is the real time that took, waits and retries included.

        Raises:
            ModelError: in one line what failed and what to do; `retryable` if a later attempt may work.
        """
        began = time.monotonic()
        draft = await self.complete(_as_json(context.messages), most=context.reply_tokens)
        return Reply(draft.text(), draft.usage, time.monotonic() - began)

    async def complete(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] = (), *, most: int | None = None
    ) -> Draft:
        """Ask in the endpoint's own terms for at most so many tokens; raises as `act`.

        Calls of the given tools are in the draft's `calls`.
        """
        limits = [limit for limit in (self.config.max_tokens, most) if limit is not None]
        limit = min(limits, default=None)
        return await self._ask(messages, limit, self.config.retries, self.config.max_wait, tools)

    async def check(self) -> None:
        """Ask for one token, to learn now rather than later whether address, key and model are right.

        Raises:
            ModelError: as `act`, but at the first failure; only a rate limit of a few seconds is waited out.
        """
        await self._ask([{"role": "user", "content": "Hello"}], 1, retries=0, patience=5.0)

    async def close(self) -> None:
        """Close the connections; the policy can be used again."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.client.close()

    async def __aenter__(self) -> HttpPolicy:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(
        self,
        messages: Sequence[JsonObject],
        max_tokens: int | None,
        retries: int,
        patience: float,
        tools: Sequence[JsonObject] = (),
    ) -> Draft:
        import openai

        attempts = failures = 0
        while True:
            request = self._request(messages, max_tokens, tools)
            try:
                return await self._attempt(request)
            except (openai.OpenAIError, TimeoutError, UnusableAnswer) as err:
                if self._adapt(err, request):
                    continue
                fault = diagnose(err, self._redact)
            attempts += 1
            failures += fault.kind != "rate_limited"  # then the endpoint is well; only patience limits
            wait = min(_LONGEST_BACKOFF, 0.5 * 2 ** (attempts - 1)) if fault.wait is None else fault.wait
            allowed = min(retries, 1) if fault.kind == "timeout" else retries  # one has cost a whole time-out already
            if not fault.retryable or wait > patience or failures > allowed:
                raise await self._error(fault, attempts) from None  # the cause may quote the key
            patience -= max(1.0, wait)
            if fault.kind == "rate_limited":
                self._resume_at = max(self._resume_at, time.monotonic() + wait)
            else:
                await self._sleep(wait * random.uniform(1.0, 1.1))

    async def _pause(self) -> None:
        """Wait out a rate limit, each episode a little differently so that they do not all return at once."""
        wait = self._resume_at - time.monotonic()
        if wait > 0:
            await self._sleep(wait * random.uniform(1.0, 1.1))

    async def _attempt(self, request: dict[str, object]) -> Draft:
        session = self._open()
        draft = Draft()
        async with session.slots:
            await self._pause()
            async with asyncio.timeout(self.config.timeout), aclosing(_parts(session.client, request)) as parts:
                async for part in parts:
                    draft.take(part)
                    if self._on_text is not None:
                        self._on_text(draft.text())
        if not draft.finished:
            raise UnusableAnswer("the answer broke off" if draft.begun else "the answer holds no completion")
        return draft

    def _request(
        self, messages: Sequence[JsonObject], max_tokens: int | None, tools: Sequence[JsonObject]
    ) -> dict[str, object]:
        config = self.config
        limit = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
        request: dict[str, object] = {
            "model": config.model,
            "messages": messages,
            "tools": tools or None,
            "stream": config.stream,
            "temperature": config.temperature,
            "seed": config.seed,
            limit: max_tokens,
            "extra_body": config.extra_body or None,
        }
        if config.stream and "stream_options" not in self._refused:
            request["stream_options"] = {"include_usage": True}
        return {name: value for name, value in request.items() if value is not None}

    def _adapt(self, error: Exception, request: dict[str, object]) -> bool:
        """Learn which form of the request this server refuses; True if it is worth asking again in another."""
        text = error_text(error)
        for name, sign in (("stream_options", "stream_options"), ("max_tokens", "max_completion_tokens")):
            if name in request and sign in text and getattr(error, "status_code", 0) in (400, 422):
                self._refused.add(name)
                return True
        return False

    def _open(self) -> _Session:
        """Return the running event loop's client; connections cannot be taken from one loop to the next."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.loop is not loop:
            import openai

            config = self.config
            client = openai.AsyncOpenAI(
                api_key=self._key or "none",
                base_url=self._url,
                max_retries=0,
                timeout=openai.Timeout(config.timeout, connect=min(10.0, config.timeout)),
            )
            self._session = _Session(loop, client, asyncio.Semaphore(config.max_connections))
        return self._session

    async def _error(self, fault: Fault, attempts: int) -> ModelError:
        config = self.config
        text = fault.describe(attempts=attempts, timeout=config.timeout, key_env=config.api_key_env)
        if fault.kind == "unknown_model":
            text += await self._offers()
        return ModelError(f"{config.model} at {self.base_url}: {text}", retryable=fault.retryable)

    async def _offers(self) -> str:
        """Return the models that the endpoint lists, closest first, as the end of a message; empty if it does not."""
        import openai

        try:
            page = await self._open().client.models.list(timeout=5.0)
            names = [one_line(str(model.id), 60) for model in page.data]
        except (openai.OpenAIError, TypeError, AttributeError):
            return ""
        close = difflib.get_close_matches(self.config.model, names, n=5, cutoff=0.3)
        return f": {', '.join(close or names[:5])}" if names else ""


def _as_json(messages: Sequence[Message]) -> list[JsonObject]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:  # a port that is no number, a bracket that does not close
        pass
    raise UsageError(f"base URL {url.rpartition('@')[2]!r}: give it in full, as http://127.0.0.1:8000/v1")


@dataclass(frozen=True, slots=True)
class _Session:
    loop: asyncio.AbstractEventLoop
    client: AsyncOpenAI
    slots: asyncio.Semaphore


async def _parts(client: AsyncOpenAI, request: dict[str, object]) -> AsyncGenerator[object, None]:
    """Yield the chunks of a streamed answer, or the one whole answer.

    Raises:
        UnusableAnswer: the client library stumbled over what the server sent.
    """
    import openai

    create = cast(Callable[..., Awaitable[object]], client.chat.completions.create)
    try:
        answer = await create(**request)
        if not isinstance(answer, openai.AsyncStream):
            yield answer
            return
        async with answer:
            async for chunk in answer:
                yield chunk
    except (openai.OpenAIError, TimeoutError):
        raise
    except Exception as err:
        raise UnusableAnswer(f"{type(err).__name__}: {err}") from err

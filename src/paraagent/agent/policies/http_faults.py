"""Tells what went wrong at a chat endpoint: one line for the user, and whether trying again can help.

Place in the flow: layer 3; `http` turns every failure of a request into a `Fault` here, then waits or raises.
Servers differ in status codes and wording, so text is looked at where the status alone is ambiguous.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from paraagent.trace.plain import one_line

FaultKind = Literal[
    "unreachable",
    "timeout",
    "bad_key",
    "denied",
    "no_credit",
    "unknown_model",
    "no_endpoint",
    "overflow",
    "rate_limited",
    "server_error",
    "malformed",
    "refused",
]
_RETRYABLE: frozenset[FaultKind] = frozenset({"unreachable", "timeout", "rate_limited", "server_error", "malformed"})

_TEXT: dict[FaultKind, str] = {
    "unreachable": "the connection failed ({said}); check that the server runs and the base URL is right",
    "timeout": "no whole answer within {timeout:g} s; raise the time-out or ask for fewer tokens",
    "bad_key": "does not accept the key; put a valid one into the environment variable {key_env}",
    "denied": "denies access ({said}); use a key or a model you have access to",
    "no_credit": "has no credit left for this key ({said}); top it up or use another endpoint",
    "unknown_model": "does not know this model ({said}); name one that it offers",
    "no_endpoint": "has no chat completions there ({said}); most base URLs end in /v1",
    "overflow": "the prompt is longer than the model's context ({said}); use a larger one or a lower token budget",
    "rate_limited": "still over its rate limit at attempt {attempts} ({said}); lower the concurrency or try later",
    "server_error": "fails ({said}, attempt {attempts}); try again later",
    "malformed": "gave no usable answer ({said}, attempt {attempts}); is it an OpenAI-compatible chat endpoint?",
    "refused": "refuses the request ({said}); correct the option it speaks of",
}
_OVERFLOW = re.compile(
    r"context.{0,12}(length|window|size)|too many tokens|(prompt|input) is too long", re.IGNORECASE
)
_NO_MODEL = re.compile(
    r"model_not_found|invalid.model|unknown model|not a valid model"
    r"|\bmodel\b.{0,200}(not found|not exist|not available|not supported)",
    re.IGNORECASE | re.DOTALL,
)
_NO_CREDIT = re.compile(r"insufficient.(quota|funds|credit)|exceeded your current quota|billing", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed request."""

    kind: FaultKind
    said: str
    """The cause in a few words, safe to print."""
    wait: float | None = None
    """Seconds the server asks to wait."""

    @property
    def retryable(self) -> bool:
        return self.kind in _RETRYABLE

    def describe(self, *, attempts: int, timeout: float, key_env: str) -> str:
        """Say what failed and what to do, in one line."""
        return _TEXT[self.kind].format(said=self.said, attempts=attempts, timeout=timeout, key_env=key_env)


def diagnose(error: Exception, redact: Callable[[str], str]) -> Fault:
    """Classify what a request raised; secrets are taken out of the server's words before these are cut to a line."""
    import openai

    text = redact(error_text(error))
    said = one_line(text) or type(error).__name__
    if isinstance(error, openai.APIStatusError):
        headers = error.response.headers
        return Fault(_status_kind(error.status_code, text), said, retry_after(headers))
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return Fault("timeout", said)
    if isinstance(error, openai.APIConnectionError):
        return Fault("unreachable", one_line(redact(str(error.__cause__ or error))))
    if isinstance(error, openai.APIError):  # an error event inside a stream that began with status 200
        return Fault("overflow" if _OVERFLOW.search(text) else "server_error", said)
    return Fault("malformed", said)


def error_text(error: Exception) -> str:
    """Return all that the server said about an error, code included; may hold anything."""
    code = getattr(error, "code", None)
    return f"{error} ({code})" if code and str(code) not in str(error) else str(error)


def _status_kind(status: int, text: str) -> FaultKind:
    if status in (400, 413, 422, 500) and _OVERFLOW.search(text):
        return "overflow"
    if status in (400, 404, 422) and _NO_MODEL.search(text):
        return "unknown_model"
    if status == 402 or (status in (403, 429) and _NO_CREDIT.search(text)):
        return "no_credit"
    if status in (408, 409, 425) or status >= 500:
        return "server_error"
    kinds: dict[int, FaultKind] = {401: "bad_key", 403: "denied", 404: "no_endpoint", 405: "no_endpoint"}
    return "rate_limited" if status == 429 else kinds.get(status, "refused")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a `Retry-After` (number or date) or `retry-after-ms` header asks for, else None."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    if date := email.utils.parsedate_tz(headers.get("retry-after", "")):
        return max(0.0, email.utils.mktime_tz(date) - time.time())
    return None

"""Secrets of real tools: where they come from, and how they are kept out of prompts and traces.

Place in the flow: layer 3, under every toolbox for real tools. A configuration names a secret as `${VARIABLE}`; what
is put in its place is remembered. `Redactor` then takes remembered values out of everything a server sends back,
since servers echo what they were sent.
Limits: values under 6 characters are too common to be looked for; a value that a server has re-coded in a way of its
own (encrypted, split) is not recognised.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import quote

import orjson

from paraagent.errors import ToolFailure, UsageError
from paraagent.trace.recorder import redactor
from paraagent.types import JsonValue, Tool

MARK = "[secret]"

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TELLING = re.compile(r"key|token|secret|passw|auth|credential|cookie|bearer|session|private", re.IGNORECASE)
_PLAIN = frozenset({"HOME", "USER", "LOGNAME", "PATH", "PWD", "SHELL", "LANG", "TMPDIR", "TEMP", "TMP", "HOSTNAME"})
"""Variables whose values are no secrets: paths and names that occur in honest results."""


def expand(text: str, environ: Mapping[str, str], where: str) -> tuple[str, set[str]]:
    """Put variables in the place of `${NAME}` and `${NAME:-default}`; return the text and the secrets in it.

    Raises:
        UsageError: a variable is not set; `where` says which setting asked for it.
    """
    secrets: set[str] = set()

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        found = environ.get(name) or default
        if found is None:
            raise UsageError(f"{where} needs the environment variable {name}, which is not set; export it first")
        if name not in _PLAIN and found != default:
            secrets.add(found)
        return found

    return _REFERENCE.sub(value, text), secrets


def expand_setting(name: str, text: str, environ: Mapping[str, str], where: str) -> tuple[str, set[str]]:
    """Like `expand`; a value written out under a telling name, as `Authorization` or `API_KEY`, is a secret too."""
    value, secrets = expand(text, environ, f"{where} {name}")
    if _TELLING.search(name):
        secrets |= {value, *value.split()}  # `Bearer abc` and `abc`
    return value, secrets


def spellings(secrets: Iterable[str]) -> frozenset[str]:
    """Return secrets together with the forms in which HTTP sends and servers echo them."""
    found: set[str] = set()
    for secret in secrets:
        if len(secret) >= 6 and not secret.isspace():
            encoded = base64.b64encode(secret.encode("utf-8", "replace")).decode()
            found |= {secret, quote(secret, safe=""), encoded, encoded.rstrip("=")}
    return frozenset(found)


class Redactor:
    """Takes secrets out of texts, answers, tools and failures."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = spellings(secrets)
        self.text: Callable[[str], str] = redactor(self._secrets, MARK)
        """Return a text without secrets."""

    def value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value without secrets, in keys as in texts."""
        if not self._secrets:
            return value
        try:
            encoded = orjson.dumps(value).decode()
        except (TypeError, ValueError):
            return _mapped(value, self.text)
        return value if self.text(encoded) == encoded else _mapped(value, self.text)

    def tool(self, tool: Tool) -> Tool:
        """Return a tool whose texts hold no secrets; its name stays."""
        parameters, returns = self.value(tool.parameters), self.value(tool.returns)
        assert isinstance(parameters, dict)
        assert isinstance(returns, dict)
        description = self.text(tool.description)
        if description == tool.description and parameters is tool.parameters and returns is tool.returns:
            return tool
        return replace(tool, description=description, parameters=parameters, returns=returns)

    def failure(self, failure: ToolFailure) -> ToolFailure:
        """Return a failure whose message holds no secrets."""
        message = self.text(str(failure))
        if message == str(failure):
            return failure
        return ToolFailure(failure.kind, message, retry_after=failure.retry_after, injected=failure.injected)


def _mapped(value: JsonValue, fix: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return fix(value)
    if isinstance(value, list):
        return [_mapped(item, fix) for item in value]
    if isinstance(value, dict):
        return {fix(key): _mapped(item, fix) for key, item in value.items()}
    return value

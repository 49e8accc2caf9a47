"""An MCP server over streamable HTTP, for those who know the token.

Place in the flow: layer 7; needs the `mcp` package. Every request must carry the token as a bearer token; a Host or
Origin header that is not this server's own is refused, so that no page in a browser reaches it under a foreign name.
Limits: no TLS; let a proxy add it where requests leave the machine.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from paraagent.errors import EnvironmentFault, UsageError
from paraagent.serve.mcp import SESSION_HEADER, insist_on_sessions
from paraagent.serve.sessions import IDLE, MOST, Sessions

PATH = "/mcp"
SHORTEST_TOKEN = 16
_GRACE = 3
"""Seconds that requests have to end when the server stops."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str = "127.0.0.1"
    port: int = 8765
    """0 takes a free one."""
    names: tuple[str, ...] = ()
    """Further host names under which clients may reach the server."""

    def own(self, port: int) -> list[str]:
        """Return the Host headers that are this server's."""
        known = ["127.0.0.1", "localhost", "[::1]"] if _is_loopback(self.host) else [_bracketed(self.host)]
        return [f"{name}:{port}" for name in (*known, *self.names)] + list(self.names)


class HttpServer:
    """A bound socket, and the server that will answer on it.

    Raises:
        EnvironmentFault: the port cannot be had.
        UsageError: the host stands for all addresses, and no name is given under which clients come.
    """

    def __init__(self, server: Server[Any], sessions: Sessions, address: Address, token: str) -> None:
        if _is_any(address.host) and not address.names:
            raise UsageError(
                f"--host {address.host} needs --allow-host NAME: the name that clients use for this machine"
            )
        self._socket = _bound(address)
        port = self._socket.getsockname()[1]
        self.url = f"http://{_bracketed(address.host)}:{port}{PATH}"
        config = uvicorn.Config(
            http_app(server, sessions, address.own(port), token),
            log_config=None,
            log_level="warning",
            access_log=False,
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
        )
        self._server = uvicorn.Server(config)

    async def run(self) -> None:
        """Serve until the process is told to stop."""
        with self._socket:
            await self._server.serve([self._socket])

    def stop(self) -> None:
        """Stop soon; may be called from another thread."""
        self._server.should_exit = True


def http_app(server: Server[Any], sessions: Sessions, hosts: Sequence[str], token: str) -> ASGIApp:
    """Return the ASGI application that serves under `PATH`."""
    insist_on_sessions(server)
    security = TransportSecuritySettings(
        allowed_hosts=list(hosts), allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in _SCHEMES]
    )
    inner = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, session_idle_timeout=IDLE, max_sessions=MOST
    )
    return _Gate(inner, sessions, token)


def token_from(environ: Mapping[str, str], variable: str) -> tuple[str, bool]:
    """Return the token from a variable, or a new one; True if it is new.

    Raises:
        UsageError: the variable holds one that is easy to guess, or that no header can carry.
    """
    token = environ.get(variable, "").strip()
    if not token:
        return secrets.token_urlsafe(32), True
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"the token in {variable} must be {SHORTEST_TOKEN} ASCII characters or more, without spaces")
    return token, False


_SCHEMES = ("http", "https")


class _Gate:
    """Lets through who knows the token; tells which sessions are in use."""

    def __init__(self, app: ASGIApp, sessions: Sessions, token: str) -> None:
        self._app = app
        self._sessions = sessions
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        if not self._knows_token(headers):
            refusal = PlainTextResponse(
                "Send the server's token: Authorization: Bearer TOKEN", 401, {"www-authenticate": "Bearer"}
            )
            return await refusal(scope, receive, send)
        key = headers.get(SESSION_HEADER, "")
        with self._sessions.request(key):
            await self._app(scope, receive, send)
        if scope["method"] == "DELETE":
            self._sessions.forget(key)
        return None

    def _knows_token(self, headers: Headers) -> bool:
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        return compare_digest(sent.strip().encode(), self._token) and scheme.lower() == "bearer"


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        where = f"{address.host}:{address.port}"
        raise EnvironmentFault(f"cannot listen on {where} ({error.strerror}); choose another --port") from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host

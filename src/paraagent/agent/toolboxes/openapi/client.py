"""HTTP to places that a document or an agent chose: never into the private network, never without bounds.

Place in the flow: layer 3, under `toolbox`. A host is resolved once, its addresses are checked, and the connection
goes to the very address that was checked, so a name that resolves differently a moment later gains nothing. Redirects
are followed by hand, at most five, each through the same check; credentials stay with the origin they are for.
Limits: HTTP/1.1; proxies from the environment are not used; answers are asked for uncompressed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass

import httpx2

from paraagent.errors import ToolFailure

REDIRECTS = 5

_CONNECT = 10.0
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_KEPT = ("accept", "accept-encoding", "user-agent")
"""Headers that may go along to another origin."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Fetched:
    """A complete answer."""

    status: int
    headers: httpx2.Headers
    body: bytes


def is_public(address: str) -> bool:
    """Tell whether an IP address belongs to the public internet, also as seen through IPv6 transition forms."""
    found: Address = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found in _NAT64:
            found = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        else:
            teredo = found.teredo[1] if found.teredo else None
            found = found.ipv4_mapped or found.sixtofour or teredo or found
    return found.is_global and not found.is_multicast and not found.is_reserved


def guarded_client(*, allow_private: bool, timeout: float) -> httpx2.AsyncClient:
    """Return a client that reaches public addresses only, unless told otherwise."""
    return httpx2.AsyncClient(
        transport=_Pinned(allow_private),
        headers={"accept-encoding": "identity", "user-agent": "paraagent"},
        timeout=httpx2.Timeout(timeout, connect=min(_CONNECT, timeout)),
        trust_env=False,
    )


async def fetch(client: httpx2.AsyncClient, request: httpx2.Request, limit: int) -> Fetched:
    """Send a request, follow its redirects, and read at most `limit` bytes of the answer.

    Raises:
        ToolFailure: `permission` for an address that must not be reached or a redirect that must not be followed,
            `tool_error` for an answer that is too long.
        httpx2.TransportError: the request could not be sent, or its answer broke off.
    """
    for _ in range(REDIRECTS + 1):
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            if response.next_request is None:
                return Fetched(response.status_code, response.headers, await _read(response, limit))
            request = _redirected(request, response.next_request)
        finally:
            await response.aclose()
    raise ToolFailure("tool_error", f"{request.url.host} redirects more than {REDIRECTS} times")


def _redirected(sent: httpx2.Request, following: httpx2.Request) -> httpx2.Request:
    if following.url.scheme not in ("https", sent.url.scheme):
        message = f"{sent.url.host} redirects from {sent.url.scheme} to {following.url.scheme}, which is not followed"
        raise ToolFailure("permission", message)
    if _origin(sent.url) == _origin(following.url):
        return following
    if following.method not in ("GET", "HEAD"):
        message = f"{sent.url.host} redirects a {following.method} to {following.url.host}, which is not followed"
        raise ToolFailure("permission", message)
    headers = {name: value for name, value in following.headers.items() if name in _KEPT}
    url = following.url.copy_with(username=None, password=None)
    return httpx2.Request(following.method, url, headers=headers, extensions=following.extensions)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _read(response: httpx2.Response, limit: int) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        raise ToolFailure("tool_error", "the answer is compressed, which was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > limit:
            raise ToolFailure("tool_error", f"the answer has more than the {limit:,} bytes allowed; ask for less")
    return bytes(body)


class _Pinned(httpx2.AsyncBaseTransport):
    """Connects to addresses that were checked; one pool for each host, so that TLS is never shared between names."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._tls = httpx2.create_ssl_context()
        self._pools: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        address = await self._checked(url.host, url.port or (443 if url.scheme == "https" else 80))
        pool = self._pools.get(url.host)
        if pool is None:
            pool = self._pools[url.host] = httpx2.AsyncHTTPTransport(verify=self._tls)
        pinned = httpx2.Request(
            request.method,
            url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )
        return await pool.handle_async_request(pinned)

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    async def _checked(self, host: str, port: int) -> str:
        """Return the address to connect to.

        Raises:
            ToolFailure: `permission`, if any address of the host must not be reached.
        """
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(f"{host} has no address ({error})") from None
        addresses = [str(entry[4][0]) for entry in found]
        if not self._allow_private and not all(is_public(address) for address in addresses):
            raise ToolFailure(
                "permission",
                f"{host} is an address of this machine or of a private network, where calls may not go; "
                "the user can allow it with --allow-private",
            )
        return addresses[0]

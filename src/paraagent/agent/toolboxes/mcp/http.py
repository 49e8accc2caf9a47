"""The HTTP client under MCP's streamable HTTP transport.

Place in the flow: layer 3, under `session`. The SDK lets one request that cannot be sent, or one answer that
breaks off, end the whole session with all calls in it, keeps answers of any size in memory, and forgets the HTTP
status. Here each of these becomes a JSON-RPC error for the one request.
Limits: only what answers a POST is treated so; proxies from the environment are not used.
"""

from __future__ import annotations

import httpx2
import orjson

from paraagent.agent.toolboxes.bounds import Bounds
from paraagent.agent.toolboxes.mcp.errors import HTTP_STATUS, LOST, NOT_SENT, TOO_LONG, one_line
from paraagent.types import JsonObject, JsonValue

_ERROR_BODY = 65_536
_CONNECT = 10.0
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


def http_client(headers: dict[str, str], bounds: Bounds) -> httpx2.AsyncClient:
    """Return a client for one MCP server."""
    return httpx2.AsyncClient(
        transport=_Answering(bounds.size),
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT, read=bounds.ceiling),
        trust_env=False,
    )


class _Answering(httpx2.AsyncBaseTransport):
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return await self._inner.handle_async_request(request)
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            code = NOT_SENT if isinstance(error, _UNSENT) else LOST
            return _refusal(code, f"{request.url.host} cannot be reached ({_why(error)})")
        try:
            return await self._readable(response)
        except httpx2.TransportError as error:
            return _refusal(LOST, f"the connection broke in the middle of the answer ({_why(error)})")

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _readable(self, response: httpx2.Response) -> httpx2.Response:
        """Read what is no stream of events here, where a fault can be told to the request that it concerns."""
        kind = response.headers.get("content-type", "").lower()
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return _refusal(TOO_LONG, "the answer is compressed, which was not asked for")
        if response.status_code < 400 and not kind.startswith("application/json"):
            return response
        failed = response.status_code >= 400
        body = await _read(response, _ERROR_BODY if failed else self._limit)
        if failed and not _is_error(body):
            data: JsonObject = {"status": response.status_code, "retryAfter": response.headers.get("retry-after")}
            return _refusal(HTTP_STATUS, one_line((body or b"").decode("utf-8", "replace")), data)
        if body is None:
            return _refusal(TOO_LONG, f"the answer has more than the {self._limit:,} bytes allowed")
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "transfer-encoding"]
        return httpx2.Response(response.status_code, headers=headers, content=body)


async def _read(response: httpx2.Response, limit: int) -> bytes | None:
    """Return the body and close the response; None if it has more than `limit` bytes."""
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > limit:
                return None
    finally:
        await response.aclose()
    return bytes(body)


def _is_error(body: bytes | None) -> bool:
    """Tell whether a body is a JSON-RPC error, which says more than the status."""
    try:
        found: JsonValue = orjson.loads(body or b"")
    except ValueError:
        return False
    return isinstance(found, dict) and isinstance(found.get("error"), dict) and "jsonrpc" in found


def _refusal(code: int, message: str, data: JsonValue = None) -> httpx2.Response:
    """Return an answer that the SDK takes for the server's own error."""
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    body = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(400, headers={"content-type": "application/json"}, content=body)


def _why(error: Exception) -> str:
    return one_line(str(error), 200) or type(error).__name__

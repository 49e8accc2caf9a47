"""A small real HTTP API with its OpenAPI document, for tests: orders to keep, and every way to misbehave.

    with HttpApi() as api:
        ...  # ask api.url; then look at api.requests

It listens on a free port of the loopback interface and runs in threads of the test's process.
"""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Seen:
    """One request as the server saw it."""

    method: str
    path: str
    """As it stood on the wire, with its query."""
    headers: dict[str, str]
    body: bytes

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.path).query, keep_blank_values=True)


class HttpApi:
    """Serves until it is closed."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.orders: dict[str, Any] = {"A1": {"id": "A1", "status": "sent"}}
        self.stopped = threading.Event()
        self.redirect_to = ""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> HttpApi:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    api: HttpApi

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that give up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle_any(self) -> None:
        api = self.server.api
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, self.path, headers, body)
        api.requests.append(seen)
        _, first, *rest = urlsplit(self.path).path.split("/")
        if first == "orders":
            return self.orders(seen, rest)
        return getattr(self, f"at_{first.split('.')[0]}", self.at_echo)(seen)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_any

    def send(self, status: int, body: bytes | object, kind: str = "application/json", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def orders(self, seen: Seen, rest: list[str]) -> None:
        orders = self.server.api.orders
        if seen.method == "POST":
            order = {**json.loads(seen.body), "id": f"B{len(orders)}"}
            orders[order["id"]] = order
            return self.send(201, order)
        if not rest:
            return self.send(200, list(orders.values()))
        if rest[0] not in orders:
            return self.send(404, {"error": {"message": f"there is no order {rest[0]}"}})
        if seen.method == "DELETE":
            del orders[rest[0]]
            self.send_response(204)
            self.end_headers()
            return None
        return self.send(200, orders[rest[0]])

    def at_openapi(self, seen: Seen) -> None:
        self.send(200, document(self.server.api.url))

    def at_echo(self, seen: Seen) -> None:
        self.send(200, {"headers": seen.headers, "query": seen.query, "body": seen.body.decode("utf-8", "replace")})

    def at_status(self, seen: Seen) -> None:
        wanted = dict(seen.query)
        extra = {"retry_after": wanted["wait"]} if "wait" in wanted else {}
        self.send(int(wanted["code"]), {"detail": "as you wished"}, **extra)

    def at_hang(self, seen: Seen) -> None:
        self.server.api.stopped.wait()

    def at_slow(self, seen: Seen) -> None:
        self.server.api.stopped.wait(0.15)
        self.send(200, {"at": "last"})

    def at_flood(self, seen: Seen) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "100000000")
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b" " * 1_000_000)

    def at_utf8(self, seen: Seen) -> None:
        self.send(200, b'{"name": "\xff\xfe"}')

    def at_html(self, seen: Seen) -> None:
        self.send(200, b"<html>Please log in</html>")

    def at_text(self, seen: Seen) -> None:
        self.send(200, "naïve".encode("latin-1"), "text/plain; charset=latin-1")

    def at_picture(self, seen: Seen) -> None:
        self.send(200, b"\x89PNG....", "image/png")

    def at_zipped(self, seen: Seen) -> None:
        self.send(200, gzip.compress(b"{}"), content_encoding="gzip")

    def at_cut(self, seen: Seen) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b'{"half": ')
        self.close_connection = True

    def at_redirect(self, seen: Seen) -> None:
        self.send(int(dict(seen.query).get("code", "302")), b"", location=self.server.api.redirect_to)

    def at_loop(self, seen: Seen) -> None:
        self.send(307, b"", location="/loop")


def document(url: str, version: str = "3.1.0") -> dict[str, Any]:
    """Return the API's OpenAPI document."""
    text = {"type": "string"}
    order = {"type": "object", "properties": {"id": text, "status": text}}
    answer = {"200": {"description": "Fine.", "content": {"application/json": {"schema": order}}}}
    number = {"name": "order_id", "in": "path", "required": True, "schema": text}

    def operation(name: str, summary: str, *parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "operationId": name,
            "summary": summary,
            "parameters": list(parameters),
            "responses": answer,
            **more,
        }

    def query(name: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"name": name, "in": "query", "schema": schema, **more}

    def body(media: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"requestBody": {"required": True, "content": {media: {"schema": schema}}}}

    fields = {"type": "object", "properties": {"status": text, "note": text}, "required": ["status"]}
    texts = {"type": "array", "items": text}
    paths: dict[str, Any] = {
        "/orders": {
            "get": operation("listOrders", "List all orders of the shop."),
            "post": operation("createOrder", "Place a new order.", **body("application/json", fields)),
        },
        "/orders/{order_id}": {
            "parameters": [number],
            "get": operation("getOrder", "Look an order up by its number."),
            "delete": {
                "operationId": "deleteOrder",
                "summary": "Delete an order for good.",
                "responses": {"204": {"description": "Gone."}},
            },
        },
        "/orders/search": {"post": operation("searchOrders", "Search orders by text.", query("q", text))},
        "/echo/{order_id}": {
            "put": operation(
                "echoAll",
                "Repeat everything that was sent.",
                number,
                query("tags", texts),
                query("ids", texts, explode=False),
                query("filter", {"type": "object", "properties": {"a": text}}, style="deepObject"),
                query("flag", {"type": "boolean"}),
                {"name": "X-Trace", "in": "header", "schema": text},
                query("note", text),
                **body("application/json", fields),
            )
        },
        "/echo/form": {
            "post": operation("sendForm", "Send a form.", **body("application/x-www-form-urlencoded", fields))
        },
        "/echo/parts": {"post": operation("sendParts", "Send parts.", **body("multipart/form-data", fields))},
        "/echo/list": {"post": operation("sendList", "Send a list.", **body("application/json", texts))},
        "/echo/binary": {"post": operation("sendBinary", "Send bytes.", **body("image/png", text))},
        "/echo/key": {"get": operation("withKey", "Read with a key.", security=[{"key": []}])},
        "/echo/login": {"get": operation("withLogin", "Read with a login.", security=[{"login": []}])},
        "/echo/token": {"get": operation("withToken", "Read with a token.", security=[{"token": []}])},
        "/echo/open": {"get": operation("openToAll", "Read without a key.", security=[])},
        "/status": {
            "get": operation(
                "status", "Answer with a status.", query("code", {"type": "integer"}), query("wait", text)
            ),
            "post": operation("writeStatus", "Write with a status.", query("code", {"type": "integer"})),
        },
        "/redirect": {
            "get": operation("redirect", "Go elsewhere.", query("code", {"type": "integer"})),
            "post": operation("redirectWrite", "Write elsewhere.", query("code", {"type": "integer"})),
        },
    }
    for name in ("hang", "slow", "flood", "utf8", "html", "text", "picture", "zipped", "cut", "loop"):
        paths[f"/{name}"] = {"get": operation(name, f"Show what {name} does.")}
    paths["/cut"]["post"] = operation("cutWrite", "Write and be cut off.")
    paths["/hang"]["post"] = operation("hangWrite", "Write and hang.")
    return {
        "openapi": version,
        "info": {"title": "Order Shop", "version": "1"},
        "servers": [{"url": url}],
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "http", "scheme": "basic"},
                "key": {"type": "apiKey", "in": "query", "name": "api_key"},
            }
        },
        "paths": paths,
    }

"""A small real HTTP server that speaks the chat completions API, for tests: scripted answers, streams and faults.

    with ChatServer([Answer("<answer>42</answer>"), RATE_LIMITED, Answer("again")]) as server:
        ...  # ask server.base_url; then look at server.requests

It listens on a free port of the loopback interface and runs in threads of the test's process. Answers are served in
order of arrival; after the last one, `default` is served for ever. A function may be given instead of a list.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny"
KEY = "sk-local-0123456789"


@dataclass(frozen=True)
class Answer:
    """What to send for one request."""

    text: str = "<answer>ok</answer>"
    reasoning: str = ""
    reasoning_field: str = "reasoning_content"
    usage: Mapping[str, Any] | None = field(
        default_factory=lambda: {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 64},
        }
    )
    status: int = 200
    body: str | None = None
    """Sent as it is instead of a completion."""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Close the connection in the middle of the answer."""
    unfinished: bool = False
    """End the stream properly but without a finish reason."""
    hang: bool = False
    """Send nothing until the server stops."""
    trickle: bool = False
    """Stream a comment now and then, but never an answer."""
    delay: float = 0.0


def failure(
    status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return an error answer in the usual form."""
    error = {"message": message, "type": "error", "param": None, "code": code}
    return Answer(status=status, body=json.dumps({"error": error}), headers=headers or {})


RATE_LIMITED = failure(429, "Rate limit reached", code="rate_limit_exceeded", headers={"retry-after": "0"})
BROKEN = failure(500, "internal error")
NO_MODEL = failure(404, "The model `big` does not exist.", code="model_not_found")
OVERFLOW = failure(
    400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.", code=None
)


class ChatServer:
    """Serves until it is closed.

    Args:
        answers: what to answer, in order, or a function from the decoded request to an answer.
        key: if given, other keys are answered with 401 and a body that repeats the key that was sent.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[dict[str, Any]], Answer] = (),
        *,
        default: Answer | None = None,
        key: str | None = None,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        """The decoded bodies of all chat requests."""
        self.peak = 0
        """The most requests that were in progress at once."""
        self.connections = 0
        self.key = key
        self.busy = threading.Event()
        """Set once a first request has arrived."""
        self.stopped = threading.Event()
        self._answers = answers if callable(answers) else iter(list(answers))
        self._default = default or Answer()
        self._lock = threading.Lock()
        self._busy = 0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.chat = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> ChatServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next_answer(self, request: dict[str, Any]) -> Answer:
        with self._lock:
            self.requests.append(request)
            self.busy.set()
            if callable(self._answers):
                return self._answers(request)
            return next(self._answers, self._default)

    def enter(self, step: int) -> None:
        with self._lock:
            self._busy += step
            self.peak = max(self.peak, self._busy)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    chat: ChatServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that give up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.chat.connections += 1

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            return self._send(404, json.dumps({"detail": "Not Found"}))
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "me"} for name in (MODEL, "tiny-chat")]
        return self._send(200, json.dumps({"object": "list", "data": models}))

    def do_POST(self) -> None:
        chat = self.server.chat
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path != "/v1/chat/completions":
            return self._send(404, json.dumps({"detail": "Not Found"}))
        sent = self.headers.get("authorization", "").removeprefix("Bearer ")
        if chat.key is not None and sent != chat.key:
            return self._answer(failure(401, f"Incorrect API key provided: {sent}", code="invalid_api_key"), {})
        request = json.loads(body)
        chat.enter(1)
        try:
            return self._answer(chat.next_answer(request), request)
        finally:
            chat.enter(-1)

    def _answer(self, answer: Answer, request: dict[str, Any]) -> None:
        if answer.hang or answer.delay:
            self.server.chat.stopped.wait(None if answer.hang else answer.delay)
        if answer.hang:
            self.close_connection = True
        elif answer.body is not None:
            self._send(answer.status, answer.body, answer.headers)
        elif request.get("stream"):
            self._stream(answer, request)
        else:
            message = {"role": "assistant", "content": answer.text}
            if answer.reasoning:
                message[answer.reasoning_field] = answer.reasoning
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = json.dumps({**_ENVELOPE, "object": "chat.completion", "choices": [choice], "usage": answer.usage})
            self._send(answer.status, whole[: len(whole) // 2] if answer.cut else whole, announce=len(whole.encode()))

    def _send(
        self, status: int, body: str, headers: Mapping[str, str] | None = None, *, announce: int | None = None
    ) -> None:
        data = body.encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(announce or len(data)))
        self.end_headers()
        self.wfile.write(data)
        if announce and announce != len(data):
            self.close_connection = True

    def _stream(self, answer: Answer, request: dict[str, Any]) -> None:
        self.send_response(answer.status)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if answer.trickle:
            while not self.server.chat.stopped.wait(0.02):
                self._chunk(": still here\n\n")
            return
        pieces = [{answer.reasoning_field: part} for part in _split(answer.reasoning)]
        pieces += [{"content": part} for part in _split(answer.text)]
        if answer.cut:
            pieces = pieces[: max(1, len(pieces) // 2)]
        self._event(choices=[{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}])
        for piece in pieces:
            self._event(choices=[{"index": 0, "delta": piece, "finish_reason": None}])
        if answer.cut:
            self.close_connection = True
            return
        if not answer.unfinished:
            self._event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
        if answer.usage is not None and request.get("stream_options", {}).get("include_usage"):
            self._event(choices=[], usage=answer.usage)
        self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, **fields: object) -> None:
        self._chunk(f"data: {json.dumps({**_ENVELOPE, 'object': 'chat.completion.chunk', **fields})}\n\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


_ENVELOPE = {"id": "chatcmpl-1", "created": 0, "model": MODEL}


def _split(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]

"""Serves a script of model replies over HTTP on loopback and records every request."""

import contextlib
import json
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from . import anthropic_messages, gemini_generate, openai_chat, openai_responses
from .script import F, Request, ScriptStep, Step

_HALF = re.compile("[\ud800-\udfff]")
END_OF_BODY = b"0\r\n\r\n"


class Wire(Protocol):
    """What a wire format module offers."""

    PATH: str
    PLAIN_PATH: str  # of a reply that is not streamed; where both are one, the body tells
    BASE_PATH: str
    REQUEST_ID_HEADER: str

    def reply(self, step: Step, body: Mapping[str, Any], /) -> dict[str, Any]:
        """The whole reply as one object."""

    def frames(self, step: Step, body: Mapping[str, Any], /) -> Iterator[str]:
        """The reply as server-sent events."""

    def error(self, status: int, message: str, /) -> dict[str, Any]:
        """The body of a failed request."""

    def error_frame(self, body: Mapping[str, object], /) -> str:
        """A failure in the middle of a stream."""


WireFormat = Literal["openai", "responses", "anthropic", "gemini"]
WIRE_FORMATS: list[WireFormat] = ["openai", "responses", "anthropic", "gemini"]

WIRES: dict[WireFormat, Wire] = {
    "openai": openai_chat,
    "responses": openai_responses,
    "anthropic": anthropic_messages,
    "gemini": gemini_generate,
}


class ModelServer:
    """A scripted model behind a real socket; a context manager.

    Requests are answered in order of arrival, one step each. `requests` holds all that came in;
    `overrun` those for which the script had no step left, answered with HTTP 500. An exception
    in a step that is a function is answered with HTTP 500, and raised again on leaving the block.
    """

    def __init__(
        self,
        *,
        wire: WireFormat,
        steps: Sequence[ScriptStep],
        repeat_last: bool = False,
    ) -> None:
        self.requests: list[Request] = []
        self.overrun: list[Request] = []
        self.wire = WIRES[wire]
        self._steps = list(steps)
        self._repeat_last = repeat_last
        self._taken = 0
        self._failures: list[Exception] = []
        self._changed = threading.Condition()
        self._listener = _Listener(self)

    def __enter__(self) -> Self:
        self._listener.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.stop()
        if error is None and self._failures:
            raise self._failures[0]

    @property
    def base_url(self) -> str:
        """What a client takes for the address of the API; `api_base` in litellm."""
        return f"http://127.0.0.1:{self._listener.server_address[1]}{self.wire.BASE_PATH}"

    def wait_until(self, holds: Callable[[], bool], timeout_s: float = 10.0) -> None:
        """Wait for what the server has seen to fulfil a condition, or raise TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(holds, timeout_s):
                raise TimeoutError(f"not so after {timeout_s} s; requests: {self.requests}")

    def take_step(self, request: Request) -> Step:
        """Record a request and say how to answer it."""
        with self._changed:
            self.requests.append(request)
            entry = self._entry(request)
            self._changed.notify_all()
        if isinstance(entry, Step):
            return entry
        try:
            return entry(request)
        except Exception as failure:
            self._failures.append(failure)
            return F(500, f"the step raised {failure!r}")

    def _entry(self, request: Request) -> ScriptStep:
        if request.path not in (self.wire.PATH, self.wire.PLAIN_PATH):
            return F(404, f"this server answers POST {self.wire.PATH}, not {request.path}")
        self._taken += 1
        if self._taken <= len(self._steps):
            return self._steps[self._taken - 1]
        if self._repeat_last and self._steps:
            return self._steps[-1]
        self.overrun.append(request)
        return F(500, f"the script has {len(self._steps)} steps, this is request {self._taken}")

    def wants_stream(self, request: Request) -> bool:
        """Whether the reply is asked for as server-sent events: by the body, or by the path."""
        by_path = self.wire.PATH != self.wire.PLAIN_PATH and request.path == self.wire.PATH
        return by_path or bool(request.body.get("stream"))

    def note_chunk(self, request: Request) -> None:
        """Count a chunk that was sent."""
        with self._changed:
            request.chunks_sent += 1
            self._changed.notify_all()

    def note_closed_by_client(self, request: Request) -> None:
        """Record that the client went away before it had the whole reply."""
        with self._changed:
            request.closed_by_client_at = time.monotonic()
            self._changed.notify_all()


class _Listener(ThreadingTCPServer):
    """The socket: a thread per connection, all connections closed on stop."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, model: ModelServer) -> None:
        self.model = model
        self.stopping = False
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def start(self) -> None:
        """Answer in the background."""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Take no more connections and close those that are open."""
        self.stopping = True
        self.shutdown()
        for connection in list(self._connections):
            _hang_up(connection)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection; `request` is its socket."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent about a client that goes away between two requests."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection: reads requests, plays steps."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def do_POST(self) -> None:
        """Read a request, answer it, and note if the client leaves meanwhile."""
        request = self._read()
        try:
            self._play(self.server.model.take_step(request), request)
        except ConnectionError:
            self.close_connection = True
            if not self.server.stopping:
                self.server.model.note_closed_by_client(request)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what was asked is in `requests`."""

    def _read(self) -> Request:
        received_at = time.monotonic()
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        return Request(
            path=self.path.partition("?")[0],
            headers={name.lower(): value for name, value in self.headers.items()},
            body=json.loads(raw or b"{}"),
            received_at=received_at,
        )

    def _play(self, step: Step, request: Request) -> None:
        self._wait(step.delay_s)
        if step.drop:
            self.close_connection = True
        elif step.hang:
            self._start(200, step, {"Content-Type": "text/event-stream"})
            self._wait(None)
        elif step.status is not None and step.error_after_chunks is None:
            self._send_whole(step.status, step, self._error_body(step))
        elif self.server.model.wants_stream(request):
            self._stream(step, request)
        else:
            reply = self.server.model.wire.reply(step, request.body)
            self._send_whole(200, step, json.dumps(reply, ensure_ascii=False).encode())

    def _wait(self, seconds: float | None) -> None:
        """Let time pass, but notice at once when the client goes away."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise ConnectionResetError("the client closed the connection")

    def _start(self, status: int, step: Step, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | dict(step.headers)).items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Transfer-Encoding", "chunked")
        self.send_header(self.server.model.wire.REQUEST_ID_HEADER, "req_scripted")
        self.end_headers()

    def _send_whole(self, status: int, step: Step, body: bytes) -> None:
        kind = "text/html" if isinstance(step.error, bytes) else "application/json"
        self._start(status, step, {"Content-Type": kind, "Content-Length": str(len(body))})
        if step.cut_after_chunks is not None:
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)

    def _stream(self, step: Step, request: Request) -> None:
        parts = [_http_chunk(frame) for frame in self._frames(step, request) if frame]
        if step.cut_after_chunks is None:
            # In one write with the last event: a client may leave as soon as it has that.
            parts[-1:] = [b"".join(parts[-1:]) + END_OF_BODY]
        else:
            self.close_connection = True
        self._start(200, step, {"Content-Type": "text/event-stream; charset=utf-8"})
        for number, part in enumerate(parts):
            self._wait(step.chunk_delay_s if number else 0.0)
            self.wfile.write(part)
            self.server.model.note_chunk(request)

    def _frames(self, step: Step, request: Request) -> list[bytes]:
        frames = [_utf8(frame) for frame in self.server.model.wire.frames(step, request.body)]
        if step.error_after_chunks is not None:
            return [*frames[: step.error_after_chunks], self._error_frame(step)]
        if step.cut_after_chunks is not None:
            return frames[: step.cut_after_chunks]
        return frames[: step.end_after_chunks]

    def _error_body(self, step: Step) -> bytes:
        if isinstance(step.error, bytes):
            return step.error
        return json.dumps(self._error_object(step)).encode()

    def _error_frame(self, step: Step) -> bytes:
        if isinstance(step.error, bytes):
            return step.error
        return self.server.model.wire.error_frame(self._error_object(step)).encode()

    def _error_object(self, step: Step) -> Mapping[str, object]:
        if isinstance(step.error, Mapping):
            return step.error
        status = step.status or 500
        message = step.error if isinstance(step.error, str) else f"scripted failure {status}"
        return self.server.model.wire.error(status, message)


def _utf8(frame: str) -> bytes:
    """The frame with an escape for every half of a surrogate pair, as JSON has them."""
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", frame).encode()


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)

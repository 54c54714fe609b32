"""A site on loopback: pages by their paths, and every request it was sent."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a path answers. A `location` makes it a redirect."""

    body: bytes = b""
    kind: str = "text/plain"
    status: int = 200
    location: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0


@dataclass(kw_only=True)
class Site:
    """A server on loopback, and every request it was sent: its path and its headers."""

    port: int
    requests: list[tuple[str, dict[str, str]]]

    def at(self, path: str, host: str = "site.test") -> str:
        """The address of a path, under a name."""
        return f"http://{host}:{self.port}{path}"


@contextmanager
def serving(replies: Mapping[str, Reply], secured: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A site with these pages; `secured` is what it speaks TLS with."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            reply = replies[self.path.partition("?")[0]]
            time.sleep(reply.wait_s)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(reply.body)))
            if reply.location is not None:
                self.send_header("Location", reply.location)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # the reader had enough
                self.wfile.write(reply.body)

        def log_message(self, *arguments: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if secured is not None:
        server.socket = secured.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Site(port=server.server_port, requests=asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

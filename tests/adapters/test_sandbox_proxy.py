"""The way out of a sandbox with a list of hosts, from inside, with servers on loopback."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import Any

import pytest

from runner.adapters.resolve import Resolve
from runner.adapters.sandbox.proxy import MAX_CALLS, Proxy
from runner.core import reach
from runner.core.reach import Address
from runner.ports import ExecResult
from tests.adapters.walled import Site, need

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_GET(self) -> None:
        """The path, the host and every header that a proxy should have taken away."""
        kept = [name for name in self.headers if name.lower().startswith("proxy-")]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.path} {self.headers['Host']} {kept}\n".encode())

    def do_POST(self) -> None:
        """The length of what was sent."""
        length = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"got {length}\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[int]:
    """A server on loopback; its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def curl(
    tmp_path: Path, hosts: Iterable[str], script: str, resolve: Resolve | None = None
) -> ExecResult:
    """A script inside a sandbox that may reach `hosts`; `$c` is curl, which obeys the proxy."""
    need("namespaces")

    async def play() -> ExecResult:
        site = Site(folder=tmp_path)
        site.walls()
        proxy = Proxy(reach.parse(hosts), resolve)
        door = site.session / "door"
        proxy.open(door)
        try:
            made = site.enclosure("namespaces", remarks=proxy.remarks, network="hosts", door=door)
            quiet = "unset NO_PROXY no_proxy; c='curl -sS -m 5'; "
            return await site.start(made, quiet + script)
        finally:
            await proxy.close()

    return asyncio.run(play())


def test_a_listed_host_is_reached_both_ways(tmp_path: Path) -> None:
    """As plain HTTP, with what is the proxy's own taken away, through CONNECT, and with a body."""
    with serving() as port:
        base = f"http://127.0.0.1:{port}"
        script = (
            f"$c {base}/a?b -H 'Proxy-X: 1'; $c -p {base}/tunnel; "
            f"head -c 200000 /dev/zero | $c --data-binary @- {base}/post"
        )
        result = curl(tmp_path, [f"127.0.0.1:{port}"], script)
    assert result.output == (f"/a?b 127.0.0.1:{port} []\n/tunnel 127.0.0.1:{port} []\ngot 200000\n")


def test_nothing_else_is_and_that_is_told(tmp_path: Path) -> None:
    """Another port, another name, directly, and by a made-up proxy request: refused and named."""
    with serving() as port, serving() as other:
        script = (
            f"$c http://127.0.0.1:{other}/; $c -p http://127.0.0.1:{other}/; "
            f"$c http://localhost:{port}/; $c --noproxy '*' http://127.0.0.1:{port}/; "
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        )
        result = curl(tmp_path, [f"127.0.0.1:{port}"], script)
    assert "127.0.0.1:" not in result.output.replace("127.0.0.1, port", "")
    for words in (
        f"[the sandbox refused a connection to 127.0.0.1, port {other}: not in `sandbox.network`]",
        f"[the sandbox refused a connection to localhost, port {port}: not in `sandbox.network`]",
        "CONNECT tunnel failed, response 403",
        "neither CONNECT nor plain HTTP",
    ):
        assert words in result.output


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "10.0.0.1"]
)
def test_a_listed_name_does_not_lead_inside(tmp_path: Path, address: str) -> None:
    """A name that is allowed and resolves to this machine or network is refused."""

    async def resolve(name: str, port: int) -> list[Address]:
        return [ip_address(address)]

    result = curl(
        tmp_path, ["mirror.test"], "$c http://mirror.test/; $c https://mirror.test/", resolve
    )
    assert "its address is not public" in result.output
    assert "response 403" in result.output


def test_a_name_is_resolved_once_and_every_address_is_checked(tmp_path: Path) -> None:
    """The address that was checked is the one that is called, whatever the name says later."""
    asked: list[str] = []
    with serving() as port:

        async def resolve(name: str, number: int) -> list[Address]:
            asked.append(name)
            return [IPv4Address("169.254.169.254"), IPv4Address("127.0.0.1")]

        hosts = [f"mirror.test:{port}", f"127.0.0.1:{port}"]
        result = curl(tmp_path, hosts, f"$c http://mirror.test:{port}/x", resolve)
    assert (asked, result.output) == (["mirror.test"], f"/x mirror.test:{port} []\n")


def test_a_host_that_is_down_is_an_answer(tmp_path: Path) -> None:
    """Nobody listens there: 502, and the reason."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    result = curl(tmp_path, [f"127.0.0.1:{port}"], f"$c http://127.0.0.1:{port}/")
    assert "no connection" in result.output


def test_two_commands_at_once_do_not_share_a_way(tmp_path: Path) -> None:
    """Each sandbox has a network of its own, and each reaches the proxy."""
    need("namespaces")

    async def play(port: int) -> list[ExecResult]:
        site = Site(folder=tmp_path)
        site.walls()
        proxy = Proxy(reach.parse([f"127.0.0.1:{port}"]))
        door = site.session / "door"
        proxy.open(door)
        made = site.enclosure("namespaces", network="hosts", door=door)
        script = f"unset NO_PROXY no_proxy; curl -sS http://127.0.0.1:{port}/"
        async with asyncio.TaskGroup() as both:
            tasks = [both.create_task(site.start(made, script + name)) for name in ("a", "b")]
        await proxy.close()
        return [task.result() for task in tasks]

    with serving() as port:
        outputs = [result.output for result in asyncio.run(play(port))]
    assert outputs == [f"/{name} 127.0.0.1:{port} []\n" for name in ("a", "b")]


FLOOD = """python3 -I -S - <<'END'
import socket
held = []
for _ in range(400):
    one = socket.create_connection(("127.0.0.1", 3128))
    one.send(b"GET ")
    held.append(one)
END
"""


def test_many_connections_do_not_use_up_the_runners_descriptors(tmp_path: Path) -> None:
    """Beyond a number they are closed at once, which is told; the next command has its way out."""
    with serving() as port:
        base = f"http://127.0.0.1:{port}"
        result = curl(tmp_path, [f"127.0.0.1:{port}"], f"{FLOOD}\n$c {base}/after")
    assert f"/after 127.0.0.1:{port} []" in result.output
    assert f"[the sandbox refused more than {MAX_CALLS} connections at once]" in result.output

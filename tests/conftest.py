"""What holds for every test: no provider key is there, and nothing leaves the machine."""

from __future__ import annotations

import gc
import ipaddress
import os
import re
import signal
import socket
import sys
import warnings
from collections.abc import Generator, Iterator
from typing import Any

import freezegun
import hypothesis
import pytest
from freezegun.api import FrozenDateTimeFactory, StepTickTimeFactory, TickingDateTimeFactory

# The same examples every time, however busy the machine; `--hypothesis-profile=explore` looks
# for new ones.
hypothesis.settings.register_profile(
    "steady", derandomize=True, deadline=None, database=None, max_examples=60
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("steady")

# A job that was started in the background ignores these, and so would every command it starts.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

PROVIDER_KEY = re.compile(r"(_API_KEY|_ACCESS_KEY(_ID)?|_AUTH_TOKEN|_SESSION_TOKEN)$")

FrozenTime = FrozenDateTimeFactory | StepTickTimeFactory | TickingDateTimeFactory


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden logs are rewritten only when asked; more kills take more time."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden logs")
    parser.addoption(
        "--crash-rounds", type=int, default=60, metavar="N", help="kill a run N times at random"
    )


# `poe cover` asks what the tests of the core and of its parts reach. Whole runs would add nothing
# but time: measuring makes the core two to three times as slow.
UNMEASURED = re.compile(
    r"tests/(api|app|cli|crash|e2e|laws|reports|servers)/"
    r"|tests/adapters/test_(journal_faults|litellm_\w+)\.py|tests/test_golden\w*\.py"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs are not measured, see UNMEASURED."""
    for item in items:
        if UNMEASURED.match(item.nodeid):
            item.add_marker(pytest.mark.no_cover)


# What a CI job may lack: root is stopped by no permission bits, others make no devices and stay
# who they are, and a container may forbid tracing and namespaces. A skip for another reason is a
# promise nobody kept.
EXPECTED_SKIPS = (
    "root may write everywhere",
    "only root makes device nodes",
    "only root becomes somebody else",
    "this machine has no pid namespaces for us",
    "no tmpfs can be mounted here",
    "strace may not trace here",
    "no Chromium on this machine",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that is skipped fails, unless its reason is an expected one."""
    report = yield
    if os.environ.get("CI") == "true" and (reason := unexpected_skip(report)):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not accept: {reason}"
    return report


def unexpected_skip(report: pytest.TestReport) -> str | None:
    """Why the test was skipped, if it may not be; None for all others."""
    if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return None
    reason = report.longrepr[2].removeprefix("Skipped: ")
    return None if reason.startswith(EXPECTED_SKIPS) else reason


@pytest.fixture(autouse=True)
def _no_provider_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if PROVIDER_KEY.search(name):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to anything but this machine is an error, in this process."""

    def guarded(real: Any) -> Any:
        def connect(self: socket.socket, address: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(address[0]):
                raise AssertionError(f"a test tried to connect to {address[0]}")
            return real(self, address)

        return connect

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(getattr(socket.socket, name)))


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:  # a name: looking it up would already leave the machine
        return False


@pytest.fixture(autouse=True, scope="module")
def _litellm_leaves_nothing() -> Iterator[None]:
    """litellm keeps sockets and loops of finished tests; they must not fail an innocent one."""
    yield
    litellm = sys.modules.get("litellm")
    if litellm is not None and hasattr(litellm, "in_memory_llm_clients_cache"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            litellm.in_memory_llm_clients_cache.flush_cache()
            gc.collect()


@pytest.fixture
def frozen_time() -> Iterator[FrozenTime]:
    """Time as the standard library tells it, stopped; event loops keep their own."""
    with freezegun.freeze_time("2026-01-02 03:04:05", real_asyncio=True) as frozen:
        yield frozen

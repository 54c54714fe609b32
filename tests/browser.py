"""A headless Chromium on one page, driven over two pipes; no port, no network.

Protocol: Chrome DevTools, JSON messages that end with a NUL byte, on descriptors 3 and 4.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 60
KEY_CODES = {"Escape": "Escape", "Enter": "Enter"}


def browser_or_skip() -> str:
    """The browser's program; skips the test where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


@dataclass(slots=True, kw_only=True)
class Tab:
    """The page that is open. `troubles` are errors of its script and of its policy."""

    process: subprocess.Popen[bytes]
    to_browser: int
    from_browser: int
    session: str = ""
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _number: int = 0
    _rest: bytes = b""
    _loaded: bool = False

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path) -> None:
        """Load a file and wait until its script has run."""
        self._loaded = False
        self.call("Page.navigate", url=page.as_uri())
        while not self._loaded:
            self._read()

    def value(self, expression: str) -> Any:
        """What an expression comes to in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press and release keys."""
        for key in keys:
            text = {} if len(key) > 1 else {"text": key}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self) -> bytes:
        """What is seen, as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self.from_browser, 1024 * 1024)
            assert piece, "the browser is gone"
            self._rest += piece
        raw, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.troubles.append(str(message["params"]["exceptionDetails"]))
            case "Log.entryAdded":
                self.troubles.append(str(message["params"]["entry"]["text"]))
            case "Network.requestWillBeSent":
                self.requests.append(str(message["params"]["request"]["url"]))
        return message


@contextmanager
def open_tab(profile: Path, *, width: int = 1280, height: int = 900) -> Iterator[Tab]:
    """A tab of a browser of its own; it is gone on leaving."""
    program = browser_or_skip()
    read_here, written_there = os.pipe()
    read_there, written_here = os.pipe()
    process = subprocess.Popen(
        [
            "bash",
            "-c",
            f'exec 3<&{read_there} 4>&{written_there}; exec "$0" "$@"',
            program,
            "--headless",
            "--no-sandbox",  # root has no other way, and the pages are ours
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            "about:blank",
        ],
        pass_fds=(read_there, written_there),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_there)
    os.close(written_there)
    try:
        tab = Tab(process=process, to_browser=written_here, from_browser=read_here)
        pages = tab.call("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        attached = tab.call("Target.attachToTarget", targetId=target, flatten=True)
        tab.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        yield tab
    finally:
        process.kill()
        process.wait(timeout=PATIENCE_S)
        os.close(written_here)
        os.close(read_here)

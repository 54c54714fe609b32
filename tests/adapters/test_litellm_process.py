"""The process around litellm: nothing is printed, nothing read in secret, no exit is held up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]

NOISY = """
import asyncio, json, os
from runner.adapters.litellm_model import start_import
from tests.adapters.litellm_calls import LONG_TEXT, MODELS, model_at, request
from tests.servers import F, ModelServer, Step, T

STEPS = [
    Step(text="x", omit_usage=True), F(401, "no"), F(429, "slow"), F(500, "oops"),
    Step(text=LONG_TEXT, cut_after_chunks=6), Step(drop=True), T("x"),
]

async def main(close):
    failed = 0
    for wire in MODELS:
        with ModelServer(wire=wire, steps=STEPS) as server:
            model = model_at(wire, server.base_url)
            for step in STEPS:
                try:
                    await model.ask(request(wire), lambda delta: None)
                except Exception:
                    failed += 1
            await model.count_tokens(request(wire))
        with ModelServer(wire=wire, steps=[Step(hang=True)]) as server:
            task = asyncio.create_task(
                model_at(wire, server.base_url).ask(request(wire), lambda delta: None)
            )
            await asyncio.to_thread(server.wait_until, lambda: bool(server.requests))
            task.cancel()
            await asyncio.wait([task])
    if close:
        await model.aclose()
    return failed

failed = [asyncio.run(main(close=True)), asyncio.run(main(close=False))]
report = {"failed": failed, "base": os.environ.get("OPENAI_BASE_URL")}
with open("report.json", "w") as file:
    json.dump(report, file)
"""


def test_nothing_is_printed(tmp_path: Path) -> None:
    """stdout and stderr stay empty whatever fails, with the model closed at the end or not, and
    a `.env` in the folder is not read."""
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://127.0.0.1:9/evil\n")
    run = subprocess.run(
        [sys.executable, "-c", NOISY],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr, run.returncode) == ("", "", 0)
    assert json.loads((tmp_path / "report.json").read_text()) == {"failed": [20, 20], "base": None}


def test_a_cancel_during_the_import_ends_the_process() -> None:
    """The process exits before litellm is there when the run is cancelled meanwhile."""
    code = """
        import asyncio
        from runner.adapters.litellm_model import start_import
        from tests.adapters.litellm_calls import model_at, request

        async def main():
            start_import()
            async with asyncio.timeout(0.1):
                await model_at("openai", "").ask(request("openai"), print)

        try:
            asyncio.run(main())
        except TimeoutError:
            print("imported" if start_import().done() else "left")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.stdout, run.stderr, run.returncode) == ("left\n", "", 0)


def test_what_litellm_complains_about_has_no_trace() -> None:
    """A nonsensical piece of a reply is a line in the log and not a page of litellm's code. In a
    process of its own: where litellm was loaded before, its loggers stay as their owner wants."""
    code = """
        import logging, sys
        from tests.adapters.litellm_calls import ask, raw

        logging.basicConfig(stream=sys.stdout, format="%(name)s %(message)s")
        delta = {"tool_calls": [{"index": "a", "id": "b", "function": {"name": "A"}}]}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        ask("openai", raw(
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = [line for line in run.stdout.splitlines() if line.startswith("LiteLLM ")]
    assert said
    assert (run.stdout.splitlines(), run.stderr, run.returncode) == (said, "", 0)


def test_the_import_asks_the_network_for_nothing(tmp_path: Path) -> None:
    """No name is looked up and no connection is made while litellm loads and a request is
    counted: in a process where both are recorded and refused."""
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(REFUSING))
    code = """
        import asyncio, socket
        from tests.adapters.litellm_calls import model_at, request

        async def main():
            model = model_at("openai", "")
            await model.ready()
            await model.count_tokens(request("openai"))

        asyncio.run(main())
        assert "litellm" in __import__("sys").modules
        print(socket.tried)
        try:
            socket.create_connection(("127.0.0.1", 9))
        except OSError:
            print(socket.tried)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("[]\n['socket.getaddrinfo', 'socket.connect']\n", 0)


REFUSING = """
    import socket, sys
    socket.tried = []

    def note(event, arguments):
        if event == "socket.connect" or event.startswith("socket.get"):
            socket.tried.append(event)
            if event == "socket.connect":
                raise OSError(event)

    sys.addaudithook(note)
"""


def test_importing_the_adapter_does_not_import_litellm() -> None:
    """The import begins when it is asked for, and not before."""
    code = "import sys, runner.adapters.litellm_model; sys.exit('litellm' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)

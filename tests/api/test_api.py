"""`from runner import run, load_spec`: values for endings, and a host program left as it was."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import runner
from runner import Result, SpecError, events, load_spec, run, run_async
from runner.core.spec import TaskSpec
from tests.api.test_session import LOOK, bash, done, is_alive, wait_for
from tests.e2e.desk import CENT, MODELS, Desk
from tests.servers import ModelServer, Step, Tool

PR_GET_DUMPABLE = 3
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def spec_of(desk: Desk, *steps: Step, **keys: Any) -> TaskSpec:
    """A task on this desk, whose model says this."""
    desk.script(steps)
    return load_spec(desk.spec(**keys))


def where(desk: Desk) -> dict[str, Any]:
    """Where its session goes, and what it sees."""
    return {"home": desk.home, "environ": desk.environment()}


@pytest.fixture
def host() -> Iterator[None]:
    """What a host program owns is the same after the test as before."""

    def owned() -> dict[str, Any]:
        return {
            "environment": {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"},
            "signals": [signal.getsignal(number) for number in HANDLED],
            "handlers": list(logging.getLogger().handlers),
            "level": logging.getLogger().level,
            "warnings": list(warnings.filters),
            "dumpable": ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
            "folder": Path.cwd(),
            "streams": (sys.stdout, sys.stderr, sys.stdin),
        }

    before, threads = owned(), threading.active_count()
    yield
    assert owned() == before
    ends_at = time.monotonic() + 10
    while threading.active_count() > threads:  # the loop's thread ends after its last run
        assert time.monotonic() < ends_at
        time.sleep(0.01)


@pytest.mark.usefixtures("host")
def test_a_run_changes_nothing_of_the_host_and_says_nothing(
    desk: Desk, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever happens in it: a command, a denial, a retry, a failed check, a lost workspace."""
    good = run(spec_of(desk, bash("echo loud; echo louder >&2"), LOOK, done()), **where(desk))
    assert good.ok
    bad = spec_of(
        desk, done(), Step(text="no"), verify=["false"], limits={"max_verify_attempts": 1}
    )
    assert run(bad, **where(desk)).subtype == "error_verification_failed"
    lost = spec_of(desk, done(), workspace="work", sandbox={"require": "namespaces"}, verify=["x"])
    run(lost, **where(desk))
    assert capfd.readouterr() == ("", "")


def test_a_result_says_what_result_json_says(desk: Desk) -> None:
    """Typed, with money as `Decimal`; the whole object is there too."""
    spec = spec_of(desk, LOOK, done("all tidy"), max_budget_usd=1, pricing=CENT)
    result = run(spec, session_id="mine", **where(desk))
    told = result.fields
    assert result == Result(
        ok=True,
        subtype="success",
        error_type=None,
        exit_code=0,
        text="all tidy",
        structured_output=None,
        errors=(),
        session_id="mine",
        num_turns=2,
        num_tool_turns=1,
        cost_usd=Decimal(str(told["total_cost_usd"])),
        duration_ms=told["duration_ms"],
        folder=desk.home / "session-state" / "mine",
        fields=told,
    )
    assert result.cost_usd > 0


def test_a_spec_that_is_wrong_is_one_exception_with_all_its_problems(desk: Desk) -> None:
    """Each with its place, those of overrides too."""
    path = desk.spec(model="scripted:none.yaml", max_turn=3)
    with pytest.raises(SpecError) as caught:
        load_spec(path, overrides={"timeout": "soon", "limits.tool": 0}, inputs={"x": "1"})
    said = [(problem.file.partition(" ")[0], problem.path) for problem in caught.value.problems]
    assert [path for _, path in said] == ["model", "max_turn", "timeout", "limits.tool", "inputs.x"]
    assert said[2][0] == "override"


def test_overrides_and_inputs_are_values_and_not_command_line_text(desk: Desk) -> None:
    """Nested keys, lists, paths, money; a text that begins with @ is a text."""
    desk.script([done()])
    path = desk.spec(prompt="Look at {{ inputs.who }}.", inputs={"who": {"required": True}})
    spec = load_spec(
        path,
        inputs={"who": "@somebody"},
        overrides={
            "allowed_tools": ["Bash(git log *)", "Read"],
            "limits.tool": "90s",
            "max_budget_usd": Decimal("0.25"),
            "add_dirs": [desk.folder],
            "autopilot": False,
        },
    )
    assert (spec.prompt, spec.limits.tool) == ("Look at @somebody.", 90)
    assert (spec.allowed_tools, spec.autopilot) == (("Bash(git log *)", "Read"), False)
    assert (spec.max_budget_usd, spec.add_dirs) == (Decimal("0.25"), (str(desk.folder),))


def test_a_spec_can_be_given_as_its_keys(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths in it start at the current folder; what is wrong names the key."""
    desk.script([done("by keys")])
    monkeypatch.chdir(desk.folder)
    keys = {"name": "x", "model": "scripted:replies.yaml", "workspace": {"path": desk.workspace}}
    spec = load_spec(MappingProxyType({**keys, "prompt": "Do it."}))
    assert run(spec, **where(desk)).text == "by keys"
    with pytest.raises(SpecError) as caught:
        load_spec({**keys, "max_turn": 3, "max_budget_usd": -1})
    assert [str(problem).splitlines()[0] for problem in caught.value.problems] == [
        "spec: max_turn: unknown key",
        "spec: max_budget_usd: expected a number > 0, got -1",
        "spec: prompt: required, but missing",
    ]
    assert load_spec(keys, needs_prompt=False).name == "x"


def test_what_is_no_spec_is_said_at_once(desk: Desk) -> None:
    """Instead of a stack of ours, or a read of the standard input."""
    path = desk.spec(model="scripted:none.yaml")
    for wrong in (path, str(path), {"name": "x"}):
        with pytest.raises(TypeError, match="load it with `load_spec`"):
            run(wrong)  # type: ignore[arg-type]  # as a program without a type checker does
    with pytest.raises(ValueError, match="reads no standard input"):
        load_spec("-")
    with pytest.raises(TypeError, match="the input `x` is a text, not int"):
        load_spec(path, inputs={"x": 3})  # type: ignore[dict-item]  # as above
    with pytest.raises(TypeError, match="object is no value of a spec"):
        load_spec(path, overrides={"name": object()})


def test_it_works_in_another_thread_and_beside_an_event_loop(desk: Desk, tmp_path: Path) -> None:
    """Two at once, awaited in the loop of the host, which goes on meanwhile."""
    other = Desk(folder=tmp_path / "other")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def both() -> list[Result]:
        ticking = asyncio.create_task(tick())
        specs = [(one, spec_of(one, bash("sleep 0.3"), done())) for one in (desk, other)]
        results = await asyncio.gather(*(run_async(spec, **where(one)) for one, spec in specs))
        ticking.cancel()
        return list(results)

    found: list[list[Result]] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(both())))
    thread.start()
    thread.join()
    assert [result.ok for result in found[0]] == [True, True]
    assert ticks > 5


def test_run_waits_inside_a_running_loop(desk: Desk) -> None:
    """It blocks that loop, as any call does, and works."""

    async def call() -> Result:
        return run(spec_of(desk, done("in there")), **where(desk))

    assert asyncio.run(call()).text == "in there"


def test_cancelling_the_task_stops_the_run(desk: Desk) -> None:
    """Nothing is alive once the cancellation is through, and the log has its ending."""

    async def cut() -> int:
        spec = spec_of(desk, bash("echo $$ > pid; sleep 300"))
        task = asyncio.create_task(run_async(spec, session_id="cut", **where(desk)))
        pid = int(await asyncio.to_thread(wait_for, desk.workspace / "pid"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    assert not is_alive(asyncio.run(cut()))
    log = (desk.home / "session-state" / "cut" / "events.jsonl").read_text()
    assert '"resultSubtype":"error_during_execution"' in log.splitlines()[-1]


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 143)]
)
def test_signals_are_handled_when_that_is_asked_for(
    desk: Desk, number: signal.Signals, code: int
) -> None:
    """The ending says so, and the handlers of before are back."""

    def send(record: object) -> None:
        if isinstance(getattr(record, "event", None), events.ToolExecutionStart):
            os.kill(os.getpid(), number)

    spec = spec_of(desk, bash("sleep 300"))
    result = run(spec, on_event=send, handle_signals=True, **where(desk))
    assert (result.exit_code, result.errors) == (code, (f"Cancelled by {number.name}",))


def test_signals_are_the_main_threads(desk: Desk) -> None:
    """Elsewhere the wish is an error, before anything runs."""
    spec, caught = spec_of(desk, done()), []

    def call() -> None:
        try:
            run(spec, handle_signals=True, **where(desk))
        except ValueError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(caught) == 1
    assert not desk.home.exists()


@pytest.mark.usefixtures("host")
def test_an_interrupt_from_the_keyboard_stops_the_run_first(desk: Desk) -> None:
    """It is raised as everywhere in Python, once nothing of the run is alive."""

    def press() -> None:
        wait_for(desk.workspace / "pid")
        os.kill(os.getpid(), signal.SIGINT)

    spec = spec_of(desk, bash("echo $$ > pid; sleep 300"))
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        run(spec, **where(desk))
    assert not is_alive(int((desk.workspace / "pid").read_text()))


# litellm ignores this warning of pydantic's from its import on, which was in another test.
@pytest.mark.filterwarnings("ignore:Accessing the")
def test_two_providers_are_asked_at_once_and_again(desk: Desk, tmp_path: Path) -> None:
    """Through litellm, whose connections are shared: the end of one run cuts no other."""
    quick, slow = desk, Desk(folder=tmp_path / "slow")
    look = Step(tools=(Tool(name="Read", arguments={"file_path": "README.md"}),), delay_s=0.2)
    with (
        ModelServer(wire="openai", steps=[done("quick"), done("again")]) as one,
        ModelServer(wire="anthropic", steps=[look, look, look, done("slow")]) as two,
    ):
        for at, wire, server in ((quick, "openai", one), (slow, "anthropic", two)):
            at.wire = wire  # type: ignore[assignment]  # one of the literal's words
            at.spec(model=MODELS[at.wire or "openai"], api_base=server.base_url)
        slowly = runner.Session(load_spec(slow.folder / "task.yaml"), **where(slow)).send()
        first = run(load_spec(quick.folder / "task.yaml"), **where(quick))
        assert (first.text, first.errors) == ("quick", ())
        assert slowly.result().text == "slow"
        assert run(load_spec(quick.folder / "task.yaml"), **where(quick)).text == "again"
    assert not [name for name in os.environ if name.startswith("LITELLM_")]


PROBE = """
import sys, runner
assert "runner.api" not in sys.modules and "asyncio" not in sys.modules
from runner import Result, Session, load_spec, run, run_async, events, SpecError, SessionError
heavy = {"litellm", "mcp", "httpx", "markdownify", "jinja2", "structlog"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_import_is_cheap() -> None:
    """`import runner` loads nothing, the names of the API nothing that is slow."""
    subprocess.run([sys.executable, "-c", PROBE], check=True, cwd=Path(__file__).parents[2])


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="no attribute `walk`"):
        _ = runner.walk

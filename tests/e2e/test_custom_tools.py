"""Tools that a task brings itself, in whole runs: what they may, what they say, what ends them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import REPOSITORY, Desk, Played
from tests.servers import D, X

pytestmark = pytest.mark.warm

MODULE = """
import asyncio
import os
import subprocess
import sys
import time

import parts.words


def ticket(id, loud=False):
    print("printed by the function")
    os.write(1, b"written past Python\\n")
    subprocess.run(["echo", "printed by a child"], check=True)
    return {"id": id, "said": parts.words.said(id), "loud": loud, "token": os.environ.get("TOKEN")}


async def later(seconds):
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


def alone(seconds):
    begun = time.monotonic()
    time.sleep(seconds)
    return json_of(begun, time.monotonic())


def json_of(begun, ended):
    return {"begun": begun, "ended": ended}


def broken(how):
    if how == "leaves":
        sys.exit(0)
    if how == "no JSON":
        return {1, 2}
    if how == "is gone":
        os._exit(0)
    raise ValueError("there is no such ticket")


def path():
    return {"path": sys.path, "cwd": os.getcwd()}
"""

NOTHING = {"type": "object", "additionalProperties": False}


def taking(required: tuple[str, ...] = (), **properties: str) -> dict[str, Any]:
    """The schema of an object with properties of these types."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": [*required],
        "additionalProperties": False,
    }


def function(name: str, schema: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    """A tool that is a function of the module."""
    described = {"description": f"The tool {name}.", "input_schema": schema}
    return {**described, "python": f"own_tools:{name}", **keys}


def command(*argv: str, schema: Mapping[str, Any] = NOTHING, **keys: Any) -> dict[str, Any]:
    """A tool that is a command."""
    return {"description": "A command.", "input_schema": schema, "command": [*argv], **keys}


TOOLS: dict[str, Any] = {
    "ticket": function(
        "ticket",
        taking(("id",), id="string", loud="boolean"),
        env={"TOKEN": "${GIVEN:-none}"},
    ),
    "later": function("later", taking(("seconds",), seconds="number")),
    "broken": function("broken", taking(("how",), how="string")),
    "path": function("path", NOTHING),
    "show": command("./show.sh", "one arg", schema=taking(x="string")),
    "fails": command("bash", "-c", "echo out; echo why >&2; exit 3"),
}


def prepared(desk: Desk) -> Desk:
    """A desk with a module beside the task, and a script in the workspace."""
    (desk.folder / "own_tools.py").write_text(MODULE)
    (desk.folder / "parts").mkdir()
    (desk.folder / "parts/words.py").write_text("def said(id):\n    return f'ticket {id}'\n")
    desk.write("show.sh", '#!/bin/sh\necho "$1: $(cat)"\n').chmod(0o755)
    desk.defaults["custom_tools"] = TOOLS
    return desk


def answers(played: Played) -> list[tuple[bool, str]]:
    """Every call in the order asked: whether it went well, and what the model was told."""
    ended = {d["toolCallId"]: d for d in played.of("tool.execution_complete")}
    begun = played.of("tool.execution_start")
    asked = [d["toolCallId"] for d in begun if d["toolName"] != "task_complete"]
    return [
        (
            ended[id_]["success"],
            ended[id_]["result"]["content"]
            if ended[id_]["success"]
            else ended[id_]["error"]["message"],
        )
        for id_ in asked
    ]


def test_functions_and_commands_of_a_task_are_tools(desk: Desk) -> None:
    """They are listed, called with checked arguments, and answer with what they return or print;
    what a function prints is no part of that. Each call stands in the log as a decision."""
    steps = [
        X(
            ("ticket", {"id": "7"}),
            ("ticket", {"nr": 7}),
            ("later", {"seconds": 0}),
            ("show", {"x": "é"}),
            ("fails", {}),
            ("path", {}),
        ),
        D("done"),
    ]
    played = prepared(desk).play(
        steps, "--output-format", "stream-json", allowed_tools=["Bash", *TOOLS]
    )
    said = answers(played)
    assert json.loads(said[0][1]) == {"id": "7", "said": "ticket 7", "loud": False, "token": "none"}
    assert said[1] == (
        False,
        "ticket: arguments: 'id' is a required property\n"
        "ticket: arguments: Additional properties are not allowed ('nr' was unexpected)",
    )
    assert said[2:5] == [
        (True, "waited 0"),
        (True, 'one arg: {"x": "\\u00e9"}'),
        (False, "out\nwhy\n[exit code 3]"),
    ]
    told = json.loads(said[5][1])
    assert told["cwd"] == str(desk.workspace)
    assert told["path"][0] == str(desk.folder)
    assert str(desk.workspace) not in told["path"]
    assert [*TOOLS] == [name for name in played.stream[0]["tools"] if name in TOOLS]
    asked = [d["permissionRequest"] for d in played.of("permission.requested")]
    assert {key: asked[0][key] for key in ("kind", "toolName", "toolDescription", "args")} == {
        "kind": "custom-tool",
        "toolName": "ticket",
        "toolDescription": "The tool ticket.",
        "args": {"id": "7"},
    }
    assert len(asked) == 5
    assert not [*desk.folder.glob("**/__pycache__")]
    assert played.exit_code == 0


def test_what_a_function_raises_is_an_error_the_model_can_read(desk: Desk) -> None:
    """The way through its own module, and nothing of ours; leaving the program is an error too."""
    hows = ("raises", "leaves", "no JSON", "is gone")
    steps = [X(*(("broken", {"how": how}) for how in hows)), D("done")]
    played = prepared(desk).play(steps, allowed_tools=["broken"])
    raised, left, unfit, gone = answers(played)
    assert raised == (
        False,
        "Traceback (most recent call last):\n"
        f'  File "{desk.folder}/own_tools.py", line 40, in broken\n'
        '    raise ValueError("there is no such ticket")\n'
        "ValueError: there is no such ticket",
    )
    assert left[1].splitlines()[-1] == "RuntimeError: it left with sys.exit(0)"
    assert unfit[1].splitlines()[-1] == "TypeError: Object of type set is not JSON serializable"
    assert gone == (False, "[the function ended the program before it returned]")


MODES: dict[str, dict[str, Any]] = {
    "default": {"permission_mode": "default"},
    "acceptEdits": {"permission_mode": "acceptEdits"},
    "dontAsk": {"permission_mode": "dontAsk"},
    "plan, with a rule": {"permission_mode": "plan", "allowed_tools": ["show"]},
    "plan, read-only, without a rule": {"permission_mode": "plan", "read_only": True},
    "a rule about another": {"allowed_tools": ["fails"]},
    "a rule that denies": {"allowed_tools": ["show"], "disallowed_tools": ["show(x:y*)"]},
    "asking": {"permission_mode": "bypassPermissions", "ask_tools": ["show(x:*)"]},
}
"""What leaves a command of the task unrun."""


@pytest.mark.parametrize("how", MODES)
def test_a_tool_of_the_task_is_not_free(desk: Desk, how: str) -> None:
    """No mode but those that ask nobody opens it, and the denial says which rule would."""
    keys = {"allowed_tools": [], "sandbox": BYPASSING, **MODES[how]}
    own = {"show": command("touch", "ran", schema=taking(x="string"))}
    own["show"]["read_only"] = keys.pop("read_only", False)
    played = prepared(desk).play(
        [X(("show", {"x": "yes"})), D("done")], custom_tools={**TOOLS, **own}, **keys
    )
    ((ok, text),) = answers(played)
    assert not ok
    assert "denied" in text
    assert desk.read("ran") is None
    assert played.result["permission_denials"][0]["tool_name"] == "show"


BYPASSING = {"mode": "off", "reason": "the test is about rules", "container": True}


@pytest.mark.parametrize(
    "keys",
    [
        {"permission_mode": "bypassPermissions", "allowed_tools": []},
        {"permission_mode": "plan", "allowed_tools": ["show"], "read_only": True},
        {"permission_mode": "dontAsk", "allowed_tools": ["show"]},
        {"tools": ["Read"], "allowed_tools": ["show"]},
    ],
)
def test_a_rule_or_everything_allowed_opens_it(desk: Desk, keys: dict[str, Any]) -> None:
    """A rule that names it, bypassPermissions, and in mode plan a rule when it is read-only;
    `tools` is about the built-in ones."""
    own = {"show": command("touch", "ran", read_only=keys.pop("read_only", False))}
    played = prepared(desk).play(
        [X(("show", {})), D("done")], custom_tools=own, sandbox=BYPASSING, **keys
    )
    assert answers(played) == [(True, "(no output)")]
    assert desk.read("ran") == ""
    assert [d["result"]["kind"] for d in played.of("permission.completed")] == ["approved"]


def test_a_call_that_takes_too_long_is_killed_with_all_it_started(desk: Desk) -> None:
    """Its own limit, and that of all tools; a child in the background is killed with either."""
    own = {
        "slow": command("bash", "-c", "sleep 300 & echo $! > a; sleep 300", timeout="500ms"),
        "forks": command("bash", "-c", "sleep 300 & echo $! > b; echo started"),
        "later": function("later", taking(("seconds",), seconds="number")),
    }
    played = prepared(desk).play(
        [X(("slow", {}), ("forks", {}), ("later", {"seconds": 300})), D("done")],
        custom_tools=own,
        allowed_tools=[*own],
        limits={"tool": "2s"},
    )
    assert answers(played) == [
        (False, "[timed out after 0.5 s and was killed]"),
        (
            True,
            "started\n[still running in the background and killed, since nothing outlives a call: "
            "1]",
        ),
        (False, "[timed out after 2 s and was killed]"),
    ]
    for name in "ab":
        assert not Path(f"/proc/{(desk.read(name) or '').strip()}").exists()


def test_a_flood_is_cut_and_kept(desk: Desk) -> None:
    """The model gets head and tail within the limit; the whole of it is in a file."""
    own = {"flood": command("bash", "-c", "echo first; head -c 3000000 /dev/zero | tr '\\0' x")}
    played = prepared(desk).play(
        [X(("flood", {})), D("done")],
        custom_tools=own,
        allowed_tools=["flood"],
        limits={"max_tool_output_bytes": 2000},
    )
    ((ok, text),) = answers(played)
    assert ok
    assert text.startswith("first\n")
    assert len(text.encode()) <= 2000
    (file,) = (played.folder / "files").iterdir()
    assert file.stat().st_size == 3_000_006


def test_read_only_tools_run_together_and_others_do_not(desk: Desk) -> None:
    """Calls of one reply overlap when the task says that the tool changes nothing."""
    schema = taking(("seconds",), seconds="number")
    own = {
        "alone": function("alone", schema),
        "together": function("alone", schema, read_only=True),
    }
    both = [X(*[(name, {"seconds": 0.5})] * 2) for name in own]
    played = prepared(desk).play([*both, D("done")], custom_tools=own, allowed_tools=[*own])
    first, second, third, fourth = [json.loads(text) for _, text in answers(played)]
    assert first["ended"] <= second["begun"]
    assert third["begun"] < fourth["ended"]
    assert fourth["begun"] < third["ended"]


TAMPERING = {
    "the module": "echo 'def ticket(id): return 1' > ../own_tools.py",
    "what it imports": "echo 'def said(id): return 1' > ../parts/words.py",
    "the script of a command": "echo '#!/bin/sh' > show.sh",
}


@pytest.mark.parametrize("what", TAMPERING)
def test_an_agent_that_rewrites_a_tool_ends_the_run(desk: Desk, what: str) -> None:
    """As a policy violation, whatever the tool would have said."""
    steps = [X(("Bash", {"command": TAMPERING[what]}), ("ticket", {"id": "7"})), D("done")]
    played = prepared(desk).play(steps, allowed_tools=["Bash", "ticket"])
    assert (played.exit_code, played.result["subtype"]) == (11, "error_policy_violation")


def test_file_tools_refuse_to_write_a_tool(desk: Desk) -> None:
    """And say why."""
    steps = [X(("Write", {"file_path": "show.sh", "content": "x"})), D("done")]
    played = prepared(desk).play(steps, allowed_tools=["Write"])
    ((ok, text),) = answers(played)
    assert not ok
    assert "a check of `verify`, a hook or a tool of the task runs it" in text


def test_a_new_file_never_takes_the_place_of_a_module(desk: Desk) -> None:
    """With the tools in the workspace itself: neither a file of the name of a module that the tool
    imports, nor a compiled form of the tool, is ever run."""
    desk.write("own_tools.py", "def ask():\n    import fractions\n    return fractions.__file__\n")
    evil = "open('/dev/stderr', 'w').write('evil'); raise SystemExit('evil')"
    own = {"ask": {**function("ask", NOTHING), "python_path": str(desk.workspace)}}
    steps = [
        X(
            ("Write", {"file_path": "fractions.py", "content": evil}),
            ("Write", {"file_path": "own_tools/__init__.py", "content": evil}),
            ("Write", {"file_path": "__pycache__/own_tools.cpython-311.pyc", "content": evil}),
            ("ask", {}),
        ),
        D("done"),
    ]
    played = prepared(desk).play(steps, custom_tools=own, allowed_tools=["ask", "Write"])
    ok, text = answers(played)[-1]
    assert ok, text
    assert text.endswith("/fractions.py")
    assert not text.startswith(str(desk.workspace))


def test_tools_run_behind_the_walls_of_commands(desk: Desk) -> None:
    """A function cannot write outside of the workspace, and sees no variable that no tool sees."""
    (desk.folder / "own_tools.py").write_text(
        "import os, pathlib\n"
        "def reach():\n"
        "    seen = [n for n in os.environ if n in ('AUTOPILOT_HOME', 'PYTHONPATH', 'OWN')]\n"
        "    try:\n"
        "        pathlib.Path('../out').write_text('x')\n"
        "    except OSError:\n"
        "        return seen\n"
        "    return seen\n"
    )
    own = {"reach": function("reach", NOTHING, env={"OWN": "x"})}
    played = desk.play(
        [X(("reach", {})), D("done")],
        custom_tools=own,
        allowed_tools=["reach"],
        sandbox=None,
        add_dirs=[str(REPOSITORY)],  # nothing else in /tmp is seen, should the checkout be there
    )
    ((ok, text),) = answers(played)
    if played.result["sandbox"] == "process":
        pytest.skip("no sandbox here")
    assert ok
    assert json.loads(text) == ["OWN"]
    assert not (desk.folder / "out").exists()


def test_an_abort_leaves_nothing_of_a_call_alive(desk: Desk) -> None:
    """SIGTERM in the middle of a call: the process and its child are gone."""
    own = {"slow": command("bash", "-c", "sleep 300 & echo $! > a; echo $$ > b; sleep 300")}
    steps = [X(("slow", {})), D("done")]
    with prepared(desk).started(steps, custom_tools=own, allowed_tools=["slow"]) as running:
        running.wait_until(lambda: bool(desk.read("b")), "the call")
        running.send(signal.SIGTERM)
        played = running.finish()
    assert played.exit_code == 143
    for name in "ab":
        pid = int((desk.read(name) or "").strip())
        ends_at = time.monotonic() + 5
        while Path(f"/proc/{pid}").exists() and time.monotonic() < ends_at:
            time.sleep(0.02)
        assert not Path(f"/proc/{pid}").exists()


def test_a_sub_agent_may_be_given_a_tool_of_the_task(desk: Desk) -> None:
    """By its name, as a built-in one; another one it does not have."""
    agents = {
        "clerk": {"description": "Reads tickets.", "prompt": "You read.", "tools": ["ticket"]}
    }
    steps = [
        X(("Agent", {"description": "a", "prompt": "Read it.", "subagent_type": "clerk"})),
        X(("ticket", {"id": "1"}), ("show", {})),
        D("read"),
        D("done"),
    ]
    steps[2] = type(steps[2])(text="It says ticket 1.")
    played = prepared(desk).play(steps, agents=agents, allowed_tools=["ticket", "show"])
    said = [text for _, text in answers(played)]
    assert any('"said": "ticket 1"' in text for text in said)
    assert any(text.startswith("there is no tool `show`") for text in said)
    assert played.exit_code == 0


PREFLIGHT = {
    "no such program": (command("no-such-program"), "there is no program `no-such-program`"),
    "no such script": (command("./gone.sh"), "/gone.sh; correct `command`"),
    "not executable": (command("./README.md"), "is not executable; run chmod +x"),
    "no script for Python": (command("python3", "gone.py"), "there is no file"),
    "no module": ({**TOOLS["path"], "python": "gone:path"}, "there is no module `gone`"),
    "no function": ({**TOOLS["path"], "python": "own_tools:gone"}, "has no function `gone`"),
    "no variable": (command("true", env={"A": "${NOT_SET}"}), "NOT_SET is not set"),
    "an import that fails": (
        {**TOOLS["path"], "python": "fails_late:f"},
        "ModuleNotFoundError: No module named 'not_installed'",
    ),
    "no argument of this name": (
        function("path", taking(x="string")),
        "TypeError: got an unexpected keyword argument 'x'; `input_schema` says otherwise",
    ),
    "an argument that may be missing": (
        function("later", taking(seconds="number")),
        "TypeError: missing a required argument: 'seconds'; `input_schema` says otherwise",
    ),
    "a syntax error": ({**TOOLS["path"], "python": "unreadable:f"}, "is no Python that this"),
}


@pytest.mark.parametrize("what", PREFLIGHT)
def test_a_tool_that_cannot_run_is_found_before_anything_is_paid(desk: Desk, what: str) -> None:
    """Exit 78, with the file and the line of the key, and what to do."""
    tool, told = PREFLIGHT[what]
    (desk.folder / "fails_late.py").write_text("import not_installed\ndef f(): ...\n")
    (desk.folder / "unreadable.py").write_text("def f(:\n")
    played = prepared(desk).play([D("done")], custom_tools={"mine": tool})
    assert played.exit_code == 78
    line = next(
        number
        for number, text in enumerate((desk.folder / "task.yaml").read_text().splitlines(), 1)
        if '"command": [' in text or '"python":' in text
    )
    (error,) = played.result["errors"]
    assert error.startswith(f"custom_tools: {desk.folder}/task.yaml:{line}: mine: ")
    assert told in error
    assert not played.of("assistant.turn_start")


def test_plan_lists_the_tools_of_the_task(desk: Desk) -> None:
    """With what happens to a call of each; it runs none of them."""
    (desk.folder / "own_tools.py").write_text("raise SystemExit('imported')\ndef path(): ...\n")
    desk.script([D("done")])
    tools = {"path": TOOLS["path"], "fails": TOOLS["fails"]}
    spec = desk.spec(custom_tools=tools, allowed_tools=["path"])
    planned = desk.call("plan", str(spec))
    assert planned.returncode == 0, planned.stderr
    assert "path             allowed: rule `path` allows it" in planned.stdout
    assert "fails            denied: no rule allows it in mode acceptEdits" in planned.stdout
    told = [desk.call(name, str(spec)).stdout for name in ("plan", "doctor")]
    assert all("custom_tools" in text and "2 configured" in text for text in told)


def test_a_pattern_that_takes_for_ever_stops_neither_the_clock_nor_a_signal(desk: Desk) -> None:
    """Arguments are compared with such a schema where that can be ended, and fit or do not."""
    words = {"type": "string", "pattern": r"^(\w+\s?)*$"}
    schema = {"type": "object", "properties": {"words": words}}
    own = {"say": command("echo", "said", schema=schema)}
    asked = [("say", {"words": words}) for words in ("two words", "!", "a" * 40 + "!")]
    played = prepared(desk).play(
        [X(asked[0], asked[1]), X(asked[2]), D("done")],
        custom_tools=own,
        allowed_tools=["say"],
        timeout="4s",
        limits={"shutdown_grace": "1s"},
    )
    assert played.exit_code == 9
    assert [text.partition(" does not match")[0] for _, text in answers(played)[:2]] == [
        "said",
        "say: /words: '!'",
    ]

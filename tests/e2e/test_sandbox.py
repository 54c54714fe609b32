"""The sandbox of a run: what a spec asks for is had and told, or the run does not start."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.test_sandbox_proxy import serving
from tests.adapters.walled import need
from tests.e2e.desk import Desk, Played
from tests.servers import D, X

ON: dict[str, Any] = {"mode": "auto"}


def bash(command: str) -> tuple[str, dict[str, str]]:
    """A call of Bash."""
    return ("Bash", {"command": command})


def report(played: Played) -> dict[str, Any]:
    """What the preflight says of the sandbox; the result says the same."""
    (preflight,) = played.of("runner.preflight")
    told: dict[str, Any] = preflight["sandboxReport"]
    assert played.result["sandbox_report"] == told
    assert played.result["sandbox"] == preflight["sandbox"] == told["tier"]
    return told


def output(played: Played, number: int = 0) -> str:
    """What a call gave back."""
    done = played.of("tool.execution_complete")[number]
    text: str = (done.get("result") or {}).get("content") or done["error"]["message"]
    return text


def test_without_a_word_the_best_tier_is_taken_and_told(desk: Desk) -> None:
    """Namespaces, no network, every canary dead; work goes on as always, and the end says so."""
    need("namespaces")
    secret = desk.folder / ".ssh" / "id"
    secret.parent.mkdir()
    secret.write_text("credential-4711")
    look = f"cat {secret} {desk.home}/session-state/*/result.json"
    script = f"{look}; echo x > {desk.folder}/y; echo hi > made"
    played = desk.play([X(bash(script)), D("done")], sandbox=None, verify=["test -e made"])
    assert (played.exit_code, desk.read("made")) == (0, "hi\n")
    told = report(played)
    assert (told["tier"], told["network"], told["skipped"]) == ("namespaces", "denied", [])
    assert all(canary["held"] for canary in told["canaries"])
    assert "4711" not in output(played)
    (prompt,) = played.of("system.message")
    assert "They have no network." in prompt["content"]
    assert not (desk.folder / "y").exists()
    assert "sandbox    namespaces, network denied" in played.stderr
    assert (
        "sandbox    namespaces, network denied"
        in desk.call("show", played.result["session_id"]).stdout
    )


def test_temporary_files_last_as_long_as_the_run(desk: Desk) -> None:
    """What a call puts into /tmp is there for the next and for the checks, and gone at the end."""
    need("namespaces")
    calls = [X(bash("echo 1 > /tmp/kept")), X(bash("cat /tmp/kept")), D("done")]
    played = desk.play(calls, sandbox=ON, verify=["test -e /tmp/kept"])
    assert (played.exit_code, output(played, 1)) == (0, "1")
    assert not (played.folder / "tmp").exists()
    assert not Path("/tmp/kept").exists()


def test_a_tier_can_be_named(desk: Desk) -> None:
    """`mode: landlock` takes that one although there is a better."""
    need("landlock")
    played = desk.play([X(bash("touch ../out; touch in")), D("done")], sandbox={"mode": "landlock"})
    assert report(played)["tier"] == "landlock"
    assert desk.read("in") == ""
    assert not (desk.folder / "out").exists()


@pytest.mark.parametrize("way", ["bwrap is not there", "bwrap is a fake", "namespaces are refused"])
def test_what_cannot_be_had_is_not_claimed(desk: Desk, way: str) -> None:
    """The next tier is taken and says why; with `require` the run does not start, and the error
    has the fix. No model was asked."""
    need("landlock")
    if way == "bwrap is a fake":
        need("namespaces")
    _break_bwrap(desk, way)
    played = desk.play([D("done")], sandbox=ON)
    told = report(played)
    assert (played.exit_code, told["tier"]) == (0, "landlock")
    assert told["skipped"][0].startswith("namespaces: ")

    refused = Desk(folder=desk.folder / "again", environ=desk.environ)
    _break_bwrap(refused, way)
    played = refused.play([D("done")], sandbox={"require": "namespaces"})
    assert (played.exit_code, played.result["error_type"]) == (78, "preflight")
    (error,) = played.result["errors"]
    assert "the spec needs namespaces" in error
    assert told["skipped"][0].partition("/")[0] in error
    assert "assistant.turn_start" not in played.types


def _break_bwrap(desk: Desk, way: str) -> None:
    """A folder first on PATH that has no working bwrap, and everything else."""
    stubs = desk.folder / "stubs"
    stubs.mkdir(parents=True, exist_ok=True)
    if way == "bwrap is not there":
        for folder in os.environ["PATH"].split(os.pathsep):
            for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
                if program.name != "bwrap" and not (stubs / program.name).is_symlink():
                    (stubs / program.name).symlink_to(program)
        desk.environ["PATH"] = str(stubs)
        return
    fake = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    if way == "namespaces are refused":
        fake = 'echo "bwrap: setting up uid map: Permission denied" >&2; exit 1'
    (stubs / "bwrap").write_text(f"#!/bin/sh\n{fake}\n")
    (stubs / "bwrap").chmod(0o755)
    desk.environ["PATH"] = f"{stubs}{os.pathsep}{os.environ['PATH']}"


def test_in_a_container_that_refuses_namespaces_landlock_is_left(desk: Desk) -> None:
    """With `max_user_namespaces` at 0 bwrap itself fails; its words and the cure are told."""
    need("landlock")
    need("namespaces")
    desk.script([])
    spec = desk.spec(sandbox=None)
    closed = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    command = ["unshare", "-Ur", "sh", "-c", closed, "sh", *desk.command("doctor", str(spec))]
    done = subprocess.run(
        command,
        env=desk.environment(),
        cwd=desk.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "sandbox          landlock, network denied" in done.stdout
    assert "user.max_user_namespaces" in done.stdout


def test_off_needs_a_reason_which_stands_in_the_result(desk: Desk) -> None:
    """Without one the spec is refused; with one nothing is enforced, and nothing claimed."""
    desk.script([D("done")])
    refused = desk.call("run", str(desk.spec(sandbox="off")))
    assert refused.returncode == 2
    assert "needs a reason" in refused.stderr
    played = desk.play([D("done")], sandbox={"mode": "off", "reason": "the VM is thrown away"})
    told = report(played)
    assert (told["tier"], told["network"]) == ("process", "open")
    assert told["reason"] == "the VM is thrown away"
    assert "no boundary" in told["unenforced"][0]
    assert "process: no boundary (the VM is thrown away)" in played.stderr


@pytest.mark.parametrize(
    ("sandbox", "words"),
    [
        ({"mode": "off", "reason": "r", "network": "deny"}, "off, and with something"),
        ({"mode": "off", "reason": "r", "require": "landlock"}, "off, and with something"),
        ({"mode": "landlock", "require": "namespaces"}, "namespaces required"),
        ({"require": "landlock", "network": ["mirror.test"]}, "cannot keep commands to a list"),
        ({"network": []}, "the list of hosts is empty"),
        ({"network": ["http://mirror.test"]}, "is no host"),
        ({"network": ["1.2.3.4.5"]}, "is no host"),
        ({"network": ["0x7f.1"]}, "is no host"),
        ({"network": ["mirror.test:99999"]}, "no such port"),
        ({"network": "denied"}, "expected one of deny, allow"),
        ({"modus": "auto"}, "mode"),
    ],
)
def test_a_sandbox_that_makes_no_sense_is_refused(
    desk: Desk, sandbox: dict[str, Any], words: str
) -> None:
    """Exit 2 with the place, before anything runs."""
    refused = desk.call("validate", str(desk.spec(sandbox=sandbox)))
    assert refused.returncode == 2
    assert words in refused.stderr
    assert "sandbox" in refused.stderr


@pytest.mark.parametrize("network", [None, "deny", "allow"])
def test_the_network_is_what_the_spec_says(desk: Desk, network: str | None) -> None:
    """Nothing unless it is allowed; then this machine's own services can be reached."""
    need("namespaces")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        call = bash(f"echo out > /dev/tcp/127.0.0.1/{port}")
        sandbox = {"mode": "auto", **({} if network is None else {"network": network})}
        played = desk.play([X(call), D("done")], sandbox=sandbox)
        server.setblocking(False)
        if network == "allow":
            server.accept()[0].close()
        else:
            with pytest.raises(BlockingIOError):
                server.accept()
    assert report(played)["network"] == ("open" if network == "allow" else "denied")


def test_a_list_of_hosts_is_reached_through_the_runner(desk: Desk) -> None:
    """The listed one answers; another is refused, which the model and the log are told."""
    need("namespaces")
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    with serving() as port:
        call = bash(
            f"unset NO_PROXY no_proxy; curl -sS http://127.0.0.1:{port}/x; curl -sS https://evil.test"
        )
        played = desk.play([X(call), D("done")], sandbox={"network": [f"127.0.0.1:{port}"]})
    assert f"/x 127.0.0.1:{port}" in output(played)
    assert "the sandbox refused a connection to evil.test, port 443" in output(played)
    assert report(played)["network"] == "the listed hosts alone"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_root_may_be_allowed_everything_behind_walls(desk: Desk) -> None:
    """`bypassPermissions` as root: refused without a sandbox, fine in one or in a container."""
    need("namespaces")
    off = {"mode": "off", "reason": "a test"}
    keys: dict[str, Any] = {"permission_mode": "bypassPermissions", "allowed_tools": []}
    refused = desk.play([D("done")], sandbox=off, **keys)
    assert (refused.exit_code, refused.result["error_type"]) == (78, "preflight")
    for number, sandbox in enumerate((ON, {**off, "container": True})):
        other = Desk(folder=desk.folder / str(number))
        played = other.play([X(bash("touch made")), D("done")], sandbox=sandbox, **keys)
        assert (played.exit_code, other.read("made")) == (0, "")
        assert report(played)["container"] is (number == 1)

"""The walls around commands, from inside: what holds, what works, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.adapters.leftovers import MARK
from runner.adapters.local import LocalSandbox
from runner.adapters.sandbox import bubblewrap, canaries
from runner.ports import ExecRequest
from tests.adapters.walled import OUTER, Site, need

TIERS = ["namespaces", "landlock"]
HELD = {
    "write outside",
    "read what is hidden",
    "read the runner's environment",
    "signal the runner",
    "connect out",
    "work inside",
}


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    """Each tier this machine has."""
    name: str = request.param
    need(name)
    return name


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site of its own."""
    return Site(folder=tmp_path)


def test_every_canary_dies_inside(site: Site, tier: str) -> None:
    """Nothing is written outside, nothing hidden is read, nobody is called, and work is possible;
    of the attempts nothing is left behind."""
    found = site.canaries(tier)
    assert {name for name, one in found.items() if one.held} == HELD
    left = [path for path in site.folder.rglob(".autopilot-canary*") if "tmp" not in path.parts]
    assert left == []


def test_the_canaries_are_heard_beside_the_words_of_a_loader(site: Site, tier: str) -> None:
    """A library that is named and not there yet is no reason to do without the walls."""
    walls, made = site.walls(), site.enclosure(tier)
    env = {**OUTER, "LD_PRELOAD": str(site.workspace / "not-built-yet.so")}
    found = asyncio.run(canaries.release(made, walls, env=env, outer=dict(os.environ)))
    assert all(one.held for one in found)


def test_the_canaries_tell_when_a_wall_is_missing(site: Site) -> None:
    """With the session readable, the folder around writable and the network open to the host, the
    attempts get through and are told: the proof can fail."""
    need("landlock")
    found = site.canaries("landlock", writable=(site.workspace, site.folder), hidden=())
    broken = {name for name, one in found.items() if not one.held}
    assert broken == {"write outside", "read what is hidden"}


def test_files_outside_can_be_neither_written_nor_changed(site: Site, tier: str) -> None:
    """Content, names and folders outside stay; in tier namespaces modes and times as well."""
    outside = site.folder / "outside"
    outside.mkdir()
    (outside / "file").write_text("before")
    script = f"""
        echo no > {outside}/file; echo no >> {outside}/file; : > {outside}/new; rm {outside}/file
        mkdir {outside}/d; mv {outside}/file {outside}/moved; ln -s x {outside}/link
        truncate -s 0 {outside}/file; chmod 777 {outside}/file
        echo yes > inside; mkdir d; mv inside d
    """
    site.run(tier, script, readable=())
    assert [(p.name, p.read_text()) for p in outside.iterdir()] == [("file", "before")]
    assert (site.workspace / "d" / "inside").read_text() == "yes\n"
    if tier == "namespaces":
        assert (outside / "file").stat().st_mode & 0o777 == 0o644


def test_credentials_and_sessions_cannot_be_read(site: Site, tier: str) -> None:
    """What lies in the usual places of a home, what a variable names, and the sessions."""
    home, named = site.folder / "home", site.folder / "token.json"
    for path in (home / ".ssh" / "id", home / ".aws" / "credentials", home / ".netrc", named):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("credential-4711")
    (home / "notes").write_text("notes")
    there = Site(
        folder=site.folder,
        environ={**OUTER, "HOME": str(home), "GOOGLE_APPLICATION_CREDENTIALS": str(named)},
    )
    (site.session / "files").mkdir(parents=True)
    (site.session / "events.jsonl").write_text("credential-4711")
    result = there.run(tier, f"cd {site.folder}; grep -r 4711 . /etc/shadow; cat home/notes")
    # Below the private /tmp nothing of this test's folder but the workspace is there at all.
    assert "credential-4711" not in result.output


def test_no_tool_of_the_network_gets_out(site: Site, tier: str) -> None:
    """TCP, UDP, abstract and, where promised, path sockets: the listeners hear nothing."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        abstract.bind(f"\0autopilot-{port}")
        abstract.listen()
        tries = f"""
import socket
for family, kind, where in (
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {port})),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", {port})),
    (socket.AF_UNIX, socket.SOCK_STREAM, "\\0autopilot-{port}"),
    (socket.AF_INET, socket.SOCK_RAW, ("127.0.0.1", {port})),
    (40, socket.SOCK_STREAM, (2, {port})),
):
    try:
        one = socket.socket(family, kind)
        one.connect(where)
        one.send(b"out")
        print("got through", where)
    except OSError:
        print("stopped")
"""
        (site.folder / "work").mkdir()
        (site.workspace / "tries.py").write_text(tries)
        by_bash = f"echo x > /dev/tcp/127.0.0.1/{port}"
        result = site.run(tier, f"{sys.executable} -I -S tries.py; {by_bash}")
        for one in (tcp, udp, abstract):
            one.setblocking(False)
        for listener in (tcp, abstract):
            with pytest.raises(BlockingIOError):
                listener.accept()
        with pytest.raises(BlockingIOError):
            udp.recv(9)
    # In its own network a datagram can be sent, to nobody.
    assert result.output.count("stopped") >= 4


def test_the_runner_cannot_be_signalled_or_looked_into(site: Site, tier: str) -> None:
    """No signal to the runner, its group or everybody reaches it; its environment is not there."""
    os.environ["SECRET_CANARY"] = "canary-0815"
    try:
        script = f"kill -9 {os.getpid()}; kill -9 -{os.getpgid(0)}; cat /proc/*/environ; kill -9 -1"
        result = site.run(tier, script)
    finally:
        del os.environ["SECRET_CANARY"]
    assert "canary-0815" not in result.output


def test_the_environment_inside_is_the_given_one(site: Site, tier: str) -> None:
    """`/proc/1/environ` of the sandbox's own first process shows nothing else either."""
    os.environ["SECRET_CANARY"] = "canary-0816"
    try:
        result = site.run(tier, "cat /proc/1/environ /proc/self/environ; env")
    finally:
        del os.environ["SECRET_CANARY"]
    assert "canary-0816" not in result.output
    assert f"PATH={OUTER['PATH']}" in result.output


def test_dangerous_calls_are_refused(site: Site, tier: str) -> None:
    """No new namespaces, mounts or capabilities; `sudo` and set-uid programs gain nothing."""
    look = "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status"
    calls = "unshare -U true; echo $?; mount -t tmpfs none /mnt; echo $?"
    lines = site.run(tier, f"exec 2>/dev/null; {calls}; {look}").output.splitlines()
    assert lines == ["1", lines[1], "CapEff:\t" + "0" * 16, "NoNewPrivs:\t1", "Seccomp:\t2"]
    assert int(lines[1]) > 0


def test_a_command_looks_as_it_does_without_walls(site: Site, tier: str) -> None:
    """Exit codes, death by a signal, a pipe that closes early, output after the leader's end."""
    assert site.run(tier, "exit 7").exit_code == 7
    assert site.run(tier, "kill -9 $$").exit_code == 137
    assert site.run(tier, "yes | head -1").output == "y\n"
    late = site.run(tier, "(sleep 0.05; echo late) & echo early")
    assert (late.output, late.survivors) == ("early\nlate\n", ())


def test_a_program_that_is_not_there_is_an_error_and_no_exit_code(site: Site, tier: str) -> None:
    """As without walls: `OSError`, before anything is started."""
    sandbox = LocalSandbox(enclosure=site.enclosure(tier))
    asked = ExecRequest(
        argv=("no-such-program",), cwd=site.workspace, timeout_s=9, max_output_bytes=9, env=OUTER
    )
    with pytest.raises(FileNotFoundError):
        asyncio.run(sandbox.exec(asked, lambda text: None))


def test_what_outlives_a_command_is_counted_and_gone(site: Site, tier: str) -> None:
    """A daemon in a session of its own is reported once, and dead on return."""
    result = site.run(tier, "setsid sleep 61.7 & sleep 0.01; true")
    assert len(result.survivors) == 1
    assert not _alive("61.7")


def test_a_command_is_asked_to_end_before_it_is_killed(site: Site, tier: str) -> None:
    """At its time limit it gets SIGTERM and a moment; its answer is in the output."""
    script = "trap 'echo asked; exit' TERM; sleep 62.7 & wait"
    result = asyncio.run(site.start(site.enclosure(tier), script, timeout_s=0.5))
    assert (result.exit_code, result.output) == (None, "asked\n")
    assert not _alive("62.7")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_root_works_in_a_checkout_of_somebody_else(site: Site) -> None:
    """As in a container with a mounted checkout: landlock lets root write there, and there alone;
    namespaces cannot, and say so."""
    need("landlock")
    need("namespaces")
    site.walls()
    others = site.folder / "others"
    others.write_text("before")
    for path in (site.workspace, others):
        os.chown(path, 12345, 12345)
        path.chmod(0o755)
    assert all(one.held for one in site.canaries("landlock").values())
    site.run("landlock", f"echo made > made; echo no > {others}")
    assert ((site.workspace / "made").read_text(), others.read_text()) == ("made\n", "before")
    assert "run as its owner" in site.canaries("namespaces")["work inside"].detail


def test_protected_paths_are_read_only_where_promised(site: Site) -> None:
    """In tier namespaces a protected file in the workspace cannot be written, moved or removed."""
    need("namespaces")
    site.walls()
    guarded = site.workspace / "check.sh"
    guarded.write_text("exit 1")
    found = site.canaries("namespaces", read_only=(guarded,))
    assert found["write a protected path"].held
    script = "echo exit 0 > check.sh; rm -f check.sh; mv check.sh x; cp /bin/true y; mv y check.sh"
    site.run("namespaces", script, read_only=(guarded,))
    assert guarded.read_text() == "exit 1"


EVERY_SETTING = """python3 -I -S - <<'END'
import os, pathlib
top = [one for one in pathlib.Path("/proc").iterdir() if not one.name.isdigit()]
files = [one for one in top if not one.is_symlink()]
for file in (*files, *pathlib.Path("/proc/sys").rglob("*")):
    try:
        if file.is_file():
            os.close(os.open(file, os.O_WRONLY | os.O_NONBLOCK))
            print(file)
    except OSError:
        pass
END
"""


def test_root_inside_cannot_change_the_kernels_settings(site: Site, tier: str) -> None:
    """They belong to root, and user 0 is the same user inside: nothing opens for writing."""
    assert site.run(tier, EVERY_SETTING).output == ""


def test_a_service_is_not_called_by_its_socket_wherever_that_is(site: Site, tier: str) -> None:
    """A folder that is read-only keeps nobody from calling a socket in it."""
    folder = Path.home() / f".{site.folder.name}"  # not below `/tmp`, where nothing is seen anyway
    folder.mkdir()
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "s"))
            listener.listen()
            listener.setblocking(False)
            call = f"import socket; socket.socket(socket.AF_UNIX).connect('{folder}/s')"
            assert site.run(tier, f'python3 -I -S -c "{call}"').exit_code == 1
            with pytest.raises(BlockingIOError):
                listener.accept()
            enclosure = site.enclosure(tier)
        (folder / "s").unlink()  # the service ends, and commands go on
        assert asyncio.run(site.start(enclosure, "echo on")).output == "on\n"
    finally:
        shutil.rmtree(folder)


def test_what_puts_the_walls_up_loads_nothing_of_the_agents(site: Site, tier: str) -> None:
    """What steers the loader, and may name a library in the workspace, is set inside alone."""
    site.workspace.mkdir()
    traced = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(site.workspace / "trace")}
    request = ExecRequest(
        argv=("bash", "-c", "echo $LD_DEBUG; exec ls"),
        cwd=site.workspace,
        timeout_s=20,
        max_output_bytes=2_000,
        env={**OUTER, **traced},
    )
    sandbox = LocalSandbox(enclosure=site.enclosure(tier))
    result = asyncio.run(sandbox.exec(request, lambda text: None))
    assert result.output.startswith("files\n")
    loaded = "".join(path.read_text() for path in site.workspace.glob("trace.*"))
    assert "program: ls" in loaded
    assert not [name for name in ("bwrap", "python", "/bin/sh") if f"program: {name}" in loaded]
    assert "needed by /usr/bin/bwrap" not in loaded


def test_temporary_files_are_the_runs_own(site: Site) -> None:
    """Two commands of one run share /tmp, and the machine's is not seen."""
    need("namespaces")
    site.run("namespaces", "echo 1 > /tmp/autopilot-shared")
    assert site.run("namespaces", "cat /tmp/autopilot-shared").output == "1\n"
    assert not Path("/tmp/autopilot-shared").exists()


def test_nothing_inside_outlives_a_killed_runner(site: Site) -> None:
    """SIGKILL to the process that started the sandbox takes everything inside with it."""
    need("namespaces")
    made = site.enclosure("namespaces")
    launch = made.launch(("bash", "-c", "setsid sleep 63.7 & sleep 63.7"), OUTER, site.workspace)
    starter = (
        "import json, os, subprocess, sys, time; argv = json.loads(sys.argv[1]);"
        "subprocess.Popen(argv); time.sleep(60)"
    )
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", starter, json.dumps(launch.argv)],
        {**launch.env, MARK: "x"},
    )
    _wait(lambda: _alive("63.7"))
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    _wait(lambda: not _alive("63.7"))


def _alive(argument: str) -> bool:
    """Whether a `sleep` of just this length runs somewhere."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", argument.encode()]:
            return True
    return False


def _wait(holds: object) -> None:
    ends_at = time.monotonic() + 20
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < ends_at
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["shim.py", "probe.py"])
def test_what_every_command_waits_for_loads_little(name: str) -> None:
    """Nothing that takes longer to load than all that it does."""
    file = Path(bubblewrap.OURS / name)
    read = (
        f"import sys; exec(compile(open({str(file)!r}).read(), 'it', 'exec'), {{'__name__': 'it'}})"
    )
    argv = [sys.executable, "-I", "-S", "-c", f"{read}; print(*sys.modules)"]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert "_socket" in loaded
    assert {"json", "pathlib", "re", "socket", "typing", "enum"}.isdisjoint(loaded)


def test_commands_are_watched_by_no_shell_of_their_own(site: Site, tier: str) -> None:
    """A `bash` in the workspace is found by commands that ask for it, and by nothing else."""
    site.walls()
    fake = site.workspace / "bash"
    fake.write_text(f"#!/bin/sh\ntouch {site.workspace}/ran\n")
    fake.chmod(0o755)
    request = ExecRequest(
        argv=("/bin/sh", "-c", "echo went on"),
        cwd=site.workspace,
        timeout_s=20,
        max_output_bytes=1000,
        env={**OUTER, "PATH": f"{site.workspace}:{OUTER['PATH']}"},
    )
    sandbox = LocalSandbox(enclosure=site.enclosure(tier))
    result = asyncio.run(sandbox.exec(request, lambda text: None))
    assert (result.exit_code, result.output) == (0, "went on\n")
    assert not (site.workspace / "ran").exists()

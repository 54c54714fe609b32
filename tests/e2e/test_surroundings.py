"""A CI machine: no terminal, an odd stdin, a home nobody can write, a session that is taken."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from tests.e2e.desk import PATIENCE_S, Desk
from tests.servers import D, X

READ = ("Read", {"file_path": "README.md"})


def test_an_open_stdin_is_neither_read_nor_waited_for(desk: Desk) -> None:
    """Row 40, CI: a pipe that stays open holds nothing up, and what is in it stays there."""
    read, write = os.pipe()
    os.write(write, b"untouched")
    try:
        ask = X(("AskUserQuestion", {"questions": []}), ("Bash", {"command": "cat"}))
        played = desk.play([ask, D("done")], streams={"stdin": read})
        assert os.read(read, 100) == b"untouched"
    finally:
        os.close(read)
        os.close(write)
    assert played.exit_code == 0


def test_stdin_is_the_prompt_when_the_spec_says_so(desk: Desk) -> None:
    """`prompt_file: "-"` reads it, and nothing else does."""
    desk.script([D("done")])
    spec = desk.spec(prompt=None, prompt_file="-")
    done = desk.call("run", str(spec), stdin=None, input="Say hello.\n")
    assert done.returncode == 0
    (folder,) = (desk.home / "session-state").iterdir()
    assert '"content":"Say hello.\\n"' in (folder / "events.jsonl").read_text()


def test_a_spec_can_come_from_stdin(desk: Desk) -> None:
    """`run -`: the spec is what is piped in; its paths are below the current folder."""
    desk.script([D("done")])
    done = desk.call("run", "-", stdin=None, input=desk.spec().read_text())
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.parametrize("given", ["option", "AUTOPILOT_HOME", "HOME"])
def test_the_home_can_be_moved(desk: Desk, given: str) -> None:
    """Row 43: by option, by variable, else below the user's home."""
    place = desk.folder / "elsewhere"
    options = ("--home", str(place)) if given == "option" else ()
    desk.environ["AUTOPILOT_HOME"] = str(place) if given == "AUTOPILOT_HOME" else ""
    desk.environ["HOME"] = str(place)
    desk.script([D("done")])
    done = desk.call("run", str(desk.spec()), *options, "--session-id", "mine")
    where = place / ".local" / "state" / "autopilot" if given == "HOME" else place
    assert done.returncode == 0
    assert (where / "session-state" / "mine" / "events.jsonl").exists()
    assert not desk.home.exists()


@pytest.mark.parametrize("wrong", ["/dev/null/home", "/proc/home"])
def test_a_home_that_cannot_be_written_is_named(desk: Desk, wrong: str) -> None:
    """Exit 78 at once, with the folder; the result still says so; no model is asked."""
    started = time.monotonic()
    desk.script([])
    done = desk.call("run", str(desk.spec()), "--home", wrong, "--output-format", "json")
    assert time.monotonic() - started < 10
    assert done.returncode == 78
    assert wrong in done.stderr
    assert '"error_type":"preflight"' in done.stdout
    assert "Traceback" not in done.stderr


def test_a_home_below_a_home_that_cannot_be_written_is_named(desk: Desk) -> None:
    """With no home given, the user's own is tried, and named when it is of no use."""
    desk.environ.update({"AUTOPILOT_HOME": "", "HOME": "/dev/null"})
    desk.script([])
    done = desk.call("run", str(desk.spec()))
    assert (done.returncode, "/dev/null/.local/state/autopilot" in done.stderr) == (78, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home_is_named_too(desk: Desk) -> None:
    """The permission bits of the folder are enough."""
    desk.home.mkdir(mode=0o500)
    desk.script([])
    done = desk.call("run", str(desk.spec()))
    assert (done.returncode, str(desk.home) in done.stderr) == (78, True)


def test_a_session_that_is_being_written_is_refused(desk: Desk) -> None:
    """Row 54: a second run of a live id: exit 75, who has it, and its log is untouched."""
    wait = ("Bash", {"command": "until [ -e go ]; do sleep 0.05; done"})
    options = ("--session-id", "mine")
    with desk.started([X(wait), D("done")], *options) as running:
        running.wait_for("tool.execution_start")
        before = (running.folder / "events.jsonl").read_bytes()
        second = desk.call("run", str(desk.spec()), *options, "--output-format", "json")
        after = (running.folder / "events.jsonl").read_bytes()
        desk.write("go", "")
        played = running.finish_checked()
    assert (second.returncode, before == after) == (75, True)
    assert '"error_type":"locked"' in second.stdout
    assert "mine" in second.stderr
    assert played.exit_code == 0


def test_a_session_that_is_over_is_not_written_again(desk: Desk) -> None:
    """Row 54: the same id again: refused, the folder and a way out named, the log untouched."""
    played = desk.play([D("done")], "--session-id", "mine")
    before = {p.name: p.read_bytes() for p in played.folder.iterdir() if p.is_file()}
    again = desk.call("run", str(desk.spec()), "--session-id", "mine")
    after = {p.name: p.read_bytes() for p in played.folder.iterdir() if p.is_file()}
    assert (again.returncode, before == after) == (78, True)
    assert "session mine is already there" in again.stderr
    assert str(played.folder) in again.stderr


@pytest.mark.parametrize("wrong", ["../x", ".hidden", "a b"])
def test_a_session_id_is_a_safe_name(desk: Desk, wrong: str) -> None:
    """Anything that could leave the home is refused before anything is made."""
    desk.script([])
    done = desk.call("run", str(desk.spec()), "--session-id", wrong)
    assert done.returncode in (2, 78)
    assert "no session id" in done.stderr
    assert not desk.home.exists() or not any(desk.home.rglob("events.jsonl"))


def test_a_disk_that_is_full_ends_the_run_at_once(desk: Desk) -> None:
    """A line that cannot be written: exit 74, the result still printed, nothing more asked."""
    big = ("Read", {"file_path": "big.txt"})
    desk.write("big.txt", "0123456789\n" * 2000)
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))}
    steps = [X(big), X(big), D("done")]
    with desk.started(steps, "--output-format", "json", streams=limit) as running:
        played = running.finish()
    assert played.exit_code == 74
    assert played.stream[-1]["error_type"] == "log_write"
    assert "events.jsonl" in played.stream[-1]["errors"][0]
    assert not (played.folder / "result.json").exists()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"model": "openai/gpt-99-nonsense"}, "gpt-99-nonsense"),
        ({"model": "anthropic/claude-sonnet-4-5"}, "ANTHROPIC_API_KEY"),
        ({"model": "openai/gpt-4o-mini", "api_key_env": "MY_KEY"}, "MY_KEY"),
        ({"max_budget_usd": 1}, "add `pricing:"),
        ({"model": "scripted:broken.yaml"}, "broken.yaml:1: modle: unknown key"),
    ],
)
def test_a_job_that_cannot_work_is_refused_before_it_costs(
    desk: Desk, keys: dict[str, object], words: str
) -> None:
    """Exit 78 within seconds, what is wrong and how to fix it, and no turn."""
    (desk.folder / "broken.yaml").write_text("modle: x\n")
    started = time.monotonic()
    played = desk.play([], **keys)
    assert time.monotonic() - started < PATIENCE_S / 3
    assert (played.exit_code, played.result["error_type"]) == (78, "preflight")
    assert words in played.result["errors"][0]
    assert words in played.stderr
    assert "assistant.turn_start" not in played.types


@pytest.mark.parametrize(
    "keys",
    [{"workspace": "nowhere"}, {"add_dirs": ["nowhere"]}, {"model": "scripted:nowhere"}],
)
def test_a_path_in_a_spec_must_lead_somewhere(desk: Desk, keys: dict[str, object]) -> None:
    """A folder or file that is not there is a mistake in the spec: exit 2, the path named."""
    played = desk.play([], **keys)
    assert (played.exit_code, played.has_session, played.stdout) == (2, False, "")
    assert str(desk.folder / "nowhere") in played.stderr


def test_every_mistake_of_a_spec_is_told_at_once(desk: Desk) -> None:
    """Exit 2: each with file, line and path, near keys named; nothing ran, nothing was made."""
    path = desk.folder / "task.yaml"
    path.write_text(
        "name: Not A Slug\nmodle: scripted:x\nmax_turns: 0\nmax_turns: 2\n"
        "timeout: soon\npermission_mode: yolo\n"
    )
    done = desk.call("run", str(path), "--output-format", "json")
    assert (done.returncode, done.stdout, desk.home.exists()) == (2, "", False)
    for words in (
        "task.yaml:1: name:",
        "task.yaml:2: modle:",
        "`model`",
        "task.yaml:4: max_turns:",
        "task.yaml:5: timeout:",
        "task.yaml:6: permission_mode:",
        "prompt",
    ):
        assert words in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["run", "missing.yaml"], ["run", "task.yaml", "--nope"], ["walk"]],
    ids=" ".join,
)
def test_bad_usage_is_2(desk: Desk, arguments: list[str]) -> None:
    """A command line that cannot be understood, and a spec that is not there."""
    desk.spec()
    done = desk.call(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr != ""


def test_the_quick_start_of_the_readme_works(desk: Desk) -> None:
    """The example that ships: no key, no network, green, and the original is left alone."""
    root = Path(__file__).parents[2] / "configs"
    before = {p: p.read_bytes() for p in (root / "tasks").rglob("*") if p.is_file()}
    done = desk.call("run", str(root / "tasks" / "quickstart.yaml"))
    after = {p: p.read_bytes() for p in (root / "tasks").rglob("*") if p.is_file()}
    assert (done.returncode, before == after) == (0, True)


def test_no_terminal_is_needed(desk: Desk) -> None:
    """Without a controlling terminal, in a session of its own: the same run."""
    desk.script([X(READ), D("done")])
    done = desk.call("run", str(desk.spec()), start_new_session=True)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "\x1b" not in done.stderr

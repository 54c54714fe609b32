"""`autopilot run`: what stdout carries, what stderr says, and the exit code, on real runs."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.cli import main

Reply = dict[str, Any]

LOOK: Reply = {
    "text": "I look first.",
    "tools": [{"name": "Read", "arguments": {"file_path": "a"}}],
}
WRITE: Reply = {"tools": [{"name": "Write", "arguments": {"file_path": "a", "content": "x"}}]}
CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "TEAMCITY_VERSION", "JENKINS_URL")


def done(summary: str = "All tidy.") -> Reply:
    """A reply that completes the task."""
    return {"tools": [{"name": "task_complete", "arguments": {"summary": summary}}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that is over."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a test runs tasks."""

    folder: Path
    home: Path
    capfd: pytest.CaptureFixture[str]

    def spec(self, *replies: Reply, **keys: Any) -> Path:
        """A task with these replies, in a workspace that holds a file `a`."""
        (self.folder / "work").mkdir(exist_ok=True)
        (self.folder / "work" / "a").write_text("hello\n")
        (self.folder / "replies.yaml").write_text(json.dumps({"replies": replies}))
        task = {"name": "tidy", "prompt": "Tidy up.", "model": "scripted:replies.yaml"}
        path = self.folder / "task.yaml"
        path.write_text(yaml.safe_dump({**task, "workspace": "work", **keys}))
        return path

    def run(self, spec: Path | str, *arguments: str) -> Ran:
        """Run a task in this process."""
        self.capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["run", str(spec), "--home", str(self.home), *arguments])
        captured = self.capfd.readouterr()
        return Ran(code=int(ended.value.code or 0), out=captured.out, err=captured.err)


@pytest.fixture
def place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    """A place outside of any CI system."""
    for name in CI_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Place(folder=tmp_path, home=tmp_path / "home", capfd=capfd)


def test_text_is_the_answer_alone(place: Place) -> None:
    """stdout is the final answer, stderr tells the run, the exit code is 0."""
    ran = place.run(place.spec(LOOK, done()))
    assert (ran.code, ran.out) == (0, "All tidy.\n")
    assert "\nsuccess, exit code 0\n" in ran.err


def test_text_is_empty_when_the_run_did_not_succeed(place: Place) -> None:
    """A capped run leaves stdout empty, and its code and cause say why."""
    ran = place.run(place.spec(LOOK, LOOK), "--max-turns", "1")
    assert (ran.code, ran.out) == (3, "")
    assert "  cause      Reached maximum number of turns (1)\n" in ran.err


@pytest.mark.parametrize(("reply", "code"), [(done(), 0), ({"text": "I think so."}, 6)])
def test_json_is_the_result_file(place: Place, reply: Reply, code: int) -> None:
    """stdout is one object, the one in result.json, on success and on failure."""
    spec = place.spec(reply, max_autopilot_continues=0)
    ran = place.run(spec, "--output-format", "json", "--session-id", "s1")
    saved = (place.home / "session-state" / "s1" / "result.json").read_text()
    assert ran.code == code
    assert json.loads(ran.out) == json.loads(saved)
    assert ran.out.count("\n") == 1


def test_stream_json_is_init_first_and_result_last(place: Place) -> None:
    """Every line is a message; the last is the result, with the exit code of the process."""
    ran = place.run(place.spec(LOOK, done()), "--output-format", "stream-json")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert (lines[0]["type"], lines[0]["subtype"]) == ("system", "init")
    assert [line["type"] for line in lines[1:]] == [
        "assistant",
        "user",
        "assistant",
        "user",
        "result",
    ]
    assert lines[-1]["exit_code"] == ran.code == 0


def test_events_are_the_log_and_what_is_only_shown(place: Place) -> None:
    """The persisted lines are those of the file; `session.idle` is the last of the others."""
    ran = place.run(place.spec(LOOK, done()), "--output-format", "events", "--session-id", "s1")
    shown = [json.loads(line) for line in ran.out.splitlines()]
    log = (place.home / "session-state" / "s1" / "events.jsonl").read_text().splitlines()
    assert [line for line in shown if "seq" in line] == [json.loads(line) for line in log]
    assert shown[-1]["type"] == "session.idle"
    assert "assistant.message_delta" not in {line["type"] for line in shown}


def test_pieces_come_on_request(place: Place) -> None:
    """With partial messages the text of a reply comes in pieces that add up to it."""
    ran = place.run(
        place.spec(LOOK, done()), "--output-format", "events", "--include-partial-messages"
    )
    shown = [json.loads(line) for line in ran.out.splitlines()]
    pieces = [
        line["data"]["deltaContent"] for line in shown if line["type"] == "assistant.message_delta"
    ]
    assert "".join(pieces) == "I look first."


def test_quiet_leaves_the_last_word(place: Place) -> None:
    """stderr begins with the ending."""
    ran = place.run(place.spec(LOOK, done()), "--quiet")
    assert ran.err.startswith("success, exit code 0\n")


def test_json_on_stderr_is_one_object_a_line(place: Place) -> None:
    """Every line of stderr parses, the last one names the ending."""
    ran = place.run(place.spec(LOOK, done()), "--log-format", "json")
    lines = [json.loads(line) for line in ran.err.splitlines()]
    assert [line["event"] for line in lines] == ["start", "turn", "tool", "turn", "tool", "result"]
    assert (lines[-1]["subtype"], lines[-1]["exit_code"]) == ("success", 0)


def test_nothing_is_coloured_off_a_terminal(place: Place) -> None:
    """No escape sequence is written when stderr is no terminal, whatever the format asked for."""
    ran = place.run(place.spec(LOOK, done()), "--log-format", "console")
    assert "\x1b" not in ran.err


def test_agent_text_commands_nobody(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In CI neither stdout nor stderr has a line that a CI system would obey, but our groups."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    evil = "::set-output name=a::b\r::stop-commands::t\n ##vso[task.complete]\x1b[2J"
    ran = place.run(place.spec({"text": evil, "tools": LOOK["tools"]}, done(evil)))
    ours = {"::endgroup::"}
    obeyed = [
        line
        for line in (ran.out + ran.err).replace("\r", "\n").splitlines()
        if line.strip().startswith("::") and line not in ours and not line.startswith("::group::")
    ]
    assert obeyed == []
    assert "##vso[" not in ran.out + ran.err
    assert "\x1b" not in ran.out + ran.err
    assert ran.err.count("::group::") == ran.err.count("::endgroup::") == 2


def test_the_answer_is_unchanged_outside_of_ci(place: Place) -> None:
    """A pipe gets the text as the model gave it."""
    assert place.run(place.spec(done("::a\x1b[1m"))).out == "::a\x1b[1m\n"


def test_denials_are_told(place: Place) -> None:
    """A denied call is a line with its reason, and is counted in the last word."""
    ran = place.run(place.spec(WRITE, done()))
    assert ran.code == 0
    assert "  denied   Write  a " in ran.err
    assert "  denied     1 call (Write)\n" in ran.err


def test_artifacts_are_copied(place: Place) -> None:
    """Log, result and patch are in the folder that was asked for."""
    place.run(place.spec(LOOK, done()), "--artifacts", str(place.folder / "out"))
    assert sorted(path.name for path in (place.folder / "out").iterdir()) == [
        "events.jsonl",
        "patch.diff",
        "result.json",
    ]


def test_a_spec_error_is_code_2_and_leaves_nothing_behind(place: Place) -> None:
    """Problems are on stderr, stdout is empty, no session is made."""
    ran = place.run(place.spec(done(), max_turn=3))
    assert (ran.code, ran.out) == (2, "")
    assert "max_turn: unknown key\nhint: did you mean `max_turns`?\n" in ran.err
    assert not place.home.exists()


def test_flags_are_checked_like_the_spec(place: Place) -> None:
    """A bad value is told by the flag it came with."""
    ran = place.run(place.spec(done()), "--timeout", "soon", "--max-turns", "0")
    assert ran.code == 2
    assert "--timeout soon: timeout: " in ran.err
    assert "--max-turns 0: max_turns: " in ran.err


def test_a_home_that_cannot_be_written_is_code_78(place: Place) -> None:
    """The last word names the folder, and stdout still carries the result."""
    place.home.write_text("a file")
    ran = place.run(place.spec(done()), "--output-format", "json")
    assert ran.code == 78
    assert json.loads(ran.out)["error_type"] == "preflight"
    assert f"cannot write {place.home}" in ran.err


def test_a_session_id_is_used_once(place: Place) -> None:
    """A second run under the same id is refused, and the first one's log stays as it is."""
    spec = place.spec(done())
    place.run(spec, "--session-id", "nightly")
    log = place.home / "session-state" / "nightly" / "events.jsonl"
    before = log.read_bytes()
    assert place.run(spec, "--session-id", "nightly").code == 78
    assert log.read_bytes() == before


def test_a_session_id_that_is_no_name_is_a_usage_error(place: Place) -> None:
    """Code 2, and nothing is made, when the id could not name a folder of its own."""
    ran = place.run(place.spec(done()), "--session-id", "../x")
    assert (ran.code, ran.out) == (2, "")
    assert "`../x` is no session id" in ran.err
    assert not place.home.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--include-partial-messages"],
        ["--include-partial-messages", "--output-format", "json"],
        ["--dry-run", "--output-format", "events"],
        ["--dry-run", "--output-format", "stream-json"],
    ],
)
def test_an_option_that_would_do_nothing_is_refused(place: Place, arguments: list[str]) -> None:
    """Combinations without a meaning are code 2, before anything runs."""
    ran = place.run(place.spec(done()), *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert not place.home.exists()


def test_a_spec_comes_from_stdin_when_it_is_named_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run -` reads the spec from stdin; its paths start at the current folder."""
    text = place.spec(done()).read_bytes()
    monkeypatch.chdir(place.folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert place.run("-").out == "All tidy.\n"


def test_a_system_prompt_of_ones_own_replaces_ours(place: Place) -> None:
    """Nothing of ours is left in it, and what is appended stands after it."""
    keys = {"system_prompt": "You tidy up.", "append_system_prompt": "Be brief."}
    ran = place.run(place.spec(done(), **keys), "--output-format", "events")
    events = [json.loads(line) for line in ran.out.splitlines()]
    (prompt,) = (event["data"]["content"] for event in events if event["type"] == "system.message")
    assert prompt == "You tidy up.\nBe brief."


def test_in_a_copy_the_original_stays_as_it_is(place: Place) -> None:
    """The change is in the copy and in the patch, and nowhere else."""
    where = {"path": "work", "isolation": "copy"}
    spec = place.spec(LOOK, WRITE, done(), workspace=where, permission_mode="acceptEdits")
    ran = place.run(spec, "--session-id", "s1")
    folder = place.home / "session-state" / "s1"
    assert ran.code == 0
    assert (place.folder / "work" / "a").read_text() == "hello\n"
    assert (folder / "workspace" / "a").read_text() == "x"
    assert "-hello\n+x\n" in (folder / "patch.diff").read_text()


# -- dry runs ------------------------------------------------------------------------------------


def test_a_dry_run_shows_the_plan_and_runs_nothing(place: Place) -> None:
    """Code 0, the plan on stdout, no session."""
    ran = place.run(place.spec(done(), max_turns=3), "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("tidy\n  model       scripted:")
    assert "  caps        3 tool-use turns, 5 nudges\n" in ran.out
    assert "  Write            denied: no rule allows it in mode default" in ran.out
    assert "  shutdown_grace         8s\n" in ran.out
    assert ran.out.endswith("\nready\n")
    assert not place.home.exists()


def test_a_dry_run_that_could_not_start_is_code_78(place: Place) -> None:
    """A failing check is named, and the code is the one the run would end with."""
    ran = place.run(place.spec(model="anthropic/claude-sonnet-4-5"), "--dry-run")
    assert ran.code == 78
    assert "  NOT OK  key: ANTHROPIC_API_KEY is not set" in ran.out
    assert ran.out.endswith("\nnot ready: key\n")


def test_a_dry_run_has_a_form_for_machines(place: Place) -> None:
    """One object: whether all is ready, the spec, the tools, the checks."""
    ran = place.run(place.spec(done()), "--dry-run", "--output-format", "json")
    plan = json.loads(ran.out)
    assert (plan["type"], plan["ready"], plan["spec"]["name"]) == ("plan", True, "tidy")

"""Permission rules in a whole run: what is denied never happens, and everybody is told."""

from __future__ import annotations

import json
import os

import pytest

from tests.e2e.desk import Desk, Played
from tests.servers import D, X

pytestmark = pytest.mark.warm


def bash(command: str) -> tuple[str, dict[str, str]]:
    return ("Bash", {"command": command})


def failures(played: Played) -> list[str]:
    done = played.of("tool.execution_complete")
    return [d["error"]["message"] for d in done if not d["success"]]


def test_a_rule_allows_a_command_and_not_what_is_hidden_in_another(desk: Desk) -> None:
    """The allowed part of a compound does not carry the other one."""
    steps = [
        X(bash("touch a")),
        X(bash("touch b && rm README.md")),
        X(bash("touch $(rm README.md)")),
        X(bash("cat README.md")),
        X(bash("cat /etc/passwd")),
        D("done"),
    ]
    played = desk.play(steps, permission_mode="default", allowed_tools=["Bash(touch *)"])
    assert desk.read("a") == ""
    assert desk.read("b") is None
    assert desk.read("README.md") is not None
    said = failures(played)
    assert len(said) == len(played.result["permission_denials"]) == 3
    assert "no rule allows `rm README.md`; allowed is `Bash(touch *)`" in said[0]
    assert played.exit_code == 0


def test_a_denied_path_is_reached_by_no_name(desk: Desk) -> None:
    """Neither its own name, nor a link, nor a search, nor a command shows it."""
    desk.write("secret/key", "hunter2\n")
    (desk.workspace / "link").symlink_to("secret/key")
    steps = [
        X(("Read", {"file_path": "secret/key"})),
        X(("Read", {"file_path": "link"})),
        X(("Grep", {"pattern": "hunter"})),
        X(bash("cat secret/key")),
        X(("Write", {"file_path": "secret/new", "content": "x"})),
        X(("Read", {"file_path": "README.md"})),
        D("done"),
    ]
    played = desk.play(steps, allowed_tools=[], disallowed_tools=["Read(secret/**)"])
    assert len(failures(played)) == len(played.result["permission_denials"]) == 5
    assert "hunter2" not in json.dumps(played.of("tool.execution_complete"))
    assert desk.read("secret/new") is None


def test_edits_stay_where_a_rule_allows_them(desk: Desk) -> None:
    """The rest of the workspace is read only."""
    inside = {"file_path": "src/a", "content": "x"}
    outside = {"file_path": "b", "content": "x"}
    steps = [X(("Write", inside)), X(("Write", outside)), D("done")]
    played = desk.play(steps, permission_mode="default", allowed_tools=["Edit(src/**)"])
    assert (desk.read("src/a"), desk.read("b")) == ("x", None)
    assert "allowed is `Edit(src/**)`" in failures(played)[0]


def test_a_denial_can_be_the_ending(desk: Desk) -> None:
    """With `on_denied: fail` the run that got by without the call is no success."""
    played = desk.play([X(bash("npm x")), D("done")], allowed_tools=[], on_denied="fail")
    assert played.exit_code == 10
    assert played.result["subtype"] == "error_permission_denied"


def test_accept_edits_lets_commands_change_files_of_the_workspace(desk: Desk) -> None:
    """As Edit may: not outside, not through a link, not by an option that is not known."""
    (desk.workspace / "out").symlink_to(desk.folder)
    steps = [
        X(bash("mkdir -p d && touch d/a && cp d/a b && mv b c && sed -i s/small/large/ README.md")),
        X(bash("rm -r d")),
        X(bash("touch ../a")),
        X(bash("touch out/a")),
        X(bash("cp -t .. c")),
        X(bash("touch a > b")),
        X(bash("ln c l")),
        D("done"),
    ]
    played = desk.play(steps, allowed_tools=[])
    assert desk.read("README.md") == "# A large project\n"
    assert (desk.read("c"), desk.read("b")) == ("", None)
    assert not (desk.workspace / "d").exists()
    assert not (desk.folder / "a").exists()
    assert len(failures(played)) == len(played.result["permission_denials"]) == 5


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_what_steers_other_programs_is_changed_by_a_rule_alone(desk: Desk, mode: str) -> None:
    """Mode acceptEdits does not let a tool or a command at it, by whatever name."""
    if mode == "bypassPermissions" and os.geteuid() == 0:
        desk.defaults["sandbox"] = {"mode": "off", "reason": "a test", "container": True}
    (desk.workspace / "link").symlink_to(".vscode")
    desk.write(".vscode/x", "")
    steps = [
        X(("Write", {"file_path": ".husky/pre-commit", "content": "x"})),
        X(("Write", {"file_path": "link/tasks.json", "content": "x"})),
        X(bash("cp README.md .bashrc")),
        X(bash("touch link/y")),
        D("done"),
    ]
    played = desk.play(steps, permission_mode=mode, allowed_tools=[])
    made = (".husky/pre-commit", ".vscode/tasks.json", ".bashrc", ".vscode/y")
    assert [desk.read(name) is None for name in made] == [mode == "acceptEdits"] * 4
    if mode == "acceptEdits":
        said = failures(played)
        assert "`.husky` in" in said[0]
        assert "`allowed_tools: [Edit(/.husky/pre-commit)]` in the spec would" in said[0]


def test_a_rule_allows_what_no_mode_does(desk: Desk) -> None:
    """The one that the denial names."""
    step = X(("Write", {"file_path": ".husky/pre-commit", "content": "x"}))
    desk.play([step, D("done")], allowed_tools=["Edit(/.husky/pre-commit)"])
    assert desk.read(".husky/pre-commit") == "x"


def test_a_removal_nobody_means_is_denied_in_every_mode(desk: Desk) -> None:
    """Whatever allows it; the agent is told what would be removed."""
    if os.geteuid() == 0:
        desk.defaults["sandbox"] = {"mode": "off", "reason": "a test", "container": True}
    commands = [
        'rm -rf "$UNSET"/*',
        "timeout 5 rm -rf ..",
        "bash -c 'rm -rf ~'",
        "find . -delete",
        "cd / && rm -rf *",
    ]
    guarded = [X(bash(f"exit 0; {command}")) for command in commands]  # never run, even if allowed
    for mode in ("bypassPermissions", "dontAsk"):
        name = f"s-{mode}"
        steps = [*guarded, X(bash("rm -rf gone")), D("done")]
        desk.write("gone/x", "")
        with desk.started(
            steps, "--session-id", name, permission_mode=mode, allowed_tools=["Bash"]
        ) as running:
            assert running.finish().exit_code == 0
        log = desk.home / "session-state" / name / "events.jsonl"
        events = [json.loads(line) for line in log.read_text().splitlines()]
        decisions = [e["data"] for e in events if e["type"] == "permission.completed"]
        denied = [d["reason"] for d in decisions if d["result"]["kind"] == "denied-by-rules"]
        assert len(denied) == len(commands)
        assert denied[0].startswith("it removes `…/*`, which no mode and no rule allows")
        assert desk.read("gone/x") is None


@pytest.mark.parametrize(
    ("mode", "done"),
    [
        ("default", {"Read", "cat"}),
        ("acceptEdits", {"Read", "cat", "Write", "mkdir"}),
        ("plan", {"Read", "cat"}),
        ("dontAsk", {"cat"}),
        ("bypassPermissions", {"Read", "cat", "Write", "mkdir", "curl"}),
    ],
)
def test_the_modes_are_those_of_the_table(desk: Desk, mode: str, done: set[str]) -> None:
    """What runs in each of them without any rule."""
    if os.geteuid() == 0:
        desk.defaults["sandbox"] = {"mode": "off", "reason": "a test", "container": True}
    tried = {
        "Read": ("Read", {"file_path": "README.md"}),
        "cat": bash("cat README.md"),
        "Write": ("Write", {"file_path": "a", "content": "x"}),
        "mkdir": bash("mkdir d"),
        "curl": bash("curl --version >&2"),
    }
    steps = [*(X(call) for call in tried.values()), D("done")]
    played = desk.play(steps, permission_mode=mode, allowed_tools=[])
    outcomes = [d["success"] for d in played.of("tool.execution_complete")]
    ran = {name for name, success in zip(tried, outcomes, strict=False) if success}
    assert ran == done

"""Permission rules in a whole run: what is denied never happens, and everybody is told."""

from __future__ import annotations

import json

from tests.e2e.desk import Desk, Played
from tests.servers import D, X


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
    played = desk.play([X(bash("touch a")), D("done")], allowed_tools=[], on_denied="fail")
    assert played.exit_code == 10
    assert played.result["subtype"] == "error_permission_denied"

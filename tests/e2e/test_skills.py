"""Skills: described in each request, told in full once used, and no way around the task's rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.desk import Desk, Played, Wire
from tests.e2e.test_resume import go
from tests.servers import D, T, X

pytestmark = pytest.mark.warm

BODY = "Bump the version in $0, then tell $ARGUMENTS."
RELEASE = f"""---
name: release
description: Cuts a release of the package.
allowed-tools: Bash(touch *)
---
{BODY}
"""
SKILL = ".claude/skills/release/SKILL.md"
USE = ("Skill", {"skill": "release", "args": "setup.py now"})
TOLD = "Bump the version in setup.py, then tell setup.py now."
TOUCH = ("Bash", {"command": "touch made", "description": "make a file"})


def stocked(desk: Desk, text: str = RELEASE, wire: Wire | None = None) -> Desk:
    """The desk with a skill in its workspace, and its model on this wire."""
    desk.wire = wire
    desk.write(SKILL, text)
    return desk


def described(request: dict[str, Any]) -> str:
    """What a request says of the skills, in the tool's definition."""
    tools = [tool["function"] for tool in request["tools"]]
    return str(next(tool["description"] for tool in tools if tool["name"] == "Skill"))


def test_a_request_has_the_description_and_the_text_only_after_its_use(desk: Desk) -> None:
    """Row 115: it comes as the result of the call, with its arguments; the tools stay the same."""
    stocked(desk, wire="openai")
    played = desk.play([X(USE), D("done")])
    assert played.exit_code == 0
    first, second = played.requests
    assert "- release: Cuts a release of the package." in described(first)
    assert "Bump the version" not in json.dumps(first)
    assert first["tools"] == second["tools"]
    result = next(m for m in second["messages"] if m["role"] == "tool")
    assert TOLD in result["content"]
    assert str(desk.workspace / ".claude/skills/release") in result["content"]
    (invoked,) = played.of("skill.invoked")
    data = invoked
    assert (data["name"], data["trigger"], data["source"]) == (
        "release",
        "agent-invoked",
        "project",
    )
    assert (data["path"], data["allowedTools"]) == (str(desk.workspace / SKILL), [])
    assert TOLD in data["content"]


def test_the_prompt_can_invoke_a_skill(desk: Desk) -> None:
    """`/name arguments`: the text is a message of its own, before the first reply."""
    stocked(desk, wire="openai")
    played = desk.play([D("done")], prompt="/release setup.py now")
    told = [m["content"] for m in played.requests[0]["messages"] if m["role"] == "user"]
    assert "/release setup.py now" in json.dumps(told)
    assert TOLD in json.dumps(told)
    assert played.of("skill.invoked")[0]["trigger"] == "user-invoked"


def test_a_prompt_that_names_no_skill_is_told_as_it_stands(desk: Desk) -> None:
    """With a warning, since whoever wrote it meant something else."""
    played = stocked(desk).play([D("done")], prompt="/relaese setup.py")
    assert played.exit_code == 0
    assert "/relaese, and there is no such skill" in warnings(played)


def test_a_resumed_run_still_knows_the_text(desk: Desk) -> None:
    """What was told stays in the conversation, and the tools are the same, byte for byte."""
    stocked(desk, wire="openai")
    first = desk.play([X(USE), X(TOUCH)], max_turns=1, allowed_tools=[])
    assert first.exit_code == 3
    again = go(desk, [D("done")], "--resume", first.folder.name, allowed_tools=[])
    assert again.exit_code == 0
    assert TOLD in json.dumps(again.requests[0]["messages"])
    assert again.requests[0]["tools"] == first.requests[0]["tools"]


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "dontAsk"])
def test_a_skill_of_the_checkout_allows_nothing_by_itself(desk: Desk, mode: str) -> None:
    """Strangers may have written it: its `allowed-tools` do not count, and that is said."""
    hostile = RELEASE.replace("Bash(touch *)", "Bash, Write, WebFetch")
    stocked(desk, hostile)
    evil = ("Bash", {"command": "curl http://127.0.0.1:1", "description": "call home"})
    keys = {"permission_mode": mode, "allowed_tools": ["Skill"]}
    played = desk.play([X(USE), X(evil), D("done")], **keys)
    assert [d["tool_name"] for d in played.result["permission_denials"]] == ["Bash"]
    assert "its `allowed-tools` (Bash, Write, WebFetch) allow nothing" in warnings(played)


def test_a_skill_that_the_task_names_allows_until_the_next_message(desk: Desk) -> None:
    """Its rules count from its use to the next user message, here a nudge."""
    stocked(desk)
    keys = {"skills": ["release"], "permission_mode": "default", "allowed_tools": []}
    steps = [X(TOUCH), X(USE), X(TOUCH), T("thinking"), X(TOUCH), D("done")]
    played = desk.play(steps, **keys)
    done = [r["success"] for r in played.of("tool.execution_complete")]
    assert done == [False, True, True, False, True]
    assert desk.read("made") == ""
    allowed = [r["reason"] for r in played.of("permission.completed")]
    assert any("(of the skill `release`)" in reason for reason in allowed)


@pytest.mark.parametrize(
    "keys",
    [
        {"disallowed_tools": ["Bash(touch *)"]},
        {"ask_tools": ["Bash(touch *)"]},
        {"permission_mode": "plan"},
        {"permission_mode": "dontAsk", "allowed_tools": ["Skill"]},
    ],
)
def test_a_named_skill_lifts_no_rule_of_the_task(desk: Desk, keys: dict[str, Any]) -> None:
    """Deny and ask rules come first, and neither plan nor dontAsk gives way."""
    usual = {"skills": ["release"], "permission_mode": "default", "allowed_tools": []}
    stocked(desk)
    played = desk.play([X(USE), X(TOUCH), D("done")], **{**usual, **keys})
    assert desk.read("made") is None
    assert [d["tool_name"] for d in played.result["permission_denials"]] == ["Bash"]


def test_a_rule_can_deny_one_skill(desk: Desk) -> None:
    """`Skill(name)` is a rule like any other."""
    played = stocked(desk).play([X(USE), D("done")], disallowed_tools=["Skill(release)"])
    assert played.of("skill.invoked") == []
    assert played.result["permission_denials"][0]["tool_name"] == "Skill"


def test_a_skill_can_forbid_more(desk: Desk) -> None:
    """`disallowed-tools` hold whoever wrote the skill."""
    stocked(desk, RELEASE.replace("allowed-tools", "disallowed-tools"))
    played = desk.play([X(USE), X(TOUCH), D("done")])
    assert desk.read("made") is None
    denied = played.of("permission.completed")[-1]["reason"]
    assert "denies it" in denied
    assert "(of the skill `release`)" in denied


def test_an_agent_cannot_rewrite_the_skill_it_was_given(desk: Desk) -> None:
    """A skill that the task names is a part of the task: a changed one ends the run."""
    stocked(desk)
    widen = {"command": f"sed -i s/touch/rm/ {SKILL}", "description": "widen the skill"}
    played = desk.play([X(("Bash", widen)), D("done")], skills=["release"])
    assert played.exit_code == 11
    assert SKILL in json.dumps(played.result["errors"])


def test_a_broken_skill_is_named_and_skipped(desk: Desk) -> None:
    """With file and line; the others are there."""
    stocked(desk)
    broken = desk.write(
        ".claude/skills/bad/SKILL.md", "---\nname: bad\ndescription: a: b\n---\nx\n"
    )
    played = desk.play([D("done")], "--output-format", "stream-json")
    assert f"{broken}:3: " in warnings(played)
    assert played.stream[0]["skills"] == ["release"]


@pytest.mark.parametrize("name", ["bad", "absent", "./nowhere-skills"])
def test_a_named_skill_that_cannot_be_had_stops_the_run(desk: Desk, name: str) -> None:
    """Before anything is paid for; a path that is not there, before anything at all."""
    stocked(desk)
    desk.write(".claude/skills/bad/SKILL.md", "---\nname: [bad\n---\nx\n")
    played = desk.play([D("done")], skills=["release", name])
    if "/" in name:
        assert played.exit_code == 2
        return
    assert played.exit_code == 78
    assert f"skills: {name}: " in played.result["errors"][0]


def test_a_skill_can_be_named_by_its_path(desk: Desk) -> None:
    """Outside of the workspace, and with no project settings at all; its files can be read."""
    folder = desk.folder / "shared" / "triage"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("Read rules.md first.\n")
    (folder / "rules.md").write_text("Be kind.\n")
    steps = [
        X(("Skill", {"skill": "triage"})),
        X(("Read", {"file_path": str(folder / "rules.md")})),
        D("done"),
    ]
    played = desk.play(steps, skills=["./shared/triage"], setting_sources=[])
    assert [r["success"] for r in played.of("tool.execution_complete")] == [True] * 3
    assert played.of("skill.invoked")[0]["source"] == "custom"


def test_a_task_can_do_without_skills(warm_desk: Callable[[Wire], Desk]) -> None:
    """`skills: []` takes the tool away; no project settings leave it with nothing to load."""
    none = stocked(warm_desk("openai"), wire="openai").play([D("done")], skills=[])
    assert "Skill" not in [tool["function"]["name"] for tool in none.requests[0]["tools"]]
    bare = stocked(warm_desk("openai"), wire="openai")
    played = bare.play([X(USE), D("done")], setting_sources=[])
    assert "There are none in this run." in described(played.requests[0])
    assert "no skills are configured" in json.dumps(played.requests[1]["messages"])


def test_the_plan_shows_the_skills_and_what_they_allow(desk: Desk) -> None:
    """One sees it before anything is paid for."""
    stocked(desk)
    desk.script([D("done")])
    text = desk.call("plan", str(desk.spec(skills=["release"]))).stdout
    assert "release (allows Bash(touch *))" in text


def warnings(played: Played) -> str:
    """What the log warns of."""
    return "\n".join(record["message"] for record in played.of("session.warning"))

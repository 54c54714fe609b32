"""Sub-agents that files of the project define: theirs to describe, never to widen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.desk import CENT, MODELS, Desk, Played
from tests.e2e.test_agents_spec import names
from tests.e2e.test_resume import go
from tests.e2e.test_subagents import READ, answers, asks, of_agents
from tests.servers import D, T, X

pytestmark = pytest.mark.warm

FILE = ".claude/agents/scout.md"
HEAD = "name: scout\ndescription: Looks around.\n"
SCOUT = X(asks(subagent_type="scout"))


def scout(desk: Desk, more: str = "", prompt: str = "You are a scout.") -> None:
    """Put the agent into the workspace."""
    desk.write(FILE, f"---\n{HEAD}{more}---\n{prompt}\n")


def warnings(played: Played) -> str:
    """What the log warns of about agents."""
    every = played.of("session.warning")
    return "\n".join(one["message"] for one in every if one["warningType"] == "agents")


def listed(request: dict[str, Any]) -> str:
    """What a request says of the agents there are."""
    tools = [tool["function"] for tool in request["tools"]]
    return str(next(tool["description"] for tool in tools if tool["name"] == "Agent"))


def test_an_agent_of_the_project_is_described_and_runs(desk: Desk) -> None:
    """Its file gives the prompt and the tools; the stream's first message names it."""
    desk.wire = "openai"
    scout(desk, "tools: Read, Grep\nmodel: inherit\n")
    steps = [SCOUT, X(READ), T("A small project."), D("ok")]
    played = desk.play(steps, "--output-format", "stream-json")
    assert (played.exit_code, answers(played)) == (0, ["A small project."])
    run, child = played.requests[0], played.requests[1]
    assert "- scout: Looks around. (tools: Read, Grep)" in listed(run)
    assert child["messages"][0]["content"].startswith("You are a scout.")
    assert (names(child), warnings(played)) == ({"Read", "Grep"}, "")
    assert played.stream[0]["agents"] == ["general-purpose", "scout"]


def test_without_the_project_as_a_source_there_is_none(desk: Desk) -> None:
    """`setting_sources: []` leaves its agents out, as its instructions."""
    scout(desk)
    played = desk.play([SCOUT, D("ok")], setting_sources=[])
    assert "there is no agent `scout`" in answers(played)[0]


def test_the_agent_of_the_task_comes_first(desk: Desk) -> None:
    """A file of that name changes nothing about it."""
    desk.wire = "openai"
    scout(desk, "tools: Read, Write\n", "You are another one.")
    own = {"scout": {"description": "Ours.", "prompt": "You are ours.", "tools": ["Read"]}}
    played = desk.play([SCOUT, T("Seen."), D("ok")], agents=own)
    assert played.requests[1]["messages"][0]["content"].startswith("You are ours.")
    assert names(played.requests[1]) == {"Read"}


def test_a_bad_file_is_skipped_with_its_line_and_the_run_goes_on(desk: Desk) -> None:
    """On stderr, in the log, and in the plan."""
    scout(desk, "maxTurns: many\n")
    played = desk.play([D("ok")])
    problem = f"{desk.workspace / FILE}:4: maxTurns: expected a whole number >= 1"
    assert played.exit_code == 0
    assert problem in warnings(played)
    assert problem in played.stderr
    assert problem in desk.call("plan", str(desk.folder / "task.yaml")).stdout


@pytest.mark.parametrize("mode", ["bypassPermissions", "acceptEdits", "auto"])
def test_a_file_of_the_project_widens_no_permission(desk: Desk, mode: str) -> None:
    """Neither by its mode nor by its tools: what the run may not, its agent may not."""
    scout(desk, f"permissionMode: {mode}\ntools: Bash, Write, Read, WebFetch\n")
    evil = X(("Bash", {"command": "touch x"}), ("Write", {"file_path": "y", "content": "y"}))
    keys = {"allowed_tools": [], "permission_mode": "default", "disallowed_tools": ["Write"]}
    played = desk.play([SCOUT, evil, T("no"), D("ok")], **keys)
    assert (played.exit_code, desk.read("x"), desk.read("y")) == (0, None, None)
    assert [one["tool_name"] for one in played.result["permission_denials"]] == ["Bash", "Write"]
    assert f"{FILE}:4: permissionMode: {mode} is not narrower than default" in warnings(played)


def test_a_narrower_mode_of_a_file_counts(desk: Desk) -> None:
    """In `plan` it reads only, though the run may write."""
    scout(desk, "permissionMode: plan\n")
    write = ("Write", {"file_path": "new.txt", "content": "made\n"})
    played = desk.play([SCOUT, X(write), T("I may not."), D("ok")])
    assert (played.exit_code, desk.read("new.txt"), warnings(played)) == (0, None, "")


@pytest.mark.parametrize("model", ["opus", "openai/gpt-5-pro", "huggingface/http://127.0.0.1:1"])
def test_a_file_of_the_project_names_no_model_that_the_task_does_not(
    desk: Desk, model: str
) -> None:
    """It is asked as the run's own, with a warning."""
    desk.wire = "openai"
    scout(desk, f"model: {model}\n")
    played = desk.play([SCOUT, T("Seen."), D("ok")])
    assert played.exit_code == 0
    assert played.requests[1]["model"] == played.requests[0]["model"]
    assert f'{FILE}:4: model: the task names no model "{model}"' in warnings(played)


def test_a_resumed_session_has_the_agents_it_began_with(desk: Desk) -> None:
    """The log says which: a file that was changed or written since then means nothing."""
    desk.wire = "openai"
    scout(desk)
    steps = [X(("Write", {"file_path": ".claude/agents/new.md", "content": f"---\n{HEAD}---\nx"}))]
    first = desk.play([*steps, X(READ)], max_turns=1, agents={})
    assert first.exit_code == 3
    scout(desk, "tools: Bash\n", "You obey the file.")
    again = go(desk, [SCOUT, T("Seen."), D("ok")], "--resume", first.folder.name)
    assert again.exit_code == 0
    assert again.requests[1]["messages"][0]["content"].startswith("You are a scout.")
    assert listed(again.requests[0]) == listed(first.requests[0])
    assert "Bash" in names(again.requests[1])


def test_secrets_in_a_file_are_masked(desk: Desk) -> None:
    """What the model is told of it goes through the mask first."""
    desk.wire = "openai"
    desk.environ["PASSWORD"] = "correct-horse-9"  # the secret of the test
    scout(desk, prompt="You know correct-horse-9.")
    played = desk.play([SCOUT, T("Seen."), D("ok")], secrets=["PASSWORD"])
    assert "correct-horse-9" not in json.dumps(played.requests)
    assert "correct-horse-9" not in (played.folder / "events.jsonl").read_text()


def test_a_skill_that_a_file_names_may_be_missing(desk: Desk) -> None:
    """It is left out with a warning; one that is there is told."""
    desk.wire = "openai"
    desk.write(
        ".claude/skills/notes/SKILL.md", "---\ndescription: Notes.\n---\nWrite short notes.\n"
    )
    scout(desk, "skills: release, notes\n")
    played = desk.play([SCOUT, T("Seen."), D("ok")])
    assert played.exit_code == 0
    assert "there is no skill `release` that scout could be told" in warnings(played)
    assert "Write short notes." in json.dumps(played.requests[1]["messages"])


def test_an_agent_without_a_word_of_the_task_can_be_denied_by_name(desk: Desk) -> None:
    """`Agent(name)` of the task binds agents of the project too."""
    scout(desk)
    played = desk.play([SCOUT, D("ok")], disallowed_tools=["Agent(scout)"])
    assert "Agent(scout)" in answers(played)[0]
    assert of_agents(played, "subagent.started") == []


@pytest.mark.parametrize("key", ["allowed_tools", "ask_tools", "disallowed_tools"])
def test_a_rule_about_an_agent_of_the_project_is_no_mistake(desk: Desk, key: str) -> None:
    """`validate --strict` knows the agents of the checkout, whichever list the rule stands in."""
    scout(desk)
    desk.script([D("ok")])
    known = desk.call("validate", "--strict", str(desk.spec(**{key: ["Agent(scout)"]})))
    assert (known.returncode, known.stderr) == (0, "")
    wrong = desk.call("validate", "--strict", str(desk.spec(**{key: ["Agent(scuot)"]})))
    assert wrong.returncode == 2
    assert "the agents are general-purpose, scout" in wrong.stderr


def test_a_file_may_choose_among_the_models_of_the_task(desk: Desk) -> None:
    """By its id, without the provider, or by its family; it is asked and paid as that model."""
    desk.wire = "anthropic"
    other = "anthropic/claude-haiku-4-5"
    scout(desk, "model: haiku\n")
    prices = {MODELS["anthropic"]: CENT, other: {"input_per_mtok": 1, "output_per_mtok": 1}}
    steps = [SCOUT, T("Seen."), D("ok")]
    played = desk.play(steps, fallback_models=[other], pricing=prices, max_budget_usd=1)
    assert played.exit_code == 0
    assert [r["model"] for r in played.requests] == [
        "claude-sonnet-4-5",
        "claude-haiku-4-5",
        "claude-sonnet-4-5",
    ]
    costs = {model: usage["costUSD"] for model, usage in played.result["modelUsage"].items()}
    assert costs == {MODELS["anthropic"]: 0.0024, other: 0.00012}

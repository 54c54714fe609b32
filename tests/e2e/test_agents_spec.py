"""Sub-agents that a spec defines: prompt, tools, turns and mode, never more than the run's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.desk import Desk
from tests.e2e.test_subagents import READ, answers, asks, of_agents
from tests.servers import D, T, X

pytestmark = pytest.mark.warm

PROMPT = "You are a scout. You look, and say what is there."


def scout(**more: Any) -> dict[str, Any]:
    """A spec's agents: the one that looks around."""
    return {"scout": {"description": "Looks around.", "prompt": PROMPT, **more}}


def names(request: dict[str, Any]) -> set[str]:
    """The tools that a request offers."""
    return {tool["function"]["name"] for tool in request["tools"]}


def test_an_agent_of_the_spec_has_its_own_prompt_and_its_tools_only(desk: Desk) -> None:
    """The model reads when to start it; what it has is a part of what the run has."""
    desk.wire = "openai"
    agents = scout(tools=["Read", "Bash", "Grep"], disallowedTools=["Grep"], model="inherit")
    steps = [X(asks(subagent_type="scout")), X(READ), T("A small project."), D("ok")]
    played = desk.play(steps, agents=agents, disallowed_tools=["Bash"])
    assert (played.exit_code, answers(played)) == (0, ["A small project."])
    run, child = played.requests[0], played.requests[1]
    listed = next(t["function"] for t in run["tools"] if t["function"]["name"] == "Agent")
    assert "- scout: Looks around. (tools: Read, Bash, Grep)" in listed["description"]
    assert child["messages"][0]["content"].startswith(PROMPT)
    assert PROMPT not in run["messages"][0]["content"]
    assert names(child) == {"Read"}
    assert child["model"] == run["model"]
    (begun,) = of_agents(played, "subagent.started")
    assert (begun["agentName"], begun["agentDescription"]) == ("scout", "Looks around.")


def test_an_agent_at_its_cap_of_turns_is_an_error_and_the_run_goes_on(desk: Desk) -> None:
    """The cap is its own: the run, which has none, ends as it would have."""
    steps = [X(asks(subagent_type="scout")), X(READ), X(READ), D("ok")]
    played = desk.play(steps, agents=scout(maxTurns=1))
    assert played.exit_code == 0
    (failed,) = of_agents(played, "subagent.failed")
    assert failed["reason"] == "error_max_turns"
    (text,) = answers(played)
    assert "`scout` did not finish: Reached maximum number of turns (1)" in text
    assert played.tool_errors()[-1] == text


@pytest.mark.parametrize("mode", ["bypassPermissions", "acceptEdits"])
def test_the_mode_of_an_agent_widens_nothing(desk: Desk, mode: str) -> None:
    """What the run would not be allowed without a rule, its agent is not either."""
    steps = [X(asks(subagent_type="scout")), X(("Bash", {"command": "touch x"})), T("no"), D("ok")]
    keys = {"allowed_tools": [], "permission_mode": "default"}
    played = desk.play(steps, agents=scout(permissionMode=mode), **keys)
    assert (played.exit_code, desk.read("x")) == (0, None)
    assert [one["tool_name"] for one in played.result["permission_denials"]] == ["Bash"]


def test_the_mode_of_an_agent_narrows(desk: Desk) -> None:
    """In `plan` it reads only, though the run may write."""
    write = ("Write", {"file_path": "new.txt", "content": "made\n"})
    steps = [X(asks(subagent_type="scout")), X(write), T("I may not."), D("ok")]
    played = desk.play(steps, agents=scout(permissionMode="plan"))
    assert (played.exit_code, desk.read("new.txt")) == (0, None)


def test_a_skill_that_an_agent_is_to_be_told_must_be_there(desk: Desk) -> None:
    """The run is refused before its first call, and the agent is named."""
    played = desk.play([D("never")], agents=scout(skills=["release"]))
    assert (played.exit_code, played.types.count("assistant.turn_start")) == (78, 0)
    assert "scout: there is no skill `release`" in played.stderr


def test_without_depth_there_is_no_tool_to_start_one(desk: Desk) -> None:
    """`limits.max_subagent_depth: 0` takes `Agent` away."""
    desk.wire = "openai"
    played = desk.play([D("ok")], agents=scout(), limits={"max_subagent_depth": 0})
    assert "Agent" not in names(played.requests[0])

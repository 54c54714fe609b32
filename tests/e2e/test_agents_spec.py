"""Sub-agents that a spec defines: prompt, tools, turns and mode, never more than the run's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.desk import Desk
from tests.e2e.test_subagents import READ, answers, asks, of_agents
from tests.servers import D, F, T, X

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


OWN, OTHER, SPARE = "openai/my-own", "openai/my-other", "openai/my-spare"


def priced(**prices: int) -> dict[str, Any]:
    """A price for each of the models, in dollars for a million tokens."""
    models = {"own": OWN, "other": OTHER, "spare": SPARE}
    return {
        models[name]: {"input_per_mtok": usd, "output_per_mtok": usd}
        for name, usd in prices.items()
    }


def test_an_agent_asks_a_model_of_its_own_at_its_price(desk: Desk) -> None:
    """In the request, in its messages, in the charge, and in the totals by model."""
    desk.wire = "openai"
    steps = [X(asks(subagent_type="scout")), T("Seen."), D("ok")]
    keys = {"model": OWN, "pricing": priced(own=10, other=1000), "max_budget_usd": 100}
    played = desk.play(steps, agents=scout(model=OTHER), **keys)
    assert played.exit_code == 0
    assert [request["model"] for request in played.requests] == ["my-own", "my-other", "my-own"]
    (said,) = of_agents(played, "assistant.message")
    assert said["model"] == OTHER
    assert of_agents(played, "subagent.started")[0]["model"] == OTHER
    assert of_agents(played, "subagent.completed")[0]["model"] == OTHER
    spent = {model: used["costUSD"] for model, used in played.result["modelUsage"].items()}
    assert spent == {OWN: 0.0024, OTHER: 0.12}
    (metrics,) = (event["modelMetrics"] for event in played.of("session.shutdown"))
    assert {model: one["requests"]["count"] for model, one in metrics.items()} == {OWN: 2, OTHER: 1}


def test_a_model_of_an_agent_without_a_price_is_refused_where_there_is_a_budget(
    desk: Desk,
) -> None:
    """Exit 78 before any request, with the model that needs a price; `doctor` finds it too."""
    desk.wire = "openai"
    keys = {"model": OWN, "pricing": priced(own=10), "max_budget_usd": 1}
    played = desk.play([], agents=scout(model=OTHER), **keys)
    assert (played.exit_code, played.requests) == (78, [])
    (error,) = played.result["errors"]
    assert f"the price of `{OTHER}` is unknown" in error
    assert f"add `pricing: {{{OTHER}: {{" in error
    found = desk.call("doctor", str(desk.folder / "task.yaml"))
    assert (found.returncode, OTHER in found.stdout) == (78, True)


def test_the_plan_lists_the_agents_with_tools_and_models(desk: Desk) -> None:
    """The one that is always there, those of the task, those of the project."""
    desk.write(".claude/agents/x.md", "---\nname: sweep\ndescription: Sweeps.\n---\nSweep.\n")
    agents = scout(model=OTHER, tools=["Read", "Grep"], permissionMode="plan", maxTurns=3)
    path = desk.spec(model=OWN, api_base="http://127.0.0.1:1", agents=agents)
    lines = [line.strip() for line in desk.call("plan", str(path)).stdout.splitlines()]
    at = lines.index("sub-agents") + 1
    assert lines[at : at + 4] == [
        f"general-purpose  {OWN}; the tools of who starts it",
        f"scout  {OTHER}; Read, Grep; mode plan; 3 tool-use turns",
        f"sweep  {OWN}; the tools of who starts it; from {desk.workspace}/.claude/agents/x.md",
        "",
    ]
    assert any(f"model: {OTHER}" in line for line in lines)
    path = desk.spec(model=OWN, api_base="http://127.0.0.1:1", disallowed_tools=["Agent"])
    none = desk.call("plan", str(path)).stdout
    assert "\nsub-agents\n  none\n" in none


def test_an_agent_without_money_for_its_dearer_model_is_not_asked(desk: Desk) -> None:
    """Row 84: the reservation is made at the price of its model, and what does not fit is a tool
    error; the run, which is cheaper, goes on."""
    desk.wire = "openai"
    keys = {"model": OWN, "pricing": priced(own=10, other=100_000), "max_budget_usd": 1}
    steps = [X(asks(subagent_type="scout")), D("without it")]
    played = desk.play(steps, agents=scout(model=OTHER), **keys)
    assert (played.exit_code, len(played.requests)) == (0, 2)
    assert "Budget limit reached. Reached maximum budget ($1)" in answers(played)[0]
    assert of_agents(played, "assistant.turn_start") == []


def test_the_fallbacks_of_the_run_stand_in_for_the_model_of_an_agent(desk: Desk) -> None:
    """For that agent alone: the run goes on with its own model, and so does the next agent."""
    desk.wire = "openai"
    start = X(asks(subagent_type="scout"))
    steps = [start, F(503), T("From the spare."), start, T("From its own."), D("ok")]
    keys = {"model": OWN, "fallback_models": [SPARE], "retry": {"max_attempts": 1}}
    keys["pricing"] = priced(own=1, other=1, spare=1)
    played = desk.play(steps, agents=scout(model=OTHER), **keys)
    assert answers(played) == ["From the spare.", "From its own."]
    assert [request["model"] for request in played.requests] == [
        "my-own",
        "my-other",
        "my-spare",
        "my-own",
        "my-other",
        "my-own",
    ]


def test_scripts_are_models_of_agents_too(desk: Desk) -> None:
    """Each agent's script goes on where it was, whoever asks."""
    script = desk.folder / "scout.yaml"
    script.write_text("replies: [{text: first}, {text: second}]\n")
    start = X(asks(subagent_type="scout"))
    played = desk.play([start, start, D("ok")], agents=scout(model=f"scripted:{script}"))
    assert (played.exit_code, answers(played)) == (0, ["first", "second"])

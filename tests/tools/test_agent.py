"""Agent: what the model reads about sub-agents."""

from __future__ import annotations

import pytest

from runner.app import agents
from runner.core.events import SandboxReport
from runner.core.skills import Skill
from runner.core.spec import AgentSpec, InputSpec, LimitsSpec, TaskSpec
from runner.tools import Agent
from tests.tools.bench import Bench, descriptions

TIDY = Skill(name="tidy", description="d", path="/s/SKILL.md", folder="/s", body="Tidy up.")
REVIEWER = AgentSpec(
    description="Reviews\n a change.", prompt="You review.", tools=("Read", "Grep")
)


def spec(**changes: object) -> TaskSpec:
    keys = {"name": "n", "prompt": "p", "model": "m", "agents": {"reviewer": REVIEWER}}
    return TaskSpec(**{**keys, **changes})  # type: ignore[arg-type]  # as the test says


def test_the_agents_are_listed_with_what_they_are_for(bench: Bench) -> None:
    """One line each, ours first; their tools where they have fewer."""
    (tool,) = agents.tool(spec()).values()
    listed = tool.spec.description.partition("Agents:\n")[2].splitlines()
    assert [line.partition(":")[0] for line in listed] == ["- general-purpose", "- reviewer"]
    assert listed[1] == "- reviewer: Reviews a change. (tools: Read, Grep)"
    assert tool.permission({})["kind"] == "custom-tool"


def test_a_spec_may_have_a_general_agent_of_its_own() -> None:
    """It stands in place of ours."""
    own = AgentSpec(description="Does it all.", prompt="Go.")
    (tool,) = agents.tool(spec(agents={"general-purpose": own})).values()
    assert tool.spec.description.endswith("- general-purpose: Does it all.")


@pytest.mark.parametrize("limits", [{"max_subagent_depth": 0}, {"max_subagents": 0}])
def test_a_spec_may_want_no_sub_agents(limits: dict[str, int]) -> None:
    """The tool is not there at all."""
    assert agents.tool(spec(limits=LimitsSpec(**limits))) == {}  # type: ignore[arg-type]  # as above


def test_the_tool_itself_starts_nothing(bench: Bench) -> None:
    """The engine does; without one a call is a failure."""
    bench.tools["Agent"] = Agent(agents={}, descriptions=descriptions())
    failure = bench.failure("Agent", description="d", prompt="p")
    assert str(failure) == "no sub-agent can be started here"


def test_a_sub_agent_is_told_its_role_and_where_it_is(bench: Bench) -> None:
    """Its own prompt first, then how sub-agents work, the walls, strangers and secrets."""
    task = spec(
        inputs={"title": InputSpec(untrusted=True)}, secrets=("TOKEN",), protected_paths=("x/**",)
    )
    report = SandboxReport(tier="namespaces", network="none")
    text = agents.system_prompt(task, REVIEWER, bench.workspace, report)
    assert text.startswith("You review.\n\n# How you work here\n")
    for part in (
        str(bench.workspace),
        "`x/**`",
        "in a sandbox",
        "Text from strangers",
        "# Secrets",
    ):
        assert part in text
    assert "{" not in text
    assert "sandbox" not in agents.system_prompt(spec(), REVIEWER, bench.workspace, None)


def test_an_agent_is_told_only_skills_that_are_there() -> None:
    """The check names the agent and the skill that is missing; without skills there is none."""
    taught = AgentSpec(description="d", prompt="p", skills=("tidy", "gone"))
    (check,) = agents.checks(spec(agents={"taught": taught}), {"tidy": TIDY})
    assert (check.ok, check.detail) == (False, "taught: there is no skill `gone`")
    assert agents.checks(spec(), {}) == ()

"""Skill: gives the model the text of a skill it has so far seen the description of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from runner.core.messages import SKILL_TOOL, ToolSpec
from runner.core.skills import Skill, invocation, listing
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import answer, tool_spec


class SkillTool:
    """Knows the skills as they were when the run began: no call changes what they say."""

    def __init__(
        self,
        *,
        skills: Mapping[str, Skill],
        allowed: Callable[[Skill], tuple[str, ...]],
        descriptions: Mapping[str, str],
    ) -> None:
        """`allowed` says which rules of a skill count."""
        self._skills = {name: skill for name, skill in skills.items() if skill.for_model}
        self._allowed = allowed
        self._template = descriptions["Skill.text"]
        self.spec = _spec(self._skills, descriptions)

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return {
            "kind": "custom-tool",
            "toolName": self.spec.name,
            "toolDescription": self.spec.description,
            "args": dict(arguments),
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        skill = self._skills.get(arguments["skill"])
        if skill is None:
            known = ", ".join(self._skills) or "none: no skills are configured for this run"
            raise ToolFailure(f"there is no skill `{arguments['skill']}`; the skills are {known}")
        fact = invocation(
            skill,
            arguments.get("args", ""),
            "agent-invoked",
            template=self._template,
            allowed=self._allowed(skill),
        )
        output = answer(fact.content, context)
        return replace(output, facts=(replace(fact, content=output.content),))


def _spec(skills: Mapping[str, Skill], descriptions: Mapping[str, str]) -> ToolSpec:
    properties = {"skill": {"type": "string"}, "args": {"type": "string"}}
    spec = tool_spec(SKILL_TOOL, descriptions, properties, required=("skill",), read_only=True)
    known = listing(skills.values()) or descriptions["Skill.none"].strip()
    return replace(spec, description=spec.description.replace("{skills}", known))

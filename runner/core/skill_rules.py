"""What the rules of invoked skills change about permissions: less than they say, never a denial.

Rules of this file:
* A skill narrows what is allowed whoever wrote it. It allows something only when the spec names it,
  so that its author answers for it, and never in mode dontAsk.
* The rules of the spec that deny or ask come first, as for every other rule that allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from runner.core.events import SkillInvoked
from runner.core.permissions import decide
from runner.core.skills import Skill
from runner.core.spec import ALL_SKILLS, TaskSpec
from runner.core.subjects import Subject
from runner.core.verdicts import Verdict


def counting(spec: TaskSpec, skill: Skill) -> tuple[str, ...]:
    """The rules of the skill that allow, as far as they count in this task."""
    return skill.allowed if _counts(spec, skill.name, skill.path) else ()


def _counts(spec: TaskSpec, name: str, path: str) -> bool:
    """Whether the spec names the skill, by its name or by its folder, in a mode that lets it."""
    if spec.skills == ALL_SKILLS or spec.permission_mode == "dontAsk":
        return False
    return name in spec.skills or path.removesuffix("/SKILL.md") in spec.skills


def under(spec: TaskSpec, invoked: Iterable[SkillInvoked]) -> TaskSpec:
    """The spec as it holds while these skills are in force."""
    in_force = tuple(invoked)
    if not any(skill.allowed_tools or skill.disallowed_tools for skill in in_force):
        return spec
    vouched = [skill for skill in in_force if _counts(spec, skill.name, skill.path)]
    allowed = [rule for skill in vouched for rule in skill.allowed_tools]
    disallowed = [rule for skill in in_force for rule in skill.disallowed_tools]
    return replace(
        spec,
        allowed_tools=(*spec.allowed_tools, *allowed),
        disallowed_tools=(*spec.disallowed_tools, *disallowed),
    )


def decide_under(
    spec: TaskSpec,
    invoked: tuple[SkillInvoked, ...],
    tool: str,
    kind: str,
    subject: Subject,
    arguments: Mapping[str, Any],
) -> Verdict:
    """The verdict on a call while these skills are in force; it says which one decided."""
    verdict = decide(under(spec, invoked), tool, kind, subject, arguments)
    if verdict.rule in (*spec.allowed_tools, *spec.disallowed_tools, *spec.ask_tools):
        return verdict
    owners = (s for s in invoked if verdict.rule in (*s.allowed_tools, *s.disallowed_tools))
    owner = next(owners, None)
    if owner is None:
        return verdict
    return replace(verdict, reason=f"{verdict.reason} (of the skill `{owner.name}`)")

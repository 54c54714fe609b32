"""The skills of a run: found where tools work, checked, offered, and invoked by the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.adapters import skills
from runner.adapters.redact import Mask
from runner.adapters.skills import Found
from runner.app import wiring
from runner.core.events import Check, SessionWarning, SkillListing
from runner.core.skill_rules import counting
from runner.core.skills import Skill, invocation, wanted
from runner.core.spec import ALL_SKILLS, TaskSpec
from runner.core.thread import compaction_focus
from runner.engine.recorder import Recorder
from runner.ports import Tool
from runner.tools.skill import SkillTool


def find(spec: TaskSpec, workspace: Path | None = None, mask: Mask | None = None) -> Found:
    """The skills that load, read where tools work: `workspace`, or the spec's before there is one.

    Their texts are masked: what the model is told of them goes through no event first.
    """
    place = workspace or Path(spec.workspace.path)
    copy_of = Path(spec.workspace.path) if spec.workspace.isolation == "copy" else None
    loads = "project" in spec.setting_sources
    if spec.skills == ALL_SKILLS:
        found = skills.every(place, copy_of) if loads else Found()
    else:
        found = skills.chosen(spec.skills, place if loads else None, copy_of)
    if mask is not None:
        found.skills = {name: _masked(skill, mask) for name, skill in found.skills.items()}
    return found


def _masked(skill: Skill, mask: Mask) -> Skill:
    return replace(
        skill,
        description=mask.text(skill.description),
        body=mask.text(skill.body),
        hint=mask.text(skill.hint),
    )


def checks(spec: TaskSpec, found: Found) -> tuple[Check, ...]:
    """Whether the skills are there that the spec names; nothing when it names none."""
    if spec.skills in (ALL_SKILLS, ()):
        return ()
    why = "; ".join(f"{name}: {reason}" for name, reason in found.missing.items())
    names = ", ".join(found.skills)
    return (Check(name="skills", ok=not why, detail=why or names),)


def tool(spec: TaskSpec, found: Found) -> Mapping[str, Tool]:
    """The tool `Skill`; none when the spec wants no skills."""
    if not spec.skills:
        return {}
    built = SkillTool(
        skills=found.skills,
        allowed=partial(counting, spec),
        descriptions=wiring.tool_descriptions(),
    )
    return {built.spec.name: built}


def listings(spec: TaskSpec, found: Found) -> tuple[SkillListing, ...]:
    """The skills for the log."""
    return tuple(
        SkillListing(
            name=skill.name,
            path=skill.path,
            source=skill.source,
            description=skill.description,
            allowed_tools=counting(spec, skill),
            disallowed_tools=skill.disallowed,
            disable_model_invocation=None if skill.for_model else True,
            user_invocable=None if skill.for_user else False,
        )
        for skill in found.skills.values()
    )


def warn(recorder: Recorder, spec: TaskSpec, found: Found) -> None:
    """Record what was skipped or does not count."""
    for message in warnings(spec, found):
        recorder.record(SessionWarning(warning_type="skills", message=message))


def warnings(spec: TaskSpec, found: Found) -> tuple[str, ...]:
    """What was skipped or does not count, and why."""
    ignored = (
        f"{skill.path}: its `allowed-tools` ({', '.join(skill.allowed)}) allow nothing: "
        + _why_ignored(spec)
        for skill in found.skills.values()
        if skill.allowed and not counting(spec, skill)
    )
    return (*found.problems, *ignored)


def _why_ignored(spec: TaskSpec) -> str:
    if spec.skills == ALL_SKILLS:
        return "the task does not name the skill in `skills`"
    return "mode dontAsk allows what the task's own rules allow"


def invoke(recorder: Recorder, spec: TaskSpec, found: Found) -> None:
    """Invoke the skill that the prompt asks for as `/name arguments`, if it does.

    To be called after the prompt was recorded. A name that no skill has is warned of.
    """
    asked = wanted(spec.prompt)
    if asked is None or compaction_focus(spec.prompt) is not None:
        return
    name, arguments = asked
    skill = found.skills.get(name)
    if skill is None or not skill.for_user:
        why = "there is no such skill" if skill is None else "a prompt may not invoke that skill"
        message = f"the prompt begins with /{name}, and {why}: it is told as it stands"
        recorder.record(SessionWarning(warning_type="skills", message=message))
        return
    template = wiring.tool_descriptions()["Skill.text"]
    allowed = counting(spec, skill)
    recorder.record(
        invocation(skill, arguments, "user-invoked", template=template, allowed=allowed)
    )

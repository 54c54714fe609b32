"""Skill: the text of a skill as the result of a call, and the fact that it was invoked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from runner.core.events import SkillInvoked
from runner.core.skills import Skill
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.skill import SkillTool
from tests.tools.bench import descriptions

TIDY = Skill(
    name="tidy",
    description="Tidies up.",
    path="/w/tidy/SKILL.md",
    folder="/w/tidy",
    body="Sort $0.",
    allowed=("Write",),
)
HIDDEN = Skill(
    name="secret", description="", path="/w/s/SKILL.md", folder="/w/s", body="", for_model=False
)


def built(*skills: Skill) -> SkillTool:
    return SkillTool(
        skills={skill.name: skill for skill in skills},
        allowed=lambda skill: skill.allowed,
        descriptions=descriptions(),
    )


def call(
    tool: SkillTool, spill: Path, max_output_bytes: int = 30_000, **arguments: str
) -> ToolOutput:
    Draft202012Validator(dict(tool.spec.input_schema)).validate(arguments)
    context = ToolContext(
        call_id="1",
        timeout_s=1,
        max_output_bytes=max_output_bytes,
        spill_dir=spill,
        on_progress=lambda text: None,
    )
    return asyncio.run(tool.run(arguments, context))


def test_the_result_is_the_text_and_says_where_its_files_are(tmp_path: Path) -> None:
    """With the arguments filled in; the fact has the same text, and the rules that count."""
    output = call(built(TIDY), tmp_path, skill="tidy", args="imports")
    text = "Skill `tidy`. Its files are in /w/tidy; relative paths in it start there."
    assert output.content == f"{text}\n\nSort imports."
    assert output.facts == (
        SkillInvoked(
            name="tidy",
            path="/w/tidy/SKILL.md",
            content=output.content,
            trigger="agent-invoked",
            description="Tidies up.",
            source="project",
            allowed_tools=("Write",),
        ),
    )


def test_a_long_text_is_cut_like_any_output(tmp_path: Path) -> None:
    """The whole of it is in a file; the fact has what the model was told."""
    long = Skill(name="l", description="", path="/l", folder="/", body="line\n" * 1_000)
    output = call(built(long), tmp_path, max_output_bytes=1_000, skill="l")
    assert len(output.content) <= 1_000
    assert output.output_file is not None
    (fact,) = output.facts
    assert isinstance(fact, SkillInvoked)
    assert fact.content == output.content


@pytest.mark.parametrize("name", ["Tidy", " tidy", "/tidy", "secret", ""])
def test_only_the_exact_name_of_a_listed_skill_will_do(tmp_path: Path, name: str) -> None:
    """Else a rule about a skill could be got around; the failure says which there are."""
    with pytest.raises(ToolFailure, match=r"the skills are tidy$"):
        call(built(TIDY, HIDDEN), tmp_path, skill=name)


def test_the_description_lists_what_the_model_may_invoke(tmp_path: Path) -> None:
    """By name and description, never the text; without skills it says that there are none."""
    shown = built(TIDY, HIDDEN).spec.description
    assert shown.endswith("Skills:\n- tidy: Tidies up.")
    assert built(HIDDEN).spec.description.endswith("Skills:\nThere are none in this run.")
    with pytest.raises(ToolFailure, match="no skills are configured for this run"):
        call(built(), tmp_path, skill="tidy")

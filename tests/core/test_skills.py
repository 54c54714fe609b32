"""The texts of skills, and how long and how far their rules count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.core.events import SessionResume, SkillInvoked, UserMessage
from runner.core.messages import User
from runner.core.permissions import decide
from runner.core.resumption import resume
from runner.core.skill_rules import counting, decide_under, under
from runner.core.skills import (
    MAX_DESCRIPTION_CHARS,
    MAX_LISTING_CHARS,
    Skill,
    filled,
    invocation,
    listing,
    preloaded,
    shortened,
    wanted,
)
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.core.thread import HOOK_CONTEXT, Thread, hear_skill, hear_user
from tests.logs import task

TEXT = "{folder}: {body}"


def skill(body: str = "Do it.", name: str = "tidy", **fields: object) -> Skill:
    plain = Skill(
        name=name, description="Tidies up.", path=f"/w/{name}/SKILL.md", folder="/w", body=body
    )
    return replace(plain, **fields)  # type: ignore[arg-type]  # of this test's own choice


def invoked(**fields: object) -> SkillInvoked:
    fact = invocation(skill(), "", "agent-invoked", template=TEXT)
    return replace(fact, **fields)  # type: ignore[arg-type]  # of this test's own choice


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Fix $ARGUMENTS.", "a b", "Fix a b."),
        ("Fix $ARGUMENTS.", "", "Fix ."),
        ("From $0 to $1; $ARGUMENTS[1]!", "'a b' c", "From a b to c; c!"),
        ("Print $1 and $12 and $HOME.", "x", "Print $1 and $12 and $HOME.\n\nARGUMENTS: x"),
        ("Do it.", "now", "Do it.\n\nARGUMENTS: now"),
        ("Do it.", "", "Do it."),
        ("Say $0.", "don't stop", "Say don't."),
        ("Say $0.", "$ARGUMENTS", "Say $ARGUMENTS."),
        (r"Keep \$0 and \$HOME.", "x", "Keep $0 and \\$HOME.\n\nARGUMENTS: x"),
        ("See ${CLAUDE_SKILL_DIR}/a.md.", "x", "See /w/a.md.\n\nARGUMENTS: x"),
        ("From $old to ${new}, $other.", "a", "From a to , $other."),
    ],
)
def test_arguments_are_put_in_once(body: str, arguments: str, text: str) -> None:
    """By number, by name or all; what has no place for them gets them at its end; a number that
    no argument stands for may belong to a command and stays."""
    assert filled(skill(body, arguments=("old", "new")), arguments) == text


def test_the_listing_has_one_line_a_skill_within_a_bound() -> None:
    """With the hint; without those the model may not invoke; long ones are cut to their share."""
    skills = [skill(name="a", hint="[file]"), skill(name="b", for_model=False), skill(name="c")]
    assert listing(skills) == "- a [file]: Tidies up.\n- c: Tidies up."
    assert listing([]) == ""
    many = [skill(name=f"s{n}", description="x" * 2_000) for n in range(50)]
    assert len(listing(many)) < MAX_LISTING_CHARS + 50 * 10
    assert len(listing(many[:1])) == MAX_DESCRIPTION_CHARS + len("- s0: ")
    assert shortened("a\n b") == "a b"


def test_a_prompt_asks_for_a_skill_by_a_slash_and_its_name() -> None:
    """At its beginning, with what follows as arguments; a path is no such name."""
    assert wanted("/tidy") == ("tidy", "")
    assert wanted(" /tidy  src\nand docs \n") == ("tidy", "src\nand docs")
    assert wanted("/usr/bin is full") is None
    assert wanted("tidy up") is None


def test_an_invocation_has_the_text_and_the_rules() -> None:
    """What is put into the template is not filled in again."""
    fact = invocation(
        skill("{folder}", disallowed=("Write",)),
        "",
        "user-invoked",
        template=TEXT,
        allowed=("Bash",),
    )
    assert fact == SkillInvoked(
        name="tidy",
        path="/w/tidy/SKILL.md",
        content="/w: {folder}",
        trigger="user-invoked",
        description="Tidies up.",
        source="project",
        allowed_tools=("Bash",),
        disallowed_tools=("Write",),
    )


def test_skills_that_are_preloaded_allow_nothing() -> None:
    """Each once, in the order asked; an unknown name is an error of the caller."""
    known = {"tidy": skill(allowed=("Bash",)), "b": skill("B", name="b")}
    facts = preloaded(known, ["b", "tidy", "b"], template="{body}")
    told = [(fact.name, fact.content, fact.allowed_tools, fact.trigger) for fact in facts]
    assert told == [("b", "B", (), "context-load"), ("tidy", "Do it.", (), "context-load")]
    with pytest.raises(KeyError):
        preloaded(known, ["c"], template="")


# -- rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({"skills": ("all",)}, False),
        ({"skills": ("other",)}, False),
        ({"skills": ("tidy",)}, True),
        ({"skills": ("tidy",), "permission_mode": "dontAsk"}, False),
    ],
)
def test_only_a_skill_that_the_task_names_allows(keys: dict[str, object], count: bool) -> None:
    """Its author answers for it then; dontAsk allows what the task itself says alone."""
    spec = task(**{"allowed_tools": (), "permission_mode": "default", **keys})
    assert counting(spec, skill(allowed=("Write",))) == (("Write",) if count else ())


def test_a_skill_named_by_its_path_allows() -> None:
    """Whatever it is called."""
    spec = task(skills=("/s/tidy",))
    assert counting(spec, skill(allowed=("Write",), path="/s/tidy/SKILL.md")) == ("Write",)
    assert counting(spec, skill(allowed=("Write",))) == ()


def test_a_verdict_names_the_skill_whose_rule_it_was() -> None:
    """And no skill when a rule of the task decided, or none did."""
    spec = task(
        skills=("tidy",), allowed_tools=("Edit",), disallowed_tools=(), permission_mode="default"
    )
    force = (invoked(name="other"), invoked(allowed_tools=("Write",), disallowed_tools=("Grep",)))
    allowed = decide_under(spec, force, "Write", "write", None, {})
    assert (allowed.allowed, allowed.reason) == (
        True,
        "rule `Write` allows it (of the skill `tidy`)",
    )
    denied = decide_under(spec, force, "Grep", "read", None, {})
    assert (denied.allowed, denied.reason) == (False, "rule `Grep` denies it (of the skill `tidy`)")
    assert decide_under(spec, force, "Edit", "write", None, {}) == decide(spec, "Edit", "write")
    bash = decide_under(spec, force, "WebFetch", "url", None, {})
    assert "skill" not in bash.reason


def test_without_rules_the_spec_stays_as_it_is() -> None:
    """Nothing is copied for skills that say nothing about tools."""
    spec = task()
    assert under(spec, (invoked(),)) is spec


def test_skills_are_in_force_until_the_next_user_message() -> None:
    """Not counting what hooks add and the word that a session goes on."""
    thread = hear_skill(Thread(), invoked())
    assert (thread.skills, len(thread.messages)) == ((invoked(),), 0)
    same = hear_user(thread, UserMessage(content="more", source=HOOK_CONTEXT))
    assert same.skills == thread.skills
    assert hear_user(thread, UserMessage(content="on", source="resume")).skills == thread.skills
    nudge = UserMessage(content="go on", source="autopilot", is_autopilot_continuation=True)
    assert hear_user(thread, nudge).skills == ()


def test_a_skill_of_the_prompt_is_in_force_until_the_next_prompt() -> None:
    """The runner's own words, such as a nudge, are no new task."""
    thread = hear_skill(Thread(), invoked(trigger="user-invoked"))
    for source in ("autopilot", "verify", "stop_hook"):
        assert hear_user(thread, UserMessage(content="go on", source=source)).skills
    assert hear_user(thread, UserMessage(content="Now this.")).skills == ()


def test_a_skill_without_a_call_is_told_as_a_message() -> None:
    """The prompt asked for it, or an agent's definition."""
    thread = hear_skill(Thread(), invoked(trigger="user-invoked", content="Do it."))
    assert tuple(thread.messages) == (User(text="Do it."),)


def test_a_resumed_run_takes_back_what_skills_allowed() -> None:
    """What they forbid stays: the call that goes on was made under it."""
    fact = invoked(allowed_tools=("Bash",), disallowed_tools=("Write",))
    state = State(spec=TaskSpec(name="n", prompt="p", model="m"))
    state = replace(state, threads={"": hear_skill(Thread(), fact)})
    again = SessionResume(
        session_id="s", resume_time="", event_count=1, selected_model="m", carries=True, note=""
    )
    assert resume(state, again).main.skills == (replace(fact, allowed_tools=()),)


@pytest.mark.parametrize(
    ("keys", "may"),
    [
        ({}, True),
        ({"disallowed_tools": ("Write",)}, False),
        ({"ask_tools": ("Write",)}, False),
        ({"permission_mode": "plan"}, False),
        ({"permission_mode": "dontAsk"}, False),
        ({"skills": ("all",)}, False),
        ({"skills": ()}, False),
    ],
)
def test_what_was_recorded_counts_by_the_spec_that_holds_now(
    keys: dict[str, object], may: bool
) -> None:
    """A resumed run may have stricter rules than the one in which the skill was invoked; a tool
    that a skill forbids does not lift what the task forbids."""
    usual = {"skills": ("tidy",), "permission_mode": "default", "allowed_tools": ()}
    spec = task(**{**usual, **keys})
    force = (invoked(allowed_tools=("Write",), disallowed_tools=("Grep",)),)
    assert decide_under(spec, force, "Write", "write", None, {}).allowed is may

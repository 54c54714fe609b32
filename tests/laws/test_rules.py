"""Laws of permission rules: denying never allows, allowing never denies, and deny wins."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runner.core.events import SkillInvoked
from runner.core.path_patterns import Places
from runner.core.permissions import decide
from runner.core.rules import RuleError, parse
from runner.core.shell import Command, Script
from runner.core.skill_rules import decide_under
from runner.core.spec import ALL_SKILLS, PermissionMode, TaskSpec
from runner.core.subjects import FileCall, ShellCall, Subject

PLACES = Places(workspace="/w", home="/home/u")
NAMES = ["Bash", "Read", "Edit", "Write", "Grep"]
KINDS = {"Bash": "shell", "Read": "read", "Edit": "write", "Write": "write", "Grep": "read"}
SPECIFIC = [
    *("Bash(npm *)", "Bash(npm test)", "Bash(git * main)", "Bash(env *)", "Bash(*)", "Bash(cat x)"),
    *("Read(src/**)", "Read(.env)", "Edit(src/*.py)", "Edit(//etc/)", "Write(~/x)", "Read(/a)"),
]
RULES = st.lists(st.sampled_from(NAMES + SPECIFIC), max_size=4).map(tuple)
RULE = st.sampled_from(NAMES + SPECIFIC)
MODES: st.SearchStrategy[PermissionMode] = st.sampled_from(
    ["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"]
)
WORDS = st.sampled_from(
    ["npm", "git", "cat", "test", "x", "main", "env", "-c", "find", "-exec", "rm", "touch"]
)
WORD = st.one_of(WORDS.map(lambda text: (text,)), st.just((None,)))
COMMAND = st.builds(Command, words=st.lists(WORD, min_size=1, max_size=4).map(tuple))
SCRIPT = st.builds(
    Script,
    commands=st.lists(COMMAND, max_size=3).map(tuple),
    odd=st.sampled_from([None, None, "odd"]),
)
PATH = st.sampled_from(
    ["/w/src/a.py", "/w/.git/x", "/w/.env", "/etc/x", "/home/u/x", "/w/a/b", "/w", "/w/\\n"]
)
FILE = st.builds(
    FileCall, paths=st.tuples(PATH, PATH), places=st.just(PLACES), searches=st.booleans()
)


def asked(tool: str, data: st.DataObject) -> Subject:
    if tool == "Bash":
        return ShellCall(
            script=data.draw(SCRIPT),
            free=frozenset(("cat", "x")),
            edits=frozenset(("x", "test")),
            sensitive=data.draw(st.sampled_from([frozenset(), frozenset(("x",))])),
            removes=data.draw(st.sampled_from([None, None, "it removes `/`"])),
            writes=data.draw(st.sampled_from([None, "it writes to `/x`"])),
        )
    return data.draw(FILE)


def spec(allow: tuple[str, ...], deny: tuple[str, ...], mode: PermissionMode) -> TaskSpec:
    return TaskSpec(
        name="n",
        prompt="p",
        model="m",
        allowed_tools=allow,
        disallowed_tools=deny,
        permission_mode=mode,
    )


@given(allow=RULES, deny=RULES, more=RULE, mode=MODES, tool=st.sampled_from(NAMES), data=st.data())
def test_a_rule_more_never_turns_the_other_way(
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    more: str,
    mode: PermissionMode,
    tool: str,
    data: st.DataObject,
) -> None:
    """Another deny rule never allows what was denied, and another allow rule never denies; in
    mode auto with a model that always says the same."""
    subject, says_yes = asked(tool, data), data.draw(st.booleans())

    def allowed(allow: tuple[str, ...], deny: tuple[str, ...]) -> bool:
        verdict = decide(spec(allow, deny, mode), tool, KINDS[tool], subject)
        return verdict.allowed or (verdict.open and says_yes)

    assert allowed(allow, (*deny, more)) <= allowed(allow, deny) <= allowed((*allow, more), deny)


@given(allow=RULES, deny=RULES, mode=MODES, tool=st.sampled_from(NAMES), data=st.data())
def test_only_mode_auto_leaves_a_denial_to_a_model(
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    mode: PermissionMode,
    tool: str,
    data: st.DataObject,
) -> None:
    """And there never one by a rule, or about what no mode gives away."""
    subject = asked(tool, data)
    verdict = decide(spec(allow, deny, mode), tool, KINDS[tool], subject)
    if verdict.open:
        assert mode == "auto"
        assert verdict.kind == "denied-no-approval-rule-and-could-not-request-from-user"
        assert not (isinstance(subject, ShellCall) and (subject.removes or subject.sensitive))
        assert not (isinstance(subject, FileCall) and "/w/.git/x" in subject.paths)


@given(allow=RULES, deny=RULES, mode=MODES, tool=st.sampled_from(NAMES), data=st.data())
def test_deny_wins(
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    mode: PermissionMode,
    tool: str,
    data: st.DataObject,
) -> None:
    """What deny rules alone deny is denied in every mode, whatever else allows it."""
    subject = asked(tool, data)
    alone = decide(spec((), deny, "bypassPermissions"), tool, KINDS[tool], subject)
    if not alone.allowed:
        assert decide(spec(allow, deny, mode), tool, KINDS[tool], subject).kind == "denied-by-rules"


@given(text=st.text(max_size=30) | st.text(alphabet="Bash()*: npm'\\;", max_size=30))
def test_a_text_is_a_rule_or_says_why_not(text: str) -> None:
    """Nothing but the one error leaves the parser."""
    try:
        rule = parse(text)
    except RuleError:
        return
    assert rule.text == text


@given(allow=RULES, deny=RULES, ask=RULES, mode=MODES, named=st.booleans(), data=st.data())
def test_a_skill_never_lifts_what_the_task_denies(
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    ask: tuple[str, ...],
    mode: PermissionMode,
    named: bool,
    data: st.DataObject,
) -> None:
    """Whatever its rules say: what a rule of the task denies stays denied. It allows what was not
    allowed only when the task names it, and never in modes plan and dontAsk."""
    tool = data.draw(st.sampled_from(NAMES))
    rules = data.draw(st.just((tool,)) | RULES)
    subject = asked(tool, data)
    skills = ("tidy",) if named else ALL_SKILLS
    task = replace(spec(allow, deny, mode), ask_tools=ask, skills=skills)
    skill = SkillInvoked(
        name="tidy",
        path="/w/SKILL.md",
        content="",
        trigger="agent-invoked",
        allowed_tools=rules,
        disallowed_tools=data.draw(st.just(()) | RULES),
    )
    kind = KINDS[tool]
    before = decide(task, tool, kind, subject)
    during = decide_under(task, (skill,), tool, kind, subject, {})
    if before.kind == "denied-by-rules":
        assert not during.allowed
    if not named or mode in ("plan", "dontAsk"):
        assert before.allowed or not during.allowed

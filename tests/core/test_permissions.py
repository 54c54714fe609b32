"""May this call run?"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, get_args

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from runner.core.bash_rules import words_of
from runner.core.path_patterns import Places
from runner.core.permissions import decide, looks_inside, offered
from runner.core.sensitive_paths import sensitive_part
from runner.core.shell import Command, Script, unparsed
from runner.core.spec import PermissionMode, TaskSpec
from runner.core.subjects import FileCall, NamedCall, ShellCall, WebCall
from runner.core.verdicts import Verdict, VerdictKind

NO_RULE: VerdictKind = "denied-no-approval-rule-and-could-not-request-from-user"
KINDS = {"Bash": "shell", "Edit": "write", "Read": "read", "TaskCreate": "custom-tool"}


def spec(**changes: object) -> TaskSpec:
    return TaskSpec(name="n", prompt="p", model="m", **changes)  # type: ignore[arg-type]  # parametrised


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [
        ("default", {"Read", "TaskCreate"}),
        ("acceptEdits", {"Read", "TaskCreate", "Edit"}),
        ("plan", {"Read", "TaskCreate"}),
        ("dontAsk", set()),
        ("bypassPermissions", {"Read", "TaskCreate", "Edit", "Bash"}),
    ],
)
def test_a_mode_allows_its_kinds_without_a_rule(mode: str, allowed: set[str]) -> None:
    """Exactly these calls may run when no rule is given."""
    verdicts = {
        tool: decide(spec(permission_mode=mode), tool, kind) for tool, kind in KINDS.items()
    }
    assert {tool for tool, verdict in verdicts.items() if verdict.allowed} == allowed


def test_a_rule_allows_what_the_mode_does_not() -> None:
    """The reason names the rule when a rule allows a call."""
    verdict = decide(spec(allowed_tools=("Bash",)), "Bash", "shell")
    assert verdict == Verdict(kind="approved", reason="rule `Bash` allows it", rule="Bash")


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
@pytest.mark.parametrize("tool", list(KINDS))
def test_a_denying_rule_wins_in_every_mode(mode: str, tool: str) -> None:
    """The call is denied when a rule denies it, whatever else would allow it."""
    both = spec(permission_mode=mode, allowed_tools=(tool,), disallowed_tools=(tool,))
    verdict = decide(both, tool, KINDS[tool])
    assert verdict == Verdict(kind="denied-by-rules", reason=f"rule `{tool}` denies it", rule=tool)


@pytest.mark.parametrize("mode", ["default", "dontAsk"])
@pytest.mark.parametrize(
    ("tool", "subject", "rules"),
    [
        ("Bash", "git push", "Bash(git push)"),
        ("Bash", "npm test && git push origin main", "Bash(npm test), Bash(git push origin main)"),
        ("Bash", "cat x && git push", "Bash(git push)"),
        ("Bash", "git push && git push", "Bash(git push)"),
        ("Write", "/w/src/a.py", "Edit(/src/a.py)"),
        ("Edit", "/w/README.md", "Edit(/README.md)"),
        ("Edit", "/elsewhere/x", "Edit(//elsewhere/x)"),
        ("Agent", NamedCall(name="reviewer"), "Agent(reviewer)"),
        ("WebFetch", WebCall(host="docs.test"), "WebFetch(domain:docs.test)"),
        ("mcp__hub__search", None, "mcp__hub__search"),
    ],
)
def test_a_denial_names_the_narrowest_rule_that_would_allow(
    mode: str, tool: str, subject: Any, rules: str
) -> None:
    """Exactly what was asked for and nothing else; what needs no rule is not in it."""
    if isinstance(subject, str):
        is_command = tool == "Bash"
        subject = shell(*subject.split(" && ")) if is_command else file(subject, subject)
    refused = decide(spec(permission_mode=mode), tool, "other", subject)
    said = f"no rule allows it in mode {mode}; `allowed_tools: [{rules}]` in the spec would"
    assert refused.reason == said
    ruled = spec(permission_mode=mode, allowed_tools=tuple(rules.split(", ")))
    assert decide(ruled, tool, "other", subject).allowed


@pytest.mark.parametrize(
    ("tool", "subject"),
    [
        ("Bash", ShellCall(script=unparsed("no parser"))),
        ("Bash", ShellCall(script=Script(commands=(Command(words=(("a",), (None,))),)))),
        ("Bash", ShellCall(script=Script(commands=(Command(words=(("ls",), ("*",))),)))),
        ("Bash", ShellCall(script=Script(commands=(Command(words=(("ls",), ("a;b",))),)))),
        ("Bash", ShellCall(script=Script(commands=(Command(words=(("x" * 400,),)),)))),
        ("Bash", ShellCall(script=Script(commands=(Command(words=(("timeout:5",),)),)))),
        ("Bash", ShellCall(script=Script())),
        ("Write", "/w/a[b].py"),
        ("Write", "/w/a\nb"),
        ("Skill", NamedCall(name="a*")),
    ],
)
def test_where_no_rule_means_just_that_none_is_named(tool: str, subject: Any) -> None:
    """Never a wider one, and never one that could not be read."""
    if isinstance(subject, str):
        subject = file(subject, subject)
    refused = decide(spec(permission_mode="dontAsk"), tool, "other", subject)
    assert refused.reason == "no rule allows it in mode dontAsk; no rule names just this"


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@hypothesis.given(argv=st.lists(WORDS, min_size=1, max_size=3))
def test_a_rule_that_a_denial_names_can_be_read_and_is_no_wider(argv: list[str]) -> None:
    """Whatever was asked for: it stands in YAML, allows that, and not the same with a word more."""
    script = Script(commands=(Command(words=tuple((word,) for word in argv)),))
    reason = decide(spec(), "Bash", "shell", ShellCall(script=script)).reason
    found = re.search(r"`(allowed_tools: \[.*\])` in the spec would", reason, re.DOTALL)
    if found is None:
        assert reason.endswith("no rule names just this")
        return
    (text,) = yaml.safe_load(found[1])["allowed_tools"]
    ruled = spec(allowed_tools=(text,))
    assert decide(ruled, "Bash", "shell", ShellCall(script=script)).allowed
    longer = Script(commands=(Command(words=tuple((word,) for word in [*argv, "x"])),))
    assert not decide(ruled, "Bash", "shell", ShellCall(script=longer)).allowed


def test_a_denial_without_a_rule_says_what_would_allow_it() -> None:
    """The reason holds the line for the spec when no rule allows a call."""
    assert decide(spec(), "Bash", "shell") == Verdict(
        kind=NO_RULE,
        reason="no rule allows it in mode default; `allowed_tools: [Bash]` in the spec would",
    )


def test_the_rule_stands_in_the_decision_when_it_denied() -> None:
    """`rules` names it by the kind of the request, and only then."""
    denied = decide(spec(disallowed_tools=("Bash",)), "Bash", "shell")
    assert denied.to_wire({"kind": "shell"}) == {
        "kind": "denied-by-rules",
        "rules": [{"kind": "shell", "argument": "Bash"}],
    }
    assert decide(spec(), "Bash", "shell").to_wire({"kind": "shell"}) == {"kind": NO_RULE}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, ("Read", "Edit", "Bash")),
        ({"tools": ("Bash", "Read")}, ("Read", "Bash")),
        ({"tools": ()}, ()),
        ({"disallowed_tools": ("Bash",)}, ("Read", "Edit")),
        ({"tools": ("Bash", "Read"), "disallowed_tools": ("Bash",)}, ("Read",)),
    ],
)
def test_the_model_is_shown_what_the_spec_leaves(
    changes: dict[str, object], shown: tuple[str, ...]
) -> None:
    """`tools` restricts and a bare denial removes, and the order stays."""
    assert offered(spec(**changes), ("Read", "Edit", "Bash")) == shown


PLACES = Places(workspace="/w", home="/home/u")
FREE = frozenset(("cat", "x", "npm", "cd", "."))


def shell(*commands: str, free: frozenset[str] = FREE) -> ShellCall:
    words = [tuple((word,) for word in command.split()) for command in commands]
    return ShellCall(script=Script(commands=tuple(Command(words=w) for w in words)), free=free)


def file(*paths: str, searches: bool = False) -> FileCall:
    return FileCall(paths=paths, places=PLACES, searches=searches)


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "dontAsk"])
def test_a_command_that_only_reads_needs_no_rule(mode: str) -> None:
    """It runs in every mode, for files inside; outside, changing places or writing it does not."""
    given = spec(permission_mode=mode)
    assert decide(given, "Bash", "shell", shell("cat x", "cat -n x")).allowed
    for command in ("cat /etc/passwd", "cat --number x", "cat -n/etc", "npm x"):
        assert not decide(given, "Bash", "shell", shell(command)).allowed, command
    assert not decide(given, "Bash", "shell", shell("cat x", free=frozenset())).allowed
    moved = spec(permission_mode=mode, allowed_tools=("Bash(cd *)",))
    assert not decide(moved, "Bash", "shell", shell("cd .", "cat x")).allowed


@pytest.mark.parametrize(
    "command", ["find x -follow", "find -L x", "ls -L x", "du -aL x", "tail -f x"]
)
def test_a_command_that_follows_links_or_never_ends_needs_a_rule(command: str) -> None:
    """It shows what lies outside, or takes the time of the run."""
    program = command.split()[0]
    free = frozenset((program, "x"))
    assert decide(spec(), "Bash", "shell", shell(f"{program} x", free=free)).allowed
    assert not decide(spec(), "Bash", "shell", shell(command, free=free)).allowed


def test_a_rule_about_reading_ends_what_commands_may_read_freely() -> None:
    """`cat` must not show what Read may not."""
    for rules in ({"disallowed_tools": ("Read(x)",)}, {"ask_tools": ("Read",)}):
        assert not decide(spec(**rules), "Bash", "shell", shell("cat x")).allowed
        more = spec(**rules, allowed_tools=("Bash(npm *)",))
        assert not decide(more, "Bash", "shell", shell("cat x")).allowed


def test_a_rule_for_a_command_allows_it_and_no_other() -> None:
    """The reason of a denial names what is allowed."""
    given = spec(allowed_tools=("Bash(npm *)",))
    assert decide(given, "Bash", "shell", shell("npm x")).allowed
    refused = decide(given, "Bash", "shell", shell("npm x", "curl y"))
    assert refused == Verdict(
        kind=NO_RULE, reason="no rule allows `curl y`; allowed is `Bash(npm *)`"
    )


def test_mode_plan_allows_no_change_by_any_rule() -> None:
    """Rules do not count against it."""
    given = spec(permission_mode="plan", allowed_tools=("Edit", "Bash"))
    assert not decide(given, "Edit", "write", file("/w/a", "/w/a")).allowed
    assert not decide(given, "Bash", "shell", shell("npm x")).allowed


def test_mode_dont_ask_allows_only_what_a_rule_does() -> None:
    """Reading needs a rule too, and a question is never allowed."""
    given = spec(permission_mode="dontAsk", allowed_tools=("Read", "AskUserQuestion"))
    assert decide(given, "Read", "read").allowed
    assert not decide(given, "AskUserQuestion", "custom-tool").allowed


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_what_a_person_would_be_asked_is_denied(mode: str) -> None:
    """An ask rule denies in every mode, and says why."""
    given = spec(permission_mode=mode, allowed_tools=("Bash",), ask_tools=("Bash(npm *)", "Edit"))
    assert decide(given, "Bash", "shell", shell("cat x")).allowed
    refused = decide(given, "Bash", "shell", shell("npm x"))
    assert refused.rule == "Bash(npm *)"
    assert refused.reason == (
        "rule `Bash(npm *)` wants a person to be asked, and nobody is there: it denies `npm x`"
    )
    assert decide(given, "Edit", "write").kind == "denied-by-rules"


@pytest.mark.parametrize("mode", get_args(PermissionMode))
def test_what_a_rule_wants_asked_can_be_asked_and_nothing_that_is_denied(
    mode: PermissionMode,
) -> None:
    """A host may lift that denial, not in plan and dontAsk; nor one by a rule, nor a removal."""
    given = spec(
        permission_mode=mode,
        ask_tools=("Bash", "Read(secret)", "WebFetch"),
        disallowed_tools=("Bash(npm *)", "Read(key)"),
    )
    here = Places(workspace="/w", home="/h")
    may_be_asked = mode not in ("plan", "dontAsk")
    asks = [
        decide(given, "Bash", "shell", shell("make")),
        decide(given, "Edit", "write", FileCall(paths=("/w/secret",), places=here)),
    ]
    denied = [
        decide(given, "Bash", "shell", shell("npm x")),
        decide(given, "Edit", "write", FileCall(paths=("/w/key",), places=here)),
        decide(given, "Bash", "shell", replace(shell("rm /"), removes="it removes `/`")),
    ]
    assert [(verdict.allowed, verdict.asks) for verdict in asks] == [(False, may_be_asked)] * 2
    assert [(verdict.allowed, verdict.asks) for verdict in denied] == [(False, False)] * 3


def test_a_path_rule_allows_where_the_path_and_its_target_lie() -> None:
    """A link out of the allowed folder is not allowed, nor a name that had to be escaped."""
    given = spec(allowed_tools=("Edit(src/**)",))
    assert decide(given, "Write", "write", file("/w/src/a", "/w/src/a")).rule == "Edit(src/**)"
    for paths in (("/w/src/a", "/w/b"), ("/w/b", "/w/src/a"), ("/w/src/\\n", "/w/src/a")):
        refused = decide(given, "Edit", "write", file(*paths))
        assert refused.reason == f"no rule covers {paths[0]}; allowed is `Edit(src/**)`"


def test_a_path_rule_denies_where_the_path_or_its_target_lies() -> None:
    """What must not be read must not be changed either."""
    given = spec(permission_mode="bypassPermissions", disallowed_tools=("Read(.env)", "Edit(src/)"))
    for paths in (("/w/.env", "/w/.env"), ("/w/link", "/w/.env"), ("/w/\\n", "/w/a")):
        assert not decide(given, "Read", "read", file(*paths)).allowed
        assert not decide(given, "Write", "write", file(*paths)).allowed
    assert not decide(given, "Edit", "write", file("/w/src/a", "/w/src/a")).allowed
    assert decide(given, "Edit", "write", file("/w/a", "/w/a")).allowed
    assert decide(given, "Read", "read", file("/w/src/a", "/w/src/a")).allowed
    assert not decide(given, "Grep", "read", file("/w/a", "/w/a", searches=True)).allowed
    assert decide(given, "Glob", "read", file("/w/a", "/w/a")).allowed


def test_a_rule_that_cannot_be_compared_denies() -> None:
    """Nothing slips past a deny rule because it is not understood."""
    given = spec(allowed_tools=("Bash",), disallowed_tools=("Bash(curl *)",))
    assert not decide(given, "Bash", "shell").allowed
    assert not decide(given, "Bash", "shell", ShellCall(script=unparsed("no parser"))).allowed
    only = spec(allowed_tools=("Bash(npm *)",))
    assert not decide(only, "Bash", "shell", ShellCall(script=unparsed("no parser"))).allowed


@pytest.mark.parametrize(
    ("changes", "tools"),
    [
        ({}, {"Bash", "Edit"}),
        ({"allowed_tools": ("Edit",)}, {"Bash"}),
        ({"allowed_tools": ("Bash", "Edit(x)")}, {"Bash", "Edit", "Read"}),
        ({"allowed_tools": ("Edit",), "ask_tools": ("Bash(x)",)}, {"Bash", "Edit", "Read"}),
        ({"permission_mode": "bypassPermissions"}, {"Bash"}),
        ({"disallowed_tools": ("Read(x)",)}, {"Bash", "Edit", "Read"}),
    ],
)
def test_a_call_is_looked_into_only_when_the_verdict_depends_on_it(
    changes: dict[str, object], tools: set[str]
) -> None:
    """A command always is; a file where rules or sensitive paths may be about it."""
    asked = {tool for tool in ("Bash", "Edit", "Read") if looks_inside(spec(**changes), tool)}
    assert asked == tools


def test_mode_accept_edits_lets_some_commands_change_files() -> None:
    """Only by known options, only where all of their words may be changed, and with what reads."""
    given = spec(permission_mode="acceptEdits")
    edits = frozenset(("x", "y", "d", "d/", "d/x", "x/x", "y/x", "-t", "x.bak", "y.bak"))

    def may(command: str, where: TaskSpec = given) -> bool:
        asked = replace(shell(*command.split(" && ")), edits=edits)
        return decide(where, "Bash", "shell", asked).allowed

    for command in (
        "mkdir -p d",
        "touch x y",
        "rm -rf x",
        "rmdir d",
        "mv x y",
        "mv x d/",
        "cp -r x d",
        "sed -i s/a/b/ x",
        "sed -nEi.bak s/a/b/gp x y",
        "cat x && rm x",
    ):
        assert may(command), command
        assert not may(command, spec()), command
        for rule in ("Edit(/z)", "Write", "Read(/z)"):
            assert not may(command, replace(given, ask_tools=(rule,))), (rule, command)
    for command in (
        "rm",
        "rm -rf z",
        "rm --no-preserve-root x",
        "mv -t d x",
        "mv x z",
        "cp y d",
        "mkdir -m 777 d",
        "sed -i",
        "sed -i.json s/a/b/ x",
        "sed -i s/a/b/w x",
        "sed -i s/a/id/e x",
        "sed -f x y",
        "ln x y",
        "chmod x y",
        "cd d && rm x",
        "rm x && npm x",
    ):
        assert not may(command), command


SENSITIVE = ["/w/.git/config", "/w/a/.husky/pre-commit", "/w/.BASHRC", "/home/u/.mcp.json"]


@pytest.mark.parametrize("path", SENSITIVE)
def test_no_mode_lets_a_sensitive_path_be_changed_but_a_rule_does(path: str) -> None:
    """Nor what leads there. The reason says which rule would; reading needs none."""
    given = spec(permission_mode="acceptEdits")
    for paths in ((path, path), ("/w/link", path)):
        refused = decide(given, "Write", "write", file(*paths))
        assert refused.kind == NO_RULE
        assert f"in {paths[0]} steers other programs; " in refused.reason
        assert refused.reason.endswith(
            "no rule names just this" if paths[0] == "/w/link" else "` in the spec would"
        )
        assert decide(given, "Read", "read", file(*paths)).allowed
        ruled = replace(given, allowed_tools=("Edit",))
        assert decide(ruled, "Edit", "write", file(*paths)).allowed
        free = spec(permission_mode="bypassPermissions")
        assert decide(free, "Write", "write", file(*paths)).allowed
    assert decide(given, "Write", "write", file("/w/git/x", "/w/git/x")).allowed


def test_the_folders_a_workspace_lies_in_are_not_sensitive() -> None:
    """Only what is below it counts, and whole paths elsewhere."""
    assert sensitive_part("/h/.claude/w/x", "/h/.claude/w") is None
    assert sensitive_part("/h/.claude/w/.git", "/h/.claude/w") == ".git"
    assert sensitive_part("/h/.claude/w2/x", "/h/.claude/w") == ".claude"


def test_words_of_a_command_are_those_known_and_where_things_would_land() -> None:
    """A `mv` into a folder makes a name nobody wrote, and so does what `sed` keeps."""
    script = Script(
        commands=(
            Command(words=(("mv",), ("-f",), ("a/b/",), ("c",), ("d/",))),
            Command(words=(("rm",), (None,))),
            Command(words=(("cp",), ("a",))),
            Command(words=(("sed",), ("-i.b",), ("p",), ("a",))),
        )
    )
    moved = ["mv", "-f", "a/b/", "c", "d/", "d/b", "d/c", "cp", "a"]
    assert list(words_of(script)) == [*moved, "sed", "-i.b", "p", "a", "p.b", "a.b"]


def test_mode_auto_leaves_open_what_no_rule_decides() -> None:
    """Not what a rule denies, nor what steers other programs; what is harmless just runs."""
    given = spec(
        permission_mode="auto", allowed_tools=("Edit(src/**)",), ask_tools=("Bash(npm *)",)
    )
    assert decide(given, "Bash", "shell", shell("cat x")).allowed
    assert decide(given, "Write", "write", file("/w/src/a", "/w/src/a")).allowed
    assert decide(given, "Write", "write", file("/w/a", "/w/a")).open
    assert decide(given, "Bash", "shell", shell("curl y")).open
    assert not decide(given, "Bash", "shell", shell("npm x")).open
    assert not decide(given, "Edit", "write", file("/w/.git/x", "/w/.git/x")).open
    steering = replace(shell("tee .bashrc"), sensitive=frozenset((".bashrc",)))
    refused = decide(given, "Bash", "shell", steering)
    assert not refused.open
    assert refused.reason.endswith("; `.bashrc` steers other programs, so no mode allows it")
    elsewhere = replace(shell("curl y"), writes="it writes to `/x`, which may not be written")
    refused = decide(given, "Bash", "shell", elsewhere)
    assert not refused.open
    assert refused.reason.endswith(
        "; it writes to `/x`, which may not be written: no mode allows that"
    )
    assert not decide(spec(), "Bash", "shell", shell("curl y")).open


@pytest.mark.parametrize("mode", get_args(PermissionMode))
def test_a_critical_removal_is_denied_whatever_allows_it(mode: str) -> None:
    """No mode and no rule, and so no hook either."""
    given = spec(permission_mode=mode, allowed_tools=("Bash", "Bash(rm *)"))
    asked = replace(shell("rm /"), removes="it removes `/`")
    denied = decide(given, "Bash", "shell", asked)
    assert denied == Verdict(
        kind="denied-by-rules",
        reason="it removes `/`, which no mode and no rule allows; name exactly what is to be "
        "removed",
        rule="critical_removal",
    )


def test_a_rule_about_a_parameter_denies_in_every_mode() -> None:
    """The reason names the parameter; another value is none of its business."""
    given = spec(permission_mode="bypassPermissions", disallowed_tools=("Bash(timeout:5)",))
    denied = decide(given, "Bash", "shell", shell("npm x"), {"command": "npm x", "timeout": 5})
    assert denied == Verdict(
        kind="denied-by-rules",
        reason="rule `Bash(timeout:5)` denies it, because of its `timeout`",
        rule="Bash(timeout:5)",
    )
    assert decide(given, "Bash", "shell", shell("npm x"), {"command": "npm x"}).allowed


@pytest.mark.parametrize(
    ("tool", "kind", "rule", "meant", "other"),
    [
        ("WebFetch", "url", "WebFetch(domain:a.test)", WebCall(host="a.test"), WebCall(host="b")),
        ("Agent", "custom-tool", "Agent(tester)", NamedCall(name="tester"), NamedCall(name="x")),
        ("Skill", "custom-tool", "Skill(pdf*)", NamedCall(name="pdf-x"), NamedCall(name="x")),
    ],
)
def test_hosts_sub_agents_and_skills_have_rules(
    tool: str, kind: str, rule: str, meant: WebCall | NamedCall, other: WebCall | NamedCall
) -> None:
    """Such a rule denies what it names, and in mode dontAsk allows exactly that."""
    denying = spec(permission_mode="bypassPermissions", disallowed_tools=(rule,))
    assert not decide(denying, tool, kind, meant).allowed
    assert decide(denying, tool, kind, other).allowed
    allowing = spec(permission_mode="dontAsk", allowed_tools=(rule,))
    assert decide(allowing, tool, kind, meant).rule == rule
    assert not decide(allowing, tool, kind, other).allowed


def test_a_star_takes_every_tool_away() -> None:
    """A whole-tool rule with `*` removes what it covers from what the model is shown."""
    assert offered(spec(disallowed_tools=("*",)), ("Read", "Bash")) == ()

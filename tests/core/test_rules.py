"""What a rule says, and what it matches."""

from __future__ import annotations

import pytest

from runner.core.path_patterns import Places, covers, reaches_below
from runner.core.rule_advice import advice
from runner.core.rules import (
    RuleError,
    has_value,
    is_exact,
    matches,
    may_allow,
    names,
    parse,
)
from runner.core.spec import AgentSpec, TaskSpec

PLACES = Places(workspace="/w", home="/home/u")


@pytest.mark.parametrize(
    ("text", "specifier"),
    [
        ("Bash", None),
        ("Bash(*)", None),
        ("Bash(:*)", None),
        ("Bash(npm *)", "npm *"),
        ("Read(a(b).txt)", "a(b).txt"),
        ("Edit(//etc/**)", "//etc/**"),
    ],
)
def test_a_rule_is_a_tool_and_what_is_meant_of_it(text: str, specifier: str | None) -> None:
    """Without a specifier, or with `*` for Bash, the whole tool is meant."""
    rule = parse(text)
    assert (rule.text, rule.tool, rule.specifier) == (text, text.partition("(")[0], specifier)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a rule is"),
        ("Bash(npm", "a rule is"),
        ("Bash npm", "a rule is"),
        ("Bash()", "nothing stands between"),
        ("Bash( )", "nothing stands between"),
        ("Bash(npm\u200b *)", "cannot be seen"),
        ("Bash(npm && curl)", "one command"),
        ("Bash(npm 'x)", "quotes"),
        ("Read(!x)", "take back"),
        ("Read(../x)", "never matches"),
        ("Grep(x)", "takes no such specifier"),
        ("Grep(:x)", "takes no such specifier"),
        ("WebFetch(example.com)", "write WebFetch"),
        ("WebFetch(domain:a b)", "write WebFetch"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, why: str) -> None:
    """The reason is in the error."""
    with pytest.raises(RuleError, match=why):
        parse(text)


@pytest.mark.parametrize(
    ("rule", "tools"),
    [
        ("Edit", {"Edit"}),
        ("Edit(x)", {"Edit", "Write"}),
        ("Write(x)", {"Write"}),
        ("Read", {"Read"}),
        ("Read(x)", {"Read", "Grep", "Glob"}),
        ("Bash(x)", {"Bash"}),
    ],
)
def test_a_path_rule_is_about_every_tool_that_reads_or_writes(rule: str, tools: set[str]) -> None:
    """`Edit(path)` means every writing tool, `Read(path)` every reading one."""
    known = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")
    assert {tool for tool in known if names(parse(rule), tool)} == tools


@pytest.mark.parametrize(
    ("specifier", "fits", "fits_not"),
    [
        ("npm run build", ["npm run build"], ["npm run", "npm run build x", "npm runbuild"]),
        ("npm *", ["npm", "npm x", "npm x y"], ["npmx", "xnpm", "np"]),
        ("npm:*", ["npm", "npm x"], ["npmx"]),
        ("ls*", ["ls", "lsof", "ls -l"], ["l"]),
        ("git * main", ["git push main", "git a b main"], ["git main", "git push mainx"]),
        ("* install", ["npm install", "x y install"], ["install", "npm installs"]),
        ("a**b", ["ab", "axb"], ["a"]),
        ("git commit -m 'x y'", [], ["git commit -m x y"]),
    ],
)
def test_a_command_rule_matches_words(specifier: str, fits: list[str], fits_not: list[str]) -> None:
    """Blanks of the pattern are borders of words, and `*` is anything."""
    rule = parse(f"Bash({specifier})")
    assert is_exact(rule) == ("*" not in specifier)
    for text in fits:
        assert matches(rule, [(word,) for word in text.split()]), text
    for text in fits_not:
        assert not matches(rule, [(word,) for word in text.split()]), text


def test_a_quoted_word_of_a_rule_is_one_word() -> None:
    """The border between words is not a blank inside of one."""
    rule = parse("Bash(git commit -m 'x y')")
    assert matches(rule, [("git",), ("commit",), ("-m",), ("x y",)])
    assert not matches(parse("Bash(npm test)"), [("npm test",)])


def test_a_word_that_is_not_known_might_be_anything() -> None:
    """What the shell will put there may make the rule fit."""
    assert matches(parse("Bash(git push *)"), [("git",), (None,)])
    assert matches(parse("Bash(curl x)"), [("c", None), ("x",)])
    assert not matches(parse("Bash(curl *)"), [("git",), (None,)])


@pytest.mark.parametrize(
    ("specifier", "path", "narrowly", "widely"),
    [
        ("src/**", "/w/src/a/b", True, True),
        ("src/**", "/w/x/src/a", False, False),
        ("./src", "/w/src/a", True, True),
        ("/src", "/w/src", True, True),
        ("src/*.py", "/w/src/a.py", True, True),
        ("src/*.py", "/w/src/a.txt", False, False),
        ("src/**/a", "/w/src/a", True, True),
        (".env", "/w/a/.env", True, True),
        (".env", "/elsewhere/.env", False, True),
        ("secrets/", "/w/a/secrets/x", False, True),
        ("secrets/", "/w/secrets/x", True, True),
        ("//etc/hosts", "/etc/hosts", True, True),
        ("//", "/anything", True, True),
        ("~/x", "/home/u/x/y", True, True),
        ("~/x", "/w/x", False, False),
        ("./", "/w/x", True, True),
        ("src/a", "/", False, False),
    ],
)
def test_a_path_rule_matches_as_gitignore_does(
    specifier: str, path: str, narrowly: bool, widely: bool
) -> None:
    """A bare folder name counts at every depth only for rules that deny."""
    rule = parse(f"Read({specifier})")
    found = [covers(rule.specifier or "", path, PLACES, widely=wide) for wide in (False, True)]
    assert found == [narrowly, widely]


@pytest.mark.parametrize(
    ("specifier", "folder", "reaches"),
    [
        ("src/a/b", "/w/src", True),
        ("src/a/b", "/w/docs", False),
        ("src/a/b", "/w/src/a/c", False),
        ("src/a", "/w/src/a/deeper", True),
        (".env", "/w/docs", True),
        ("//etc/x", "/w", False),
        ("src/a", "/", True),
    ],
)
def test_a_search_is_stopped_where_it_may_come_to_what_is_denied(
    specifier: str, folder: str, reaches: bool
) -> None:
    """The folder is refused when the rule may mean a file beneath it."""
    assert reaches_below(specifier, folder, PLACES) == reaches


def test_rules_that_surprise_are_named() -> None:
    """What is wider than it looks and what never matches gets a line; the rest gets none."""
    spec = TaskSpec(
        name="n",
        prompt="p",
        model="m",
        allowed_tools=(
            *("Bash(python *)", "Bash(*sh *)", "Bash(env *)", "Bash(ls *)", "Bash(npm test)"),
            *("Edit(src/**)", "Read", "Read(x)", "Write"),
        ),
        disallowed_tools=("Write",),
    )
    assert advice(spec) == (
        "`Bash(python *)` is wider than it looks: `python` can run any code",
        "`Bash(*sh *)` is wider than it looks: it covers programs of any name that fits",
        "`Bash(env *)` never matches: `env` runs or evaluates its arguments, so no * may stand "
        "there",
        "`Write` never matches: Write is denied as a whole",
        "`Read(x)` adds nothing: Read is allowed as a whole",
    )


def test_it_is_said_that_a_path_rule_binds_no_command() -> None:
    """Where every command may run, what Read may not show is not out of reach."""
    given = TaskSpec(
        name="n", prompt="p", model="m", allowed_tools=("Bash",), disallowed_tools=("Read(x)",)
    )
    said = "`Read(x)` does not bind the commands of `Bash`, which may all run"
    assert advice(given) == (said,)


@pytest.mark.parametrize(
    ("text", "tool", "named"),
    [
        ("*", "Bash", True),
        ("mcp__*", "mcp__git__log", True),
        ("mcp__*", "Bash", False),
        ("mcp__git", "mcp__git__log", True),
        ("mcp__git", "mcp__github__log", False),
        ("mcp__git__*", "mcp__git__log", True),
        ("mcp__git__log", "mcp__git__log", True),
        ("mcp__git__log", "mcp__git__push", False),
        ("mcp__git__log", "mcp__git__log__all", False),
        ("mcp__git", "mcp__git__log__all", True),
        ("mcp__git(branch:main)", "mcp__git__push", True),
        ("Edit(old_string:x)", "Write", False),
        ("Edit", "Write", False),
    ],
)
def test_a_rule_names_a_tool_a_server_or_what_its_stars_cover(
    text: str, tool: str, named: bool
) -> None:
    """`mcp__server` is every tool of the server, and no other server's."""
    assert names(parse(text), tool) == named


@pytest.mark.parametrize(
    ("text", "arguments", "hit"),
    [
        ("Bash(timeout:5)", {"timeout": 5}, True),
        ("Bash(timeout:5)", {"timeout": 50}, False),
        ("Bash(timeout:5)", {"command": "x"}, False),
        ("Agent(model:opus*)", {"model": "opus-4"}, True),
        ("Grep(pattern:*[a]?*)", {"pattern": "x[a]?y"}, True),
        ("Grep(pattern:*[a]?*)", {"pattern": "xaby"}, False),
        ("mcp__x__y(deep:true)", {"deep": True}, True),
        ("mcp__x__y(deep:true)", {"deep": "true"}, True),
        ("mcp__x__y(list:[1, 2])", {"list": [1, 2]}, True),
        ("pay(amount:100)", {"amount": 100.0}, True),
        ("pay(amount:100)", {"amount": 100.5}, False),
        ("pay(amount:0)", {"amount": -0.0}, True),
        ("pay(of:*é*2]*)", {"of": {"é": (1.5, 2.0)}}, True),
        ("Bash(npm:*)", {"npm": "x"}, False),
    ],
)
def test_a_rule_about_a_parameter_compares_its_value(
    text: str, arguments: dict[str, object], hit: bool
) -> None:
    """Literally but for `*`; numbers, booleans and lists as JSON writes them, a whole number always
    without a point."""
    assert has_value(parse(text), arguments) == hit


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Bash(timeout:5)", "can only deny or ask"),
        ("*", "in the name of a tool"),
        ("mcp__*", "in the name of a tool"),
        ("mcp__git__*", None),
        ("Agent(name)", None),
    ],
)
def test_some_rules_can_only_deny(text: str, why: str | None) -> None:
    """A value or a `*` over tools says too little to allow a call."""
    said = may_allow(parse(text))
    assert said is None if why is None else why in (said or "")


def test_a_rule_for_an_agent_that_there_is_not_is_told() -> None:
    """A misspelt one denies nothing; one with a wildcard means those it fits."""
    agents = {"reviewer": AgentSpec(description="d", prompt="p")}
    rules = ("Agent(revewer)", "Agent(rev*)", "Agent(general-purpose)", "Agent(zz*)")
    spec = TaskSpec(name="t", prompt="p", model="m", agents=agents, disallowed_tools=rules)
    assert advice(spec) == (
        "`Agent(revewer)` never matches: the agents are general-purpose, reviewer",
        "`Agent(zz*)` never matches: the agents are general-purpose, reviewer",
    )

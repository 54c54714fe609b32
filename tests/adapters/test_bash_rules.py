"""Rules over Bash commands, with the real parser: what hostile command lines may do."""

from __future__ import annotations

import pytest

from runner.adapters.shell_syntax import shell_script
from runner.core.permissions import decide
from runner.core.spec import TaskSpec
from runner.core.subjects import ShellCall
from runner.core.verdicts import Verdict

PROGRAMS = [
    *("npm", "ls", "cat", "echo", "grep", "find", "xargs", "env", "awk", "tar", "rg", "test", "["),
    *("[[", "read", "let", "declare", "printf", "sort"),
]
A = {"allowed_tools": ("Bash(npm *)",)}
B = {"allowed_tools": (*(f"Bash({name} *)" for name in PROGRAMS), "Bash(sed -n *)")}
G = {"allowed_tools": ("Bash(git *)", "Bash(git status)")}
PYTHON = {"allowed_tools": ("Bash(python *)",)}
D = {
    "allowed_tools": ("Bash",),
    "disallowed_tools": ("Bash(curl *)", "Bash(rm *)", "Bash(git push *)"),
}


def verdict(rules: dict[str, tuple[str, ...]], command: str, **changes: object) -> Verdict:
    spec = TaskSpec(name="n", prompt="p", model="m", **rules, **changes)  # type: ignore[arg-type]  # parametrised
    return decide(spec, "Bash", "shell", ShellCall(script=shell_script(command)))


ALLOWED = [
    (A, "npm test"),
    (A, "npm"),
    (A, "npm run 'a && b'"),
    (A, "npm run build\t--prod"),
    (A, "npm test && npm run lint"),
    (A, "npm test || npm run lint; npm x | npm y\nnpm z"),
    (A, "npm test >/dev/null 2>&1"),
    (A, 'npm run "\\$(curl x)"'),
    (A, "npm x <<'EOF'\n$(curl x)\nEOF"),
    (A, "npm x <<< 'text'"),
    (A, "NODE_ENV=test npm test"),
    (A, "timeout 30 npm test"),
    (A, "timeout -k 5 30 npm test"),
    (A, "nohup npm test"),
    (A, "time npm test"),
    (A, "nice -n 5 timeout 3s npm test"),
    (A, "n'p'm test"),
    (A, "npm --prefix /elsewhere test"),
    (A, "npm test # && curl x"),
    (B, "sed -n 1,3p f"),
    (B, "sed -n 's/a/b/gp' f"),
    (B, "awk '{print $1}' f"),
    (B, "find . -name x"),
    (G, "git status"),
    (G, "git log --oneline -3"),
    (D, "ls"),
    (D, "echo $HOME"),
    (D, "for i in a b; do echo $i; done"),
    (D, "if [ -f x ]; then ls; fi"),
    (D, 'git commit -m "mention curl and rm"'),
    (D, "git status"),
    (D, "cat <<'EOF'\nkill curl rm\nEOF"),
    (D, "python x.py > out"),
    (D, "X=1"),
    (D, "bash x.sh"),
    (A, 'npm "a\\b"'),
]

DENIED = [
    (A, "npm-evil"),
    (A, "npm test || curl x"),
    (A, "npm test & curl x"),
    (A, "npm test |& curl x"),
    (A, "npm test \\\n&& curl x"),
    (A, "npm test\ncurl x"),
    (A, "npm test;;curl x"),
    (A, "{ npm test; curl x; }"),
    (A, "npm run $(curl x)"),
    (A, 'npm run "$(curl x)"'),
    (A, "npm run `curl x`"),
    (A, "npm run > >(curl x)"),
    (A, "npm run ${X:=`curl x`}"),
    (A, 'npm run "${P@P}"'),
    (A, "npm run $HOME"),
    (A, "npm x <<EOF\n$(curl x)\nEOF"),
    (A, "npm x <<'E\nOF'\nhi\nE\ncurl x"),
    (A, 'npm x <<< "$(curl x)"'),
    (A, "npm test > /etc/cron.d/x"),
    (A, "npm test >| .git/hooks/pre-commit"),
    (A, "npm x 3<>/dev/tcp/127.0.0.1/9"),
    (A, "PATH=.:$PATH npm test"),
    (A, "npm_config_script_shell=./e npm test"),
    (A, "X=1"),
    (A, "BASH_ENV=./e npm test"),
    (A, "npm() { curl x; }; npm test"),
    (A, "alias npm=curl\nnpm x"),
    (A, "hash -p /usr/bin/id npm; npm x"),
    (A, "for i in 1; do npm test; curl x; done"),
    (A, "case x in x) curl x;; esac"),
    (A, "coproc curl x"),
    (A, ". ./e.sh"),
    (A, "env npm test"),
    (A, "sudo npm test"),
    (A, 'bash -c "npm test"'),
    (A, 'sh -ec "npm test"'),
    (A, 'busybox sh -c "curl x"'),
    (A, "./npm test"),
    (A, "$N test"),
    (A, "/usr/bin/n?m test"),
    (A, "npm\u00a0test"),
    (A, "npm test\u2028curl x"),
    (A, "npm test\x00; curl x"),
    (A, "npm\u200b test"),
    (A, "npm test &"),
    (A, "npm run *"),
    (A, "npm run {a,b}"),
    (A, "npm run ~/x"),
    (A, "npm run $'a\nb'"),
    (A, "npm test 2>f"),
    (A, "npm test </etc/passwd"),
    (A, "'npm test'"),
    (A, "timeout --help npm test"),
    (A, "timeout npm test"),
    (A, "echo x | xargs npm"),
    (A, "npm test " + "x" * 10_000),
    (A, "cat x"),
    (A, ""),
    (B, "find . -name x -exec curl x \\;"),
    (B, "find . -delete"),
    (B, "find *"),
    (B, "ls | xargs rm"),
    (B, "env curl x"),
    (B, "sed -n 'w /etc/x' f"),
    (B, "sed -n 's/a/b/e' f"),
    (B, "sed -n -i p f"),
    (B, "sort -o .bashrc f"),
    (B, "sort --outp=.bashrc f"),
    (B, "echo x > f"),
    (B, "tar cf x --checkpoint-act=exec=./e y"),
    (B, "tar xIf ./e x"),
    (B, "rg --pre ./e x"),
    (B, "[ -v 'a[$(curl x)]' ]"),
    (B, "read 'a[$(curl x)]' <<< y"),
    (B, "declare 'a[$(curl x)]=1'"),
    (B, "printf -v 'a[$(curl x)]' y"),
    (B, "awk 'BEGIN{system(\"curl x\")}'"),
    (B, "awk -f x"),
    (G, "git -c core.fsmonitor=./e status"),
    (G, "git diff --ext-diff"),
    (G, "git diff --ext"),
    (G, "git --git-dir=/tmp/e status"),
    (G, "cd sub && git status"),
    (G, "GIT_SSH_COMMAND='curl x' git fetch ssh://h/r"),
    (G, "git ls-remote --upload-pack=./e ."),
    (G, "git --exec-path=./d foo"),
    (D, "/usr/bin/curl x"),
    (D, "c''url x"),
    (D, "env -i curl x"),
    (D, "timeout 5 curl x"),
    (D, "echo x | xargs -n1 curl"),
    (D, "$(echo curl) x"),
    (D, 'eval "cu""rl x"'),
    (D, "git -C . push"),
    (D, "git $X"),
    (D, "/usr/bin/git -C . push"),
    (D, "true && { curl x; }"),
    (D, " && ".join(["true"] * 60 + ["curl x"])),
    (D, "echo $(curl x)"),
    (D, "find . -exec curl x \\;"),
    (D, "env bash -c 'curl x'"),
    (D, "exec curl x"),
    (D, "[ -v 'a[$(curl x)]' ]"),
    (D, 'f() { "$@"; }; f curl x'),
    (D, "X=1 curl x"),
    (D, "curl $X"),
    (D, "rm"),
    (D, "timeout 5 $X"),
    (PYTHON, "python -c x"),
    (A, "npm x {fd}>&1"),
    (D, "case x in x) curl x;; esac"),
    (D, "cat <<EOF\n$(curl x)\nEOF"),
    (D, "echo ${X:-$(curl x)}"),
    (D, "if"),
]


@pytest.mark.parametrize(("rules", "command"), ALLOWED, ids=[repr(c)[:40] for _, c in ALLOWED])
def test_a_command_is_allowed_when_rules_cover_every_part(
    rules: dict[str, tuple[str, ...]], command: str
) -> None:
    """What the rules mean may run, however it is quoted."""
    decided = verdict(rules, command)
    assert decided.allowed, decided.reason


@pytest.mark.parametrize(("rules", "command"), DENIED, ids=[repr(c)[:40] for _, c in DENIED])
def test_a_command_is_denied_when_any_part_is_not_covered(
    rules: dict[str, tuple[str, ...]], command: str
) -> None:
    """Nothing hides behind an operator, a quote, a wrapper or an option."""
    decided = verdict(rules, command)
    assert not decided.allowed, decided.reason

"""Removals that nobody means, found in command lines as Bash reads them."""

from __future__ import annotations

import pytest

from runner.adapters.shell_syntax import shell_script
from runner.core.bash_rules import texts_run
from runner.core.removals import Standing, critical_removal
from runner.core.shell import Command, Script

STANDING = Standing(cwd="/home/u/code/app/src", workspace="/home/u/code/app", home="/home/u")

CRITICAL = [
    "rm -rf /",
    "rm -rf -- /",
    "rm -r -f /*",
    "rm -rf //",
    "rm -rf /etc /tmp/x",
    "rm -rf /etc/*",
    "rm -rf /var/../usr",
    "rm -rf ~",
    "rm -rf ~/",
    "rm -rf ~/*",
    "rm -rf ~root",
    'rm -rf "$HOME"',
    "rm -rf ${HOME}/*",
    "rm -rf /home/u",
    "rm -rf .",
    "rm -rf ./",
    "rm -rf ./*",
    "rm -rf *",
    "rm -rf .*",
    "rm -rf ..",
    "rm -rf ../..",
    'rm -rf "$PWD"',
    "rm -rf /home/u/code/app",
    "rm -rf /home/u/code",
    'rm -rf "$X"/*',
    "rm -rf $X/",
    "rm -rf \"$X\"''/*",
    "rm -rf ${X}/usr",
    "rm -rf $X/$Y",
    "rm -rf $X/../*",
    "rm -rf /$X",
    "rm -rf `pwd`/*",
    "rm -rf $(cat x)/.*",
    "/bin/rm -rf /",
    "r''m -rf /",
    r"\rm -rf /",
    "rm -rf $'/'",
    "timeout 5 rm -rf /",
    "sudo -u root rm -rf /",
    "env A=1 nice -n 5 rm -rf /",
    "true && (cd x; rm -rf /)",
    "for i in a; do rm -rf /; done",
    "cd / && rm -rf etc",
    "cd /; rm -rf *",
    "f() { rm -rf /; }; f",
    "find / -delete",
    "find -L / -type f -delete",
    "find . -mindepth 1 -delete",
    "find -delete",
    "find ~ -exec rm -rf {} +",
    "find /etc -type f -execdir /bin/rm {} ;",
    "bash -c 'rm -rf /'",
    "sudo sh -ec 'rm -rf ~'",
    "eval rm -rf /",
]
HARMLESS = [
    "rm -rf build",
    "rm -rf ./build/*",
    "rm -f *.o",
    "rm -rf ../dist",
    "rm -rf /tmp/x",
    "rm -rf /tmp/$X",
    "rm -rf ~/.cache/x",
    'rm -rf "$X"',
    'rm -rf "$X"/build',
    'rm -rf "$(mktemp -d)"',
    "echo rm -rf /",
    "grep -r 'rm -rf /' .",
    "find . -name '*.pyc' -delete",
    "find / -name core",
    "find build -delete",
    "find . -name x -exec rm {} +",
    "find . -exec grep rm {} +",
    "git rm -r x",
    "cd build",
    'cd "$X" && rm -rf build',
    "cd",
    "bash x.sh",
    "rm",
    "a=1",
]


def found(command: str) -> str | None:
    script = shell_script(command)
    texts = [text for one in script.commands for text in texts_run(one.argv or ())]
    every = (critical_removal(one, STANDING) for one in (script, *map(shell_script, texts)))
    return next((what for what in every if what), None)


@pytest.mark.parametrize("command", CRITICAL)
def test_a_critical_removal_is_seen_through_whatever_surrounds_it(command: str) -> None:
    """Quotes, wrappers, variables that may be empty, loops and other shells do not hide it."""
    assert found(command) is not None


@pytest.mark.parametrize("command", HARMLESS)
def test_an_ordinary_removal_is_none_of_them(command: str) -> None:
    """Folders of the work, temporary ones and what a pattern chooses may go."""
    assert found(command) is None


def test_the_reason_names_what_would_be_removed() -> None:
    """What only the shell will know is shown as such."""
    assert found('rm -rf build "$X"/*') == "it removes `…/*`"


def test_a_home_that_is_not_known_is_no_place() -> None:
    """Without one, only `~` itself is judged by the folder it would be in."""
    script = Script(commands=(Command(words=(), written=((("rm",), ("x",)))),))
    assert critical_removal(script, Standing(cwd="/w/a", workspace="/w/a", home="")) is None

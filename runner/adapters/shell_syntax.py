"""The syntax tree of a Bash command, from `shfmt`: it parses and runs nothing of what it reads."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from functools import cache

from runner.core.shell import Script, hidden, read, unparsed

TIMEOUT_S = 5.0
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

SHELL_WORDS = frozenset(
    """
    alias bg bind break builtin caller case cd command compgen complete compopt continue
    coproc declare dirs disown do done echo elif else enable esac eval exec exit export false
    fc fg fi for function getopts hash help history if in jobs kill let local logout mapfile
    popd printf pushd pwd read readarray readonly return select set shift shopt source suspend
    test then time times trap true type typeset ulimit umask unalias unset until wait while
    """.split()  # noqa: SIM905  # seventy quoted words would be worse to read
)
"""What bash runs without a program: its builtins and its keywords."""


def shell_script(command: str) -> Script:
    """What the command would run. Whatever goes wrong is a script that no rule covers."""
    program = _program()
    if program is None:
        return unparsed("`shfmt` is not installed, which rules about commands need")
    if (why := hidden(command)) is not None:
        return unparsed(why)
    try:
        done = subprocess.run(
            (program, "--to-json", "-ln", "bash"),
            input=command.encode(),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            env={},
        )
        if done.returncode != 0:
            return unparsed("it does not parse as Bash")
        return read(json.loads(done.stdout))
    except (OSError, ValueError, RecursionError, subprocess.SubprocessError):
        return unparsed("it could not be parsed")


@cache
def _program() -> str | None:
    """Beside our own scripts, else where the system keeps programs: never where a spec says."""
    own = shutil.which("shfmt", path=sysconfig.get_path("scripts"))
    return own or shutil.which("shfmt", path=SYSTEM_PATH)

"""What commands of the same user can learn about the runner."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from runner.adapters.leftovers import MARK

LOOK_BEFORE_AND_AFTER = """
import ctypes, os, subprocess
from runner.adapters.undumpable import PR_SET_DUMPABLE, close_to_own_user

def look():
    command = ["cat", f"/proc/{os.getpid()}/environ"]
    seen = subprocess.run(command, capture_output=True, cwd="/").stdout
    return b"KEY=secret-of-the-runner" in seen

if os.geteuid() == 0:  # root sees everything: become somebody
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # the change of user had closed it
before = look()
close_to_own_user(os.environ)
print(before, look())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_command_of_the_same_user_cannot_read_the_runners_environment() -> None:
    """It can before the call, which proves the look, and cannot after it."""
    assert _look({}) == ("True False\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_runner_inside_another_run_can_still_be_found_by_its_mark() -> None:
    """The sweep of the other run, by the same user, reads the environment of what it left."""
    assert _look({MARK: "another-run"}) == ("True True\n", "")


def _look(more: Mapping[str, str]) -> tuple[str, str]:
    """What the process printed on stdout and stderr, with `more` in its environment."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK_BEFORE_AND_AFTER],
        env={"PATH": "/usr/bin:/bin", "KEY": "secret-of-the-runner", **more},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.stdout, done.stderr


FORGET = """
import os
from pathlib import Path
from runner.adapters.undumpable import forget

forget(["KEY", "NOT_THERE", "LAST"], os.environ)
left = Path("/proc/self/environ").read_bytes()
print(b"secret-of-the-runner" in left, b"KEY2=stays" in left, b"z-last" in left)
print(sorted(name for name in os.environ if name != "LC_CTYPE"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_what_is_forgotten_is_nowhere_in_the_environment() -> None:
    """Neither for this process nor for who reads it from `/proc`, root included; the rest is."""
    done = subprocess.run(
        [sys.executable, "-c", FORGET],
        env={"KEY": "secret-of-the-runner", "KEY2": "stays", "LAST": "z-last"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("False True False\n['KEY2']\n", "")

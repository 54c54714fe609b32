"""What keeps a better sandbox away on this machine, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
MOST_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
INSTALL = "install bubblewrap, with `apt-get install bubblewrap` or your system's way"


def place(environ: Mapping[str, str]) -> str:
    """What kind of machine this is, in a few words, as far as it can be told."""
    if "gvisor" in _read(Path("/proc/version")).lower() or Path("/proc/sentry-meminfo").exists():
        return "gVisor"
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "a Kubernetes pod"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "a container"
    if environ.get("GITHUB_ACTIONS") == "true":
        return "a GitHub Actions runner"
    return "this machine"


def namespaces(problem: str, environ: Mapping[str, str]) -> str:
    """What to do for namespaces to work, from what bwrap said and what the machine is."""
    if "not installed" in problem:
        return INSTALL
    if "chdir" in problem:
        return "the workspace is closed to this user without capabilities: run as its owner"
    if _read(APPARMOR).strip() == "1" and os.geteuid() != 0:
        return (
            "AppArmor keeps user namespaces from ordinary users (Ubuntu 23.10 and later, GitHub's "
            "ubuntu-24.04): give /usr/bin/bwrap a profile with `userns,`, or run "
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` in an earlier step"
        )
    if _read(MOST_NAMESPACES).strip() == "0":
        return "`sysctl -w user.max_user_namespaces=15000` allows them; it is 0 here"
    match place(environ):
        case "a Kubernetes pod":
            return (
                "the pod's security profile refuses namespaces: landlock is what `restricted` "
                "leaves, and a RuntimeClass such as gVisor or Kata is a wall of its own"
            )
        case "a container":
            return (
                "the container refuses namespaces: landlock works with Docker's default profile; "
                "`docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
                "--security-opt systempaths=unconfined` lets bwrap in, and weakens the container"
            )
        case "gVisor":
            return "gVisor is a wall of its own: say `container: true` and run as its only job"
    return "run as a user who may create user namespaces (`unshare --user true` tells)"


def landlock(problem: str, environ: Mapping[str, str]) -> str:
    """What to do for landlock to work."""
    if place(environ) == "gVisor":
        return "gVisor has no Landlock, and is a wall of its own"
    if "no Landlock" in problem:
        return "boot a Linux of 6.2 or later with `landlock` in its `lsm=` list"
    return "allow the landlock and seccomp calls in the profile of the container"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""

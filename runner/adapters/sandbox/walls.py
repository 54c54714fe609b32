"""What a command may touch: folders it may write, places it may not see, and the network.

Rules of this file: what is named more exactly wins, so a writable folder below a hidden one is
writable. Nothing here comes from the model or from a file of the workspace.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

PRIVATE = (
    ".aws",
    ".azure",
    ".bash_history",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/claude",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/op",
    ".config/pip",
    ".config/rclone",
    ".copilot",
    ".docker",
    ".gem/credentials",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".m2/settings.xml",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".ssh",
    ".terraform.d",
    ".vault-token",
    ".yarnrc.yml",
    "actions-runner",
)
"""Where credentials are kept, below a home."""

NAMED_BY_VARIABLES = (
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "CLOUDSDK_CONFIG",
    "DOCKER_CONFIG",
    "GH_CONFIG_DIR",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "RUNNER_TEMP",
    "SSH_AUTH_SOCK",
)
"""Variables of the runner that say where such things are."""

SYSTEM = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers")
SOCKETS = ("/run", "/var/run")
"""Where services listen (docker, containerd, D-Bus) and where pods find their tokens."""

LISTED = Path("/proc/net/unix")
"""Every socket of this network, with its path: a read-only folder keeps nobody from calling it."""

TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
"""Places that commands see another folder at."""

KERNEL = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper",
)
"""With these a command could have the kernel run programs outside. They belong to root, and root
inside is the same user, whatever capabilities it lost."""

STEERS_LOADER = re.compile(r"LD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|MALLOC_.*")
"""Variables that bring code or files into any program: what puts the walls up must not have them,
for what they name may lie where the agent can write."""

MAX_HOMES = 200

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """Real, absolute paths. `temp` is the run's own folder for temporary files."""

    writable: tuple[Path, ...]
    temp: Path
    readable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: Literal["deny", "allow", "hosts"] = "deny"
    door: Path | None = None
    """The socket of the proxy, when `network` is `hosts`."""

    @property
    def open_again(self) -> tuple[Path, ...]:
        """What stays visible, whatever hides the folder above it."""
        return (*self.writable, self.temp, *self.readable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a command inside."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


@cache
def shell() -> str:
    """The bash that runs what the spec and the model say: the system's own, if it has one.

    The search path of commands may lead into the workspace first, as that of a virtual environment
    there does; a `bash` that the agent put into it would pass every check.
    """
    return shutil.which("bash", path=SYSTEM_PATH) or "bash"


def nothing_to_remark() -> tuple[str, ...]:
    """For walls that only refuse, and do so to the command itself."""
    return ()


class Enclosure(Protocol):
    """One way to put a command behind walls."""

    @property
    def tier(self) -> Literal["namespaces", "landlock"]:
        """Its honest name."""
        ...

    @property
    def ends_all(self) -> bool:
        """Whether everything inside dies with the process that was started."""
        ...

    @property
    def remarks(self) -> Callable[[], tuple[str, ...]]:
        """What the walls refused since the last call, to be told to whoever ran the command."""
        ...

    def launch(
        self, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path, tally_fd: int | None = None
    ) -> Launch:
        """The command that runs `argv` inside; it needs no descriptor but its own and `tally_fd`.

        Where everything dies with the leader, the numbers of the processes that were still there
        some moments after `argv` ended are written to `tally_fd`.
        """
        ...


def set_inside(
    argv: tuple[str, ...], env: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The command and the environment to start it with: what steers the loader is set inside."""
    late = [f"{name}={value}" for name, value in env.items() if STEERS_LOADER.fullmatch(name)]
    if not late:
        return argv, env
    early = {name: value for name, value in env.items() if not STEERS_LOADER.fullmatch(name)}
    return ("/usr/bin/env", *late, *argv), early


def hidden_places(
    environ: Mapping[str, str], session_root: Path, writable: tuple[Path, ...] = ()
) -> tuple[Path, ...]:
    """What commands have no business with, of what there is: credentials, sockets, sessions.

    A socket in a `writable` folder is left: whoever made it there offers it.
    """
    named = (environ[name] for name in NAMED_BY_VARIABLES if environ.get(name))
    places: Iterable[Path] = (
        *(home / name for home in _homes(environ) for name in PRIVATE),
        *(Path(text) for text in named if text.startswith("/")),
        *map(Path, SYSTEM),
        *map(Path, SOCKETS),
        *Path("/etc/ssh").glob("ssh_host_*_key"),
        session_root,
    )
    real = {Path(os.path.realpath(place)) for place in places if os.path.lexists(place)}
    found = {place for place in real if place.exists() and place != Path("/")}
    covered = (*found, *writable, *TEMPORARY)
    return tuple(sorted(found.union(_sockets(covered))))


def _sockets(covered: Iterable[Path]) -> Iterator[Path]:
    """Sockets that are there, of any service, but those in folders that are `covered`."""
    try:
        lines = LISTED.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        name = line.split(maxsplit=7)[7:]
        if not name or not name[0].startswith("/"):  # no path, or one of no file
            continue
        path = Path(os.path.realpath(name[0]))
        if any(path.is_relative_to(folder) for folder in covered):
            continue
        with suppress(OSError):  # not for us to see, so not for commands either
            if path.is_socket():
                yield path


def _homes(environ: Mapping[str, str]) -> Iterator[Path]:
    """The homes this user can look into: its own, and as root everybody's."""
    if environ.get("HOME", "").startswith("/"):
        yield Path(environ["HOME"])
    with suppress(KeyError):  # a user without an entry, as in many containers
        yield Path(pwd.getpwuid(os.geteuid()).pw_dir)
    if os.geteuid() == 0:
        with suppress(OSError):
            yield from sorted(Path("/home").iterdir())[:MAX_HOMES]


def name_service_files() -> tuple[Path, ...]:
    """What resolving names reads although it lies among the sockets."""
    real = Path(os.path.realpath("/etc/resolv.conf"))
    return (real,) if real.is_file() and real.is_relative_to("/run") else ()


def kernel_places() -> tuple[Path, ...]:
    """What `/proc` has besides processes: settings that root could change by owning them."""
    try:
        entries = [e for e in os.scandir("/proc") if not (e.name.isdigit() or e.is_symlink())]
    except OSError:
        return ()
    return tuple(sorted(Path(e.path) for e in entries if e.is_dir() or _is_writable(e)))


def _is_writable(entry: os.DirEntry[str]) -> bool:
    """By its mode: of what a namespace may not do, this process can tell nothing."""
    try:
        return bool(entry.stat().st_mode & 0o222)
    except OSError:
        return False

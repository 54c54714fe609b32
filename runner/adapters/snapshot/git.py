"""Run git's plumbing on a directory, an index and a config of our own, on nothing of the user's.

The checkout's `.git` is never git's directory: hooks, filters, fsmonitor, textconv and includes set
there do not exist for us.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

# Given with -c, which beats a config file that something else wrote into our directory.
_CONFIG = (
    f"core.attributesFile={os.devnull}",
    "core.autocrlf=false",
    "core.compression=1",
    f"core.excludesFile={os.devnull}",
    "core.fileMode=true",
    "core.fsmonitor=false",
    "core.fsync=none",  # it must survive a kill, not a power cut
    f"core.hooksPath={os.devnull}",
    "core.ignoreCase=false",
    # A name that a Mac or Windows takes for .git is refused here, where that is reported. In the
    # patch it would make `git apply` refuse all of it.
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.quotePath=false",
    "core.splitIndex=false",
    "core.symlinks=true",
    "core.untrackedCache=false",
)
# As info/attributes it beats every .gitattributes: nothing is converted when bytes are stored, and
# a source file cannot be declared binary to keep its lines out of sight.
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !diff\n"

# From here on `update-index` puts all streamed files into one pack. Before, each got a pack.
_ONE_PACK_SINCE = (2, 37)


class GitFailed(Exception):
    """Git is missing or a command failed; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """Where git runs and on what: `git_dir` is ours, `work_tree` is only read."""

    program: str
    search_path: str
    git_dir: Path
    work_tree: Path
    cwd: Path
    index: Path
    one_pack: bool = False

    def at(self, work_tree: Path, cwd: Path | None = None, index: Path | None = None) -> Git:
        """The same git on another work tree; `cwd` is its root unless given."""
        return replace(self, work_tree=work_tree, cwd=cwd or work_tree, index=index or self.index)

    async def run(
        self, *arguments: str, feed: bytes | None = None, output: int = asyncio.subprocess.PIPE
    ) -> tuple[bytes, bytes]:
        """Run one command to its end; return stdout and stderr.

        Raises GitFailed on a non-zero code. Cancellation kills and reaps the process.
        """
        options = [word for setting in _CONFIG for word in ("-c", setting)]
        process = await asyncio.create_subprocess_exec(  # noqa: TID251 - not a tool, no sandbox
            self.program,
            *options,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL if feed is None else asyncio.subprocess.PIPE,
            stdout=output,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.cwd,
            env=self._environment(),
            start_new_session=True,
        )
        try:
            stdout, stderr = await process.communicate(feed)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0:
            last = os.fsdecode(stderr).strip().rpartition("\n")[2]
            raise GitFailed(f"git {arguments[0]}: {last or f'code {process.returncode}'}")
        return stdout or b"", stderr

    async def paths(self, *arguments: str) -> list[bytes]:
        """Run a command that prints NUL-terminated records."""
        return split((await self.run(*arguments))[0])

    async def add(self, paths: list[bytes]) -> bytes:
        """Store files and put them into the index; a path that is gone leaves it. Return stderr."""
        # Above the threshold a file is streamed into a pack. A file each for thousands of small
        # objects would cost three times as much.
        pack = ["-c", "core.bigFileThreshold=1"] if self.one_pack else []
        command = [*pack, "update-index", "--add", "--remove", "--replace", "-z", "--stdin"]
        return (await self.run(*command, feed=join(paths)))[1]

    async def drop(self, paths: list[bytes]) -> None:
        """Take paths out of the index, whatever is on disk."""
        if paths:
            await self.run("update-index", "--force-remove", "-z", "--stdin", feed=join(paths))

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": self.search_path,
            "HOME": str(self.git_dir),
            "LC_ALL": "C",
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.work_tree),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }


async def prepare(git_dir: Path, workspace: Path, search_path: str) -> Git:
    """Find git outside the workspace and make `git_dir` a repository. Raises GitFailed, OSError."""
    trusted = _trusted(search_path, workspace)
    program = shutil.which("git", path=trusted)
    if program is None:
        raise GitFailed("git is not installed, or not on the search path")
    _lay_out(git_dir)
    git = Git(
        program=program,
        search_path=trusted,
        git_dir=git_dir,
        work_tree=git_dir,
        cwd=git_dir,
        index=git_dir / "index",
    )
    version = re.search(rb"(\d+)\.(\d+)", (await git.run("version"))[0])
    known = version is not None and tuple(map(int, version.groups())) >= _ONE_PACK_SINCE
    return replace(git, one_pack=known)


def _trusted(search_path: str, workspace: Path) -> str:
    # A relative entry, or one inside the workspace, would let the workspace bring its own git.
    folders = (Path(entry) for entry in search_path.split(os.pathsep))
    return os.pathsep.join(
        str(folder)
        for folder in folders
        if folder.is_absolute() and not folder.resolve().is_relative_to(workspace)
    )


def _lay_out(git_dir: Path) -> None:
    # Not by `git init`, which copies templates; and anew each time, so that nothing written here
    # since the last time counts.
    git_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("objects", "refs", "info"):
        (git_dir / name).mkdir(exist_ok=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/none\n")
    (git_dir / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    (git_dir / "info" / "attributes").write_text(_ATTRIBUTES)
    (git_dir / "info" / "exclude").write_text("")


def split(records: bytes) -> list[bytes]:
    """The records of a text in which each ends in NUL."""
    return records.split(b"\0")[:-1]


def join(records: Iterable[bytes]) -> bytes:
    """The text in which each record ends in NUL."""
    return b"".join(record + b"\0" for record in records)

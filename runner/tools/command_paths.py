"""What a command would do to paths, judged by the disk as it is before the command runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.core.bash_rules import READ_ONLY, base_name, known, texts_run, told, words_of
from runner.core.removals import Standing, critical_removal
from runner.core.sensitive_paths import sensitive_part
from runner.core.shell import Command, Script
from runner.core.subjects import ShellCall
from runner.ports import ToolFailure
from runner.tools.paths import Roots, locate, shown
from runner.tools.programs import is_brought, strange_entries

MAX_ENTRIES = 10_000
"""How much of a folder is looked at before it counts as holding anything."""

UNKEPT = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2"})
"""What redirections may write anywhere: nothing is kept of it."""
BUILTINS = frozenset({"echo", "pwd", "true", "false"})
"""Harmless commands that the shell looks for nowhere."""
MOVES = frozenset({"cd", "pushd", "popd"})

_RECURSIVE = frozenset("rR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One command in the folder it starts in.

    `parse` takes the texts apart that the command gives to a shell; its programs are looked for in
    `search_path`.
    """

    script: Script
    roots: Roots
    cwd: Path
    home: str
    search_path: str
    parse: Callable[[str], Script]

    def call(self) -> ShellCall:
        """What rules and modes look at."""
        words = set(words_of(self.script))
        sensitive = frozenset(word for word in words if self._is_sensitive(word))
        steady = set() if self._is_unsettled() else words
        return ShellCall(
            script=self.script,
            free=frozenset(word for word in steady if self._is_inside(word)),
            edits=frozenset(
                word
                for word in steady - sensitive - self._laden()
                if self._is_inside(word, to_write=True)
            ),
            sensitive=sensitive,
            removes=self._removes(),
            writes=self._writes(),
        )

    def _removes(self) -> str | None:
        """The removal in it that nobody means, also in a text that it gives to a shell."""
        workspace = str(self.roots.workspace)
        standing = Standing(cwd=str(self.cwd), workspace=workspace, home=self.home)
        texts = [text for one in self.script.commands for text in texts_run(one.argv or ())]
        scripts = (self.script, *map(self.parse, texts))
        found = (critical_removal(one, standing) for one in scripts)
        return next((what for what in found if what is not None), None)

    def _writes(self) -> str | None:
        """The redirection that a tool which writes files would refuse."""
        for target in self.script.writes:
            name = known(target)
            if name in UNKEPT:
                continue
            if name is None:
                return f"it writes to `{told([target])}`, whose name only the shell knows"
            for folder in (self.cwd, *self._moves()):
                word = str(folder / name)
                if self._is_sensitive(word):
                    return f"it writes to `{shown(name)}`, which steers other programs"
                if not self._is_inside(word, to_write=True):
                    return f"it writes to `{shown(name)}`, which may not be written"
        return None

    def _moves(self) -> Iterator[Path]:
        """Where else the command may be when it writes; nowhere at all when that is not known."""
        moves = [one.words for one in self.script.commands if _program(one) in MOVES]
        for words in moves:
            name = known(words[-1]) if len(words) == 2 and len(moves) == 1 else None
            is_plain = name is not None and not name.startswith("-")
            yield self.cwd / name if name is not None and is_plain else Path("/")

    # -- one word -------------------------------------------------------------------------------

    def _is_inside(self, word: str, *, to_write: bool = False) -> bool:
        """The word, taken for a path, leads into a root, so that reading it harms nothing."""
        try:
            locate(self.roots, str(self.cwd / word), to_write=to_write)
        except ToolFailure:
            return False
        return True

    def _is_sensitive(self, word: str) -> bool:
        """The word, taken for a path, names or leads to what no mode lets anything change."""
        named = str(self.cwd / word)
        try:
            paths = (named, os.path.realpath(named))
        except (OSError, ValueError):  # no path: a loop, or a NUL
            paths = (named, named)
        # As it is written too: `mkdir -p .git/..` makes what it seems to leave.
        return any(sensitive_part(path, str(self.roots.workspace)) is not None for path in paths)

    # -- folders and links ----------------------------------------------------------------------

    def _laden(self) -> frozenset[str]:
        """Folders that would be moved, copied or removed with something in them that no mode
        lets anything change."""
        return frozenset(
            word
            for argv in self._argvs
            for word in _handled(argv)
            if _is_folder(self.cwd / word) and self._holds_kept(self.cwd / word)
        )

    def _holds_kept(self, folder: Path) -> bool:
        seen, workspace = 0, str(self.roots.workspace)
        for place, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = f"{place}/{name}"
                is_kept = sensitive_part(path, workspace) or self.roots.protected(Path(path))
                seen += 1
                if is_kept or seen > MAX_ENTRIES:
                    return True
        return False

    @property
    def _argvs(self) -> list[tuple[str, ...]]:
        return [argv for one in self.script.commands if (argv := one.argv)]

    def _is_unsettled(self) -> bool:
        """Where words lead may be another place once parts of the command have run, or is not
        said by the words: links may come along with a folder, or lie where one is put."""
        argvs = self._argvs
        if self._is_brought(argvs):
            return True
        several = len(argvs) > 1 and any(argv[0] in ("rm", "rmdir", "mv") for argv in argvs)
        for at, argv in enumerate(argvs):
            if argv[0] == "diff" and any(_is_folder(self.cwd / word) for word in _operands(argv)):
                return True  # it follows the links of both
            others = [*argvs[:at], *argvs[at + 1 :], argv[:-1]]
            for landing, merges in self._brought(argv, several=several):
                if (merges and os.path.lexists(landing)) or self._is_named(landing, others):
                    return True
        return False

    def _is_brought(self, argvs: list[tuple[str, ...]]) -> bool:
        """A program of it may be one that the work brings, now or by another part of it."""
        programs = [argv[0] for argv in argvs if argv[0] not in BUILTINS]
        if is_brought(programs, self.search_path, self.roots, self.cwd):
            return True
        if len(argvs) == 1:
            return False
        words = [word for argv in argvs if argv[0] not in READ_ONLY for word in _operands(argv)]
        places = [os.path.realpath(self.cwd / word) for word in words]
        entries = strange_entries(self.search_path, self.roots)
        folders = [os.path.realpath(self.cwd / entry) for entry in entries]
        return any(_is_in(a, b) or _is_in(b, a) for a in places for b in folders)

    def _is_named(self, landing: str, argvs: list[tuple[str, ...]]) -> bool:
        """A word leads there or below, other than that of a folder that is made."""
        words = (word for argv in argvs if argv[0] != "mkdir" for word in _operands(argv))
        return any(_is_in(os.path.realpath(self.cwd / word), landing) for word in words)

    def _brought(self, argv: tuple[str, ...], *, several: bool) -> Iterator[tuple[str, bool]]:
        """Where folders and links would come to be, and whether into what is there already."""
        operands = _operands(argv)
        if argv[0] not in ("mv", "cp") or len(operands) < 2:
            return
        copies = argv[0] == "cp"
        target = self.cwd / operands[-1]
        for word in operands[:-1]:
            is_new = copies and not os.path.lexists(self.cwd / word)
            if (copies and not _is_recursive(argv)) or not (is_new or _is_bundle(self.cwd / word)):
                continue
            name = word.rstrip("/").rpartition("/")[2]
            is_into = _is_folder(target) and not any("T" in w for w in argv if w.startswith("-"))
            if is_into and name not in ("", ".", ".."):
                yield os.path.realpath(target) + "/" + name, copies
            else:
                yield os.path.realpath(target), copies
            if several or not is_into:
                yield os.path.realpath(target), False


def _program(command: Command) -> str:
    """The program of a command, without its folder."""
    return base_name(command.words[0]) if command.words else ""


def _operands(argv: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in argv[1:] if not word.startswith("-"))


def _handled(argv: tuple[str, ...]) -> tuple[str, ...]:
    """What is removed, moved or copied with all that is in it."""
    operands = _operands(argv)
    if argv[0] == "mv" or (argv[0] == "cp" and _is_recursive(argv)):
        return operands[:-1]
    return operands if argv[0] == "rm" and _is_recursive(argv) else ()


def _is_recursive(argv: tuple[str, ...]) -> bool:
    options = [word for word in argv[1:] if word.startswith("-")]
    return any(word == "--recursive" or _RECURSIVE & set(word) for word in options)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_bundle(path: Path) -> bool:
    """A folder or a link: more than a file may come with it."""
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")

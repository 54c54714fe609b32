"""Searches files where there is no ripgrep: run as a script of its own, so that it can be killed.

Takes one JSON object as argument and prints what `rg --null --no-heading` would; exit code 0 is
found, 1 not found, 2 an error, told on stdout. Imports nothing of the package.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pathspec import GitIgnoreSpec

BINARY_PROBE_BYTES = 1024 * 1024
MAX_DEPTH = 100
BRACES = re.compile(r"\{([^{}]*)\}")
TYPES = {
    "c": "*.c *.h *.cats *.H",
    "cpp": "*.C *.cc *.cpp *.cxx *.h *.H *.hh *.hpp *.hxx *.inl",
    "css": "*.css *.scss",
    "go": "*.go",
    "html": "*.htm *.html *.ejs",
    "java": "*.java *.jsp *.jspx *.properties",
    "js": "*.js *.jsx *.vue *.cjs *.mjs",
    "json": "*.json composer.lock",
    "kotlin": "*.kt *.kts",
    "markdown": "*.markdown *.md *.mdown *.mkdn",
    "md": "*.markdown *.md *.mdown *.mkdn",
    "php": "*.php *.php3 *.php4 *.php5 *.phtml",
    "py": "*.py",
    "ruby": "*.rb *.gemspec Gemfile Rakefile config.ru",
    "rust": "*.rs",
    "sh": "*.sh *.bash *.zsh *.ksh *.csh *.tcsh .bashrc .profile .zshrc",
    "sql": "*.sql *.psql",
    "swift": "*.swift",
    "toml": "*.toml Cargo.lock",
    "ts": "*.ts *.tsx *.cts *.mts",
    "txt": "*.txt",
    "xml": "*.xml *.xsd *.xsl *.xslt *.dtd",
    "yaml": "*.yaml *.yml",
}

Ignores = tuple[tuple[str, GitIgnoreSpec], ...]


def main(request: dict[str, Any], out: BinaryIO) -> int:
    """Search as `request` says (see `Grep`) and return the exit code."""
    try:
        pattern = _compiled(request)
        chosen = _chosen(request)
    except ValueError as error:
        out.write(f"{error}\n".encode())
        return 2
    found = False
    for path in _files(request["root"], request["path"], chosen):
        raw = _text_file(os.path.join(request["root"], path))  # noqa: PTH118 - bytes in names
        if raw is not None:
            found |= _search(path, raw, pattern, request, out, separate=found)
    return 0 if found else 1


def _compiled(request: dict[str, Any]) -> re.Pattern[str]:
    flags = re.IGNORECASE if request["ignore_case"] else 0
    if request["multiline"]:
        flags |= re.MULTILINE | re.DOTALL
    try:
        return re.compile(request["pattern"], flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"invalid pattern (Python syntax, ripgrep is missing): {error}") from None


class Choice:
    """Which names are wanted: a type, and a glob that also lifts ignore rules, as in ripgrep."""

    def __init__(self, types: GitIgnoreSpec | None, glob: str | None) -> None:
        self._types = types
        self._only = glob is not None and not glob.startswith("!")
        text = (glob or "").removeprefix("!")
        self._glob = GitIgnoreSpec.from_lines(_expanded(text)) if text else None

    def wants(self, path: str, *, is_dir: bool) -> bool | None:
        """True or False when the glob decides, None when the ignore rules do."""
        hit = self._glob is not None and self._glob.match_file(path + "/" * is_dir)
        if hit:
            return self._only
        return False if self._only and not is_dir else None

    def fits_type(self, name: str) -> bool:
        """Whether a file of this name is of the type that was asked for."""
        return self._types is None or self._types.match_file(name)


def _chosen(request: dict[str, Any]) -> Choice:
    types = None
    if request["type"] is not None:
        if request["type"] not in TYPES:
            known = ", ".join(TYPES)
            raise ValueError(f"unrecognized file type: {request['type']} (known: {known})")
        types = GitIgnoreSpec.from_lines(TYPES[request["type"]].split())
    return Choice(types, request["glob"])


def _expanded(glob: str) -> list[str]:
    group = BRACES.search(glob)
    if group is None:
        return [glob]
    head, tail = glob[: group.start()], glob[group.end() :]
    return [g for choice in group.group(1).split(",") for g in _expanded(head + choice + tail)]


def _files(root: str, path: str, chosen: Choice) -> Iterator[str]:
    """The files to search, by name; `path` and what comes back is relative to `root`."""
    if (Path(root) / path).is_file():
        yield path
        return
    top = "" if path == "." else path
    yield from _below(root, top, _ignores_above(Path(root) / top), chosen, MAX_DEPTH)


def _below(
    root: str, directory: str, ignores: Ignores | None, chosen: Choice, depth: int
) -> Iterator[str]:
    ignores = _with_rules(Path(root) / directory, ignores)
    for name, is_dir in sorted(_listed(root, directory)):
        path = f"{directory}/{name}" if directory else name
        wanted = chosen.wants(path, is_dir=is_dir)
        if wanted is None:
            full = f"{root}/{path}" + "/" * is_dir
            wanted = not name.startswith(".") and not _ignored(full, ignores)
        if wanted and is_dir and depth:
            yield from _below(root, path, ignores, chosen, depth - 1)
        elif wanted and not is_dir and chosen.fits_type(name):
            yield path


def _listed(root: str, directory: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(Path(root) / directory) as entries:
            return [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]
    except OSError:
        return []


def _ignored(path: str, ignores: Ignores | None) -> bool:
    """The nearest file that has a rule for the path decides."""
    for base, spec in reversed(ignores or ()):
        verdict = spec.check_file(path.removeprefix(base + "/")).include
        if verdict is not None:
            return verdict
    return False


def _ignores_above(top: Path) -> Ignores | None:
    """The rules of the directories above `top`, from the git work tree's own one down."""
    ignores: Ignores | None = None
    for directory in reversed(top.parents):
        ignores = _with_rules(directory, ignores)
    return ignores


def _with_rules(directory: Path, ignores: Ignores | None) -> Ignores | None:
    """`ignores` and those of `directory`; None outside of git, where there are none."""
    if (directory / ".git").exists():
        ignores = ()  # a work tree of its own: what is above does not hold here
    if ignores is None:
        return None
    try:
        lines = (directory / ".gitignore").read_text("utf-8", "surrogateescape").split("\n")
        return (*ignores, (str(directory), GitIgnoreSpec.from_lines(lines)))
    except (OSError, ValueError):
        return ignores


def _text_file(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        raw = file.read()
    return None if b"\0" in raw[:BINARY_PROBE_BYTES] else raw


def _search(
    path: str,
    raw: bytes,
    pattern: re.Pattern[str],
    request: dict[str, Any],
    out: BinaryIO,
    *,
    separate: bool,
) -> bool:
    text = raw.decode("utf-8-sig", "surrogateescape")
    lines = text.removesuffix("\n").split("\n") if text else []
    if request["multiline"]:
        hits = _spanned(pattern, text.replace("\r\n", "\n"))
    else:
        hits = [n for n, line in enumerate(lines) if pattern.search(line.removesuffix("\r"))]
    if not hits:
        return False
    name = f"{path}\0".encode("utf-8", "surrogateescape")
    match request["mode"]:
        case "files_with_matches":
            out.write(name)
        case "count":
            out.write(name + f"{len(hits)}\n".encode())
        case _:
            _print(name, lines, hits, request, out, separate=separate)
    return True


def _spanned(pattern: re.Pattern[str], text: str) -> list[int]:
    """The numbers of the lines that matches lie on; of an empty match, of its place."""
    hits: dict[int, None] = {}
    counted, line = 0, 0
    for match in pattern.finditer(text):
        if match.start() >= len(text) and text.endswith("\n"):
            continue
        line += text.count("\n", counted, match.start())
        counted = match.start()
        inner = match.group().removesuffix("\n").count("\n")
        hits.update(dict.fromkeys(range(line, line + inner + 1)))
    return list(hits)


def _print(
    name: bytes,
    lines: list[str],
    hits: list[int],
    request: dict[str, Any],
    out: BinaryIO,
    *,
    separate: bool,
) -> None:
    before, after = request["before"], request["after"]
    matched = set(hits)
    wanted = sorted(
        {n for hit in hits for n in range(max(hit - before, 0), hit + after + 1) if n < len(lines)}
    )
    last = None
    for number in wanted:
        gap = separate if last is None else number > last + 1
        if gap and (before or after):
            out.write(b"--\n")
        mark = ":" if number in matched else "-"
        out.write(name + f"{number + 1}{mark}".encode())
        out.write(lines[number].encode("utf-8", "surrogateescape") + b"\n")
        last = number


if __name__ == "__main__":
    with open(1, "wb", closefd=False) as stdout:
        code = main(json.loads(sys.argv[1]), stdout)
    raise SystemExit(code)

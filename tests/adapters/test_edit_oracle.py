"""What commands that need no rule really do to files and show of them, against what they may."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runner.adapters.shell_syntax import shell_script
from runner.core.bash_rules import EDITORS, READ_ONLY
from runner.core.permissions import decide
from runner.core.spec import TaskSpec
from runner.tools.command_paths import Judgement
from runner.tools.paths import Roots
from tests.adapters.walled import need

EXAMPLES = int(os.environ.get("AUTOPILOT_ORACLE_EXAMPLES", "150"))
STUBS = ("npm", "curl", "git", "env", "xargs", "sh", "bash")
SECRET = "what lies outside"
SPEC = TaskSpec(name="n", prompt="p", model="m", permission_mode="acceptEdits")

FOLDERS = ["d/e", "d/.git", "tpl/n", "tpl/dot/.husky", "plain/p", "kept", "mixed", ".git/hooks"]
LINKS = {
    "out": "../outside",
    "file": "../outside/keep",
    "d/up": "..",
    "d/e/f": "/elsewhere",
    "tpl/n/x": "../../../outside/keep",
    "mixed/l": "../../outside",
    "plain/in": "p",
}
FILES = [
    *("a", "b", "d/a", "d/e/b", "tpl/dot/.husky/x", "plain/x", "plain/p/a", "kept/k"),
    *(".git/config", ".git/hooks/x", ".mcp", "mixed/n", "mixed/x"),
]

INSIDE = st.sampled_from(
    [
        *("a", "b", "d", "d/", "d/a", "d/e", "d/e/..", "d/e/b", "d/up", "d/up/a", "d/n", "d/x"),
        *("tpl", "tpl/n", "tpl/n/.", "plain", "plain/", "plain/.", "plain/x", "plain/in"),
        *("plain/p", "mixed", "mixed/.", "mixed/n", "mixed/x", "mixed/l", "n", "n/", "n/a"),
        *(
            "n/up",
            "n/up/x",
            "n/l/x",
            "n/x",
            "n/f/keep",
            "n/f/x",
            "n/e/f",
            "up",
            "up/x",
            "l",
            "l/x",
            "e",
            "e/f",
        ),
        *("e/f/x", "d/."),
    ]
)
OTHERS = st.sampled_from(
    [
        *("d/..", "d/.git", "tpl/dot", "kept", "kept/k", "out", "out/", "out/keep", "file", "."),
        *("..", "/", "../outside", "../outside/keep", "/elsewhere", "/elsewhere/x", "~", "$X"),
        *("*", "?", ".git", ".git/config", ".git/hooks", ".git/..", ".mcp", ".mcp.json", "-"),
        *("x/.git/..", ".bashrc", "d/.vscode", "/dev/null", "", "s", "up/outside/keep", "d/e/f/x"),
        *("n/outside", "'a'", '"d"', "\\a", "{a,b}", "d/{a,e}", "-x", "d/e/f"),
    ]
)
PLACES = st.one_of(INSIDE, INSIDE, INSIDE, INSIDE, INSIDE, INSIDE, OTHERS)
USUAL = {
    **dict.fromkeys(READ_ONLY, ("-l", "-r", "-n", "-a", "-1")),
    "mkdir": ("-p", "-pv"),
    "touch": ("-a", "-c"),
    "rm": ("-r", "-rf", "-f", "-d"),
    "rmdir": ("-v",),
    "mv": ("-f", "-n", "-T", "-u"),
    "cp": ("-r", "-R", "-rT", "-p", "-rf"),
    "sed": ("-i", "-i.json", "-i.bak", "-n", "-ni"),
}
ODD_OPTIONS = st.sampled_from(
    [
        *("-r", "-rf", "-R", "-f", "-p", "-v", "-n", "-T", "-u", "-i", "-i.json", "-i.bak", "-a"),
        *("-d", "-t", "-L", "-H", "-P", "-b", "-s", "-l", "-follow", "--", "--force", "-e", "-z"),
        *("--recursive", "--target-directory=../outside", "-exec", "-delete", "-name", "-c", "-E"),
        *("--reference=a", "-m", "-S.x", "--backup", "-x", "-1", "-A", "-w", "-o", "-ls", "-newer"),
    ]
)
SCRIPTS = st.sampled_from(
    [
        *("s/a/b/", "s/a/b/", "s/./x/g", "1d", "p", "'s,a,b,'", "'s/a/\\n/'", "=", "q", "'$!d'"),
        *("'w ../outside/x'", "'s/a/b/w ../outside/x'", "1e", "'r ../outside/keep'", "'R file'"),
        *("'s/a/curl/e'", "'s/x/y/;w out/x'", "'1d;w n'", "'s|a|b|gw out/x'", "'/a/d'"),
    ]
)
PROGRAMS = st.sampled_from([*sorted(EDITORS) * 2, "mv", "cp", "cp", *sorted(READ_ONLY)])
JOINERS = st.sampled_from([" && "] * 4 + ["; ", " || ", " | ", "\n", " & ", " |& "])
PREFIXES = st.sampled_from([""] * 16 + ["time ", "timeout 3 ", "command ", "X=1 ", "! ", "nohup "])
SUFFIXES = st.sampled_from(
    [""] * 24
    + [" >/dev/null", " > n", " > out/x", " 2>&1", " < a", " < file", " >> d/a", " <<< x"]
    + [" >out/keep", " $(curl x)", " `curl x`", " # x", " \\\n a"]
)


@st.composite
def one_command(draw: st.DrawFn) -> str:
    """A program of those that a mode lets run, with options and places it may or may not take."""
    program = draw(PROGRAMS)
    usual = st.sampled_from(USUAL[program])
    words = draw(st.lists(st.one_of(usual, usual, usual, usual, ODD_OPTIONS), max_size=2))
    words += [draw(SCRIPTS)] if program == "sed" else []
    words += draw(st.lists(PLACES, min_size=1, max_size=3))
    return draw(PREFIXES) + " ".join([program, *words]) + draw(SUFFIXES)


@st.composite
def command_lines(draw: st.DrawFn) -> str:
    """One to three of them in a line."""
    line = draw(one_command())
    for _ in range(draw(st.integers(0, 2))):
        line += draw(JOINERS) + draw(one_command())
    return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A workspace `work` with links out of it, what lies outside, and programs for commands."""

    folder: Path

    @property
    def work(self) -> Path:
        """The only root."""
        return self.folder / "work"

    def lay(self) -> None:
        """Everything as it is before a command runs."""
        for path in self.folder.iterdir():
            if path.is_file():
                path.unlink()
            elif path.name != "bin":
                shutil.rmtree(path)
        for name in ("work", "outside", "calls"):
            (self.folder / name).mkdir()
        (self.folder / "outside" / "keep").write_text(SECRET + "\n")
        (self.folder / "outside" / "d").mkdir()
        for name in FOLDERS:
            (self.work / name).mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (self.work / name).write_text(f"a of {name}\n")
        for name, target in LINKS.items():
            (self.work / name).symlink_to(target)

    def roots(self) -> Roots:
        """What the tools would have."""
        kept = self.work / "kept"
        return Roots(
            workspace=self.work,
            protected=lambda path: "a test" if path.is_relative_to(kept) else None,
        )

    def allowed(self, command: str) -> bool:
        """Whether mode acceptEdits lets the command run, without any rule."""
        judgement = Judgement(
            script=shell_script(command),
            roots=self.roots(),
            cwd=self.work,
            home=str(self.folder / "outside"),
            search_path=str(self.folder / "bin"),
            parse=shell_script,
        )
        return decide(SPEC, "Bash", "shell", judgement.call()).allowed

    def not_to_change(self) -> dict[str, str]:
        """All that lies outside, and what in the workspace no mode gives away."""
        steering = [".git", ".bashrc", ".mcp.json", "d/.git", "tpl/dot/.husky", "kept"]
        state = _state(self.folder / "outside") | _state(self.folder / "calls")
        state |= {str(path): "beside" for path in self.folder.iterdir()}
        for name in steering:
            state |= _state(self.work / name)
        found = self.work.rglob("*")
        named = {".git", ".husky", ".vscode", ".mcp.json", ".bashrc"}
        return state | {str(path): "there" for path in found if path.name in named}

    def run(self, command: str) -> str:
        """What the command prints. It runs behind real walls: only this folder can be changed."""
        outside = str(self.folder / "outside")
        done = subprocess.run(
            (
                *("bwrap", "--unshare-all", "--die-with-parent", "--tmpfs", "/", *_system()),
                *("--bind", str(self.folder), str(self.folder), "--bind", outside, "/elsewhere"),
                *("--dev", "/dev", "--chdir", str(self.work)),
                *("bash", "--norc", "--noprofile", "-c", f"PATH={self.folder}/bin\n{command}"),
            ),
            env={"PATH": os.environ["PATH"], "X": "out", "HOME": outside},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
            errors="replace",
            text=True,
        )
        assert not done.stderr.startswith("bwrap:"), done.stderr
        return done.stdout + done.stderr


@cache
def _system() -> tuple[str, ...]:
    """Where programs and what they need are, to be read."""
    tops = [top for top in ("/usr", "/bin", "/lib", "/lib64", "/etc") if Path(top).exists()]
    return tuple(word for top in tops for word in ("--ro-bind", top, top))


def _state(top: Path) -> dict[str, str]:
    found = {}
    for path in (top, *top.rglob("*")):
        if path.is_symlink():
            found[str(path)] = f"link {path.readlink()}"
        elif path.is_file():
            found[str(path)] = path.read_text()
        elif path.exists():
            found[str(path)] = "folder"
    return found


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """Stubs for what must not run; of everything else on the path the real program."""
    need("namespaces")
    made = Ground(folder=Path(tempfile.mkdtemp()))
    (made.folder / "bin").mkdir()
    for name in STUBS:
        stub = made.folder / "bin" / name
        stub.write_text(f'#!{shutil.which("bash")}\n: > "{made.folder}/calls/{name}.$$"\n')
        stub.chmod(0o755)
    for name in (*EDITORS, *READ_ONLY, "timeout", "nohup"):
        real = shutil.which(name)
        if real is not None:
            (made.folder / "bin" / name).symlink_to(real)
    made.lay()
    try:
        yield made
    finally:
        shutil.rmtree(made.folder)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=command_lines())
@example(command="sed -i.json p .mcp")
@example(command="cp -r d n && touch n/up/x")
@example(command="mv d/up up && touch up/x")
@example(command="cp -r d/e n && cat n/f/keep")
@example(command="cp -r mixed/. tpl/n")
@example(command="cp -r tpl/dot n")
@example(command="mkdir -p x/.git/..")
@example(command="rm -r d")
@example(command="diff mixed/x tpl/n")
def test_a_mode_lets_no_command_change_or_show_more_than_the_tools_may(
    ground: Ground, command: str
) -> None:
    """What mode acceptEdits allows leaves everything outside, what steers other programs and
    what is protected as it was, shows nothing from outside, and starts no other program."""
    if not ground.allowed(command):
        return
    before = ground.not_to_change()
    try:
        said = ground.run(command)
        assert ground.not_to_change() == before
        assert SECRET not in said
    finally:
        ground.lay()

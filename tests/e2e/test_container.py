"""In a container that refuses namespaces a run gets what is left, and says so."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.walled import need
from tests.e2e import container
from tests.e2e.desk import Desk, Played
from tests.servers import D, X

ORDINARY = 12345


class Contained(Desk):
    """A desk whose commands all start inside of the container."""

    landlock: bool = True
    user: str = "-"

    def command(self, *arguments: str) -> list[str]:
        """See the desk."""
        how = ("landlock" if self.landlock else "no-landlock", self.user)
        return [sys.executable, str(Path(container.__file__)), *how, *super().command(*arguments)]


@pytest.fixture(params=["this user", "an ordinary user"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where a desk can be, its owner the user; the folders above are open to everybody."""
    need("landlock")
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip(f"no filter for {platform.machine()}")
    if request.param == "an ordinary user" and os.geteuid() != 0:
        pytest.skip("only root becomes somebody else")
    path = Path(tempfile.mkdtemp())
    try:
        yield path / request.param.replace(" ", "-")
    finally:
        shutil.rmtree(path)


def desk(folder: Path, *, landlock: bool = True) -> Contained:
    """A desk in the container."""
    made = Contained(folder=folder)
    made.landlock = landlock
    if folder.name == "an-ordinary-user":
        made.user = str(ORDINARY)
        for path in (folder.parent, folder, *folder.rglob("*")):
            path.chmod(0o755)
            os.chown(path, ORDINARY, ORDINARY)
    return made


def sandbox(played: Played) -> dict[str, Any]:
    """What the preflight says of it, and the result too."""
    (preflight,) = played.of("runner.preflight")
    told: dict[str, Any] = preflight["sandboxReport"]
    assert played.result["sandbox"] == preflight["sandbox"] == told["tier"]
    return told


def test_landlock_is_left_and_holds(folder: Path) -> None:
    """The workspace can be written and nothing beside it; why it is not namespaces is told."""
    script = "echo in > in; echo out > ../out; cat ../home/session-state/*/events.jsonl"
    made = desk(folder)
    played = made.play([X(("Bash", {"command": script})), D("done")], sandbox=None)
    told = sandbox(played)
    assert (played.exit_code, told["tier"], told["network"]) == (0, "landlock", "denied")
    assert all(canary["held"] for canary in told["canaries"])
    assert "namespaces: bwrap" in told["skipped"][0]
    assert made.read("in") == "in\n"
    assert not (folder / "out").exists()


def test_without_landlock_too_there_is_no_boundary_and_none_is_claimed(folder: Path) -> None:
    """Tier process; what it does not hold, and what each better one lacks, is told."""
    made = desk(folder, landlock=False)
    played = made.play([X(("Bash", {"command": "echo out > ../out"})), D("done")], sandbox=None)
    told = sandbox(played)
    assert (played.exit_code, told["tier"], told["network"]) == (0, "process", "open")
    assert "no boundary" in told["unenforced"][0]
    assert [line.partition(":")[0] for line in told["skipped"]] == ["namespaces", "landlock"]
    assert (folder / "out").exists()


@pytest.mark.parametrize(("tier", "landlock"), [("namespaces", True), ("landlock", False)])
def test_what_is_required_and_cannot_be_had_stops_the_run(
    folder: Path, tier: str, landlock: bool
) -> None:
    """Code 78 before the model is asked. `doctor` says the same, and how to get more."""
    made = desk(folder, landlock=landlock)
    played = made.play([D("done")], sandbox={"require": tier})
    assert (played.exit_code, played.result["error_type"]) == (78, "preflight")
    assert f"the spec needs {tier}, and this machine gives" in played.result["errors"][0]
    assert "assistant.turn_start" not in played.types

    doctor = made.call("doctor", str(made.folder / "task.yaml"))
    assert doctor.returncode == 78
    assert "FAILED  sandbox" in doctor.stdout
    (hint,) = [line for line in doctor.stdout.splitlines() if line.startswith("  for more")]
    assert any(words in hint for words in ("container", "profile", "unshare --user", "user"))

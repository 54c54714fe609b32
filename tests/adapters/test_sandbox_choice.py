"""Which tier a spec gets on a machine, and what it is told when that does not do."""

from __future__ import annotations

import asyncio
import platform
import struct
from pathlib import Path

import pytest

from runner.adapters.sandbox import advice, landlock, seccomp
from runner.adapters.sandbox.choice import Chosen, choose
from runner.core.spec import SandboxSpec
from tests.adapters.walled import OUTER, Site, need


def chosen(folder: Path, spec: SandboxSpec, *, search_path: str, network: str = "deny") -> Chosen:
    """What a spec gets where bwrap is looked for in `search_path`."""
    site = Site(folder=folder)
    walls = site.walls(network=network)
    outer = {**OUTER, "PATH": search_path}
    return asyncio.run(choose(spec, walls, site.session, env=OUTER, outer=outer))


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A machine with neither bubblewrap nor Landlock; its search path."""
    monkeypatch.setattr(landlock, "version", lambda: 0)
    return str(tmp_path / "nowhere")


def test_a_machine_with_nothing_is_told_truthfully(tmp_path: Path, bare: str) -> None:
    """Tier process, no boundary, an open network, and for each better tier what is missing."""
    found = chosen(tmp_path, SandboxSpec(), search_path=bare)
    report = found.report
    assert (report.tier, report.network, found.check.ok) == ("process", "open", True)
    assert [text.partition(":")[0] for text in report.skipped] == ["namespaces", "landlock"]
    assert "apt-get install bubblewrap" in report.skipped[0]
    assert "this kernel has no Landlock" in report.skipped[1]
    assert found.check.detail.startswith("process: no boundary (namespaces: bwrap is not installed")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (SandboxSpec(require="landlock"), "the spec needs landlock, and this machine gives"),
        (SandboxSpec(require="namespaces"), "the spec needs namespaces"),
        (SandboxSpec(mode="namespaces"), "the spec needs namespaces"),
        (SandboxSpec(network=("deny",)), "no tier here can keep to `sandbox.network`"),
        (SandboxSpec(network=("mirror.test",)), "no tier here can keep to `sandbox.network`"),
    ],
)
def test_what_cannot_be_had_stops_the_run(
    tmp_path: Path, bare: str, spec: SandboxSpec, words: str
) -> None:
    """The check fails, and names what is missing."""
    found = chosen(tmp_path, spec, search_path=bare)
    assert not found.check.ok
    assert found.enclosure is None
    assert words in found.check.detail


@pytest.mark.parametrize("spec", [SandboxSpec(), SandboxSpec(network=("allow",))])
def test_what_is_not_asked_for_does_not_stop_it(
    tmp_path: Path, bare: str, spec: SandboxSpec
) -> None:
    """Without a word about tiers or network any machine will do."""
    assert chosen(tmp_path, spec, search_path=bare).check.ok


def test_bwrap_in_a_folder_that_commands_write_is_not_run(tmp_path: Path) -> None:
    """A program that the agent could have put there proves nothing and is not even tried."""
    need("landlock")
    (tmp_path / "work").mkdir()
    fake = tmp_path / "work" / "bwrap"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    fake.chmod(0o755)
    found = chosen(tmp_path, SandboxSpec(), search_path=str(fake.parent))
    assert found.report.tier == "landlock"
    assert not (tmp_path / "ran").exists()


def test_landlock_alone_cannot_keep_to_hosts(tmp_path: Path, bare: str) -> None:
    """With a list of hosts it is passed over, and says which tier could."""
    spec = SandboxSpec(network=("mirror.test",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landlock, "version", lambda: 7)
        found = chosen(tmp_path, spec, search_path=bare, network="hosts")
    assert not found.check.ok
    assert "namespaces can" in found.check.detail


@pytest.mark.parametrize(
    ("environ", "problem", "words"),
    [
        ({}, "bwrap is not installed", "apt-get install bubblewrap"),
        ({}, "Can't chdir to /w: Permission denied", "run as its owner"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "refused", "`restricted`"),
    ],
)
def test_every_problem_has_a_cure(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], problem: str, words: str
) -> None:
    """By what bwrap said and by what kind of machine this is."""
    monkeypatch.setattr(advice, "APPARMOR", Path("/nowhere"))
    monkeypatch.setattr(advice, "MOST_NAMESPACES", Path("/nowhere"))
    assert words in advice.namespaces(problem, environ)


@pytest.mark.parametrize(("file", "text"), [("APPARMOR", "1"), ("MOST_NAMESPACES", "0")])
def test_switches_of_the_system_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, text: str
) -> None:
    """AppArmor's restriction and a limit of 0 are recognised by their files."""
    monkeypatch.setattr(advice, "APPARMOR", Path("/nowhere"))
    monkeypatch.setattr(advice, file, tmp_path / "switch")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (tmp_path / "switch").write_text(f"{text}\n")
    assert "sysctl -w" in advice.namespaces("setting up uid map: Permission denied", {})


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_jumps_inside_itself_and_ends(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    """For every processor: whole instructions, jumps that land in the program, a return at the
    end."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    for families in ((), (seccomp.UNIX, seccomp.INET)):
        lines = list(struct.iter_unpack("=HBBI", seccomp.program(families)))
        for place, (code, if_true, if_false, _) in enumerate(lines):
            if code in (seccomp.JUMP_EQUAL, seccomp.JUMP_AT_LEAST, seccomp.JUMP_ANY_BIT):
                assert place + 1 + max(if_true, if_false) < len(lines)
        assert lines[-1] == (seccomp.RETURN, 0, 0, seccomp.ALLOW)

"""`init` writes a spec that loads and files that CI systems take, over nothing that is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from runner.adapters import configs
from runner.adapters.specfile import load_spec
from runner.cli.init import FILES
from runner.core.endings import EXIT_ROWS
from tests.cli.test_commands import called

CODES = {row.code for row in EXIT_ROWS}
CAPS = [3, 4, 9]
TEXTS = {source: configs.read_text(source) for pairs in FILES.values() for source, _ in pairs}


def test_a_spec_is_written_that_loads(tmp_path: Path) -> None:
    """The first spec is a sound one."""
    done = called("init", "--directory", str(tmp_path))
    assert (done.exit_code, done.stdout) == (0, f"wrote {tmp_path / 'autopilot.yaml'}\n")
    spec = load_spec(tmp_path / "autopilot.yaml", stdin=str)
    assert (spec.name, spec.max_turns, len(spec.verify)) == ("autopilot", 40, 1)


@pytest.mark.parametrize("system", FILES)
def test_each_system_gets_its_files(tmp_path: Path, system: str) -> None:
    """Beside the spec, byte for byte; a script may be run."""
    assert called("init", "--ci", system, "--directory", str(tmp_path)).exit_code == 0
    for source, name in FILES[system]:
        assert (tmp_path / name).read_text() == TEXTS[source]
    written = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert written == {"autopilot.yaml", *(name for _, name in FILES[system])}
    assert all(path.stat().st_mode & 0o100 for path in tmp_path.glob("*.sh"))


def test_a_file_that_two_systems_share_is_written_once(tmp_path: Path) -> None:
    """The units of systemd are among what `cron` writes."""
    both = ("init", "--ci", "cron", "--ci", "systemd", "--directory", str(tmp_path))
    written = called(*both).stdout.splitlines()
    assert len(written) == len(set(written)) == 4


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """One file that is there, even as a broken link, and none is written."""
    (tmp_path / "autopilot.timer").symlink_to("nowhere")
    done = called("init", "--ci", "cron", "--directory", str(tmp_path))
    assert done.exit_code == 2
    assert "autopilot.timer: already there, so nothing was written" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["autopilot.timer"]


def test_a_spec_that_is_there_is_used(tmp_path: Path) -> None:
    """A second `init` adds another system; alone, it has nothing to do."""
    (tmp_path / "autopilot.yaml").write_text("mine")
    assert called("init", "--ci", "gitlab", "--directory", str(tmp_path)).exit_code == 0
    assert (tmp_path / "autopilot.yaml").read_text() == "mine"
    assert called("init", "--directory", str(tmp_path)).exit_code == 2


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file in the way is an error that names the path."""
    (tmp_path / ".github").write_text("")
    done = called("init", "--ci", "github", "--directory", str(tmp_path))
    assert done.exit_code == 74
    assert "was not written: " in done.stderr


def test_gitlab_uses_the_codes() -> None:
    """Caps are allowed to fail, a busy provider is tried again, nothing else."""
    job = yaml.safe_load(TEXTS["ci/gitlab/autopilot.gitlab-ci.yml"])["autopilot"]
    assert job["allow_failure"]["exit_codes"] == CAPS
    assert job["retry"] == {"max": 2, "exit_codes": [75]}


def test_kubernetes_uses_the_codes() -> None:
    """A busy provider counts as an attempt, everything else is an answer; all of it is locked."""
    _, cron = yaml.safe_load_all(TEXTS["ci/kubernetes/autopilot.yaml"])
    job = cron["spec"]["jobTemplate"]["spec"]
    rules = {
        rule["action"]: rule["onExitCodes"]
        for rule in job["podFailurePolicy"]["rules"]
        if "onExitCodes" in rule
    }
    assert (rules["Count"]["operator"], rules["Count"]["values"]) == ("In", [75])
    assert (rules["FailJob"]["operator"], rules["FailJob"]["values"]) == ("NotIn", [75])
    pod = job["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    for container in (*pod["containers"], *pod["initContainers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_systemd_uses_the_codes() -> None:
    """Caps are a success of the unit; a new start comes after 75 and no other code."""
    unit = TEXTS["ci/cron/autopilot.service"]
    (caps,) = re.findall(r"^SuccessExitStatus=(.*)$", unit, re.MULTILINE)
    (final,) = re.findall(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert list(map(int, caps.split())) == CAPS
    assert set(map(int, final.split())) == CODES - {0, 75, *CAPS}


def test_workflows_keep_their_rights_small() -> None:
    """No right by default, none to write where the agent works, every action by its hash."""
    for source, text in TEXTS.items():
        if "/github/" not in source:
            continue
        flow = yaml.safe_load(text)
        assert flow["permissions"] == {}
        assert flow["jobs"]["work"]["permissions"] == {"contents": "read"}
        assert "concurrency" in flow
        assert all("timeout-minutes" in job for job in flow["jobs"].values())
        for job in flow["jobs"].values():
            for step in job["steps"]:
                assert "${{" not in step.get("run", ""), "text in a script would be run by it"
                uses = step.get("uses", "")
                assert not uses.startswith("actions/") or re.search(r"@[0-9a-f]{40}$", uses)


def test_scripts_are_sound() -> None:
    """The shell reads each of them."""
    scripts = [text for source, text in TEXTS.items() if source.endswith(".sh")]
    for source, text in TEXTS.items():
        if "/github/" in source:
            jobs = yaml.safe_load(text)["jobs"].values()
            scripts += [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert len(scripts) > 3
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)

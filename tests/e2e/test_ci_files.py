"""The GitHub action and the cron wrapper, run as those systems run them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.adapters import configs
from tests.e2e.desk import REPOSITORY, Desk
from tests.e2e.test_reports import outputs_in
from tests.servers import D, F, Step, T, X

ACTION = yaml.safe_load((REPOSITORY / ".github/actions/autopilot/action.yml").read_text())
SCRIPTS = Path(sys.executable).parent
WRITE = ("Write", {"file_path": "new.txt", "content": "new\n"})

pytestmark = pytest.mark.skipif(
    not (SCRIPTS / "autopilot").exists(), reason="the command is not installed"
)


class Job:
    """One job on a runner: its folders, its files, and the steps of the action by their id."""

    def __init__(self, desk: Desk, **inputs: str) -> None:
        self.desk = desk
        self.temp = desk.folder / "temp"
        self.temp.mkdir()
        self.inputs = {name: value.get("default", "") for name, value in ACTION["inputs"].items()}
        self.inputs |= {name.replace("_", "-"): value for name, value in inputs.items()}
        self.outputs: dict[str, dict[str, str]] = {}
        venv = self.temp / "autopilot-venv" / "bin"
        venv.mkdir(parents=True)
        (venv / "autopilot").symlink_to(SCRIPTS / "autopilot")

    def step(self, step_id: str) -> subprocess.CompletedProcess[str]:
        """Run a step, and take its outputs."""
        (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == step_id]
        files = {name: self.temp / f"{step_id}-{name}" for name in ("OUTPUT", "STEP_SUMMARY")}
        for path in files.values():
            path.write_text("")
        script = self.temp / f"{step_id}.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.desk.folder,
            env={
                **self.desk.environment(),
                "GITHUB_ACTIONS": "true",
                "GITHUB_RUN_ID": "7",
                "GITHUB_RUN_ATTEMPT": "1",
                "RUNNER_TEMP": str(self.temp),
                **{f"GITHUB_{name}": str(path) for name, path in files.items()},
                **{name: self._filled(value) for name, value in step["env"].items()},
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.outputs[step_id] = read_outputs(files["OUTPUT"])
        return done

    def _filled(self, value: str) -> str:
        def found(match: re.Match[str]) -> str:
            parts = match[1].split(".")
            if parts[0] == "inputs":
                return str(self.inputs[parts[1]])
            return self.outputs[parts[1]].get(parts[3], "")

        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", found, value)


def read_outputs(path: Path) -> dict[str, str]:
    """Both forms of outputs, the last one of a name."""
    text = path.read_text()
    simple = dict(re.findall(r"^([\w-]+)=(.*)$", text, re.MULTILINE))
    blocks = "\n".join(re.findall(r"^[\w-]+<<(\S+)\n(?:.*\n)*?\1$", text, re.MULTILINE))
    assert blocks or "<<" not in text
    inner = path.with_suffix(".blocks")
    inner.write_text(re.sub(r"^([\w-]+)=(.*)\n", "", text, flags=re.MULTILINE))
    return {**outputs_in(inner), **simple}


ENDINGS: dict[str, tuple[list[Step], dict[str, Any], int, str]] = {
    "success": ([X(WRITE), D("done")], {}, 0, "success"),
    "cap": ([X(WRITE), X(WRITE)], {"max_turns": 1}, 3, "error_max_turns"),
    "incomplete": ([T("a")], {"max_autopilot_continues": 0}, 6, "continues_exhausted"),
    "provider": ([F(503, "down")], {}, 75, "provider_unavailable"),
    "usage": ([D("x")], {"nonsense": 1}, 2, "usage"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_action_keeps_the_exit_code_and_says_how_it_ended(desk: Desk, name: str) -> None:
    """The step fails with the code of the run; its outputs and the papers are there anyway."""
    steps, keys, code, ending = ENDINGS[name]
    desk.script(steps)
    desk.spec(**keys)
    job = Job(desk, spec="task.yaml")
    done = job.step("run")
    assert done.returncode == code, done.stderr
    outputs = job.outputs["run"]
    assert (outputs["exit-code"], outputs["ending"]) == (str(code), ending)
    assert job.step("papers").returncode == 0
    if code == 2:
        assert job.outputs["papers"] == {}
        return
    papers = Path(job.outputs["papers"]["folder"])
    assert papers.name == outputs["session-id"]
    names = {path.name for path in papers.iterdir()}
    assert {"events.jsonl", "result.json", "patch.diff", "report.html", "junit.xml"} <= names
    assert not {"git", "workspace", "lock"} & names
    assert Path(outputs["patch"]).read_bytes() == (papers / "patch.diff").read_bytes()


def test_inputs_of_the_action_are_text_and_never_run(desk: Desk) -> None:
    """Quotes, dollars and semicolons reach the run as they are, options cannot be smuggled in."""
    desk.script([D("done")])
    price = {"input_per_mtok": 1, "output_per_mtok": 1}
    prompt = "{{ inputs.title }} {{ inputs.body }}"
    desk.spec(inputs={"title": {}, "body": {}}, prompt=prompt, pricing=price)
    (desk.folder / "body.md").write_text("line 1\nline 2")
    evil = "title=$(touch pwned)`touch pwned`'\"; touch pwned #"
    job = Job(
        desk,
        spec="task.yaml",
        inputs=f"{evil}\nbody=@body.md",
        set="max_turns=7\nlimits.tool=9m",
        max_budget_usd="3",
        timeout="20m",
        max_turns="9",
        model="scripted:replies.yaml",
    )
    job.desk.environ["CI"] = "true"
    done = job.step("run")
    assert done.returncode == 0, done.stderr
    assert not list(desk.folder.rglob("pwned"))
    (log,) = (job.temp / "autopilot-home").rglob("events.jsonl")
    assert evil.removeprefix("title=").replace('"', '\\"') in log.read_text()
    assert "line 1\\nline 2" in log.read_text()
    for setting in ('"max_turns":9', '"tool":540.0', '"max_budget_usd":3', '"timeout":1200.0'):
        assert setting in log.read_text()


def test_every_output_of_the_action_is_one_of_a_step() -> None:
    """No output is promised that no step gives."""
    given = {"run": {"ending", "exit-code", "session-id", "cost", "patch"}, "papers": {"folder"}}
    named = r"\$\{\{ steps\.(\w+)\.outputs\.([\w-]+) \}\}"
    for output in ACTION["outputs"].values():
        found = re.fullmatch(named, output["value"])
        assert found is not None
        assert found[2] in given[found[1]]
    scripts = "".join(step.get("run", "") for step in ACTION["runs"]["steps"])
    assert "${{" not in scripts


@pytest.fixture
def project(desk: Desk) -> Path:
    """A project with the cron wrapper, made to find this command."""
    shutil.copy(configs.path("ci/cron/autopilot-cron.sh"), desk.folder)
    script = desk.folder / "autopilot-cron.sh"
    text = script.read_text().replace("PATH=/opt/autopilot/bin", f"PATH={SCRIPTS}", 1)
    script.write_text(text)
    (desk.folder / "key.env").write_text("ANTHROPIC_API_KEY=x\n")
    return script


def tick(desk: Desk, script: Path) -> subprocess.CompletedProcess[str]:
    """Run the wrapper with what cron gives a job."""
    return subprocess.run(
        ["/bin/sh", str(script)],
        cwd="/",
        env={"HOME": str(desk.folder), "PYTHONPATH": str(REPOSITORY), "AUTOPILOT_RETRY_S": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_cron_says_nothing_when_all_is_well(desk: Desk, project: Path) -> None:
    """A success is silent, and leaves its papers."""
    desk.script([X(WRITE), D("done")])
    desk.spec().rename(desk.folder / "autopilot.yaml")
    done = tick(desk, project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (desk.folder / "autopilot-run/patch.diff").exists()


def test_cron_tries_a_busy_provider_again_and_then_says_so(desk: Desk, project: Path) -> None:
    """Three attempts, then the last words of the run for the mail."""
    desk.script([F(503, "down")])
    desk.spec().rename(desk.folder / "autopilot.yaml")
    done = tick(desk, project)
    assert done.returncode == 75
    assert "autopilot: exit code 75" in done.stdout
    sessions = list((desk.folder / ".autopilot/session-state").iterdir())
    assert len(sessions) == 3


def test_cron_runs_one_at_a_time(desk: Desk, project: Path) -> None:
    """A second start while the first works ends at once; after it, the lock is free."""
    desk.script([D("done")])
    desk.spec().rename(desk.folder / "autopilot.yaml")
    home = desk.folder / ".autopilot"
    home.mkdir()
    with (home / "cron.lock").open("w") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        busy = tick(desk, project)
    assert (busy.returncode, "still at work" in busy.stderr) == (75, True)
    assert tick(desk, project).returncode == 0

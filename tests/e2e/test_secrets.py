"""Secrets stay out of everything a run leaves behind, says, or shows the model."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.desk import KEY, Desk, Played
from tests.servers import D, F, T, X

TOKEN = "tok/7Hq9+Zr4&Wm2=xY8vB3nK6pLdQ1"
NO_SANDBOX = {"mode": "off", "reason": "commands look at the runner's process"}
FORMS = {
    "plain": TOKEN,
    "base64": base64.b64encode(TOKEN.encode()).decode().rstrip("="),
    "url": quote(TOKEN, safe=""),
    "hex": TOKEN.encode().hex(),
    "without its first 7": TOKEN[7:],
}
SAY_ALL = """
python3 - <<'EOF'
import base64, json, os, sys, time, urllib.parse
token = os.environ["DEPLOY_TOKEN"]
print("plain", token)
print("base64", base64.b64encode(token.encode()).decode())
print("inside", base64.b64encode(("user:" + token + "@host").encode()).decode())
print("wrapped", base64.encodebytes(("x" * 50 + token * 3).encode()).decode())
print("url", urllib.parse.quote(token, safe=""))
print("json", json.dumps({"t": token}))
print("hex", token.encode().hex())
print("cut", token[7:])
sys.stdout.write(token[:11]); sys.stdout.flush(); time.sleep(0.3)
sys.stdout.write(token[11:] + "\\n"); sys.stdout.flush()
print("over")
EOF
"""


def everything(desk: Desk, played: Played) -> dict[str, str]:
    """Every text the run left: stdout, stderr, and the files of home and artifacts."""
    kept = [path for path in desk.folder.rglob("*") if path.is_file()]
    given = ("task.yaml", "replies.yaml")  # the user's own
    outside = [p for p in kept if desk.workspace not in p.parents and p.name not in given]
    texts = {
        str(path.relative_to(desk.folder)): path.read_bytes().decode("utf-8", "replace")
        for path in outside
        if "git/objects" not in str(path)
    }
    return {**texts, "stdout": played.stdout, "stderr": played.stderr}


def leaks(desk: Desk, played: Played) -> list[tuple[str, str]]:
    """Where which form of the token stands."""
    texts = everything(desk, played)
    return [(n, f) for n, text in texts.items() for f, form in FORMS.items() if form in text]


@pytest.fixture
def tokened(desk: Desk) -> Desk:
    """A desk whose tools get a token that the spec calls secret."""
    desk.environ["DEPLOY_TOKEN"] = TOKEN
    desk.defaults.update({"secrets": ["DEPLOY_TOKEN"], "env": {"pass": ["DEPLOY_TOKEN"]}})
    return desk


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json", "events"])
def test_sec9_a_printed_secret_is_masked_everywhere(tokened: Desk, output_format: str) -> None:
    """Raw, encoded, cut, wrapped, and in two writes: no form is in any file or stream."""
    options = ["--output-format", output_format, "--artifacts", str(tokened.folder / "kept")]
    if output_format in ("stream-json", "events"):
        options.append("--include-partial-messages")
    played = tokened.play([X(("Bash", {"command": SAY_ALL})), D("done")], *options)
    assert played.exit_code == 0
    assert leaks(tokened, played) == []
    (said,) = [d["result"]["content"] for d in played.of("tool.execution_complete")][:1]
    assert "plain ***" in said
    assert said.endswith("\n***\nover")


def test_sec9_a_long_output_is_masked_in_its_file_and_where_it_is_cut(tokened: Desk) -> None:
    """The kept whole of an output, and its head and tail, hold no piece of the token."""
    command = 'for i in $(seq 1 4000); do printf "%s %s\\n" "$i" "$DEPLOY_TOKEN"; done'
    played = tokened.play([X(("Bash", {"command": command})), D("done")])
    assert leaks(tokened, played) == []
    (kept,) = [d["outputFile"] for d in played.of("tool.execution_complete") if "outputFile" in d]
    lines = (played.folder / kept).read_text().splitlines()
    assert lines == [f"{number} ***" for number in range(1, 4001)]
    assert not [n for n in range(len(TOKEN) - 8) if TOKEN[n : n + 8] in str(played.log)]


def test_the_model_never_sees_a_secret(tmp_path: Path) -> None:
    """Neither the one in the prompt, nor the one in an output, nor in a file it reads."""
    desk = Desk(folder=tmp_path, wire="openai", environ={"DEPLOY_TOKEN": TOKEN})
    desk.write("notes.txt", f"the token is {TOKEN}\n")
    print_it = ("Bash", {"command": "printenv DEPLOY_TOKEN; printenv DEPLOY_TOKEN | base64 -w0"})
    played = desk.play(
        [X(print_it, ("Read", {"file_path": "notes.txt"})), D("done")],
        prompt=f"Use {TOKEN} well.",
        secrets=["DEPLOY_TOKEN"],
        env={"pass": ["DEPLOY_TOKEN"]},
    )
    sent = str(played.requests)
    assert [name for name, form in FORMS.items() if form in sent] == []
    assert "Use *** well." in sent
    assert "the token is ***" in sent
    assert "stands for a secret" in sent
    assert leaks(desk, played) == []


def test_a_provider_key_is_masked_without_being_named(tmp_path: Path) -> None:
    """It stands in an error of the provider, and in a file that the model reads."""
    desk = Desk(folder=tmp_path, wire="openai")
    desk.write("keys.env", f"KEY={KEY}\n")
    read = ("Read", {"file_path": "keys.env"})
    played = desk.play([X(read), F(401, f"the key {KEY} is wrong")])
    assert played.exit_code == 77
    assert not [name for name, text in everything(desk, played).items() if KEY in text]
    assert KEY not in str(played.requests)


def test_a_patch_holds_no_secret_and_says_so(tokened: Desk) -> None:
    """What a command wrote into a file is masked in the patch, which may then not apply."""
    command = 'echo "token=$DEPLOY_TOKEN" > config.ini'
    played = tokened.play([X(("Bash", {"command": command})), D("done")])
    assert tokened.read("config.ini") == f"token={TOKEN}\n"
    assert "+token=***" in (played.folder / "patch.diff").read_text()
    assert leaks(tokened, played) == []
    assert "secrets are masked in patch.diff, so it may not apply" in played.stderr


def test_a_check_that_prints_a_secret_is_masked(tokened: Desk) -> None:
    """Its output goes into the log and to the model without it."""
    played = tokened.play(
        [D("one"), D("two")], verify=['echo "it is $DEPLOY_TOKEN"; test -e made || ! touch made']
    )
    assert [c["passed"] for c in played.of("runner.verify_complete")] == [False, True]
    assert "it is ***" in str(played.of("runner.verify_complete"))
    assert leaks(tokened, played) == []


def test_a_resumed_run_goes_on_with_masked_text(tokened: Desk) -> None:
    """Killed after the token was printed: what was masked stays so, and the rest is masked too."""
    shown = ("Bash", {"command": "printenv DEPLOY_TOKEN"})
    wait = ("Bash", {"command": "sleep 60"})
    prompt = f"Use {TOKEN} well."
    with tokened.started([X(shown), X(wait), X(shown), D("done")], prompt=prompt) as running:
        running.wait_for("tool.execution_start", 2)
        running.process.kill()
        killed = running.finish()
    done = tokened.call("run", str(tokened.folder / "task.yaml"), "--resume", killed.folder.name)
    played = Played(
        home=tokened.home,
        workspace=tokened.workspace,
        exit_code=done.returncode,
        stdout=done.stdout,
        stderr=done.stderr,
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    told = [m["content"] for m in played.of("user.message")]
    assert told[0] == "Use *** well."
    assert not [text for text in told[1:] if "***" in text]  # the same task is not told again
    outputs = [
        d["result"]["content"] for d in played.of("tool.execution_complete") if "result" in d
    ]
    assert outputs[:2] == ["***", "***"]
    assert leaks(tokened, played) == []


@pytest.mark.parametrize(
    ("environ", "keys", "words"),
    [
        ({}, {}, "DEPLOY_TOKEN is not set, so it cannot be masked"),
        (
            {"DEPLOY_TOKEN": TOKEN},
            {"verify": [f"curl -u {TOKEN} host"]},
            "the value of DEPLOY_TOKEN stands in `verify` of the spec",
        ),
    ],
)
def test_a_secret_that_cannot_be_kept_is_refused(
    desk: Desk, environ: dict[str, str], keys: dict[str, object], words: str
) -> None:
    """Exit 78 before any model call, naming the variable and never its value."""
    desk.environ.update(environ)
    played = desk.play([], secrets=["DEPLOY_TOKEN"], **keys)
    assert played.exit_code == 78
    assert words in played.stderr
    assert leaks(desk, played) == []


@pytest.mark.parametrize("value", ["abc12", "production", "workspace", "zzzzzzzz"])
def test_sec11_what_is_no_secret_is_not_masked_and_that_is_said(desk: Desk, value: str) -> None:
    """A short value, a common word, a word of our own records: a warning, and a useful log."""
    desk.environ["STAGE"] = value
    command = ("Bash", {"command": "echo stage $STAGE"})
    played = desk.play([X(command), D("done")], secrets=["STAGE"], env={"pass": ["STAGE"]})
    assert played.exit_code == 0
    assert f"stage {value}" in str(played.of("tool.execution_complete"))
    assert "STAGE is not masked: its value" in played.stderr


CI_SECRETS = {
    "GITHUB_TOKEN": "ghs-canary",
    "GITHUB_ENV": "/tmp/canary-env",
    "GITHUB_OUTPUT": "/tmp/canary-output",
    "GITHUB_PATH": "/tmp/canary-path",
    "GITHUB_STEP_SUMMARY": "/tmp/canary-summary",
    "ACTIONS_RUNTIME_TOKEN": "canary-runtime",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "http://canary",
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
    "CI_JOB_TOKEN": "canary-job",
    "OPENAI_API_KEY": "canary-openai",
    "BASH_ENV": "/tmp/canary-bash-env",
}


def test_sec1_commands_see_no_variable_they_were_not_given(desk: Desk) -> None:
    """`env`, `set` and `export -p` show the allowed names, and nothing of a CI job's."""
    desk.environ.update({**CI_SECRETS, "LC_TIME": "C", "TZ": "UTC", "GREETING": "hi"})
    command = ("Bash", {"command": "env; set; export -p"})
    played = desk.play([X(command), D("done")], env={"pass": ["GREETING"], "set": {"MINE": "yes"}})
    (output,) = [d["result"]["content"] for d in played.of("tool.execution_complete")][:1]
    assert not [name for name in CI_SECRETS if f"{name}=" in output]
    assert "canary" not in output
    for given in ("LC_TIME=C", "TZ=UTC", "GREETING=hi", "MINE=yes", "AUTOPILOT_SESSION="):
        assert given in output


@pytest.mark.parametrize(
    "line",
    [
        "env: {pass: [GITHUB_STEP_SUMMARY]}",
        "env: {set: {GITHUB_ENV: /tmp/x}}",
        "env: {set: {ACTIONS_RUNTIME_TOKEN: x}}",
        "env: {pass: [OPENAI_API_KEY]}",
        "env: {set: {ANTHROPIC_API_KEY: x}}",
        "env: {set: {MY_KEY: x}}\napi_key_env: MY_KEY",
    ],
)
def test_sec1_no_spec_can_give_them_away(desk: Desk, line: str) -> None:
    """Naming one in `env` is an error with its line; nothing runs."""
    spec = desk.folder / "task.yaml"
    spec.write_text(f"name: t\nprompt: p\nmodel: scripted:replies.yaml\n{line}\n")
    desk.script([])
    done = desk.call("run", str(spec))
    assert done.returncode == 2
    assert "task.yaml:4: env." in done.stderr
    assert "tools never get" in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        ("Read", {"file_path": "/proc/self/environ"}),
        ("Grep", {"pattern": "KEY", "path": "/proc"}),
        ("Glob", {"pattern": "*", "path": "/proc/self"}),
    ],
)
def test_sec3_file_tools_refuse_proc(desk: Desk, call: tuple[str, dict[str, str]]) -> None:
    """Also when a link in the workspace leads there; no spec can add it to the roots."""
    (desk.workspace / "link").symlink_to("/proc")
    linked = {key: value.replace("/proc", "link") for key, value in call[1].items()}
    played = desk.play([X((call[0], linked)), D("done")], permission_mode="default")
    assert "system path" in played.tool_errors()[0]
    refused = desk.call("validate", str(desk.spec(add_dirs=["/proc"])))
    assert (refused.returncode, "a folder of the kernel" in refused.stderr) == (2, True)
    desk = Desk(folder=desk.folder / "again")
    played = desk.play([X(call), D("done")], permission_mode="default")
    (error,) = played.tool_errors()
    assert "/proc" in error


def test_sec5_commands_inherit_no_descriptor(desk: Desk) -> None:
    """A program that Bash starts has standard input, output and error, and nothing else."""
    command = ("Bash", {"command": "python3 -c 'import os; print(os.listdir(\"/proc/self/fd\"))'"})
    played = desk.play([X(command), D("done")])
    (output,) = [d["result"]["content"] for d in played.of("tool.execution_complete")][:1]
    assert output == "['0', '1', '2', '3']"  # 3 is the listing's own


def test_sec13_what_a_run_keeps_is_its_users_alone(tokened: Desk) -> None:
    """Folders 0700 and files 0600, whatever the umask."""
    command = ("Bash", {"command": "seq 1 20000"})
    tokened.script([X(command), D("done")])
    before = os.umask(0)
    try:
        assert tokened.call("run", str(tokened.spec())).returncode == 0
    finally:
        os.umask(before)
    (folder,) = (tokened.home / "session-state").iterdir()
    paths = [folder, *(path for path in folder.rglob("*") if "git" not in path.parts)]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert not {name: oct(mode) for name, mode in modes.items() if mode & 0o077}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_runners_own_environment_holds_no_key(tokened: Desk) -> None:
    """Not even root reads it from `/proc`: the name is there, and behind it nothing."""
    tokened.environ["SOME_API_KEY"] = "canary-of-a-provider"
    look = (
        "tr '\\0' '\\n' < /proc/$PPID/environ > seen 2>/dev/null; "
        "grep -c '^PATH=.' seen; grep -cE '^(SOME_API_KEY|DEPLOY_TOKEN)=.' seen"
    )
    played = tokened.play([X(("Bash", {"command": look})), D("done")], sandbox=NO_SANDBOX)
    outputs = [*played.tool_errors(), *map(str, played.of("tool.execution_complete"))]
    readable = os.geteuid() == 0
    assert ("1\n0" if readable else "0\n0") in outputs[0].replace("\\n", "\n")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_runner_belongs_to_nobody_of_its_user() -> None:
    """Its `/proc` entries are root's, so that a command of its user reads no memory of it."""
    home = Path("/tmp") / f"autopilot-undumpable-{os.getpid()}"  # open to another user
    desk = Desk(folder=home)
    try:
        desk.script([X(("Bash", {"command": "stat -c %u /proc/$PPID/mem"})), D("done")])
        spec = desk.spec(sandbox=NO_SANDBOX)
        command = desk.command("run", str(spec), "--output-format", "events")
        if os.geteuid() == 0:
            for path in [home, *home.rglob("*")]:
                os.chown(path, 65534, 65534)
            command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
        done = subprocess.run(
            command,
            cwd=home,
            env=desk.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        shutil.rmtree(home)
    assert '"content":"0"' in done.stdout, done.stderr


def test_a_reply_in_pieces_is_masked_across_them(tokened: Desk) -> None:
    """The pieces on the live stream add up to the masked reply."""
    options = ("--output-format", "stream-json", "--include-partial-messages")
    played = tokened.play([T(f"I say {TOKEN} and {TOKEN[:20]} twice"), D("done")], *options)
    deltas = [m["event"]["delta"] for m in played.stream if "delta" in m.get("event", {})]
    text = "".join(delta.get("text", "") for delta in deltas)
    assert text == "I say *** and *** twice"
    assert leaks(tokened, played) == []


def test_a_recovered_patch_is_masked_or_not_made(tokened: Desk) -> None:
    """After a kill: without the secret's value there is no patch, with it there is a masked one."""
    write = ("Bash", {"command": 'echo "token=$DEPLOY_TOKEN" > config.ini'})
    with tokened.started([X(write), X(("Bash", {"command": "sleep 60"}))]) as running:
        running.wait_for("tool.execution_start", 2)
        running.process.kill()
        killed = running.finish()
    recover = ("log", "recover", killed.folder.name)
    del tokened.environ["DEPLOY_TOKEN"]
    without = tokened.call(*recover)
    assert "not made: set DEPLOY_TOKEN" in without.stdout
    assert not (killed.folder / "patch.diff").exists()
    tokened.environ["DEPLOY_TOKEN"] = TOKEN
    assert "secrets are masked in it" in tokened.call(*recover).stdout
    assert "+token=***" in (killed.folder / "patch.diff").read_text()
    assert leaks(tokened, killed) == []

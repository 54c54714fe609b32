"""Hooks of the spec: they deny, allow, change, add, stop, and are told of everything."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import Desk, Played
from tests.servers import D, T, Tool, X

pytestmark = pytest.mark.warm

WRITE = ("Write", {"file_path": "made.txt", "content": "yes\n"})
READ = ("Read", {"file_path": "README.md"})
LS = ("Bash", {"command": "ls"})


def answer(**fields: Any) -> str:
    """A command that prints this answer."""
    return f"echo '{json.dumps(fields)}'"


def special(event: str, **fields: Any) -> str:
    """A command that prints what is particular to an event."""
    return answer(hookSpecificOutput={"hookEventName": event, **fields})


def on(event: str, *commands: str | Mapping[str, Any], matcher: str = "") -> dict[str, Any]:
    """The `hooks` of a spec: these commands at one event."""
    entries = [{"command": c} if isinstance(c, str) else dict(c) for c in commands]
    return {event: [{"matcher": matcher, "hooks": entries}]}


def recorder(*events: str) -> dict[str, Any]:
    """Hooks that append what they are told to `told` beside the workspace."""
    return {event: on(event, "cat >> ../told")[event] for event in events}


def told(desk: Desk) -> list[dict[str, Any]]:
    """What the recorders were told, in order."""
    path = desk.folder / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def results(played: Played) -> list[str]:
    """What the model was told of its calls, by the log's errors and contents."""
    found = played.of("tool.execution_complete")
    return [f["error"]["message"] if "error" in f else f["result"]["content"] for f in found]


def texts(request: Mapping[str, Any]) -> str:
    """Everything a request to an OpenAI-like server says."""
    return json.dumps(request["messages"], ensure_ascii=False)


# -- PreToolUse ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hook",
    [
        "echo no such thing today >&2; exit 2",
        special(
            "PreToolUse",
            permissionDecision="deny",
            permissionDecisionReason="no such thing today",
        ),
        answer(decision="block", reason="no such thing today"),
    ],
)
def test_a_hook_denies_a_call(desk: Desk, hook: str) -> None:
    """The tool is not run, the model reads why, and the denial is counted everywhere."""
    played = desk.play([X(WRITE), D("done")], hooks=on("PreToolUse", hook, matcher="Write"))
    assert (played.exit_code, desk.read("made.txt")) == (0, None)
    assert "no such thing today" in results(played)[0]
    denials = [(d["tool_name"], d["tool_input"]) for d in played.result["permission_denials"]]
    assert denials == [WRITE]
    decided = played.of("permission.completed")[0]["result"]
    assert decided["kind"] == "denied-by-permission-request-hook"
    order = [t for t in played.types if t.startswith(("hook.", "permission.", "tool."))][:6]
    assert order == [
        "hook.start",
        "hook.end",
        "permission.requested",
        "permission.completed",
        "tool.execution_start",
        "tool.execution_complete",
    ]


def test_any_other_exit_code_is_a_warning(desk: Desk) -> None:
    """The call runs; a person sees which hook failed, and how."""
    hooks = on("PreToolUse", "echo out of luck >&2; exit 1")
    played = desk.play([X(WRITE), D("done")], hooks=hooks)
    assert (played.exit_code, desk.read("made.txt")) == (0, "yes\n")
    warning = next(w for w in played.of("session.warning") if w["warningType"] == "hook_error")
    assert "exit code 1: out of luck" in warning["message"]
    assert "out of luck" in played.stderr
    end = played.of("hook.end")[0]
    assert (end["success"], end["outcome"], end["exitCode"]) == (False, "error", 1)


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("exit 1", "exit code 1"),
        ("sleep 30", "longer than its limit"),
        ("echo '{not json'", "not JSON"),
        (special("PreToolUse", permissionDecision="maybe"), "maybe"),
    ],
)
def test_a_hook_that_must_not_fail_blocks_when_it_does(desk: Desk, hook: str, why: str) -> None:
    """`fail_closed`: a failure, a time-out and an unusable answer all deny the call."""
    closed = {"command": hook, "fail_closed": True, "timeout": "300ms"}
    played = desk.play([X(WRITE), D("done")], hooks=on("PreToolUse", closed))
    assert (played.exit_code, desk.read("made.txt")) == (0, None)
    assert why in results(played)[0]


def test_a_hook_that_takes_too_long_decides_nothing(desk: Desk) -> None:
    """It is killed at `limits.hook`, with what it started, and the call runs."""
    hooks = on("PreToolUse", "sleep 61 & sleep 62")
    played = desk.play([X(WRITE), D("done")], hooks=hooks, limits={"hook": "200ms"})
    assert (played.exit_code, desk.read("made.txt")) == (0, "yes\n")
    assert played.of("hook.end")[0]["outcome"] == "timeout"


def test_a_hook_changes_the_input(desk: Desk) -> None:
    """`updatedInput` is what the tool gets; what the model asked for stays as it was."""
    changed = {**WRITE[1], "content": "by the hook\n"}
    hooks = on("PreToolUse", special("PreToolUse", updatedInput=changed), matcher="Write")
    played = desk.play([X(WRITE), D("done")], hooks=hooks)
    assert (played.exit_code, desk.read("made.txt")) == (0, "by the hook\n")
    assert played.of("tool.execution_start")[0]["arguments"] == changed
    assert played.of("assistant.message")[0]["toolRequests"][0]["arguments"] == WRITE[1]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"file_path": 7}, "a hook changed what you asked for"),
        ({"file_path": "secret.txt", "content": "x"}, "Edit(secret.txt)"),
    ],
)
def test_a_changed_input_is_judged_like_any_other(
    desk: Desk, changed: dict[str, Any], why: str
) -> None:
    """It has to fit the schema, and a rule may deny it although the hook allows it."""
    hook = special("PreToolUse", permissionDecision="allow", updatedInput=changed)
    played = desk.play(
        [X(WRITE), D("done")],
        hooks=on("PreToolUse", hook),
        disallowed_tools=["Edit(secret.txt)"],
    )
    assert why in results(played)[0]
    assert desk.read("secret.txt") is None


def test_what_a_hook_allows_needs_no_rule_but_bows_to_one(desk: Desk) -> None:
    """Mode default: Write runs since the hook allows it, Bash does not since a rule denies it."""
    hooks = on("PreToolUse", special("PreToolUse", permissionDecision="allow"))
    played = desk.play(
        [X(WRITE, ("Bash", {"command": "touch ran"})), D("done")],
        hooks=hooks,
        permission_mode="default",
        allowed_tools=[],
        disallowed_tools=["Bash(touch *)"],
    )
    assert (desk.read("made.txt"), desk.read("ran")) == ("yes\n", None)
    assert [d["tool_name"] for d in played.result["permission_denials"]] == ["Bash"]


def test_deny_wins_over_ask_over_allow(desk: Desk) -> None:
    """Three hooks run together; the strictest decides, and all are on the log."""
    decisions = ("allow", "deny", "ask")
    commands = [special("PreToolUse", permissionDecision=d) for d in decisions]
    played = desk.play([X(WRITE), D("done")], hooks=on("PreToolUse", *commands))
    assert desk.read("made.txt") is None
    assert "a PreToolUse hook denies it" in results(played)[0]
    assert [end["output"]["decision"] for end in played.of("hook.end")].count("allow") == 1
    assert len(played.of("hook.start")) == 3


def test_matchers_and_rules_say_which_calls_a_hook_is_about(desk: Desk) -> None:
    """Names, a regular expression, and a rule that looks into the command."""
    hooks = {
        "PreToolUse": [
            {"matcher": "Edit|Write", "hooks": [{"command": "echo names >> ../ran"}]},
            {"matcher": "^Ba", "hooks": [{"command": "echo expression >> ../ran"}]},
            {"hooks": [{"command": "echo rule >> ../ran", "if": "Bash(git *)"}]},
        ]
    }
    calls = (WRITE, ("Bash", {"command": "ls"}), ("Bash", {"command": "true && git --version"}))
    desk.play([X(call) for call in calls] + [D("done")], hooks=hooks)
    ran = (desk.folder / "ran").read_text().split()
    assert sorted(ran) == ["expression", "expression", "names", "rule"]


# -- after a call --------------------------------------------------------------------------------


def test_hooks_after_a_call_add_to_its_result(desk: Desk) -> None:
    """Context, an objection and a new output are what the model gets; the log keeps both."""
    desk.wire = "openai"
    hooks = on(
        "PostToolUse",
        special("PostToolUse", additionalContext="it is Tuesday", updatedToolOutput="changed"),
        "echo not like this >&2; exit 2",
        matcher="Write",
    )
    played = desk.play([X(WRITE), D("done")], hooks=hooks)
    assert played.exit_code == 0
    said = texts(played.requests[1])
    for words in ("changed", "it is Tuesday", "not like this"):
        assert words in said
    assert "changed" not in results(played)[0]


def test_a_failed_call_has_an_event_of_its_own(desk: Desk) -> None:
    """PostToolUseFailure with the error, PostToolUse with the answer; neither for a denied one."""
    calls = [X(("Read", {"file_path": "nowhere"})), X(READ), X(("Bash", {"command": "make x"}))]
    desk.play(
        [*calls, D("done")],
        hooks=recorder("PostToolUse", "PostToolUseFailure"),
        allowed_tools=[],
    )
    failed, fine = told(desk)
    assert (failed["hook_event_name"], "nowhere" in failed["error"]) == ("PostToolUseFailure", True)
    assert "A small project" in fine["tool_response"]["content"]
    assert (fine["tool_name"], fine["tool_input"]) == READ


# -- prompt and start ----------------------------------------------------------------------------


def test_text_of_prompt_and_start_hooks_reaches_the_model(desk: Desk) -> None:
    """Plain text on stdout is context in the first request, after the prompt."""
    desk.wire = "openai"
    hooks = on("UserPromptSubmit", "echo the branch is main") | on("SessionStart", "echo hello")
    played = desk.play([D("done")], hooks=hooks)
    said = texts(played.requests[0])
    assert said.index("Do it.") < said.index("hello") < said.index("the branch is main")


def test_a_rejected_prompt_is_never_asked(desk: Desk) -> None:
    """Exit 1, hook_stopped, no request; the same prompt may be given again."""
    hooks = on("UserPromptSubmit", "echo not on Fridays >&2; exit 2")
    played = desk.play([D("done")], hooks=hooks)
    assert (played.exit_code, played.result["error_type"]) == (1, "hook_stopped")
    assert "not on Fridays" in played.result["errors"][0]
    assert "assistant.turn_start" not in played.types
    assert "user.message" not in played.types


def test_prompt_hooks_do_not_fire_for_nudges(desk: Desk) -> None:
    """One prompt, one event, however often the model is told to go on."""
    desk.play([T("Hm."), T("Well."), D("done")], hooks=recorder("UserPromptSubmit"))
    assert [(one["hook_event_name"], one["prompt"]) for one in told(desk)] == [
        ("UserPromptSubmit", "Do it.")
    ]


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"])
def test_continue_false_ends_the_run(desk: Desk, event: str) -> None:
    """Whatever else was decided: exit 1, hook_stopped, with the hook's reason; SessionEnd runs."""
    stop = answer(**{"continue": False, "stopReason": "the quota is used up"})
    hooks = on(event, stop) | recorder("SessionEnd")
    played = desk.play([X(WRITE), D("done")], hooks=hooks)
    assert (played.exit_code, played.result["error_type"]) == (1, "hook_stopped")
    assert "the quota is used up" in played.result["errors"][0]
    assert (desk.read("made.txt") is None) == (event != "PostToolUse")
    assert [(end["hook_event_name"], end["exit_code"]) for end in told(desk)] == [("SessionEnd", 1)]


# -- stopping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("autopilot", [True, False])
def test_a_stop_hook_forces_more_work_eight_times(desk: Desk, autopilot: bool) -> None:
    """It always blocks: eight blocks are obeyed, the ninth is ignored and the run ends well."""
    hooks = on("Stop", "cat >> ../told; echo once more >&2; exit 2")
    end = D("done") if autopilot else T("done")
    played = desk.play([end] * 9, hooks=hooks, autopilot=autopilot)
    assert (played.exit_code, played.result["num_llm_calls"]) == (0, 9)
    assert [one["stop_hook_active"] for one in told(desk)] == [False] + [True] * 8
    assert told(desk)[0]["last_assistant_message"] == "done"
    said = [m["content"] for m in played.of("user.message") if m.get("source") == "stop_hook"]
    assert len(said) == 8
    assert "once more" in said[0]
    assert "hook_limit" in [w["warningType"] for w in played.of("session.warning")]


def test_stop_hooks_are_asked_only_on_the_way_to_success(desk: Desk) -> None:
    """Not at a cap, not when the model is blocked."""
    played = desk.play([X(READ)] * 2, hooks=recorder("Stop", "SessionEnd"), max_turns=1)
    assert (played.exit_code, [one["hook_event_name"] for one in told(desk)]) == (3, ["SessionEnd"])


def test_checks_are_run_again_after_a_stop_hook_asked_for_more(desk: Desk) -> None:
    """Earlier passes use up no attempt of the checks, which judge again what the hook left."""
    hooks = on("Stop", "test -e made.txt || { echo make it >&2; exit 2; }")
    played = desk.play(
        [D("done"), X(WRITE), D("made")],
        hooks=hooks,
        verify=["true"],
        limits={"max_verify_attempts": 1},
    )
    assert (played.exit_code, played.result["result"]) == (0, "made")
    assert played.types.count("runner.verify_complete") == 3


@pytest.mark.parametrize("autopilot", [True, False])
def test_what_a_stop_hook_leaves_has_to_pass_the_checks(desk: Desk, autopilot: bool) -> None:
    """A hook that breaks the work after the checks: they run again, and the model hears of it.

    Hooks are asked once for each time the model is done.
    """
    script = "echo asked >> ../asked; test -e ../broke || { touch ../broke; rm made.txt; }"
    hooks = on("Stop", script)
    end = D("made") if autopilot else T("made")
    played = desk.play(
        [X(WRITE), end, X(WRITE), end],
        hooks=hooks,
        verify=["test -e made.txt"],
        autopilot=autopilot,
    )
    assert (played.exit_code, desk.read("made.txt") is None) == (0, False)
    passed = [judged["passed"] for judged in played.of("runner.verify_complete")]
    assert passed == [True, False, True, True]
    assert played.result["verification"]["status"] == "passed"
    assert (desk.folder / "asked").read_text() == "asked\n" * 2
    told = [m["content"] for m in played.of("user.message") if m.get("source") == "verify"]
    assert len(told) == 1


def test_a_stop_hook_that_always_breaks_the_work_ends_red(desk: Desk) -> None:
    """As often as the checks may fail, and no longer."""
    hooks = on("Stop", "rm -f made.txt")
    played = desk.play([X(WRITE), D("made")] * 3, hooks=hooks, verify=["test -e made.txt"])
    assert (played.exit_code, played.result["error_type"]) == (8, "check_failed")
    assert played.result["verification"]["status"] == "failed"


def test_a_stop_hook_can_fail_the_run(desk: Desk) -> None:
    """`continue: false` after an accepted completion: the run is no success."""
    hooks = on("Stop", answer(**{"continue": False, "stopReason": "the licence is missing"}))
    played = desk.play([D("done")], hooks=hooks)
    assert (played.exit_code, played.result["error_type"]) == (1, "hook_stopped")


# -- every event, its payload and its surroundings -----------------------------------------------


def test_a_recorder_sees_each_event_once(desk: Desk) -> None:
    """With session, folder, event and log; the log is really there."""
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
    played = desk.play([X(READ), D("done")], hooks=recorder(*events))
    seen = told(desk)
    assert [one["hook_event_name"] for one in seen] == list(events)
    for one in seen:
        assert one["session_id"] == played.result["session_id"]
        assert one["cwd"] == str(desk.workspace)
        assert one["permission_mode"] == "acceptEdits"
        assert Path(one["transcript_path"]).name == "events.jsonl"
        assert Path(one["transcript_path"]).exists()
    assert (seen[0]["source"], seen[-1]["reason"], seen[-1]["exit_code"]) == ("startup", "other", 0)


def test_somebody_can_be_notified_of_a_denial(desk: Desk) -> None:
    """A call that no rule allows: Notification of type permission_prompt."""
    hooks = recorder("Notification")
    desk.play([X(LS), X(("Bash", {"command": "make x"})), D("done")], hooks=hooks, allowed_tools=[])
    assert [(one["notification_type"], "Bash" in one["message"]) for one in told(desk)] == [
        ("permission_prompt", True)
    ]


def test_hooks_see_the_environment_of_tools_and_where_they_are(desk: Desk) -> None:
    """No key of a provider, and the documented variables; they run in the workspace."""
    desk.wire = "openai"
    desk.play([D("done")], hooks=on("SessionStart", "env > ../seen; pwd >> ../seen"))
    seen = (desk.folder / "seen").read_text()
    assert f"CLAUDE_PROJECT_DIR={desk.workspace}\n" in seen
    assert f"AUTOPILOT_WORKSPACE={desk.workspace}\n" in seen
    assert "AUTOPILOT_HOOK_EVENT=SessionStart\n" in seen
    assert seen.endswith(f"{desk.workspace}\n")
    assert "OPENAI_API_KEY" not in seen


def test_hooks_are_behind_the_wall_of_tools(desk: Desk) -> None:
    """In a sandbox a hook writes into the workspace and nowhere else, and still decides."""
    hook = "touch inside; touch ../outside; cat > told; echo no >&2; exit 2"
    played = desk.play(
        [X(WRITE), D("done")], hooks=on("PreToolUse", hook), sandbox={"mode": "auto"}
    )
    if played.result["sandbox"] == "process":
        pytest.skip("no tier of the sandbox can be had here")
    assert (desk.read("inside"), desk.read("made.txt")) == ("", None)
    assert json.loads(desk.read("told") or "")["tool_name"] == "Write"
    assert not (desk.folder / "outside").exists()
    assert played.result["permission_denials"]


def test_silent_hooks_cost_no_context(tmp_path: Path) -> None:
    """Hooks that print nothing: every request is, byte for byte, that of a run without hooks."""
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
    requests = []
    for name, hooks in (("plain", None), ("hooked", recorder(*events))):
        desk = Desk(folder=tmp_path / name, wire="openai")
        read = Tool(name=READ[0], arguments=READ[1], id="call_1")
        steps = [X(read), T("Hm."), D("done")]
        requests.append(desk.play(steps, hooks=hooks, system_prompt="Be careful.").requests)
        assert len(told(desk)) == (0 if hooks is None else 5)
    assert requests[0] == requests[1]


def test_the_repositorys_own_hooks_do_not_load(desk: Desk) -> None:
    """A settings file of the workspace runs nothing: only the spec names hooks."""
    settings = {"hooks": on("SessionStart", "touch ../loaded")}
    desk.write(".claude/settings.json", json.dumps(settings))
    desk.play([D("done")])
    assert not (desk.folder / "loaded").exists()


# -- mistakes found before anything is paid ------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("./check.sh", ("check.sh is not executable", "chmod +x")),
        ('"$CLAUDE_PROJECT_DIR"/nowhere.sh', ("nowhere.sh is not there", "correct the path")),
        ("no-such-program --all", ("`no-such-program` is not on PATH", "install it")),
        ("python3 nowhere.py", ("nowhere.py is not there",)),
    ],
)
def test_a_hook_that_cannot_run_is_found_at_preflight(
    desk: Desk, command: str, words: tuple[str, ...]
) -> None:
    """Exit 78 with its event, its command and the remedy; no call was made, no hook ran."""
    desk.write("check.sh", "#!/bin/sh\n")
    hooks = on("PreToolUse", command) | recorder("SessionStart", "SessionEnd")
    played = desk.play([D("done")], hooks=hooks)
    assert (played.exit_code, played.result["error_type"]) == (78, "preflight")
    for word in (*words, "PreToolUse"):
        assert word in played.result["errors"][0]
    assert ("assistant.turn_start" in played.types, told(desk)) == (False, [])


# -- killed and resumed --------------------------------------------------------------------------


def test_a_kill_during_a_hook_loses_nothing(desk: Desk) -> None:
    """The hook is asked again, the one that had answered is not, and the call runs once."""
    first = "echo first >> ../ran"
    second = "echo second >> ../ran; test -e ../killed || sleep 30"
    hooks = on("PreToolUse", first, second, matcher="Write")
    with desk.started([X(WRITE), D("done")], "--session-id", "s1", hooks=hooks) as running:
        running.wait_until(lambda: "hook.end" in running.types, "the first hook's answer")
        running.send(signal.SIGKILL)
        running.finish()
    (desk.folder / "killed").touch()
    spec = str(desk.folder / "task.yaml")
    done = desk.call("run", spec, "--resume", "s1", "--output-format", "json")
    assert (done.returncode, desk.read("made.txt")) == (0, "yes\n")
    ran = (desk.folder / "ran").read_text().split()
    assert (ran.count("first"), ran.count("second")) == (1, 2)
    outcomes = [end["outcome"] for end in running.of("hook.end")]
    assert outcomes == ["success", "cancelled", "success"]


def test_a_stopped_run_ends_its_hooks(desk: Desk) -> None:
    """SIGTERM while a hook runs: exit 143, the hook is recorded as cancelled and not left over."""
    hooks = on("PreToolUse", "sleep 63")
    with desk.started([X(WRITE), D("done")], hooks=hooks) as running:
        running.wait_for("hook.start")
        running.send(signal.SIGTERM)
        played = running.finish_checked()
    assert played.exit_code == 143
    assert [end["outcome"] for end in played.of("hook.end")] == ["cancelled"]
    assert played.result["survivors"] == []


def test_the_deadline_ends_hooks_too(desk: Desk) -> None:
    """`timeout` cuts a hook of the start short: exit 9."""
    played = desk.play([D("done")], hooks=on("SessionStart", "sleep 64"), timeout="500ms")
    assert played.exit_code == 9


# -- the stream ----------------------------------------------------------------------------------


def test_hook_messages_on_the_stream(tmp_path: Path) -> None:
    """Those of the start always, and before init; the others with `--include-hook-events`."""
    hooks = on("SessionStart", "echo hello") | on("PreToolUse", "true")
    seen = {}
    for options in ((), ("--include-hook-events",)):
        desk = Desk(folder=tmp_path / f"desk{len(options)}")
        stream = ("--output-format", "stream-json", *options)
        played = desk.play([X(READ), D("done")], *stream, hooks=hooks)
        seen[options] = [
            (m["subtype"], m.get("hook_event"))
            for m in played.stream
            if m["type"] == "system" and m["subtype"] in ("hook_started", "hook_response", "init")
        ]
    start = [("hook_started", "SessionStart"), ("hook_response", "SessionStart"), ("init", None)]
    assert seen[()] == start
    more = [("hook_started", "PreToolUse"), ("hook_response", "PreToolUse")]
    assert seen["--include-hook-events",] == start + more

"""Claude's Agent SDK as our client: it starts the installed command and reads its stream."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ProcessError,
    ResultError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolPermissionContext,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
)
from claude_agent_sdk._internal.transport import subprocess_cli

from runner.cli.claude import claude
from tests.e2e.desk import CENT, MODELS, PATIENCE_S, Desk
from tests.servers import D, ModelServer, T, X

HELLO = {"type": "user", "message": {"role": "user", "content": "hello"}}


def options_of(desk: Desk, server: ModelServer | None, **keys: Any) -> ClaudeAgentOptions:
    """How a host program starts us on this desk: cwd, model and rules by the SDK's own options."""
    more = dict(keys.pop("extra_args", {}))
    base: dict[str, Any] = {
        "cli_path": desk.command()[0],
        "cwd": desk.workspace,
        "env": {**desk.environment(), **keys.pop("env", {})},
        "allowed_tools": ["Bash(echo *)", "Bash(touch *)", "Bash(sleep *)"],
    }
    if server is not None:
        desk.wire = desk.wire or "anthropic"
        desk.spec(model=MODELS[desk.wire], api_base=server.base_url, pricing=CENT, autopilot=False)
        more["spec"] = str(desk.folder / "task.yaml")
        base["env"] = {**desk.environment(), **base["env"]}
    else:
        base["model"] = f"scripted:{desk.folder / 'replies.yaml'}"
        more["set"] = "sandbox={mode: off, reason: a test}"
    return ClaudeAgentOptions(**{**base, **keys, "extra_args": more})


def asked(prompt: str, options: ClaudeAgentOptions) -> list[Any]:
    """Every message of one `query()`; what it raises comes last."""

    async def collect() -> list[Any]:
        found: list[Any] = []
        try:
            async for message in query(prompt=prompt, options=options):
                found.append(message)  # kept when it raises
        except Exception as error:
            found.append(error)
        return found

    return asyncio.run(collect())


def talked(
    options: ClaudeAgentOptions, talk: Callable[[ClaudeSDKClient], Awaitable[list[Any]]]
) -> list[Any]:
    """What a conversation with a client gives."""

    found: list[Any] = []

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), ClaudeSDKClient(options=options) as client:
            found.extend(await talk(client))

    asyncio.run(run())
    return found


async def answer(client: ClaudeSDKClient, prompt: str) -> list[Any]:
    """All messages up to the result of one prompt."""
    await client.query(prompt)
    return [message async for message in client.receive_response()]


def until_there(path: Path) -> None:
    """Wait for a file."""
    ends_at = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def test_query_completes_a_run_against_the_model(desk: Desk) -> None:
    """Messages of the SDK's classes in its order, and a result with cost and turns."""
    with ModelServer(
        wire="anthropic", steps=[X(("Bash", {"command": "echo hi"})), T("All done.")]
    ) as server:
        messages = asked("Say hi.", options_of(desk, server, max_turns=4, max_budget_usd=1.0))
    kinds = [type(message) for message in messages]
    assert kinds == [SystemMessage, AssistantMessage, UserMessage, AssistantMessage, ResultMessage]
    init, call, _, said, result = messages
    assert (init.subtype, init.data["model"]) == ("init", MODELS["anthropic"])
    assert "Bash" in init.data["tools"]
    assert [type(block) for block in call.content] == [ToolUseBlock]
    assert [block.text for block in said.content if isinstance(block, TextBlock)] == ["All done."]
    assert (result.subtype, result.result, result.num_turns) == ("success", "All done.", 2)
    assert result.total_cost_usd > 0
    assert result.session_id == init.data["session_id"]
    sent = [json.dumps(request.body) for request in server.requests]
    assert "Say hi." in sent[0]
    assert "Do it." not in sent[0]


def test_a_client_has_two_prompts_an_interrupt_and_a_mode(desk: Desk) -> None:
    """In one session: each with its result; what runs is stopped, and the next goes on."""
    slow = X(("Bash", {"command": "touch on; sleep 300"}))
    write = X(("Write", {"file_path": "new", "content": "x"}))
    desk.script([T("one"), T("two"), slow, T("after"), write, T("no")])

    async def talk(client: ClaudeSDKClient) -> list[Any]:
        first, second = await answer(client, "first"), await answer(client, "second")
        await client.query("third")
        await asyncio.to_thread(until_there, desk.workspace / "on")
        with pytest.raises(Exception, match="between prompts only"):
            await client.set_permission_mode("plan")
        await client.interrupt()
        third = [message async for message in client.receive_response()]
        fourth = await answer(client, "fourth")
        await client.set_permission_mode("plan")
        return [first, second, third, fourth, await answer(client, "fifth")]

    rounds = talked(options_of(desk, None), talk)
    results = [messages[-1] for messages in rounds]
    assert [result.result for result in results] == ["one", "two", None, "after", "no"]
    assert results[2].subtype == "error_during_execution"
    assert results[2].errors == ["Cancelled by the program that has it run"]
    assert len({result.session_id for result in results}) == 1
    assert [r[0].data["permissionMode"] for r in rounds[3:]] == ["default", "plan"]
    assert [denied["tool_name"] for denied in results[4].permission_denials] == ["Write"]


def test_a_query_goes_on_with_a_session(desk: Desk) -> None:
    """By its id, as the newest of the workspace, and as a copy of it."""
    desk.script([T("one"), T("two"), T("three"), T("four")])
    one = asked("a", options_of(desk, None))[-1]
    two = asked("b", options_of(desk, None, resume=one.session_id))[-1]
    three = asked("c", options_of(desk, None, continue_conversation=True))[-1]
    copy = asked("d", options_of(desk, None, resume=one.session_id, fork_session=True))[-1]
    assert [r.result for r in (one, two, three, copy)] == ["one", "two", "three", "four"]
    assert one.session_id == two.session_id == three.session_id != copy.session_id


def test_a_cap_is_a_result_and_then_an_error(desk: Desk) -> None:
    """As the SDK has it for a single prompt: the result is yielded, then raised."""
    look = X(("Bash", {"command": "echo x"}))
    desk.script([look, look])
    *_, result, error = asked("a", options_of(desk, None, max_turns=1))
    assert isinstance(result, ResultMessage)
    assert (result.subtype, result.is_error) == ("error_max_turns", True)
    assert isinstance(error, ResultError)
    assert error.exit_code == 3


def test_partial_messages_come_when_they_are_asked_for(desk: Desk) -> None:
    """Their text adds up to the answer."""
    with ModelServer(wire="anthropic", steps=[T("in several pieces")]) as server:
        messages = asked("a", options_of(desk, server, include_partial_messages=True))
    deltas = [m.event.get("delta", {}) for m in messages if isinstance(m, StreamEvent)]
    assert "".join(delta.get("text", "") for delta in deltas) == "in several pieces"


def test_options_of_the_sdk_become_keys_of_the_task(desk: Desk) -> None:
    """The resolved spec on the log says what each set; an empty system prompt leaves ours."""
    desk.script([T("x")])
    schema = {"type": "object", "required": ["a"]}
    options = options_of(
        desk,
        None,
        tools=["Bash", "Read"],
        allowed_tools=["Bash(git log *)", "Read"],
        disallowed_tools=["Bash(rm *)"],
        permission_mode="dontAsk",
        max_turns=7,
        max_budget_usd=0.5,
        system_prompt={"type": "preset", "preset": "claude_code", "append": "Be brief."},
        setting_sources=["project"],
        effort="low",
        add_dirs=[desk.folder],
        output_format={"type": "json_schema", "schema": schema},
    )
    result = next(m for m in asked("a", options) if isinstance(m, ResultMessage))
    log = desk.home / "session-state" / result.session_id / "events.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    spec = next(line["data"]["spec"] for line in lines if line["type"] == "runner.spec")
    wanted = {
        "autopilot": False,
        "tools": ["Bash", "Read"],
        "allowed_tools": ["Bash(git log *)", "Read"],
        "disallowed_tools": ["Bash(rm *)"],
        "permission_mode": "dontAsk",
        "max_turns": 7,
        "max_budget_usd": 0.5,
        "append_system_prompt": "Be brief.",
        "setting_sources": ["project"],
        "effort": "low",
        "add_dirs": [str(desk.folder)],
        "output_schema": schema,
        "prompt": "a",
    }
    assert {key: spec[key] for key in wanted} == wanted
    assert "system_prompt" not in spec


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"extra_args": {"bogus": "1"}}, "No such option '--bogus'"),
        ({"betas": ["b"]}, "--betas is not supported by autopilot"),
        ({"max_thinking_tokens": 9}, "--max-thinking-tokens is not supported by autopilot: use"),
        ({"max_turns": -1}, "--max-turns -1: max_turns"),
        ({"allowed_tools": ["Nope"]}, "allowed_tools[0]: no tool is called"),
        ({"permission_mode": "delegate"}, "permission_mode"),
        ({"setting_sources": ["user"]}, "--setting-sources"),
    ],
)
def test_what_cannot_be_honoured_is_refused(desk: Desk, keys: dict[str, Any], said: str) -> None:
    """On stderr, with exit code 2, and nothing ran."""
    desk.script([T("x")])
    heard: list[str] = []
    (error,) = asked("a", options_of(desk, None, stderr=heard.append, **keys))
    assert isinstance(error, ProcessError)
    assert error.exit_code == 2
    assert said in "\n".join(heard)
    assert not desk.home.exists()


def test_callbacks_of_the_host_are_refused_in_words(desk: Desk) -> None:
    """Hooks are refused at the initialisation, servers inside the host before it."""
    desk.script([T("x")])

    async def look(*_: Any) -> dict[str, Any]:
        return {}

    matcher: Any = HookMatcher(hooks=[look])  # type: ignore[list-item]  # never called
    (error,) = asked("a", options_of(desk, None, hooks={"PreToolUse": [matcher]}))
    assert "hooks that call the host program are not supported" in str(error)
    heard: list[str] = []
    servers = {"mine": create_sdk_mcp_server("mine", tools=[])}
    asked("a", options_of(desk, None, mcp_servers=servers, stderr=heard.append))
    assert "the server `mine` lives in the host program" in "\n".join(heard)


def test_agents_of_the_host_are_checked_like_those_of_a_spec(desk: Desk) -> None:
    """They come with the initialisation, which says what is wrong with them."""
    desk.script([T("x")])
    agents = {"rev": AgentDefinition(description="", prompt="Review.", tools=["Reed"])}
    (error,) = asked("a", options_of(desk, None, agents=agents))
    assert re.search(r"initialize .*: agents", str(error))


def test_a_sub_agent_that_the_host_defines_runs(desk: Desk) -> None:
    """`agents` of the options: its prompt is asked, its turns say whose they are, and its answer is
    the result of the call."""
    scout = AgentDefinition(description="Looks.", prompt="You scout.", tools=["Bash"], maxTurns=2)
    call = {"description": "look", "prompt": "Look around.", "subagent_type": "scout"}
    steps = [X(("Agent", call)), X(("Bash", {"command": "echo hi"})), T("Seen."), T("All done.")]
    with ModelServer(wire="anthropic", steps=steps) as server:
        messages = asked("Say hi.", options_of(desk, server, agents={"scout": scout}))
        requests = [request.body for request in server.requests]
    result = messages[-1]
    assert isinstance(result, ResultMessage), messages
    assert (result.subtype, result.result) == ("success", "All done.")
    assert "You scout." in json.dumps(requests[1]["system"])
    assert [tool["name"] for tool in requests[1]["tools"]] == ["Bash"]
    said = [m for m in messages if isinstance(m, AssistantMessage)]
    (start,) = [
        b for m in said for b in m.content if isinstance(b, ToolUseBlock) and b.name == "Agent"
    ]
    assert [m.parent_tool_use_id for m in said] == [None, start.id, None]
    results = [b for m in messages if isinstance(m, UserMessage) for b in m.content]
    answers = [b.content for b in results if isinstance(b, ToolResultBlock)]
    assert "Seen." in json.dumps(answers)


def test_the_host_is_asked_about_calls_that_no_rule_decides(desk: Desk) -> None:
    """It allows, denies with its words, or stops the run; what it cannot do is a denial."""
    files = ("allowed", "denied", "changed", "widened", "stopped")
    calls = [X(("Bash", {"command": f"touch {name}"})) for name in files]
    desk.script([X(("Bash", {"command": "echo by rule"})), *calls])
    heard: list[tuple[str, str, str | None]] = []

    async def decide(
        name: str, call: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        heard.append((name, call["command"], context.tool_use_id))
        match call["command"].split()[1]:
            case "allowed":
                return PermissionResultAllow()
            case "changed":
                return PermissionResultAllow(updated_input={"command": "true"})
            case "widened":
                update = PermissionUpdate(type="setMode", mode="acceptEdits")
                return PermissionResultAllow(updated_permissions=[update])
            case "stopped":
                return PermissionResultDeny(message="enough", interrupt=True)
            case _:
                return PermissionResultDeny(message="not today")

    options = options_of(desk, None, can_use_tool=decide, allowed_tools=["Bash(echo *)"])
    *messages, result, error = asked("a", options)
    blocks = [block for m in messages if isinstance(m, UserMessage) for block in m.content]
    said = [str(block.content) for block in blocks if isinstance(block, ToolResultBlock)]
    assert [call for _, call, _ in heard] == [f"touch {name}" for name in files]
    assert said[:2] == ["by rule", "(no output)"]
    for text, words in zip(
        said[2:], ["not today", "changed the input", "changed the rules", "enough"], strict=True
    ):
        assert words in text
    assert (result.subtype, error.exit_code) == ("error_during_execution", 130)
    assert sorted(path.name for path in desk.workspace.iterdir()) == ["README.md", "allowed"]
    log = (desk.home / "session-state" / result.session_id / "events.jsonl").read_text()
    kinds = re.findall(r'"result":{"kind":"([a-z-]+)"', log)
    assert kinds == ["approved", "approved", *["denied-interactively-by-user"] * 4]


def test_skills_of_the_host_are_those_that_load(desk: Desk) -> None:
    """They come with the initialisation, and one that is not there stops the run."""
    desk.script([T("x"), T("y")])
    for name in ("one", "two"):
        desk.write(f".claude/skills/{name}/SKILL.md", f"---\ndescription: {name}\n---\nbody\n")
    init = asked("a", options_of(desk, None, skills=["two"], setting_sources=["project"]))[0]
    assert init.data["skills"] == ["two"]
    *_, error = asked("a", options_of(desk, None, skills=["no"], setting_sources=["project"]))
    assert "skills: no" in str(error)


def test_the_model_of_the_beginning_comes_back(desk: Desk) -> None:
    """`set_model` without a name is the one that the session began with."""
    desk.script([T("one"), T("two")])
    other = desk.folder / "other.yaml"
    other.write_text("replies: [{text: else}]\n")

    async def talk(client: ClaudeSDKClient) -> list[Any]:
        await client.set_model(f"scripted:{other}")
        first = await answer(client, "a")
        await client.set_model()
        return [first[-1].result, (await answer(client, "b"))[-1].result]

    assert talked(options_of(desk, None), talk) == ["else", "one"]


@pytest.mark.parametrize("mode", ["bypassPermissions", "plan"])
def test_the_host_is_asked_where_a_rule_or_a_hook_wants_it(desk: Desk, mode: str) -> None:
    """Also where the mode allows all; not in mode plan, and not about what is denied."""
    words = ("touch", "mkdir", "rm", "npm")
    desk.script([X(*[("Bash", {"command": f"{word} new"}) for word in words]), T("well")])
    asks = 'printf \'{"hookSpecificOutput": {"permissionDecision": "ask"}}\''
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": asks, "if": "Bash(rm *)"}]}
    spec = desk.spec(
        autopilot=False,
        permission_mode=mode,
        ask_tools=["Bash(touch *)", "Bash(npm *)"],
        disallowed_tools=["Bash(npm *)"],
        allowed_tools=["Bash"],
        hooks={"PreToolUse": [hook]},
        sandbox={"mode": "off", "reason": "a test", "container": True},
    )
    heard: list[str] = []

    async def decide(
        name: str, call: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        heard.append(call["command"])
        return PermissionResultAllow()

    options = options_of(
        desk, None, can_use_tool=decide, allowed_tools=[], extra_args={"spec": str(spec)}
    )
    result = asked("a", options)[-1]
    denials = [denied["tool_input"]["command"] for denied in result.permission_denials]
    if mode == "plan":
        assert (heard, len(denials)) == ([], len(words))
    else:
        assert (heard, denials) == (["touch new", "rm new"], ["npm new"])


def test_a_host_that_is_gone_cannot_be_asked(desk: Desk) -> None:
    """The question is answered by a denial, and the run goes on to its end."""
    touch = X(("Bash", {"command": "touch a"}))
    desk.script([touch, touch, T("well")])
    model = f"scripted:{desk.folder / 'replies.yaml'}"
    done = spoken(desk, ["--model", model, "--permission-prompt-tool", "stdio"], HELLO)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, told[-1]["result"]) == (0, "well")
    assert done.stdout.count("the host program has closed stdin") >= 2
    assert len(told[-1]["permission_denials"]) == 2


def spoken(desk: Desk, arguments: list[str], *lines: Any) -> subprocess.CompletedProcess[str]:
    """The command, told these lines."""
    text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
    stream = ("--input-format", "stream-json", "--output-format", "stream-json")
    ordered = (*arguments, *stream) if arguments[:1] == ["run"] else (*stream, *arguments)
    return desk.call(*ordered, stdin=None, input=text)


def test_run_reads_its_prompts_from_stdin_too(desk: Desk) -> None:
    """The spec needs none, and one that is there is not used; the first failure is the code."""
    look = X(("Read", {"file_path": "README.md"}))
    desk.script([look, look, D("two")])
    blocks = [{"type": "text", "text": "b1"}, {"type": "text", "text": "b2"}]
    second = {"type": "user", "message": {"role": "user", "content": blocks}}
    done = spoken(desk, ["run", str(desk.spec(prompt=None, max_turns=1))], HELLO, second)
    results = [json.loads(line) for line in done.stdout.splitlines() if '"type":"result"' in line]
    assert [result["subtype"] for result in results] == ["error_max_turns", "success"]
    assert done.returncode == 3
    assert "completed" not in done.stdout.splitlines()[0]
    log = next((desk.home / "session-state").iterdir()) / "events.jsonl"
    assert "b1\\nb2" in log.read_text()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "stdin:2: no line of JSON"),
        ("[]", "stdin:2: a message is a JSON object"),
        ({"type": "bogus"}, "stdin:2: a message of type `bogus` means nothing here"),
        ({"type": "user"}, "stdin:2: the message has no text"),
        ({"type": "user", "message": {"content": "a\ud800"}}, "stdin:2: the text is no Unicode"),
        ("x" * (17 * 1024 * 1024), "a line of stdin is longer than 16777216 bytes"),
        (
            {"type": "user", "message": {"content": [{"type": "image"}]}},
            "stdin:2: only text can be read, not a block of `image`",
        ),
    ],
)
def test_a_line_that_means_nothing_ends_with_code_2(desk: Desk, line: Any, said: str) -> None:
    """After what came before it."""
    desk.script([D("one")])
    done = spoken(desk, ["run", str(desk.spec())], HELLO, line, HELLO)
    assert done.returncode == 2
    assert f"Error: {said}" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["result"] == "one"


def test_no_message_at_all_is_no_success(desk: Desk) -> None:
    """A pipe that is empty by mistake does not make a pipeline green."""
    desk.script([D("one")])
    done = spoken(desk, ["run", str(desk.spec())])
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error: no user message came on stdin" in done.stderr
    assert not desk.home.exists()


def test_requests_that_mean_nothing_get_an_error(desk: Desk) -> None:
    """By their id; the session goes on."""
    desk.script([D("one")])

    def request(name: str, **more: Any) -> dict[str, Any]:
        told = {"subtype": name, **more}
        return {"type": "control_request", "request_id": name, "request": told}

    lines = [
        request("initialize", hooks=None),
        request("interrupt"),
        request("rewind_files"),
        request("set_permission_mode", mode="auto"),
        request("set_permission_mode", mode="lax"),
        request("set_model", model=7),
        request("initialize", skills=["a"]),
        request("initialize", systemPromptSnapshot=True, forwardSubagentText=True),
        HELLO,
        request("initialize", agents={"a": {}}),
    ]
    done = spoken(desk, ["run", str(desk.spec())], *lines)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    responses = [x["response"] for x in told if x["type"] == "control_response"]
    assert [(r["request_id"], r["subtype"]) for r in responses] == [
        ("initialize", "success"),
        ("interrupt", "success"),
        ("rewind_files", "error"),
        ("set_permission_mode", "error"),
        ("set_permission_mode", "error"),
        ("set_model", "error"),
        ("initialize", "error"),
        ("initialize", "error"),
        ("initialize", "error"),
    ]
    assert responses[-3]["error"].startswith("skills are not taken from the host program")
    assert responses[-2]["error"] == "`systemPromptSnapshot` is not supported by autopilot"
    assert responses[2]["error"] == "the request `rewind_files` is not supported by autopilot"
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--output-format", "json"], "needs --output-format stream-json"),
        (["--output-format", "stream-json", "--dry-run"], "--dry-run reads no prompts"),
    ],
)
def test_prompts_on_stdin_need_a_stream(desk: Desk, arguments: list[str], said: str) -> None:
    """Anything else is a mistake on the command line."""
    desk.script([D("one")])
    done = desk.call("run", str(desk.spec()), "--input-format", "stream-json", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_help_stays_clean_and_the_other_help_is_complete(desk: Desk) -> None:
    """The SDK's flags are not those of the command; they have a help of their own."""
    assert "--allowedTools" not in desk.call("--help").stdout
    told = desk.call("--input-format", "stream-json", "--help").stdout
    for flag in ("--spec", "--allowedTools", "--verbose", "--resume", "--set"):
        assert flag in told
    assert "--betas" not in told
    bare = desk.call("--input-format", "stream-json", "--output-format", "stream-json")
    assert (bare.returncode, "no model: give one" in bare.stderr) == (2, True)


def test_a_signal_ends_the_session(desk: Desk) -> None:
    """SIGTERM stops the prompt, and what waits on stdin is not run."""
    desk.script([X(("Bash", {"command": "touch on; sleep 300"})), D("never")])
    spec = desk.spec()
    stream = ("--input-format", "stream-json", "--output-format", "stream-json")
    process = subprocess.Popen(
        desk.command("run", str(spec), *stream),
        cwd=desk.folder,
        env=desk.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        for _ in range(2):
            process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.flush()
        until_there(desk.workspace / "on")
        process.send_signal(signal.SIGTERM)
        out = process.stdout.read() if process.stdout else ""
        assert process.wait(30) == 143
    finally:
        process.kill()
        process.communicate()
    assert [
        json.loads(line)["subtype"] for line in out.splitlines() if '"type":"result"' in line
    ] == ["error_during_execution"]


def test_every_option_of_the_sdk_is_known() -> None:
    """A flag that its transport can send is honoured, idle for a reason, or refused in words."""
    source = inspect.getsource(subprocess_cli.SubprocessCLITransport._build_command)
    flags = set(re.findall(r"\"(--[A-Za-z-]+)", source))
    known = {name for option in claude.params for name in option.opts}
    assert flags - known - {"--"} == set()
    assert len(flags) > 25

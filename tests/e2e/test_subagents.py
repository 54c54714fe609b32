"""Sub-agents in the installed command: real tools, real processes, real servers."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.e2e.desk import CENT, Desk, Played
from tests.e2e.test_stops import FAMILY, alive, pids
from tests.servers import D, F, Request, Step, T, Tool, Usage, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "README.md"})


def asks(prompt: str = "What is in README.md?", **more: Any) -> tuple[str, dict[str, Any]]:
    """A call that starts the agent that is always there."""
    return "Agent", {"description": "look around", "prompt": prompt, **more}


def of_agents(played: Played, event_type: str) -> list[dict[str, Any]]:
    """The data of these events, of sub-agents only."""
    return [e["data"] for e in played.log if e["type"] == event_type and "agentId" in e]


def answers(played: Played) -> list[str]:
    """What came back from sub-agents, or why nothing did."""
    ends = [e for e in played.of("tool.execution_complete") if e["toolName"] == "Agent"]
    return [e["result"]["content"] if e["success"] else e["error"]["message"] for e in ends]


def test_a_sub_agent_reads_and_changes_files_and_answers(desk: Desk) -> None:
    """Row 116: its answer is the result of the call, its turns stand under its id, and what it
    changed is in the patch; its calls are judged by the rules of the run."""
    steps = [
        X(asks()),
        X(READ, ("Write", {"file_path": "new.txt", "content": "made\n"})),
        T("A small project. I made new.txt."),
        D("all of it"),
    ]
    played = desk.play(steps, pricing=CENT)
    assert (played.exit_code, answers(played)) == (0, ["A small project. I made new.txt."])
    assert desk.read("new.txt") == "made\n"
    assert "new.txt" in (played.folder / "patch.diff").read_text()
    assert len(of_agents(played, "assistant.turn_start")) == 2
    assert played.types.count("assistant.turn_start") == 4
    assert (played.result["num_turns"], played.result["num_llm_calls"]) == (2, 4)
    (done,) = of_agents(played, "subagent.completed")
    assert (done["totalToolCalls"], done["totalTokens"]) == (2, 240)
    (usage,) = played.result["modelUsage"].values()
    assert (played.result["usage"]["input_tokens"], usage["inputTokens"]) == (200, 400)


def test_a_sub_agent_sees_its_own_prompt_and_the_instructions_of_the_project(desk: Desk) -> None:
    """Row 116: nothing of its parent but CLAUDE.md; and it has no control tools."""
    desk.wire = "openai"
    desk.write("CLAUDE.md", "Mind the tests.\n")
    steps = [X(asks("Count the files.")), T("Three."), D("ok")]
    played = desk.play(steps)
    assert played.exit_code == 0
    asked = played.requests[1]
    system, *told = [message["content"] for message in asked["messages"]]
    assert "Another agent gave you one part of its work" in system
    assert str(desk.workspace) in system
    assert ["Mind the tests." in text for text in told] == [True, False]
    assert told[-1] == "Count the files."
    names = {tool["function"]["name"] for tool in asked["tools"]}
    assert {"Read", "Bash", "Agent"} <= names
    assert not names & {"task_complete", "task_blocked", "AskUserQuestion"}


def test_sub_agents_of_one_reply_are_asked_at_the_same_time(desk: Desk) -> None:
    """Two requests are open at once; both answers come back in the order of the calls."""
    desk.wire = "openai"

    def reply(request: Request) -> Step:
        last = request.body["messages"][-1]["content"]
        return Step(text=f"answer to {last}", delay_s=0.5)

    both = X(asks("first"), asks("second"))
    played = desk.play([both, reply, reply, D("ok")])
    told = [m["content"] for m in played.requests[-1]["messages"] if m["role"] == "tool"]
    assert told == ["answer to first", "answer to second"]
    begun = [e["seq"] for e in played.log if e["type"] == "assistant.turn_start" and "agentId" in e]
    ended = [e["seq"] for e in played.log if e["type"] == "assistant.turn_end" and "agentId" in e]
    assert max(begun) < min(ended)


def test_the_ids_of_calls_are_each_conversations_own(desk: Desk) -> None:
    """Two agents may use one id at the same time: what another one has said changes no reply."""
    desk.wire = "openai"

    def reply(request: Request) -> Step:
        said = [message["role"] for message in request.body["messages"]].count("assistant")
        is_slow = "slow" in str(request.body["messages"])
        if said:
            return Step(text="ok", delay_s=0 if is_slow else 1.5)
        read = Tool(name=READ[0], arguments=READ[1], id="same")
        return Step(tools=(read,), delay_s=0.7 if is_slow else 0)

    both = X(asks("be slow"), asks("be quick"))
    played = desk.play([both, reply, reply, reply, reply, D("ok")])
    assert answers(played) == ["ok", "ok"]
    assert [e["toolCallId"] for e in of_agents(played, "tool.execution_start")] == ["same"] * 2


def test_each_agent_has_a_directory_of_its_own(desk: Desk) -> None:
    """`cd` in a sub-agent moves neither its parent nor what its parent has read."""
    desk.write("sub/a.txt", "a\n")
    steps = [
        X(("Bash", {"command": "cd sub"})),
        X(asks()),
        X(("Bash", {"command": "pwd && cd /tmp"})),
        T("There."),
        X(("Bash", {"command": "pwd"})),
        X(("Edit", {"file_path": "README.md", "old_string": "small", "new_string": "big"})),
        D("ok"),
    ]
    played = desk.play(steps)
    shells = [e for e in played.of("tool.execution_complete") if e["toolName"] == "Bash"]
    places = [e["result"]["content"].split()[0] for e in shells[1:]]
    assert places == [str(desk.workspace), f"{desk.workspace}/sub"]
    assert "read" in played.tool_errors()[-1]


def test_a_sub_agent_that_spends_the_last_cent_ends_the_run(desk: Desk) -> None:
    """Row 83: exit 4, and the parent asks nothing more."""
    steps = [
        X(asks(), usage=Usage(input_tokens=25_000, output_tokens=0)),
        T("dear", usage=Usage(input_tokens=25_000, output_tokens=0)),
        T("never"),
    ]
    played = desk.play(steps, pricing=CENT, max_budget_usd=0.5, max_output_tokens=256)
    assert played.exit_code == 4
    assert played.types.count("assistant.turn_start") == 2
    assert played.result["total_cost_usd"] == 0.5
    assert [e["reason"] for e in of_agents(played, "subagent.failed")] == ["error_max_budget_usd"]
    assert "Budget limit reached" in of_agents(played, "subagent.failed")[0]["error"]


def test_a_sub_agent_that_fails_is_an_error_and_the_run_goes_on(desk: Desk) -> None:
    """Its provider error is the result of the call; the exit code is that of the run."""
    played = desk.play([X(asks()), F(402, "no credit"), D("without it")])
    assert played.exit_code == 0
    (text,) = answers(played)
    assert "did not finish: no credit" in text
    assert "Do not take its part of the work as done" in text
    assert of_agents(played, "session.error")[0]["errorType"] == "quota"


def test_a_sub_agent_is_denied_what_the_run_is_denied(desk: Desk) -> None:
    """MCP10: the denial is counted, and `on_denied: fail` ends the run with it."""
    steps = [X(asks()), X(("Bash", {"command": "touch x"})), T("I may not."), D("ok")]
    played = desk.play(steps, allowed_tools=[], permission_mode="default", on_denied="fail")
    assert (played.exit_code, desk.read("x")) == (10, None)
    assert [one["tool_name"] for one in played.result["permission_denials"]] == ["Bash"]


def test_the_tool_can_be_denied_and_agents_can_by_name(desk: Desk) -> None:
    """`Agent` is not offered then; `Agent(name)` denies that one."""
    played = desk.play([X(asks()), D("ok")], disallowed_tools=["Agent(general-purpose)"])
    assert "Agent(general-purpose)" in answers(played)[0]
    shown = desk.call("plan", str(desk.spec(disallowed_tools=["Agent"])))
    assert shown.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_what_a_sub_agent_started(desk: Desk, number: signal.Signals) -> None:
    """No process of its command is alive, and its log says that it was cancelled."""
    steps = [X(asks()), X(("Bash", {"command": FAMILY}))]
    with desk.started(steps) as running:
        children = pids(running)
        running.send(number)
        played = running.finish_checked()
    assert not any(map(alive, children))
    assert played.exit_code == (130 if number == signal.SIGINT else 143)
    (failed,) = of_agents(played, "subagent.failed")
    assert (failed["cancelled"], failed["error"]) == (True, f"Cancelled by {number.name}")


def test_a_killed_run_goes_on_in_the_middle_of_a_sub_agent(desk: Desk) -> None:
    """SIGKILL in its command: the sub-agent hears that the outcome is unknown, and finishes; it is
    not started again, the command is not run again, and what it had read it still knows."""
    once = "echo ran >> ran.txt; sleep 60"
    edit = ("Edit", {"file_path": "README.md", "old_string": "small", "new_string": "big"})
    busy = X(READ, ("Bash", {"command": once}))
    steps = [X(asks()), busy, X(edit), T("I was interrupted."), D("ok")]
    with desk.started(steps) as running:
        running.wait_until(lambda: desk.read("ran.txt") is not None, "the command")
        session = running.folder.name
        running.send(signal.SIGKILL)
        running.finish()
    done = desk.call("run", str(desk.folder / "task.yaml"), "--resume", session)
    assert done.returncode == 0, done.stderr
    log = (running.folder / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    types = [event["type"] for event in events]
    assert (types.count("subagent.started"), types.count("subagent.completed")) == (1, 1)
    assert desk.read("ran.txt") == "ran\n"
    ends = [e["data"] for e in events if e["type"] == "tool.execution_complete"]
    assert [e["toolName"] for e in ends] == ["Read", "Bash", "Edit", "Agent", "task_complete"]
    assert [e["success"] for e in ends] == [True, False, True, True, True]
    assert ends[1]["error"]["code"] == "interrupted"
    assert ends[3]["result"]["content"] == "I was interrupted."
    heard = [e for e in events if e["type"] == "user.message" and "killed" in e["data"]["content"]]
    assert ["agentId" in e for e in heard] == [True, False]

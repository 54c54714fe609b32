"""One ordinary run on each wire, read closely: requests, log, stream and result.

The runs are shared: each needs seconds of litellm's import, and every test looks at one promise.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests.e2e.desk import KEY, Desk, Played, Wire
from tests.e2e.papers import check_claude_stream, check_papers
from tests.e2e.wires import flat
from tests.servers import D, Step, T, Usage, X

LOOK = X(
    ("Grep", {"pattern": "project", "output_mode": "content"}),
    ("Read", {"file_path": "README.md"}),
    text="I look first.",
    usage=Usage(input_tokens=900, output_tokens=60, cache_read_tokens=100),
)
WRITE = X(("Write", {"file_path": "new.txt", "content": "hello\n"}))
HALF = T("half")
DONE = D("fixed", usage=Usage(input_tokens=1500, output_tokens=30))
STEPS: tuple[Step, ...] = (LOOK, WRITE, HALF, DONE)

PROMPT = "Greet the world."


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The run. Its repository holds a `.env` that points every provider somewhere else."""
    wire: Wire = request.param
    desk = Desk(folder=tmp_path_factory.mktemp(wire), wire=wire)
    trap = "http://127.0.0.1:9/v1"
    names = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")
    for place in (desk.folder, desk.workspace):
        (place / ".env").write_text("".join(f"{name}={trap}\n" for name in names))
    options = ("--output-format", "stream-json", "--include-partial-messages")
    return desk.play(STEPS, *options, prompt=PROMPT, max_budget_usd=1)


def test_every_model_call_is_one_pair_of_turn_events(story: Played) -> None:
    """Rows 1 to 3, 29: requests, starts and ends are as many, nudged call included, none hidden."""
    counts = [story.types.count(f"assistant.turn_{end}") for end in ("start", "end")]
    assert [len(story.requests), *counts] == [4, 4, 4]
    text = (story.folder / "events.jsonl").read_text()
    assert sum("assistant.turn_start" in line for line in text.splitlines()) == 4


def test_the_log_is_a_chain_of_whole_events(story: Played) -> None:
    """Rows 9, 11, 12, 16: envelopes, parents, and tools that pair up before their turn ends.

    Every other run of this folder is held to the same laws.
    """
    check_papers(story)


def test_each_request_holds_the_whole_history(story: Played) -> None:
    """Rows 4, 7, 28: it begins with all of the one before and adds the reply and its results."""
    talks = [flat(body) for body in story.requests]
    for earlier, later in pairwise(talks):
        assert later[: len(earlier)] == earlier
    added = [[(m["role"], m["text"]) for m in talk] for talk in talks]
    nudge = story.of("user.message")[1]["content"]
    assert added[3][-6:] == [
        ("tool", ""),
        ("tool", ""),
        ("assistant", ""),
        ("tool", ""),
        ("assistant", "half"),
        ("user", nudge),
    ]
    assert [role for role, _ in added[0]] == ["system", "user"]
    assert added[0][1] == ("user", PROMPT)
    assert added[1][2] == ("assistant", "I look first.")


def test_tools_and_system_prompt_stay_the_same(story: Played) -> None:
    """The prefix is byte-equal in all requests, so that a provider's cache holds."""
    prefixes = {
        json.dumps([body["tools"], body.get("system"), flat(body)[0]]) for body in story.requests
    }
    assert len(prefixes) == 1


def test_a_result_goes_back_under_the_id_of_its_call(story: Played) -> None:
    """Rows 5, 95: in request 2 the slow search comes first, then the fast read, as asked for."""
    messages = flat(story.requests[1])
    calls = messages[2]["calls"]
    results = [message["results"] for message in messages[3:]]
    assert [list(result) for result in results] == [[call] for call in calls]
    texts = [next(iter(result.values())) for result in results]
    assert texts == ["README.md:1:# A small project", "     1\t# A small project"]


def test_the_log_lists_every_call_by_its_id(story: Played) -> None:
    """Row 15: the first message has both requests, with the ids the tool events use."""
    asked = [call["toolCallId"] for call in story.of("assistant.message")[0]["toolRequests"]]
    run = [start["toolCallId"] for start in story.of("tool.execution_start")][:2]
    assert asked == run == flat(story.requests[1])[2]["calls"]


def test_turn_ids_count_up(story: Played) -> None:
    """Row 17: the strings 0 to 3."""
    assert [turn["turnId"] for turn in story.of("assistant.turn_end")] == ["0", "1", "2", "3"]


def test_the_nudge_is_a_marked_user_message(story: Played) -> None:
    """Row 25: the last message of the request that follows; flagged in the log."""
    prompt, nudge = story.of("user.message")
    assert (prompt.get("isAutopilotContinuation"), prompt["content"]) == (None, PROMPT)
    assert (nudge["isAutopilotContinuation"], nudge["agentMode"], nudge["source"]) == (
        True,
        "autopilot",
        "autopilot",
    )


def test_completion_is_recorded_between_its_call_and_the_end(story: Played) -> None:
    """Rows 21 to 23: one `session.task_complete`, its summary, and what stands around it."""
    assert [done["summary"] for done in story.of("session.task_complete")] == ["fixed"]
    assert story.types[-7:] == [
        "tool.execution_start",
        "tool.execution_complete",
        "session.task_complete",
        "assistant.turn_end",
        "runner.protection_check",
        "runner.result",
        "session.shutdown",
    ]


def test_the_stream_is_claudes(story: Played) -> None:
    """Rows 52, 57 to 59: init, an assistant message a reply, a user message a result, result."""
    stream = story.stream
    check_claude_stream(stream)
    assert [m["type"] for m in stream if m["type"] != "stream_event"] == [
        "system",
        "assistant",
        "user",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "result",
    ]
    assert stream[-1] == story.result
    blocks = [block for m in stream if m["type"] == "user" for block in m["message"]["content"]]
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    asked = [
        call["toolCallId"] for m in story.of("assistant.message") for call in m["toolRequests"]
    ]
    assert sorted(answered) == sorted(asked)  # as they finish; the model gets them as it asked


def test_deltas_add_up_to_the_text(story: Played) -> None:
    """Row 60: the text of the stream events of a message is the message's text."""
    events = [m["event"] for m in story.stream if m["type"] == "stream_event"]
    texts = []
    for event in events:
        match event:
            case {"type": "message_start"}:
                texts.append("")
            case {"delta": {"type": "text_delta", "text": text}}:
                texts[-1] += text
    assert texts == ["I look first.", "", "half", ""]  # calls alone are a message too


def test_the_cost_is_the_sum_of_what_was_reported(story: Played) -> None:
    """Row 85: usage as the provider counted it, priced from the table, adding up everywhere."""
    usage = story.result["usage"]
    assert usage["input_tokens"] == 900 + 100 + 100 + 1500
    assert usage["output_tokens"] == 60 + 20 + 20 + 30
    assert usage["cache_read_input_tokens"] == 100
    (price,) = story.of("runner.preflight")[0]["prices"]
    per_mtok = [price[f"{kind}PerMtok"] for kind in ("input", "output", "cacheRead")]
    tokens = (2600, 130, 100)
    wanted = sum(rate * count for rate, count in zip(per_mtok, tokens, strict=True)) / 1e6
    assert story.result["total_cost_usd"] == pytest.approx(wanted, abs=1e-8)
    assert story.result["cost_basis"] == "table"


def test_no_call_costs_more_than_was_reserved_for_it(story: Played) -> None:
    """The reservation, on disk before the request, is an upper bound of the charge."""
    held = [turn["reservedCostUsd"] for turn in story.of("assistant.turn_start")]
    paid = [charge["costUsd"] for charge in story.of("session.usage_checkpoint")]
    assert all(0 < cost <= most for cost, most in zip(paid, held, strict=True))


def test_the_key_travels_to_the_provider_and_nowhere_else(story: Played) -> None:
    """It is in the request's header, and not in the log, on stdout or on stderr."""
    assert story.server is not None
    headers = story.server.requests[0].headers
    assert KEY in headers.get("authorization", "") + headers.get("x-api-key", "")
    papers = [path.read_bytes() for path in story.folder.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in paper for paper in papers)
    assert KEY not in story.stdout + story.stderr


def test_the_work_is_done_and_its_result_says_so(story: Played) -> None:
    """Rows 24, 62, 63: exit 0, the summary as the answer, turns and calls counted."""
    assert (story.workspace / "new.txt").read_text() == "hello\n"
    assert story.exit_code == 0
    assert {name: story.result[name] for name in story.result if name.startswith("num_")} == {
        "num_turns": 4,
        "num_tool_turns": 2,
        "num_llm_calls": 4,
        "num_nudges": 1,
    }
    assert (story.result["subtype"], story.result["result"]) == ("success", "fixed")
    assert story.result["task_completed"] is True
    changed = [file["path"] for file in story.result["workspace_diff"]["files"]]
    assert changed == ["new.txt"]

"""A provider that fails, with the real litellm in between: what passes, what ends the run."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable

import pytest

from tests.e2e.desk import KEY, Desk, Wire
from tests.e2e.warm import WarmDesk
from tests.servers import D, F, Step, T, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "README.md"})
HANG = Step(hang=True)
NO_CREDIT = "Your credit balance is too low to access the Anthropic API."
OPENAI_QUOTA = {
    "error": {
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "type": "insufficient_quota",
        "param": None,
        "code": "insufficient_quota",
    }
}
TOO_LONG = "prompt is too long: 250000 tokens > 200000 maximum"


@pytest.mark.parametrize(
    ("wire", "failure", "code", "error_type"),
    [
        ("openai", F(401, f"Incorrect API key provided: {KEY}."), 77, "authentication"),
        ("anthropic", F(401, f"invalid x-api-key {KEY}"), 77, "authentication"),
        ("openai", F(429, OPENAI_QUOTA), 69, "quota"),
        ("anthropic", F(400, NO_CREDIT), 69, "quota"),
        ("openai", F(404, "The model `gpt-x` does not exist"), 1, "model_not_found"),
        ("anthropic", F(404, "model: claude-x"), 1, "model_not_found"),
        ("anthropic", F(400, TOO_LONG), 1, "context_limit"),
    ],
)
def test_a_lasting_failure_ends_the_run_at_once(
    desk: Desk, wire: Wire, failure: Step, code: int, error_type: str
) -> None:
    """Rows 37, 41, 67: one attempt, its own code, the provider's words, and no key anywhere."""
    desk.wire = wire
    given = {"retry": {"max_attempts": 5}, "compaction": {"enabled": False}}
    played = desk.play([X(READ), failure], "--output-format", "json", **given)
    assert (played.exit_code, played.result["error_type"]) == (code, error_type)
    assert len(played.requests) == 2
    assert played.stream == [played.result]
    (error,) = played.of("session.error")
    assert (error["errorType"], error["statusCode"]) == (error_type, failure.status)
    assert played.types.count("user.message") == 1
    papers = [path.read_text() for path in played.folder.iterdir() if path.suffix in PAPERS]
    assert KEY not in "".join([*papers, played.stdout, played.stderr])
    assert error["message"] in played.stderr.replace("\n", " ") or error_type in played.stderr


PAPERS = (".jsonl", ".json", ".yaml")


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_passing_failure_is_waited_out(desk: Desk, wire: Wire) -> None:
    """429 with retry-after, 500, 529 and a cut stream, each in a turn: charged, retried, cured."""
    desk.wire = wire
    steps: list[Step] = [
        F(429, "slow down", {"retry-after": "1"}),
        X(READ),
        F(500),
        F(529, "Overloaded"),
        X(READ),
        Step(text="I begin to " * 5, cut_after_chunks=4),
        X(READ),
        Step(text="no usage", omit_usage=True),
        D("done"),
    ]
    options = ("--output-format", "stream-json")
    played = desk.play(steps, *options, retry={"max_attempts": 3, "max_wait": "2s"})
    assert (played.exit_code, len(played.requests)) == (0, 9)
    assert (played.result["num_llm_calls"], played.types.count("assistant.turn_start")) == (5, 5)
    assert played.server is not None
    first, second = played.server.requests[:2]
    assert second.received_at - first.received_at >= 1
    retries = played.of("session.warning")
    kinds = [warning["warningType"] for warning in retries]
    assert kinds == [*["model_retry"] * 4, "usage_not_reported"]
    charges = played.of("session.usage_checkpoint")
    bases = [charge["basis"] for charge in charges]
    assert bases == ["table", "table", "reserved", "table", "reserved", "table"]
    held = {turn["reservedCostUsd"] for turn in played.of("assistant.turn_start")[2::2]}
    assert {charge["costUsd"] for charge in charges if charge["basis"] == "reserved"} <= held
    assert played.result["cost_basis"] == "mixed"
    told = [message for message in played.stream if message.get("subtype") == "api_retry"]
    assert [message["error_status"] for message in told] == [429, 500, 529, None]


@pytest.mark.parametrize(
    ("wire", "failure", "error_type"),
    [
        (None, F(429, "slow down"), "rate_limit"),
        ("anthropic", F(529, "Overloaded"), "provider_unavailable"),
    ],
)
def test_a_failure_that_does_not_pass_is_given_up(
    desk: Desk, wire: Wire | None, failure: Step, error_type: str
) -> None:
    """`max_attempts` attempts, then exit 75: something is busy, try later."""
    desk.wire = wire
    played = desk.play([failure] * 3, retry={"max_attempts": 2, "max_wait": "1s"})
    assert (played.exit_code, played.result["error_type"]) == (75, error_type)
    retries = [warning["warningType"] for warning in played.of("session.warning")]
    assert (retries, played.result["num_llm_calls"]) == (["model_retry"], 0)
    assert wire is None or len(played.requests) == 2
    assert played.result["stop_reason"] is None
    assert played.result["total_cost_usd"] == 0


@pytest.mark.parametrize(
    ("status", "code", "error_type"), [(402, 69, "quota"), (400, 1, "invalid_request")]
)
def test_a_failure_of_the_account_or_the_request_has_its_code(
    desk: Desk, status: int, code: int, error_type: str
) -> None:
    """No retry cures it: one attempt, and the code tells whose it is."""
    played = desk.play([F(status), D("never")], retry={"max_attempts": 5})
    assert (played.exit_code, played.result["error_type"]) == (code, error_type)


def test_a_model_that_takes_no_tools_is_told_of(warm_desk: Callable[[Wire], WarmDesk]) -> None:
    """They cannot be left out of a task, as `effort` can. Nothing is sent, tried again or
    charged; the sentence is for who wrote the spec. Asked for a text only, the model answers."""
    model, usual = "openai/gpt-5-search-api", {"max_budget_usd": 1, "retry": {"max_attempts": 5}}
    played = warm_desk("openai").play([], model=model, **usual)
    assert (played.exit_code, played.result["error_type"]) == (1, "invalid_request")
    told = "gpt-5-search-api takes no `tools`: not a model for this task; choose another one"
    assert played.result["errors"] == [told]
    assert told in played.stderr
    assert (played.requests, played.result["total_cost_usd"]) == ([], 0)
    text_only = warm_desk("openai").play([T("yes")], model=model, tools=[], autopilot=False)
    assert (text_only.exit_code, text_only.result.get("result")) == (0, "yes")


def test_nobody_listens_at_the_address(desk: Desk) -> None:
    """A refused connection is a provider that is down: exit 75."""
    desk.wire = "openai"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    played = desk.play([], api_base=f"http://127.0.0.1:{port}/v1")
    assert (played.exit_code, played.result["error_type"]) == (75, "provider_unavailable")


def test_the_clock_stops_a_model_that_says_nothing(desk: Desk) -> None:
    """`timeout` closes the stream, so that it stops billing: exit 9, charged as reserved."""
    desk.wire = "openai"
    # The clock runs from the start, and a busy machine needs some of this.
    played = desk.play([HANG], timeout="8s", max_budget_usd=1)
    assert (played.exit_code, played.result["subtype"]) == (9, "error_timeout")
    assert played.server is not None
    (request,) = played.server.requests
    played.server.wait_until(lambda: request.closed_by_client_at is not None)
    assert [abort["cause"] for abort in played.of("abort")] == ["timeout"]
    (charge,), (turn,) = played.of("session.usage_checkpoint"), played.of("assistant.turn_start")
    assert (charge["basis"], charge["costUsd"]) == ("reserved", turn["reservedCostUsd"])
    assert 0 < played.result["total_cost_usd"] <= 1


def test_a_signal_stops_a_model_that_goes_on_talking(desk: Desk) -> None:
    """Rows 42, 53: SIGTERM in the middle of a reply: the server sees it, 143, result on stdout."""
    desk.wire = "anthropic"
    slow = Step(text="word " * 60, chunk_delay_s=0.5)
    with desk.started([slow], "--output-format", "stream-json") as running:
        server = running.server
        assert server is not None
        server.wait_until(lambda: bool(server.requests) and server.requests[0].chunks_sent > 4, 60)
        running.send(signal.SIGTERM)
        played = running.finish()
        server.wait_until(lambda: server.requests[0].closed_by_client_at is not None)
    assert (played.exit_code, played.result["error_type"]) == (143, "terminated")
    subtypes = [message.get("subtype") for message in played.stream]
    assert "worker_shutting_down" in subtypes
    assert played.stream[-1] == json.loads(json.dumps(played.result))


def test_a_cut_reply_is_told_so_and_its_call_not_run(desk: Desk) -> None:
    """Row 68: a call whose arguments ran into the output limit is an error result; nudged on."""
    desk.wire = "openai"
    cut = Step(
        tools=X(("Write", '{"file_path": "new.txt", "content": "hel')).tools,
        finish_reason="length",
    )
    ending = Step(text="and so on and", finish_reason="length")
    played = desk.play([cut, ending, D("done")])
    assert (played.exit_code, desk.read("new.txt")) == (0, None)
    assert "reached its output limit" in played.tool_errors()[0]
    assert played.result["num_nudges"] == 1
    reasons = [message["finishReason"] for message in played.of("assistant.message")]
    assert reasons == ["length", "length", "tool_calls"]


@pytest.mark.parametrize(
    ("step", "stop_reason"),
    [
        (T("yes"), "end_turn"),
        (Step(text="and so on", finish_reason="length"), "max_tokens"),
    ],
)
def test_the_stop_reason_is_that_of_the_last_reply(
    desk: Desk, step: Step, stop_reason: str
) -> None:
    """Row 68: it is in the result unchanged, on errors too."""
    played = desk.play([step], autopilot=False)
    assert (played.exit_code, played.result["stop_reason"]) == (0, stop_reason)
    failed = Desk(folder=desk.folder / "failed").play([X(READ), F(500)])
    assert failed.result["stop_reason"] == "tool_use"

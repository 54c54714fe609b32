"""Every class of failure through the command: attempts made, how long waited, ending, exit code.

The whole of classes by wires is in `test_failures.py`; here each class goes all the way on one or
two of the wires, and those whose forms differ from wire to wire on all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from time import time
from typing import Any, NamedTuple

import pytest

from tests.e2e.desk import Played, Wire
from tests.e2e.warm import WarmDesk
from tests.servers import D, F, ModelServer, Step, T
from tests.servers.http import WIRE_FORMATS

WarmDesks = Callable[[Wire], WarmDesk]

PRICE = {"input_per_mtok": 1, "output_per_mtok": 2}
THRICE = {"max_attempts": 3, "max_wait": "10ms"}
LONG = " ".join(f"word{number}" for number in range(60))
ALL: list[Wire] = [*WIRE_FORMATS]
BUSY, LOST = "rate_limit", "provider_unavailable"


class Ending(NamedTuple):
    """How a run against a server that always fails the same way ends."""

    error_type: str
    exit_code: int
    attempts: int
    billed: bool = False


Rows = dict[str, tuple[Step, Ending, list[Wire]]]
"""What the server answers, what becomes of it, and on which wires to see it."""


def raw(body: bytes) -> Step:
    """An answer with status 200 that is these bytes."""
    return Step(error_after_chunks=0, error=body)


LASTING: Rows = {
    "400": (F(400, "bad field"), Ending("invalid_request", 1, 1), ["openai", "gemini"]),
    "401": (F(401, "bad key"), Ending("authentication", 77, 1), ["anthropic", "responses"]),
    "402": (F(402, "pay first"), Ending("quota", 69, 1), ["openai", "gemini"]),
    "403": (F(403, "not yours"), Ending("authentication", 77, 1), ["gemini"]),
    "404": (F(404, "no such model"), Ending("model_not_found", 1, 1), ["responses", "anthropic"]),
    "413": (F(413, "too big"), Ending("invalid_request", 1, 1), ["anthropic"]),
    "422": (F(422, "odd field"), Ending("invalid_request", 1, 1), ["openai"]),
    "429 quota": (F(429, "You exceeded your current quota"), Ending("quota", 69, 1), ["responses"]),
    "429 long": (F(429, "slow", {"retry-after": "3600"}), Ending(BUSY, 75, 1), ["anthropic"]),
}
PASSING: Rows = {
    "408": (F(408, "slow"), Ending(LOST, 75, 3), ["responses"]),
    "409": (F(409, "clash"), Ending(LOST, 75, 3), ["anthropic"]),
    "429": (F(429, "slow down"), Ending(BUSY, 75, 3), ["openai", "gemini"]),
    "500": (F(500, b""), Ending(LOST, 75, 3), ["gemini", "openai"]),
    "502 page": (F(502, b"<html>Bad Gateway</html>"), Ending(LOST, 75, 3), ["responses"]),
    "503": (F(503, "later"), Ending(LOST, 75, 3), ["gemini"]),
    "504": (F(504, "lost it"), Ending(LOST, 75, 3, billed=True), ["openai"]),
    "529": (F(529, "busy"), Ending(LOST, 75, 3), ["anthropic"]),
    "dropped": (Step(drop=True), Ending(LOST, 75, 3, billed=True), ["gemini", "responses"]),
    "cut": (Step(text=LONG, cut_after_chunks=6), Ending(LOST, 75, 3, billed=True), ["anthropic"]),
    "ended": (Step(text=LONG, end_after_chunks=6), Ending(LOST, 75, 3, billed=True), ALL),
    "error in it": (
        Step(text=LONG, error_after_chunks=6, status=503, error="no more"),
        Ending(LOST, 75, 3, billed=True),
        ALL,
    ),
    "no JSON": (
        Step(text=LONG, error_after_chunks=6, error=b"data: {nope\n\n"),
        Ending(LOST, 75, 3, billed=True),
        ALL,
    ),
    "empty": (raw(b""), Ending(LOST, 75, 3, billed=True), ALL),
    "a page": (raw(b"<html>Sign in</html>"), Ending(LOST, 75, 3, billed=True), ["gemini"]),
}


def rows(table: Rows) -> pytest.MarkDecorator:
    """The rows of a table, each for its wires."""
    cases = [
        pytest.param(wire, step, ending, id=f"{name}-{wire}")
        for name, (step, ending, wires) in table.items()
        for wire in wires
    ]
    return pytest.mark.parametrize(("wire", "step", "ending"), cases)


@rows(LASTING | PASSING)
def test_a_failure_has_its_ending(
    warm_desk: WarmDesks, wire: Wire, step: Step, ending: Ending
) -> None:
    """A lasting failure ends the run with the first attempt, a passing one with the last."""
    played, server = fail(warm_desk(wire), step)
    attempts = len(server.requests)
    billed = played.result["total_cost_usd"] > 0
    assert Ending(played.result["error_type"], played.exit_code, attempts, billed) == ending
    assert len(retries(played)) == attempts - 1
    assert (played.result["cost_basis"] == "reserved") == billed
    cause = played.result["errors"][0]
    assert not any(word in cause for word in ("litellm", "Exception", "b'", "Traceback"))


def test_a_server_that_is_not_there(warm_desk: WarmDesks) -> None:
    """Nobody listens: three attempts, nothing paid, and the address is named."""
    for wire in ("responses", "anthropic"):
        played = warm_desk(wire).play(
            [], api_base="http://127.0.0.1:9", retry=THRICE, pricing=PRICE
        )
        assert (played.result["error_type"], played.exit_code) == (LOST, 75)
        assert (len(retries(played)), played.result["total_cost_usd"]) == (2, 0)
        assert "cannot connect" in played.result["errors"][0]
        assert "127.0.0.1" in played.result["errors"][0]


@pytest.mark.parametrize("wire", ALL)
def test_a_refusal_is_no_failure_of_the_provider(warm_desk: WarmDesks, wire: Wire) -> None:
    """The model said no: it is not asked again, and not nudged."""
    refusal = Step(text="I cannot help with that.", finish_reason="content_filter")
    played, server = fail(warm_desk(wire), refusal)
    assert (played.result["error_type"], played.exit_code) == ("refusal", 6)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("wire", "failure"),
    [
        ("openai", F(429, "slow", {"retry-after": "1"})),
        ("anthropic", F(529, "busy", {"retry-after-ms": "1000"})),
        ("responses", F(429, "Rate limit reached. Please try again in 1000ms.")),
        ("gemini", F(429, {"error": {"code": 429, "message": "Please retry in 1.0s."}})),
    ],
)
def test_the_wait_a_server_asks_for_is_kept(
    warm_desk: WarmDesks, wire: Wire, failure: Step
) -> None:
    """Seconds, milliseconds, or words; then it goes on, and the failure is on record."""
    played = warm_desk(wire).play([failure, D("done")], retry={"max_attempts": 2, "max_wait": "9s"})
    assert played.exit_code == 0, played.stderr
    assert gap_s(played) >= 1
    (warning,) = retries(played)
    assert warning.startswith("attempt 1 failed (")
    assert float(warning.rpartition("again in ")[2].removesuffix(" s")) >= 1


def test_a_date_is_waited_for(warm_desk: WarmDesks) -> None:
    """By the clock of the server, to the second."""

    def busy(_: object) -> Step:
        return F(503, "later", {"retry-after": formatdate(time() + 2, usegmt=True)})

    played = warm_desk("gemini").play(
        [busy, D("done")], retry={"max_attempts": 2, "max_wait": "9s"}
    )
    assert played.exit_code == 0, played.stderr
    assert 1 <= gap_s(played) < 8


def test_a_wait_beyond_the_deadline_ends_with_it(warm_desk: WarmDesks) -> None:
    """The server may ask for a minute; the run has a second."""
    busy = F(429, "slow", {"retry-after": "50"})
    played = warm_desk("openai").play([busy], retry={"max_attempts": 2}, timeout="1s")
    assert (played.exit_code, played.result["subtype"]) == (9, "error_timeout")
    assert played.result["duration_ms"] < 6000


# -- time ----------------------------------------------------------------------------------------

DRIP = replace(T("x" * 5000), chunk_delay_s=0.1)


@pytest.mark.parametrize(
    ("wire", "step"),
    [
        *[pytest.param(wire, DRIP, id=f"drip-{wire}") for wire in ALL],
        pytest.param("gemini", Step(hang=True), id="hang-gemini"),
        pytest.param("responses", Step(delay_s=30), id="wait-responses"),
    ],
)
def test_a_deadline_cuts_what_never_ends(warm_desk: WarmDesks, wire: Wire, step: Step) -> None:
    """Within three seconds the server saw the client leave; the call is charged."""
    with warm_desk(wire).started([step], timeout="2s", pricing=PRICE) as running:
        played = running.finish_checked()
        assert running.server is not None
        running.server.wait_until(lambda: closed_early(running.server), timeout_s=5)
    assert (played.exit_code, played.result["subtype"]) == (9, "error_timeout")
    assert played.result["cost_basis"] == "reserved"
    assert played.result["total_cost_usd"] > 0
    (asked,) = running.server.requests
    assert asked.closed_by_client_at is not None
    assert asked.closed_by_client_at - asked.received_at < 3


@pytest.mark.parametrize("wire", ALL)
def test_a_first_byte_that_never_comes_is_not_waited_for(warm_desk: WarmDesks, wire: Wire) -> None:
    """The idle limit ends each attempt, which is charged, and then the run."""
    retry = {"max_attempts": 2, "max_wait": "10ms"}
    played, server = fail(
        warm_desk(wire), Step(delay_s=30), retry=retry, limits={"model_idle": "300ms"}
    )
    assert (played.result["error_type"], played.exit_code) == (LOST, 75)
    assert (len(server.requests), played.result["cost_basis"]) == (2, "reserved")
    assert played.result["errors"] == ["no part of a reply came for 0.3 s"]
    assert all(request.closed_by_client_at is not None for request in server.requests)


def fail(desk: WarmDesk, step: Step, **keys: Any) -> tuple[Played, ModelServer]:
    """A run against a server that answers every request with this step."""
    keys = {"retry": THRICE, "pricing": PRICE, **keys}
    with desk.started([step], repeat_last=True, **keys) as running:
        played = running.finish_checked()
    assert played.server is not None
    return played, played.server


def retries(played: Played) -> list[str]:
    """What the log says before each further attempt."""
    warnings = played.of("session.warning")
    return [said["message"] for said in warnings if said["warningType"] == "model_retry"]


def gap_s(played: Played) -> float:
    """The seconds between the first two requests."""
    assert played.server is not None
    first, second = played.server.requests
    return second.received_at - first.received_at


def closed_early(server: ModelServer | None) -> bool:
    """Whether the client went away before it had the whole reply."""
    return server is not None and server.requests[0].closed_by_client_at is not None

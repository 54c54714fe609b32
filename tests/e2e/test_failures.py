"""Every class of failure on every wire, through the real litellm: what it is, whether it passes."""

from __future__ import annotations

from email.utils import formatdate
from time import time

import pytest

from tests.adapters.litellm_calls import WireName, failure, on_all_wires, with_litellm
from tests.servers import F, Step

pytestmark = with_litellm

LONG = " ".join(f"word{number}" for number in range(60))
TOO_LONG = "prompt is too long: 250000 tokens > 200000 maximum"
QUOTA = "You exceeded your current quota (insufficient_quota)"

LASTING = [
    pytest.param(F(400, "bad field"), "invalid_request", id="400"),
    pytest.param(F(400, TOO_LONG), "context_limit", id="400-context"),
    pytest.param(F(401, "bad key"), "authentication", id="401"),
    pytest.param(F(402, "pay first"), "quota", id="402"),
    pytest.param(F(403, "not yours"), "authentication", id="403"),
    pytest.param(F(404, "no such thing"), "model_not_found", id="404"),
    pytest.param(F(413, TOO_LONG), "context_limit", id="413-context"),
    pytest.param(F(429, QUOTA), "quota", id="429-quota"),
]
PASSING = [
    pytest.param(F(429, "slow down"), "rate_limit", id="429"),
    *[
        pytest.param(F(status, "no luck"), "provider_unavailable", id=str(status))
        for status in (408, 409, 500, 502, 503, 529)
    ],
    pytest.param(Step(drop=True), "provider_unavailable", id="drop"),
    pytest.param(Step(text=LONG, cut_after_chunks=6), "provider_unavailable", id="cut"),
    pytest.param(F(502, b"<html>Bad Gateway</html>"), "provider_unavailable", id="html"),
]


@on_all_wires
@pytest.mark.parametrize(("step", "kind"), LASTING)
def test_a_lasting_failure_is_not_tried_again(wire: WireName, step: Step, kind: str) -> None:
    """One request, its kind, and the status the server answered with."""
    error = failure(wire, step)
    assert (error.kind, error.retryable, error.status_code) == (kind, False, step.status)


@on_all_wires
@pytest.mark.parametrize(("step", "kind"), PASSING)
def test_a_passing_failure_may_be_tried_again(wire: WireName, step: Step, kind: str) -> None:
    """One request by itself: whether and when there is another is decided by the run."""
    error = failure(wire, step)
    assert (error.kind, error.retryable) == (kind, True)


@on_all_wires
def test_the_wait_a_server_asks_for_is_read(wire: WireName) -> None:
    """Seconds, or a date by the server's own clock."""
    assert failure(wire, F(429, "slow", {"retry-after": "7"})).retry_after_s == 7
    later = {"retry-after": formatdate(time() + 30, usegmt=True)}
    wait = failure(wire, F(429, "slow", later)).retry_after_s
    assert wait is not None
    assert 25 <= wait <= 31

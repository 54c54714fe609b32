"""MCP servers that break the protocol, flood, hide text, ask for things, and do not want to end."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from tests.e2e.desk import Desk, Played
from tests.e2e.test_mcp import answers, running, warnings
from tests.mcp_servers import RAW
from tests.servers import D, X

pytestmark = pytest.mark.warm

LOOK: tuple[str, dict[str, Any]] = ("mcp__raw__look", {})


def raw(how: str, **more: Any) -> dict[str, Any]:
    """The server that does this one thing wrong."""
    return {"command": sys.executable, "args": [str(RAW), how], **more}


def play(desk: Desk, how: str, calls: int = 1, **keys: Any) -> Played:
    """A run that calls the server's tool so often."""
    steps = [*(X(LOOK) for _ in range(calls)), D("done")]
    return desk.play(
        steps, **{"mcp_servers": {"raw": raw(how)}, "allowed_tools": ["mcp__raw"], **keys}
    )


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("garbage", (True, "after the noise")),
        ("notify", (True, "after the flood")),
        ("restless", (True, "after the flood")),
        ("latin", (True, "caf\N{REPLACEMENT CHARACTER}")),
        ("closed", (False, "the MCP server raw says: the shop is closed")),
        (
            "ask",
            (
                True,
                "sampling/createMessage: error\nelicitation/create: error\nroots/list: error",
            ),
        ),
    ],
)
def test_noise_is_left_aside(desk: Desk, how: str, expected: tuple[bool, str]) -> None:
    """What is no message of the protocol, twenty thousand notifications, bytes that are no UTF-8,
    and requests to this side: the call has its answer, and the server is still there."""
    played = play(desk, how, calls=2)
    assert [(ok, text) for _, ok, text in answers(played)[:2]] == [expected] * 2
    assert not {"mcp_server_lost", "mcp_tool_withdrawn"} & set(warnings(played))
    assert played.exit_code == 0


def test_an_answer_of_no_shape_is_an_error_result(desk: Desk) -> None:
    """The run goes on."""
    played = play(desk, "shapeless")
    (_, ok, text), _ = answers(played)
    assert not ok
    assert "the MCP server raw: " in text
    assert played.exit_code == 0


def test_a_long_answer_is_cut(desk: Desk) -> None:
    """Ten megabytes are cut to what a tool may say."""
    played = play(desk, "long")
    assert answers(played)[0][1]
    assert len(answers(played)[0][2]) < 31_000


def test_an_answer_beyond_all_bounds_ends_the_connection(desk: Desk) -> None:
    """A hundred megabytes are not taken, and the reason is told; the next call waits for it."""
    again = play(desk, "huge", calls=2)
    (_, ok, text), *_ = answers(again)
    assert not ok
    assert "whether the call had its effect is not known" in text
    assert "it sent a message longer than 16 MiB" in warnings(again)["mcp_server_lost"]
    assert again.exit_code == 0


def test_content_that_is_no_text_is_named(desk: Desk) -> None:
    """No link is followed, no blob gets into the conversation."""
    assert answers(play(desk, "blobs"))[0] == (
        "look",
        True,
        "[image image/png, about 3000 bytes, not shown]\n"
        "[audio audio/wav, about 3 bytes, not shown]\n"
        "[resource file:///etc/passwd, about 3 bytes, not shown]\n"
        "[link to file:///etc/passwd, not followed]",
    )


def test_names_that_collide_and_lists_without_end(desk: Desk) -> None:
    """Of names that become the same the first counts; of ten thousand tools five hundred are
    taken, of pages fifty; each time with a warning."""
    played = desk.play(
        [D("done")], mcp_servers={how: raw(how) for how in ("collide", "many", "pages")}
    )
    servers = {one["name"]: one for one in played.of("runner.preflight")[0]["mcpServers"]}
    assert [pin["name"] for pin in servers["collide"]["tools"]] == ["mcp__collide__a_b"]
    assert len(servers["many"]["tools"]) == 500
    assert len(servers["pages"]["tools"]) == 50
    told = [
        one["message"]
        for one in played.of("session.warning")
        if one["warningType"] == "mcp_tool_left_out"
    ]
    assert "MCP server collide: its tool 'a_b' is left out: another one has this name" in told
    assert "MCP server many: it has more than 500 tools; the rest is left out" in told
    assert "MCP server pages: it has more than 50 pages of tools; the rest is left out" in told
    assert len(told) < 10


@pytest.mark.parametrize("how", ["bomb", "hidden"])
def test_what_is_hidden_in_a_definition_does_nothing(desk: Desk, how: str) -> None:
    """References that double sixty times, or that mean themselves, cost no time; what a terminal
    or an eye would not show is shown as what it is, and no call is made because of it."""
    began = time.monotonic()
    played = play(desk, how)
    assert time.monotonic() - began < 30
    assert answers(played)[0] == ("look", True, "fine")
    log = (played.folder / "events.jsonl").read_text()
    assert not [hidden for hidden in ("\x1b", "\u202e", "\\u202e", "\\u200b") if hidden in log]


def test_a_server_that_will_not_end_is_ended(desk: Desk) -> None:
    """One that ignores SIGTERM and the end of its stdin, and one that left a daemon in a session
    of its own: nothing is alive when the run is over."""
    servers = {how: raw(how) for how in ("deaf", "daemon")}
    played = desk.play([D("done")], mcp_servers=servers)
    assert played.exit_code == 0
    assert not running(played.folder.name)


def test_a_secret_in_the_last_words_of_a_server_is_masked(desk: Desk) -> None:
    """In the reason that is told, and in the file that keeps its stderr."""
    desk.environ["SERVICE_TOKEN"] = secret = "ghp-q8Zr2kXw91LmB7vT"  # of nobody
    server = raw("chatty", env={"SERVICE_TOKEN": "${SERVICE_TOKEN}"})
    played = desk.play([D("done")], mcp_servers={"raw": server})
    assert "cannot log in with ***" in warnings(played)["mcp_server_failed"]
    kept = [(played.folder / name).read_text() for name in ("mcp/raw.log", "events.jsonl")]
    assert secret not in "".join((*kept, played.stdout, played.stderr))


def test_a_server_that_dies_again_and_again_is_given_up(desk: Desk) -> None:
    """After three new connections it is left alone; each call says so, and the run goes on."""
    played = play(desk, "dies", calls=5)
    told = [text for _, _, text in answers(played)[:5]]
    assert all("whether the call had its effect is not known" in text for text in told[:4])
    assert "the MCP server raw is not there" in told[4]
    lost = [w for w in played.of("session.warning") if w["warningType"] == "mcp_server_lost"]
    assert len(lost) == 4
    assert played.result["mcp_servers"] == [{"name": "raw", "status": "failed"}]
    assert played.exit_code == 0

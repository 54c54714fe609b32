"""What a spec says of servers, what servers say of their tools, and what they answer."""

from __future__ import annotations

import math
from typing import Any

import httpx2
import pytest

from runner.adapters.mcp.content import how_far, text_of
from runner.adapters.mcp.expand import expanded, missing, variables
from runner.adapters.mcp.failure import reason
from runner.adapters.mcp.listing import MAX_TOOLS, Listing, listing
from runner.adapters.mcp.servers import changed
from runner.adapters.specfile.mcp_keys import is_unpinned
from runner.core.events import McpListing, McpPin
from runner.core.spec import McpServerSpec

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


def tool(name: str = "look", **more: Any) -> dict[str, Any]:
    """What a server says of a tool."""
    return {"name": name, "description": "Looks.", "inputSchema": OBJECT, **more}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("$A", "1"),
        ("x${A}y$A", "x1y1"),
        ("${A:-z}", "1"),
        ("${EMPTY:-z}", "z"),
        ("${NONE:-z}", "z"),
        ("${NONE:-}", ""),
        ("$", "$"),
        ("${", "${"),
        ("$1", "$1"),
    ],
)
def test_variables_are_filled_in(text: str, filled: str) -> None:
    """As a shell does it, in every text of a server; nothing else with a `$` is touched."""
    spec = McpServerSpec(command=text, args=(text,), env={"E": text}, url=text, headers={"H": text})
    done = expanded(spec, {"A": "1", "EMPTY": ""})
    got = {done.command, *done.args, *done.env.values(), done.url, *done.headers.values()}
    assert got == {filled}
    assert missing(spec, {"A": "1", "EMPTY": ""}) == ()


def test_variables_that_are_missing_are_named_once() -> None:
    """Those without a default, in the order they stand."""
    spec = McpServerSpec(command="$B", args=("${A}", "$B", "${C:-x}"))
    assert missing(spec, {}) == ("B", "A")
    assert expanded(spec, {}).args == ("", "", "x")
    assert expanded(McpServerSpec(url="http://a"), {}).command is None
    assert variables(["$A ${B:-x}", "$A"]) == ("A", "B")


def test_tools_are_named_and_sorted() -> None:
    """Sorted by their full names; a dot, which no provider takes, becomes `_`."""
    said = [tool("b"), tool("a.c", annotations={"readOnlyHint": True})]
    found = listing("s", said, None)
    assert [(t.name, t.spec.name, t.spec.read_only) for t in found.tools] == [
        ("a.c", "mcp__s__a_c", True),
        ("b", "mcp__s__b", False),
    ]
    assert found.left_out == ()


def test_only_the_wanted_tools_are_taken() -> None:
    """By the server's own names; `*` is all of them."""
    said = [tool("a"), tool("b")]
    assert [t.name for t in listing("s", said, ("b",)).tools] == ["b"]
    assert len(listing("s", said, ("*",)).tools) == 2


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (tool("a b"), "a name is letters"),
        (tool("x" * 130), "a name is letters"),
        (tool(inputSchema={"type": "string"}), "describes no object"),
        (tool(inputSchema=None), "describes no object"),
        (tool(inputSchema={"type": "object", "maxProperties": math.inf}), "a number that JSON has"),
        (tool(inputSchema={"type": "object", "default": math.nan}), "a number that JSON has not"),
        (tool(inputSchema={"type": "object", "x": ["y" * 70_000]}), "longer than 64 KiB"),
    ],
)
def test_a_tool_that_cannot_be_shown_is_left_out(bad: dict[str, Any], why: str) -> None:
    """With the reason; the others stay."""
    found = listing("s", [bad, tool("good")], None)
    assert [t.name for t in found.tools] == ["good"]
    assert why in found.left_out[0]


def test_schemas_and_lists_have_limits() -> None:
    """A schema that is nested too deep, a name that comes twice, and more tools than anybody
    needs."""
    deep: dict[str, Any] = {"type": "object"}
    inner = deep
    for _ in range(40):
        inner["properties"] = inner = {}
    assert "deeper" in listing("s", [tool(inputSchema=deep)], None).left_out[0]
    assert "another one" in listing("s", [tool("a.b"), tool("a_b")], None).left_out[0]
    many = listing("s", [tool(f"t{n}") for n in range(MAX_TOOLS + 5)], None)
    assert len(many.tools) == MAX_TOOLS
    assert "more than" in many.left_out[0]


def test_descriptions_hide_nothing() -> None:
    """Control characters and what turns text around are shown as what they are, also in a schema;
    a long text is cut."""
    turned = {"description": "x\u202ey", "enum": ["\u202e"]}
    schema = {"type": "object", "properties": {"a": turned}}
    said = tool(description="a\x1b[2Jb\u200b\U000e0041" + "c" * 5000, inputSchema=schema)
    (found,) = listing("s", [said], None).tools
    assert "\x1b" not in found.spec.description
    assert "\u200b" not in found.spec.description
    assert "\U000e0041" not in found.spec.description
    assert len(found.spec.description) < 2100
    shown = found.spec.input_schema["properties"]["a"]
    assert "\u202e" not in shown["description"]
    assert shown["enum"] == ["\u202e"]  # a value: to be sent back as it is


def test_the_hash_is_of_all_that_is_said() -> None:
    """Another word in a description or a schema is another hash; the order of keys is not."""
    first = listing("s", [tool()], None).tools[0].sha256
    turned = dict(reversed(tool().items()))
    assert listing("s", [turned], None).tools[0].sha256 == first
    for other in (tool(description="Looks!"), tool(inputSchema={"type": "object"})):
        assert listing("s", [other], None).tools[0].sha256 != first
    assert listing("s", [], None) == Listing()


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": []}, "(the server gave an empty answer)"),
        ({"content": [], "structuredContent": {"a": 1}}, '{\n  "a": 1\n}'),
        (
            {"content": [{"type": "image", "mimeType": "image/png", "data": "QUJD"}]},
            "[image image/png, about 3 bytes, not shown]",
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///x", "text": "t"}}]},
            "[resource file:///x]\nt",
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "u", "blob": "QUJD"}}]},
            "[resource u, about 3 bytes, not shown]",
        ),
        (
            {"content": [{"type": "resource_link", "uri": "file:///etc/passwd"}]},
            "[link to file:///etc/passwd, not followed]",
        ),
        ({"content": [{"type": "hologram"}]}, "[hologram: not shown]"),
    ],
)
def test_answers_become_text(result: dict[str, Any], text: str) -> None:
    """What is no text is named; no link is followed."""
    assert text_of(result) == text


@pytest.mark.parametrize(
    ("done", "total", "message", "line"),
    [
        (1, 3, None, "1 of 3"),
        (0.5, None, "half\nof \x1b[2Jit", "0.5 half of \\x1b[2Jit"),
        (2, 2, "x" * 900, None),
    ],
)
def test_progress_is_one_short_line(
    done: float, total: float | None, message: str | None, line: str | None
) -> None:
    """Without what would do something to a terminal."""
    told = how_far(done, total, message)
    assert len(told) <= 500
    assert line is None or told == line


def test_of_many_reasons_the_first_are_told() -> None:
    """And how many there are besides; a tool that is wanted and not there is one."""
    found = listing("s", [tool(f"t {n}") for n in range(30)], ("*", "look"))
    assert len(found.left_out) == 21
    assert found.left_out[-1] == "there are 11 more reasons like these"
    lacking = listing("s", [tool("a")], ("a", "b"))
    assert lacking.left_out == ("it has no tool 'b'",)
    assert [one.name for one in lacking.tools] == ["a"]


def test_what_a_status_means_is_told_without_the_address() -> None:
    """An address may hold a key."""
    for status, words in (
        (401, "it asks for authorization (HTTP 401)"),
        (302, "it redirects to another address (HTTP 302), which is not followed"),
        (500, "it answered with HTTP 500"),
    ):
        request = httpx2.Request("GET", "http://127.0.0.1/key-of-mine")
        response = httpx2.Response(status, request=request)
        with pytest.raises(httpx2.HTTPStatusError) as raised:
            response.raise_for_status()
        assert reason(raised.value).startswith(words)
        assert "key-of-mine" not in reason(raised.value)


def test_failures_are_told_on_one_line() -> None:
    """Out of the groups they come in."""
    inner = ExceptionGroup("one", [OSError("cannot\nconnect")])
    assert reason(ExceptionGroup("two", [inner])) == "cannot connect"
    assert reason(FileNotFoundError(2, "No such file", "x")) == "there is no program 'x'"
    assert reason(ValueError()) == "ValueError"


def test_what_changed_between_two_parts_of_a_session() -> None:
    """Of servers that are there again: other descriptions, and tools that are gone."""

    def server(name: str, status: Any, **tools: str) -> McpListing:
        pins = tuple(McpPin(name=f"mcp__{name}__{t}", sha256=h) for t, h in tools.items())
        return McpListing(name=name, status=status, tools=pins)

    before = [server("a", "connected", x="1", y="2", z="3"), server("b", "connected", w="4")]
    now = [server("a", "connected", x="1", y="5"), server("b", "failed")]
    assert changed(before, now) == (
        "mcp__a__y is described otherwise than when the session was last run",
        "mcp__a__z is gone since the session was last run",
    )


@pytest.mark.parametrize(
    ("command", "args", "unpinned"),
    [
        ("npx", ("-y", "some-server"), True),
        ("npx", ("-y", "@scope/some-server"), True),
        ("npx", ("-y", "@scope/some-server@1.2.3"), False),
        ("uvx", ("some-server",), True),
        ("uvx", ("some-server==1.2",), False),
        ("pipx", ("run", "some-server@2"), False),
        ("node", ("server.js",), False),
    ],
)
def test_a_server_that_is_fetched_anew_each_time(
    command: str, args: tuple[str, ...], unpinned: bool
) -> None:
    """A package runner without a version takes whatever is the newest."""
    assert is_unpinned(McpServerSpec(command=command, args=args)) is unpinned

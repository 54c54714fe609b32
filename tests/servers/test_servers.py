"""The fake model servers, as the real litellm sees them."""

import asyncio
import gc
import socket
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest

from . import D, F, ModelServer, Request, Step, T, Tool, Usage, X

WireName = Literal["openai", "responses", "anthropic", "gemini"]
MODELS = {
    "openai": "openai/gpt-4o-mini",
    "responses": "openai/responses/gpt-5-mini",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
LONG_TEXT = " ".join(f"word{n}" for n in range(60))

on_all_wires = pytest.mark.parametrize("wire", list(MODELS))
on_text_wires = pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
plain_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
pytestmark = [
    pytest.mark.xdist_group("litellm"),
    # litellm warns about itself, and leaves sockets and an event loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:litellm"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """litellm, pointed at a fake server."""

    litellm: ModuleType

    @property
    def while_streaming(self) -> type[Exception]:
        """What litellm raises for any failure of a stream it opens with the first read."""
        found: type[Exception] = self.litellm.exceptions.MidStreamFallbackError
        return found

    @property
    def lost(self) -> tuple[type[Exception], ...]:
        """What litellm raises for a lost connection, by provider."""
        by_provider = (self.litellm.InternalServerError, self.litellm.APIConnectionError)
        return (*by_provider, self.while_streaming)

    def arguments(self, server: ModelServer, wire: WireName, stream: bool) -> dict[str, Any]:
        """The keywords of a completion call."""
        return {
            "model": MODELS[wire],
            "api_base": server.base_url,
            "api_key": "test-key",
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 100,
            "max_retries": 0,
            "timeout": 10,
            "stream": stream,
        } | ({"stream_options": {"include_usage": True}} if stream else {})

    def ask(self, server: ModelServer, wire: WireName, stream: bool, **more: Any) -> Any:
        """One call to its end, put together from the pieces if it was streamed."""
        reply = self.litellm.completion(**self.arguments(server, wire, stream) | more)
        return self.litellm.stream_chunk_builder(list(reply)) if stream else reply

    async def read_stream(self, server: ModelServer, wire: WireName) -> None:
        """Read a streamed reply to its end, on the event loop."""
        chunks = await self.litellm.acompletion(**self.arguments(server, wire, True))
        async for _ in chunks:
            pass


def talk(request: Request) -> list[dict[str, Any]]:
    """The conversation that was sent, by the name it has on the wire."""
    names = ("messages", "input", "contents")
    found: list[dict[str, Any]] = next(request.body[name] for name in names if name in request.body)
    return found


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """litellm, imported once: that takes seconds, and it reads its settings then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITELLM_MODE", "PRODUCTION")
        patch.setenv("LITELLM_OFFLINE_MODE", "true")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import litellm

        litellm.suppress_debug_info = True
        yield Client(litellm=litellm)
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            litellm.in_memory_llm_clients_cache.flush_cache()
            gc.collect()


def closed_early(server: ModelServer) -> bool:
    """The client left the last request before it had the whole reply."""
    return bool(server.requests) and server.requests[-1].closed_by_client_at is not None


def sent(server: ModelServer) -> int:
    """How many chunks the first request got so far."""
    return server.requests[0].chunks_sent if server.requests else 0


@on_all_wires
@plain_and_streamed
def test_text_arrives_unchanged(client: Client, wire: WireName, stream: bool) -> None:
    """Any characters come through, the model stops by itself, the default usage is reported."""
    text = "naïve \u2028 \N{ROCKET} line\nline"
    with ModelServer(wire=wire, steps=[T(text)]) as server:
        reply = client.ask(server, wire, stream)
    assert reply.choices[0].message.content == text
    assert reply.choices[0].finish_reason == "stop"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (100, 20)


@on_all_wires
@plain_and_streamed
def test_parallel_tool_calls_arrive_in_order(client: Client, wire: WireName, stream: bool) -> None:
    """Text and several calls in one reply; ids and arguments are those of the script."""
    calls = (Tool(name="Read", arguments={"file_path": "a long/path to.py"}, id="one"),)
    with ModelServer(wire=wire, steps=[X(*calls, ("Bash", {"n": 1}), text="Let me see")]) as server:
        choice = client.ask(server, wire, stream).choices[0]
    first, second = choice.message.tool_calls
    assert (choice.message.content, choice.finish_reason) == ("Let me see", "tool_calls")
    assert first.function.name == "Read"
    assert first.id == "one" or wire == "gemini"  # whose calls have no ids
    assert first.function.arguments == '{"file_path": "a long/path to.py"}'
    assert (second.function.name, second.function.arguments) == ("Bash", '{"n": 1}')
    assert second.id not in ("", None, "one")


@on_text_wires
def test_broken_arguments_are_streamed_as_written(client: Client, wire: WireName) -> None:
    """Arguments given as text need not be JSON."""
    with ModelServer(wire=wire, steps=[X(("Read", '{"file_path": "a'))]) as server:
        message = client.ask(server, wire, True).choices[0].message
    assert message.tool_calls[0].function.arguments == '{"file_path": "a'


@on_text_wires
@plain_and_streamed
def test_cached_tokens_follow_the_wire(client: Client, wire: WireName, stream: bool) -> None:
    """Both wires lead litellm to the same counts: the prompt with all of its cached parts."""
    usage = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=700, cache_write_tokens=200)
    with ModelServer(wire=wire, steps=[T("x", usage=usage)]) as server:
        seen = client.ask(server, wire, stream).usage
    assert (seen.prompt_tokens, seen.completion_tokens, seen.total_tokens) == (910, 5, 915)
    assert seen.prompt_tokens_details.cached_tokens == 700
    assert seen.prompt_tokens_details.cache_write_tokens == 200


@on_all_wires
@plain_and_streamed
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_finish_reasons_are_translated(
    client: Client, wire: WireName, stream: bool, reason: Literal["length", "content_filter"]
) -> None:
    """Each wire has its own word, which litellm turns back into the one of the script."""
    with ModelServer(wire=wire, steps=[Step(text="x", finish_reason=reason)]) as server:
        assert client.ask(server, wire, stream).choices[0].finish_reason == reason


@on_all_wires
@plain_and_streamed
def test_thinking_arrives_apart_from_the_text(client: Client, wire: WireName, stream: bool) -> None:
    """Thinking is separate from the answer, signed where the wire has signatures."""
    step = Step(text="done", thinking="let me think it over", signature="c2lnbmVk")
    with ModelServer(wire=wire, steps=[step]) as server:
        message = client.ask(server, wire, stream).choices[0].message
    assert (message.content, message.reasoning_content) == ("done", "let me think it over")
    if wire == "anthropic":
        assert message.thinking_blocks[0]["signature"] == "c2lnbmVk"


@on_all_wires
def test_requests_are_recorded(client: Client, wire: WireName) -> None:
    """Path, headers, body and time of each request are there to look at."""
    before = time.monotonic()
    with ModelServer(wire=wire, steps=[T("a"), D("b")]) as server:
        client.ask(server, wire, False)
        client.ask(server, wire, True)
    first, second = server.requests
    assert (first.path, second.path) == (server.wire.PLAIN_PATH, server.wire.PATH)
    names = ("x-api-key", "x-goog-api-key", "authorization")
    assert any("test-key" in first.headers.get(name, "") for name in names)
    assert talk(first)[-1]["role"] == "user"
    assert [server.wants_stream(request) for request in server.requests] == [False, True]
    assert before < first.received_at < second.received_at < time.monotonic()
    assert not server.overrun
    assert not closed_early(server)


@on_all_wires
def test_a_step_can_look_at_the_request(client: Client, wire: WireName) -> None:
    """A function as a step answers what was asked, and the last step can go on for ever."""

    def echo(request: Request) -> Step:
        return T(f"{len(talk(request))} message")

    with ModelServer(wire=wire, steps=[echo], repeat_last=True) as server:
        texts = [client.ask(server, wire, False).choices[0].message.content for _ in range(3)]
    assert texts == ["1 message"] * 3


@on_all_wires
def test_a_step_that_raises_fails_the_test(client: Client, wire: WireName) -> None:
    """The client gets HTTP 500; the exception comes out of the `with` block."""

    def refuse(request: Request) -> Step:
        raise AssertionError(f"unexpected {request.path}")

    with (
        pytest.raises(AssertionError, match="unexpected /v1"),
        ModelServer(wire=wire, steps=[refuse]) as server,
        pytest.raises(client.litellm.InternalServerError, match="the step raised"),
    ):
        client.ask(server, wire, False)


@on_all_wires
def test_a_request_beyond_the_script_is_an_overrun(client: Client, wire: WireName) -> None:
    """It is answered with HTTP 500 that says so, and kept."""
    with ModelServer(wire=wire, steps=[T("only")]) as server:
        client.ask(server, wire, False)
        with pytest.raises(client.litellm.InternalServerError, match="has 1 steps, this is"):
            client.ask(server, wire, False)
    assert server.overrun == server.requests[1:]


@on_all_wires
@plain_and_streamed
@pytest.mark.parametrize(
    ("status", "raised"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
def test_errors_carry_status_and_message(
    client: Client, wire: WireName, stream: bool, status: int, raised: str
) -> None:
    """litellm raises its own class for each status, with the words of the script."""
    with (
        ModelServer(wire=wire, steps=[F(status, "no luck today")]) as server,
        pytest.raises(
            (getattr(client.litellm, raised), client.while_streaming), match="no luck today"
        ),
    ):
        client.ask(server, wire, stream)
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_an_overload_is_told_in_the_word_of_the_wire(client: Client, wire: WireName) -> None:
    """On 529 Anthropic says `overloaded_error`, from which litellm makes a 500."""
    raised = {"openai": "APIError", "anthropic": "InternalServerError"}[wire]
    word = {"openai": "busy", "anthropic": "overloaded_error"}[wire]
    with (
        ModelServer(wire=wire, steps=[F(529, "busy")]) as server,
        pytest.raises(getattr(client.litellm, raised), match=word),
    ):
        client.ask(server, wire, True)


@on_text_wires
def test_an_error_can_carry_headers(client: Client, wire: WireName) -> None:
    """The client can read how long the server asks it to wait."""
    with (
        ModelServer(wire=wire, steps=[F(429, headers={"retry-after": "7"})]) as server,
        pytest.raises(client.litellm.RateLimitError) as caught,
    ):
        client.ask(server, wire, True)
    assert caught.value.litellm_response_headers["retry-after"] == "7"


def test_scripts_are_short_to_write() -> None:
    """The letters of the checklist stand for the steps they say."""
    assert D("all done") == X(("task_complete", {"summary": "all done"}))
    assert X(("Read", {}), text="hm") == Step(text="hm", tools=(Tool(name="Read"),))
    assert F(503).status == 503
    assert T("x").usage == Usage(input_tokens=100, output_tokens=20)


@on_all_wires
def test_a_long_text_of_one_letter_arrives(client: Client, wire: WireName) -> None:
    """Long replies come in so few chunks that litellm does not suspect a loop."""
    with ModelServer(wire=wire, steps=[T("x" * 100_000)]) as server:
        reply = client.ask(server, wire, True)
    assert reply.choices[0].message.content == "x" * 100_000


@on_all_wires
def test_an_error_body_can_be_given_whole(client: Client, wire: WireName) -> None:
    """An object is sent as the body, bytes as a body that is not JSON."""
    quota = {"error": {"message": "pay up", "type": "insufficient_quota", "code": "quota"}}
    with ModelServer(wire=wire, steps=[F(429, quota), F(502, b"<html>bad</html>")]) as server:
        with pytest.raises(client.litellm.RateLimitError, match="pay up"):
            client.ask(server, wire, False)
        with pytest.raises((client.litellm.BadGatewayError, client.litellm.APIConnectionError)):
            client.ask(server, wire, False)


@on_all_wires
@plain_and_streamed
def test_a_dropped_connection_is_an_error(client: Client, wire: WireName, stream: bool) -> None:
    """No reply at all, and no blame on the client."""
    with (
        ModelServer(wire=wire, steps=[Step(drop=True)]) as server,
        pytest.raises(client.lost, match="onnect"),
    ):
        client.ask(server, wire, stream)
    assert not closed_early(server)


@on_text_wires
@pytest.mark.parametrize(
    "fault",
    [
        Step(text=LONG_TEXT, cut_after_chunks=6),
        Step(text=LONG_TEXT, end_after_chunks=6),
        Step(text=LONG_TEXT, error_after_chunks=6, status=529),
    ],
    ids=["cut", "end", "error"],
)
def test_a_stream_can_break_off(client: Client, wire: WireName, fault: Step) -> None:
    """Some text arrives, then the stream fails."""
    seen: list[str] = []
    with ModelServer(wire=wire, steps=[fault]) as server:
        chunks = client.litellm.completion(**client.arguments(server, wire, True))
        texts = (chunk.choices[0].delta.content or "" for chunk in chunks)
        with pytest.raises(client.litellm.ServiceUnavailableError):
            seen.extend(texts)
    text = "".join(seen)
    assert text
    assert LONG_TEXT.startswith(text)
    assert not closed_early(server)


def test_a_gemini_stream_that_ends_early_looks_whole_to_litellm(client: Client) -> None:
    """Which is why the adapter looks at what litellm was fed."""
    with ModelServer(wire="gemini", steps=[Step(text=LONG_TEXT, end_after_chunks=6)]) as server:
        choice = client.ask(server, "gemini", True).choices[0]
    assert LONG_TEXT.startswith(choice.message.content)
    assert choice.finish_reason == "stop"


@on_all_wires
def test_a_plain_reply_can_be_cut(client: Client, wire: WireName) -> None:
    """Half of the body arrives."""
    with (
        ModelServer(wire=wire, steps=[replace(T("x"), cut_after_chunks=0)]) as server,
        pytest.raises(client.lost, match="onnect"),
    ):
        client.ask(server, wire, False)


@on_all_wires
def test_usage_can_be_missing_from_a_stream(client: Client, wire: WireName) -> None:
    """What litellm then says is its own estimate, not the default of the script."""
    with ModelServer(wire=wire, steps=[Step(text="x", omit_usage=True)]) as server:
        usage = client.ask(server, wire, True).usage
    assert (usage.prompt_tokens, usage.completion_tokens) != (100, 20)


def test_openai_sends_usage_only_when_asked(client: Client) -> None:
    """Without `stream_options` the stream has no usage chunk."""
    with ModelServer(wire="openai", steps=[T("x")], repeat_last=True) as server:
        client.ask(server, "openai", True, stream_options={"include_usage": True})
        client.ask(server, "openai", True, stream_options=None)
    asked, not_asked = server.requests
    assert asked.chunks_sent == not_asked.chunks_sent + 1


@on_all_wires
@plain_and_streamed
def test_silence_lasts_until_the_client_leaves(
    client: Client, wire: WireName, stream: bool
) -> None:
    """A hanging server runs into the client's own limit, and notices that it left."""
    with ModelServer(wire=wire, steps=[Step(hang=True)]) as server:
        with pytest.raises((client.litellm.Timeout, client.litellm.ServiceUnavailableError)):
            client.ask(server, wire, stream, timeout=0.3)
        server.wait_until(lambda: closed_early(server), timeout_s=3)


@on_all_wires
def test_a_cancelled_stream_is_seen_to_stop(client: Client, wire: WireName) -> None:
    """The time at which the client closed a running stream is recorded, and nothing more sent."""
    step = replace(T(LONG_TEXT), chunk_delay_s=0.05)

    async def read_for_a_while(server: ModelServer) -> None:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(client.read_stream(server, wire))
            await asyncio.to_thread(server.wait_until, lambda: sent(server) >= 5)
            reading.cancel()

    with ModelServer(wire=wire, steps=[step]) as server:
        asyncio.run(read_for_a_while(server))
        left_at = time.monotonic()
        server.wait_until(lambda: closed_early(server), timeout_s=3)
    closed_at = server.requests[0].closed_by_client_at
    assert closed_at is not None
    assert closed_at - left_at < 1
    assert sent(server) < 20


@on_all_wires
def test_delays_are_kept(client: Client, wire: WireName) -> None:
    """The first byte and each further chunk come late."""
    step = Step(text="abc", delay_s=0.2, chunk_delay_s=0.05)
    with ModelServer(wire=wire, steps=[step]) as server:
        start = time.monotonic()
        client.ask(server, wire, True)
        assert time.monotonic() - start >= 0.2 + 0.05 * (sent(server) - 1)


@on_all_wires
def test_leaving_the_block_ends_what_hangs(wire: WireName) -> None:
    """The server stops at once, and does not take its own stop for the client's."""
    with ModelServer(wire=wire, steps=[Step(hang=True)]) as server:
        client = socket.create_connection(("127.0.0.1", urlsplit(server.base_url).port))
        head = f"POST {server.wire.PATH} HTTP/1.1\r\nContent-Length: 2\r\n\r\n"
        client.sendall(head.encode() + b"{}")
        server.wait_until(lambda: bool(server.requests))
        start = time.monotonic()
    assert time.monotonic() - start < 1
    assert not closed_early(server)
    client.close()


@on_all_wires
def test_another_path_is_not_found(client: Client, wire: WireName) -> None:
    """A request to an API that the server does not speak is refused, and uses up no step."""
    with ModelServer(wire=wire, steps=[T("still there")]) as server:
        with pytest.raises(client.litellm.NotFoundError):
            client.ask(server, wire, False, api_base=f"{server.base_url}/other")
        assert client.ask(server, wire, False).choices[0].message.content == "still there"
    assert len(server.requests) == 2

"""What a model is sent, and how large it may be."""

from __future__ import annotations

from runner.core.context import input_bound, request, request_bound
from runner.core.events import SystemMessage
from runner.core.messages import (
    Assistant,
    Message,
    ModelRequest,
    ReasoningBlock,
    ToolResult,
    ToolSpec,
    Usage,
    User,
)
from runner.core.weight import message_bound
from tests.fakes import call, reply
from tests.logs import MODEL, Log, task

READ = call("Read", file_path="a")
TOOL = ToolSpec(name="Read", description="Reads.", input_schema={"type": "object"})


def test_a_request_holds_the_prefix_and_the_whole_history() -> None:
    """System prompt, tools, prompt, reply and result are in it when a tool has run."""
    log = Log(task(max_output_tokens=500)).reply(reply("look", READ)).runs(READ).ends()
    assert request(log.state, (TOOL,)) == ModelRequest(
        model=MODEL,
        system="You are careful.",
        messages=(
            User(text="Do it."),
            Assistant(text="look", calls=(READ,)),
            ToolResult(call_id="Read-1", name="Read", content="ok"),
        ),
        tools=(TOOL,),
        max_output_tokens=500,
    )


def test_instructions_stand_first_in_every_request_and_in_no_history() -> None:
    """They are recorded once; a change of them voids what the provider weighed."""
    log = Log().turn().paid(usage=Usage(input_tokens=700)).hears(reply("a")).ends()
    log.add(SystemMessage(content="Use tabs.", role="developer"))
    assert request(log.state, ()).messages == (User(text="Use tabs."), *log.state.main.messages)
    assert request(log.state, ()).system == "You are careful."
    assert input_bound(log.state.main) is None


def test_there_is_no_bound_before_the_provider_has_weighed_anything() -> None:
    """Nothing is known at the first call."""
    assert input_bound(Log().state.main) is None


def test_the_bound_is_what_was_weighed_and_the_bytes_of_what_came_since() -> None:
    """The reply and the results of the last turn are added to the reported prompt."""
    log = Log().turn().paid(usage=Usage(input_tokens=700, cache_read_tokens=300))
    log.hears(reply("look", READ)).runs(READ).ends()
    since: tuple[Message, ...] = log.state.main.messages[1:]
    assert input_bound(log.state.main) == 1000 + sum(map(message_bound, since))


def test_a_call_without_usage_weighs_nothing() -> None:
    """The earlier weight stands when a provider reports no tokens."""
    log = Log().turn().paid(usage=Usage(input_tokens=700)).hears(reply("a")).ends()
    before = input_bound(log.state.main)
    assert input_bound(log.turn().paid(usage=Usage()).state.main) == before


def test_a_message_has_no_more_tokens_than_bytes() -> None:
    """Text, arguments, ids, reasoning and signatures count, in bytes of UTF-8."""
    thought = ReasoningBlock(text="hm", signature="sig")
    bare = ReasoningBlock(text="hm")
    said = Assistant(text="é", calls=(READ,), reasoning=(thought, bare))
    arguments = len('{"file_path": "a"}')
    assert message_bound(User(text="é\ud800")) == 5 + 16
    assert message_bound(ToolResult(call_id="c", name="Read", content="abc")) == 3 + 16
    assert message_bound(said) == (2 + 16) + (4 + 6 + arguments + 16) + (5 + 16) + (2 + 16)


def test_a_request_has_no_more_tokens_than_its_parts() -> None:
    """System prompt, tools with their schemas, and messages are counted."""
    asked = request(Log().state, (TOOL,))
    tool = len("Read") + len("Reads.") + len('{"type": "object"}') + 16
    assert request_bound(asked) == len("You are careful.") + 16 + tool + len("Do it.") + 16

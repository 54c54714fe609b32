"""The scripted model: what a file says is what the run gets, and mistakes in it are all named."""

import asyncio
import textwrap
from pathlib import Path

import pytest

from runner.adapters.scripted_model import ScriptedModel, ScriptError
from runner.core.messages import (
    Assistant,
    ModelReply,
    ModelRequest,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from runner.ports import Delta, ModelError

REQUEST = ModelRequest(
    model="scripted:x", system="", messages=(User(text="Hello"),), tools=(), max_output_tokens=5
)
EXAMPLE = Path(__file__).parents[2] / "configs/tasks/quickstart/replies.yaml"


def script(folder: Path, text: str) -> Path:
    """A script file with this text."""
    path = folder / "replies.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def ask(model: ScriptedModel, request: ModelRequest = REQUEST) -> tuple[ModelReply, list[Delta]]:
    """One reply, and the pieces in which it came."""
    deltas: list[Delta] = []
    return asyncio.run(model.ask(request, deltas.append)), deltas


def failure(model: ScriptedModel) -> ModelError:
    """The error of the next attempt."""
    with pytest.raises(ModelError) as caught:
        ask(model)
    return caught.value


def test_a_reply_has_all_that_the_script_says(tmp_path: Path) -> None:
    """Text, reasoning, calls, counts and reason are those of the entry."""
    path = script(
        tmp_path,
        """
        replies:
          - text: Let me look
            reasoning: hm
            tools:
              - {name: Bash, arguments: {command: ls, n: 1, x: 0.5, on: no}}
              - {name: Read, id: mine}
            usage: {input_tokens: 12, output_tokens: 6, cache_read_tokens: 3, cache_write_tokens: 4}
            finish_reason: stop
        """,
    )
    reply, _ = ask(ScriptedModel.load(path))
    arguments = {"command": "ls", "n": 1, "x": 0.5, "on": "no"}
    assert reply == ModelReply(
        text="Let me look",
        calls=(
            ToolCall(id="call_0_0", name="Bash", arguments=arguments),
            ToolCall(id="mine", name="Read", arguments={}),
        ),
        reasoning=(ReasoningBlock(text="hm"),),
        finish_reason="stop",
        usage=Usage(input_tokens=12, output_tokens=6, cache_read_tokens=3, cache_write_tokens=4),
    )


def test_the_finish_reason_follows_from_the_content(tmp_path: Path) -> None:
    """`tool_calls` when there are calls, else `stop`, when the script says nothing."""
    model = ScriptedModel.load(script(tmp_path, "replies: [{tools: [{name: A}]}, {text: b}]"))
    assert [ask(model)[0].finish_reason for _ in range(2)] == ["tool_calls", "stop"]


def test_the_text_is_streamed_in_pieces(tmp_path: Path) -> None:
    """Reasoning first, then the text, each in several pieces that add up to it."""
    model = ScriptedModel.load(
        script(tmp_path, "replies: [{text: a longer text, reasoning: thinking}]")
    )
    _, deltas = ask(model)
    assert [delta.kind for delta in deltas] == ["reasoning"] * 4 + ["text"] * 4
    assert "".join(delta.text for delta in deltas) == "thinkinga longer text"


def test_arguments_as_text_may_be_broken(tmp_path: Path) -> None:
    """A call whose arguments are not JSON has a problem instead of arguments."""
    (call,) = ask(
        ScriptedModel.load(
            script(tmp_path, """replies: [{tools: [{name: A, arguments: '{"x": '}]}]""")
        )
    )[0].calls
    assert call.arguments == {}
    assert call.problem is not None
    assert call.problem.startswith("arguments are not valid JSON: ")


def test_usage_can_be_missing(tmp_path: Path) -> None:
    """`usage: none` is a provider that reports nothing."""
    assert ask(ScriptedModel.load(script(tmp_path, "replies: [{usage: none}]")))[0].usage is None


def test_usage_is_estimated_otherwise(tmp_path: Path) -> None:
    """A quarter of the bytes, rounded up, when the script gives no counts."""
    model = ScriptedModel.load(script(tmp_path, "replies: [{text: '12345'}]"))
    counted = asyncio.run(model.count_tokens(REQUEST))
    assert ask(model)[0].usage == Usage(input_tokens=counted, output_tokens=2)


def test_more_output_than_asked_for_is_played(tmp_path: Path) -> None:
    """A script may report more output tokens than the request allows."""
    model = ScriptedModel.load(script(tmp_path, "replies: [{usage: {output_tokens: 999}}]"))
    assert ask(model)[0].usage == Usage(output_tokens=999)


def test_the_first_count_covers_what_will_be_reported(tmp_path: Path) -> None:
    """The count is the stated prompt of the next reply when that is more than the estimate."""
    path = script(
        tmp_path, "replies: [{usage: {input_tokens: 5000, cache_read_tokens: 70}}, {text: b}]"
    )
    assert asyncio.run(ScriptedModel.load(path).count_tokens(REQUEST)) == 5070
    assert asyncio.run(ScriptedModel.load(path, skip=1).count_tokens(REQUEST)) < 100
    assert asyncio.run(ScriptedModel.load(path, skip=2).count_tokens(REQUEST)) < 100


def test_a_failure_is_an_attempt(tmp_path: Path) -> None:
    """The attempt fails as the entry says, and the next one gets the next entry."""
    path = script(
        tmp_path,
        """
        replies:
          - text: before it broke
            error: {kind: rate_limit, status: 429, message: slow down, retry_after: 1.5,
                    may_bill: true}
          - error: {kind: quota}
          - text: fine
        """,
    )
    model = ScriptedModel.load(path)
    first, second = failure(model), failure(model)
    assert (first.kind, first.status_code, first.message) == ("rate_limit", 429, "slow down")
    assert (first.retryable, first.retry_after_s, first.may_bill) == (True, 1.5, True)
    assert (second.kind, second.message) == ("quota", "scripted failure: quota")
    assert (second.retryable, second.retry_after_s, second.may_bill) == (False, None, False)
    assert ask(model)[0].text == "fine"


def test_a_failure_can_come_after_some_text(tmp_path: Path) -> None:
    """The text is streamed first: a stream that breaks off."""
    model = ScriptedModel.load(
        script(tmp_path, "replies: [{text: abcd, error: {kind: provider_unavailable}}]")
    )
    deltas: list[Delta] = []
    with pytest.raises(ModelError):
        asyncio.run(model.ask(REQUEST, deltas.append))
    assert "".join(delta.text for delta in deltas) == "abcd"


def test_an_exhausted_script_is_an_error(tmp_path: Path) -> None:
    """The attempt after the last entry fails for good, and says which it was of which file."""
    path = script(tmp_path, "replies: [{text: a}, {text: b}]")
    model = ScriptedModel.load(path)
    ask(model)
    ask(model)
    error = failure(model)
    assert (error.kind, error.retryable) == ("invalid_request", False)
    assert error.message == f"the script {path} has no reply for call 3"


def test_a_delay_is_waited_for(tmp_path: Path) -> None:
    """The wait comes before the first piece."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    loaded = ScriptedModel.load(script(tmp_path, "replies: [{text: a, delay: 0.25}, {text: b}]"))
    model = ScriptedModel(loaded.replies, sleep=sleep)
    ask(model)
    ask(model)
    assert waited == [0.25, 0.0]


def test_ids_stay_unique_over_a_session(tmp_path: Path) -> None:
    """A call gets a new id when its own was used in an earlier reply."""
    model = ScriptedModel.load(script(tmp_path, "replies: [{tools: [{name: A, id: x}]}]"))
    earlier = Assistant(text="", calls=(ToolCall(id="x", name="A", arguments={}),))
    answer = ToolResult(call_id="x", name="A", content="")
    request = ModelRequest(
        model="m", system="", messages=(earlier, answer), tools=(), max_output_tokens=5
    )
    assert ask(model, request)[0].calls == (ToolCall(id="x_2", name="A", arguments={}),)


def test_every_mistake_is_named(tmp_path: Path) -> None:
    """All problems are reported at once, with file, line and path."""
    path = script(
        tmp_path,
        """\
        replies:
          - txt: hi
            tools: [{nam: Bash, arguments: 5, id: 3}, 7]
            usage: {input_tokens: -1, output: 3}
            finish_reason: done
            delay: soon
          - error: {kind: nope, status: "x", retry_after: -1, may_bill: 1}
          - error: {message: x}
          - just text
          - usage:
        """,
    )
    with pytest.raises(ScriptError) as caught:
        ScriptedModel.load(path)
    kinds = (
        "authentication, quota, rate_limit, provider_unavailable, invalid_request, "
        "model_not_found, context_limit"
    )
    assert str(caught.value).replace(f"{path}:", "") == textwrap.dedent(f"""\
        2: replies[0].txt: unknown key
        hint: did you mean `text`?
        3: replies[0].tools[0].nam: unknown key
        hint: did you mean `name`?
        3: replies[0].tools[0]: no `name`
        hint: name the tool
        3: replies[0].tools[0].id: must be text
        3: replies[0].tools[0].arguments: must be a map, or text to play arguments that are not \
valid JSON
        3: replies[0].tools[1]: must be a map
        4: replies[0].usage.output: unknown key
        hint: did you mean `output_tokens`?
        4: replies[0].usage.input_tokens: must be a whole number, 0 or more
        5: replies[0].finish_reason: must be one of stop, length, tool_calls, content_filter
        6: replies[0].delay: must be a number of seconds, 0 or more
        7: replies[1].error.kind: must be one of {kinds}
        7: replies[1].error.status: must be a whole number, 0 or more
        7: replies[1].error.retry_after: must be a number of seconds, 0 or more
        7: replies[1].error.may_bill: must be true or false
        8: replies[2].error: no `kind`
        hint: one of {kinds}
        9: replies[3]: must be a map
        10: replies[4].usage: must be a map of token counts, or `none`""")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the document is empty"),
        ("replies: 5", "replies: must be a list"),
        ("other: 1", "no `replies`"),
        ("[1]", "must be a map"),
        ("replies: [", "not valid YAML"),
        ("replies: [{text: a, text: b}]", "replies[0].text: a duplicate of the key"),
        ("replies: [{text: no}, {text: 5}]", "replies[1].text: must be text"),
    ],
)
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The problem says what is wrong with the file as a whole."""
    with pytest.raises(ScriptError) as caught:
        ScriptedModel.load(script(tmp_path, text))
    assert message in str(caught.value)
    assert "spec" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The path and the reason are in the message."""
    with pytest.raises(ScriptError) as caught:
        ScriptedModel.load(tmp_path / "none.yaml")
    assert (
        str(caught.value) == f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"
    )


def test_the_example_can_be_played() -> None:
    """The script of the quick start is valid and ends with `task_complete`."""
    model = ScriptedModel.load(EXAMPLE)
    *_, last = (ask(model)[0] for _ in model.replies)
    assert [call.name for call in last.calls] == ["task_complete"]

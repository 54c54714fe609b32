"""What is done about a conversation that gets too long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core import compaction, context, summary
from runner.core.events import (
    RunnerPreflight,
    SessionModelChange,
    SessionUsageInfo,
    SessionWarning,
    UserMessage,
    WindowListing,
)
from runner.core.fold import fold
from runner.core.ledger import ZERO
from runner.core.messages import Assistant, Message, ToolResult, Usage, User
from runner.core.state import State
from runner.core.summary import level, removable, summary_request
from runner.core.thread import Thread, compaction_focus
from runner.core.weight import cut, message_bound
from tests.fakes import call, reply
from tests.grown import USED, begins, fails, full, helps, read, too_long, windowed
from tests.logs import MODEL, SENTENCES, Log, task

SIZES = st.lists(st.integers(0, 9_000), min_size=1, max_size=9)


def is_paired(messages: tuple[Message, ...]) -> bool:
    """Each call has its result right behind its reply, and there are no other results."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResult):
            if message.call_id not in waiting:
                return False
            waiting.remove(message.call_id)
        elif waiting:
            return False
        elif isinstance(message, Assistant):
            waiting = [asked.id for asked in message.calls]
    return not waiting


def _with_tools(log: Log, size: int) -> RunnerPreflight:
    """The preflight again, with definitions of tools that have this many bytes."""
    assert log.state.preflight is not None
    return replace(log.state.preflight, tool_definitions_bytes=size)


def summarised(log: Log, text: str = "All was read.") -> Log:
    """The log after a compaction that gave this summary."""
    event = summary.completed(log.state, "threshold", reply(text), USED)
    return log.add(begins(), event)


# -- what is shown -----------------------------------------------------------------------------


def test_a_summary_stands_for_the_oldest_and_the_newest_stay() -> None:
    """The task and the summary come first, the last call with its result after; all is kept."""
    log = full()
    before = log.state.main.messages
    shown = summarised(log).state.main.view
    assert shown == (User(text="Task: Do it. Summary: All was read."), *before[-2:])
    assert log.state.main.messages == before


def test_a_second_summary_replaces_the_first() -> None:
    """What the first one stood for is not shown again, and it is not shown either."""
    log = summarised(full())
    log = summarised(full(log), "More.")
    assert log.state.main.view[0] == User(text="Task: Do it. Summary: More.")
    assert sum(isinstance(message, User) for message in log.state.main.view) == 1


def test_as_much_of_the_end_is_kept_as_its_share_of_the_window() -> None:
    """Several turns when they are short, the last one when even that is longer."""
    log = windowed()
    for size in (9_000, 900, 900, 900):
        read(log, size, tokens=6_000)
    assert removable(log.state) == 3
    assert removable(read(log, 9_000, tokens=6_000).state) == 9
    log = windowed(3_000)
    for size in (9_000, 900, 900, 900):
        read(log, size, tokens=99_000)
    assert removable(log.state) == 7


def test_what_a_summary_quotes_is_not_filled_in() -> None:
    """Braces in the task and in the summary stay as they are."""
    log = windowed(prompt="Mind {summary} and {x}.")
    read(read(log, 10), 10)
    event = summary.completed(log.state, "manual", reply("Saw {task}."), USED)
    assert event.summary_content == "Task: Mind {summary} and {x}. Summary: Saw {task}."


def test_a_long_task_is_repeated_in_part() -> None:
    """Head and tail of it, in a tenth of the window."""
    log = windowed(prompt="a" * 9_000)
    read(read(log, 10, tokens=3_000), 10, tokens=3_000)
    event = summary.completed(log.state, "manual", reply("x"), USED)
    assert event.summary_content is not None
    assert len(event.summary_content) < 7_000
    assert "bytes left out" in event.summary_content


@given(sizes=SIZES, density=st.integers(1, 9), more=SIZES)
def test_compaction_keeps_pairs_and_the_newest_and_shrinks(
    sizes: list[int], density: int, more: list[int]
) -> None:
    """Whatever was said: calls stay with their results, the end stays as it was, less is sent,
    and the log gives the same view again."""
    log = windowed()
    for size in sizes:
        read(log, size, tokens=size * density // 8)
    before, removed = log.state, removable(log.state)
    summarised(log, "x")
    state = log.state
    if state.main.summary is None:
        assert removed == 0 or before.main.weight <= state.main.weight + 200
    else:
        assert state.main.view[1:] == before.main.view[removed:]
        estimates = (context.estimated_tokens(state), context.estimated_tokens(before))
        assert state.main.weight < before.main.weight or estimates[0] < estimates[1]
    for size in more:
        read(log, size)
    assert is_paired(log.state.main.view[1:] if log.state.main.summary else log.state.main.view)
    assert fold(log.journal.records) == log.state
    assert log.state.main.weight == sum(map(message_bound, log.state.main.view))


# -- what it is asked of -----------------------------------------------------------------------


def test_a_summary_is_asked_for_at_the_end_of_the_same_request() -> None:
    """Same prefix, same messages, one wish more: the provider's cache holds."""
    log = windowed(instructions="Keep names.")
    read(read(log, 500, tokens=500), 500, tokens=900)
    asked, usual = summary_request(log.state, ()), context.request(log.state, ())
    wish = User(text=SENTENCES["compact"].replace("{focus}", "Keep names."))
    assert asked == replace(usual, messages=(*usual.messages, wish), max_output_tokens=5_000)


def test_the_focus_of_the_prompt_joins_that_of_the_spec() -> None:
    """Both are told; neither is no focus."""
    log = Log(task(compaction=replace(task().compaction, instructions="Keep names. ")))
    log.add(UserMessage(content="/compact  on errors\nand tests"))
    assert summary.focus(log.state) == "Keep names.\n\non errors\nand tests"
    assert summary.focus(Log().state) is None
    assert summary_request(Log().state, ()).messages[-1] == User(text="Summarise. Mind: None.")


@pytest.mark.parametrize(
    ("text", "focus"),
    [
        ("/compact", ""),
        (" /compact\n", ""),
        ("/compact file names", "file names"),
        ("/compact\n\nfile\nnames ", "file\nnames"),
        ("/compaction", None),
        ("please /compact", None),
        ("", None),
    ],
)
def test_a_prompt_asks_for_a_compaction_with_its_first_word(text: str, focus: str | None) -> None:
    """The rest of it is what the summary is about."""
    assert compaction_focus(text) == focus


def test_what_does_not_fit_is_cut_for_the_summary_and_kept_for_the_run() -> None:
    """The longest message is cut first; what the run is shown stays."""
    log = windowed()
    read(read(log, 15_000, tokens=100), 3_000, tokens=18_000)
    asked = summary_request(log.state, ())
    assert context.request_bound(asked) < 15_000
    assert asked.messages[-2] == log.state.main.messages[-1]
    assert "bytes left out" in str(asked.messages[2])
    assert context.request(log.state, ()).messages == log.state.main.messages


def test_the_oldest_go_when_cutting_is_not_enough() -> None:
    """Hundreds of short messages: whole exchanges are left out of the request for a summary."""
    log = windowed(2_000)
    for _ in range(40):
        read(log, 300, tokens=9_000)
    asked = summary_request(log.state, ())
    assert len(asked.messages) < 20
    assert is_paired(asked.messages)


@given(st.lists(st.integers(0, 100), max_size=6), st.integers(-5, 300))
def test_a_cap_is_the_highest_that_fits(sizes: list[int], total: int) -> None:
    """Cut to it, the sizes come to the total at most; cut to one more, they do not."""
    cap = level(sizes, total)
    assert sum(min(size, cap) for size in sizes) <= max(total, 0)
    if sum(sizes) > total >= 0:
        assert sum(min(size, cap + 1) for size in sizes) > total


# -- what came of it ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (" \n", "the model gave no summary"),
        ("word " * 9_000, "the summary is no shorter than what it stands for"),
    ],
)
def test_a_summary_that_is_none_changes_nothing(text: str, error: str) -> None:
    """The attempt was answered and paid, the view is the old one."""
    log = full()
    before = log.state.main.view
    main = summarised(log, text).state.main
    assert (main.view, main.summaries, main.vain_compactions) == (before, 1, 1)
    event = summary.completed(full().state, "threshold", reply(text), USED)
    assert (event.success, event.error, event.summary_content) == (False, error, None)


def test_a_summary_that_was_cut_off_says_so() -> None:
    """It stands all the same: the newest messages and the task are there too."""
    said = reply("Half", finish_reason="length")
    event = summary.completed(full().state, "threshold", said, USED)
    assert (event.success, "Half\n[cut off here" in (event.summary_content or "")) == (True, True)


def test_a_refusal_is_no_summary() -> None:
    """What a filter left of one is not gone on with."""
    said = reply("I cannot", finish_reason="content_filter")
    event = summary.completed(full().state, "threshold", said, USED)
    assert (event.success, event.error) == (False, "the model refused to summarise")


def test_a_compaction_by_hand_may_be_longer() -> None:
    """Who asks for one gets it, however short the session is."""
    log = read(windowed(), 1)
    assert summary.completed(log.state, "manual", reply("word " * 99), USED).success


def test_compaction_that_is_needed_again_at_once_is_in_vain() -> None:
    """Twice in a row with one reply in between, and nothing more is tried."""
    log = full()
    for number in range(3):
        log.add(begins(), helps(1))
        assert log.state.main.vain_compactions == number
        read(log, 4_000, tokens=17_000)
    assert log.rule == "compaction_in_vain"
    log.settle()
    assert log.rule == "ask"
    assert read(log, 10, tokens=19_000).rule == "ask"


def test_compaction_that_held_for_a_while_is_not_in_vain() -> None:
    """The count starts anew when several replies fitted."""
    log = full().add(begins(), fails(), begins(), helps(3))
    for tokens in (5_000, 9_000, 17_000):
        read(log, 2_000, tokens=tokens)
    assert log.add(begins(), helps(1)).state.main.vain_compactions == 0


def test_a_refused_request_is_made_shorter_once() -> None:
    """Refused again after the compaction it ends the run; a reply in between starts anew."""
    log = full().turn().add(too_long(17_000)).ends()
    log.add(begins("context_limit_retry"), helps(5, "context_limit_retry"))
    assert (log.rule, log.state.main.recovering) == ("ask", True)
    again = fold(log.journal.records)
    log.turn().add(too_long(9_000)).ends()
    assert log.rule == "too_long"
    assert log.settle().state.failure is not None
    assert again.main.recovering
    assert not read(full(), 10).state.main.recovering


def test_a_recovery_that_fails_ends_the_run() -> None:
    """There is no second attempt at it."""
    log = full().turn().add(too_long(17_000)).ends()
    log.add(begins("context_limit_retry"), fails("context_limit_retry")).settle()
    assert log.state.failure is not None
    assert log.state.failure.error_type == "context_limit"


def test_what_was_refused_is_the_window_from_then_on() -> None:
    """Also where nobody knows the window, and also when the summary itself was too long."""
    log = Log().turn().add(too_long(5_000)).ends()
    assert context.window_tokens(log.state) == 5_000
    log.add(begins(), fails(reason="context_limit"))
    assert context.window_tokens(log.state) == 5_000
    log.turn().add(too_long(3_000)).ends()
    assert context.window_tokens(log.state) == 3_000
    other = SessionModelChange(
        previous_model=MODEL, new_model="other", cause="busy", reserved_cost_usd=ZERO
    )
    assert context.window_tokens(log.add(other).state) is None


def test_an_interrupted_compaction_counts_for_nothing() -> None:
    """It will be done again; one by hand is asked for again by whoever resumes."""
    log = full().add(begins(reserved="0.25"))
    assert sum(log.state.ledger.reserved.values()) > 0
    log.add(summary.unfinished("threshold", "the run was killed"))
    assert log.state.ledger.reserved == {}
    assert (log.state.main.vain_compactions, log.rule) == (0, "compaction_due")


def test_a_kill_in_a_compaction_by_hand_leaves_no_order_behind() -> None:
    """The next prompt is what counts, not the last one."""
    log = full().add(UserMessage(content="/compact")).add(begins("manual")).resumes()
    log.add(summary.unfinished("manual", "the run was killed")).settle()
    assert (log.state.main.command, log.rule) == (None, "compaction_due")


def test_the_task_stays_the_task_when_the_prompt_is_an_order() -> None:
    """`/compact` is no task: the last real one is repeated beside the summary."""
    log = Log(task(prompt="/compact"))
    assert log.state.task == ""
    assert Log().state.task == "Do it."


# -- cutting -----------------------------------------------------------------------------------


def test_a_message_too_large_for_the_window_is_cut_and_the_run_goes_on() -> None:
    """The model sees head, tail and a marker; later messages are cut too."""
    log = read(windowed(), 100_000, tokens=100).settle()
    assert log.rule == "ask"
    result = log.state.main.view[-1]
    assert isinstance(result, ToolResult)
    assert "bytes left out" in result.content
    assert context.estimated_tokens(log.state) < 16_000
    later = read(log, 50_000, tokens=9_000).state.main.view[-1]
    assert isinstance(later, ToolResult)
    assert len(later.content) < 8_000


def test_an_older_message_too_large_is_cut_when_the_window_gets_smaller() -> None:
    """The window of a model that takes over is what counts."""
    log = Log(task())
    read(read(log, 40_000, tokens=100), 10, tokens=40_000)
    preflight = log.state.preflight
    assert isinstance(preflight, RunnerPreflight)
    log.add(replace(preflight, windows=(WindowListing(model=MODEL, tokens=8_000),)))
    assert log.rule == "message_too_large"
    log.settle()
    assert max(map(message_bound, log.state.main.view)) <= 8_000
    assert is_paired(log.state.main.view)


def test_nothing_is_cut_where_the_prefix_alone_fills_the_window() -> None:
    """It would not help: the provider says what it thinks of the request."""
    log = windowed(1_000)
    log.add(_with_tools(log, 9_000))
    assert read(log, 9_000, tokens=9_000).rule == "compaction_due"


def test_a_cut_is_not_repeated_for_what_cannot_be_cut() -> None:
    """The new cap has to be half the old one at least."""
    log = read(windowed(), 100_000, tokens=100).settle()
    log.add(SessionWarning(warning_type="message_cut", message="", max_message_bytes=9_000))
    many = [call("Read", f"r{n}", file_path="a" * 900) for n in range(40)]
    log.turn().paid(usage=Usage(input_tokens=19_000)).hears(reply("", *many))
    log.runs(*many).ends()
    assert log.rule == "compaction_due"
    assert not compaction.is_too_large(log.state)


def test_every_text_of_a_message_is_cut_and_nothing_else() -> None:
    """Ids, names and numbers stay; nested arguments are reached; short messages are the same."""
    long = "y" * 500
    arguments = {"text": long, "list": [long, 1], "map": {"in": long}, "n": 2}
    said = Assistant(text=long, calls=(call("Edit", "c", **arguments),))
    shorter = cut(said, 100)
    assert isinstance(shorter, Assistant)
    (asked,) = shorter.calls
    assert (asked.id, asked.name, asked.arguments["n"]) == ("c", "Edit", 2)
    texts = [shorter.text, asked.arguments["text"], asked.arguments["map"]["in"]]
    texts.append(asked.arguments["list"][0])
    assert all(len(text) <= 100 and "left out" in text for text in texts)
    assert isinstance(cut(User(text=long), 100), User)
    same = User(text="short")
    assert cut(same, 100) is same
    assert cut(said, None) is said


# -- how full the window is --------------------------------------------------------------------


def test_the_estimate_follows_what_the_provider_measured() -> None:
    """Measured, what came since counts at the same density; unmeasured, all of it."""
    log = windowed()
    first = context.estimated_tokens(log.state)
    assert first == round(log.state.prefix_bytes / 4) + round(log.state.main.weight / 4)
    read(log, 4_000, tokens=35)
    since = log.state.main.weight - log.state.main.measured_weight
    density = 35 / (log.state.prefix_bytes + log.state.main.measured_weight)
    assert context.estimated_tokens(log.state) == 35 + round(since * density)


@pytest.mark.parametrize(("tokens", "density"), [(1, 0.125), (10**6, 1.0)])
def test_a_density_that_cannot_be_is_not_believed(tokens: int, density: float) -> None:
    """A token is at least a byte."""
    assert read(windowed(), 10, tokens=tokens).state.main.density == density


def test_the_usage_of_the_window_is_shown_in_its_parts() -> None:
    """They add up; nothing is shown where nobody knows the window."""
    assert context.usage_info(Log().state) is None
    log = windowed()
    log.add(_with_tools(log, 400))
    assert context.usage_info(log.state) == SessionUsageInfo(
        token_limit=20_000,
        current_tokens=118,
        messages_length=1,
        system_tokens=12,
        conversation_tokens=6,
        tool_definitions_tokens=100,
        is_initial=True,
    )
    assert context.usage_info(full().state).is_initial is None  # type: ignore[union-attr]  # known


def test_near_the_end_of_the_window_the_reply_gets_what_is_left() -> None:
    """A request that asks for more output than fits would be refused."""
    log = windowed(enabled=False)
    assert context.request(log.state, ()).max_output_tokens == 8_192
    read(log, 100, tokens=15_000)
    assert 4_000 < context.request(log.state, ()).max_output_tokens < 5_000
    read(log, 100, tokens=25_000)
    assert context.request(log.state, ()).max_output_tokens == 256


def test_a_thread_that_starts_anew_keeps_its_view() -> None:
    """Counters start again on a resume that does not carry; the summary stays."""
    log = summarised(full()).finishes().resumes(carries=False)
    state: State = log.state
    assert state.main.view[0] == User(text="Task: Do it. Summary: All was read.")
    assert (state.main.replies, state.main.summaries) == (0, 0)
    assert isinstance(state.main, Thread)

"""Tool calls as models write them: whatever it is, every call has a unique id or a problem."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.adapters.tool_calls import RawCall, read_arguments, tool_calls
from runner.core.messages import ToolCall

IDS = st.sampled_from(["", "a", "b", "call_1", "call_2", "a_2"])
CALLS = st.lists(
    st.builds(
        RawCall,
        id=IDS,
        name=st.sampled_from(["", " ", "Read"]),
        arguments=st.one_of(st.text(max_size=20), st.just('{"x": 1}')),
    ),
    max_size=5,
)


@given(written=CALLS, taken=st.frozensets(IDS))
def test_anything_becomes_calls_with_unique_ids(
    written: list[RawCall], taken: frozenset[str]
) -> None:
    """One call each, ids new and distinct, and no arguments where there is a problem."""
    calls = tool_calls(written, taken=taken)
    ids = [call.id for call in calls]
    assert len(calls) == len(written)
    assert len(set(ids)) == len(ids)
    assert not set(ids) & taken
    assert all(call.id and call.name for call in calls)
    assert all(call.arguments == {} for call in calls if call.problem)


@given(arguments=st.dictionaries(st.text(), st.recursive(st.integers(), st.lists, max_leaves=5)))
def test_an_object_is_read_as_it_is(arguments: dict[str, object]) -> None:
    """Every JSON object is arguments."""
    assert read_arguments(json.dumps(arguments)) == (arguments, None)


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_no_text_is_no_arguments(text: str) -> None:
    """Some providers send nothing for a tool without parameters."""
    assert read_arguments(text) == ({}, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"x": ', "arguments are not valid JSON: "),
        ('{"x": NaN}', "arguments are not valid JSON: NaN is not JSON"),
        ("[" * 100_000, "arguments are not valid JSON: "),
        ("1" * 5_000, "arguments are not valid JSON: "),
        ('{"x": 1e400}', "arguments are not valid JSON: 1e400 is out of range"),
        ('{"x": ' + "[" * 100 + "]" * 100 + "}", "arguments are nested deeper than 100 levels"),
        ("[1]", "arguments are not a JSON object but list"),
        ("null", "arguments are not a JSON object but NoneType"),
        ('"{}"', "arguments are not a JSON object but str"),
    ],
    ids=["cut", "NaN", "deep", "digits", "inf", "nested", "list", "null", "text"],
)
def test_what_is_no_object_is_a_problem(text: str, problem: str) -> None:
    """The model is told what is wrong with what it wrote."""
    arguments, found = read_arguments(text)
    assert arguments == {}
    assert str(found).startswith(problem)


def test_what_was_written_is_kept_and_its_mistake_shown() -> None:
    """The text goes to the log as it was; the model is shown the place where it went wrong."""
    text = '{"command": "' + "x" * 60 + '" "timeout": 5, "description": "' + "y" * 60 + '"}'
    (call,) = tool_calls([RawCall(id="a", name="Bash", arguments=text)])
    assert (call.arguments, call.raw_arguments) == ({}, text)
    shown = repr("x" * 38 + '" ' + '"timeout": 5, "description": "' + "y" * 10)
    assert call.problem is not None
    assert call.problem.startswith("arguments are not valid JSON: Expecting ',' delimiter")
    assert call.problem.endswith(f", in {shown}")


def test_a_hundred_levels_are_read() -> None:
    """The limit is the last depth that is read."""
    text = '{"x": ' + "[" * 99 + "]" * 99 + "}"
    assert read_arguments(text) == (json.loads(text), None)


@pytest.mark.parametrize("text", ["", '{"x": '])
def test_a_cut_reply_explains_itself(text: str) -> None:
    """The output limit is named as the reason when the reply ran into it."""
    problem = "the arguments are cut off: the reply reached its output limit"
    assert read_arguments(text, cut=True) == ({}, problem)


def test_a_whole_object_in_a_cut_reply_is_whole() -> None:
    """A closed object cannot have gone on."""
    assert read_arguments('{"x": 1}', cut=True) == ({"x": 1}, None)


def test_a_call_without_a_name_is_a_problem() -> None:
    """It gets a name that can stand in the history."""
    assert tool_calls([RawCall(id="a", name=" ", arguments="{}")]) == (
        ToolCall(
            id="a",
            name="unnamed",
            arguments={},
            problem="the call has no tool name",
            raw_arguments="{}",
        ),
    )


def test_an_id_of_an_earlier_reply_is_no_problem() -> None:
    """Some servers begin to count anew in every reply: the id is changed, the call is run."""
    assert tool_calls([RawCall(id="a", name="Read")], taken={"a"}) == (
        ToolCall(id="a_2", name="Read", arguments={}),
    )

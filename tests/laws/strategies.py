"""Values made up by hypothesis: events of every type, replies, prices, whole runs."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from runner.core import wire
from runner.core.events import (
    EPHEMERAL_TYPES,
    PERSISTED_TYPES,
    Event,
    PriceListing,
    Record,
    RunnerResult,
    RunnerSpec,
)
from runner.core.messages import AGENT_TOOL, ModelReply, ToolCall, Usage
from runner.core.spec import AgentSpec, CompactionSpec, LimitsSpec, TaskSpec
from runner.ports import ModelError, ModelErrorKind
from tests.logs import MODEL, task

texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
amounts = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(-exponent),
    st.integers(0, 10**15 - 1),
    st.integers(0, 9),
)
"""Dollars of at most fifteen digits, to the nano-dollar."""

SCALARS: Mapping[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: st.integers(-(2**53), 2**53),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    Decimal: amounts,
}


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type as the codec knows types."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        names = get_type_hints(hint)
        fields = {f.name: of(names[f.name]) for f in dataclasses.fields(hint)}
        return st.builds(hint, **fields)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of(*(st.none() if arg is type(None) else of(arg) for arg in args))
    if origin is tuple:
        return st.lists(of(args[0]), max_size=3).map(tuple)
    if origin is Literal:
        return st.sampled_from(args)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(texts, of(args[1]), max_size=3)
    return SCALARS.get(hint, json_values)


def events_of(cls: type[Event]) -> st.SearchStrategy[Event]:
    """Events of one class."""
    if cls is RunnerResult:
        return st.builds(RunnerResult, result=st.dictionaries(texts, json_values, max_size=3))
    return of(cls)


persisted_events = st.one_of(*map(events_of, PERSISTED_TYPES.values()))
foldable_events = st.one_of(
    *(events_of(cls) for cls in PERSISTED_TYPES.values() if cls is not RunnerSpec),
    st.builds(
        RunnerSpec,
        spec=of(TaskSpec).map(wire.encode),
        spec_hash=texts,
        sentences=st.just({}),
    ),
)
"""Events as a log holds them: a recorded spec is a spec."""
ephemeral_events = st.one_of(*map(events_of, EPHEMERAL_TYPES.values()))
envelopes = st.fixed_dictionaries(
    {
        "id": st.uuids().map(str),
        "timestamp": texts,
        "parent_id": st.none() | st.uuids().map(str),
        "agent_id": st.none() | st.text(min_size=1, max_size=5),
    }
)
numbers = st.fixed_dictionaries({"seq": st.integers(0), "prev": st.none() | texts})
records = st.one_of(
    st.builds(
        lambda event, envelope, number: Record(event=event, **envelope, **number),
        persisted_events,
        envelopes,
        numbers,
    ),
    st.builds(lambda event, envelope: Record(event=event, **envelope), ephemeral_events, envelopes),
)

# -- runs ------------------------------------------------------------------------------------

NAMES = ("Read", "Glob", "Edit", "Bash", "TaskCreate", "Nope", "task_complete", "task_blocked")

arguments = st.dictionaries(
    st.sampled_from(["file_path", "summary", "reason"]), st.just("a") | st.just(" "), max_size=3
)
agents = st.fixed_dictionaries(
    {"prompt": st.just("Look.")},
    optional={"subagent_type": st.sampled_from(["scout", "writer", "nobody"])},
)
calls = st.builds(
    ToolCall,
    id=st.just("placeholder"),
    name=st.sampled_from(NAMES),
    arguments=arguments,
    problem=st.none() | st.none() | st.just("cut off"),
) | st.builds(ToolCall, id=st.just("placeholder"), name=st.just(AGENT_TOOL), arguments=agents)


shares = st.builds(
    Usage,
    input_tokens=st.integers(0, 100),
    output_tokens=st.integers(0, 100),
    cache_read_tokens=st.integers(0, 100),
    cache_write_tokens=st.integers(0, 100),
)
"""What of a request was read from and written to the cache, and of its limit said, in percent."""


@st.composite
def replies(draw: st.DrawFn) -> ModelReply:
    """A reply with any mixture of text and calls; the ids of its calls are its own."""
    asked = draw(st.lists(calls, max_size=4))
    return ModelReply(
        text=draw(st.sampled_from(["", "half", "nearly"])),
        calls=tuple(
            dataclasses.replace(call, id=f"call-{number}") for number, call in enumerate(asked)
        ),
        finish_reason=draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter"])),
        usage=draw(st.none() | shares),
    )


model_errors = st.builds(
    ModelError,
    st.sampled_from(get_args(ModelErrorKind)),
    st.just("failed"),
    retryable=st.booleans(),
    may_bill=st.booleans(),
)
answers = st.lists(replies() | replies() | replies() | model_errors, max_size=12)

prices = st.builds(
    PriceListing,
    model=st.just(MODEL),
    basis=st.sampled_from(["table", "spec"]),
    **{
        f"{kind}_per_mtok": st.decimals(0, 100, places=9, allow_nan=False, allow_infinity=False)
        for kind in ("input", "output", "cache_read", "cache_write")
    },
)


compactions = st.just(CompactionSpec()) | st.builds(
    CompactionSpec,
    window=st.integers(1, 3_000),
    threshold=st.sampled_from([0.1, 0.5, 0.8, 1.0]),
    enabled=st.sampled_from([True, True, True, False]),
)
"""Windows so small that some runs fill them: the prefix of a run over fakes is some 700 bytes."""


@st.composite
def specs(draw: st.DrawFn) -> TaskSpec:
    """Any combination of caps, modes and rules."""
    some_tools = st.lists(st.sampled_from(NAMES[:5]), max_size=2, unique=True).map(tuple)
    return task(
        autopilot=draw(st.booleans()),
        max_turns=draw(st.none() | st.integers(1, 3)),
        max_budget_usd=draw(st.none() | st.decimals("0.000000001", "0.5", places=10)),
        max_autopilot_continues=draw(st.integers(0, 4)),
        max_output_tokens=draw(st.integers(1, 1000)),
        permission_mode=draw(st.sampled_from(["default", "acceptEdits", "bypassPermissions"])),
        compaction=draw(compactions),
        allowed_tools=draw(some_tools),
        disallowed_tools=draw(some_tools),
        agents={
            "scout": AgentSpec(description="s", prompt="s", tools=("Read",), max_turns=1),
            "writer": AgentSpec(description="w", prompt="w", model="fake/writer"),
        },
        limits=LimitsSpec(
            max_subagent_depth=draw(st.integers(1, 2)), max_subagents=draw(st.integers(1, 3))
        ),
    )

"""Mode auto: what a model is asked about a call that no rule decided, and what its answer means.

The answer is one JSON object and nothing else; whatever is not exactly that is no approval. To
the one who is asked the call is data, in a fence: strangers may have had a say in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from runner.core import wire
from runner.core.messages import ModelRequest, ToolCall, User
from runner.core.state import State
from runner.core.truncate import fit
from runner.core.untrusted import cleaned, fenced
from runner.core.verdicts import Verdict

MAX_OUTPUT_TOKENS: Final = 2_048
MAX_TASK_BYTES: Final = 8_000
MAX_CALL_BYTES: Final = 60_000
"""A call whose arguments are longer is not asked about: what is cut off could not be judged."""
MAX_REASON_CHARS: Final = 400

_DECISIONS: Final = ("allow", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said: whether the call may run, and why."""

    allows: bool
    reason: str


def question(state: State, model: str, call: ToolCall) -> ModelRequest | None:
    """The request that asks about a call; None when the call is too long to be judged."""
    spec, texts = state.need, state.sentences
    arguments = json.dumps(wire.encode(call.arguments), ensure_ascii=False, sort_keys=True)
    if len(arguments.encode("utf-8", "replace")) > MAX_CALL_BYTES:
        return None
    told = fenced({"task": fit(state.task, MAX_TASK_BYTES), "call": f"{call.name} {arguments}"})
    wishes = spec.auto_mode.instructions if spec.auto_mode else None
    workspace = state.preflight.workspace if state.preflight else ""
    system = texts.get("classifier", "{instructions}")
    return ModelRequest(
        model=model,
        system=_fill(system, workspace=workspace, instructions=wishes or "None."),
        messages=(User(text=_fill(texts.get("classify", "{task}{call}"), **told)),),
        tools=(),
        max_output_tokens=min(spec.max_output_tokens, MAX_OUTPUT_TOKENS),
    )


def read_answer(text: str) -> Answer | None:
    """What an answer means; None when it is not exactly the object that was asked for."""
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.keys() != {"decision", "reason"}:
        return None
    decision, reason = value["decision"], value["reason"]
    if decision not in _DECISIONS or not isinstance(reason, str):
        return None
    said = " ".join(cleaned(reason).split())[:MAX_REASON_CHARS]
    return Answer(allows=decision == "allow", reason=said or "no reason given")


def ruled(answer: Answer | None) -> Verdict:
    """The verdict an answer comes to."""
    if answer is None:
        return refused("its answer is not the one JSON object that was asked for")
    if answer.allows:
        why = f"the permission classifier allows it: {answer.reason}"
        return Verdict(kind="approved", reason=why)
    return refused(answer.reason)


def refused(why: str) -> Verdict:
    """The verdict without an approval."""
    return Verdict(
        kind="denied-no-approval-rule-and-could-not-request-from-user",
        reason=f"no rule allows it, and the permission classifier does not: {why}",
    )


def _once(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    """An object in which every key stands once: two of one name would be two answers."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _fill(template: str, **values: str) -> str:
    """The template with each `{name}` replaced once; what is put in is left alone."""
    return re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], name[0]), template)

"""Any provider works: one conversation leaves the same log whatever the wire format is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.e2e.desk import Played, Wire
from tests.e2e.warm import WarmDesk
from tests.servers import D, Step, T, Usage, X

WIRES: tuple[Wire, ...] = ("openai", "responses", "anthropic", "gemini")
CONVERSATION: list[Step] = [
    X(
        ("Read", {"file_path": "README.md"}),
        ("Read", {"file_path": "missing.md"}),
        text="Let me look.",
        usage=Usage(input_tokens=10, output_tokens=7, cache_read_tokens=90),
    ),
    T("I think that is all."),
    D("Looked at both."),
]
_VARIES = re.compile(
    r"timestamp|prev|.*[Tt]ime|log_head|duration.*|.*(Ms|Hash|Sha256|Version)|.*Url|pid|apiBase"
    r"|windows"  # how much each of the models can read
    r"|reservedCostUsd"  # a bound made of bytes: call ids differ in length
)
_NAME = re.compile(
    r"(openai/(?:responses/)?gpt|anthropic/claude|gemini/gemini)-[\w.-]+|[A-Z]+_API_KEY"
    r"|[0-9a-f]{64}|\d{4}-\d\d-\d\dT[\d:.]+Z|https?://127\.0\.0\.1:\d+\S*"
)
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:call|toolu)_\w+")
PRICE = {"input_per_mtok": 1, "output_per_mtok": 2}


WarmDesks = Callable[[Wire], WarmDesk]


def test_every_wire_leaves_the_same_log(warm_desk: WarmDesks) -> None:
    """Text with parallel calls, a failing tool, a nudge, completion: equal but for the names."""
    logs = {wire: log_of(warm_desk(wire)) for wire in WIRES}
    for wire in WIRES[1:]:
        assert logs[wire] == logs["openai"]


def test_gemini_gets_its_signatures_and_names_back(warm_desk: WarmDesks) -> None:
    """Its calls have no ids and its results go by name; the signed call returns as it came."""
    signed = Step(
        text="Hm.",
        thinking="I weigh it up",
        signature="c2lnbmVkIGJ5IGdlbWluaQ==",
        tools=CONVERSATION[0].tools,
    )
    played = warm_desk("gemini").play([signed, D("done")])
    assert played.exit_code == 0, played.stderr
    _, said, told = played.requests[1]["contents"]
    (first, second) = [part for part in said["parts"] if "function_call" in part]
    assert first["thoughtSignature"] == signed.signature
    assert second["function_call"]["args"] == {"file_path": "missing.md"}
    assert [part["function_response"]["name"] for part in told["parts"]] == ["Read", "Read"]
    assert "A small project" in str(told["parts"][0])


def log_of(desk: WarmDesk) -> Any:
    """The events of the conversation on one wire."""
    played = desk.play(CONVERSATION, pricing=PRICE)
    assert played.exit_code == 0, played.stderr
    assert len(played.requests) == len(CONVERSATION)
    return normalised(played)


def normalised(played: Played) -> Any:
    """The whole log; ids are numbered as they turn up, what the clock and the names say is out."""
    return _plain(played.log, str(played.home.parent), {})


def _plain(value: Any, folder: str, ids: dict[str, str]) -> Any:
    match value:
        case dict():
            kept = {key: child for key, child in value.items() if not _VARIES.fullmatch(key)}
            return {
                _plain(key, folder, ids): _plain(child, folder, ids) for key, child in kept.items()
            }
        case list():
            return [_plain(child, folder, ids) for child in value]
        case str():
            text = _NAME.sub("NAME", value.replace(folder, "FOLDER"))
            return _ID.sub(lambda found: ids.setdefault(found[0], f"ID{len(ids)}"), text)
        case _:
            return value

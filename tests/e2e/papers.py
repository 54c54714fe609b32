"""What a run leaves on disk, and what must be true of it whatever happened."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import takewhile
from pathlib import Path
from typing import Any
from uuid import UUID

from claude_agent_sdk._internal.message_parser import parse_message
from claude_agent_sdk.types import ResultMessage
from copilot.generated.session_events import SessionEvent, SessionEventType

from runner.adapters.journal import read_log
from runner.core.events import EPHEMERAL_TYPES
from runner.core.fold import fold

MAX_LINE_BYTES = 256 * 1024

Event = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Papers:
    """The session folder of the one run in a home."""

    home: Path
    workspace: Path

    @property
    def folder(self) -> Path:
        """The folder of the only session."""
        (folder,) = (self.home / "session-state").iterdir()
        return folder

    @property
    def has_session(self) -> bool:
        """Whether there is any session at all."""
        return self.home.exists() and any(self.home.rglob("events.jsonl"))

    @property
    def log(self) -> list[Event]:
        """Every whole line of the log."""
        if not self.has_session:
            return []
        text = (self.folder / "events.jsonl").read_bytes()
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == b"\n"]

    @property
    def types(self) -> list[str]:
        """The types of the log's lines."""
        return [event["type"] for event in self.log]

    @property
    def result(self) -> dict[str, Any]:
        """`result.json`."""
        result: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return result

    def of(self, event_type: str) -> list[dict[str, Any]]:
        """The data of every event of a type."""
        return [event["data"] for event in self.log if event["type"] == event_type]

    def tool_errors(self) -> list[str]:
        """What the model was told about every call that failed."""
        return [
            done["error"]["message"]
            for done in self.of("tool.execution_complete")
            if not done["success"]
        ]


def check_papers(papers: Papers) -> None:
    """Every law of a finished run's log and result; see the functions below."""
    lines = (papers.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    events = [json.loads(line) for line in lines]
    check_chain(lines, events, papers.folder.name)
    check_turns(events)
    check_calls(events)
    for agent in {event["agentId"] for event in events if "agentId" in event}:
        check_agent([event for event in events if event.get("agentId") == agent])
    check_ending(events, papers.result)
    check_money(events, papers.result)
    check_readers(events, papers.folder)


def check_chain(lines: list[bytes], events: list[Event], session_id: str) -> None:
    """Each line is whole, small, persisted, and names the line before it twice."""
    assert all(line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES for line in lines)
    assert all(line.isascii() for line in lines)
    ids = [str(UUID(event["id"])) for event in events]
    assert len(set(ids)) == len(ids)
    assert [event["parentId"] for event in events] == [None, *ids[:-1]]
    assert [event["seq"] for event in events] == list(range(len(events)))
    hashes = [hashlib.sha256(line[:-1]).hexdigest() for line in lines]
    assert [event["prev"] for event in events] == [None, *hashes[:-1]]
    times = [datetime.fromisoformat(event["timestamp"]) for event in events]
    assert times == sorted(times)
    assert all(time.utcoffset() is not None for time in times)
    assert all(isinstance(event["data"], dict) for event in events)
    assert not any("ephemeral" in event or event["type"] in EPHEMERAL_TYPES for event in events)
    assert events[0]["type"] == "session.start"
    assert events[0]["data"]["sessionId"] == session_id


def check_agent(events: list[Event]) -> None:
    """Starts and ends of its turns alternate; a reply is charged before it is read."""
    types = [event["type"] for event in events]
    marks = [kind for kind in types if kind in ("assistant.turn_start", "assistant.turn_end")]
    assert marks == ["assistant.turn_start", "assistant.turn_end"] * (len(marks) // 2)
    for place, kind in enumerate(types):
        assert kind != "assistant.message" or types[place - 1] == "session.usage_checkpoint"


def _of_the_main_loop(events: list[Event]) -> list[Event]:
    return [event for event in events if "agentId" not in event]


def check_turns(every: list[Event]) -> None:
    """Starts and ends of turns alternate, with ids that count up; a charge comes first inside."""
    events = _of_the_main_loop(every)
    marks = [e for e in events if e["type"] in ("assistant.turn_start", "assistant.turn_end")]
    kinds = [event["type"] for event in marks]
    count = len(marks) // 2
    assert kinds == ["assistant.turn_start", "assistant.turn_end"] * count
    wanted = [str(number) for number in range(count) for _ in "se"]
    assert [event["data"]["turnId"] for event in marks] == wanted
    inside = False
    charged = False
    for event in events:
        match event["type"]:
            case "assistant.turn_start" | "session.compaction_start":
                assert not inside
                inside, charged = True, False
            case "session.usage_checkpoint":
                assert inside
                charged = True
            case "assistant.message":
                assert charged, "a reply was read before it was charged"
            case "session.compaction_complete":
                assert charged or not event["data"]["success"]
                inside = False
            case "assistant.turn_end":
                inside = False
            case "tool.execution_start" | "tool.execution_complete":
                assert inside
            case "session.task_complete" if event["data"]["success"]:
                rest = takewhile(lambda e: not _asks_for_more(e), every[event["seq"] :])
                assert "assistant.turn_start" not in [later["type"] for later in rest]


def _asks_for_more(event: Event) -> bool:
    """A Stop hook, or a check of what it left, says that a completion was not the end."""
    said = event["type"] == "user.message"
    return said and event["data"].get("source") in ("stop_hook", "verify")


def check_calls(events: list[Event]) -> None:
    """Every call that was asked for has one start and one outcome, inside its own turn; every
    sub-agent that began has ended."""
    for agent in {event.get("agentId") for event in events}:
        _check_calls_of([event for event in events if event.get("agentId") == agent])
    requests = Counter(e["data"]["requestId"] for e in events if "permission." in e["type"])
    assert set(requests.values()) <= {2}
    begun = [e["agentId"] for e in events if e["type"] == "subagent.started"]
    ended = [e["agentId"] for e in events if e["type"] in ("subagent.completed", "subagent.failed")]
    assert Counter(begun) == Counter(ended)


def _check_calls_of(events: list[Event]) -> None:
    asked: list[str] = []
    seen: list[tuple[str, str]] = []
    for event in events:
        data = event["data"]
        match event["type"]:
            case "assistant.message":
                asked += [call["toolCallId"] for call in data.get("toolRequests", ())]
            case "tool.execution_start" | "tool.execution_complete":
                seen.append((event["type"].rpartition("_")[2], data["toolCallId"]))
            case "assistant.turn_end":
                pairs = [(kind, call) for call in asked for kind in ("start", "complete")]
                assert Counter(seen) == Counter(pairs)
                assert all(
                    seen.index(("start", call)) < seen.index(("complete", call)) for call in asked
                )
                asked, seen = [], []
    assert (asked, seen) == ([], [])


def check_ending(events: list[Event], result: dict[str, Any]) -> None:
    """The log ends with the result and the shutdown, which agree with `result.json`."""
    types = [event["type"] for event in events]
    assert types[-2:] == ["runner.result", "session.shutdown"]
    assert (types.count("runner.result"), types.count("session.shutdown")) == (1, 1)
    assert events[-2]["data"] == result
    assert result["log_head"] == events[-2]["prev"]
    shutdown = events[-1]["data"]
    assert shutdown["shutdownType"] in ("routine", "error")
    assert (shutdown["resultSubtype"], shutdown["exitCode"], shutdown["totalCostUsd"]) == (
        result["subtype"],
        result["exit_code"],
        result["total_cost_usd"],
    )
    ok = result["subtype"] == "success"
    assert result["is_error"] is not ok
    assert ("result" in result) is ok
    assert bool(result.get("errors")) is not ok
    assert result["session_id"] == events[0]["data"]["sessionId"]
    usage = {"input_tokens", "output_tokens"}
    assert usage <= result["usage"].keys()
    assert min(result["num_turns"], result["duration_ms"], result["num_llm_calls"]) >= 0
    summaries = [e for e in events if "compactionTokensUsed" in e["data"]]
    assert result["num_llm_calls"] == types.count("assistant.message") + len(summaries)


def check_money(events: list[Event], result: dict[str, Any]) -> None:
    """Every charge stands in the log, and the sums say the same everywhere."""
    total = Decimal(0)
    for event in events:
        data = event["data"]
        if event["type"] == "tool.execution_start" and "fee" in data:
            total += Decimal(str(data["fee"]["costUsd"]))
        if event["type"] == "session.usage_checkpoint":
            total += Decimal(str(data["costUsd"]))
            assert Decimal(str(data["totalCostUsd"])) == total
    assert Decimal(str(result["total_cost_usd"])) == total
    models = result["modelUsage"].values()
    assert sum(Decimal(str(model["costUSD"])) for model in models) == total


def check_readers(events: list[Event], folder: Path) -> None:
    """Our own reader and the Copilot SDK's generated classes read every line."""
    records = list(read_log(folder))
    assert [record.id for record in records] == [event["id"] for event in events]
    assert fold(records).result is not None
    for event in events:
        kind = SessionEvent.from_dict(event).type
        assert (kind is SessionEventType.UNKNOWN) == event["type"].startswith("runner.")


def check_claude_stream(messages: list[dict[str, Any]]) -> None:
    """Init first, one result last, one session throughout, and the Claude SDK reads it all."""
    parsed = [parse_message(message) for message in messages]
    assert None not in parsed
    assert isinstance(parsed[-1], ResultMessage)
    assert [message["type"] for message in messages].count("result") == 1
    assert (messages[0]["type"], messages[0]["subtype"]) == ("system", "init")
    assert len({message["session_id"] for message in messages}) == 1
    uuids = [message["uuid"] for message in messages]
    assert len(set(uuids)) == len(uuids)

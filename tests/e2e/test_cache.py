"""The provider's prompt cache: a prefix that never changes, marks for it, and its tokens priced."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.e2e.desk import Desk
from tests.servers import D, Usage, X

READ = ("Read", {"file_path": "README.md"})
PRICES = {
    "input_per_mtok": 10,
    "output_per_mtok": 20,
    "cache_read_per_mtok": 1,
    "cache_write_per_mtok": 12,
}


def unmarked(value: Any) -> Any:
    """The same without cache marks."""
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def test_every_request_begins_with_the_bytes_of_the_one_before(tmp_path: Path) -> None:
    """Tools, system prompt and instruction files, then the conversation: nothing moves; marks end
    the parts that repeat, four at most; reads and writes are counted and priced."""
    desk = Desk(folder=tmp_path, wire="anthropic")
    desk.write("CLAUDE.md", "Use tabs.\n")
    first = Usage(input_tokens=100, cache_write_tokens=3_000, output_tokens=20)
    later = Usage(input_tokens=10, cache_read_tokens=3_000, cache_write_tokens=200)
    played = desk.play(
        [X(READ, usage=first), X(READ, usage=later), D("done")],
        pricing=PRICES,
    )
    assert played.exit_code == 0, played.stderr
    bodies = played.requests
    for part in ("tools", "system"):
        assert len({json.dumps(body[part]) for body in bodies}) == 1
    for before, after in pairwise(bodies):
        old, new = unmarked(before["messages"]), unmarked(after["messages"])
        assert json.dumps(new).startswith(json.dumps(old)[:-3])
    for body in bodies:
        assert "cache_control" in json.dumps(body["system"])
        assert "cache_control" in json.dumps(body["messages"][0])
        assert "cache_control" in json.dumps(body["messages"][-1])
        assert 3 <= json.dumps(body).count("cache_control") <= 4
    charges = played.of("session.usage_checkpoint")
    assert [charge["cacheReadTokens"] for charge in charges] == [0, 3_000, 0]
    assert [charge["cacheWriteTokens"] for charge in charges] == [3_000, 200, 0]
    assert Decimal(str(charges[0]["costUsd"])) == Decimal("0.0374")
    assert Decimal(str(charges[1]["costUsd"])) == Decimal("0.0059")
    usage = played.result["usage"]
    assert usage["cache_read_input_tokens"] == 3_000
    assert usage["cache_creation_input_tokens"] == 3_200

"""Mode auto over a kill: no call is asked about twice once its answer is on the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.core.state import CLASSIFIER
from tests.app.scene import DONE, Scene
from tests.e2e.papers import check_agent, check_calls, check_chain, check_turns

ALLOW = {"text": '{"decision": "allow", "reason": "fine"}', "usage": {"input_tokens": 9}}
DENY = {"text": '{"decision": "deny", "reason": "asked again"}', "usage": {"input_tokens": 9}}
# By a program: a redirection to where only the shell knows is nothing that a model may allow.
COUNT = {"tools": [{"name": "Bash", "arguments": {"command": 'echo ran | tee -a "$COUNTER"'}}]}


def test_a_kill_at_any_event_of_a_question_asks_it_at_most_once_more(tmp_path: Path) -> None:
    """Before the answer the question is charged and asked again; after it, never."""
    judge = tmp_path / "judge.json"
    judge.write_text(json.dumps({"replies": [ALLOW, DENY]}))
    price = {"input_per_mtok": 1, "output_per_mtok": 1}
    keys = {
        "permission_mode": "auto",
        "auto_mode": {"model": f"scripted:{judge}"},
        "allowed_tools": [],
        "max_budget_usd": 5,
        "pricing": {f"scripted:{tmp_path}/{name}.json": price for name in ("judge", "replies")},
    }
    scene = Scene(folder=tmp_path, replies=[COUNT, DONE], keys=keys)
    scene.run()
    whole = scene.lines()
    mine = [n for n, event in enumerate(scene.events(), 1) if event.get("agentId") == CLASSIFIER]
    assert len(mine) == 4
    for count in range(mine[0], mine[-1] + 1):
        (scene.session / "events.jsonl").write_bytes(b"".join(whole[:count]))
        (scene.session / "result.json").unlink(missing_ok=True)
        (tmp_path / "counter").unlink(missing_ok=True)
        assert scene.resume().exit_code == 0
        assert scene.runs_of_bash == 1
        events = scene.events()
        asked = [event for event in events if event.get("agentId") == CLASSIFIER]
        replies = [event for event in asked if event["type"] == "assistant.message"]
        assert [json.loads(event["data"]["content"])["decision"] for event in replies] == ["allow"]
        check_agent(asked)
        check_chain(scene.lines(), events, scene.session.name)
        check_turns(events)
        if json.loads(whole[count - 1])["type"] != "permission.requested":  # requested anew then
            check_calls(events)
        total = sum(e["data"]["costUsd"] for e in events if e["type"] == "session.usage_checkpoint")
        assert float(scene.state().ledger.committed_usd) == pytest.approx(total)

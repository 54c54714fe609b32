"""The answer as an object: asked for, compared, asked for again, and never missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.desk import Desk
from tests.servers import D, Step, T, X

pytestmark = pytest.mark.warm

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "share": {"type": "number", "maximum": 0.5}},
    "required": ["ok"],
    "additionalProperties": False,
}
OK = {"ok": True, "share": 0.25}
BAD = {"ok": "yes"}
LOOK = ("Read", {"file_path": "README.md"})


def S(value: Any) -> Step:  # the notation of scripts: T, X, D
    """A call of StructuredOutput."""
    return X(("StructuredOutput", value))


def task(desk: Desk, **keys: Any) -> Desk:
    """A task with a schema."""
    desk.defaults |= {"output_schema": SCHEMA, **keys}
    return desk


def plain(desk: Desk, **keys: Any) -> Desk:
    """The same without autopilot."""
    return task(desk, autopilot=False, **keys)


def test_an_object_that_fits_is_the_result(desk: Desk) -> None:
    """A mismatch is told with its place; then the object stands in the result and in the log."""
    played = task(desk).play([X(LOOK), S(BAD), S(OK), D("done")])
    assert (played.exit_code, played.result["structured_output"]) == (0, OK)
    assert played.result["result"] == "done"
    wrong = played.of("tool.execution_complete")[1]["error"]
    assert wrong["code"] == "output_mismatch"
    assert "- /ok: 'yes' is not of type 'boolean'" in wrong["message"]
    assert [one["valid"] for one in played.of("runner.output_check")] == [False, True]
    assert (played.result["num_tool_turns"], played.result["num_nudges"]) == (1, 0)


def test_the_last_object_that_fits_is_the_result(desk: Desk) -> None:
    """A better one takes its place; one that does not match the schema is an error and does not."""
    later = {"ok": False}
    played = task(desk).play([S(OK), S(later), S(BAD), D("done")])
    assert (played.exit_code, played.result["structured_output"]) == (0, later)
    assert len(played.tool_errors()) == 1


def test_five_attempts_are_all(desk: Desk) -> None:
    """Exit 5, and the last error is named."""
    played = task(desk).play([S(BAD)] * 5, max_autopilot_continues=0, max_turns=1)
    assert (played.exit_code, played.result["subtype"]) == (
        5,
        "error_max_structured_output_retries",
    )
    assert "after 5 attempts: /ok: 'yes' is not" in played.result["errors"][0]
    assert "structured_output" not in played.result


def test_the_number_of_attempts_is_the_specs(desk: Desk) -> None:
    """What cannot even be parsed is an attempt like any other."""
    limits = {"max_structured_output_retries": 2}
    played = task(desk, limits=limits).play([S("{not json"), S({"share": 1})])
    assert (played.exit_code, played.types.count("assistant.turn_start")) == (5, 2)


def test_a_completion_without_an_object_is_rejected(desk: Desk) -> None:
    """It costs an attempt; the checks are not run for it; then it stands."""
    played = task(desk, verify=["true"]).play([D("done"), S(OK), D("done")])
    assert (played.exit_code, played.result["structured_output"]) == (0, OK)
    assert played.types.count("runner.verify_start") == 1
    assert [one["success"] for one in played.of("session.task_complete")] == [False, True]


def test_completions_without_an_object_are_attempts(desk: Desk) -> None:
    """Five of them are the end."""
    assert task(desk).play([D("done")] * 5).exit_code == 5


def test_an_object_and_the_completion_may_come_together(desk: Desk) -> None:
    """In either order; the object is looked at first."""
    both = X(("task_complete", {"summary": "done"}), ("StructuredOutput", OK))
    played = task(desk).play([both])
    assert (played.exit_code, played.result["structured_output"]) == (0, OK)


@pytest.mark.parametrize("text", [json.dumps(OK), f"```json\n{json.dumps(OK)}\n```\n"])
@pytest.mark.parametrize("way", ["summary", "before the completion", "plain"])
def test_a_text_that_is_the_object_is_taken(desk: Desk, text: str, way: str) -> None:
    """As the summary, as a text before the completion, and as a plain answer."""
    scripts = {
        "summary": [D(text)],
        "before the completion": [T(text), D("done")],
        "plain": [T(text)],
    }
    played = task(desk).play(scripts[way], autopilot=way != "plain")
    assert (played.exit_code, played.result["structured_output"]) == (0, OK)


def test_without_autopilot_the_object_is_the_end(desk: Desk) -> None:
    """No further call is made, and no continue is used."""
    played = plain(desk).play([X(LOOK), S(BAD), S(OK)])
    assert (played.exit_code, played.result["structured_output"]) == (0, OK)
    assert json.loads(played.stdout) == OK


def test_without_autopilot_a_text_is_sent_back(desk: Desk) -> None:
    """With what is wrong with it; five times, then exit 5."""
    played = plain(desk).play([T("It is fine."), T(json.dumps(BAD)), S(OK)])
    assert played.exit_code == 0
    said = played.of("user.message")[1:]
    assert [one["source"] for one in said] == ["output_schema"] * 2
    assert "no object was given" in said[0]["content"]
    assert "/ok: 'yes' is not of type 'boolean'" in said[1]["content"]


def test_without_autopilot_texts_are_attempts(desk: Desk) -> None:
    """Five of them are the end."""
    assert plain(desk).play([T(f"no {number}") for number in range(5)]).exit_code == 5


def test_checks_are_run_on_the_work_behind_the_object(desk: Desk) -> None:
    """A failed check is told; the object may be given anew."""
    write = ("Write", {"file_path": "fixed.txt", "content": "yes\n"})
    script = [S(OK), X(write), S({"ok": False})]
    played = plain(desk, verify=["test -e fixed.txt"]).play(script)
    assert (played.exit_code, played.result["structured_output"]) == (0, {"ok": False})


def test_a_cap_leaves_no_object_behind(desk: Desk) -> None:
    """An object is part of a success."""
    played = task(desk).play([S(OK), X(LOOK), X(LOOK)], max_turns=1)
    assert (played.exit_code, "structured_output" in played.result) == (3, False)


def test_without_a_schema_there_is_no_such_tool(desk: Desk) -> None:
    """A call of it is answered like any unknown one."""
    played = desk.play([S(OK), D("done")])
    assert played.exit_code == 0
    assert played.of("tool.execution_complete")[0]["error"]["code"] == "unknown_tool"


def test_a_schema_in_a_file_and_a_hostile_pattern(desk: Desk) -> None:
    """The pattern would take for ever; the attempt fails, and the run goes on."""
    slow = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    (desk.folder / "schema.json").write_text(json.dumps(slow))
    script = [S({"a": "a" * 40 + "!"}), S({"a": "aa"}), D("done")]
    played = desk.play(script, output_schema="schema.json")
    assert (played.exit_code, played.result["structured_output"]) == (0, {"a": "aa"})
    wrong = played.of("tool.execution_complete")[0]["error"]["message"]
    assert "could not be compared" in wrong


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"type": "objekt"}', "output_schema.type: this is no JSON Schema: 'objekt' is not"),
        ('{"type": "array"}', "output_schema: the answer must be an object"),
        (
            '{"type": "object", "properties": {"a": {"$ref": "http://x.org/y.json"}}}',
            'output_schema.properties.a.$ref: "http://x.org/y.json" leads out of the schema',
        ),
        (
            '{"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}',
            'output_schema.properties.a.$ref: "#/$defs/b" leads nowhere',
        ),
        (
            '{"type": "object", "properties": {"a": {"pattern": "("}}}',
            'output_schema.properties.a.pattern: the pattern "(" does not compile',
        ),
        ('{"$schema": "http://x.org/s", "type": "object"}', "is no draft that is supported"),
        ("missing.json", "missing.json"),
        ("[1]", "expected a JSON Schema, or the path of a file with one, got a list"),
    ],
)
def test_a_schema_that_is_none_is_an_error_with_its_line(desk: Desk, line: str, told: str) -> None:
    """Exit 2, before anything runs."""
    spec = desk.folder / "task.yaml"
    first = "name: t\nprompt: x\nmodel: scripted:replies.yaml\n"
    desk.script([])
    spec.write_text(f"{first}output_schema: {line}\n")
    done = desk.call("validate", str(spec))
    assert done.returncode == 2
    assert f"{spec}:4: " in done.stderr
    assert told in done.stderr


def test_a_mistake_in_a_schema_file_names_that_file(desk: Desk) -> None:
    """And its line there."""
    (desk.folder / "schema.json").write_text('{\n "type": "object",\n "required": "ok"\n}\n')
    desk.script([])
    done = desk.call("validate", str(desk.spec(output_schema="schema.json")))
    assert done.returncode == 2
    assert "schema.json:3: output_schema.required: this is no JSON Schema" in done.stderr

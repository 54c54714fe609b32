"""Syntax trees that no parser of today gives: nothing in them is guessed."""

from __future__ import annotations

from typing import Any

import pytest

from runner.core.shell import hidden, read

WORD = {"Parts": [{"Type": "Lit", "Value": "npm"}]}
CALL = {"Type": "CallExpr", "Args": [WORD]}


@pytest.mark.parametrize(
    ("statement", "opaque"),
    [
        ({"Cmd": {"Type": "NewClause"}}, True),
        ({"Cmd": CALL, "New": True}, False),
        ({"Cmd": {**CALL, "New": 1}}, False),
        ({"Cmd": {"Type": "BinaryCmd", "Op": "&&", "New": 1, "X": {}, "Y": {}}}, False),
        ({"Cmd": CALL, "Redirs": [{"Op": ">&", "New": 1, "Word": WORD}]}, False),
    ],
)
def test_what_is_new_is_not_understood(statement: dict[str, Any], opaque: bool) -> None:
    """A node or a key that is not known makes the whole command odd."""
    script = read({"Type": "File", "Stmts": [statement]})
    assert script.odd is not None
    assert (script.opaque is not None) == opaque


def test_what_is_known_is_read() -> None:
    """The words come out decoded."""
    script = read({"Type": "File", "Stmts": [{"Cmd": CALL}]})
    assert (script.odd, script.commands[0].argv) == (None, ("npm",))


def test_a_comment_that_ends_with_a_backslash_is_not_parsed() -> None:
    """To Bash the next line is a command, to shfmt it is part of the comment."""
    assert hidden("npm #\\\ncurl x") == "a comment in it ends with a backslash"
    assert hidden("npm test \\\n  --flag # why\ncurl x") is None

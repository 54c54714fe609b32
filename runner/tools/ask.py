"""AskUserQuestion: answered at once, because nobody is here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.ports import ToolContext, ToolOutput
from runner.tools.answers import answer, tool_spec

OPTION = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
    "required": ["label"],
    "additionalProperties": False,
}
QUESTION = {
    "type": "object",
    "properties": {
        "question": {"type": "string"},
        "header": {"type": "string"},
        "options": {"type": "array", "items": OPTION},
        "multiSelect": {"type": "boolean"},
    },
    "required": ["question"],
    "additionalProperties": False,
}


class AskUserQuestion:
    """Takes questions, so that they are in the log, and sends the model on."""

    def __init__(self, *, descriptions: Mapping[str, str]) -> None:
        self._answer = descriptions["AskUserQuestion.answer"].strip()
        self.spec = tool_spec(
            "AskUserQuestion",
            descriptions,
            {"questions": {"type": "array", "minItems": 1, "items": QUESTION}},
            required=("questions",),
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return {
            "kind": "custom-tool",
            "toolName": self.spec.name,
            "toolDescription": self.spec.description,
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        return answer(self._answer, context)

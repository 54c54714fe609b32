"""`auto_mode`: the model that decides in mode auto; the two keys need each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.adapters.specfile.problem import INVALID, At
from runner.adapters.specfile.records import key
from runner.adapters.specfile.shapes import Record
from runner.adapters.specfile.types import Text
from runner.adapters.specfile.words import ModelName
from runner.adapters.specfile.yaml_document import Fields
from runner.core.spec import AutoModeSpec

AUTO_MODE = Record(
    cls=AutoModeSpec,
    keys=(
        key("model", ModelName(), "The model that is asked.", "anthropic/claude-haiku-4-5"),
        key(
            "instructions",
            Text(body=True),
            "What it should know about this job, in words.",
            "Publishing to the test registry is fine.",
        ),
    ),
    expects="a map such as {model: anthropic/claude-haiku-4-5}",
    required=("model",),
)


def settle_auto_mode(values: Mapping[str, Any], whole: Fields, at: At) -> None:
    """Refuse the mode without the model, and the model without the mode."""
    mode, model = values.get("permission_mode"), values.get("auto_mode")
    if mode == "auto" and model is None:
        hint = "name the model that decides, as in auto_mode: {model: ...}; or choose another mode"
        mark = whole.fields["permission_mode"].mark
        at.key("permission_mode").refuse(mark, "mode auto needs `auto_mode`", hint)
    if mode not in ("auto", INVALID) and model is not None:
        hint = "write permission_mode: auto, or remove it"
        mark = whole.fields["auto_mode"].mark
        at.key("auto_mode").refuse(mark, "it is for mode auto alone", hint)

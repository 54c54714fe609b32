"""The key `reports`: paths of files that a run will write, which need not be there yet.

Links in the way to them are followed here, when the spec is read, so that one which appears while
the agent works can be told from one that the user made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.adapters.specfile.problem import At, Invalid, Source
from runner.adapters.specfile.records import key
from runner.adapters.specfile.shapes import Record
from runner.adapters.specfile.types import Choice, Refusal, Schema, Text
from runner.adapters.specfile.yaml_document import Node
from runner.core.spec import ReportsSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPath:
    """An absolute path; relative ones start at the folder of the file they are written in."""

    expects: str = "the path of a file to write"

    def read(self, node: Node, at: At) -> Any:
        text = Text(expects=self.expects).read(node, at)
        if isinstance(text, Invalid):
            return text
        path = node.mark.source.folder / text
        refusal = _refusal(text, path) or _over_itself(path, node.mark.source)
        if refusal is not None:
            return at.refuse(node.mark, *refusal)
        return str(path.parent.resolve() / path.name)

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}


def _refusal(text: str, path: Path) -> Refusal | None:
    if text.startswith("~") or "$" in text:
        return "`~` and variables are not expanded", "write the path out"
    try:
        if text.endswith("/") or path.name in ("", ".", "..") or path.is_dir():
            return f"{path} is a folder", "write the path of a file in it"
        if path.exists() and not path.is_file():  # a device, also behind a link
            return f"{path} is not a file", "write the path of one, or of one that is not there yet"
        above = next(folder for folder in path.parents if folder.exists())
        path.parent.resolve()
    except (OSError, RuntimeError):  # too long, not permitted, a circle of links
        return f"{path} cannot be a file", None
    return None if above.is_dir() else (f"{above} is a file, not a folder", None)


def _over_itself(path: Path, source: Source) -> Refusal | None:
    own = source.folder / Path(source.name).name
    try:
        is_own = path.samefile(own)
    except OSError:  # one of them is not there
        return None
    return ("the task itself is in this file", "write the path of another one") if is_own else None


def _twice(spec: ReportsSpec) -> Refusal | None:
    paths = [path for path in (spec.summary, spec.junit, spec.html, spec.patch) if path]
    again = next((path for path in paths if paths.count(path) > 1), None)
    return (f"two reports go to {again}", "give each a file of its own") if again else None


REPORTS = Record(
    cls=ReportsSpec,
    keys=(
        key("summary", OutputPath(), "A Markdown summary goes here.", "out/summary.md"),
        key("junit", OutputPath(), "JUnit XML: the task, checks, caps, denials.", "out/junit.xml"),
        key("html", OutputPath(), "The whole run as one HTML page.", "out/report.html"),
        key("patch", OutputPath(), "What changed in the workspace.", "out/changes.patch"),
        key(
            "github",
            Choice(options=("auto", "off")),
            "`auto`: a GitHub job gets the summary, step outputs and an annotation.",
            "off",
        ),
    ),
    check=_twice,
)

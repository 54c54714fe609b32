"""Finds the packed `configs` folder: prompts, defaults, schema, examples, permission fragments."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def path(*parts: str) -> Path:
    """A file or folder in `configs`; it need not exist."""
    return _root().joinpath(*parts)


def read_text(name: str) -> str:
    """The text of a packed file such as `prompts/nudge.md`. Raises `OSError` if it is missing."""
    return path(*name.split("/")).read_text(encoding="utf-8")


@cache
def _root() -> Path:
    """In a wheel the folder lies inside the package, in a checkout beside it."""
    package = Path(__file__).resolve().parents[1]
    packed = package / "configs"
    return packed if packed.is_dir() else package.parent / "configs"

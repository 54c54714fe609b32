"""Long texts of an event: out of its line into `files/<sha256>` first, and back when read.

A line of the log stays under its cap. A text that had to move leaves a placeholder in its place
and an entry in `spilled`: a JSON pointer inside `data`, and the file that holds the text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.adapters.durable import write_whole

MAX_LINE_BYTES = 256 * 1024
MIN_SPILL_BYTES = 4 * 1024
KEY = "spilled"


def shorten(data: Mapping[str, Any], files_dir: Path, max_bytes: int) -> Mapping[str, Any]:
    """`data` with its longest texts moved to files until it encodes to at most `max_bytes`.

    Raises `OSError` when a file cannot be written, `ValueError` when even that is not enough.
    """
    excess = _encoded_bytes(data) - max_bytes
    if excess <= 0:
        return data
    copy: dict[str, Any] = json.loads(json.dumps(data))
    moved: dict[str, str] = {}
    by_length = sorted(_texts(copy, ""), key=lambda found: -len(found[1]))
    for pointer, text in by_length:
        size = _encoded_bytes(text)
        if excess <= 0 or size < MIN_SPILL_BYTES:
            break
        name = save(text.encode("utf-8", "surrogatepass"), files_dir)
        placeholder = f"[{size} bytes in {name}]"
        _put(copy, pointer, placeholder)
        moved[pointer] = name
        excess -= size - len(placeholder) - len(pointer) - len(name) - 8
    copy[KEY] = moved
    if _encoded_bytes(copy) > max_bytes:
        raise ValueError(f"an event of {_encoded_bytes(copy)} bytes has no text to move to a file")
    return copy


def restore(data: dict[str, Any], session_dir: Path) -> dict[str, Any]:
    """The event's data with every moved text back in its place. Raises `OSError`."""
    for pointer, name in data.pop(KEY, {}).items():
        text = (session_dir / name).read_bytes().decode("utf-8", "surrogatepass")
        _put(data, pointer, text)
    return data


def save(content: bytes, files_dir: Path) -> str:
    """Put `content` durably into `files_dir` under its hash; `files/<sha256>`. Raises `OSError`."""
    digest = hashlib.sha256(content).hexdigest()
    if not (files_dir / digest).exists():
        write_whole(files_dir / digest, content)
    return f"files/{digest}"


def _encoded_bytes(value: Any) -> int:
    return len(json.dumps(value))


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{pointer}/{index}")


def _put(data: Any, pointer: str, text: str) -> None:
    *path, last = [key.replace("~1", "/").replace("~0", "~") for key in pointer[1:].split("/")]
    for key in path:
        data = data[int(key)] if isinstance(data, list) else data[key]
    data[int(last) if isinstance(data, list) else last] = text

"""Long parts of an event: out of its line into `files/<sha256>` first, and back when read.

A line of the log stays under its cap. A text that had to move leaves a placeholder in its place
and an entry in `spilled`: a JSON pointer inside `data`, and the file that holds the text. When
texts are not what makes an event long (a list of ten thousand paths), whole lists and objects move
as JSON, listed in `spilledJson`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.adapters.durable import write_whole

MAX_LINE_BYTES = 256 * 1024
MIN_SPILL_BYTES = 4 * 1024
TEXTS = "spilled"
VALUES = "spilledJson"
STORED = re.compile(r"files/([0-9a-f]{64})")
"""The name of a file that is called by its content."""


def shorten(data: Mapping[str, Any], files_dir: Path, max_bytes: int) -> Mapping[str, Any]:
    """`data` with its longest parts moved to files until it encodes to at most `max_bytes`.

    Raises `OSError` when a file cannot be written, `ValueError` when even that is not enough.
    """
    if _encoded_bytes(data) <= max_bytes:
        return data
    copy: dict[str, Any] = json.loads(json.dumps(data))
    texts = sorted(_texts(copy, ""), key=lambda found: -len(found[1]))
    for pointer, text in texts:
        size = _encoded_bytes(text)
        if _encoded_bytes(copy) <= max_bytes or size < MIN_SPILL_BYTES:
            break
        name = save(text.encode("utf-8", "surrogatepass"), files_dir)
        _put(copy, pointer, f"[{size} bytes in {name}]")
        copy[TEXTS] = {**copy.get(TEXTS, {}), pointer: name}
    while (excess := _encoded_bytes(copy) - max_bytes) > 0:
        pointer, value = _least_enough(copy, excess)
        name = save(json.dumps(value).encode("ascii"), files_dir)
        placeholder = f"[{_encoded_bytes(value)} bytes in {name}]"
        _put(copy, pointer, [placeholder] if isinstance(value, list) else {"moved": placeholder})
        copy[VALUES] = {pointer: name, **copy.get(VALUES, {})}
    return copy


def restore(data: dict[str, Any], session_dir: Path) -> dict[str, Any]:
    """The event's data with every moved part back in its place.

    Raises `OSError` when a file is not there, `ValueError` when it is not what was moved.
    """
    moved, texts = data.pop(VALUES, {}), data.pop(TEXTS, {})
    for pointer, name in moved.items():  # the last one moved first: it may hold earlier ones
        _put(data, pointer, json.loads(load(name, session_dir)))
    for pointer, name in texts.items():
        _put(data, pointer, load(name, session_dir).decode("utf-8", "surrogatepass"))
    return data


def save(content: bytes, files_dir: Path) -> str:
    """Put `content` durably into `files_dir` under its hash; `files/<sha256>`. Raises `OSError`."""
    digest = hashlib.sha256(content).hexdigest()
    if not (files_dir / digest).exists():
        write_whole(files_dir / digest, content)
    return f"files/{digest}"


def load(name: str, session_dir: Path) -> bytes:
    """The content of `files/<sha256>`.

    Raises `OSError` when it is not there, `ValueError` when it is not what its name says.
    """
    wanted, path = _stored(name, session_dir)
    content = path.read_bytes()
    _compare(name, wanted, hashlib.sha256(content).hexdigest())
    return content


def check(name: str, session_dir: Path) -> None:
    """Hash `files/<sha256>` without holding it in memory. Raises what `load` raises."""
    wanted, path = _stored(name, session_dir)
    with path.open("rb") as file:
        _compare(name, wanted, hashlib.file_digest(file, "sha256").hexdigest())


def _stored(name: str, session_dir: Path) -> tuple[str, Path]:
    # A log that was brought here from elsewhere could name any file of this machine.
    matched = STORED.fullmatch(str(name))
    if matched is None:
        raise ValueError(f"{name!r} is not the name of a file in files/")
    path = session_dir / name
    if not path.is_file():
        raise FileNotFoundError(f"{name} is missing")
    return matched[1], path


def _compare(name: str, wanted: str, digest: str) -> None:
    if digest != wanted:
        raise ValueError(f"{name} holds something else: its SHA-256 is {digest}")


def _encoded_bytes(value: Any) -> int:
    return len(json.dumps(value))


def _least_enough(data: Mapping[str, Any], excess: int) -> tuple[str, Any]:
    """The smallest list or object whose move saves `excess` bytes, else the largest there is."""
    found = [
        (_encoded_bytes(value), pointer, value)
        for key in data.keys() - {TEXTS, VALUES}
        for pointer, value in _values(data[key], f"/{_escaped(key)}")
    ]
    large = [entry for entry in found if entry[0] >= MIN_SPILL_BYTES]
    if not large:
        raise ValueError(f"an event of {_encoded_bytes(data)} bytes has no part to move to a file")
    enough = [entry for entry in large if entry[0] >= excess + MIN_SPILL_BYTES]
    _, pointer, value = min(enough, key=_size) if enough else max(large, key=_size)
    return pointer, value


def _size(entry: tuple[int, str, Any]) -> int:
    return entry[0]


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    for key, item in _items(value):
        yield from _texts(item, f"{pointer}/{key}")


def _values(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        yield pointer, value
    for key, item in _items(value):
        yield from _values(item, f"{pointer}/{key}")


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((_escaped(key), item) for key, item in value.items())
    elif isinstance(value, list):
        yield from ((str(index), item) for index, item in enumerate(value))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _put(data: Any, pointer: str, value: Any) -> None:
    *path, last = [key.replace("~1", "/").replace("~0", "~") for key in pointer[1:].split("/")]
    for key in path:
        data = data[int(key)] if isinstance(data, list) else data[key]
    data[int(last) if isinstance(data, list) else last] = value

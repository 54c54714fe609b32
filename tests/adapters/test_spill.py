"""Long parts of an event: out of the line and back, exactly."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.adapters.spill import MIN_SPILL_BYTES, check, load, restore, save, shorten
from tests.written import ODD

SHA = hashlib.sha256(b"abc").hexdigest()


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session folder with a place for files."""
    folder = tmp_path_factory.mktemp("spilled")
    (folder / "files").mkdir()
    return folder


def there_and_back(session: Path, data: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The shortened data, after a look that it fits, reads back, and left the original alone."""
    before = copy.deepcopy(data)
    short: dict[str, Any] = json.loads(json.dumps(shorten(data, session / "files", max_bytes)))
    assert len(json.dumps(short)) <= max_bytes
    assert restore(copy.deepcopy(short), session) == data == before
    return short


def test_what_fits_stays_as_it_is(session: Path) -> None:
    """The same object comes back when it is short enough."""
    data = {"content": "x" * 100}
    assert shorten(data, session / "files", 1000) is data


def test_a_long_text_leaves_a_placeholder_and_a_pointer(session: Path) -> None:
    """The line says how long it was and where it is; everything else stays in it."""
    text = "x" * 10_000
    name = f"files/{hashlib.sha256(text.encode()).hexdigest()}"
    assert there_and_back(session, {"result": {"content": text}, "turnId": "0"}, 1000) == {
        "result": {"content": f"[10002 bytes in {name}]"},
        "turnId": "0",
        "spilled": {"/result/content": name},
    }
    assert (session / name).read_text() == text


def test_only_as_many_texts_move_as_must(session: Path) -> None:
    """The longest first, until the rest fits."""
    data = {"a": "a" * 5000, "b": "b" * 9000, "c": "c" * 6000}
    short = there_and_back(session, data, 12_000)
    assert (short["a"], short["c"], list(short["spilled"])) == (data["a"], data["c"], ["/b"])


def test_a_list_of_many_short_things_moves_whole(session: Path) -> None:
    """Nothing in it is long; the list itself is moved, and stays a list for other readers."""
    files = [{"path": f"src/module_{number}.py", "lines_added": number} for number in range(5000)]
    data = {"subtype": "success", "workspace_diff": {"files": files, "lines_added": 12}}
    short = there_and_back(session, data, 100_000)
    (name,) = short["spilledJson"].values()
    assert short == {
        "subtype": "success",
        "workspace_diff": {
            "files": [f"[{len(json.dumps(files))} bytes in {name}]"],
            "lines_added": 12,
        },
        "spilledJson": {"/workspace_diff/files": name},
    }


def test_texts_and_lists_can_both_move(session: Path) -> None:
    """A text that moved out of a list that moves after it is back in its place."""
    many = [f"item {number}" for number in range(5000)]
    data = {"a": {"long": "x" * 50_000, "many": many, "~/": [many, "y" * 50_000]}, "b": many}
    for max_bytes in (60_000, 20_000, 4_000, 1_000):
        there_and_back(session, data, max_bytes)


def test_a_list_can_move_before_the_object_around_it(session: Path) -> None:
    """When its long name alone is too much the object goes too, and both come back."""
    data = {"a": {"k" * 6000: ["item"] * 2500}}
    short = there_and_back(session, data, len(json.dumps(data)) - 15_000)
    assert list(short["spilledJson"]) == ["/a", f"/a/{'k' * 6000}"]


ODD_KEYS = {"/": "x" * 5000, "~": {"~1": "y" * 5000}, "": ["z" * 5000], "é\ud800": "w" * 5000}


def test_any_key_can_be_on_the_way_to_a_text(session: Path) -> None:
    """Slashes, tildes, empty keys and halves of characters are pointed to like any other."""
    assert len(there_and_back(session, ODD_KEYS, 2000)["spilled"]) == 4


def test_any_text_comes_back_exactly(session: Path) -> None:
    """Halves of characters, NUL, controls and line ends that are none included."""
    there_and_back(session, {"content": ODD * 1000}, 1000)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("x" * 30_000),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.builds(lambda item: [item] * 9000, st.text(max_size=3) | st.integers())
    ),
    max_leaves=8,
)


@given(
    data=st.dictionaries(st.text("abc/~", max_size=3), VALUES, max_size=4),
    room=st.integers(5 * MIN_SPILL_BYTES, 100_000),
)
def test_any_event_fits_and_comes_back(session: Path, data: dict[str, Any], room: int) -> None:
    """Whatever its shape, it fits any room its few fields leave, and nothing of it changes."""
    there_and_back(session, data, room)


def test_an_event_of_names_alone_cannot_be_shortened(session: Path) -> None:
    """When there is nothing to move the error says how long it is."""
    data = {f"key {number}": number for number in range(1000)}
    size = len(json.dumps(data))
    with pytest.raises(ValueError, match=f"an event of {size} bytes has no part to move"):
        shorten(data, session / "files", 1000)


# -- files ---------------------------------------------------------------------------------------


def test_a_file_is_called_by_its_content(session: Path) -> None:
    """Content, name and mode are right, and no draft is left."""
    assert save(b"abc", session / "files") == f"files/{SHA}"
    path = session / "files" / SHA
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"abc", 0o600)
    assert load(f"files/{SHA}", session) == b"abc"
    assert list((session / "files").glob("*.part")) == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_file_is_its_users_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """Mode 0600, no more and no less."""
    before = os.umask(umask)
    try:
        name = save(b"abc", tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / name.removeprefix("files/")).stat().st_mode) == 0o600


def test_the_same_content_is_written_once(tmp_path: Path) -> None:
    """A file that is there is not touched again."""
    save(b"abc", tmp_path)
    os.utime(tmp_path / SHA, (0, 0))
    save(b"abc", tmp_path)
    assert (tmp_path / SHA).stat().st_mtime == 0


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("/etc/passwd", ValueError, "is not the name of a file in files/"),
        ("files/../events.jsonl", ValueError, "is not the name of a file in files/"),
        (f"files/{SHA}/x", ValueError, "is not the name of a file in files/"),
        (f"files/{'0' * 64}", FileNotFoundError, f"files/{'0' * 64} is missing"),
        (f"files/{'1' * 64}", ValueError, f"holds something else: its SHA-256 is {SHA}"),
    ],
)
def test_a_file_that_is_not_what_was_named_is_refused(
    tmp_path: Path, name: str, error: type[Exception], message: str
) -> None:
    """No path leads out of the session, and the content must be the named one."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / ("1" * 64)).write_bytes(b"abc")
    for read in (load, check):
        with pytest.raises(error, match=message):
            read(name, tmp_path)


def test_short_texts_never_move(session: Path) -> None:
    """A text below the smallest size worth a file stays, and a whole list goes instead."""
    data = {"texts": ["x" * (MIN_SPILL_BYTES - 3)] * 10}
    assert list(there_and_back(session, data, 5000)) == ["texts", "spilledJson"]

"""Reading a log: as far as it is what was written, and never anything else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.adapters.log_reader import LOG, LogDamaged, LogReader
from runner.adapters.spill import MAX_LINE_BYTES
from runner.core.events import Record, SessionInfo
from runner.core.fold import fold
from tests.sample_run import start, tidy_run
from tests.written import ODD, chained, lines_of, write_log

GOLDEN = {
    path.parent.name: path.read_bytes()
    for path in sorted((Path(__file__).parents[1] / "golden").glob(f"*/{LOG}"))
    if b'"spilled":' not in path.read_bytes()  # its files are not kept: see `long` below
}
"""The golden logs by name, as bytes."""


class Read:
    """What came of reading these bytes as a log."""

    def __init__(self, folder: Path, log: bytes | None = None) -> None:
        if log is not None:
            (folder / LOG).write_bytes(log)
        self.reader = LogReader(folder)
        self.records: list[Record] = []
        self.damage: LogDamaged | None = None
        try:
            self.records.extend(self.reader)
        except LogDamaged as damage:
            self.damage = damage

    @property
    def where(self) -> tuple[int, int] | None:
        """Line and byte offset of the damage."""
        return (self.damage.line, self.damage.offset) if self.damage else None


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session folder that a test may put any log into."""
    return tmp_path_factory.mktemp("session")


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A session with a text that moved out of its line."""
    return write_log(tmp_path / "long", tidy_run(prompt=ODD * 30_000))


# -- what a kill leaves --------------------------------------------------------------------------


def check_prefix(read: Read, whole: Read, log: bytes, cut: int) -> None:
    """The first `cut` bytes were read as their whole lines, the rest reported as torn."""
    lines, count = lines_of(log), log[:cut].count(b"\n")
    ends = [0, *accumulate(map(len, lines))]
    last = lines[count - 1][:-1] if count else None
    assert read.damage is None
    assert read.records == whole.records[:count]
    assert (read.reader.seq, read.reader.valid_bytes) == (count, ends[count])
    assert read.reader.torn_bytes == cut - ends[count]
    assert read.reader.head == (None if last is None else hashlib.sha256(last).hexdigest())
    assert read.reader.last_id == (None if last is None else json.loads(last)["id"])


def test_a_log_cut_at_any_byte_reads_to_its_last_whole_line(tmp_path: Path) -> None:
    """The whole lines are read and the piece is torn, for every byte of a short log."""
    session = write_log(tmp_path, [SessionInfo(info_type="x", message=ODD)] * 4)
    log, whole = (session / LOG).read_bytes(), Read(session)
    for cut in reversed(range(len(log) + 1)):
        os.truncate(session / LOG, cut)
        check_prefix(Read(session), whole, log, cut)


@given(data=st.data())
@settings(max_examples=200)
def test_any_golden_log_cut_anywhere_reads_to_its_last_whole_line(
    folder: Path, data: st.DataObject
) -> None:
    """The same for any golden log, and the state is that of the lines that are whole."""
    log = data.draw(st.sampled_from(sorted(GOLDEN.values())))
    cut = data.draw(st.integers(0, len(log)))
    whole, read = Read(folder, log), Read(folder, log[:cut])
    check_prefix(read, whole, log, cut)
    assert fold(read.records) == fold(whole.records[: read.reader.seq])


@given(data=st.data())
def test_a_tail_of_zeros_is_torn(folder: Path, data: st.DataObject) -> None:
    """Zeros from any byte on, as a file system leaves them after a power cut, count for nothing."""
    log = data.draw(st.sampled_from(sorted(GOLDEN.values())))
    cut = data.draw(st.integers(0, len(log) - 1))
    read = Read(folder, log[:cut] + bytes(len(log) - cut))
    assert (read.damage, read.reader.seq) == (None, log[:cut].count(b"\n"))
    assert read.reader.valid_bytes + read.reader.torn_bytes == len(log)


def test_a_long_torn_piece_is_counted_not_kept(folder: Path) -> None:
    """A tail much longer than a line may be is torn as a whole."""
    log = min(GOLDEN.values(), key=len)
    read = Read(folder, log + b"x" * (3 * MAX_LINE_BYTES))
    assert (read.damage, read.reader.torn_bytes) == (None, 3 * MAX_LINE_BYTES)


# -- damage --------------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=250)
def test_a_flipped_bit_is_refused_at_its_line(folder: Path, data: st.DataObject) -> None:
    """Any bit of any line but the last: what stands before is read, and the line is named."""
    log = data.draw(st.sampled_from(sorted(GOLDEN.values())))
    lines = lines_of(log)
    offset = data.draw(st.integers(0, len(log) - len(lines[-1]) - 1))
    flipped = bytearray(log)
    flipped[offset] ^= 1 << data.draw(st.integers(0, 7))
    number = log[:offset].count(b"\n")
    read = Read(folder, bytes(flipped))
    assert read.where == (number + 1, sum(map(len, lines[:number])))
    assert read.records == Read(folder, log).records[:number]


@given(data=st.data())
@settings(max_examples=120)
def test_a_flipped_bit_in_the_last_line_leaves_the_others(
    folder: Path, data: st.DataObject
) -> None:
    """Nothing vouches for the last line, but no line before it is ever read differently."""
    log = data.draw(st.sampled_from(sorted(GOLDEN.values())))
    lines = lines_of(log)
    start_of_last = len(log) - len(lines[-1])
    offset = data.draw(st.integers(start_of_last, len(log) - 1))
    flipped = bytearray(log)
    flipped[offset] ^= 1 << data.draw(st.integers(0, 7))
    read, whole = Read(folder, bytes(flipped)), Read(folder, log)
    assert read.records[: len(lines) - 1] == whole.records[: len(read.records[: len(lines) - 1])]
    assert len(read.records) in (len(lines) - 2, len(lines) - 1, len(lines))
    if len(read.records) < len(lines) - 1:  # its `prev` was hit: one of two lines is not true
        assert read.where == (len(lines) - 1, start_of_last - len(lines[-2]))


def test_a_wrong_prev_of_a_line_in_the_middle_is_told_from_a_changed_line(folder: Path) -> None:
    """The line whose `prev` was changed is named, not the one before it."""
    lines = lines_of(GOLDEN["complete"])
    lines[5] = lines[5].replace(b'"prev":"', b'"prev":"0', 1)
    assert Read(folder, b"".join(lines)).where == (6, sum(map(len, lines[:5])))


Damage = Callable[[list[bytes]], list[bytes]]

DAMAGES: dict[str, tuple[Damage, int, str]] = {
    "removed": (lambda ls: [*ls[:3], *ls[4:]], 4, "`seq` is 4, should be 3"),
    "first removed": (lambda ls: ls[1:], 1, "`seq` is 1, should be 0"),
    "swapped": (lambda ls: [*ls[:3], ls[4], ls[3], *ls[5:]], 4, "`seq` is 4, should be 3"),
    "twice": (lambda ls: [*ls[:4], *ls[3:]], 5, "`seq` is 3, should be 4"),
    "zeros": (lambda ls: [*ls[:3], bytes(40) + b"\n", *ls[3:]], 4, "the line holds NUL bytes"),
    "zeros inside": (
        lambda ls: [*ls[:3], ls[3][:20] + bytes(10) + ls[3][30:], *ls[4:]],
        4,
        "the line holds NUL bytes",
    ),
    "two on a line": (
        lambda ls: [*ls[:3], ls[3][:-1] + ls[4], *ls[5:]],
        4,
        "not one JSON object: Extra data",
    ),
    "spliced": (
        lambda ls: [*ls[:3], ls[3][:50] + ls[4], *ls[5:]],
        4,
        "not one JSON object",
    ),
    "carriage return": (
        lambda ls: [*ls[:3], ls[3][:-1] + b"\r\n", *ls[4:]],
        4,
        "the line holds the byte 0x0d, which is never written",
    ),
    "no ASCII": (
        lambda ls: [*ls[:3], ls[3].replace(b"type", "t\xffpe".encode(), 1), *ls[4:]],
        4,
        "the line holds the byte 0xc3, which is never written",
    ),
    "blank line": (lambda ls: [*ls[:3], b"\n", *ls[3:]], 4, "not one JSON object"),
    "list": (lambda ls: [*ls[:3], b"[]\n", *ls[4:]], 4, "not a JSON object"),
    "deep": (lambda ls: [*ls[:3], b"[" * 100_000 + b"\n", *ls[4:]], 4, "not one JSON object"),
    "too long": (
        lambda ls: [*ls[:3], b'"' + b"x" * MAX_LINE_BYTES + b'"\n', *ls[4:]],
        4,
        f"a line is longer than {MAX_LINE_BYTES} bytes",
    ),
    "last not JSON": (lambda ls: [*ls[:-1], b"}\n"], -1, "not one JSON object"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_refused_at_its_line(folder: Path, name: str) -> None:
    """Line, byte offset and problem are told; what stands before it was read."""
    spoil, line, problem = DAMAGES[name]
    lines = lines_of(GOLDEN["complete"])
    line = line if line > 0 else len(lines)
    read = Read(folder, b"".join(spoil(lines)))
    assert read.where == (line, sum(map(len, lines[: line - 1])))
    assert read.records == Read(folder, GOLDEN["complete"]).records[: line - 1]
    assert read.damage is not None
    assert read.damage.problem.startswith(problem)


def test_damage_names_the_command_that_salvages(tmp_path: Path) -> None:
    """The message is file, line, byte and problem, then the command to copy."""
    session = write_log(tmp_path / "a home" / "session-state" / "s1", start())
    with (session / LOG).open("ab") as file:
        file.write(b"{}\n")
    size = (session / LOG).stat().st_size - 3
    assert str(Read(session).damage) == (
        f"{session / LOG}:6: at byte {size}: `seq` is None, should be 5\n"
        f"hint: `autopilot log recover s1 --salvage NEW_ID --home '{tmp_path / 'a home'}'` copies "
        "what stands before it into a new session"
    )


WRONG_SHAPES: list[dict[str, Any]] = [
    {"data": None},
    {"data": []},
    {"data": {"content": 5}},
    {"data": {"content": "x", "spilled": {"/content": "/etc/passwd"}}},
    {"data": {"content": "x", "spilled": {"/content": "files/../events.jsonl"}}},
    {"data": {"content": "x", "spilled": {"/content": 5}}},
    {"data": {"content": "x", "spilled": {"": f"files/{'0' * 64}"}}},
    {"data": {"content": "x", "spilled": [1]}},
    {"type": None},
    {"id": 5},
    {"type": "session.idle"},
    {"timestamp": "yesterday"},
    {"timestamp": 5},
]


@pytest.mark.parametrize("change", WRONG_SHAPES, ids=json.dumps)
def test_a_line_that_is_no_event_is_refused(folder: Path, change: dict[str, Any]) -> None:
    """Whatever its chain says: a wrong shape, a foreign file, an event that is never written."""
    bodies = [json.loads(line) for line in lines_of(GOLDEN["complete"])][:6]
    at = [body["type"] for body in bodies].index("system.message")
    bodies[at] |= change
    read = Read(folder, chained(bodies))
    assert (read.damage.line if read.damage else None, len(read.records)) == (at + 1, at)
    assert read.damage is not None
    assert read.damage.problem.startswith("not an event: ")


@pytest.mark.parametrize("number", ["NaN", "-Infinity"])
def test_a_number_that_is_none_is_refused(folder: Path, number: str) -> None:
    """JSON has no NaN and no Infinity."""
    lines = lines_of(GOLDEN["complete"])
    line = lines[3].replace(b'"data":{', f'"data":{{"x":{number},'.encode())
    read = Read(folder, b"".join([*lines[:3], line]))
    assert (read.damage.line if read.damage else None) == 4


def test_an_unknown_type_is_skipped_and_still_counted(folder: Path) -> None:
    """A line of a newer version is a link of the chain and no record."""
    bodies = [json.loads(line) for line in lines_of(GOLDEN["complete"])]
    bodies[3]["type"] = "runner.brand_new"
    read = Read(folder, chained(bodies))
    assert read.damage is None
    assert (read.reader.seq, len(read.records)) == (len(bodies), len(bodies) - 1)


# -- texts that moved ----------------------------------------------------------------------------


def test_a_text_that_moved_is_read_back(long: Path) -> None:
    """The state is the one of the run, however long the text."""
    assert fold(Read(long).records).need.prompt == ODD * 30_000


@pytest.mark.parametrize("harm", ["missing", "changed", "a folder"])
def test_a_file_that_is_not_what_the_line_named_is_refused(long: Path, harm: str) -> None:
    """The line that names it is the damaged one; what the file holds now is never used."""
    (spilled,) = (long / "files").iterdir()
    content = spilled.read_bytes()
    spilled.unlink()
    if harm == "changed":
        spilled.write_bytes(content[:-1] + b"!")
    elif harm == "a folder":
        spilled.mkdir()
    read = Read(long)
    assert read.damage is not None
    assert (read.damage.line, len(read.records)) == (2, 1)
    wrong = "holds something else" if harm == "changed" else "is missing"
    assert f"files/{spilled.name} {wrong}" in read.damage.problem

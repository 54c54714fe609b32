"""Read: numbered lines of any text file, a window of the big ones, a refusal for the rest."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from tests.tools.bench import Bench


def test_lines_are_numbered(bench: Bench) -> None:
    """Every line has its number, a tab and its text, when a file is read."""
    bench.put("a", "one\n\n  three\n")
    assert bench.text("Read", file_path="a") == "     1\tone\n     2\t\n     3\t  three"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_every_kind_of_line_end_is_a_line_end(bench: Bench, end: str, last: bool) -> None:
    """The lines are the same for all line ends, with and without one at the end of the file."""
    bench.put("a", "one" + end + "two" + end * last)
    assert bench.text("Read", file_path="a") == "     1\tone\n     2\ttwo"


def test_other_separators_end_no_line(bench: Bench) -> None:
    """Form feed, NEL and U+2028 stay inside their line."""
    bench.put("a", "a\x0cb\u2028c\x85d\n")
    assert bench.text("Read", file_path="a") == "     1\ta\x0cb\u2028c\x85d"


def test_offset_and_limit_make_a_window(bench: Bench) -> None:
    """Only the window is shown, and where to go on, when offset and limit are given."""
    bench.put("a", "".join(f"{n}\n" for n in range(1, 11)))
    assert bench.text("Read", file_path="a", offset=4, limit=2) == (
        "     4\t4\n     5\t5\n[lines 4 to 5; more follow: go on with offset=6]"
    )
    assert bench.text("Read", file_path="a", offset=10) == "    10\t10"


def test_an_offset_past_the_end_is_an_error(bench: Bench) -> None:
    """The error says how many lines there are when the offset is past the end."""
    bench.put("a", "1\n2\n")
    assert str(bench.failure("Read", file_path="a", offset=3)) == (
        "a has 2 lines; offset 3 is past its end"
    )


def test_two_thousand_lines_are_shown_at_most(bench: Bench) -> None:
    """Without a limit, the first 2000 lines are shown and the note says so."""
    bench.put("a", "x\n" * 2001)
    lines = bench.text("Read", file_path="a").split("\n")
    assert lines[-2:] == ["  2000\tx", "[lines 1 to 2000; more follow: go on with offset=2001]"]


def test_a_page_ends_before_it_is_too_long(bench: Bench) -> None:
    """Whole lines up to the byte limit are shown, and the next page goes on without a gap."""
    bench.max_output_bytes = 2000
    bench.put("a", "".join(f"line {n} {'x' * 50}\n" for n in range(1, 101)))
    shown, offset = [], 1
    while True:
        text = bench.text("Read", file_path="a", offset=offset)
        assert len(text.encode()) <= 2000
        numbered = [line for line in text.split("\n") if "\t" in line]
        shown += [int(line.split("\t")[0]) for line in numbered]
        if "more follow" not in text:
            break
        offset = shown[-1] + 1
    assert shown == list(range(1, 101))


def test_long_lines_are_cut_with_a_note(bench: Bench) -> None:
    """A line over 2000 characters is cut there, one of exactly 2000 is not."""
    bench.put("a", "é" * 2001 + "\n" + "y" * 2000 + "\nz")
    assert bench.text("Read", file_path="a").split("\n") == [
        "     1\t" + "é" * 2000 + " [line cut at 2000 characters]",
        "     2\t" + "y" * 2000,
        "     3\tz",
    ]


def test_an_empty_file_says_so(bench: Bench) -> None:
    """The answer says that the file is empty when it is."""
    bench.put("a", "")
    assert bench.text("Read", file_path="a") == "(a is empty)"


def test_a_byte_order_mark_is_not_shown(bench: Bench) -> None:
    """A UTF-8 byte order mark does not reach the model."""
    bench.put("a", b"\xef\xbb\xbfx\n")
    assert bench.text("Read", file_path="a") == "     1\tx"


def test_undecodable_bytes_are_replaced_and_told(bench: Bench) -> None:
    """Latin-1 text is shown with replacement characters and a note."""
    bench.put("a", b"caf\xe9\nok\n")
    assert bench.text("Read", file_path="a") == (
        "     1\tcaf\ufffd\n     2\tok\n[bytes that are not UTF-8 are shown as \ufffd]"
    )


def test_a_replacement_character_of_the_file_is_no_fault(bench: Bench) -> None:
    """There is no note when the file itself holds U+FFFD."""
    bench.put("a", "\ufffd\n")
    assert bench.text("Read", file_path="a") == "     1\t\ufffd"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\0\0", "binary"),
        (b"x" * 20_000 + b"\0", "binary"),
        ("hi".encode("utf-16"), "UTF-16"),
    ],
)
def test_binary_files_are_refused(bench: Bench, content: bytes, message: str) -> None:
    """The failure says binary, or UTF-16, when a file holds NUL bytes."""
    bench.put("a", content)
    assert message in str(bench.failure("Read", file_path="a"))


def test_a_huge_file_is_read_in_parts_only(bench: Bench) -> None:
    """Over 10 MiB a window is shown from a stream, and without one the read is refused."""
    path = bench.put("a")
    with path.open("w") as file:
        for number in range(1, 200_001):
            file.write(f"{number:07} {'x' * 60}\n")
    assert path.stat().st_size > 10 * 1024 * 1024
    assert "read parts of it with offset and limit" in str(bench.failure("Read", file_path="a"))
    text = bench.text("Read", file_path="a", offset=150_000, limit=1)
    assert text.startswith(f"150000\t0150000 {'x' * 60}\n")


def test_memory_does_not_grow_with_the_file(bench: Bench) -> None:
    """A line of 64 MiB in the way costs less than 2 MiB, when the window lies behind it."""
    path = bench.put("a")
    with path.open("wb") as file:
        for _ in range(64):
            file.write(b"x" * 1024 * 1024)
        file.write(b"\nlast\n")
    tracemalloc.start()
    try:
        assert bench.text("Read", file_path="a", offset=2) == "     2\tlast"
        assert tracemalloc.get_traced_memory()[1] < 2 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_long_read_can_be_cancelled(bench: Bench) -> None:
    """The read ends at once when it is cancelled on its way through a long file."""
    path = bench.put("a")
    with path.open("w") as file:
        file.writelines(f"{number:09}\n" for number in range(1_200_000))

    async def cancelled() -> bool:
        try:
            async with asyncio.timeout(0.01):
                await bench.start("Read", file_path="a", offset=1_200_000)
        except TimeoutError:
            return True
        return False

    assert asyncio.run(cancelled())

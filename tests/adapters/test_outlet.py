"""Writing to a descriptor: nothing lost, nobody blocked, whoever reads."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from runner.adapters import outlet as outlets
from runner.adapters.outlet import Outlet
from tests.pipes import pipe

MIB = 1024 * 1024


def test_a_slow_reader_gets_everything_and_holds_nobody_up() -> None:
    """Writing returns at once though the pipe is full; every byte arrives, in order."""
    chunks = [bytes([65 + n % 26]) * (MIB // 4) for n in range(16)]
    received = bytearray()

    def read_slowly(reader: int) -> None:
        while piece := os.read(reader, 65_536):
            received.extend(piece)

    with pipe() as (reader, writer):
        outlet = Outlet(writer)
        for chunk in chunks:  # 4 MiB into a pipe of 64 KiB that nobody reads yet
            outlet.write(chunk.decode())
        thread = threading.Thread(target=read_slowly, args=(reader,))
        thread.start()
        assert outlet.close() is None
        os.close(writer)
        thread.join()
    assert bytes(received) == b"".join(chunks)


def test_a_descriptor_that_does_not_block_is_written_whole() -> None:
    """Every byte arrives when the pipe was made non-blocking by whoever shares it."""
    received = bytearray()
    with pipe() as (reader, writer):
        os.set_blocking(writer, False)
        outlet = Outlet(writer)
        outlet.write("x" * MIB)
        while len(received) < MIB:
            received.extend(os.read(reader, 65_536))
        assert outlet.close() is None
    assert bytes(received) == b"x" * MIB


def test_a_reader_that_leaves_is_no_error() -> None:
    """Writes after the reader left are dropped, and closing reports nothing."""
    with pipe() as (reader, writer):
        outlet = Outlet(writer)
        os.close(reader)
        for _ in range(100):
            outlet.write("x" * 10_000)
        assert outlet.close() is None


def test_a_full_disk_is_reported() -> None:
    """Closing says why when the output could not be written and the reader is not to blame."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        outlet = Outlet(descriptor)
        outlet.write("x")
        error = outlet.close()
    finally:
        os.close(descriptor)
    assert error is not None
    assert error.strerror == "No space left on device"


def test_settling_gives_up_on_a_reader_that_does_not_read() -> None:
    """Waiting for what was written ends when its time is over."""
    with pipe() as (reader, writer):
        outlet = Outlet(writer)
        outlet.write("x" * MIB)
        outlet.settle(0.05)
        os.close(reader)
        assert outlet.close() is None


def test_halves_of_characters_do_not_break_the_output() -> None:
    """A lone surrogate is written out, and the rest arrives."""
    with pipe() as (reader, writer):
        outlet = Outlet(writer)
        outlet.write("a\ud800b\n")
        assert outlet.close() is None
        assert os.read(reader, 100) == b"a\\ud800b\n"


def test_a_reader_that_never_reads_does_not_keep_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing gives up with a time-out when a full pipe is not read at all."""
    monkeypatch.setattr(outlets, "STALLED_S", 0.1)
    reader, writer = os.pipe()
    stuck = Outlet(writer)
    stuck.write("x" * 200_000)
    lost = stuck.close()
    os.close(reader)  # lets the writing thread end
    assert lost is not None
    assert lost.errno == errno.ETIMEDOUT

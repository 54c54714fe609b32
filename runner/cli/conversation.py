"""Runs what comes on stdin, one user message after another, in one session."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from runner.cli.running import Stand, keep_code, standing

if TYPE_CHECKING:
    from runner.cli.stream_input import Host
    from runner.core.spec import TaskSpec

SIGNALLED = (130, 143)
USAGE = 2
CHUNK_BYTES = 1024 * 1024

Reload = Callable[[Mapping[str, Any]], "TaskSpec"]
"""The task once more, with these keys. Raises `ValueError`."""


def refuse_other_stream(options: dict[str, Any], *, reads_spec: bool) -> None:
    """Prompts on stdin need a stream on stdout, and stdin for themselves."""
    if options["input_format"] != "stream-json":
        return
    if options["output_format"] != "stream-json":
        raise click.UsageError("--input-format stream-json needs --output-format stream-json")
    if reads_spec:
        raise click.UsageError("--input-format stream-json reads stdin: name the spec's file")
    if options["dry_run"]:
        raise click.UsageError("--dry-run reads no prompts: leave --input-format out")


def converse(task: TaskSpec, options: dict[str, Any], reload: Reload) -> int:
    """Run every user message until stdin is closed; the code of the first that failed.

    A signal ends the run, and the session with it. A line that means nothing ends it with code 2,
    after what came before it.
    """
    from runner.adapters.ci_text import inert
    from runner.cli.stream_input import Host, InputError

    with standing(task, options) as stand:
        host = Host(answer=stand.answer, task=task, reload=reload)
        host.listen(_lines())
        try:
            code = _all(host, stand)
        except InputError as error:
            stand.talk.write(f"Error: {inert(str(error))}\n")
            code = USAGE
        keep_code(code)
        return code


def _all(host: Host, stand: Stand) -> int:
    from runner import app
    from runner.cli.stream_input import Closing

    where = stand.where
    if where.session_id is None and (where.resume is None or where.fork):
        where = replace(where, session_id=stand.world.new_id())
    world, code = stand.world, 0
    if stand.options.get("asks"):
        world = replace(world, ask=host.questions.ask)
    while (asked := host.next()) is not None:
        talk = app.Conversation(spec=host.task, options=where)
        spec, options = talk.part(asked.prompt)
        sinks = (Closing(host=host, asked=asked), *stand.sinks())  # who reads the result may go on
        finished = app.run(spec, options, sinks, world, asked.switch)
        stand.tell(finished)
        code = code or finished.exit_code
        if finished.exit_code in SIGNALLED and asked.switch.cause is None:
            break
    return code


def _lines() -> Iterable[bytes]:
    """Lines of stdin, none longer than a host may send.

    Not through `sys.stdin`: whoever is blocked in there at the exit keeps its lock.
    """
    from runner.cli.stream_input import MAX_LINE_BYTES, InputError

    begun = bytearray()  # grows by what is new: a pipe gives a long line in hundreds of pieces
    while chunk := os.read(0, CHUNK_BYTES):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield bytes(begun + end)
            begun.clear()
        begun += rest
        if len(begun) > MAX_LINE_BYTES:
            raise InputError(f"a line of stdin is longer than {MAX_LINE_BYTES} bytes")
    yield bytes(begun)

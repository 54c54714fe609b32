"""Runs a task for a command: the format on stdout, the progress on stderr, the exit code."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.cli.look import home_of
from runner.cli.standard import cleaner, mask_stderr, stdout_for_one

if TYPE_CHECKING:
    from runner.adapters.ci_text import Ci
    from runner.adapters.log import LogFormat, Say
    from runner.adapters.outlet import Outlet
    from runner.app import Finished, RunOptions, World
    from runner.core.spec import TaskSpec
    from runner.ports import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Where a command stands: its two outlets, what it says, and the world it runs in."""

    options: dict[str, Any]
    answer: Outlet
    talk: Outlet
    say: Say
    world: World

    @property
    def where(self) -> RunOptions:
        """Where the session is kept."""
        from runner.app import RunOptions

        artifacts = self.options["artifacts"]
        return RunOptions(
            home=home_of(self.options["home"]),
            session_id=self.options["session_id"],
            resume=self.options["resume"],
            fork=self.options["fork"],
            artifacts=None if artifacts is None else artifacts.resolve(),
        )

    def sinks(self) -> tuple[Sink, ...]:
        """Who shows one run: the format, and the progress unless nobody wants to see it."""
        from runner.adapters.progress import Progress
        from runner.adapters.streams import format_sink

        stdout = format_sink(
            self.options["output_format"],
            self.answer,
            partial=self.options["include_partial_messages"],
            hooks=self.options["include_hook_events"],
            clean=cleaner(os.environ, is_terminal=self.answer.isatty()),
        )
        if self.options.get("silent"):
            return (stdout,)
        quiet, home = self.options["quiet"], home_of(self.options["home"])
        return stdout, Progress(self.say, home=home, quiet=quiet)

    def tell(self, finished: Finished) -> None:
        """What went wrong after the ending, and the commands for the CI system."""
        from runner.adapters.log import Line, Span

        for problem in finished.problems:
            words: tuple[Span, ...] = (("warn", "warning"), ("plain", f"  {problem}"))
            self.say(Line(event="reports", spans=words, level="warning"))
        if self.options["log_format"] != "json":
            self.talk.write("".join(f"{notice}\n" for notice in finished.notices))


def run_once(task: TaskSpec, options: dict[str, Any]) -> int:
    """Run a task to its ending; the exit code."""
    with standing(task, options) as stand:
        from runner import app

        finished = app.run(task, stand.where, stand.sinks(), stand.world)
        keep_code(finished.exit_code)
        stand.tell(finished)
        return finished.exit_code


@contextlib.contextmanager
def standing(task: TaskSpec, options: dict[str, Any]) -> Iterator[Stand]:
    """Close this process to others, take the standard streams, forget the keys."""
    from runner.adapters.undumpable import close_to_own_user

    close_to_own_user(os.environ)
    with stdout_for_one() as stdout:
        from runner.adapters.outlet import Outlet

        answer, talk = Outlet(stdout), Outlet(2)
        try:
            with _stand(task, options, answer, talk) as stand:
                yield stand
        finally:
            with contextlib.suppress(KeyboardInterrupt):  # gives up on a reader that stalls
                lost = answer.close()
                if lost is not None:
                    talk.write(f"error    stdout could not be written: {lost.strerror}\n")
                talk.close()


@contextlib.contextmanager
def _stand(
    task: TaskSpec, options: dict[str, Any], answer: Outlet, talk: Outlet
) -> Iterator[Stand]:
    _begin_slow_import(task)
    from runner import app
    from runner.adapters.log import open_log
    from runner.adapters.secret_values import mask_of, names_to_forget
    from runner.adapters.undumpable import forget

    log_format, colour = _look(options["log_format"])
    world = app.World()
    mask = mask_of(task, world.environ)
    mask_stderr(mask.text)
    forget(names_to_forget(task, world.environ), os.environ)
    with open_log(talk, log_format=log_format, colour=colour, ci=_ci(), mask=mask) as say:
        yield Stand(options=options, answer=answer, talk=talk, say=say, world=world)


def _begin_slow_import(task: TaskSpec) -> None:
    """litellm takes seconds to import: everything else of the start-up happens meanwhile."""
    from runner.adapters.preflight import is_embedded

    if not is_embedded(task):
        from runner.adapters.litellm_model import start_import

        start_import()


def keep_code(code: int) -> None:
    """The ending is written: a SIGTERM or SIGHUP from now on hurries the exit, not its code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))


def _look(wanted: LogFormat | None) -> tuple[LogFormat, bool]:
    """The format of stderr, and whether it may have colour."""
    terminal = os.isatty(2)
    log_format = wanted or ("console" if terminal else "plain")
    return log_format, terminal and log_format == "console" and not os.environ.get("NO_COLOR")


def _ci() -> Ci | None:
    from runner.adapters.ci_text import ci_of

    return ci_of(os.environ)

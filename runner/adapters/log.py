"""stderr: lines for people, or JSON for machines, from the run and from the libraries it uses.

Rules of this file: everything that comes in may hold text of others, so secrets in it are masked
and it is made inert first; colour and the markers of CI systems are added after that, only here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import structlog
from structlog.typing import EventDict, Processor

from runner.adapters.ci_text import Ci, inert, inert_json
from runner.adapters.outlet import Outlet
from runner.adapters.redact import NOTHING, Mask

LogFormat = Literal["console", "plain", "json"]
Style = Literal["plain", "dim", "bold", "good", "warn", "bad"]
Level = Literal["info", "warning", "error"]
Span = tuple[Style, str]

_COLOURS: Mapping[Style, str] = {
    "dim": "\x1b[2m",
    "bold": "\x1b[1m",
    "good": "\x1b[32m",
    "warn": "\x1b[33m",
    "bad": "\x1b[31m",
}
_RESET = "\x1b[0m"
_LEVEL_STYLES: Mapping[str, Style] = {"warning": "warn", "error": "bad", "critical": "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Something to say: the words for people, the fields for machines.

    `group` opens or closes a foldable group, with this line as its title; a closing line says
    nothing of its own. `at` is the time of what it tells of.
    """

    event: str
    spans: tuple[Span, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    level: Level = "info"
    group: Literal["open", "close"] | None = None
    at: str | None = None

    @property
    def text(self) -> str:
        """The words, without their styles."""
        return "".join(text for _, text in self.spans)


Say = Callable[[Line], None]


@contextmanager
def open_log(
    outlet: Outlet, *, log_format: LogFormat, colour: bool, ci: Ci | None, mask: Mask = NOTHING
) -> Iterator[Say]:
    """Say lines on `outlet`, and let the libraries' warnings come out the same way meanwhile."""
    render = _json_renderer(mask) if log_format == "json" else _text_renderer(colour, ci, mask)
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    log = structlog.wrap_logger(
        _OutletLogger(outlet),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        processors=[structlog.processors.add_log_level, stamp, render],
    )

    def say(line: Line) -> None:
        getattr(log, line.level)(line.event, line=line)

    with _library_logs(_OutletHandler(outlet), [stamp], render):
        yield say


class _OutletLogger:
    """What structlog hands its finished lines to."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def msg(self, text: str) -> None:
        if text:
            self._outlet.write(text + "\n")

    info = warning = error = msg


class _OutletHandler(logging.Handler):
    """What the standard library's logging hands its records to."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        self._outlet.write(self.format(record) + "\n")


@contextmanager
def _library_logs(
    handler: logging.Handler, before: list[Processor], render: Processor
) -> Iterator[None]:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            *before,
            structlog.processors.format_exc_info,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
    )
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)


def _json_renderer(mask: Mask) -> Processor:
    def render(_logger: Any, _method: str, event: EventDict) -> str:
        line = event.pop("line", None)
        if isinstance(line, Line):
            if line.group == "close":
                return ""
            if line.at:
                event["timestamp"] = line.at
            title = line.text.strip().partition("\n")[0]
            event.update({"message": " ".join(title.split()), **line.fields})
        plain = json.loads(json.dumps(event, default=str))
        return inert_json(json.dumps(mask.value(plain)))

    return render


def _text_renderer(colour: bool, ci: Ci | None, mask: Mask) -> Processor:
    def render(_logger: Any, _method: str, event: EventDict) -> str:
        line = event.get("line")
        if not isinstance(line, Line):
            line = Line(event="log", spans=_foreign(event))
        spans = ((style, inert(mask.text(words))) for style, words in line.spans)
        painted = (_paint(style, words, colour) for style, words in spans)
        text = "".join(painted).rstrip(" ")
        return text if line.group is None else _in_group(text, line, ci)

    return render


def _foreign(event: EventDict) -> tuple[Span, ...]:
    """A library's own message, named after its logger."""
    level, logger = str(event.get("level", "info")), str(event.get("logger", "log"))
    exception = event.get("exception")
    words = f" {logger}: {event.get('event')}" + (f"\n{exception}" if exception else "")
    return ((_LEVEL_STYLES.get(level, "plain"), level), ("plain", words))


def _paint(style: Style, text: str, colour: bool) -> str:
    code = _COLOURS.get(style) if colour else None
    return f"{code}{text}{_RESET}" if code and text else text


def _in_group(text: str, line: Line, ci: Ci | None) -> str:
    opening = line.group == "open"
    if ci == "github":
        return "::group::" + text.replace("%", "%25") if opening else "::endgroup::"
    if ci == "gitlab":
        moment = int(datetime.fromisoformat(line.at).timestamp()) if line.at else 0
        edge = "start" if opening else "end"
        return f"\x1b[0Ksection_{edge}:{moment}:{line.event}_{line.fields['id']}\r\x1b[0K{text}"
    return text

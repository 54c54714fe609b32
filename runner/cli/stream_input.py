"""What a host program says on stdin: user messages, and requests that steer the session.

Lines of JSON as Claude's SDKs write them (`--input-format stream-json`). User messages wait for
their turn; requests are answered at once, by the thread that reads.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any, get_args

from runner.adapters.outlet import Outlet
from runner.adapters.streams import json_line
from runner.app import Switch
from runner.cli.questions import Questions
from runner.core.events import Record
from runner.core.spec import PermissionMode, TaskSpec
from runner.core.state import State

MAX_LINE_BYTES = 16 * 1024 * 1024

GIVEN = ("agents", "skills")
"""Keys of the spec that a host may give with its first request."""

IDLE = frozenset({"subtype", "hooks", "forwardSubagentText"})
"""What else that request may say: hooks are refused in words, the text of sub-agents is always on
the stream."""


class InputError(ValueError):
    """A line of stdin is nothing that can be acted on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A user message, and what stops the run of it."""

    prompt: str
    switch: Switch = field(default_factory=Switch)


@dataclass(slots=True, kw_only=True)
class Host:
    """The program at the other end: what it wants run, and what it changed about the task.

    `reload` gives the task with other keys; it is called before the first prompt only, while no
    agent has touched a file of the spec yet. It raises `ValueError` when they are not sound.
    """

    answer: Outlet
    task: TaskSpec
    reload: Callable[[Mapping[str, Any]], TaskSpec]
    questions: Questions = field(init=False)
    _asked: SimpleQueue[Asked | InputError | None] = field(default_factory=SimpleQueue)
    _open: deque[Asked] = field(default_factory=deque)
    _has_run: bool = False
    _first_model: str = field(init=False)

    def __post_init__(self) -> None:
        self.questions = Questions(answer=self.answer, stop=self.interrupt)
        self._first_model = self.task.model

    def listen(self, lines: Iterable[bytes]) -> None:
        """Read in a thread of its own, which is not waited for at the exit."""
        threading.Thread(target=self._read, args=(lines,), name="stream-input", daemon=True).start()

    def next(self) -> Asked | None:
        """The next user message; None once stdin is closed. Raises `InputError`, after all that
        was sound before it."""
        asked = self._asked.get()
        if isinstance(asked, InputError):
            raise asked
        if asked is None and not self._has_run:  # or nothing done would look like success
            raise InputError("no user message came on stdin")
        return asked

    def interrupt(self) -> None:
        """Stop the message that runs, or is to run next."""
        if self._open:
            self._open[0].switch.throw("interrupt")

    def done(self, asked: Asked) -> None:
        """The run of this message is over."""
        self._open.remove(asked)

    def _read(self, lines: Iterable[bytes]) -> None:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    self._act(_message(line, number), number)
            end = None
        except (InputError, OSError, ValueError) as error:
            end = InputError(str(error))
        self.questions.close()
        self._asked.put(end)

    def _act(self, message: Mapping[str, Any], number: int) -> None:
        match message.get("type"):
            case "user":
                asked = Asked(prompt=_text(message, number))
                self._has_run = True
                self._open.append(asked)
                self._asked.put(asked)
            case "control_request":
                self._respond(str(message.get("request_id")), message.get("request"))
            case "control_response":
                response = message.get("response")
                self.questions.settle(response if isinstance(response, dict) else {})
            case "control_cancel_request":
                pass  # every request is answered at once
            case other:
                raise InputError(f"stdin:{number}: a message of type `{other}` means nothing here")

    def _respond(self, request_id: str, request: Any) -> None:
        response: dict[str, Any] = {"subtype": "success", "request_id": request_id}
        try:
            response["response"] = self._obey(request if isinstance(request, dict) else {})
        except ValueError as error:
            response = {"subtype": "error", "request_id": request_id, "error": str(error)}
        self.answer.write(json_line({"type": "control_response", "response": response}))

    def _obey(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what a control request asks for. Raises `ValueError` with why not."""
        match request.get("subtype"):
            case "initialize":
                return self._initialize(request)
            case "interrupt":
                self.interrupt()
            case "set_permission_mode":
                self._change(permission_mode=_mode(request.get("mode"), self.task))
            case "set_model":
                model = request.get("model")
                if not isinstance(model, str | None) or model == "":
                    raise ValueError("set_model needs the name of a model, or null for the first")
                self._change(model=model or self._first_model)
            case other:
                raise ValueError(f"the request `{other}` is not supported by autopilot")
        return {}

    def _initialize(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if request.get("hooks"):
            hint = "name commands under `hooks` in the spec instead"
            raise ValueError(f"hooks that call the host program are not supported: {hint}")
        if more := sorted(key for key in request if request[key] and key not in (*GIVEN, *IDLE)):
            raise ValueError(f"`{more[0]}` is not supported by autopilot")
        given = {key: request[key] for key in GIVEN if request.get(key) not in (None, {})}
        if given:
            self._not_busy(" and ".join(given))
            self.task = self.reload(given)
        return {
            "commands": [],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": [{"value": self.task.model}],
            "account": {},
        }

    def _change(self, **keys: Any) -> None:
        if self._open:
            raise ValueError(f"{next(iter(keys))} can be changed between prompts only")
        self.task = replace(self.task, **keys)

    def _not_busy(self, what: str) -> None:
        if self._has_run:
            raise ValueError(f"{what} can be given before the first prompt only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The sink that knows when a message is dealt with: before its result is shown."""

    host: Host
    asked: Asked

    def catch_up(self, state: State) -> None:
        """Nothing."""

    def show(self, record: Record) -> None:
        """Nothing."""

    def close(self, result: Mapping[str, Any]) -> None:
        """The run of the message is over."""
        self.host.done(self.asked)


def _message(line: bytes, number: int) -> Mapping[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"stdin:{number}: no line of JSON: {error}") from error
    if not isinstance(message, dict):
        raise InputError(f"stdin:{number}: a message is a JSON object")
    return message


def _text(message: Mapping[str, Any], number: int) -> str:
    """The text of a user message: a string, or blocks of text."""
    inner = message.get("message")
    content = inner.get("content") if isinstance(inner, dict) else None
    if isinstance(content, list):
        kinds = [block.get("type") if isinstance(block, dict) else None for block in content]
        if other := [kind for kind in kinds if kind != "text"]:
            raise InputError(f"stdin:{number}: only text can be read, not a block of `{other[0]}`")
        content = "\n".join(str(block.get("text", "")) for block in content)
    if not isinstance(content, str) or not content.strip():
        raise InputError(f"stdin:{number}: the message has no text")
    try:
        content.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, which no model can be sent
        raise InputError(f"stdin:{number}: the text is no Unicode: {error.reason}") from error
    return content


def _mode(wanted: object, task: TaskSpec) -> PermissionMode:
    if wanted == "auto" and task.auto_mode is None:
        raise ValueError("mode auto needs `auto_mode` in the spec")
    for mode in get_args(PermissionMode):
        if mode == wanted:
            return mode  # type: ignore[no-any-return]  # one of the words of the literal
    raise ValueError(f"there is no permission mode `{wanted}`")

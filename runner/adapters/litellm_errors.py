"""From what litellm raises to a `ModelError`: what kind it is, and whether to try again.

Rules of this file:
* litellm's classes alone are not enough: the same failure comes as different classes for
  different providers, and a status it does not know becomes 500. What the server really answered
  stands in the chain of causes, so that is looked at first.
* No class is imported: importing litellm takes seconds. Classes are told by their names.
* A message is one short line in the provider's words, without litellm's wrapping and without keys.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from runner.ports import ModelError, ModelErrorKind

CUT = "the reply ended before it was complete"
_MAX_MESSAGE_CHARS = 300
_UNREACHED = frozenset({"ConnectError", "ConnectTimeout", "ClientConnectorError", "gaierror"})
_UNTRUSTED = frozenset({"SSLCertVerificationError"})
_LOST = _UNREACHED | _UNTRUSTED | {"ClientError", "RemoteProtocolError"}
_PROVIDERS_OWN = frozenset({"BaseLLMException", "OpenAIError"})
_UNREADABLE = frozenset({"DecodingError", "ValueError"})
_STUMBLES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError)
_GATEWAY_LOST_IT = frozenset({504, 524})

_CONTEXT = re.compile(
    r"context.?(length|window|limit)|maximum context|prompt is too long|input is too long"
    r"|too many (input )?tokens|exceeds? the maximum number of tokens",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient.?(quota|balance|funds|credit)|exceeded your current quota|credit balance"
    r"|billing|out of credits",
    re.IGNORECASE,
)
# What litellm says of a stream that ends too early.
_NO_END = re.compile(r"ended before a finish_reason|stream before any terminal event")
_TOO_FAST = re.compile(r"rate.?limit|too many requests", re.IGNORECASE)
_TITLE = re.compile(r"<title>([^<]*)", re.IGNORECASE)
# Google words a full minute like an empty account, and says when to come back; OpenAI says when
# with an error in a stream, which has no headers.
_COMES_BACK = re.compile(
    r"(?:retry|try again) in (?:(?P<min>[0-9]{1,4})m)?(?P<wait>[0-9.]{1,9}) ?(?P<unit>m?s)\b"
    r"|\"retryDelay\": ?\"(?P<delay>[0-9.]{1,9})s\""
)
_UNKNOWN_MODEL = re.compile(
    r"LLM Provider NOT provided|model.{0,80}(not found|does not exist|not exist)", re.IGNORECASE
)
_NO_KEY = re.compile(
    r"missing.{0,30}(api.?key|credentials)|api.?key.{0,40}must be set|no api.?key|credentials not"
    r"|could not (resolve|find|locate|load).{0,30}credentials",
    re.IGNORECASE,
)
# litellm's own refusal, before anything is sent; its advice is for those who call it themselves.
_UNSUPPORTED = re.compile(r"does not support parameters: \[(.+?)\], for model=(\S+?)\. To drop")
_WRAPPING = re.compile(r"^(?:litellm\.\w+: |(?:Timeout )?\w*(?:Error|Exception)(?: -|:) )+")
_BYTES = ("b'", 'b"')
_ADVERT = re.compile(
    r"\.?\s*(?:Handle with `litellm|Original exception:|LiteLLM Retried:|Received Model Group="
    r"|Pass in the LLM provider|Error_str:|Learn more: https://docs\.litellm).*",
    re.DOTALL,
)


def classify(error: Exception, *, reading: bool, started: bool, secret: str | None) -> ModelError:
    """What `error` means for the run.

    `reading` says that the stream was open, or about to be; `started` that part of the reply had
    arrived; `secret` is blotted out of the message.
    """
    top = getattr(error, "original_exception", None) or error
    causes = tuple(_causes(top))
    answer = next((e.response for e in causes if _is(e, "HTTPStatusError")), None)
    status = _status(top, answer)
    body = "" if answer is None else _body(answer)
    wording = "\n".join(part for part in (body, *_wordings(top, causes)) if part)
    names = {name for cause in causes for name in _names(cause)}
    kind = _kind(top, status, wording, lost=bool(names & _LOST))
    if answer is None and not started and _NO_KEY.search(wording):
        kind = "authentication"  # nothing was sent; some providers' code says 500
    retryable = kind in ("rate_limit", "provider_unavailable") and not names & _UNTRUSTED
    message = _told(body, status) if answer is not None else _untold(causes, names, kind)
    return ModelError(
        kind,
        _short(message, secret),
        retryable=retryable,
        status_code=status,
        retry_after_s=_retry_after_s(answer, wording) if retryable else None,
        may_bill=started or _accepted(kind, answer, status, names, reading=reading),
    )


def _causes(error: BaseException | None) -> Iterator[Any]:
    """The error and what it came from, the innermost last."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _is(error: BaseException, name: str) -> bool:
    return name in _names(error)


def _status(error: Exception, answer: Any) -> int | None:
    """The server's status; litellm's only where it did not make it up for a lost connection."""
    if answer is not None:
        return int(answer.status_code)
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and 400 <= status < 500 and status != 408 else None


def _kind(error: Exception, status: int | None, wording: str, *, lost: bool) -> ModelErrorKind:
    """The first row that fits; only a refused request gets past the first two."""
    if status is None and not lost and (said := _said_in_a_stream(wording)):
        return said
    if status is None or status >= 500 or status in (408, 409):
        return "provider_unavailable"
    if status == 402 or (_QUOTA.search(wording) and not _COMES_BACK.search(wording)):
        return "quota"
    if status == 429:
        return "rate_limit"
    if status in (401, 403):
        return "authentication"
    if _is(error, "ContextWindowExceededError") or _CONTEXT.search(wording):
        return "context_limit"
    if status == 404 or _UNKNOWN_MODEL.search(wording):
        return "model_not_found"
    return "invalid_request"


def _said_in_a_stream(wording: str) -> ModelErrorKind | None:
    """The kind of an error that came as a part of a reply, where it is told by its words only."""
    if _COMES_BACK.search(wording):
        return "rate_limit"
    rows: tuple[tuple[re.Pattern[str], ModelErrorKind], ...] = (
        (_QUOTA, "quota"),
        (_CONTEXT, "context_limit"),
        (_TOO_FAST, "rate_limit"),
    )
    return next((kind for pattern, kind in rows if pattern.search(wording)), None)


def _accepted(
    kind: ModelErrorKind, answer: Any, status: int | None, names: set[str], *, reading: bool
) -> bool:
    """Whether the provider may have worked on a request that failed before its first piece."""
    if answer is not None:
        return status in _GATEWAY_LOST_IT
    return (reading or kind == "provider_unavailable") and not names & (_UNREACHED | _UNTRUSTED)


# -- words ---------------------------------------------------------------------------------------


def _body(answer: Any) -> str:
    """What the server sent with its status; nothing when it was not read to its end."""
    try:
        return str(answer.text)
    except RuntimeError:
        return ""


def _wordings(error: Exception, causes: tuple[Any, ...]) -> Iterator[str]:
    """What litellm says of an error, and the provider's body where one of the causes kept it."""
    yield str(getattr(error, "message", error))
    for cause in causes:
        if isinstance(body := getattr(cause, "body", None), Mapping):
            yield json.dumps(body, default=str)


def _told(body: str, status: int | None) -> str:
    """An error by the words of the server: its sentence, or the title of its page."""
    page = _TITLE.search(body)
    said = page[1] if page else "" if body.lstrip().startswith("<") else _sentence(body)
    return " ".join(said.split()) or f"HTTP status {status}"


def _untold(causes: tuple[Any, ...], names: set[str], kind: ModelErrorKind) -> str:
    """An error without an answer of its own: what happened, or what was said in the stream."""
    if match := _UNSUPPORTED.search(str(causes[0])):
        parameters = match[1].replace("'", "`")
        return f"{match[2]} takes no {parameters}: not a model for this task; choose another one"
    if names & _UNREACHED:
        return f"cannot connect: {causes[-1]}"
    if "ClientError" in names:
        return "the connection was lost before the reply was complete"
    if _NO_END.search(str(causes[0])):
        return CUT
    if kind == "provider_unavailable" and (fault := _unreadable(causes)) is not None:
        return f"the reply cannot be read: {fault}" if fault else "the reply cannot be read"
    said = next((e for e in reversed(causes) if _names(e) & _PROVIDERS_OWN), causes[0])
    return _sentence(str(getattr(said, "message", said))) or type(causes[0]).__name__


def _unreadable(causes: tuple[Any, ...]) -> str | None:
    """What was wrong with the bytes, as far as it was them and not litellm that stumbled."""
    if any(_names(cause) & _UNREADABLE for cause in causes[-2:]):
        return str(causes[-1]).partition("\n")[0]
    return "" if isinstance(causes[-1], _STUMBLES) else None


def _short(text: str, secret: str | None) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    if secret:
        text = text.replace(secret, "***")
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[: _MAX_MESSAGE_CHARS - 1]}…"


def _sentence(wording: str) -> str:
    """The first line of what the provider said, out of litellm's wrapping."""
    text = _WRAPPING.sub("", wording.partition("\n")[0])
    said = _said(text)
    if said is None:
        said = "" if text.startswith(_BYTES) else _ADVERT.sub("", text)
    return " ".join(said.strip().partition("\n")[0].split())


def _said(text: str) -> str | None:
    """The sentence inside an error body, when the text is one."""
    start = text.find("{")
    if start < 0:
        return None
    body = _literal(text) if text.startswith(_BYTES) else text[start:]
    try:
        value, _ = json.JSONDecoder().raw_decode(body[body.find("{") :])
    except (ValueError, RecursionError):
        return None
    inner = value.get("error", value) if isinstance(value, dict) else value
    said = inner.get("message") if isinstance(inner, dict) else inner
    return said if isinstance(said, str) else None


def _literal(text: str) -> str:
    """The text of a body that was formatted as Python bytes."""
    end = text.rfind(text[1])
    try:
        return bytes(ast.literal_eval(text[: end + 1])).decode("utf-8", "replace")
    except (ValueError, SyntaxError, TypeError):
        return text


# -- the server's wait ---------------------------------------------------------------------------


def _retry_after_s(answer: Any, wording: str) -> float | None:
    """How long the server asked to be left alone, in seconds."""
    headers: Mapping[str, str] = {} if answer is None else answer.headers
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value:
        seconds = _until(value, headers.get("date"))
    if seconds is None and (match := _COMES_BACK.search(wording)):
        seconds = _in_words(match)
    return seconds


def _in_words(match: re.Match[str]) -> float | None:
    """`12.5s`, `250ms`, `6m0s`."""
    wait = _number(match["wait"] or match["delay"])
    if wait is None:
        return None
    return 60 * int(match["min"] or 0) + (wait / 1000 if match["unit"] == "ms" else wait)


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]*)?\s*", text):
        return None
    return float(text)


def _until(date: str, now: str | None) -> float | None:
    """Seconds to an HTTP date by the server's own clock, which every server sends along."""
    try:
        wait = parsedate_to_datetime(date) - parsedate_to_datetime(now or "")
    except (ValueError, TypeError):
        return None
    return max(wait.total_seconds(), 0.0)

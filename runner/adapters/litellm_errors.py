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

_MAX_MESSAGE_CHARS = 300
_UNREACHED = frozenset({"ConnectError", "ConnectTimeout", "ClientConnectorError", "gaierror"})
_UNTRUSTED = frozenset({"SSLCertVerificationError"})
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
# Google words a full minute like an empty account, and says when to come back.
_COMES_BACK = re.compile(r"retry in ([0-9.]+) ?s|\"retryDelay\": ?\"([0-9.]+)s\"")
_UNKNOWN_MODEL = re.compile(
    r"LLM Provider NOT provided|model.{0,80}(not found|does not exist|not exist)", re.IGNORECASE
)
_NO_KEY = re.compile(
    r"missing.{0,30}(api.?key|credentials)|api.?key.{0,40}must be set|no api.?key|credentials not"
    r"|could not (resolve|find|locate|load).{0,30}credentials",
    re.IGNORECASE,
)
_WRAPPING = re.compile(r"^(?:litellm\.\w+: |(?:Timeout )?\w*(?:Error|Exception)(?: -|:) )+")
_BYTES = ("b'", 'b"')
_ADVERT = re.compile(
    r"\.?\s*(?:Handle with `litellm|Original exception:|LiteLLM Retried:|Received Model Group="
    r"|Pass in the LLM provider|Error_str:|Learn more: https://docs\.litellm).*",
    re.DOTALL,
)


def classify(error: Exception, *, started: bool, secret: str | None) -> ModelError:
    """What `error` means for the run.

    `started` says that part of the reply had arrived; `secret` is blotted out of the message.
    """
    top = getattr(error, "original_exception", None) or error
    causes = tuple(_causes(top))
    answer = next((e.response for e in causes if _is(e, "HTTPStatusError")), None)
    status = _status(top, answer)
    wording = _wording(top, answer)
    names = {name for cause in causes for name in _names(cause)}
    kind = _kind(top, status, wording)
    if answer is None and not started and _NO_KEY.search(wording):
        kind = "authentication"  # nothing was sent; some providers' code says 500
    retryable = kind in ("rate_limit", "provider_unavailable") and not names & _UNTRUSTED
    return ModelError(
        kind,
        _message(wording, status, causes, secret),
        retryable=retryable,
        status_code=status,
        retry_after_s=_retry_after_s(answer, wording) if retryable else None,
        may_bill=started or _accepted(kind, answer, status, names),
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


def _kind(error: Exception, status: int | None, wording: str) -> ModelErrorKind:
    """The first row that fits; only a refused request gets past the first one."""
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


def _accepted(kind: ModelErrorKind, answer: Any, status: int | None, names: set[str]) -> bool:
    """Whether the provider may have worked on a request that failed before its first piece."""
    if answer is not None:
        return status in _GATEWAY_LOST_IT
    return kind == "provider_unavailable" and not names & (_UNREACHED | _UNTRUSTED)


# -- words ---------------------------------------------------------------------------------------


def _wording(error: Exception, answer: Any) -> str:
    """All that the provider said, for patterns to look at: its body, or litellm's copy of it."""
    body = getattr(error, "body", None)
    told = json.dumps(body, default=str) if isinstance(body, Mapping) else ""
    return "\n".join(part for part in (str(getattr(error, "message", error)), told) if part)


def _message(wording: str, status: int | None, causes: tuple[Any, ...], secret: str | None) -> str:
    names = {name for cause in causes for name in _names(cause)}
    if status is None and names & _UNREACHED:
        text = f"cannot connect: {causes[-1]}"
    elif status is None and "ClientError" in names:
        text = "the connection was lost before the reply was complete"
    else:
        text = _sentence(wording) or f"HTTP status {status}"
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
        seconds = _number(match[1] or match[2])
    return seconds


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

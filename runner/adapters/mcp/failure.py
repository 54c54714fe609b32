"""What goes wrong with a server: which errors that may be, and what to say of them."""

from __future__ import annotations

from typing import Any

from runner.adapters.mcp.listing import plain


def of_the_wire() -> tuple[type[Exception], ...]:
    """Errors after which nothing more can be sent to the server."""
    import anyio  # noqa: PLC0415  # comes with the SDK, which is loaded for servers only
    import httpx2  # noqa: PLC0415  # as above

    lost = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
    return (OSError, httpx2.HTTPError, *lost)


def of_a_server() -> tuple[type[Exception], ...]:
    """Errors that the SDK raises about a server that is wrong or gone.

    It names no closed set: its own error, those of the wire, those of the models it reads answers
    into, and what reading the text of strangers can raise besides.
    """
    import httpx2  # noqa: PLC0415  # as above
    import mcp  # noqa: PLC0415  # as above

    reading = (ValueError, TypeError, LookupError, AttributeError, RuntimeError)
    return (mcp.MCPError, httpx2.InvalidURL, *of_the_wire(), *reading)


def is_end(error: Exception) -> bool:
    """Whether an error of the protocol was made here because the connection, or the stream of the
    one answer, is over. Its code alone does not tell: servers use it for what they like."""
    import mcp_types  # noqa: PLC0415  # as above

    said = str(error).startswith(("Connection closed", "SSE stream"))
    return said and getattr(error, "code", None) == mcp_types.CONNECTION_CLOSED


def reason(error: BaseException) -> str:
    """What went wrong, out of the groups that task groups make of it, on one line.

    Says no address: that of a server may hold a key.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"there is no program {error.filename!r}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return answered(status)
    text: Any = plain(str(error) or type(error).__name__, 500)
    return " ".join(text.split())


def answered(status: int) -> str:
    """What to say of a server that answers with this status of HTTP, which is no success."""
    if status in (401, 403):
        return f"it asks for authorization (HTTP {status}); give it a header such as Authorization"
    if status < 400:
        return (
            f"it redirects to another address (HTTP {status}), which is not followed: nothing that "
            "is meant for this server is sent to another; name the other one, if it is right"
        )
    return f"it answered with HTTP {status}"

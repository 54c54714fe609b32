"""Fit text into a byte limit: head and tail stay, the middle becomes a marker."""

from __future__ import annotations

MARKER = "\n[... {omitted} bytes left out{where} ...]\n"


def fit(text: str, max_bytes: int, *, saved_as: str | None = None) -> str:
    """`text` if it fits, else head and tail around a marker; at most `max_bytes` of UTF-8.

    `saved_as` names where the whole text is. Cuts fall on character borders. Idempotent.
    """
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= max_bytes:
        return text
    return join(raw, raw, len(raw), max_bytes, saved_as=saved_as)


def join(head: bytes, tail: bytes, total: int, max_bytes: int, *, saved_as: str | None) -> str:
    """Head and tail of `total` bytes of output, cut to `max_bytes` around the marker."""
    where = f"; all of it is in {saved_as}" if saved_as else ""
    room = max_bytes - len(MARKER.format(omitted=total, where=where).encode())
    if room <= 0:
        return _text(head[:max_bytes])
    kept_head = _text(head[: room // 2])
    kept_tail = _text(tail[-(room - room // 2) :])
    omitted = total - len(_bytes(kept_head)) - len(_bytes(kept_tail))
    return kept_head + MARKER.format(omitted=omitted, where=where) + kept_tail


def _text(raw: bytes) -> str:
    # "ignore" drops the halves of characters the cut went through, so nothing grows.
    return raw.decode("utf-8", "ignore")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

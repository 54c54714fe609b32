"""Amounts, durations and calls in words for people, each on one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_CENT = Decimal("0.01")
_SHOWN = Decimal("0.0001")

COST_BASES: Mapping[str, str] = {
    "table": "prices from litellm's table",
    "spec": "prices from the spec",
    "reserved": "reserved amounts: the provider reported no usage",
    "mixed": "partly reserved amounts: the provider did not always report usage",
    "unpriced": "no price known, so nothing is charged",
}
"""What an amount of a result rests on."""

_TELLING = ("command", "file_path", "pattern", "path", "url", "query", "summary", "reason")
"""Arguments that say by themselves what a call is about, the most telling first."""


def usd(amount: Decimal) -> str:
    """`$0.0421`: to a hundredth of a cent, and cents alone when there is nothing below them."""
    if 0 < amount < _SHOWN:
        return "<$0.0001"
    shown = amount.quantize(_SHOWN)
    return f"${shown.quantize(_CENT) if shown == shown.quantize(_CENT) else shown}"


def span(seconds: float) -> str:
    """`0.2s`, `12s`, `2m`, `1m59s`, `2h05m`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if minutes else f"{hours}h"


def count(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: str, max_chars: int) -> str:
    """The text with its white space collapsed, cut with dots when it is longer."""
    flat = " ".join(text[: max_chars * 20].split())
    if len(flat) <= max_chars and len(text) <= max_chars * 20:
        return flat
    return flat[: max_chars - 3].rstrip() + "..."


def gist(arguments: Mapping[str, Any], max_chars: int) -> str:
    """What a call is about: its most telling argument, else all of them."""
    for name in _TELLING:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return one_line(value, max_chars)
    texts = [value for value in arguments.values() if isinstance(value, str) and value.strip()]
    if texts:
        return one_line(texts[0], max_chars)
    return one_line(json.dumps(arguments, default=dict), max_chars) if arguments else ""

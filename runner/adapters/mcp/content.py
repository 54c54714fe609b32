"""What a server answers, as text for the model. Nothing in it is followed or fetched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runner.adapters.mcp.listing import plain


def text_of(result: Mapping[str, Any]) -> str:
    """The answer of a call, in the protocol's own words, as text.

    What is no text is named by its kind and size. Structured content is shown when there is
    nothing else.
    """
    blocks = [_block(block) for block in result.get("content") or ()]
    structured = result.get("structuredContent")
    if not blocks and structured is not None:
        return json.dumps(structured, ensure_ascii=False, indent=2)
    return "\n".join(blocks) or "(the server gave an empty answer)"


def how_far(done: float, total: float | None, message: str | None) -> str:
    """What a server says of its progress, on one line."""
    of = "" if total is None else f" of {total:g}"
    return " ".join(plain(f"{done:g}{of} {message or ''}", 500).split())


def _block(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            return _named(f"{kind} {block.get('mimeType', '')}", block.get("data"))
        case "resource":
            resource = block.get("resource") or {}
            if "text" in resource:
                return f"[resource {resource.get('uri', '')}]\n{resource['text']}"
            return _named(f"resource {resource.get('uri', '')}", resource.get("blob"))
        case "resource_link":
            return f"[link to {block.get('uri', '')}, not followed]"
        case kind:
            return f"[{kind}: not shown]"


def _named(what: str, encoded: Any) -> str:
    """`encoded` is base64: four characters for three bytes."""
    size = len(encoded) * 3 // 4 if isinstance(encoded, str) else 0
    return f"[{what.strip()}, about {size} bytes, not shown]"

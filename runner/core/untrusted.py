"""Text that strangers wrote, made safe to stand in a prompt: cleaned, and fenced off as data.

The boundary of a fence is a hash of all such texts of a prompt: whoever writes one of them cannot
know it, since to write it down would change it. The same inputs make the same prompt, so that a
resumed run sends what was sent before. All of it takes time in proportion to the text: whoever
wrote it must not be able to hold the run up.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Final

TAG: Final = "untrusted-input"
BOUNDARY_CHARS: Final = 32

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    # OSC, DCS, ...: none begins inside another one, so that no text is looked through twice.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_UNSEEN = frozenset(
    # Fillers, joiners and selectors that show nothing, though they count as letters or marks.
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
).union(range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0000, 0xE1000))
_HIDDEN_KINDS = frozenset(("Cc", "Cf", "Cn", "Co", "Cs"))
_LIKE_A_FENCE = re.compile(r"<(?=\s{0,16}(?:/\s{0,16})?untrusted)", re.IGNORECASE)


def cleaned(text: str) -> str:
    """The text without terminal commands and without what is not seen; line breaks are `\\n`."""
    plain = _BREAKS.sub("\n", _SEQUENCES.sub("", text))
    hidden = [ord(char) for char in set(plain) - {"\t", "\n"} if _is_hidden(char)]
    return plain.translate(dict.fromkeys(hidden))


def _is_hidden(char: str) -> bool:
    return ord(char) in _UNSEEN or unicodedata.category(char) in _HIDDEN_KINDS


def fenced(texts: Mapping[str, str]) -> dict[str, str]:
    """Each of these texts by strangers, by name, as it may stand in a prompt."""
    safe = {name: _LIKE_A_FENCE.sub("&lt;", cleaned(text)) for name, text in texts.items()}
    whole = "\0".join(f"{name}\0{text}" for name, text in safe.items())
    boundary = hashlib.sha256(whole.encode()).hexdigest()[:BOUNDARY_CHARS]
    return {name: _fence(name, text, boundary) for name, text in safe.items()}


def _fence(name: str, text: str, boundary: str) -> str:
    opening = f'<{TAG} name="{name}" boundary="{boundary}">'
    return f'\n{opening}\n{text.strip()}\n</{TAG} boundary="{boundary}">\n'

"""Make text of others harmless where it is read: on a terminal, and in the log of a CI system.

A CI system obeys what a job prints: `::set-output ...` at the start of a line (GitHub), and
`##[...]`, `##vso[...]`, `##teamcity[...]` anywhere in it (GitHub, Azure, TeamCity). GitLab's
section markers and all of a terminal's commands need a control character.

Rules of this file: nothing is dropped, what would act is shown written out; our own markup is
added after this, never before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Ci = Literal["github", "gitlab", "other"]

_NAMED: Mapping[str, Ci] = {"GITHUB_ACTIONS": "github", "GITLAB_CI": "gitlab"}
_OTHERS = (
    "CI",
    "TF_BUILD",
    "TEAMCITY_VERSION",
    "JENKINS_URL",
    "BUILDKITE",
    "CIRCLECI",
    "BITBUCKET_BUILD_NUMBER",
    "APPVEYOR",
    "TRAVIS",
    "DRONE",
)

_ACTING = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 less tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # reorder text
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f"  # unseen
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"  # unseen
    "\u2028\u2029\ud800-\udfff"  # line breaks that are none, halves of characters
    "]"
)
_AT_START = re.compile(r"^([^\S\n]*)::", re.MULTILINE)
_ANYWHERE = re.compile(r"##(?=\w*\[)")
_HASHES = re.compile("#(?=#)")


def ci_of(environ: Mapping[str, str]) -> Ci | None:
    """The CI system this runs in, by the variables such systems set; None outside of one."""
    for name, ci in _NAMED.items():
        if _is_set(environ, name):
            return ci
    return "other" if any(_is_set(environ, name) for name in _OTHERS) else None


def _is_set(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() not in ("", "0", "false")


def visible(text: str) -> str:
    """The text with every character that acts or hides written out; lines and tabs stay."""
    return _ACTING.sub(_written_out, text.replace("\r\n", "\n"))


def inert(text: str) -> str:
    r"""The same, and no line of it is a command to a CI system: `::` becomes `\::`."""
    return _ANYWHERE.sub(r"#\#", _AT_START.sub(r"\1\\::", visible(text)))


def inert_json(text: str) -> str:
    """JSON that means the same and holds no `##`, which in JSON only stands inside texts."""
    return _HASHES.sub(r"\\u0023", text)


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")

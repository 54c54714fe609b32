"""What a skill is, how its text is filled in, and how the model is told which there are.

Rules of this file: nothing of a skill is ever run, and what is put into its text is put in once.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from runner.core.events import SkillInvoked
from runner.core.events.skills import SkillTrigger

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

MAX_DESCRIPTION_CHARS: Final = 1_536
"""How much of one description the model is shown."""

MAX_LISTING_CHARS: Final = 24_000
"""How much all descriptions together may take; beyond it each is cut to its share."""

ARGUMENTS: Final = "\n\nARGUMENTS: "
"""Stands before the arguments of a skill whose text has no place for them."""

_PROMPT = re.compile(rf"/({NAME})(?:\s+(.*))?", re.DOTALL)
_PLACE = re.compile(
    r"(?P<escape>\\)?"
    r"(?:\$ARGUMENTS\[(?P<index>\d{1,3})\]|\$(?P<digit>\d)(?!\d)"
    r"|\$\{(?P<braced>[A-Za-z_]\w*)\}|\$(?P<name>[A-Za-z_]\w*))"
)
_FOLDER_NAMES = frozenset({"CLAUDE_SKILL_DIR", "SKILL_DIR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill. `path` is its file, `folder` the folder that it is in, both absolute.

    `allowed` and `disallowed` are permission rules; `arguments` the names of its arguments in
    order, `hint` what they are, in words. `for_model` and `for_user` say who may invoke it.
    """

    name: str
    description: str
    path: str
    folder: str
    body: str
    source: str = "project"
    allowed: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    hint: str = ""
    for_model: bool = True
    for_user: bool = True


def listing(skills: Iterable[Skill]) -> str:
    """The skills the model may invoke, one a line, in their order; empty when there are none."""
    shown = [skill for skill in skills if skill.for_model]
    most = min(MAX_DESCRIPTION_CHARS, MAX_LISTING_CHARS // max(len(shown), 1))
    return "\n".join(_line(skill, most) for skill in shown)


def _line(skill: Skill, most: int) -> str:
    hint = f" {skill.hint}" if skill.hint else ""
    return f"- {skill.name}{hint}: {shortened(skill.description, most)}"


def shortened(text: str, most: int = MAX_DESCRIPTION_CHARS) -> str:
    """The text on one line, in at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def wanted(prompt: str) -> tuple[str, str] | None:
    """The name and the arguments of the skill that a prompt such as `/name a b` asks for."""
    found = _PROMPT.fullmatch(prompt.strip())
    return None if found is None else (found[1], (found[2] or "").strip())


def filled(skill: Skill, arguments: str) -> str:
    """The text of the skill with its arguments.

    `$ARGUMENTS` is all of them, `$0` or `$ARGUMENTS[0]` the first, `$name` a declared one. A number
    that no argument stands for stays as it is: it may belong to a command. A backslash before a
    place keeps it.
    """
    words = _words(arguments)
    named = {name: words[n] if n < len(words) else "" for n, name in enumerate(skill.arguments)}
    values = {**named, **dict.fromkeys(_FOLDER_NAMES, skill.folder), "ARGUMENTS": arguments}
    used = False

    def put(place: re.Match[str]) -> str:
        nonlocal used
        number = place["index"] or place["digit"]
        value = _value(words, int(number)) if number else values.get(_name(place))
        if value is None:
            return place[0]
        if place["escape"]:
            return place[0][1:]
        used = used or _name(place) not in _FOLDER_NAMES
        return value

    text = _PLACE.sub(put, skill.body)
    return text if used or not arguments else text + ARGUMENTS + arguments


def _name(place: re.Match[str]) -> str:
    return str(place["braced"] or place["name"] or "")


def _value(words: tuple[str, ...], number: int) -> str | None:
    return words[number] if number < len(words) else None


def _words(arguments: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(arguments))
    except ValueError:  # a lone quote, as in "don't"
        return tuple(arguments.split())


def invocation(
    skill: Skill,
    arguments: str,
    trigger: SkillTrigger,
    *,
    template: str,
    allowed: tuple[str, ...] = (),
) -> SkillInvoked:
    """The fact that the skill is invoked. `template` has places for `{folder}` and `{body}`;
    `allowed` are the rules of it that count."""
    whole = {"folder": skill.folder, "name": skill.name, "body": filled(skill, arguments)}
    return SkillInvoked(
        name=skill.name,
        path=skill.path,
        content=re.sub(r"\{(folder|name|body)\}", lambda place: whole[place[1]], template).strip(),
        trigger=trigger,
        description=skill.description,
        source=skill.source,
        allowed_tools=allowed,
        disallowed_tools=skill.disallowed,
    )


def preloaded(
    skills: Mapping[str, Skill], names: Iterable[str], *, template: str
) -> tuple[SkillInvoked, ...]:
    """The skills that a sub-agent is told in full before it begins. None of them allows anything:
    what a sub-agent may do is its definition's to say. Raises `KeyError` for an unknown name."""
    each = (skills[name] for name in dict.fromkeys(names))
    return tuple(invocation(skill, "", "context-load", template=template) for skill in each)

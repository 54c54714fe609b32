"""Facts about skills: which there are, and that one was invoked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

SkillTrigger = Literal["user-invoked", "agent-invoked", "context-load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillListing:
    """A skill that can be invoked: by the model, by the prompt (`/name`), or by both.

    `source` is `project` for one of the workspace, `inherited` for one from a folder above it,
    `custom` for one that the spec names by its path. `allowed_tools` are those rules that count.
    """

    name: str
    path: str
    source: str
    description: str
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    disable_model_invocation: bool | None = None
    user_invocable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillInvoked:
    """A skill was invoked: `content` is its text with the arguments filled in.

    Invoked by the agent, the text is the result of its call; else it is a message of its own.
    `allowed_tools` and `disallowed_tools` are rules that hold from here on: until the next user
    message when the agent invoked it, else until the next prompt.
    """

    type: ClassVar = "skill.invoked"
    name: str
    path: str
    content: str
    trigger: SkillTrigger
    description: str | None = None
    source: str | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()

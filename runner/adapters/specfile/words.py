"""The words a spec may use: names of tools, models and variables, and what to say to the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from runner.adapters.specfile.problem import (
    At,
    Invalid,
    looks_like_key,
    shown,
    starts_like_key,
)
from runner.adapters.specfile.types import ExistingPath, Refusal, Schema, Text
from runner.adapters.specfile.yaml_document import Node, Scalar
from runner.core import rules
from runner.core.messages import CONTROL_TOOLS, MCP_PREFIX

TOOLS = (
    "Read",
    "Write",
    "Edit",
    "Glob",
    "Grep",
    "Bash",
    "WebFetch",
    "WebSearch",
    "TaskCreate",
    "TaskUpdate",
    "AskUserQuestion",
    "Agent",
    "Skill",
    "ToolSearch",
)
"""The built-in tools that work now."""

EFFORTS = ("low", "medium", "high", "xhigh", "max")

MODES = ("default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions")

OTHER_NAMES = {
    "budget": "max_budget_usd",
    "command": "prompt",
    "cwd": "workspace",
    "environment": "env",
    "goal": "prompt",
    "include": "extends",
    "instructions": "prompt",
    "maxbudget": "max_budget_usd",
    "maxcost": "max_budget_usd",
    "maxiterations": "max_turns",
    "maxsteps": "max_turns",
    "maxtokens": "max_output_tokens",
    "maxtime": "timeout",
    "permissions": "permission_mode",
    "task": "prompt",
    "title": "name",
    "workingdirectory": "workspace",
}
"""What other tools call a key, without dashes and underscores, and what it is called here."""

SLUG = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
OWN_TOOL = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
"""The name of a tool that the task brings itself: what every provider takes."""

_CI_CHANNELS = re.compile(
    r"GITHUB_(ENV|OUTPUT|PATH|STATE|STEP_SUMMARY)|ACTIONS_.*|BASH_ENV", re.IGNORECASE
)
_PROVIDER_KEY = re.compile(r".*API_?KEY", re.IGNORECASE)


def slug(text: str) -> Refusal | None:
    """What is wrong with the name of a task."""
    if re.fullmatch(SLUG, text):
        return None
    better = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:64].strip("-._")
    hint = "letters, digits, `-`, `_` and `.`, at most 64"
    return f"{shown(text)} is not a name", f"{hint}: {better}" if better else hint


def url(text: str) -> Refusal | None:
    """What is wrong with the address of an endpoint."""
    if not re.match(r"https?://[^/\s]", text) or re.search(r"\s", text):
        return f"{shown(text)} is not a URL", "write http://... or https://..."
    if "@" in text.split("/")[2]:
        return "a URL with a user or a key in it", "name the variable that holds the key instead"
    return None


def key_variable(text: str) -> Refusal | None:
    """What is wrong with the name of the variable that holds the key. Never shows the text."""
    if looks_like_key(text) or not re.fullmatch(VARIABLE, text):
        return (
            "not the name of an environment variable (the value is not shown: it may be a key)",
            "put the key into a variable and write its name, such as ANTHROPIC_API_KEY; "
            "a key that was saved in a file should be revoked",
        )
    return None


def passed_variable(text: str) -> Refusal | None:
    """What is wrong with a variable that tools are to see."""
    if not re.fullmatch(VARIABLE, text):
        return f"{shown(text)} is not the name of a variable", "write the name only: no $, no value"
    if _CI_CHANNELS.fullmatch(text):
        return f"tools never get {text}", "with it the agent could steer the CI job itself"
    if _PROVIDER_KEY.fullmatch(text):
        return f"tools never get {text}", "the runner calls the model: no tool needs its key"
    return None


def glob(text: str) -> Refusal | None:
    """What is wrong with a pattern of paths in the workspace."""
    body = text.removeprefix("!")
    if text.startswith("#") or not body.strip("/ "):
        return f"{shown(text)} matches nothing", "write it as in .gitignore: tests/, *.lock, !docs/"
    if ".." in body.split("/"):
        return f"{shown(text)} leads out of the workspace", "patterns are relative to the workspace"
    from pathspec import PathSpec  # noqa: PLC0415  # a fifth of the start-up, for rare keys

    try:
        PathSpec.from_lines("gitignore", [text])
    except ValueError:
        return f"{shown(text)} is no pattern", "write it as in .gitignore: tests/, *.lock, !docs/"
    return None


def set_value(text: str) -> Refusal | None:
    """What is wrong with the value of a variable."""
    if starts_like_key(text):
        hint = "pass it from the environment with env.pass"
        return "looks like a key (not shown): a spec must not hold one", hint
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolName:
    """The bare name of a built-in tool."""

    expects: str = "the name of a tool"

    def read(self, node: Node, at: At) -> Any:
        text = Text(expects=self.expects).read(node, at)
        if isinstance(text, Invalid) or text in TOOLS:
            return text
        return at.refuse(node.mark, *self._refusal(text, at))

    def _refusal(self, text: str, at: At) -> Refusal:
        name, paren, _ = text.partition("(")
        known = f"the tools are {', '.join(TOOLS)}"
        if name in CONTROL_TOOLS:
            hint = "leave it out: in autopilot it is always there, and steers the run only"
            return f"{name} is a control tool: no rule can name it", hint
        if paren and name in TOOLS:
            message = f"{shown(text)} is a rule, and this is a list of tools"
            return message, f"name the whole tool: {name}"
        if name.startswith(MCP_PREFIX):
            hint = "give its server under `mcp_servers` the tools that are wanted: tools: [...]"
            return "this list is of the built-in tools", hint
        if name in at.own_tools:
            hint = "leave it out: a custom tool is there as soon as it is defined"
            return "this list is of the built-in tools", hint
        near = at.nearest(name, (*TOOLS, *at.own_tools))
        return f"no tool is called {shown(text)}", f"did you mean {near}?" if near else known

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"enum": list(TOOLS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """A permission rule: the name of a tool, or `Tool(specifier)`; `allows` says for which list."""

    allows: bool
    expects: str = "a rule such as Read, Bash(npm run *) or Edit(src/**)"

    def read(self, node: Node, at: At) -> Any:
        text = Text(expects=self.expects).read(node, at)
        if isinstance(text, Invalid):
            return text
        name = text.partition("(")[0]
        known = name in TOOLS or name in at.own_tools or name.startswith(MCP_PREFIX)
        if not known and "*" not in name:
            return ToolName(expects=self.expects).read(node, at)
        try:
            rule = rules.parse(text)
            why = rules.may_allow(rule) if self.allows else None
        except rules.RuleError as error:
            why = str(error)
        if why is not None:
            return at.refuse(node.mark, f"{shown(text)} is no rule: {why}", _RULE_HINT)
        return text

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        patterns = [
            rf"^{OWN_TOOL}(\(.+\))?$",
            rf"^{MCP_PREFIX}[^()]+$",
            *([] if self.allows else [r"^[^()]*\*[^()]*(\(.+\))?$"]),
        ]
        return {
            "anyOf": [{"enum": list(TOOLS)}, *({"type": "string", "pattern": p} for p in patterns)]
        }


_RULE_HINT = "for example Bash(npm run build), Bash(npm run *), Edit(src/**), Read(//etc/hosts)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """A litellm id, or `scripted:FILE` with the path made absolute."""

    expects: str = "a model such as anthropic/claude-sonnet-4-5, or scripted:FILE"

    def read(self, node: Node, at: At) -> Any:
        text = Text(expects=self.expects, check=_model).read(node, at)
        if isinstance(text, Invalid) or not text.startswith("scripted:"):
            return text
        file = text.removeprefix("scripted:")
        inner = Scalar(mark=node.mark, text=file, value=file)
        path = ExistingPath(kind="file").read(inner, at)
        return path if isinstance(path, Invalid) else f"scripted:{path}"

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}


def _model(text: str) -> Refusal | None:
    if text.startswith("replay:"):
        return "replay: models are not supported yet", "use a litellm id, or scripted:FILE"
    if text == "scripted:":
        return "scripted: without a file", "write scripted:replies.yaml"
    if not text.startswith("scripted:") and re.search(r"\s", text):
        hint = "write it as litellm does: anthropic/claude-sonnet-4-5"
        return f"{shown(text)} is not a model id", hint
    if not text.startswith("scripted:") and starts_like_key(text):
        return "looks like a key, not a model (not shown)", "write the id of a model"
    return None

"""From a task spec to the parts of an engine: model, tools, prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from runner import tools
from runner.adapters import configs, leftovers, preflight
from runner.adapters.litellm_model import LitellmModel, start_import
from runner.adapters.local import LocalSandbox
from runner.adapters.model_choice import ModelChoice
from runner.adapters.redact import NOTHING, Mask
from runner.adapters.sandbox.walls import Enclosure
from runner.adapters.scripted_model import ScriptedModel
from runner.adapters.shell_syntax import shell_script
from runner.core import web_rules
from runner.core.events import SandboxReport
from runner.core.messages import ToolSpec
from runner.core.permissions import offered
from runner.core.spec import TaskSpec
from runner.engine.engine import Bench
from runner.ports import Model, Tool

TOOL_ENVIRONMENT = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL", "TERM")
"""What tools see of the environment without being given it; every `LC_*` too."""

NO_KEY = "none"
"""Sent to an `api_base` that needs no key; the client libraries insist on one."""


def model(spec: TaskSpec, environ: Mapping[str, str], attempts_over: Mapping[str, int]) -> Model:
    """The models the spec names; a script goes on after its attempts that are over.

    Raises `ScriptError` when a script is wrong, which the preflight checks find first.
    """
    each = {
        one.model: _one_model(one, environ, attempts_over.get(one.model, 0))
        for one in preflight.per_model(spec)
    }
    return ModelChoice(each) if len(each) > 1 else each[spec.model]


def _one_model(spec: TaskSpec, environ: Mapping[str, str], attempts_over: int) -> Model:
    if preflight.is_embedded(spec):
        return ScriptedModel.load(Path(spec.model.removeprefix("scripted:")), skip=attempts_over)
    variable = preflight.key_variable(spec)
    key = environ.get(variable) if variable else None
    start_import()
    return LitellmModel(
        model=spec.model,
        api_base=spec.api_base,
        api_key=key or (NO_KEY if spec.api_base else None),
        idle_s=spec.limits.model_idle,
        call_s=spec.limits.model_call,
    )


def toolbox(
    spec: TaskSpec,
    workspace: Path,
    environ: Mapping[str, str],
    session: Path,
    protected: Callable[[Path], str | None] = lambda path: None,
    *,
    mask: Mask = NOTHING,
    enclosure: Enclosure | None = None,
) -> Mapping[str, Tool]:
    """Every built-in tool by name, whether the spec offers it or not.

    `protected` says why a path may not be written; None when it may. The search program is the
    runner's own and is given only what lies in the roots: it needs no `enclosure`.
    """
    roots = tools.Roots(
        workspace=workspace,
        others=tuple(map(Path, spec.add_dirs)),
        # where the whole of a cut output is, and what skills that the spec names have beside them
        read_only=(session / "files", *(Path(name) for name in spec.skills if "/" in name)),
        protected=protected,
    )
    built = tools.builtin_tools(
        roots=roots,
        sandbox=LocalSandbox(mask=mask, enclosure=enclosure),
        search=LocalSandbox(mask=mask),
        env={**tool_environment(spec, environ), leftovers.MARK: session.name},
        descriptions=tool_descriptions(),
        parse_command=shell_script,
    )
    return {tool.spec.name: tool for tool in built}


def bench(
    spec: TaskSpec,
    workspace: Path,
    environ: Mapping[str, str],
    session: Path,
    *,
    mask: Mask = NOTHING,
    enclosure: Enclosure | None = None,
) -> Bench:
    """Where the checks run: as the commands of tools do."""
    env = {**tool_environment(spec, environ), leftovers.MARK: session.name}
    sandbox = LocalSandbox(mask=mask, enclosure=enclosure)
    return Bench(sandbox=sandbox, workspace=workspace, env=env)


def offered_tools(spec: TaskSpec, built: Mapping[str, Tool]) -> tuple[ToolSpec, ...]:
    """What the model is shown: the tools the spec leaves, and in autopilot the control tools."""
    shown = tuple(built[name].spec for name in offered(spec, tuple(built)))
    texts = tool_descriptions()
    if spec.output_schema is not None:
        shown += (tools.output_spec(spec.output_schema, texts),)
    return shown + (tools.control_specs(texts) if spec.autopilot else ())


def tool_environment(spec: TaskSpec, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of tools: the allow-list, what the spec passes, what it sets."""
    names = {*TOOL_ENVIRONMENT, *spec.env.pass_, *(n for n in environ if n.startswith("LC_"))}
    passed = {name: environ[name] for name in sorted(names) if name in environ}
    return {**passed, **spec.env.set}


def system_prompt(
    spec: TaskSpec, workspace: Path, started: str, sandbox: SandboxReport | None = None
) -> str:
    """The system prompt: ours or the spec's, the walls around commands, what the spec appends."""
    text = spec.system_prompt
    if text is None:
        text = fill(configs.read_text("prompts/system.md"), spec, workspace)
        text = text.replace("{started}", started)
        text += configs.read_text("prompts/autopilot.md") if spec.autopilot else ""
    text += surroundings(spec, sandbox if spec.system_prompt is None else None)
    if spec.output_schema is not None:
        text += configs.read_text("prompts/structured.md")
    return f"{text}\n{spec.append_system_prompt}" if spec.append_system_prompt else text


def fill(template: str, spec: TaskSpec, workspace: Path) -> str:
    """A prompt of ours with the workspace and what is protected in it."""
    named = "".join(f", `{pattern}`" for pattern in spec.protected_paths)
    text = template.replace("{workspace}", str(workspace))
    return text.replace("{protected}", f"; and as in .gitignore{named}" if named else "")


def surroundings(spec: TaskSpec, sandbox: SandboxReport | None) -> str:
    """What every agent is told: the walls around commands, text of strangers, secrets."""
    text = ""
    if sandbox is not None and sandbox.tier != "process":
        text += _about_the_sandbox(spec, sandbox)
    reaches = any(web_rules.may_reach(spec, tool) for tool in web_rules.WEB_TOOLS)
    if reaches or any(one.untrusted for one in spec.inputs.values()):
        text += configs.read_text("prompts/untrusted.md")
    if spec.secrets:
        text += configs.read_text("prompts/secrets.md")
    return text


def _about_the_sandbox(spec: TaskSpec, sandbox: SandboxReport) -> str:
    network = "They have no network."
    if sandbox.network == "open":
        network = "They have the network."
    elif spec.sandbox.hosts:
        hosts = ", ".join(spec.sandbox.hosts)
        network = f"They reach these hosts alone, through the proxy in the environment: {hosts}."
    temp = "/tmp" if sandbox.tier == "namespaces" else "$TMPDIR"
    text = configs.read_text("prompts/sandbox.md")
    return text.replace("{temp}", temp).replace("{network}", network)


def sentences() -> Mapping[str, str]:
    """The fixed sentences the model may be told; they go into the log with the spec."""
    fixed = yaml.safe_load(configs.read_text("prompts/sentences.yaml"))
    longer = ("nudge", "compact", "compacted", "classifier", "classify")
    return {**fixed, **{name: configs.read_text(f"prompts/{name}.md").strip() for name in longer}}


def tool_descriptions() -> Mapping[str, str]:
    """The text of every tool, by name."""
    texts: Mapping[str, str] = yaml.safe_load(configs.read_text("prompts/tools.yaml"))
    return texts

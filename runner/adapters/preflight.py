"""Everything that can be known to be wrong before the first paid call, each with its remedy."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from runner.adapters import hooks, web_search, worktree
from runner.adapters.prices import find_price, model_limits, nearest_models, provider_of
from runner.adapters.scripted_model import ScriptedModel, ScriptError
from runner.adapters.shell_syntax import SHELL_WORDS
from runner.core.events import Check, PriceListing, WindowListing
from runner.core.spec import PricingSpec, TaskSpec
from runner.core.thread import compaction_focus
from runner.core.words import COST_BASES

PROVIDER_KEYS: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_API_KEY",
    "cohere": "COHERE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "xai": "XAI_API_KEY",
}
"""The variable each provider's key is usually kept in; `api_key_env` names another."""


BYPASS_REFUSED = (
    "bypassPermissions is refused as root without a sandbox; run as another user, use "
    "allowed_tools, or say `sandbox: {container: true}` if the job has a container of its own"
)


def is_embedded(spec: TaskSpec) -> bool:
    """The model is one of ours and needs neither network nor key."""
    return spec.model.startswith("scripted:")


def key_variable(spec: TaskSpec) -> str | None:
    """The variable the model's key is read from; None when it needs none, or litellm knows."""
    if is_embedded(spec):
        return None
    return spec.api_key_env or PROVIDER_KEYS.get(provider_of(spec.model) or "")


def run_checks(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[Check, ...]:
    """Every check, failed or not, in the order a person would look."""
    checks = [_workspace(spec), *_add_dirs(spec), _permission_mode(spec)]
    checks += [_git(spec, environ), _ripgrep(environ), *_verify(spec, environ)]
    checks += hooks.checks(spec, environ)
    checks += _prompt(spec)
    for one in per_model(spec):
        checks += [_model(one), *_script(one), _key(one, environ), _price(one)]
    return (*checks, *web_search.checks(spec, environ))


def machine_checks(environ: Mapping[str, str]) -> tuple[Check, ...]:
    """The checks that need no spec."""
    found = shutil.which("git", path=environ.get("PATH"))
    git = _good("git", "found" if found else "not found: no diff of a workspace will be made")
    return (git, _ripgrep(environ))


def may_be_unwalled(spec: TaskSpec) -> bool:
    """Whether commands may run without a sandbox under the spec's permission mode."""
    is_bypass = spec.permission_mode == "bypassPermissions"
    return not is_bypass or os.geteuid() != 0 or spec.sandbox.container


def per_model(spec: TaskSpec) -> Iterable[TaskSpec]:
    """The spec as it is for each model it may ask: its own first, those of its sub-agents after
    the fallbacks, that of mode auto last.

    `api_base` and `api_key_env` are for its provider: another provider's model is asked at its
    own address with its own key. `compaction.window` is that of `model` alone.
    """
    yield spec
    deciding = (spec.auto_mode.model,) if spec.auto_mode else ()
    for model in dict.fromkeys((*spec.fallback_models, *_models_of_agents(spec), *deciding)):
        if model == spec.model:
            continue
        same = provider_of(model) == provider_of(spec.model)
        yield replace(
            spec,
            model=model,
            api_base=spec.api_base if same else None,
            api_key_env=spec.api_key_env if same else None,
            compaction=replace(spec.compaction, window=None),
        )


def _models_of_agents(spec: TaskSpec) -> tuple[str, ...]:
    return tuple(agent.model for agent in spec.agents.values() if agent.model)


def stated_price(spec: TaskSpec) -> PricingSpec | None:
    """What the spec says the model costs."""
    return (spec.pricing or {}).get(spec.model)


def price(spec: TaskSpec) -> PriceListing | None:
    """What the model is charged at: the spec's price, else the table's."""
    return find_price(spec.model, stated_price(spec))


def prices(spec: TaskSpec) -> tuple[PriceListing, ...]:
    """The price of every model that has one, the spec's own first."""
    return tuple(listed for one in per_model(spec) if (listed := price(one)) is not None)


def windows(spec: TaskSpec) -> tuple[WindowListing, ...]:
    """How much every model can read that is listed, or said to read so much."""
    sizes = {
        one.model: one.compaction.window or _listed_window(one.model) for one in per_model(spec)
    }
    return tuple(WindowListing(model=name, tokens=size) for name, size in sizes.items() if size)


def _listed_window(model: str) -> int | None:
    limits = model_limits(model)
    return limits.context_window_tokens if limits else None


def _workspace(spec: TaskSpec) -> Check:
    path = Path(spec.workspace.path)
    if not path.is_dir():
        return _bad("workspace", f"{path} is not a folder; set `workspace` to one that exists")
    if spec.workspace.isolation == "worktree" and (why := worktree.problem(path)) is not None:
        return _bad("workspace", why)
    return _good("workspace", f"{path}, isolation {spec.workspace.isolation}")


def _add_dirs(spec: TaskSpec) -> list[Check]:
    missing = [path for path in spec.add_dirs if not Path(path).is_dir()]
    return [_bad("add_dirs", f"{path} is not a folder") for path in missing]


def _permission_mode(spec: TaskSpec) -> Check:
    """Everything allowed, to root, behind no wall: whether there is one is known later."""
    servers = (server.sandbox.mode for server in spec.mcp_servers.values())
    if "off" in (spec.sandbox.mode, *servers) and not may_be_unwalled(spec):
        return _bad("permission_mode", BYPASS_REFUSED)
    return _good("permission_mode", spec.permission_mode)


def _prompt(spec: TaskSpec) -> list[Check]:
    """An order to compact does no work: a success of it must not look like checks that passed."""
    if compaction_focus(spec.prompt) is None:
        return []
    gates = ("verify", "require_changes", "forbid_changes", "output_schema")
    named = [f"`{name}`" for name in gates if getattr(spec, name)]
    if not named:
        return [_good("prompt", "compacts the conversation, and does nothing else")]
    detail = f"`/compact` does no work that could meet {', '.join(named)}"
    return [_bad("prompt", f"{detail}; leave it out of this run, as by `--set verify=[]`")]


def _git(spec: TaskSpec, environ: Mapping[str, str]) -> Check:
    found = shutil.which("git", path=environ.get("PATH"))
    if found is None and spec.workspace.isolation == "worktree":
        return _bad("git", "not found, and isolation worktree needs it; use isolation copy")
    gated = spec.require_changes or spec.forbid_changes
    if found is None and gated and spec.workspace.isolation != "copy":
        detail = "not found, and `require_changes` or `forbid_changes` needs it without a copy"
        return _bad("git", detail)
    return _good("git", "found" if found else "not found: no diff of the workspace will be made")


def _ripgrep(environ: Mapping[str, str]) -> Check:
    found = shutil.which("rg", path=environ.get("PATH"))
    return _good("ripgrep", "found" if found else "not found: Grep uses its slower fallback")


def _verify(spec: TaskSpec, environ: Mapping[str, str]) -> list[Check]:
    """A check whose program is certainly missing could never pass, and one that the agent is to
    write first would prove nothing. Only a plain first word is looked up: what the shell would
    have to interpret, or knows itself, is left to it."""
    path = spec.env.set.get("PATH", environ.get("PATH", os.defpath))
    words = [(one.run, _plain_program(one.run) or "") for one in spec.verify]
    missing = [
        _bad("verify", f"`{word}` is not on PATH, and `{run}` needs it; install it")
        for run, word in words
        if word and "/" not in word and shutil.which(word, path=path) is None
    ]
    return missing + [
        _bad("verify", f"{file} is no program that can run, and `{run}` needs it; {_OWN_CHECK}")
        for run, word in words
        if "/" in word and f"!{word.removeprefix('./')}" not in spec.protected_paths
        if not os.access(file := Path(spec.workspace.path) / word, os.X_OK)
    ]


_OWN_CHECK = (
    "make it executable, correct the path, or, if it is built first, name it in `protected_paths` "
    "with a ! before it"
)


def _plain_program(command: str) -> str | None:
    """The program a command starts with, when that can be told without a shell."""
    word = command.split(maxsplit=1)[0]
    plain = re.fullmatch(r"(\.{0,2}/)?[A-Za-z0-9_][A-Za-z0-9_.+/-]*", word)
    defines_functions = "()" in command or "function " in command
    return word if plain and word not in SHELL_WORDS and not defines_functions else None


def _model(spec: TaskSpec) -> Check:
    vouched_for = is_embedded(spec) or spec.api_base or stated_price(spec)
    if vouched_for or model_limits(spec.model) or find_price(spec.model, None):
        return _good("model", spec.model)
    near = ", ".join(nearest_models(spec.model))
    hint = f", nearest: {near}" if near else ""
    detail = f"`{spec.model}` is not in the model table{hint}; a custom model needs `pricing`"
    return _bad("model", detail)


def _script(spec: TaskSpec) -> list[Check]:
    """The replies of an embedded model have to be readable before anything runs."""
    if not is_embedded(spec):
        return []
    try:
        ScriptedModel.load(Path(spec.model.removeprefix("scripted:")))
    except ScriptError as error:
        return [_bad("script", str(error))]
    return [_good("script", "readable")]


def _key(spec: TaskSpec, environ: Mapping[str, str]) -> Check:
    if is_embedded(spec):
        return _good("key", "none needed")
    variable = key_variable(spec)
    if variable is None:
        return _good("key", "not checked: litellm looks for it where this provider's is kept")
    if environ.get(variable):
        return _good("key", f"from {variable}")
    if spec.api_key_env is None and spec.api_base is not None:
        return _good("key", f"{variable} is not set; `api_base` is asked without a key")
    return _bad("key", f"{variable} is not set; set it, or name another with `api_key_env`")


def _price(spec: TaskSpec) -> Check:
    listed = price(spec)
    if listed is not None:
        cost = f"${listed.input_per_mtok:f} in, ${listed.output_per_mtok:f} out per million tokens"
        return _good("price", f"{cost} ({listed.basis})")
    if spec.max_budget_usd is not None:
        detail = f"the price of `{spec.model}` is unknown, so `max_budget_usd` cannot be kept"
        return _bad("price", f"{detail}; add {_pricing_form(spec)}")
    return _good("price", COST_BASES["unpriced"])


def _pricing_form(spec: TaskSpec) -> str:
    """How to state the price of this model; short, where no other has one to be kept."""
    price_form = "{input_per_mtok, output_per_mtok}"
    others = spec.fallback_models or spec.auto_mode or _models_of_agents(spec) or spec.pricing
    return f"`pricing: {{{spec.model}: {price_form}}}`" if others else f"`pricing: {price_form}`"


def _good(name: str, detail: str) -> Check:
    return Check(name=name, ok=True, detail=detail)


def _bad(name: str, detail: str) -> Check:
    return Check(name=name, ok=False, detail=detail)

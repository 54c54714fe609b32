"""Everything that can be known to be wrong before the first paid call, each with its remedy."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from runner.adapters.prices import find_price, model_limits, nearest_models, provider_of
from runner.adapters.scripted_model import ScriptedModel, ScriptError
from runner.core.events import Check, PriceListing
from runner.core.spec import TaskSpec

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


SHELL_WORDS = frozenset(
    """
    alias bg bind break builtin caller case cd command compgen complete compopt continue
    coproc declare dirs disown do done echo elif else enable esac eval exec exit export false
    fc fg fi for function getopts hash help history if in jobs kill let local logout mapfile
    popd printf pushd pwd read readarray readonly return select set shift shopt source suspend
    test then time times trap true type typeset ulimit umask unalias unset until wait while
    """.split()  # noqa: SIM905  # seventy quoted words would be worse to read
)
"""What bash runs without a program: its builtins and its keywords."""


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
    checks += [_git(environ), _ripgrep(environ), *_verify(spec, environ)]
    for one in per_model(spec):
        checks += [_model(one), *_script(one), _key(one, environ), _price(one)]
    return tuple(checks)


def per_model(spec: TaskSpec) -> Iterable[TaskSpec]:
    """The spec as it is for each model it may ask, its own first.

    `pricing` is the price of `model` alone. `api_base` and `api_key_env` are for its provider:
    another provider's fallback is asked at its own address with its own key.
    """
    yield spec
    for model in dict.fromkeys(spec.fallback_models):
        if model == spec.model:
            continue
        same = provider_of(model) == provider_of(spec.model)
        yield replace(
            spec,
            model=model,
            pricing=None,
            api_base=spec.api_base if same else None,
            api_key_env=spec.api_key_env if same else None,
        )


def price(spec: TaskSpec) -> PriceListing | None:
    """What the model is charged at: the spec's price, else the table's."""
    return find_price(spec.model, spec.pricing)


def prices(spec: TaskSpec) -> tuple[PriceListing, ...]:
    """The price of every model that has one, the spec's own first."""
    return tuple(listed for one in per_model(spec) if (listed := price(one)) is not None)


def _workspace(spec: TaskSpec) -> Check:
    path = Path(spec.workspace.path)
    if not path.is_dir():
        return _bad("workspace", f"{path} is not a folder; set `workspace` to one that exists")
    return _good("workspace", f"{path}, isolation {spec.workspace.isolation}")


def _add_dirs(spec: TaskSpec) -> list[Check]:
    missing = [path for path in spec.add_dirs if not Path(path).is_dir()]
    return [_bad("add_dirs", f"{path} is not a folder") for path in missing]


def _permission_mode(spec: TaskSpec) -> Check:
    if spec.permission_mode == "bypassPermissions" and os.geteuid() == 0:
        detail = "bypassPermissions is refused as root; run as another user or use allowed_tools"
        return _bad("permission_mode", detail)
    return _good("permission_mode", spec.permission_mode)


def _git(environ: Mapping[str, str]) -> Check:
    found = shutil.which("git", path=environ.get("PATH"))
    return _good("git", "found" if found else "not found: no diff of the workspace will be made")


def _ripgrep(environ: Mapping[str, str]) -> Check:
    found = shutil.which("rg", path=environ.get("PATH"))
    return _good("ripgrep", "found" if found else "not found: Grep uses its slower fallback")


def _verify(spec: TaskSpec, environ: Mapping[str, str]) -> list[Check]:
    """A check whose program is certainly missing could never pass. Only a plain first word is
    looked up: what the shell would have to interpret, or knows itself, is left to it."""
    path = spec.env.set.get("PATH", environ.get("PATH", os.defpath))
    return [
        _bad("verify", f"`{word}` is not on PATH, and `{one.run}` needs it; install it")
        for one in spec.verify
        if (word := _plain_program(one.run)) and shutil.which(word, path=path) is None
    ]


def _plain_program(command: str) -> str | None:
    """The program a command starts with, when that can be told without a shell."""
    word = command.split(maxsplit=1)[0]
    plain = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", word)
    defines_functions = "()" in command or "function " in command
    return word if plain and word not in SHELL_WORDS and not defines_functions else None


def _model(spec: TaskSpec) -> Check:
    vouched_for = is_embedded(spec) or spec.api_base or spec.pricing
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
        return _bad("price", f"{detail}; add `pricing: {{input_per_mtok, output_per_mtok}}`")
    return _good("price", "unknown: cost will be reported as 0, basis `unpriced`")


def _good(name: str, detail: str) -> Check:
    return Check(name=name, ok=True, detail=detail)


def _bad(name: str, detail: str) -> Check:
    return Check(name=name, ok=False, detail=detail)

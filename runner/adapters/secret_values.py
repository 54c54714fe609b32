"""Which secrets a run has, what their values are, and whether they can be masked at all.

They are the variables that `secrets` names, the keys of the models, and every other variable that
is named like a provider's key.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Literal, get_args, get_origin

from runner.adapters import preflight, web_search
from runner.adapters.mcp.expand import variables
from runner.adapters.redact import Mask
from runner.adapters.secret_forms import MIN_CHARS
from runner.core import endings, events, messages, outcome, wire
from runner.core import spec as spec_module
from runner.core.events import Check
from runner.core.spec import TaskSpec

KEY_NAME = re.compile(
    r".*API_?KEY|ANTHROPIC_AUTH_TOKEN|AWS_SECRET_ACCESS_KEY|AWS_SESSION_TOKEN"
    r"|AWS_BEARER_TOKEN_BEDROCK|AZURE_AD_TOKEN|HF_TOKEN",
    re.IGNORECASE,
)
"""Names of variables that hold a provider's key, as litellm looks for them."""

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
"""What is in the name of a variable that a server is given, when its value is a secret."""

PROSE = ("prompt", "system_prompt", "append_system_prompt", "inputs")
"""Keys of a spec whose texts are masked. In any other, a secret would change what is done."""

COMMON = frozenset(
    """
    administrator anonymous changeit changeme default development disabled enabled example
    guest123 localhost password production qwerty secret staging testing undefined unknown
    """.split()  # noqa: SIM905  # quoted words would be worse to read
)
"""What is no secret although it is called one, and stands in innocent text."""


def key_names(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that are set and hold a provider's key."""
    asked = [preflight.key_variable(one) for one in preflight.per_model(spec)]
    asked += [web_search.key_variable(spec.web_search)] if spec.web_search else []
    named = [name for name in environ if KEY_NAME.fullmatch(name)]
    return tuple(dict.fromkeys(name for name in (*asked, *named) if name and environ.get(name)))


def secret_names(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that are set and hold a secret, those of the spec first."""
    named = (*spec.secrets, *_given_to_servers(spec))
    there = (name for name in named if environ.get(name))
    return tuple(dict.fromkeys((*there, *key_names(spec, environ))))


def _given_to_servers(spec: TaskSpec) -> Iterable[str]:
    """The variables that MCP servers get in headers, and what they are given elsewhere, and custom
    tools in variables, that is named like a secret: `$HOME` is none because a server has it."""
    for server in spec.mcp_servers.values():
        yield from variables(server.headers.values())
        others = (server.command or "", *server.args, *server.env.values(), server.url or "")
        yield from filter(SECRET_NAME.search, variables(others))
    for tool in spec.custom_tools.values():
        yield from filter(SECRET_NAME.search, variables(tool.env.values()))


def names_to_forget(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables this process needs no more once they are read: litellm is given the keys.

    Of a provider whose variable we do not know litellm reads the keys itself, so they stay.
    """
    each = list(preflight.per_model(spec))
    known = all(preflight.is_embedded(one) or preflight.key_variable(one) for one in each)
    names = secret_names(spec, environ)
    if known:
        return names
    keys = key_names(spec, environ)
    return tuple(name for name in names if name not in keys)


def mask_of(spec: TaskSpec, environ: Mapping[str, str]) -> Mask:
    """The mask for a run of this spec. What is too ordinary is left out, see `unmasked`."""
    return Mask(
        environ[name] for name in secret_names(spec, environ) if _ordinary(environ[name]) is None
    )


def masked_spec(spec: TaskSpec, mask: Mask) -> TaskSpec:
    """The spec with the secrets in its texts masked: nothing that runs sees them there."""
    masked = mask.value(spec)
    return replace(spec, **{name: getattr(masked, name) for name in PROSE})


def unmasked(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets of the spec that are not masked, and why, one line each."""
    named = (name for name in spec.secrets if environ.get(name))
    found = ((name, _ordinary(environ[name])) for name in named)
    return tuple(
        f"{name} is not masked: its value {why}, and innocent text would be masked with it"
        for name, why in found
        if why is not None
    )


def checks(spec: TaskSpec, environ: Mapping[str, str]) -> list[Check]:
    """Whether every secret of the spec is there and can be masked without breaking the run."""
    problems = [*_missing(spec.secrets, environ), *_in_spec(spec, environ)]
    if problems:
        return [Check(name="secrets", ok=False, detail=detail) for detail in problems]
    names = secret_names(spec, environ)
    if not names:
        return []
    masked = [name for name in names if _ordinary(environ[name]) is None]
    left = [name for name in names if name not in masked]
    parts = [f"{word}: {', '.join(some)}" for word, some in _words(masked, left) if some]
    return [Check(name="secrets", ok=True, detail="; ".join(parts))]


def _words(masked: list[str], left: list[str]) -> Iterable[tuple[str, list[str]]]:
    return (("masked", masked), ("too ordinary to be masked", left))


def _missing(names: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """A name that is not set may be misspelt, and then the real one would be shown."""
    return [
        f"{name} is not set, so it cannot be masked; set it (to nothing, if there is none) or "
        "take it out of `secrets`"
        for name in names
        if name not in environ
    ]


def _in_spec(spec: TaskSpec, environ: Mapping[str, str]) -> list[str]:
    """A secret that stands in the spec itself would be masked in the log, which is what runs."""
    found = []
    for name in secret_names(spec, environ):
        if _ordinary(environ[name]) is not None:
            continue
        masked = Mask([environ[name]]).value(spec)
        keys = [f.name for f in dataclasses.fields(spec) if f.name not in PROSE]
        hit = [key for key in keys if getattr(masked, key) != getattr(spec, key)]
        found += [
            f"the value of {name} stands in `{key}` of the spec; name the variable there, and "
            "give it to tools with `env.pass`"
            for key in hit
        ]
    return found


def _ordinary(value: str) -> str | None:
    """Why a value cannot be told from innocent text; None when it can."""
    plain = value.strip()
    if len(plain) < MIN_CHARS:
        return f"is shorter than {MIN_CHARS} characters"
    if plain.lower() in COMMON or len(set(plain)) == 1:
        return "is a common word"
    if re.fullmatch(r"[A-Za-z_.-]+", plain) and plain in _vocabulary():
        return "is a word that every log holds"
    return None


@cache
def _vocabulary() -> str:
    """The words of our own records: masked, a log could not be read again."""
    words: list[str] = []
    for module in (events, spec_module, messages, outcome, endings):
        words += _words_of(module)
    return " ".join(words)


def _words_of(module: ModuleType) -> Iterable[str]:
    for thing in vars(module).values():
        if get_origin(thing) is Literal:
            yield from map(str, get_args(thing))
        elif dataclasses.is_dataclass(thing) and isinstance(thing, type):
            yield str(getattr(thing, "type", ""))
            for field in dataclasses.fields(thing):
                yield f"{field.name} {wire.camel(field.name)} {field.type}"

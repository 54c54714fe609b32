"""What a spec exposes: secrets that are shown, or within reach of strangers and of the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from runner.core.rules import COMMAND_TOOL, parse
from runner.core.spec import TaskSpec

_LIKE_A_SECRET: Final = re.compile(
    r".*(TOKEN|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY).*",
    re.IGNORECASE,
)


def exposures(spec: TaskSpec) -> Iterator[str]:
    """What to know about the secrets of a spec, one line each."""
    given = [*spec.env.pass_, *spec.env.set]
    secret = [name for name in given if name in spec.secrets or _LIKE_A_SECRET.fullmatch(name)]
    shown = [name for name in spec.env.pass_ if name in secret and name not in spec.secrets]
    yield from (f"`env.pass: {n}` looks like a secret: name it in `secrets`, too" for n in shown)
    strange = [name for name, one in spec.inputs.items() if one.untrusted]
    if strange and secret and _reaches_network(spec):
        yield (
            f"the input `{strange[0]}` is untrusted, and commands may reach both the network and "
            f"{', '.join(secret)}: whoever wrote it may have that sent away. Take one of the three "
            "from this task, such as the network with `sandbox: {network: deny}`"
        )


def _reaches_network(spec: TaskSpec) -> bool:
    """Commands may run, and nothing in the spec says that they get no network."""
    if spec.sandbox.network == ("deny",) or spec.permission_mode == "plan":
        return False
    if spec.tools is not None and COMMAND_TOOL not in spec.tools:
        return False
    denied = (*spec.disallowed_tools, *spec.ask_tools)
    if any(parse(text).tool == COMMAND_TOOL and not parse(text).specifier for text in denied):
        return False
    allowed = any(parse(text).tool == COMMAND_TOOL for text in spec.allowed_tools)
    return allowed or spec.permission_mode in ("auto", "bypassPermissions")

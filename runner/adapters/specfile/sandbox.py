"""The key `sandbox`: what commands may do to the machine, and the least that will do."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any

from runner.adapters.specfile.problem import At, Invalid, shown
from runner.adapters.specfile.shapes import Key, ListOf, Record
from runner.adapters.specfile.types import Choice, Flag, Refusal, Schema, Text
from runner.adapters.specfile.yaml_document import Items, Node
from runner.core.spec import SandboxSpec

WORDS = ("deny", "allow")
_NAME = r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
_HOST_HINT = "write a name, *.name, an address or a range; with :port for another than 80 and 443"


def _host(text: str) -> Refusal | None:
    """What is wrong with an entry of the list of hosts."""
    rest, _, port = text.rpartition(":") if re.search(r":\d+$", text) else (text, "", "443")
    if text.count(":") > 1 and not text.startswith("["):
        rest, port = text, "443"
    if not 0 < int(port) < 65536:
        return f"{shown(text)} has no such port", _HOST_HINT
    try:
        ipaddress.ip_network(rest.strip("[]"))
    except ValueError:
        last = rest.rpartition(".")[2].lower()  # `0x7f.1` is an address to some
        if re.fullmatch(r"[\d./:]+|(0x[0-9a-f]*|\d+)", last) or not re.fullmatch(_NAME, rest):
            return f"{shown(text)} is no host", _HOST_HINT
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """`deny`, `allow`, or a list of hosts; a tuple inside."""

    expects: str = "deny, allow or a list of hosts"

    def read(self, node: Node, at: At) -> Any:
        """See the protocol."""
        if not isinstance(node, Items):
            word = Choice(options=WORDS).read(node, at)
            return word if isinstance(word, Invalid) else (word,)
        if not node.entries:
            return at.refuse(node.mark, "the list of hosts is empty", "write deny for no host")
        item = Text(expects="a host such as packages.example.com", check=_host)
        return ListOf(item=item, what="hosts").read(node, at)

    def write(self, value: Any) -> Any:
        """See the protocol."""
        return value[0] if len(value) == 1 and value[0] in WORDS else list(value)

    def schema(self) -> Schema:
        """See the protocol."""
        hosts = {"type": "array", "items": {"type": "string"}, "minItems": 1}
        return {"anyOf": [{"enum": list(WORDS)}, hosts]}


def _sandbox(spec: SandboxSpec) -> Refusal | None:
    if spec.mode == "off" and not spec.reason:
        return "a run without a sandbox needs a reason", "write {mode: off, reason: why}"
    if spec.mode == "off" and (spec.require or spec.network not in (None, ("allow",))):
        return "off, and with something to hold commands to", "remove one of the two"
    if spec.mode == "landlock" and spec.require == "namespaces":
        return "landlock, and namespaces required", "remove one of the two"
    if spec.hosts and "landlock" in (spec.mode, spec.require):
        hint = "write namespaces, or network: deny"
        return "landlock cannot keep commands to a list of hosts", hint
    return None


SANDBOX = Record(
    cls=SandboxSpec,
    keys=(
        Key(
            name="mode",
            reader=Choice(options=("auto", "namespaces", "landlock", "off")),
            means="`auto`: the best tier that proves itself at the start. A tier: that one alone.",
            example="namespaces",
        ),
        Key(
            name="require",
            reader=Choice(options=("namespaces", "landlock")),
            means="The least that will do: below it the run does not start.",
            example="landlock",
        ),
        Key(
            name="network",
            reader=Network(),
            means="What commands may reach. Unset: nothing, where the tier can see to that.",
            example=["packages.example.com", "*.cdn.example.com", "10.1.2.3:8080"],
        ),
        Key(
            name="reason",
            reader=Text(),
            means="Why there is none; needed with `off`, and stands in the result.",
            example="the job is a throw-away machine",
        ),
        Key(
            name="container",
            reader=Flag(),
            means="The job has a container or machine of its own. Recorded; nobody checks it.",
            example=True,
        ),
    ),
    expects="auto, off, or a map such as {require: landlock, network: deny}",
    shorthand="mode",
    check=_sandbox,
)

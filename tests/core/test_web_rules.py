"""What a spec says of the web: hosts, ports, addresses, and what `sandbox.network` takes away."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from runner.core.permissions import decide, looks_inside
from runner.core.rules import RuleError, parse
from runner.core.spec import SandboxSpec, TaskSpec, WebSearchSpec
from runner.core.subjects import WebCall
from runner.core.web_rules import call_of, may_connect, may_reach, means, would_allow

LISTED = SandboxSpec(network=("a.test", "10.0.0.0/8:8080"))


def spec(**changes: Any) -> TaskSpec:
    """A task in which nothing is said of the web."""
    return TaskSpec(**({"name": "t", "prompt": "p", "model": "m"} | changes))


def verdict(url: str, **changes: Any) -> tuple[bool, str | None]:
    """Whether a page may be read, and the rule that said so."""
    found = decide(spec(**changes), "WebFetch", "url", call_of(url))
    return found.allowed, found.rule


@pytest.mark.parametrize(
    ("rule", "host", "port", "hit"),
    [
        ("domain:example.com", "EXAMPLE.com.", 443, True),
        ("domain:example.com", "example.com", 80, True),
        ("domain:example.com", "example.com", 8443, False),
        ("domain:example.com:8443", "example.com", 8443, True),
        ("domain:example.com:8443", "example.com", 443, False),
        ("domain:example.com", "example.com.evil", 443, False),
        ("domain:example.com", "evilexample.com", 443, False),
        ("domain:*.example.com", "a.example.com", 443, True),
        ("domain:*.example.com", "example.com", 443, False),
        ("domain:*", "anything.test", 443, True),
        ("domain:*", "anything.test", 22, False),
        ("domain:10.0.0.1", "10.0.0.1", 443, True),
        ("domain:10.0.0.1", "10.0.0.2", 443, False),
        ("domain:[::1]:81", "::1", 81, True),
        ("domain:a.test", "0x7f.1", 443, False),
    ],
)
def test_a_domain_rule_means_a_host_and_no_look_alike(
    rule: str, host: str, port: int, hit: bool
) -> None:
    """Case and the final dot do not count; `*.` needs something before it; without a port it is
    the web's two."""
    assert means(parse(f"WebFetch({rule})"), WebCall(host=host, port=port)) == hit


@pytest.mark.parametrize(
    ("rule", "host", "port", "hit"),
    [
        ("domain:example.com", "example.com", 8443, True),
        ("domain:example.com:8443", "example.com", 443, False),
        ("domain:*", "0x7f.1", 22, True),
        ("domain:a.test", "0x7f.1", 22, False),
    ],
)
def test_a_rule_that_denies_means_every_port(rule: str, host: str, port: int, hit: bool) -> None:
    """Unless it names one; and every host, also one that cannot be read."""
    assert means(parse(f"WebFetch({rule})"), WebCall(host=host, port=port), widely=True) == hit


@pytest.mark.parametrize(
    "text", ["domain:a:b", "domain:[::1", "domain:a/b", "domain:*.*", "a.test"]
)
def test_what_is_no_host_is_no_rule(text: str) -> None:
    """It says how to write one."""
    with pytest.raises(RuleError, match="WebFetch"):
        parse(f"WebFetch({text})")


OPEN = {"permission_mode": "bypassPermissions"}
RULE = ("WebFetch(domain:a.test)",)


@pytest.mark.parametrize(
    ("url", "changes", "expected"),
    [
        ("https://a.test/", {}, (False, None)),
        ("https://a.test/", {"allowed_tools": RULE}, (True, RULE[0])),
        ("https://b.test/", {"allowed_tools": RULE}, (False, None)),
        ("https://a.test:22/", {"allowed_tools": ("WebFetch",)}, (False, "web_ports")),
        ("https://a.test:22/", OPEN, (False, "web_ports")),
        (
            "https://a.test:81/",
            {"allowed_tools": ("WebFetch(domain:a.test:81)",)},
            (True, "WebFetch(domain:a.test:81)"),
        ),
        ("https://a.test/", OPEN, (True, None)),
        ("https://a.test/", OPEN | {"disallowed_tools": RULE}, (False, RULE[0])),
        ("https://a.test:99/", OPEN | {"disallowed_tools": RULE}, (False, RULE[0])),
        ("https://a.test/", OPEN | {"ask_tools": RULE}, (False, RULE[0])),
        (
            "https://a.test/",
            OPEN | {"sandbox": SandboxSpec(network=("deny",))},
            (False, "sandbox.network"),
        ),
        ("https://a.test/", OPEN | {"sandbox": LISTED}, (True, None)),
        ("https://b.test/", OPEN | {"sandbox": LISTED}, (False, "sandbox.network")),
        (
            "https://b.test/",
            {"allowed_tools": ("WebFetch(domain:b.test)",), "sandbox": LISTED},
            (False, "sandbox.network"),
        ),
        ("https://a.test/", {"sandbox": LISTED}, (False, None)),
        ("https://a.test/", {"permission_mode": "plan"}, (False, None)),
        ("https://a.test/", {"permission_mode": "plan", "allowed_tools": RULE}, (True, RULE[0])),
        ("https://a.test/", {"permission_mode": "acceptEdits"}, (False, None)),
        ("no url", {"allowed_tools": RULE}, (False, None)),
        ("no url", OPEN | {"disallowed_tools": RULE}, (False, RULE[0])),
    ],
)
def test_who_may_read_a_page(
    url: str, changes: dict[str, Any], expected: tuple[bool, str | None]
) -> None:
    """Rules and modes as for every tool; the network that the sandbox closes stays closed, and
    no port but the web's is open without being named."""
    assert verdict(url, **changes) == expected


def test_the_rules_are_about_what_is_asked_for_in_every_mode() -> None:
    """Also where all else is allowed without a look: a port, a host list."""
    assert looks_inside(spec(**OPEN), "WebFetch")


def test_a_mode_that_asks_a_model_asks_it_about_a_host_too() -> None:
    """No rule says no, so it is open, unless the network is closed."""
    asked = spec(permission_mode="auto")
    assert decide(asked, "WebFetch", "url", call_of("https://a.test/")).open
    closed = spec(permission_mode="auto", sandbox=SandboxSpec(network=("deny",)))
    for tool, subject in (("WebFetch", call_of("https://a.test/")), ("WebSearch", None)):
        assert decide(closed, tool, "url", subject).rule == "sandbox.network"


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://a.test/x", "WebFetch(domain:a.test)"),
        ("http://[::1]:81/", "WebFetch(domain:[::1]:81)"),
        ("http://10.0.0.1/", "WebFetch(domain:10.0.0.1)"),
    ],
)
def test_the_rule_a_denial_names_would_allow_the_call(url: str, rule: str) -> None:
    """It is as narrow as a rule can be, and it works."""
    call = call_of(url)
    assert call is not None
    assert would_allow(call) == rule
    denied = decide(spec(), "WebFetch", "url", WebCall(host=call.host))
    assert would_allow(WebCall(host=call.host)) in denied.reason
    assert verdict(url, allowed_tools=(rule,)) == (True, rule)


@pytest.mark.parametrize(
    ("address", "port", "changes", "may"),
    [
        ("93.184.215.14", 443, {}, True),
        ("127.0.0.1", 80, {}, False),
        ("::ffff:127.0.0.1", 80, {}, False),
        ("169.254.169.254", 80, {"allowed_tools": ("WebFetch(domain:*)", "WebFetch")}, False),
        ("127.0.0.1", 80, {"allowed_tools": ("WebFetch(domain:127.0.0.1)",)}, True),
        ("127.0.0.1", 81, {"allowed_tools": ("WebFetch(domain:127.0.0.1)",)}, False),
        ("10.1.2.3", 8080, {"sandbox": LISTED}, True),
        ("10.1.2.3", 80, {"sandbox": LISTED}, False),
        ("93.184.215.14", 443, {"disallowed_tools": ("WebFetch(domain:93.184.215.14)",)}, False),
        ("93.184.215.14", 443, {"ask_tools": ("WebFetch(domain:93.184.215.14)",)}, False),
        ("93.184.215.14", 443, {"ask_tools": ("WebFetch(url:*x)", "Bash")}, True),
    ],
)
def test_a_name_gets_no_further_than_its_address(
    address: str, port: int, changes: dict[str, Any], may: bool
) -> None:
    """A public address, or one that is listed itself; never one that a rule denies."""
    assert may_connect(spec(**changes), ip_address(address), port) == may


@pytest.mark.parametrize(
    ("tool", "changes", "may"),
    [
        ("WebFetch", {}, False),
        ("WebFetch", OPEN, True),
        ("WebFetch", {"permission_mode": "auto"}, True),
        ("WebFetch", {"allowed_tools": RULE}, True),
        ("WebFetch", {"allowed_tools": RULE, "tools": ("Read",)}, False),
        ("WebFetch", OPEN | {"disallowed_tools": ("WebFetch",)}, False),
        ("WebFetch", OPEN | {"disallowed_tools": RULE}, True),
        ("WebFetch", OPEN | {"sandbox": SandboxSpec(network=("deny",))}, False),
        ("WebSearch", OPEN, False),
        ("WebSearch", OPEN | {"web_search": WebSearchSpec(provider="brave")}, True),
    ],
)
def test_whether_the_web_can_be_reached_at_all(
    tool: str, changes: dict[str, Any], may: bool
) -> None:
    """As the spec alone tells."""
    assert may_reach(spec(**changes), tool) == may

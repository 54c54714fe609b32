"""Which hosts may be reached: names, ports and addresses, by table."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.reach import host_of, is_public, may_ask, may_connect, parse

LISTED = parse(
    (
        "mirror.test",
        "*.example.com",
        "git.test:2222",
        "10.1.2.0/24",
        "127.0.0.1:8080",
        "[fd00::1]:90",
    )
)


@pytest.mark.parametrize(
    ("host", "port", "allowed"),
    [
        ("mirror.test", 443, True),
        ("mirror.test", 80, True),
        ("Mirror.test.", 443, True),
        ("mirror.test", 22, False),
        ("mirror.test", 8443, False),
        ("mirror.test.evil.test", 443, False),
        ("evilmirror.test", 443, False),
        ("a.example.com", 443, True),
        ("a.b.example.com", 443, True),
        ("example.com", 443, False),
        ("evilexample.com", 443, False),
        ("git.test", 2222, True),
        ("git.test", 443, False),
        ("10.1.2.3", 443, True),
        ("10.1.2.3", 22, False),
        ("10.1.3.3", 443, False),
        ("127.0.0.1", 8080, True),
        ("::ffff:127.0.0.1", 8080, True),
        ("127.0.0.1", 80, False),
        ("[fd00::1]", 90, True),
        ("localhost", 8080, False),
        ("93.184.216.34", 443, False),
    ],
)
def test_what_is_listed_may_be_asked_for(host: str, port: int, allowed: bool) -> None:
    """Exact names, names below a `*.`, addresses in a range; 80 and 443 unless a port is named."""
    known = host_of(host)
    assert known is not None
    assert may_ask(LISTED, known, port) is allowed


@pytest.mark.parametrize(
    "host",
    [
        "",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "0177.0.0.1",
        "mirror.test\0.evil.test",
        "mirror.test\t",
        "mirror.test\r\nHost: x",
        "mirror.test%00",
        "mirror.test..",
        "рypi.org",  # noqa: RUF001 - the first letter is Cyrillic on purpose
        "mirror。test",
        "①27.0.0.1",
        "user@mirror.test",
        "mirror.test/x",
        "-x.test",
        "a" * 254,
    ],
)
def test_what_is_no_plain_name_or_address_is_nothing(host: str) -> None:
    """Other spellings of numbers, control characters, look-alikes: refused before any resolver."""
    assert host_of(host) is None


@pytest.mark.parametrize(
    "address",
    """
    0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 127.8.8.8 168.63.129.16 169.254.169.254 172.16.0.1
    192.0.0.192 192.0.2.1 192.168.1.1 198.18.0.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::1
    2002:a9fe:a9fe:: 2001:0:1::1 2001:db8::1 3fff::1 fc00::1 fd00:ec2::254 fe80::1 ff02::1
    2606:4700::5efe:7f00:1 2606:4700::200:5efe:a9fe:a9fe
    """.split(),  # noqa: SIM905  # quoted they would be worse to read
)
def test_addresses_that_are_not_public(address: str) -> None:
    """This machine, this network, this cloud, however it is wrapped: never behind a name."""
    assert not is_public(ip_address(address))
    assert not may_connect(LISTED, ip_address(address), 443)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"]
)
def test_addresses_that_are_public(address: str) -> None:
    """The open internet, also when an IPv6 address carries it."""
    assert is_public(ip_address(address))


def test_a_private_address_may_be_listed_itself() -> None:
    """A name may lead to a private address when its range is in the list, with that port."""
    assert may_connect(LISTED, ip_address("10.1.2.9"), 443)
    assert not may_connect(LISTED, ip_address("10.1.2.9"), 22)
    assert may_connect(LISTED, ip_address("127.0.0.1"), 8080)


@given(st.integers(0, 2**32 - 1))
def test_a_wrapping_changes_nothing(number: int) -> None:
    """Mapped and NAT64 forms of an IPv4 address are public exactly when it is."""
    plain = IPv4Address(number)
    for prefix in ("::ffff:", "64:ff9b::"):
        assert is_public(ip_address(f"{prefix}{plain}")) is is_public(plain)


def test_an_empty_list_reaches_nothing() -> None:
    """No entry: no name and no address."""
    assert not may_ask((), "mirror.test", 443)
    assert not may_ask((), IPv4Address("1.1.1.1"), 443)

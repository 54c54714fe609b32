"""Which hosts may be reached: names and ports that are listed, addresses that are public.

Rules of this file: a name gets no further than its addresses do, and what is not a name or an
address in its plain form is neither. Sources: the IANA special-purpose address registries; Azure
and others serve their metadata at a public address, which is refused too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network

USUAL_PORTS = frozenset({80, 443})

_NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        """
        0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16
        172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15
        198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
        """.split(),  # noqa: SIM905  # sixteen quoted ranges would be worse to read
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
"""The first half of an interface identifier that holds an IPv4 address."""

_LABEL = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NUMBER = re.compile(r"(0x[0-9a-f]*|\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the list: a name (`*.` in front: the names below it) or a range of addresses."""

    name: str = ""
    range: Range | None = None
    port: int | None = None

    def covers(self, port: int) -> bool:
        """Whether that port is meant."""
        return port in USUAL_PORTS if self.port is None else port == self.port


def parse(texts: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of a list that was checked when it was read."""
    return tuple(map(_entry, texts))


def _entry(text: str) -> Entry:
    whole = re.fullmatch(r"\[(.*)\](?::(\d+))?|([^:]*):(\d+)|(.*)", text)
    assert whole is not None  # the last way matches anything
    host = whole[1] or whole[3] or whole[5] or ""
    port = whole[2] or whole[4]
    number = int(port) if port else None
    try:
        return Entry(range=ip_network(host, strict=False), port=number)
    except ValueError:
        return Entry(name=host.lower().removesuffix("."), port=number)


def host_of(text: str) -> str | Address | None:
    """A host as it was asked for: a name in lower case, an address, or None for neither."""
    if not text.isascii() or "%" in text:  # a sign that becomes ASCII in lower case; a zone
        return None
    text = text.lower().removesuffix(".")
    try:
        return ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        pass
    # `0x7f.1` and `2130706433` are addresses to some resolvers and names to others.
    if len(text) > 253 or not _NAME.fullmatch(text) or _NUMBER.fullmatch(text.rpartition(".")[2]):
        return None
    return text


def may_ask(entries: tuple[Entry, ...], host: str | Address, port: int) -> bool:
    """Whether the list has that host with that port. A name is not allowed to lead anywhere yet."""
    if not isinstance(host, str):
        return _is_listed(entries, host, port)
    return any(_names(entry, host) and entry.covers(port) for entry in entries)


def may_connect(entries: tuple[Entry, ...], address: Address, port: int) -> bool:
    """Whether a host that may be asked for may be at that address: a public or a listed one."""
    return is_public(address) or _is_listed(entries, address, port)


def _names(entry: Entry, host: str) -> bool:
    if entry.name.startswith("*."):
        return host.endswith(entry.name[1:])
    return bool(entry.name) and entry.name == host


def _is_listed(entries: tuple[Entry, ...], address: Address, port: int) -> bool:
    plain = _plain(address)
    return any(
        entry.range is not None and plain in entry.range and entry.covers(port) for entry in entries
    )


def is_public(address: Address) -> bool:
    """Whether an address is on the open internet, whatever it is wrapped in."""
    plain = _plain(address)
    if isinstance(plain, IPv4Address):
        return not any(plain in refused for refused in _NOT_PUBLIC_V4)
    if (int(plain) >> 32) & 0xFFFFFFFF in _ISATAP:
        return False
    return plain in _GLOBAL_V6 and not any(plain in refused for refused in _NOT_PUBLIC_V6)


def _plain(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that only carries it."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address

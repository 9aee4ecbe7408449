"""The guard's classification of addresses, its resolver and its sockets."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st

from scraper.http.transport.guard import (
    ANYWHERE,
    NOWHERE,
    ForbiddenAddressError,
    GuardedResolver,
    PrivateAccess,
    forbidden_reason,
    socket_factory,
)

INTERNAL_V4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
]
INTERNAL_V6 = [
    "::/8",
    "100::/8",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
]
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "100.100.100.200",
    "168.63.129.16",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "169.254.42.42",
    "fd00:42::42",
    "169.254.0.23",
    "fe80::a9fe:a9fe",
    "fe80::a9fe:a9fe%1",
    "::ffff:0:169.254.169.254",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1:a9:fe:a9fe::",
    "64:ff9b:1:1:a9:fea9:fe00:0",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "2a00:1450:4001::200e",
]

internal_v4 = st.sampled_from(INTERNAL_V4).flatmap(lambda net: st.ip_addresses(network=net))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert forbidden_reason(address, NOWHERE) is None
    assert forbidden_reason(address, ANYWHERE) is None


@given(internal_v4)
def test_internal_ipv4_is_refused_bare_and_wrapped(v4: IPv4Address) -> None:
    number = int(v4)
    wrapped = [
        v4,
        IPv6Address((0xFFFF << 32) | number),  # mapped
        IPv6Address(number),  # IPv4-compatible
        IPv6Address((0x64FF9B << 96) | number),  # NAT64
        IPv6Address((0x64FF9B0001 << 80) | number),  # NAT64 of a network's own
        IPv6Address((0xFFFF << 48) | number),  # SIIT
        IPv6Address((0x2002 << 112) | (number << 80) | 1),  # 6to4
        IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | (number ^ 0xFFFFFFFF)),  # Teredo
    ]
    assert all(forbidden_reason(str(address), NOWHERE) for address in wrapped)


@given(st.sampled_from(INTERNAL_V6).flatmap(lambda net: st.ip_addresses(network=net)))
def test_internal_ipv6_is_refused(v6: IPv6Address) -> None:
    if v6.ipv4_mapped is None:
        assert forbidden_reason(str(v6), NOWHERE) is not None


@given(st.ip_addresses())
def test_whatever_passes_is_global_unicast(address: IPv4Address | IPv6Address) -> None:
    if forbidden_reason(str(address), NOWHERE) is not None:
        return
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if any(address in ip_network(net) for net in ("64:ff9b::/96", "::ffff:0:0:0/96")):
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            assert forbidden_reason(str(inner), NOWHERE) is None
            return
        assert address in ip_network("2000::/3")
    assert (
        address.is_global
        and not address.is_multicast
        and not address.is_loopback
        and not address.is_link_local
    )


@pytest.mark.parametrize("address", METADATA)
def test_metadata_is_refused_even_where_private_addresses_are_allowed(address: str) -> None:
    assert "metadata" in (forbidden_reason(address, ANYWHERE) or "")


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "::1", "192.168.1.1", "fd12::1", "::ffff:127.0.0.1"]
)
def test_allow_private_allows_private(address: str) -> None:
    assert forbidden_reason(address, ANYWHERE) is None
    assert forbidden_reason(address, NOWHERE) is not None


OFFICE = tuple(map(ip_network, ("10.1.0.0/16", "fd12::/64")))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("10.1.2.3", None), ("::ffff:10.1.2.3", None), ("fd12::5", None), ("1.1.1.1", None),
        ("10.2.0.1", "private"), ("127.0.0.1", "loopback"), ("fd12:0:0:1::5", "private"), ("10.1.2", "not an IP address"),
    ],
)  # fmt: skip
def test_a_list_opens_these_networks_alone(address: str, reason: str | None) -> None:
    assert forbidden_reason(address, OFFICE) == reason


def test_a_list_that_holds_a_metadata_address_does_not_open_it() -> None:
    assert "metadata" in (
        forbidden_reason("169.254.169.254", (ip_network("169.254.0.0/16"),)) or ""
    )


@pytest.mark.parametrize(
    ("host", "port", "opened"),
    [
        ("127.0.0.1", 8800, True), ("127.0.0.1", 6379, False), ("localhost", 8800, False), ("127.1", 8800, False),
        ("intern.example", 80, True), ("INTERN.example", 80, True), ("cdn.intern.example", 443, True),
        ("evilintern.example", 80, False), ("intern.example.evil.example", 80, False), ("example", 80, False),
        ("::1", 9000, True), ("::1", 9001, False), ("", 8800, False),
    ],
)  # fmt: skip
def test_private_addresses_are_for_the_sites_own_hosts_and_ports(
    host: str, port: int, opened: bool
) -> None:
    own = frozenset({("127.0.0.1", 8800), ("intern.example", None), ("::1", 9000)})
    assert PrivateAccess(own).networks_for(host, port) == (ANYWHERE if opened else NOWHERE)
    assert PrivateAccess(own, OFFICE).networks_for(host, port) == (ANYWHERE if opened else OFFICE)


@given(st.text(max_size=40))
def test_an_invalid_address_is_refused(text: str) -> None:
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        assert forbidden_reason(text, NOWHERE) is not None


@pytest.mark.parametrize(
    "text",
    ["2130706433", "127.1", "0177.0.0.1", "0x7f.0.0.1", "", "localhost", "1.1.1.1.", "[::1]"],
)
def test_odd_spellings_are_not_addresses(text: str) -> None:
    assert forbidden_reason(text, ANYWHERE) == "not an IP address"


def test_a_scope_does_not_hide_a_link_local_address() -> None:
    assert forbidden_reason("fe80::1%eth0", NOWHERE) is not None


def test_the_socket_factory_opens_no_socket_to_a_forbidden_address() -> None:
    make = socket_factory(NOWHERE)
    with pytest.raises(ForbiddenAddressError, match=r"10\.0\.0\.1 is private"):
        make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.0.0.1", 80)))
    make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("1.1.1.1", 80))).close()


class FakeResolver(AbstractResolver):
    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host == "a..b":
            raise UnicodeError("label empty or too long")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self.answers.pop(0)
        ]

    async def close(self) -> None:
        self.answers.clear()


def resolve(resolver: GuardedResolver, host: str = "shop.example") -> list[str]:
    return [answer["host"] for answer in asyncio.run(resolver.resolve(host, 80))]


def test_only_public_answers_are_passed_on() -> None:
    resolver = GuardedResolver(FakeResolver(["10.0.0.1", "1.1.1.1", "::1", "8.8.8.8"]), NOWHERE)
    assert resolve(resolver) == ["1.1.1.1", "8.8.8.8"]


def test_a_rebound_name_is_refused() -> None:
    resolver = GuardedResolver(FakeResolver(["1.1.1.1"], ["127.0.0.1"]), NOWHERE)
    assert resolve(resolver) == ["1.1.1.1"]
    with pytest.raises(ForbiddenAddressError) as caught:
        resolve(resolver)
    assert (caught.value.host, caught.value.address, caught.value.reason) == (
        "shop.example",
        "127.0.0.1",
        "loopback",
    )


def test_names_without_an_address_are_plain_failures() -> None:
    resolver = GuardedResolver(FakeResolver([]), NOWHERE)
    for host in ("shop.example", "a..b"):
        with pytest.raises(OSError, match=".") as caught:
            resolve(resolver, host)
        assert not isinstance(caught.value, ForbiddenAddressError)

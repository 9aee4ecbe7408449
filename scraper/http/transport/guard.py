"""Which addresses may be connected to: the guard against server-side request forgery.

Owns the classification of addresses, and the two hooks that apply it where a name can no longer be
rebound: the resolver, whose addresses are the ones connected to, and the socket factory, which sees
every address (literals too) before a socket exists. Does not judge host names or URLs: `127.1`,
`0x7f.1` and `localhost.` are what they resolve to.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import AddrInfoType, SocketFactoryType
from aiohttp.abc import AbstractResolver, ResolveResult

Networks = tuple[IPv4Network | IPv6Network, ...]
NOWHERE: Networks = ()
ANYWHERE: Networks = (ip_network("0.0.0.0/0"), ip_network("::/0"))

# Clouds serve credentials here to any client: refused even under `allow_private`.
METADATA = tuple(
    map(
        ip_network,
        (
            "169.254.169.254",  # AWS, Google, Azure, DigitalOcean, OpenStack
            "169.254.170.0/24",  # AWS ECS and EKS
            "169.254.42.42",  # Scaleway
            "169.254.0.23",  # Tencent
            "fd00:ec2::/32",  # AWS
            "fd00:42::42",  # Scaleway
            "fd20:ce::254",  # Google
            "fe80::a9fe:a9fe",  # OpenStack
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure's wire server
            "192.0.0.192",  # Oracle
        ),
    )
)

# Networks that are not on the Internet, though `ipaddress` calls them global, or did in some Python
# version.
_NOT_PUBLIC = tuple(
    ip_network(net)
    for net in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # RFC 6598, carrier-grade NAT
        "192.0.0.0/24",  # RFC 6890
        "192.88.99.0/24",  # RFC 7526, 6to4 relays
        "198.18.0.0/15",  # RFC 2544, benchmarks
        "224.0.0.0/3",  # multicast, reserved, broadcast
        # These are IETF assignments: Teredo, ORCHID, benchmarks.
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",  # RFC 9637, documentation
    )
)
_GLOBAL_UNICAST = ip_network("2000::/3")
# IPv6 networks whose last 32 bits are the IPv4 address that they lead to: NAT64 (RFC 6052) and SIIT
# (RFC 7915).
_LAST_BITS_V4 = tuple(map(ip_network, ("64:ff9b::/96", "::ffff:0:0:0/96")))
# Local NAT64 (RFC 8215) embeds the address after a prefix whose length only that network knows. The
# address is one of these groups of bytes, which skip the ninth (RFC 6052 2.2).
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
_LOCAL_NAT64_BYTES = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15))


class ForbiddenAddressError(OSError):
    """An address that may not be connected to. An OSError, so that aiohttp carries it like any
    failed connection."""

    def __init__(self, address: str, reason: str, host: str | None = None) -> None:
        super().__init__(f"{address} is {reason}")
        self.address = address
        self.reason = reason
        self.host = host


@dataclass(frozen=True, slots=True)
class PrivateAccess:
    """The non-public addresses that a site's requests may go to: any address of its own `hosts`,
    and any host in `networks`.

    `hosts` are (name, port), and include the names below each; a port of None means every port.
    """

    hosts: frozenset[tuple[str, int | None]] = frozenset()
    networks: Networks = NOWHERE

    def networks_for(self, host: str, port: int) -> Networks:
        """Returns the non-public networks that a request to this host may reach. `host` is in
        ASCII, a literal address without brackets."""
        host = host.lower()
        for name, own_port in self.hosts:
            if own_port in (None, port) and (host == name or host.endswith("." + name)):
                return ANYWHERE
        return self.networks


@lru_cache(maxsize=4096)
def forbidden_reason(address: str, private: Networks) -> str | None:
    """Returns why this address may not be connected to; None if it may. `private` are the networks
    that are open though they are not public.

    Fails closed: anything but an IP address in its canonical spelling is refused.
    `forbidden_reason("::ffff:10.0.0.1", NOWHERE) == "private"`
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return "not an IP address"
    inner = _unwrap_ipv4(ip)
    meant = [ip, inner, *_decode_local_nat64(ip)]
    if any(address in network for network in METADATA for address in meant):
        return "a cloud's metadata service"
    if any(inner in network or ip in network for network in private):
        return None
    return _non_public_reason(inner)


def _unwrap_ipv4(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Returns the IPv4 address that an IPv6 one leads to: mapped (RFC 4291), translated, 6to4 (RFC
    3056), Teredo."""
    if isinstance(ip, IPv4Address):
        return ip
    if any(ip in network for network in _LAST_BITS_V4):
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or ip


def _decode_local_nat64(ip: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if ip not in _LOCAL_NAT64:
        return []
    return [IPv4Address(bytes(ip.packed[at] for at in group)) for group in _LOCAL_NAT64_BYTES]


def _non_public_reason(ip: IPv4Address | IPv6Address) -> str | None:
    if ip.is_unspecified:
        return "unspecified"
    if ip.is_loopback:
        return "loopback"
    if ip.is_link_local:
        return "link-local"
    if ip.is_multicast:
        return "multicast"
    if isinstance(ip, IPv6Address) and ip not in _GLOBAL_UNICAST:
        return "private" if ip.is_private else "reserved"
    if ip.is_private or ip.is_reserved or not ip.is_global or any(ip in net for net in _NOT_PUBLIC):
        return "private" if ip.is_private else "reserved"
    return None


class GuardedResolver(AbstractResolver):
    """Passes on the allowed addresses of another resolver; raises `ForbiddenAddressError` if none
    is left.

    Every connection goes to an address from here, so each look-up of a rebound name is judged.
    """

    def __init__(self, resolver: AbstractResolver, private: Networks) -> None:
        self._resolver = resolver
        self._private = private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        try:
            answers = await self._resolver.resolve(host, port, family)
        except UnicodeError as error:
            # The IDNA codec of getaddrinfo raises this for an empty or overlong label.
            raise OSError(f"not a valid host name ({error})") from error
        allowed = [
            answer for answer in answers if forbidden_reason(answer["host"], self._private) is None
        ]
        if allowed:
            return allowed
        if not answers:
            raise OSError("the name has no address")
        address = answers[0]["host"]
        reason = forbidden_reason(address, self._private) or "refused"
        raise ForbiddenAddressError(address, reason, host)

    async def close(self) -> None:
        await self._resolver.close()


def socket_factory(private: Networks) -> SocketFactoryType:
    """Returns what makes a connector's sockets: the last check, which sees literal addresses
    too."""
    return partial(_open_guarded_socket, private)


def _open_guarded_socket(private: Networks, addr_info: AddrInfoType) -> socket.socket:
    family, kind, proto, _, address = addr_info
    reason = forbidden_reason(str(address[0]), private)
    if reason is not None:
        raise ForbiddenAddressError(str(address[0]), reason)
    return socket.socket(family, kind, proto)

"""Ports for servers that other programs open, seconds after the number was chosen.

A bind to port 0 gives a number that the kernel may give to another process as soon as the probe is
closed: each shop and proxy of every xdist worker draws from the same few thousand. These numbers
are below those that the kernel gives, each xdist worker has a share of its own, and none is given
twice in a process. A server that starts again finds its port free, too.
"""

from __future__ import annotations

import os
import random
import socket
from contextlib import suppress
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Where the kernel's ports begin on systems that do not say so (IANA's dynamic ports).
DYNAMIC = 49_152
# Ports below the kernel's own, of all xdist workers together.
SHARED = 12_000
LOWEST = 1024
_given: set[int] = set()


def unused_ports(count: int) -> list[int]:
    """Returns ports of 127.0.0.1 on which nothing listens."""
    share = _own_share(_kernel_begin())
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().choice(share)
        with socket.socket() as probe, suppress(OSError):
            if port not in _given:
                probe.bind(("127.0.0.1", port))
                _given.add(port)
                ports.append(port)
    return ports


def unused_port() -> int:
    return unused_ports(1)[0]


def _kernel_begin() -> int:
    try:
        begin = int(RANGE.read_text().split()[0])
    except OSError:
        return DYNAMIC
    # Where the kernel gives every port, none is better than another.
    return begin if begin > 2 * LOWEST else DYNAMIC


def _own_share(end: int) -> range:
    """Returns every nth port below `end`, where n is the number of xdist workers."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return range(max(LOWEST, end - SHARED) + number, end, workers)

"""Decodes what Redis holds of a host: the two hashes that `politeness/reserve.lua` and
`politeness/slow_down.lua` write. Their headers describe each field."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import redis

from scraper.infra.redis_clients import report_foreign
from scraper.infra.statements import lua

HOST_PREFIX = "scraper:host:"
ALLOTMENTS_PREFIX = "scraper:places:"
# The scripts divide this interval for a host whose base is unknown.
BASE_US = 1e6


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host now. `pace` is the part of the budget that is in force, 1 for the whole, and
    `pace_per_s` the rate that this makes, None at full pace. `interval_s`, `concurrency` and
    `burst` are the budget of the last reservation, None where there was none; an `interval_s` of 0
    means no rate. `rest_s` and `next_slot_s` count from now, None where there is nothing to wait
    for."""

    in_flight: int
    pace: float
    base_interval_s: float
    interval_s: float | None
    concurrency: int | None
    burst: int | None
    rest_s: float | None
    why: str | None
    next_slot_s: float | None

    @classmethod
    def from_redis(
        cls, host: Mapping[bytes, bytes], allotments: Sequence[bytes], now_us: int
    ) -> HostRow:
        """Decodes the host's hash and the values of its allotments, at Redis's time `now_us`."""
        has_budget = b"interval" in host
        rest_s = _seconds_until(host.get(b"rest"), now_us)
        return cls(
            in_flight=sum(_decode_in_flight(value, now_us) for value in allotments),
            pace=float(host.get(b"factor", 1)),
            base_interval_s=float(host.get(b"base", BASE_US)) / 1e6,
            interval_s=float(host[b"interval"]) / 1e6 if has_budget else None,
            concurrency=int(host[b"concurrency"]) if has_budget else None,
            burst=int(host[b"burst"]) if has_budget else None,
            rest_s=rest_s,
            why=host[b"why"].decode() if rest_s is not None and b"why" in host else None,
            next_slot_s=_seconds_until(host.get(b"tat"), now_us),
        )


def host_keys(host: str) -> list[str]:
    """Returns the KEYS of the two scripts."""
    return [f"{HOST_PREFIX}{host}", f"{ALLOTMENTS_PREFIX}{host}"]


def list_hosts(client: redis.Redis) -> list[str]:
    """Returns the hosts that Redis knows now, in no order."""
    keys = client.scan_iter(f"{HOST_PREFIX}*", count=1000)
    return [key.decode("utf-8", "replace").removeprefix(HOST_PREFIX) for key in keys]


def read_rows(client: redis.Redis, hosts: Collection[str]) -> dict[str, HostRow]:
    """Reads the rows of `hosts` in one round trip."""
    pipeline = client.pipeline(transaction=False)
    read = client.register_script(lua("politeness/common.lua", "politeness/read.lua"))
    for host in hosts:
        read(keys=host_keys(host), client=pipeline)
    rows = {}
    for host, (now, foreign, row, allotments) in zip(hosts, pipeline.execute(), strict=True):
        report_foreign(foreign)
        try:
            pairs = zip(row[::2], row[1::2], strict=True)
            rows[host] = HostRow.from_redis(dict(pairs), allotments, now)
        except (ValueError, KeyError, OverflowError):
            # The next reservation replaces what the scripts did not write.
            rows[host] = HostRow.from_redis({}, (), now)
    return rows


def _decode_in_flight(allotment: bytes, now_us: int) -> int:
    """Returns the requests that one process may have in flight, 0 for an expired allotment."""
    granted, _, expires, *_ = allotment.split(b":")
    return int(granted) if int(expires) >= now_us else 0


def _seconds_until(value: bytes | None, now_us: int) -> float | None:
    at_us = int(value or 0)
    return (at_us - now_us) / 1e6 if at_us > now_us else None

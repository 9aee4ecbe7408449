"""The proxies for people: what the fleet knows of them, by id; whether the list is right, and its
proxies answer.

Refuses to print what stands on the list: a proxy is its id here as everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from scraper.errors import ConfigError, NotFoundError, ScraperError, ServerUnavailableError
from scraper.infra.tables import print_table
from scraper.proxies import file
from scraper.proxies.health import EVERYWHERE, read_all
from scraper.rules.proxies import UNKNOWN, Health, Proxy
from scraper.settings import Settings, readable_by_all

CONNECTS_AT_ONCE = 50
CONNECT_S = 10.0


def listed(settings: Settings) -> tuple[Path, list[Proxy]]:
    """Raises `ConfigError` where there is no list, or a wrong one."""
    if settings.proxy_list is None:
        raise ConfigError(
            "there is no list of proxies: set PROXY_LIST to a file with one URL a line"
        )
    return settings.proxy_list, file.read(settings.proxy_list)


def known(settings: Settings) -> dict[str, dict[str, Health]]:
    """What Redis holds, by host, by proxy."""
    import redis

    from scraper.infra import servers

    servers.require_redis(settings)
    try:
        with redis.Redis.from_url(settings.valkey_url) as client:
            return read_all(client)
    except redis.RedisError:
        raise ServerUnavailableError("Redis stopped answering") from None


def as_json(
    proxies: Sequence[Proxy], found: Mapping[str, Mapping[str, Health]], host: str | None
) -> list[dict[str, Any]]:
    """One object a proxy, those that are only known from Redis last. Times are seconds from now."""
    ids = dict.fromkeys(proxy.id for proxy in proxies)
    for at_host in found.values():
        ids |= dict.fromkeys(at_host)
    lines = {proxy.id: proxy for proxy in proxies}
    told = []
    for proxy_id in ids:
        proxy = lines.get(proxy_id)
        whole = found.get(EVERYWHERE, {}).get(proxy_id, UNKNOWN)
        hosts = {
            name: at_host[proxy_id]
            for name, at_host in found.items()
            if name != EVERYWHERE and proxy_id in at_host and host in (None, name)
        }
        if host is not None and proxy is None and not hosts:
            continue
        resting = {name: one for name, one in hosts.items() if one.free_at > 0}
        answered, failed = (
            sum(one.answered for one in hosts.values()),
            sum(one.failed for one in hosts.values()),
        )
        told.append(
            {
                "id": proxy_id,
                "class": proxy.pool if proxy else proxy_id.split("-")[0],
                "region": proxy.region if proxy else None,
                "weight": proxy.weight if proxy else None,
                "state": _state(proxy, whole, resting),
                "why": whole.why if whole.free_at > 0 else None,
                "free_in_s": round(whole.free_at, 1) if whole.free_at > 0 else 0,
                "requests": sum(one.requests for one in hosts.values()),
                "answered": answered,
                "failed": failed,
                "success": round(answered / (answered + failed), 4) if answered + failed else None,
                "latency_s": _latency(hosts),
                "hosts": [_host_json(name, one) for name, one in sorted(hosts.items())],
            }
        )
    return told


def _host_json(name: str, one: Health) -> dict[str, Any]:
    return {
        "host": name,
        "requests": one.requests,
        "answered": one.answered,
        "failed": one.failed,
        "recent_success": round(one.success, 4),
        "latency_s": round(one.latency_s, 3) or None,
        "strikes": one.strikes,
        "quarantine_s": round(one.free_at, 1) if one.free_at > 0 else 0,
        "why": one.why or None,
    }


def _state(proxy: Proxy | None, whole: Health, resting: Mapping[str, Health]) -> str:
    if proxy is None:
        return "not listed"
    if whole.free_at > 0:
        return "dead"
    return "quarantine" if resting else "free"


def _latency(hosts: Mapping[str, Health]) -> float | None:
    answered = sum(one.answered for one in hosts.values() if one.latency_s)
    if not answered:
        return None
    return round(
        sum(one.latency_s * one.answered for one in hosts.values() if one.latency_s) / answered, 3
    )


def print_proxies(told: Sequence[Mapping[str, Any]]) -> None:
    if not told:
        click.echo("no proxies: the list is empty, and none is known from before")
        return
    columns = [
        "proxy",
        "class",
        "region",
        "weight",
        "state",
        "requests",
        "success",
        "latency",
        "quarantined at",
    ]
    rows = []
    for one in told:
        resting = [
            f"{h['host']} ({h['why']}, {_span(h['quarantine_s'])})"
            for h in one["hosts"]
            if h["quarantine_s"]
        ]
        state = (
            f"dead ({one['why']}, {_span(one['free_in_s'])})"
            if one["state"] == "dead"
            else one["state"]
        )
        rows.append(
            [
                one["id"],
                one["class"],
                one["region"] or "any",
                "" if one["weight"] is None else f"{one['weight']:g}",
                state,
                f"{one['requests']:,}",
                "" if one["success"] is None else f"{one['success']:.0%}",
                "" if one["latency_s"] is None else f"{one['latency_s']:.2f} s",
                ", ".join(resting),
            ]
        )
    print_table(columns, rows)


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def check(settings: Settings, *, connect: bool) -> None:
    """Prints what is on the list; with `connect`, opens a connection to each proxy. Raises where
    something is wrong."""
    path, proxies = listed(settings)
    if readable_by_all(path):
        click.echo(
            f"{path}: warning: every user of this machine can read it (mend: chmod 600 {path})",
            err=True,
        )
    counts: dict[str, int] = {}
    for proxy in proxies:
        name = f"{proxy.pool} in {proxy.region or 'any region'}"
        counts[name] = counts.get(name, 0) + 1
    click.echo(f"{len(proxies)} prox{'y' if len(proxies) == 1 else 'ies'}, no errors")
    for name, count in sorted(counts.items()):
        click.echo(f"{count:>6} {name}")
    if not connect:
        return
    failed = asyncio.run(_connected(proxies))
    for proxy_id, reason in failed:
        click.echo(f"{proxy_id}: {reason}", err=True)
    if failed:
        raise ScraperError(f"{len(failed)} of {len(proxies)} proxies do not answer")
    click.echo(f"all {len(proxies)} answer")


async def _connected(proxies: Sequence[Proxy]) -> list[tuple[str, str]]:
    """Those that no connection can be opened to, TLS with an https proxy included. Logins are not
    tried: that takes a request to some host."""
    from scraper.connect.transport import tls_context
    from scraper.connect.tunnel import ProxyHopError, knock

    tls, at_once = tls_context(), asyncio.Semaphore(CONNECTS_AT_ONCE)

    async def one(proxy: Proxy) -> tuple[str, str] | None:
        async with at_once:
            try:
                async with asyncio.timeout(CONNECT_S):
                    await knock(proxy, tls)
            except ProxyHopError as error:
                return proxy.id, str(error)
            except TimeoutError:
                return proxy.id, f"no connection to it within {CONNECT_S:g} s"
            return None

    return [failed for failed in await asyncio.gather(*map(one, proxies)) if failed is not None]


def known_host(found: Mapping[str, Mapping[str, Health]], host: str | None) -> None:
    if host is not None and host not in found:
        raise NotFoundError(f"no proxy has been used for {host!r}")

"""`scraper proxies …`: shows the health of proxies, and checks the proxy list.

Never prints a proxy's address or login, only its id.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from scraper.cli.common.shared import json_option, load_settings, open_redis, print_json
from scraper.cli.common.tables import format_span, print_table
from scraper.errors import ConfigError, NotFoundError, ScraperError
from scraper.http.transport.aiohttp_transport import tls_context
from scraper.http.transport.tunnel import ProxyHopError, probe_proxy
from scraper.infra.secret_files import readable_by_all
from scraper.proxies import file
from scraper.proxies.health import EVERYWHERE, read_all_stats
from scraper.rules.proxies import NO_STATS, Proxy, ProxyStats

CONNECTS_AT_ONCE = 50
CONNECT_S = 10.0
COLUMNS = [
    "proxy", "class", "region", "weight", "state", "requests", "success", "latency",
    "quarantined at",
]  # fmt: skip

# By host, by proxy.
Healths = Mapping[str, Mapping[str, ProxyStats]]


@click.group(invoke_without_command=True)
@click.option(
    "--host", metavar="HOST", type=str.lower, help="Only at this host, with its port if it has one."
)
@json_option("array")
@click.pass_context
def proxies(ctx: click.Context, host: str | None, as_json: bool) -> None:
    """Show each proxy's health, and at which hosts it rests.

    Proxies are shown by id, without address or login.
    """
    if ctx.invoked_subcommand is not None:
        return
    settings = load_settings()
    with open_redis(settings) as client:
        healths = read_all_stats(client)
    if host is not None and host not in healths:
        raise NotFoundError(f"no proxy has been used for {host!r}")
    listed = file.read_proxies(settings.proxy_list) if settings.proxy_list else []
    rows = _as_json(listed, healths, host)
    if as_json:
        print_json(rows)
    elif rows:
        print_table(COLUMNS, [_proxy_cells(row) for row in rows])
    else:
        click.echo("no proxies: the list is empty, and none was used before")


@proxies.command("check")
@click.option(
    "--connect", is_flag=True, help="Connect to each proxy; exit 1 if one does not answer."
)
@json_option()
def proxies_check(connect: bool, as_json: bool) -> None:
    """Check the list of proxies: every mistake, with its line."""
    path = load_settings().proxy_list
    if path is None:
        raise ConfigError("PROXY_LIST is not set (fix: set it to a file with one URL a line)")
    listed = file.read_proxies(path)
    if readable_by_all(path):
        click.echo(
            f"{path}: warning: every user of this machine can read it (fix: chmod 600 {path})",
            err=True,
        )
    failures = asyncio.run(_find_failures(listed)) if connect else []
    if as_json:
        pools = Counter((proxy.pool, proxy.region) for proxy in listed)
        counts = [
            {"pool": pool, "region": region, "count": n} for (pool, region), n in pools.items()
        ]
        faults = [{"proxy": proxy_id, "reason": reason} for proxy_id, reason in failures]
        print_json({"proxies": len(listed), "pools": counts, "failed": faults})
    else:
        click.echo(f"{len(listed)} prox{'y' if len(listed) == 1 else 'ies'}, no errors")
        names = Counter(f"{proxy.pool} in {proxy.region or 'any region'}" for proxy in listed)
        for name, count in sorted(names.items()):
            click.echo(f"{count:>6} {name}")
        for proxy_id, reason in failures:
            click.echo(f"{proxy_id}: {reason}", err=True)
        if connect and not failures:
            click.echo(f"all {len(listed)} answer")
    if failures:
        raise ScraperError(f"{len(failures)} of {len(listed)} proxies do not answer")


async def _find_failures(listed: Sequence[Proxy]) -> list[tuple[str, str]]:
    """Finds the proxies that cannot be connected to (an https proxy with TLS), with the reasons.
    Logins are not tried, since that would take a request to some host."""
    tls, at_once = tls_context(), asyncio.Semaphore(CONNECTS_AT_ONCE)

    async def connect(proxy: Proxy) -> tuple[str, str] | None:
        async with at_once:
            try:
                async with asyncio.timeout(CONNECT_S):
                    await probe_proxy(proxy, tls)
            except ProxyHopError as error:
                return proxy.id, str(error)
            except TimeoutError:
                return proxy.id, f"no connection to it within {CONNECT_S:g} s"
            return None

    results = await asyncio.gather(*map(connect, listed))
    return [result for result in results if result is not None]


def _as_json(listed: Sequence[Proxy], healths: Healths, host: str | None) -> list[dict[str, Any]]:
    """Returns one object for each proxy; those that only Redis has come last. Times are seconds
    from now."""
    by_id = {proxy.id: proxy for proxy in listed}
    ids = dict.fromkeys([*by_id, *(id_ for at_host in healths.values() for id_ in at_host)])
    rows = []
    for proxy_id in ids:
        hosts = {
            name: at_host[proxy_id]
            for name, at_host in healths.items()
            if name != EVERYWHERE and proxy_id in at_host and host in (None, name)
        }
        if host is None or proxy_id in by_id or hosts:
            whole = healths.get(EVERYWHERE, {}).get(proxy_id, NO_STATS)
            rows.append(_proxy_json(proxy_id, by_id.get(proxy_id), whole, hosts))
    return rows


def _proxy_json(
    proxy_id: str, proxy: Proxy | None, whole: ProxyStats, hosts: Mapping[str, ProxyStats]
) -> dict[str, Any]:
    answered = sum(health.answered for health in hosts.values())
    failed = sum(health.failed for health in hosts.values())
    if proxy is None:
        state = "not listed"
    elif whole.free_at > 0:
        state = "dead"
    else:
        resting = any(health.free_at > 0 for health in hosts.values())
        state = "quarantine" if resting else "free"
    return {
        "id": proxy_id,
        "class": proxy.pool if proxy else proxy_id.split("-")[0],
        "region": proxy.region if proxy else None,
        "weight": proxy.weight if proxy else None,
        "state": state,
        "why": whole.why if whole.free_at > 0 else None,
        "free_in_s": round(whole.free_at, 1) if whole.free_at > 0 else 0,
        "requests": sum(health.requests for health in hosts.values()),
        "answered": answered,
        "failed": failed,
        "success": round(answered / (answered + failed), 4) if answered + failed else None,
        "latency_s": _mean_latency(hosts),
        "hosts": [_host_json(name, health) for name, health in sorted(hosts.items())],
    }


def _host_json(name: str, health: ProxyStats) -> dict[str, Any]:
    return {
        "host": name,
        "requests": health.requests,
        "answered": health.answered,
        "failed": health.failed,
        "recent_success": round(health.success, 4),
        "latency_s": round(health.latency_s, 3) or None,
        "strikes": health.strikes,
        "quarantine_s": round(health.free_at, 1) if health.free_at > 0 else 0,
        "why": health.why or None,
    }


def _mean_latency(hosts: Mapping[str, ProxyStats]) -> float | None:
    timed = [health for health in hosts.values() if health.latency_s]
    answered = sum(health.answered for health in timed)
    if not answered:
        return None
    return round(sum(health.latency_s * health.answered for health in timed) / answered, 3)


def _proxy_cells(row: Mapping[str, Any]) -> list[str]:
    resting = [
        f"{h['host']} ({h['why']}, {format_span(h['quarantine_s'])})"
        for h in row["hosts"]
        if h["quarantine_s"]
    ]
    state = row["state"]
    return [
        row["id"],
        row["class"],
        row["region"] or "any",
        "" if row["weight"] is None else f"{row['weight']:g}",
        f"dead ({row['why']}, {format_span(row['free_in_s'])})" if state == "dead" else state,
        f"{row['requests']:,}",
        "" if row["success"] is None else f"{row['success']:.0%}",
        "" if row["latency_s"] is None else f"{row['latency_s']:.2f} s",
        ", ".join(resting),
    ]

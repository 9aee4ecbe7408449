"""`scraper host …`: shows, limits, pauses and resumes hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click
import sqlalchemy as sa

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import (
    json_option,
    load_settings,
    open_redis,
    parsed_by,
    print_json,
    print_paused,
)
from scraper.cli.common.tables import print_table
from scraper.cli.crawl.screen import host_levels
from scraper.frontier import hosts
from scraper.infra.database import run_transaction
from scraper.sites.grammar.scalars import check_host, parse_rate
from scraper.views import host_states
from scraper.views.host_states import HostState

T = TypeVar("T")

COLUMNS = [
    "host", "rate", "at once", "burst", "pace", "in flight", "next", "due", "later", "leased",
    "state", "sites",
]  # fmt: skip

host_argument = click.argument("host", callback=parsed_by(check_host))


def _check_rate(text: str) -> str:
    parse_rate(text)
    return text


@click.group()
def host() -> None:
    """Show hosts and their limits; pause, resume and limit them."""


@host.command("list")
@click.argument("host", required=False, callback=parsed_by(check_host))
@json_option("array")
def host_list(host: str | None, as_json: bool) -> None:
    """Show hosts with open pages, or HOST: limit, pace, requests in flight, rests, due pages."""
    with open_engine().connect() as connection, open_redis(load_settings()) as client:
        states = host_states.read_states(connection, client, host)
    if as_json:
        print_json(states)
    elif states:
        print_table(COLUMNS, [_host_cells(state) for state in states])
    else:
        click.echo("no host has open pages, a pause or a limit")


@host.command("pause")
@host_argument
@json_option()
def host_pause(host: str, as_json: bool) -> None:
    """Pause HOST: send it no requests until it is resumed. Takes effect within seconds. Its pages
    wait without being charged."""
    _set_paused(host, paused=True, as_json=as_json)


@host.command("resume")
@host_argument
@json_option()
def host_resume(host: str, as_json: bool) -> None:
    """End a host's pause."""
    _set_paused(host, paused=False, as_json=as_json)


@host.command("set")
@host_argument
@click.option(
    "--rate",
    callback=parsed_by(_check_rate),
    metavar="RATE",
    help="Requests by the whole fleet: 30/m, 2/s, unlimited.",
)
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Requests at once.")
@click.option("--burst", type=click.IntRange(1, 1000), help="Requests in a row after a pause.")
@click.option("--reset", is_flag=True, help="Remove the limit that was set.")
@json_option()
def host_set(
    host: str,
    rate: str | None,
    concurrency: int | None,
    burst: int | None,
    reset: bool,
    as_json: bool,
) -> None:
    """Set the rate limit of HOST, which replaces those of site definitions until it is reset. Takes
    effect within seconds.

    It may be higher or lower. A Crawl-delay in robots.txt still applies.
    """
    if rate is None and concurrency is None and burst is None and not reset:
        raise click.UsageError("say what: --rate, --concurrency, --burst or --reset")

    def set_budget(connection: sa.Connection) -> None:
        hosts.set_budget(
            connection, host, rate=rate, concurrency=concurrency, burst=burst, reset=reset
        )

    _change_host(host, set_budget)
    values = {"rate": rate, "concurrency": concurrency, "burst": burst}
    if as_json:
        print_json({"host": host, **values})
        return
    budget = ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)
    click.echo(f"{host}: {budget or 'as the site definitions say'}")


def _set_paused(host: str, *, paused: bool, as_json: bool) -> None:
    changed = _change_host(
        host, lambda connection: hosts.set_paused(connection, host, paused=paused)
    )
    print_paused("host", host, paused=paused, changed=changed, as_json=as_json)


def _change_host(host: str, change: Callable[[sa.Connection], T]) -> T:
    result, is_known = run_transaction(
        open_engine(), lambda connection: (change(connection), hosts.is_known(connection, host))
    )
    if not is_known:
        click.echo(
            f"{host} has no pages yet; hosts are written as in `scraper host list`, with the port",
            err=True,
        )
    return result


def _host_cells(host: HostState) -> list[str]:
    rate = f"{host.rate_per_s:.3g}/s" if host.rate_per_s else "unlimited"
    pace = f" ({host.pace_per_s:.2g}/s)" if host.pace_per_s else ""
    return [
        host.host,
        # Without open pages, only what was set by hand limits a host.
        rate if host.concurrency or "rate" in host.override else "",
        str(host.concurrency or ""),
        str(host.burst or ""),
        f"{host.pace:.0%}{pace}" if host.pace < 1 else "",
        str(host.in_flight),
        "" if host.next_slot_s is None else f"{host.next_slot_s:.1f} s",
        f"{host.due:,}",
        f"{host.later:,}",
        f"{host.leased:,}",
        _state_text(host),
        " ".join(host.sites),
    ]


def _state_text(host: HostState) -> str:
    parts = ["paused"] if host.paused else []
    if host.rests_s is not None:
        parts.append(f"rests {host.rests_s:.0f} s ({host.why})")
    parts += host_levels(host)
    if host.override:
        parts.append("set by hand")
    return ", ".join(parts)

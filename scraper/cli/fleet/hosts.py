"""`scraper host …`: budgets, pauses, and what blocks have led to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper.cli.common.shared import load_settings, open_engine, print_json

if TYPE_CHECKING:
    pass


@click.group()
def host() -> None:
    """Hosts: how fast they are asked and why; pause, resume, and set their budget."""


def _host(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    from scraper.sites.grammar.scalars import check_host

    try:
        return None if value is None else check_host(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _rate(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    from scraper.sites.grammar.scalars import per_second

    try:
        if value is not None:
            per_second(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


@host.command("list")
@click.argument("host", required=False, callback=_host)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def host_list(host: str | None, as_json: bool) -> None:
    """Show hosts with open pages, or HOST: budget, pace, requests under way, rests, what is due."""
    from scraper.cli.fleet import hosts_command

    found = hosts_command.read(open_engine(), load_settings(), host)
    if as_json:
        print_json([hosts_command.as_json(state) for state in found])
    else:
        hosts_command.print_states(found)


@host.command("pause")
@click.argument("host", callback=_host)
def host_pause(host: str) -> None:
    """Ask HOST for nothing until it is resumed; effective within seconds. Its pages wait, and pay
    nothing."""
    from scraper.cli.fleet import hosts_command

    hosts_command.pause(open_engine(), host, paused=True)


@host.command("resume")
@click.argument("host", callback=_host)
def host_resume(host: str) -> None:
    """End a host's pause."""
    from scraper.cli.fleet import hosts_command

    hosts_command.pause(open_engine(), host, paused=False)


@host.command("set")
@click.argument("host", callback=_host)
@click.option(
    "--rate",
    callback=_rate,
    metavar="RATE",
    help="Requests by the whole fleet: 30/m, 2/s, unlimited.",
)
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Requests at once.")
@click.option(
    "--burst", type=click.IntRange(1, 1000), help="Requests right after each other after a pause."
)
@click.option("--reset", is_flag=True, help="Take back what was set before.")
def host_set(
    host: str, rate: str | None, concurrency: int | None, burst: int | None, reset: bool
) -> None:
    """Set the budget of HOST above what site definitions say; effective within seconds, until it is
    reset.

    It may be higher or lower. A Crawl-delay in robots.txt counts all the same.
    """
    from scraper.cli.fleet import hosts_command

    if rate is None and concurrency is None and burst is None and not reset:
        raise click.UsageError("say what: --rate, --concurrency, --burst or --reset")
    hosts_command.set_budget(
        open_engine(), host, rate=rate, concurrency=concurrency, burst=burst, reset=reset
    )

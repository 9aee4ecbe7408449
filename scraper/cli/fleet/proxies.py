"""`scraper proxies …`: their health, and whether the list is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper.cli.common.shared import load_settings, print_json

if TYPE_CHECKING:
    pass


@click.group(invoke_without_command=True)
@click.option(
    "--host",
    metavar="HOST",
    type=str.lower,
    help="At that host alone, with its port if it has one.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.pass_context
def proxies(ctx: click.Context, host: str | None, as_json: bool) -> None:
    """Show the proxies' health and cost in requests, and which rest at which host, and why.

    Proxies are named by ids, which show neither address nor login.
    """
    from scraper.cli.fleet import proxies_command as shown
    from scraper.proxies import file

    if ctx.invoked_subcommand is not None:
        return
    path = load_settings().proxy_list
    found = shown.known(load_settings())
    shown.known_host(found, host)
    told = shown.as_json(file.read(path) if path else [], found, host)
    if as_json:
        print_json(told)
    else:
        shown.print_proxies(told)


@proxies.command("check")
@click.option(
    "--connect", is_flag=True, help="Open a connection to each; exit 1 where one does not answer."
)
def proxies_check(connect: bool) -> None:
    """Check the list of proxies: every mistake, with its line."""
    from scraper.cli.fleet import proxies_command as shown

    shown.check(load_settings(), connect=connect)

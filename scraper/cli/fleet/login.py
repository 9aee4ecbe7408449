"""`scraper login …`: which accounts are logged in, whether a login works, and how to forget one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper.cli.common.shared import load_settings, print_json
from scraper.errors import LoginFailedError

if TYPE_CHECKING:
    pass


@click.group()
def login() -> None:
    """Accounts: who is logged in, who cannot and why. They go by their names, and show nothing of
    what is secret."""


@login.command("list")
@click.argument("site", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def login_list(site: str | None, as_json: bool) -> None:
    """Show the accounts of SITE, or of all sites with a login: since when they are logged in, or
    why not."""
    from scraper.cli.fleet import login_command as shown

    told = shown.accounts(load_settings(), site)
    if as_json:
        print_json(told)
    else:
        shown.print_accounts(told)


@login.command("check")
@click.argument("site")
@click.argument("account", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def login_check(site: str, account: str | None, as_json: bool) -> None:
    """Log the accounts of SITE in, or ACCOUNT alone, and say what was seen; exit 1 where one does
    not get in.

    It is a login like any other: where it works, workers use it, and an account in quarantine is
    free again.
    """
    from scraper.cli.fleet import login_command as shown

    told = shown.check(load_settings(), site, account)
    if as_json:
        print_json(told)
    else:
        shown.print_attempts(told)
    failed = [one["account"] for one in told if not one["worked"]]
    if failed:
        raise LoginFailedError(f"{site}: not logged in: {', '.join(failed)}")


@login.command("forget")
@click.argument("site")
@click.argument("account", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def login_forget(site: str, account: str | None, as_json: bool) -> None:
    """Forget the logins of SITE's accounts, or ACCOUNT's alone: its cookies, its failures, its
    quarantine.

    Workers that have it in use log in again within seconds.
    """
    from scraper.cli.fleet import login_command as shown

    forgotten = shown.forget(load_settings(), site, account)
    if as_json:
        print_json({"site": site, "forgotten": forgotten})
    else:
        click.echo(
            f"{site}: forgotten: {', '.join(forgotten) if forgotten else 'nothing, there was none'}"
        )

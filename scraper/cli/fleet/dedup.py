"""`scraper dedup …`: what a site's Bloom filter holds, and forgetting it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper.cli.common.shared import load_settings, open_engine, print_json

if TYPE_CHECKING:
    pass


@click.group()
def dedup() -> None:
    """Sites with `dedup: bloom`: what is remembered of their finished pages."""


@dedup.command("show")
@click.argument("site")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def dedup_show(site: str, as_json: bool) -> None:
    """Show the filter of SITE: generations, URLs, keys, memory, and how often it is wrong."""
    from scraper.cli.fleet import dedup_command as shown

    state = shown.read(open_engine(), load_settings(), site)
    if as_json:
        print_json(shown.as_json(state))
    else:
        shown.print_state(state)


@dedup.command("reset")
@click.argument("site")
def dedup_reset(site: str) -> None:
    """Forget which pages of SITE were fetched: its next crawl fetches all of them. A crawl that
    runs keeps what it knows."""
    from scraper.cli.fleet import dedup_command as shown

    shown.reset(open_engine(), load_settings(), site)

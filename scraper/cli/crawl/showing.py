"""`scraper status`: a glance printed once. One screen for people; elsewhere each part under its
name, tab-separated."""

from __future__ import annotations

import sys

import click
from rich.console import Console

from scraper.cli.crawl.screen import Screen, parts
from scraper.infra.tables import print_table
from scraper.views.glance import Glance

# the shell's, so that the first line stays in sight
PROMPT_LINES = 2


def print_glance(found: Glance, *, whole: bool) -> None:
    if sys.stdout.isatty():
        console = Console()
        height = None if whole else console.size.height - PROMPT_LINES
        console.print(Screen(found, height=height))
        return
    for number, part in enumerate(parts(found)):
        if number:
            click.echo()
        click.echo(f"# {part.title}" + (f"  {part.note}" if part.note else ""))
        if part.rows:
            titles = [column.title or "bar" for column in part.columns]
            print_table(titles, [[str(cell) for cell in row] for row in part.rows])

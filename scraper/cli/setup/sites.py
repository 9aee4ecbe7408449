"""`scraper sites …`: checks and shows definitions; pauses, resumes and deletes sites."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import sqlalchemy as sa

from scraper.actions import deletion, overrides
from scraper.cli.common.definitions import definition_file
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import (
    complete_site,
    json_option,
    load_settings,
    print_json,
    print_paused,
)
from scraper.cli.common.tables import format_span
from scraper.cli.setup.sites_group import sites
from scraper.errors import ConfigError, DefinitionError, NotFoundError, ScraperError
from scraper.quality import report as reports
from scraper.registry import installed_hooks, plugin_hooks
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.views import named_sites
from scraper.views import products as view

# The size of a site that was never crawled is unknown: this one serves as an example.
UNKNOWN_PAGES = 1000


@sites.command("check")
@click.argument("files", metavar="[FILES|NAMES]...", nargs=-1)
@json_option("array")
def sites_check(files: tuple[str, ...], as_json: bool) -> None:
    """Validate definitions: report every error with its line, its key and a fix. Checks sites/
    unless files or names of sites are given."""
    settings = load_settings()
    folder = settings.sites_dir
    named = [definition_file(folder, word) for word in files]
    paths = loader.list_files(named) or loader.list_definition_files(folder)
    if not paths:
        raise NotFoundError(f"no definitions in {folder}/ (write one, or set SCRAPER_SITES)")
    problems = find_problems(paths, settings)
    if as_json:
        print_json(problems)
        if problems:
            raise SystemExit(DefinitionError.exit_code)
    if problems:
        raise DefinitionError(problems)
    sites_of = {path: loader.load_file(path) for path in paths}
    history = _read_history([site.name for site in sites_of.values()])
    for path, site in sites_of.items():
        for warning in (*loader.find_warnings(site), *history.contradictions.get(site.name, ())):
            click.echo(f"{path}: warning: {warning}", err=True)
    for site in sites_of.values():
        if site.rate_per_s is not None:
            text = _duration_text(site, site.rate_per_s, history.pages.get(site.name))
            # Standard output has the problems alone as JSON.
            click.echo(text, err=as_json)
    checked = f"{len(paths)} definition{'s' if len(paths) != 1 else ''} checked, no errors"
    click.echo(checked, err=as_json)


class _CrawlHistory(NamedTuple):
    """By site, what its newest crawl found to contradict a selector, and the number of pages of its
    newest complete crawl."""

    contradictions: dict[str, list[str]]
    pages: dict[str, int]


def _read_history(names: Sequence[str]) -> _CrawlHistory:
    """Reads the sites' crawls; returns empty mappings without a database."""
    try:
        engine = open_engine()
    except ScraperError:
        return _CrawlHistory({}, {})
    contradictions: dict[str, list[str]] = {}
    with engine.connect() as connection:
        for name in names:
            try:
                crawl = reports.read_report(connection, reports.newest_crawl(connection, name))
            except NotFoundError:
                continue
            texts = [f"{text}, in crawl {crawl.crawl_id}" for text in crawl.contradictions]
            contradictions[name] = texts
        return _CrawlHistory(contradictions, named_sites.last_sizes(connection, names))


def _duration_text(site: Site, rate_per_s: float, pages: int | None) -> str:
    limits = site.limits
    if pages is not None:
        text = f"the {pages:,} pages of its last complete crawl take about"
    elif limits.model_fields_set >= {"listings", "products"}:
        pages = limits.listings + limits.products
        text = f"no complete crawl yet; {pages:,} pages (its limits) take"
    else:
        pages = UNKNOWN_PAGES
        text = f"no complete crawl yet; {pages:,} pages would take"
    return f"{site.name}: {text} {format_span(pages / rate_per_s)} at {site.rate} a host"


def find_problems(paths: Sequence[Path], settings: Settings) -> list[str]:
    """Returns all that is wrong in these definitions, a line for each problem."""

    def check_by_plugins(site: Site) -> list[tuple[str, str]]:
        return [row for hook in plugin_hooks().values() for row in hook.check_site(site, settings)]

    return [
        *loader.check_files(paths),
        *loader.check_functions(paths, settings.site_function_modules),
        *loader.check_sites(paths, check_by_plugins),
        *loader.check_sites(paths, loader.find_skipped_crawls),
    ]


@sites.command("list")
@json_option("array")
def sites_list(as_json: bool) -> None:
    """Show the definitions in sites/."""
    folder = load_settings().sites_dir
    if not folder.is_dir():
        raise NotFoundError(f"the folder {folder}/ is missing; `scraper init` makes one")
    definitions = loader.load_folder(folder)
    if as_json:
        print_json([site.model_dump(mode="json") for site in definitions])
        return
    for site in definitions:
        schedule = f"{site.schedule} ({site.timezone})" if site.schedule else "by hand"
        state = "" if site.enabled else "  disabled"
        start = site.starts[0]
        click.echo(f"{site.name:<20} {site.queue:<12} {schedule:<28} {start}{state}")


@sites.command("pause")
@click.argument("name", shell_complete=complete_site)
@json_option()
def sites_pause(name: str, as_json: bool) -> None:
    """Pause a site: fetch nothing until it is resumed. Takes effect within seconds.

    A running crawl keeps its pages and continues later. Slots that come due during the pause are
    not made up.
    """
    _set_paused(name, paused=True, as_json=as_json)


@sites.command("resume")
@click.argument("name", shell_complete=complete_site)
@json_option()
def sites_resume(name: str, as_json: bool) -> None:
    """End a site's pause."""
    _set_paused(name, paused=False, as_json=as_json)


@sites.command("delete")
@click.argument("name", shell_complete=complete_site)
@click.option(
    "--where",
    metavar="CONDITION",
    multiple=True,
    help="Only products that match: 'price<1', 'title~test'. Several must all match.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@json_option()
def sites_delete(
    name: str, where: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Delete a site and all its data: products with their history and feed entries, pages, archive,
    crawls.

    Delete its definition first, or the site would return. Asks on a terminal. With --where, deletes
    only these products (delisted ones too), with their history and changes; a crawl that finds them
    again stores them as new.
    """
    settings = load_settings()
    conditions = [view.parse_condition(text) for text in where]
    engine = open_engine()
    with engine.connect() as connection:
        _, counts = deletion.count_rows(connection, name)
        chosen = view.row_ids(connection, name, conditions) if where else []
    if where:
        counts = {"products": len(chosen)}
    deleted_rows = ", ".join(f"{rows:,} {what}" for what, rows in counts.items())
    if not dry_run:
        if not where:
            _require_undefined(settings.sites_dir, name)
        if not yes and not sys.stdin.isatty():
            raise click.UsageError(f"{name} has {deleted_rows}: say --yes to delete them")
        if not yes:
            click.confirm(f"delete {name} with {deleted_rows}?", abort=True, err=True)
        if where:
            deletion.delete_products(engine, name, chosen)
        else:
            _delete_whole(engine, settings, name, _print_progress(counts))
    if as_json:
        print_json({"site": name, "deleted": not dry_run, **counts})
    else:
        click.echo(f"{name}: {deleted_rows} {'would be ' if dry_run else ''}deleted")


def _delete_whole(
    engine: sa.Engine, settings: Settings, name: str, progress: deletion.Progress
) -> None:
    site_id = deletion.delete_site(engine, name, progress)
    for hooks in installed_hooks().values():
        hooks.forget_site(settings, site_id, name)


def _require_undefined(folder: Path, name: str) -> None:
    for path in loader.list_definition_files(folder):
        if name in loader.guess_names(path):
            raise ConfigError(
                f"{path} defines {name}, so the site would return (fix: delete that file first)"
            )


def _print_progress(counts: Mapping[str, int]) -> deletion.Progress:
    """Returns a callback that prints the progress of large deletions on a terminal."""
    done: Counter[str] = Counter()

    def progress(what: str, rows: int) -> None:
        done[what] += rows
        # A plug-in may count several kinds of rows, or none.
        total = counts.get(what, 0)
        if sys.stderr.isatty() and total > deletion.BATCH:
            click.echo(f"{what}: {done[what]:,} of {total:,}", err=True)

    return progress


def _set_paused(name: str, *, paused: bool, as_json: bool) -> None:
    changed = overrides.set_paused(open_engine(), name, paused=paused)
    print_paused("site", name, paused=paused, changed=changed, as_json=as_json)

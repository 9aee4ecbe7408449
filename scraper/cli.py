"""The `scraper` command. Each command is thin: read the arguments, call one module, print. Heavy imports are inside.

Exit codes: 0 done; 1 something went wrong that can be mended; 2 wrong usage, definition or setting; 3 a server does not
answer; 4 a crawl that was waited for did not complete; 130 interrupted.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from scraper.domain import Blame, Outcome, Status
from scraper.errors import DefinitionError, NotFoundError, ScraperError, ServerUnavailableError

if TYPE_CHECKING:
    import sqlalchemy as sa

    from scraper.settings import Settings
    from scraper.sites.definition import Site
    from scraper.stores.dead import Selection

# What a page can be dead or invalid for.
UNUSABLE = [
    outcome.value
    for outcome in Outcome
    if outcome.blame not in (Blame.NOBODY, Blame.PROXY) and outcome not in (Outcome.NOT_FOUND, Outcome.DEFERRED)
]
STEERING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")  # orjson escapes what is below


class Command(click.Group):
    """Prints our own errors as one message and exits with their code; everything else is a bug and keeps its trace."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ScraperError as error:
            click.echo(f"scraper: {error}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            sys.stderr.close()
            ctx.exit(0)
        except Exception as error:
            from sqlalchemy.exc import OperationalError  # imported when it is too late for speed to matter

            if not isinstance(error, OperationalError):
                raise
            click.echo(f"scraper: PostgreSQL stopped answering: {str(error.orig).strip().splitlines()[0]}", err=True)
            ctx.exit(ServerUnavailableError.exit_code)


@click.group(cls=Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="scraper")
def main() -> None:
    """Crawls shop catalogues: polite, leased, exactly once into PostgreSQL.

    \b
    First steps:  scraper up                     start the servers (or set DATABASE_URL and REDIS_URL)
                  scraper sites check            are the definitions in sites/ right?
                  scraper crawl NAME --wait      crawl one, with progress
                  scraper export NAME --format csv
    """
    sys.path.append(os.getcwd())  # where definitions name Python functions, as `celery -A` does


def _settings() -> Settings:
    from scraper import settings

    return settings.load()


def _engine() -> sa.Engine:
    """The database, known to answer and to be migrated."""
    from scraper import migrations, servers
    from scraper.stores.database import make_engine

    settings = _settings()
    servers.require_postgres(settings)
    engine = make_engine(settings.postgres_url)
    migrations.require_current(engine)
    return engine


def _print_json(value: Any) -> None:
    """As JSON of the same meaning that does not steer a terminal, whatever a shop has sent."""
    from scraper.stores.database import dumps

    click.echo(STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", dumps(value)))


@main.command()
def up() -> None:
    """Start the embedded servers in the background and apply migrations.

    With DATABASE_URL and REDIS_URL set, starts nothing: checks that they answer, and migrates.
    """
    from scraper import embedded, flower_login, migrations, servers
    from scraper.stores.database import make_engine

    settings = _settings()
    for state in embedded.up(settings):
        click.echo(f"{state.name}: running, {state.address}")
    servers.require_reachable(settings)
    revision = migrations.upgrade(make_engine(settings.postgres_url))
    click.echo(f"database: at revision {revision}")
    login = flower_login.get(settings)
    click.echo(f"flower: log in as {login.user}, password in {login.where}")


@main.command()
def down() -> None:
    """Stop the embedded servers. Their data stays."""
    from scraper import embedded

    for state in embedded.down(_settings()):
        click.echo(f"{state.name}: {'still running' if state.running else 'stopped'}")


@main.command()
def migrate() -> None:
    """Apply migrations to the database."""
    from scraper import migrations, servers
    from scraper.stores.database import make_engine

    settings = _settings()
    servers.require_postgres(settings)
    click.echo(f"database: at revision {migrations.upgrade(make_engine(settings.postgres_url))}")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open the database in psql; ARGUMENTS are psql's own, such as -c "SELECT …"."""
    from scraper import servers

    settings = _settings()
    servers.require_postgres(settings)
    servers.run_psql(settings, arguments)


@main.group()
def sites() -> None:
    """Look at the site definitions; pause and resume sites."""


@sites.command("check")
@click.argument("files", nargs=-1, type=click.Path())
def sites_check(files: tuple[str, ...]) -> None:
    """Validate definitions: every error of every file, with line, key and mend. Checks sites/ unless FILES are named."""
    from pathlib import Path

    from scraper.sites import loader

    paths = [Path(file) for file in files] or loader.definition_files(_settings().sites_dir)
    if not paths:
        raise NotFoundError(f"no definitions in {_settings().sites_dir}/ (write one, or set SCRAPER_SITES)")
    problems = [*loader.check(paths), *loader.check_functions(paths)]
    if problems:
        raise DefinitionError(problems)
    for path in paths:
        for warning in loader.warnings(loader.load_file(path)):
            click.echo(f"{path}: warning: {warning}", err=True)
    click.echo(f"{len(paths)} definition{'s' if len(paths) != 1 else ''} checked, no errors")


@sites.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def sites_list(as_json: bool) -> None:
    """Show the definitions in sites/."""
    from scraper.sites import loader

    found = loader.load_dir(_settings().sites_dir)
    if as_json:
        _print_json([site.model_dump(mode="json") for site in found])
        return
    for site in found:
        schedule = f"{site.schedule} ({site.timezone})" if site.schedule else "by hand"
        state = "" if site.enabled else "  disabled"
        start = [*site.start, *(site.sitemap.urls if site.sitemap else ())][0]
        click.echo(f"{site.name:<20} {site.queue:<12} {schedule:<28} {start}{state}")


@sites.command("pause")
@click.argument("name")
def sites_pause(name: str) -> None:
    """Fetch nothing of a site until it is resumed; effective within seconds.

    A running crawl keeps its pages and goes on later. Slots of the schedule that come due meanwhile are not made up.
    """
    _set_paused(name, paused=True)


@sites.command("resume")
@click.argument("name")
def sites_resume(name: str) -> None:
    """End a site's pause."""
    _set_paused(name, paused=False)


def _set_paused(name: str, *, paused: bool) -> None:
    from scraper.stores import sites as store
    from scraper.stores.database import retried

    engine = _engine()

    def work() -> bool | None:
        with engine.begin() as connection:
            return store.pause(connection, name) if paused else store.resume(connection, name)

    changed = retried(work)
    if changed is None:
        raise NotFoundError(f"there is no site named {name!r} in the database; `scraper crawl {name}` brings it there")
    if paused:
        click.echo(f"{name}: paused" if changed else f"{name}: was paused already")
    else:
        click.echo(f"{name}: resumed" if changed else f"{name}: was not paused")


@sites.command("schema")
@click.option("-o", "--output", type=click.Path(dir_okay=False, writable=True), help="A file instead of the terminal.")
def sites_schema(output: str | None) -> None:
    """Print the JSON schema of a definition, for editors."""
    from scraper.sites import schema

    if output:
        schema.write_schema(output)
    else:
        click.echo(schema.schema_text(), nl=False)


@main.command()
@click.argument("site")
@click.option("--wait", is_flag=True, help="Show progress until it ends; exit 4 unless it completes.")
@click.option("--refetch", is_flag=True, help="Fetch every page, however recently it was fetched.")
@click.option(
    "--local", is_flag=True, help="With --wait: start workers here where none is running (embedded: default)."
)
def crawl(site: str, wait: bool, refetch: bool, local: bool) -> None:
    """Crawl SITE now.

    With --wait and the embedded servers, a coordinator and a worker are started for the crawl where none is running.
    """
    from scraper.commands import crawling

    settings = _settings()
    engine = _engine()
    opened = crawling.open_site(engine, settings, site, refetch=refetch)
    running = " was already running" if opened.already_running else " opened"
    click.echo(f"{site}: crawl {opened.crawl_id}{running}", err=True)
    if not wait:
        click.echo(opened.crawl_id)
        return
    crawling.wait_all(engine, settings, [opened.crawl_id], local=local or settings.embedded)


@main.command()
@click.argument("crawl_id", metavar="CRAWL", type=int)
def stop(crawl_id: int) -> None:
    """Stop a crawl now: what is not fetched yet is dropped."""
    from scraper import progress
    from scraper.stores import crawls
    from scraper.stores.database import retried

    engine = _engine()

    def work() -> bool:
        with engine.begin() as connection:
            return crawls.stop(connection, crawl_id, "stopped by hand")

    if not retried(work):
        found = progress.read_one(engine, crawl_id)
        raise NotFoundError(f"crawl {crawl_id} of {found.site} is not running: it is {found.status}")
    click.echo(f"crawl {crawl_id} stopped")


@main.command()
@click.argument("site", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.option("--limit", default=20, show_default=True, help="Crawls to show.")
def status(site: str | None, as_json: bool, limit: int) -> None:
    """Show running and recent crawls, of SITE or of all."""
    from scraper import progress
    from scraper.commands import tables
    from scraper.stores import crawls
    from scraper.stores import sites as store

    with _engine().connect() as connection:
        found = crawls.progress(connection, site=site, newest=limit)
        paused = store.paused(connection)
    if as_json:
        _print_json([progress.as_json(one) for one in found])
        return
    tables.print_crawls(found)
    if paused:
        click.echo(f"paused: {', '.join(paused)}", err=True)


@main.group()
def host() -> None:
    """Hosts: how fast they are asked and why; pause, resume, and set their budget."""


def _host(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    from scraper.sites.scalars import check_host

    try:
        return None if value is None else check_host(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _rate(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    from scraper.sites.scalars import per_second

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
    from scraper.commands import hosts

    found = hosts.read(_engine(), _settings(), host)
    if as_json:
        _print_json([hosts.as_json(state) for state in found])
    else:
        hosts.print_states(found)


@host.command("pause")
@click.argument("host", callback=_host)
def host_pause(host: str) -> None:
    """Ask HOST for nothing until it is resumed; effective within seconds. Its pages wait, and pay nothing."""
    from scraper.commands import hosts

    hosts.pause(_engine(), host, paused=True)


@host.command("resume")
@click.argument("host", callback=_host)
def host_resume(host: str) -> None:
    """End a host's pause."""
    from scraper.commands import hosts

    hosts.pause(_engine(), host, paused=False)


@host.command("set")
@click.argument("host", callback=_host)
@click.option("--rate", callback=_rate, metavar="RATE", help="Requests by the whole fleet: 30/m, 2/s, unlimited.")
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Requests at once.")
@click.option("--burst", type=click.IntRange(1, 1000), help="Requests right after each other after a pause.")
@click.option("--reset", is_flag=True, help="Take back what was set before.")
def host_set(host: str, rate: str | None, concurrency: int | None, burst: int | None, reset: bool) -> None:
    """Set the budget of HOST above what site definitions say; effective within seconds, until it is reset.

    It may be higher or lower. A Crawl-delay in robots.txt counts all the same.
    """
    from scraper.commands import hosts

    if rate is None and concurrency is None and burst is None and not reset:
        raise click.UsageError("say what: --rate, --concurrency, --burst or --reset")
    hosts.set_budget(_engine(), host, rate=rate, concurrency=concurrency, burst=burst, reset=reset)


@main.group()
def dead() -> None:
    """Dead and invalid pages: why, replayed, or dropped."""


def _age(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    from scraper.sites.scalars import seconds

    try:
        return None if value is None else seconds(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _selecting(command: Callable[..., None]) -> Callable[..., None]:
    """The filters that say which dead and invalid pages are meant."""
    for option in (
        click.option("--newer", "newer_s", metavar="AGE", callback=_age, help="Given up less than AGE ago."),
        click.option(
            "--older", "older_s", metavar="AGE", callback=_age, help="Given up longer than AGE ago, as in 30m, 12h, 7d."
        ),
        click.option(
            "--status", type=click.Choice([Status.DEAD.value, Status.INVALID.value]), help="One of the two only."
        ),
        click.option("--host", metavar="HOST", type=str.lower, help="Of that host, with its port if it has one."),
        click.option("--reason", metavar="OUTCOME", type=click.Choice(UNUSABLE), help="Given up for that outcome."),
    ):
        command = option(command)
    return command


@dead.command("list")
@click.argument("site", required=False)
@_selecting
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=0), help="Pages to show.")
@click.option("--summary", is_flag=True, help="Count them by site, reason and host instead.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def dead_list(site: str | None, limit: int, summary: bool, as_json: bool, **filters: Any) -> None:
    """Show dead and invalid pages, of SITE or of all, the latest first."""
    from scraper.commands import dead as shown
    from scraper.stores import dead as store

    with _engine().connect() as connection:
        selection = shown.selected(connection, site, **filters)
        found = store.summary(connection, selection) if summary else store.find(connection, selection, limit)
        total = store.total(connection, selection)
    if as_json:
        _print_json([shown.page_json(row) for row in found])
    elif not total:
        click.echo(shown.NOTHING)
    elif summary:
        shown.print_summary(found)
    else:
        shown.print_found(found, total)


@dead.command("show")
@click.argument("page")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def dead_show(page: str, as_json: bool) -> None:
    """Show all that is known of PAGE (an id, or a URL), and what to type next."""
    from scraper.commands import dead as shown
    from scraper.stores import dead as store

    with _engine().connect() as connection:
        row = store.read(connection, shown.page_id(connection, page))
    assert row is not None
    if as_json:
        _print_json(shown.page_json(row))
    else:
        shown.print_page(row)


def _acting(command: Callable[..., None]) -> Callable[..., None]:
    """What replay and drop have in common: they want to be told which pages are meant."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON array."),
        click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing."),
        click.option("--all", "everything", is_flag=True, help="All there are, or all that the filters let through."),
        _selecting,
        click.argument("words", metavar="[SITE] [PAGE]...", nargs=-1),
    ):
        command = option(command)
    return command


def _selection(engine: sa.Engine, words: tuple[str, ...], everything: bool, filters: dict[str, Any]) -> Selection:
    from scraper.commands import dead as shown

    if not (everything or words or any(value is not None for value in filters.values())):
        raise click.UsageError("say which pages are meant: a site, pages, a filter, or --all")
    site, pages = shown.site_and_pages(words)
    with engine.connect() as connection:
        return shown.selected(connection, site, pages, **filters)


@dead.command("replay")
@_acting
@click.option("--wait", is_flag=True, help="Show progress until their crawls end; exit 4 unless they complete.")
def dead_replay(
    words: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool, wait: bool, **filters: Any
) -> None:
    """Try dead and invalid pages again: those of SITE, certain PAGEs (ids or URLs), those a filter lets through.

    They join the site's running crawl, or one that is opened for them alone, which delists nothing.
    """
    from dataclasses import asdict

    from scraper import dead as step
    from scraper.commands import crawling
    from scraper.commands import dead as shown

    settings, engine = _settings(), _engine()
    selection = _selection(engine, words, everything, filters)
    done = step.outlook(engine, selection) if dry_run else shown.replay(engine, settings, selection)
    shown.tell_missing(selection, sum(one.pages for one in done))
    if as_json:
        _print_json([asdict(one) for one in done])
        shown.refuse(done)
    elif not done:
        click.echo(shown.NOTHING)
    else:
        shown.print_replayed(done, dry_run=dry_run)
    if wait and not dry_run:
        ids = [one.crawl_id for one in done if one.crawl_id is not None]
        crawling.wait_all(engine, settings, ids, local=settings.embedded, summary_to_stderr=as_json)


@dead.command("drop")
@_acting
def dead_drop(words: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool, **filters: Any) -> None:
    """Give dead and invalid pages up until a crawl finds them again. Products stay as they are."""
    from dataclasses import asdict

    from scraper import dead as step
    from scraper.commands import dead as shown

    engine = _engine()
    selection = _selection(engine, words, everything, filters)
    done = step.to_drop(engine, selection) if dry_run else step.drop(engine, selection)
    shown.tell_missing(selection, sum(one.pages for one in done))
    if as_json:
        _print_json([asdict(one) for one in done])
    elif not done:
        click.echo(shown.NOTHING)
    else:
        shown.print_dropped(done, dry_run=dry_run)


@main.group(invoke_without_command=True)
@click.option("--host", metavar="HOST", type=str.lower, help="At that host alone, with its port if it has one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.pass_context
def proxies(ctx: click.Context, host: str | None, as_json: bool) -> None:
    """Show the proxies' health and cost in requests, and which rest at which host, and why.

    Proxies are named by ids, which show neither address nor login.
    """
    from scraper.commands import proxies as shown
    from scraper.stores import proxy_file

    if ctx.invoked_subcommand is not None:
        return
    path = _settings().proxy_list
    found = shown.known(_settings())
    shown.known_host(found, host)
    told = shown.as_json(proxy_file.read(path) if path else [], found, host)
    if as_json:
        _print_json(told)
    else:
        shown.print_proxies(told)


@proxies.command("check")
@click.option("--connect", is_flag=True, help="Open a connection to each; exit 1 where one does not answer.")
def proxies_check(connect: bool) -> None:
    """Check the list of proxies: every mistake, with its line."""
    from scraper.commands import proxies as shown

    shown.check(_settings(), connect=connect)


@main.command()
@click.argument("site")
@click.option("--limit", default=20, show_default=True, help="Products to show.")
@click.option("--delisted", is_flag=True, help="Delisted ones too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def products(site: str, limit: int, delisted: bool, as_json: bool) -> None:
    """Show products of SITE."""
    from itertools import islice

    from scraper.commands import crawling, export, tables

    with _engine().connect() as connection:
        known = crawling.known_site(connection, site)
        table = export.read(connection, site, known, delisted=delisted)
        rows = list(islice(table.rows, limit))
    if as_json:
        _print_json(rows)
    else:
        tables.print_products(table.columns, rows)


@main.command()
@click.argument("site")
@click.argument("product_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def history(site: str, product_id: str, as_json: bool) -> None:
    """Show what a product of SITE has been, version by version."""
    from scraper.commands import crawling, tables
    from scraper.stores import products as store

    with _engine().connect() as connection:
        crawling.known_site(connection, site)
        versions = [tables.version_row(row) for row in store.history(connection, site, product_id)]
    if not versions:
        raise NotFoundError(f"{site} has no product {product_id!r}; `scraper products {site}` shows ids")
    if as_json:
        _print_json(versions)
    else:
        tables.print_history(versions)


@main.command()
@click.argument("site")
@click.option("--format", "form", type=click.Choice(["csv", "jsonl"]), default="jsonl", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="A file instead of the terminal.")
@click.option("--delisted", is_flag=True, help="Delisted products too.")
def export(site: str, form: str, output: str | None, delisted: bool) -> None:
    """Write the products of SITE as CSV or JSON lines, streamed, ordered by id."""
    from scraper.commands import crawling
    from scraper.commands import export as exporting

    with _engine().connect() as connection:
        known: Site = crawling.known_site(connection, site)
        table = exporting.read(connection, site, known, delisted=delisted)
        write = exporting.write_csv if form == "csv" else exporting.write_jsonl
        count = exporting.to_file(output, lambda out: write(table, out))
    click.echo(f"{count:,} products" + (f" written to {output}" if output else ""), err=True)


@main.command()
@click.option("--keep", is_flag=True, help="Leave servers, workers and Flower running afterwards.")
@click.option("--stop", "stop_", is_flag=True, help="Stop what an earlier --keep left running, servers included.")
@click.option("--products", default=1000, show_default=True, help="Size of the sample shop's catalogue.")
def demo(keep: bool, stop_: bool, products: int) -> None:
    """Crawl the bundled sample shop twice, through every real part, and show what was found."""
    from scraper import embedded
    from scraper.demo import show

    if stop_:
        click.echo(f"{show.stop_kept(_settings())} processes stopped")
        embedded.down(_settings())
        return
    show.run(_settings(), products=products, keep=keep)


if __name__ == "__main__":
    main()

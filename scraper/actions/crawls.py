"""A crawl asked for by hand: its definition taken over, the crawl opened, its messages sent, and
waited for."""

from __future__ import annotations

import sys
from collections.abc import Sequence, Set
from contextlib import ExitStack
from functools import partial

import click
import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.coordinator.plan import Opened
from scraper.domain import CrawlStatus
from scraper.errors import (
    CrawlFailedError,
    DefinitionError,
    NotFoundError,
    SuspectError,
)
from scraper.frontier import crawls, sites
from scraper.frontier.progress import Progress
from scraper.infra import servers
from scraper.rules.routing import COORDINATOR
from scraper.runtime import fleet
from scraper.runtime.fleet import LocalWorker
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.views import progress


def open_site(engine: sa.Engine, settings: Settings, name: str, *, refetch: bool) -> Opened:
    """Opens a crawl of a site by the newest definition, from sites/ if it is there, else the stored
    one."""
    from scraper.runtime.send import send

    site = from_files(settings, name)
    if site is not None:
        with engine.begin() as connection:
            sites.sync(connection, [site])
    servers.require_broker(settings)
    opened = plan.open_now(engine, name, refetch=refetch)
    send(opened.messages)
    return opened


def from_files(settings: Settings, name: str) -> Site | None:
    """The definition of that name under sites/, or None. A broken file is only an error where it
    may be the one meant."""
    return next(iter(all_from_files(settings, {name})), None)


def all_from_files(settings: Settings, names: Set[str]) -> list[Site]:
    """The definitions of those names that are under sites/. A broken file is only an error where it
    may be one of them."""
    found: dict[str, Site] = {}
    problems: list[str] = []
    for path in loader.definition_files(settings.sites_dir):
        if len(found) == len(names):
            return list(found.values())
        try:
            site = loader.load_file(path)
        except DefinitionError as error:
            if path.stem in names:
                raise
            problems += error.problems
            continue
        if site.name in names:
            found.setdefault(site.name, site)
    for problem in problems if len(found) < len(names) else ():
        click.echo(f"scraper: warning: {problem}", err=True)
    return list(found.values())


def known_site(connection: sa.Connection, name: str) -> Site:
    found = sites.find(connection, name)
    if found is None:
        raise NotFoundError(
            f"there is no site named {name!r} in the database; `scraper crawl {name}` brings it there"
        )
    return found[1]


def wait_all(
    engine: sa.Engine,
    settings: Settings,
    crawl_ids: Sequence[int],
    *,
    local: bool,
    summary_to_stderr: bool = False,
) -> None:
    """Shows crawls until each has ended, and what it came to. Raises `CrawlFailedError` unless all
    completed, `SuspectError` where the data of one is suspect."""
    failed, suspect = [], []
    for crawl_id in crawl_ids:
        try:
            ended = wait(engine, settings, crawl_id, local=local)
        except KeyboardInterrupt:
            click.echo(
                f"\nthe crawl goes on where workers run; `scraper stop {crawl_id}` ends it",
                err=True,
            )
            sys.exit(130)
        click.echo(progress.summary(ended), err=summary_to_stderr)
        if ended.status != CrawlStatus.COMPLETED:
            note = f": {ended.note}" if ended.note else ""
            failed.append(f"crawl {ended.id} of {ended.site} {ended.status}{note}")
        elif ended.suspect:
            suspect.append(
                f"crawl {ended.id} of {ended.site} is suspect; `scraper report {ended.id}` says why"
            )
    if failed:
        raise CrawlFailedError("\n".join([*failed, *suspect]))
    if suspect:
        raise SuspectError("\n".join(suspect))


def wait(engine: sa.Engine, settings: Settings, crawl_id: int, *, local: bool) -> Progress:
    """Shows a crawl until it ends. `local`: workers are started here for the queues that nobody
    serves."""
    with engine.connect() as connection:
        _, site = crawls.definition(connection, crawl_id)
    missing = {COORDINATOR, *site.wishes.queues} - fleet.served_queues()
    with ExitStack() as stack:
        alarm = None
        if missing and local:
            click.echo(
                f"nobody serves {', '.join(sorted(missing))}: starting workers for this crawl",
                err=True,
            )
            workers = stack.enter_context(fleet.local_workers(settings, missing))
            alarm = partial(_keep_running, workers)
        elif missing:
            for queue in sorted(missing):
                beat = " -B" if queue == COORDINATOR else ""
                click.echo(
                    f"nobody serves {queue}: type `celery -A scraper worker{beat} -Q {queue}`",
                    err=True,
                )
        return progress.follow(engine, crawl_id, alarm=alarm)


def _keep_running(workers: list[LocalWorker], _: Progress) -> None:
    for worker in workers:
        worker.keep_running()

"""Waits for crawls: shows a bar on a terminal, otherwise lines, and then each crawl's result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import click
import sqlalchemy as sa
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from sqlalchemy.exc import OperationalError

from scraper.cli.common.shared import print_json
from scraper.cli.common.tables import one_line
from scraper.domain import CrawlStatus
from scraper.errors import CrawlFailedError, SuspectError, quote_command
from scraper.frontier import crawls
from scraper.frontier.progress import CrawlProgress
from scraper.rules.routing import COORDINATOR
from scraper.runtime import fleet
from scraper.runtime.fleet import LocalWorker
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.views import crawl_progress as views

POLL_S = 0.5
AWAY_S = 60.0
# The pause between two checks for queues that have lost their workers.
CHECK_S = 5.0
# After this long without a fetched page, the last error is printed.
NOTHING_FETCHED_S = 10.0

Show = Callable[[CrawlProgress], None]


def wait_all(
    engine: sa.Engine,
    settings: Settings,
    crawl_ids: Sequence[int],
    *,
    local: bool,
    summary_to_stderr: bool = False,
    as_json: bool = False,
) -> None:
    """Shows each crawl until it has ended, then its result. Raises `CrawlFailedError` unless all
    completed, and `SuspectError` if one is suspect."""
    failed, suspect = [], []
    for crawl_id in crawl_ids:
        try:
            crawl = _wait_for_crawl(engine, settings, crawl_id, local=local)
        except KeyboardInterrupt:
            click.echo(
                f"\nthe crawl goes on where workers run; `scraper stop {crawl_id}` ends it",
                err=True,
            )
            sys.exit(130)
        click.echo(views.summarize_crawl(crawl), err=summary_to_stderr or as_json)
        if as_json:
            print_json(views.as_json(crawl))
        name = f"crawl {crawl.id} of {crawl.site}"
        if crawl.status != CrawlStatus.COMPLETED:
            failed.append(f"{name} {crawl.status}" + (f": {crawl.note}" if crawl.note else ""))
        elif crawl.suspect:
            suspect.append(f"{name} is suspect; `scraper report {crawl.id}` says why")
    if failed:
        raise CrawlFailedError("\n".join([*failed, *suspect]))
    if suspect:
        raise SuspectError("\n".join(suspect))


def _wait_for_crawl(
    engine: sa.Engine, settings: Settings, crawl_id: int, *, local: bool
) -> CrawlProgress:
    """Shows a crawl until it ends. `local`: starts workers here for queues without a worker."""
    with engine.connect() as connection:
        site = Site.model_validate(crawls.read_definition(connection, crawl_id).definition)
    queues = {COORDINATOR, *site.routing_preferences.queues}
    if local:
        with _OwnWorkers(settings, queues) as own:
            return follow_crawl(engine, crawl_id, check=own.check)
    for queue in sorted(fleet.find_unserved(settings, queues)):
        beat = " -B" if queue == COORDINATOR else ""
        command = quote_command(f"celery -A scraper worker{beat} -Q", queue)
        click.echo(f"no worker serves {queue}: type `{command}`", err=True)
    return follow_crawl(engine, crawl_id)


class _OwnWorkers(ExitStack):
    """Workers for the queues that no other worker serves. Those of another command end with it, so
    `check` looks again now and then, and starts workers for what they leave."""

    def __init__(self, settings: Settings, queues: set[str]) -> None:
        super().__init__()
        self._settings = settings
        self._foreign = queues
        self._workers: list[LocalWorker] = []
        self._checked_at = float("-inf")

    def check(self) -> None:
        for worker in self._workers:
            worker.keep_running()
        if not self._foreign or time.monotonic() - self._checked_at < CHECK_S:
            return
        if missing := fleet.find_unserved(self._settings, self._foreign):
            names = ", ".join(sorted(missing))
            click.echo(f"no worker serves {names}: starting workers for this crawl", err=True)
            self._workers += self.enter_context(fleet.local_workers(self._settings, missing))
            self._foreign -= missing
        self._checked_at = time.monotonic()


def follow_crawl(
    engine: sa.Engine, crawl_id: int, *, check: Callable[[], None] | None = None
) -> CrawlProgress:
    """Shows a crawl until it ends. Calls `check` after each read; it may raise."""
    display = _show_bar() if sys.stderr.isatty() else _show_lines()
    began, warned = time.monotonic(), False
    with display as show:
        while True:
            progress = _read_progress(engine, crawl_id)
            show(progress)
            is_stuck = not progress.done and time.monotonic() - began > NOTHING_FETCHED_S
            if is_stuck and progress.last_error and not warned:
                warned = True
                click.echo(
                    f"no page could be fetched in {NOTHING_FETCHED_S:g} s: "
                    f"{one_line(progress.last_error)}\n"
                    f"retries go on for some minutes; `scraper stop {crawl_id}` ends the crawl",
                    err=True,
                )
            if not progress.active:
                return progress
            if check:
                check()
            time.sleep(POLL_S)


def _read_progress(engine: sa.Engine, crawl_id: int) -> CrawlProgress:
    """Reads the crawl's progress. Waits up to `AWAY_S` for a PostgreSQL that does not answer."""
    deadline = time.monotonic() + AWAY_S
    warned = False
    while True:
        try:
            return views.read_one(engine, crawl_id)
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            if not warned:
                click.echo("PostgreSQL does not answer; waiting for it", err=True)
                warned = True
            time.sleep(1)


@contextmanager
def _show_lines() -> Iterator[Show]:
    last_at = 0.0
    last_phase = ""
    last_error = None

    def show(progress: CrawlProgress) -> None:
        nonlocal last_at, last_phase, last_error
        now = time.monotonic()
        due = now - last_at >= views.PLAIN_LINE_S or progress.phase != last_phase
        due |= progress.last_error != last_error and not progress.done
        if progress.active and due:
            click.echo(views.describe_progress(progress, progress.recent_per_s), err=True)
            if progress.last_error and progress.last_error != last_error and not progress.done:
                click.echo(f"  {one_line(progress.last_error)}", err=True)
            last_at = now
            last_phase = progress.phase
            last_error = progress.last_error

    yield show


@contextmanager
def _show_bar() -> Iterator[Show]:
    columns = (
        TextColumn("{task.fields[site]}  [cyan]{task.fields[phase]}"),
        BarColumn(bar_width=None),
        TextColumn(
            "{task.completed:,.0f}/{task.total:,.0f}  {task.fields[speed]}  {task.fields[left]}"
        ),
    )
    with Bar(*columns, console=Console(stderr=True), expand=True, transient=True) as bar:
        task = bar.add_task("crawl", total=0, site="", phase="", speed="", left="")

        def show(progress: CrawlProgress) -> None:
            failures = f", [red]{progress.failed:,} failed[/]" if progress.failed else ""
            left = f"left {views.format_eta(progress, progress.recent_per_s)}"
            bar.update(
                task,
                total=progress.total,
                completed=progress.done,
                site=progress.site,
                phase=progress.phase,
                speed=f"{progress.recent_per_s:.0f}/s{failures}",
                left="" if progress.phase == "discovering" else left,
            )

        yield show

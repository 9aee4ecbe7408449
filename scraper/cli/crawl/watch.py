"""`scraper watch`: the status again and again, on one screen that is left as it was found; lines
where there is none."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime

import click
import sqlalchemy as sa
from rich.console import Console
from rich.live import Live
from rich.text import Text
from sqlalchemy.exc import OperationalError

from scraper.cli.common.shared import complete_site, load_settings, open_engine, print_json
from scraper.cli.common.tables import plain
from scraper.cli.crawl.screen import host_trouble, make_screen
from scraper.infra import outages
from scraper.runtime import fleet
from scraper.settings import Settings
from scraper.views import progress
from scraper.views import status as views
from scraper.views.status import FleetStatus

# Seconds between two messages to every worker.
INSPECT_EVERY_S = 5.0
FIRST_ANSWERS_S = 3.0


@click.command()
@click.argument("site", required=False, shell_complete=complete_site)
@click.option(
    "--every",
    "every_s",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.2),
    help="Seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, each time.")
def watch(site: str | None, every_s: float, as_json: bool) -> None:
    """Watch what `scraper status` shows, live; Ctrl-C ends it.

    Without a terminal: lines of what moves, every five seconds or less often.
    """
    watch = Watch(open_engine(), load_settings(), site=site, every_s=every_s)
    try:
        if as_json:
            watch.print_json()
        elif sys.stdout.isatty():
            watch.show_screen()
        else:
            watch.print_lines()
    except KeyboardInterrupt:
        pass
    finally:
        watch.inspector.stop()


class Inspector:
    """The last answers of the workers. They are asked in a thread: a broker that is away must not
    hold up what PostgreSQL says."""

    def __init__(self) -> None:
        self.nodes: Mapping[str, fleet.Node] = {}
        self.error: str | None = None
        self._stop = threading.Event()
        self._first = threading.Event()
        threading.Thread(target=self._inspect, name="inspector", daemon=True).start()
        self._first.wait(FIRST_ANSWERS_S)

    def _inspect(self) -> None:
        while not self._stop.is_set():
            try:
                self.nodes, self.error = fleet.nodes(), None
            except Exception as error:  # noqa: BLE001 - shown in place of the workers
                if outages.broker_away(error):
                    outages.broker().failed(error)
                    self.error = outages.broker().error
                else:
                    self.error = f"{type(error).__name__}: {error}"
            self._first.set()
            self._stop.wait(INSPECT_EVERY_S)

    def stop(self) -> None:
        self._stop.set()


class Watch:
    """The newest status that could be read, and why there is no newer one."""

    def __init__(
        self, engine: sa.Engine, settings: Settings, *, site: str | None, every_s: float
    ) -> None:
        self.inspector = Inspector()
        self._engine, self._settings, self._site, self._every_s = engine, settings, site, every_s
        self._status: FleetStatus | None = None
        self._read_at = time.monotonic()
        self._error = ""
        self._took_s = 0.0

    def show_screen(self) -> None:
        console = Console()
        with Live(
            console=console, screen=True, auto_refresh=False, vertical_overflow="crop"
        ) as live:
            while True:
                self._refresh()
                screen = self._header()
                if self._status is None:
                    live.update(screen, refresh=True)
                else:
                    width, height = console.size
                    live.update(
                        make_screen(self._status, width=width, height=height, header=screen),
                        refresh=True,
                    )
                self._pause()

    def print_lines(self) -> None:
        while True:
            status = self._refresh()
            if status is None:
                click.echo(self._header().plain, err=True)
            else:
                click.echo("\n".join(_lines(status)))
            sys.stdout.flush()
            self._pause(progress.PLAIN_LINE_S)

    def print_json(self) -> None:
        while True:
            status = self._refresh()
            if status is not None:
                print_json({"at": datetime.now().astimezone().isoformat(), **views.as_json(status)})
                sys.stdout.flush()
            self._pause()

    def _refresh(self) -> FleetStatus | None:
        """The status now; None while PostgreSQL does not answer: then the last one stays."""
        began = time.monotonic()
        try:
            status = views.read(
                self._engine, self._settings, site=self._site, nodes=self.inspector.nodes
            )
        except OperationalError as error:
            if not outages.postgres_away(error):
                raise
            outages.postgres().failed(error)
            self._error = outages.postgres().error
            return None
        finally:
            self._took_s = time.monotonic() - began
        if self.inspector.error is not None:
            status.away["broker"] = self.inspector.error
            for queue in status.queues:
                queue.workers = None
        self._status, self._read_at, self._error = status, time.monotonic(), ""
        return status

    def _pause(self, least_s: float = 0.0) -> None:
        """Waits at least three times as long as the last read took: a frontier of millions takes
        its time to be counted, and watching takes at most a quarter of PostgreSQL's."""
        time.sleep(max(self._every_s, least_s, 3 * self._took_s))

    def _header(self) -> Text:
        if self._error:
            away_s = time.monotonic() - self._read_at
            header = Text(f"PostgreSQL does not answer for {away_s:.0f} s: {self._error}", "red")
        else:
            now = datetime.now().astimezone()
            header = Text(f"{now:%H:%M:%S}  every {self._every_s:g} s, Ctrl-C ends", "dim")
        header.no_wrap, header.overflow = True, "ellipsis"
        return header


def _lines(status: FleetStatus) -> list[str]:
    """What moves, a line each: for a log or a pipe."""
    active = [crawl for crawl in status.crawls if crawl.active]
    lines = [progress.line(crawl, progress.per_s(crawl)) for crawl in active]
    lines += [
        f"{crawl.site}: last error: {plain(crawl.last_error)}"
        for crawl in active
        if crawl.last_error and not crawl.recent_per_s
    ]
    lines += [
        f"queue {queue.queue}: {queue.due:,} due, {queue.later:,} later, {queue.leased:,} leased, "
        f"{queue.claimed} batches under way, {queue.waiting} waiting"
        for queue in status.queues
    ]
    lines += [f"host {plain(host.host)}: {plain(host_trouble(host))}" for host in status.hosts]
    lines += [f"worker {w.worker}: {w.state}" for w in status.workers if w.state == "silent"]
    lines += [f"{server} does not answer: {error}" for server, error in status.away.items()]
    return lines or ["no crawl is running"]

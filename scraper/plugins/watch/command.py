"""`scraper watch`: the live status on a screen of its own, or as lines without a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime

import click
import sqlalchemy as sa
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text
from sqlalchemy.exc import OperationalError

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import complete_site, load_settings, print_json
from scraper.cli.common.tables import one_line
from scraper.cli.crawl.screen import first_choice, host_trouble, make_screen
from scraper.infra import outages
from scraper.plugins.watch.keyboard import Keyboard, press_keys
from scraper.runtime import fleet
from scraper.settings import Settings
from scraper.views import crawl_progress as progress
from scraper.views import dashboard as views
from scraper.views.dashboard import FleetStatus
from scraper.views.named_sites import require_site

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
    help="Seconds between updates.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, each time.")
def watch(site: str | None, every_s: float, as_json: bool) -> None:
    """Show `scraper status` live; q or Ctrl-C ends it.

    Keys: / searches sites (Enter keeps, Esc clears), s changes the order, n and p turn pages.

    Without a terminal, prints a line per change, at most every five seconds.
    """
    engine = open_engine()
    if site is not None:
        with engine.connect() as connection:
            require_site(connection, site)
    watch = Watch(engine, load_settings(), site=site, every_s=every_s)
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
    """The workers' last answers. A thread asks for them, so that an unavailable broker does not
    delay what PostgreSQL says."""

    def __init__(self) -> None:
        self.nodes: Mapping[str, fleet.WorkerNode] = {}
        self.error: str | None = None
        self._stop = threading.Event()
        self._first = threading.Event()
        threading.Thread(target=self._ask_workers, name="inspector", daemon=True).start()
        self._first.wait(FIRST_ANSWERS_S)

    def _ask_workers(self) -> None:
        while not self._stop.is_set():
            try:
                self.nodes, self.error = fleet.list_nodes(), None
            except Exception as error:  # noqa: BLE001 - shown instead of the workers
                if outages.is_broker_away(error):
                    outages.broker().record_failure(error)
                    self.error = outages.broker().error
                else:
                    self.error = f"{type(error).__name__}: {error}"
            self._first.set()
            self._stop.wait(INSPECT_EVERY_S)

    def stop(self) -> None:
        self._stop.set()


class Watch:
    """The last status that could be read, and the error of a read that failed since."""

    def __init__(
        self, engine: sa.Engine, settings: Settings, *, site: str | None, every_s: float
    ) -> None:
        self.inspector = Inspector()
        self._engine, self._settings, self._site, self._every_s = engine, settings, site, every_s
        self._status: FleetStatus | None = None
        self._read_at = time.monotonic()
        self._error = ""
        self._took_s = 0.0
        self._choice = first_choice(one_site=site is not None)

    def show_screen(self) -> None:
        console = Console()
        with (
            Keyboard() as keyboard,
            Live(
                console=console, screen=True, auto_refresh=False, vertical_overflow="crop"
            ) as live,
        ):
            while True:
                self._read_status()
                until = time.monotonic() + self._rest_s()
                while time.monotonic() < until:
                    live.update(self._render_screen(*console.size), refresh=True)
                    if not press_keys(self._choice, keyboard.read(until - time.monotonic())):
                        return

    def _render_screen(self, width: int, height: int) -> RenderableType:
        header = self._make_header()
        if self._status is None:
            return header
        return make_screen(
            self._status, width=width, height=height, header=header, choice=self._choice
        )

    def print_lines(self) -> None:
        while True:
            status = self._read_status()
            if status is None:
                click.echo(self._make_header().plain, err=True)
            else:
                click.echo("\n".join(_status_lines(status)))
            sys.stdout.flush()
            self._wait_for_update(progress.PLAIN_LINE_S)

    def print_json(self) -> None:
        while True:
            status = self._read_status()
            if status is not None:
                print_json({"at": datetime.now().astimezone(), **views.as_json(status)})
                sys.stdout.flush()
            self._wait_for_update()

    def _read_status(self) -> FleetStatus | None:
        """Reads the status. Returns None, and keeps the last one, while PostgreSQL does not
        answer."""
        began = time.monotonic()
        try:
            status = views.read(
                self._engine,
                self._settings,
                site=self._site,
                every_site=True,
                nodes=self.inspector.nodes,
            )
        except OperationalError as error:
            if not outages.is_postgres_away(error):
                raise
            outages.postgres().record_failure(error)
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

    def _wait_for_update(self, least_s: float = 0.0) -> None:
        time.sleep(max(self._rest_s(), least_s))

    def _rest_s(self) -> float:
        """Returns the time until the next read: at least three times as long as the last one took,
        so that watching a frontier of millions takes at most a quarter of a PostgreSQL core."""
        return max(self._every_s, 3 * self._took_s)

    def _make_header(self) -> Text:
        if self._error:
            away_s = time.monotonic() - self._read_at
            header = Text(f"PostgreSQL does not answer for {away_s:.0f} s: {self._error}", "red")
        else:
            now = datetime.now().astimezone()
            choice = self._choice
            keys = "/ search, s sort, n p pages, q ends"
            if choice.typing or choice.search:
                keys = f"/{choice.search}{'_' if choice.typing else ''}  Esc forgets, q ends"
            header = Text(f"{now:%H:%M:%S %Z}  {choice.sort} first  {keys}", "dim")
        header.no_wrap, header.overflow = True, "ellipsis"
        return header


def _status_lines(status: FleetStatus) -> list[str]:
    """Returns the changing parts of the status, a line each, for a log or a pipe."""
    active = [crawl for crawl in status.crawls if crawl.active]
    lines = [progress.describe_progress(crawl, progress.per_s(crawl)) for crawl in active]
    lines += [
        f"{crawl.site}: last error: {one_line(crawl.last_error)}"
        for crawl in active
        if crawl.last_error and not crawl.recent_per_s
    ]
    lines += [
        f"queue {queue.queue}: {queue.due:,} due, {queue.later:,} later, {queue.leased:,} leased, "
        f"{queue.claimed} batches under way, {queue.waiting} waiting"
        for queue in status.queues
    ]
    lines += [
        f"host {one_line(host.host)}: {one_line(host_trouble(host))}" for host in status.hosts
    ]
    lines += [f"worker {w.worker}: {w.state}" for w in status.workers if w.state == "silent"]
    lines += [f"{server} does not answer: {error}" for server, error in status.away.items()]
    return lines or ["no crawl is running"]

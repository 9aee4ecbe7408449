"""`scraper watch`: the same glance again and again, on one screen that is left as it was found;
lines where there is none."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any

import click
import sqlalchemy as sa
from rich.console import Console
from rich.live import Live
from rich.text import Text
from sqlalchemy.exc import OperationalError

from scraper.cli.crawl.screen import Screen, host_trouble
from scraper.infra import outages
from scraper.infra.tables import plain
from scraper.runtime import fleet
from scraper.settings import Settings
from scraper.views import glance, progress
from scraper.views.glance import Glance

# workers: a message to each of them
ASK_EVERY_S = 5.0


class Answers:
    """What workers said last. They are asked in a thread: a broker that is away must not hold up
    what PostgreSQL says."""

    def __init__(self) -> None:
        self.nodes: Mapping[str, fleet.Node] = {}
        self.away: str | None = None
        self.first = threading.Event()
        self._stop = threading.Event()
        threading.Thread(target=self._ask, name="answers", daemon=True).start()

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                self.nodes, self.away = fleet.nodes(), None
            except Exception as error:  # noqa: BLE001 - shown in place of the workers
                if outages.broker_away(error):
                    outages.broker().failed(error)
                    self.away = outages.broker().error
                else:
                    self.away = f"{type(error).__name__}: {error}"
            self.first.set()
            self._stop.wait(ASK_EVERY_S)

    def stop(self) -> None:
        self._stop.set()


class Watch:
    def __init__(
        self, engine: sa.Engine, settings: Settings, *, site: str | None, every_s: float
    ) -> None:
        self._engine, self._settings, self._site, self._every_s = engine, settings, site, every_s
        self._answers = Answers()
        self._found: Glance | None = None
        self._seen_at = time.monotonic()
        self._error = ""
        self._took_s = 0.0

    def run(self, print_json: Callable[[Any], None] | None = None) -> None:
        """Until Ctrl-C, which is how it is ended, or a signal that ends it for somebody else."""
        self._answers.first.wait(3)
        try:
            with _ends_by_signal():
                if print_json is not None:
                    self._json(print_json)
                elif sys.stdout.isatty():
                    self._live()
                else:
                    self._lines()
        except KeyboardInterrupt:
            pass
        finally:
            self._answers.stop()

    def _look(self) -> bool:
        """False while PostgreSQL does not answer: what was seen last stays."""
        began = time.monotonic()
        try:
            return self._looked()
        finally:
            self._took_s = time.monotonic() - began

    def _looked(self) -> bool:
        try:
            found = glance.read(
                self._engine, self._settings, site=self._site, answers=self._answers.nodes
            )
        except OperationalError as error:
            if not outages.postgres_away(error):
                raise
            outages.postgres().failed(error)
            self._error = outages.postgres().error
            return False
        if self._answers.away is not None:
            found.away["broker"] = self._answers.away
            for each in found.queues:
                each.workers = None
        self._found, self._seen_at, self._error = found, time.monotonic(), ""
        return True

    def _wait(self, least_s: float = 0.0) -> None:
        """A frontier of millions takes its time to be counted: looking on never takes more than a
        quarter of PostgreSQL's."""
        time.sleep(max(self._every_s, least_s, 3 * self._took_s))

    def _live(self) -> None:
        console = Console()
        self._look()
        with Live(
            console=console, screen=True, auto_refresh=False, vertical_overflow="crop"
        ) as live:
            while True:
                live.update(self._screen(console), refresh=True)
                self._wait()
                self._look()

    def _screen(self, console: Console) -> Screen | Text:
        if self._found is None:
            return self._header()
        return Screen(self._found, height=console.size.height, header=self._header())

    def _header(self) -> Text:
        if self._error:
            said = Text(
                f"PostgreSQL does not answer for {time.monotonic() - self._seen_at:.0f} s: {self._error}",
                "red",
            )
        else:
            said = Text(
                f"{datetime.now().astimezone():%H:%M:%S}  every {self._every_s:g} s, Ctrl-C ends",
                "dim",
            )
        said.no_wrap, said.overflow = True, "ellipsis"
        return said

    def _lines(self) -> None:
        while True:
            if self._look():
                for text in lines(self._found):
                    click.echo(text)
            else:
                click.echo(self._header().plain, err=True)
            sys.stdout.flush()
            self._wait(progress.PLAIN_LINE_S)

    def _json(self, print_json: Callable[[Any], None]) -> None:
        while True:
            if self._look() and self._found is not None:
                print_json(
                    {"at": datetime.now().astimezone().isoformat(), **glance.as_json(self._found)}
                )
                sys.stdout.flush()
            self._wait()


def lines(found: Glance | None) -> list[str]:
    """What moves, a line each: for a log or a pipe."""
    if found is None:
        return []
    told = [progress.line(each, progress.per_s(each)) for each in found.crawls if each.active]
    told += [
        f"queue {each.queue}: {each.due:,} due, {each.later:,} later, {each.leased:,} leased, "
        f"{each.claimed} batches under way, {each.waiting} waiting"
        for each in found.queues
    ]
    told += [f"host {plain(each.host)}: {plain(host_trouble(each))}" for each in found.hosts]
    told += [
        f"worker {each.worker}: {each.state}" for each in found.workers if each.state == "silent"
    ]
    told += [f"{name} does not answer: {said}" for name, said in found.away.items()]
    return told or ["no crawl is running"]


@contextmanager
def _ends_by_signal() -> Iterator[None]:
    """SIGTERM and SIGHUP leave the terminal as it was, too."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before: dict[int, Any] = {
        number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""The feed of changes on a terminal or into a pipe: once, or as it comes; and the consumers whose
place is kept here.

A consumer's place is moved on after its lines were written and flushed, never before: whoever ends
in between has the last lines (a thousand at the most) once more when he comes again. At-least-once,
then; exactly once has who keeps each line's `cursor` beside what he made of it, and begins
`--since` there.
"""

from __future__ import annotations

import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import sqlalchemy as sa

from scraper.errors import ConfigError, NotFoundError
from scraper.feed import consumers
from scraper.feed import reader as changes
from scraper.feed.reader import (
    ROWS,
    Change,
    Reader,
    Since,
)
from scraper.infra.tables import cell, plain, print_table
from scraper.sites.grammar import scalars

FIELDS_SHOWN = 4


def since_of(text: str) -> Since:
    """`1234` (a cursor), `oldest`, `now`, `2h` (so long ago), `2025-11-21`,
    `2025-11-21T06:00+01:00` (UTC without a zone)."""
    if text.isdecimal() and len(text) < 19:
        return int(text)
    if text in ("oldest", "now"):
        return "oldest" if text == "oldest" else "now"
    try:
        if text[:4].isdigit() and text[4:5] == "-":
            at = datetime.fromisoformat(text)
            return at if at.tzinfo else at.replace(tzinfo=UTC)
        return datetime.now(UTC) - timedelta(seconds=scalars.seconds(text))
    except ValueError:
        raise ConfigError(
            f"--since {text!r} is neither a cursor nor a time (mend: a number from an export or a change, oldest, now, 2h, "
            "7d, or a date and time as in 2025-11-21T06:00Z)"
        ) from None


class Stop:
    """SIGTERM and Ctrl-C end the command between two batches, so that what was written is noted; a
    second one ends it now."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.number = 0

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self._heard) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _heard(self, number: int, _frame: Any) -> None:
        if self.event.is_set():
            sys.exit(128 + number)
        self.number = number
        self.event.set()


def show(
    engine: sa.Engine,
    site: str | None,
    *,
    since: Since | None,
    follow: bool,
    limit: int | None,
    consumer: str | None,
    as_json: Callable[[str], str] | None,
) -> None:
    """Writes changes until there are no more, or for good. A consumer begins where it has come to,
    or at `since`. `as_json`: as JSON lines, made harmless by it."""
    if consumer is None:
        _show(engine, Reader(engine, changes.resolved(engine, "oldest" if since is None else since), site=site),
              follow=follow, limit=limit, as_json=as_json, place=None)  # fmt: skip
        return
    with consumers.held(engine, consumer, site):
        place = Place(engine, consumer, site)
        reader = Reader(engine, place.begin(since), site=site)
        _show(engine, reader, follow=follow, limit=limit, as_json=as_json, place=place)


class Place:
    """A named consumer's place."""

    def __init__(self, engine: sa.Engine, name: str, site: str | None) -> None:
        self._engine, self._name, self._site = engine, name, site
        self._position = 0

    def begin(self, since: Since | None) -> int:
        with self._engine.connect() as connection:
            known = consumers.position(connection, self._name, self._site)
        if known is not None and since is None:
            self._position = known
        else:
            self._position = 0 if since is None else changes.resolved(self._engine, since)
            Reader(
                self._engine, self._position, site=self._site
            )  # before it is noted: whether it can be read from there
            with self._engine.begin() as connection:
                consumers.put(connection, self._name, self._site, self._position)
        return self._position

    def move(self, position: int) -> None:
        if position != self._position:
            with self._engine.begin() as connection:
                consumers.advance(connection, self._name, self._site, self._position, position)
            self._position = position


def _show(
    engine: sa.Engine,
    reader: Reader,
    *,
    follow: bool,
    limit: int | None,
    as_json: Callable[[str], str] | None,
    place: Place | None,
) -> None:
    stop, left = Stop(), limit
    end = None if follow else max(reader.cursor, changes.resolved(engine, "now"))
    reader.rows = min(ROWS, left or ROWS)
    with (
        stop.on_signals(),
        closing(changes.batches(reader, stop.event, _say, bear=follow)) as batches,
    ):
        for batch in batches:
            _write(batch, as_json)
            if place is not None:
                _moved(place, reader.cursor, stop, bear=follow)
            if left is not None:
                left -= len(batch)
                reader.rows = min(ROWS, left)
            if (
                left == 0
                or (end is not None and reader.cursor >= end)
                or (not batch and _nobody_reads())
            ):
                break
    if stop.number and not follow:
        sys.exit(128 + stop.number)


def _moved(place: Place, position: int, stop: Stop, *, bear: bool) -> None:
    """Waits for a PostgreSQL that is away, since the lines are written; unless it is told to end."""
    for _ in changes.attempts(lambda: place.move(position), stop.event, _say, bear=bear):
        pass


def _write(batch: list[Change], as_json: Callable[[str], str] | None) -> None:
    out = sys.stdout
    for change in batch:
        out.write((as_json(change.json()) if as_json else described(change)) + "\n")
    out.flush()


def described(change: Change) -> str:
    """One line for people: `2025-11-21 06:00:12  shop  changed  1010  price: 9.90 -> 8.50`."""
    if change.changed:
        names = change.changed[:FIELDS_SHOWN]
        what = [
            f"{plain(n)}: {cell(change.before.get(n))} -> {cell(change.data.get(n))}" for n in names
        ]
        more = len(change.changed) - len(names)
        text = ", ".join(what) + (f", {more} more" if more else "")
    else:
        names = tuple(change.data)[:FIELDS_SHOWN] if change.event in ("new", "relisted") else ()
        text = ", ".join(f"{plain(n)}: {cell(change.data[n])}" for n in names) or plain(change.url)
    at = change.at.astimezone()
    return f"{at:%Y-%m-%d %H:%M:%S}  {change.site}  {change.event:<8}  {cell(change.id)}  {text}"


def _nobody_reads() -> bool:
    """Whether the reader of our pipe has left, which is told otherwise by the next line only: that
    may be tomorrow's."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False


def _say(text: str) -> None:
    click.echo(f"scraper: {text}", err=True)


def consumers_json(engine: sa.Engine) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        rows = consumers.listed(connection)
    return [
        {
            "name": row.name,
            "site": row.site or None,
            "cursor": row.position,
            "behind": row.behind,
            "expired": row.expired,
            "created_at": row.created_at.isoformat(),
            "read_at": row.read_at.isoformat(),
        }
        for row in rows
    ]


def print_consumers(found: list[dict[str, Any]]) -> None:
    rows = [
        [each["name"], each["site"] or "all", str(each["cursor"]), "expired" if each["expired"] else str(each["behind"]),
         each["read_at"][:19]]
        for each in found
    ]  # fmt: skip
    print_table(["name", "site", "cursor", "behind", "read at"], rows)


def forget(engine: sa.Engine, name: str) -> None:
    with engine.begin() as connection:
        if not consumers.forget(connection, name):
            raise NotFoundError(f"there is no consumer {name!r}; `scraper consumers` lists them")

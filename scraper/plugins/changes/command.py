"""`scraper changes` and `scraper consumers`: prints the change feed once or continuously, and keeps
the positions of named consumers.

A consumer's position advances only after its lines were written and flushed. If the command ends in
between, the next run prints the last lines (at most 1,000) again: delivery is at-least-once. For
exactly-once, store each line's `cursor` in the same transaction as its effect, and continue with
`--since` from there.
"""

from __future__ import annotations

import re
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import click
import sqlalchemy as sa

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import (
    complete_site,
    escape_controls,
    json_option,
    parse_since,
    print_json,
)
from scraper.cli.common.tables import format_cell, format_local_time, one_line, print_table
from scraper.errors import ConfigError, NotFoundError
from scraper.feed import consumers as feed_consumers
from scraper.feed import reader as feed
from scraper.feed.prices import (
    CURRENCY,
    NAMES,
    PriceMove,
    format_amount,
    percent_text,
    price_fields,
    price_moves,
    title_of,
)
from scraper.feed.reader import ROWS, Change, ChangeReader, Since
from scraper.process.signals import SignalEvent

FIELDS_SHOWN = 4
EVENTS = ("new", "changed", "delisted", "relisted", "reverted", "price-drop", "price-rise")


@click.command()
@click.argument("site", required=False, shell_complete=complete_site)
@click.option(
    "--since",
    metavar="CURSOR|TIME",
    help="After a cursor or a time (2h, 2025-11-21), `oldest` or `now`.",
)
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until SIGTERM or Ctrl-C.")
@click.option("--limit", type=click.IntRange(1), help="End after this many changes.")
@click.option(
    "--consumer",
    metavar="NAME",
    help="Continue at this consumer's position, and store the new one.",
)
@click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice(EVENTS),
    help="Only these events of products or prices.",
)
@click.option(
    "--min",
    "least",
    metavar="PERCENT",
    help="Only prices that moved at least this far (5%); with --event, only down or up.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines; the default into a pipe.")
def changes(
    site: str | None,
    since: str | None,
    follow: bool,
    limit: int | None,
    consumer: str | None,
    events: tuple[str, ...],
    least: str | None,
    as_json: bool,
) -> None:
    """Show changes of products (of SITE), once each and in order.

    Starts with the oldest change that is kept, at --since, or at the position of --consumer.
    """
    start = None if since is None else parse_since(since)
    engine = open_engine()
    wanted = Wanted.parse(events, least)
    describe = _json_line if as_json or not sys.stdout.isatty() else describe_change
    if consumer is None:
        cursor = feed.resolve_cursor(engine, "oldest" if start is None else start)
        reader = ChangeReader(engine, cursor, site=site)
        _print_changes(engine, reader, None, describe, wanted, follow=follow, limit=limit)
        return
    with feed_consumers.hold_consumer(engine, consumer, site):
        position = ConsumerPosition(engine, consumer, site)
        reader = ChangeReader(engine, position.begin(start), site=site)
        _print_changes(engine, reader, position, describe, wanted, follow=follow, limit=limit)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The changes to show: of these events (none: all), and prices that moved at least `least`
    %."""

    events: frozenset[str] = frozenset()
    least: Decimal = Decimal(0)

    @classmethod
    def parse(cls, events: Sequence[str], least: str | None) -> Wanted:
        """Reads the options. Raises `ConfigError`."""
        if least is None:
            return cls(frozenset(events))
        events = events or ("price-drop", "price-rise")
        if not set(events) & {"price-drop", "price-rise"}:
            raise ConfigError("--min goes with --event price-drop or price-rise")
        if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?%?", least):
            raise ConfigError(f"--min {least!r} is not a percentage (fix: as in 5% or 2.5%)")
        return cls(frozenset(events), Decimal(least.rstrip("%")))

    def matches(self, change: Change) -> bool:
        if not self.events or change.event in self.events:
            return True
        # When an operator rejects a crawl, no price in the shop has moved.
        moves = [] if change.event == "reverted" else price_moves(change)
        return any(
            ("price-drop" if move.after < move.before else "price-rise") in self.events
            and (
                not self.least or ((share := move.percent) is not None and abs(share) >= self.least)
            )
            for move in moves
        )


class StopSignal:
    """Ends the command between two batches on SIGTERM or Ctrl-C, so that the position of what was
    written is stored. A second signal ends it at once."""

    def __init__(self) -> None:
        self.event = SignalEvent()
        self.number = 0

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self._handle_signal)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle_signal(self, number: int, _frame: Any) -> None:
        if self.event.is_set():
            sys.exit(128 + number)
        self.number = number
        self.event.set()


class ConsumerPosition:
    """A named consumer's position in the feed."""

    def __init__(self, engine: sa.Engine, name: str, site: str | None) -> None:
        self._engine, self._name, self._site = engine, name, site
        self._position = 0

    def begin(self, since: Since | None) -> int:
        with self._engine.connect() as connection:
            position = feed_consumers.read_position(connection, self._name, self._site)
        if position is not None and since is None:
            self._position = position
        else:
            self._position = 0 if since is None else feed.resolve_cursor(self._engine, since)
            # Raises before the position is stored if the feed cannot be read from it.
            ChangeReader(self._engine, self._position, site=self._site)
            with self._engine.begin() as connection:
                feed_consumers.set_position(connection, self._name, self._site, self._position)
        return self._position

    def advance(self, position: int) -> None:
        if position != self._position:
            with self._engine.begin() as connection:
                feed_consumers.advance_position(
                    connection, self._name, self._site, self._position, position
                )
            self._position = position


def _print_changes(
    engine: sa.Engine,
    reader: ChangeReader,
    consumer: ConsumerPosition | None,
    describe: Callable[[Change], str],
    wanted: Wanted,
    *,
    follow: bool,
    limit: int | None,
) -> None:
    """Writes changes until the feed's end; with `follow`, until a signal."""
    stop, left = StopSignal(), limit
    end = None if follow else max(reader.cursor, feed.resolve_cursor(engine, "now"))
    reader.rows = min(ROWS, left or ROWS)
    with (
        stop.on_signals(),
        closing(
            feed.follow_batches(reader, stop.event, _print_warning, wait_out=follow)
        ) as batches,
    ):
        for batch in batches:
            shown = [change for change in batch if wanted.matches(change)]
            _write_batch(shown, describe)
            if consumer is not None:
                _store_position(consumer, reader.cursor, stop, wait_out=follow)
            if left is not None:
                left -= len(shown)
                reader.rows = min(ROWS, left)
            if (
                left == 0
                or (end is not None and reader.cursor >= end)
                or (not batch and _is_pipe_closed())
            ):
                break
    if stop.number and not follow:
        sys.exit(128 + stop.number)


def _store_position(
    consumer: ConsumerPosition, position: int, stop: StopSignal, *, wait_out: bool
) -> None:
    """Stores the position; retries while PostgreSQL does not answer, until a signal."""
    for _ in feed.retry_while_away(
        lambda: consumer.advance(position), stop.event, _print_warning, wait_out=wait_out
    ):
        pass


def _write_batch(batch: list[Change], describe: Callable[[Change], str]) -> None:
    for change in batch:
        sys.stdout.write(describe(change) + "\n")
    sys.stdout.flush()


def _json_line(change: Change) -> str:
    return escape_controls(change.json())


def describe_change(change: Change) -> str:
    """Describes a change on one line:
    `2025-11-21 06:00:12 CET  shop  changed  1010  Pan  price: 9.90 -> 8.50 EUR (-14.1%)`."""
    if change.changed:
        moves = {move.field: move for move in price_moves(change)}
        currencies = {f"{name}{CURRENCY}" for name in moves}
        names = [name for name in change.changed if name not in currencies]
        texts = [
            _move_text(moves[name]) if name in moves else _change_text(change, name)
            for name in names[:FIELDS_SHOWN]
        ]
        more = len(names) - FIELDS_SHOWN
        text = ", ".join(texts) + (f", {more} more" if more > 0 else "")
    else:
        listed = change.event in ("new", "relisted")
        prices = price_fields(change.data) if listed else []
        hidden = {*NAMES, *(f"{name}{CURRENCY}" for name in prices)}
        names = [name for name in change.data if name not in hidden] if listed else []
        names.sort(key=lambda name: name not in prices)
        text = ", ".join(_value_text(change, name) for name in names[:FIELDS_SHOWN]) or one_line(
            change.url
        )
    parts = [
        format_local_time(change.at),
        change.site,
        f"{change.event:<8}",
        format_cell(change.id),
    ]
    return "  ".join(filter(None, [*parts, format_cell(title_of(change.data)), text]))


def _change_text(change: Change, name: str) -> str:
    before, after = format_cell(change.before.get(name)), format_cell(change.data.get(name))
    return f"{one_line(name)}: {before} -> {after}"


def _value_text(change: Change, name: str) -> str:
    amount = format_amount(change.data[name], change.data.get(f"{name}{CURRENCY}"))
    return f"{one_line(name)}: {format_cell(amount)}"


def _move_text(move: PriceMove) -> str:
    share = percent_text(move.percent)
    after = format_amount(move.after, move.currency)
    text = f"{one_line(move.field)}: {format_cell(move.before)} -> {format_cell(after)}"
    return f"{text} ({share})" if share else text


def _is_pipe_closed() -> bool:
    """Returns whether the pipe's reader has exited. Without this check, the command would notice
    only with the next line, which may be hours away."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False


def _print_warning(text: str) -> None:
    click.echo(f"scraper: {text}", err=True)


@click.command()
@click.option("--forget", metavar="NAME", help="Forget this consumer's position.")
@json_option("array")
def consumers(forget: str | None, as_json: bool) -> None:
    """Show how far named consumers have read the feed of changes."""
    engine = open_engine()
    if forget is not None:
        with engine.begin() as connection:
            if not feed_consumers.forget_consumer(connection, forget):
                raise NotFoundError(
                    f"no consumer is named {forget!r}; `scraper consumers` lists them"
                )
        return
    with engine.connect() as connection:
        rows = feed_consumers.list_consumers(connection)
    if as_json:
        print_json([_consumer_json(row) for row in rows])
    else:
        columns = ["name", "site", "cursor", "behind", "read at"]
        print_table(columns, [_consumer_cells(row) for row in rows])


def _consumer_json(row: sa.Row[Any]) -> dict[str, Any]:
    values = row._asdict()
    return {"cursor": values.pop("position"), **values, "site": row.site or None}


def _consumer_cells(row: sa.Row[Any]) -> list[str]:
    behind = "expired" if row.expired else str(row.behind)
    return [row.name, row.site or "all", str(row.position), behind, format_local_time(row.read_at)]

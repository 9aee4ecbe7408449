"""Copies the feed of changes to a Redis Stream, in order and without duplicates. A tick of the
coordinator, if SCRAPER_CHANGES_STREAM names a stream.

The stream itself records its position: an entry's id is `<position>-0`, and Redis keeps the last
id. So a coordinator that dies between two steps loses nothing, and a Redis that lost its last
seconds receives these changes again. An emptied stream receives the newest
SCRAPER_CHANGES_STREAM_MAX changes; a consumer that continues after the last id that it read still
sees each change once. A script adds a batch completely or not at all, and skips existing entries.
So even two coordinators at once (one was frozen and has lost its lock) never duplicate or reorder
entries, or leave a gap.

An entry's fields: `site`, `event`, `id` (of the product), `change` (the whole change as JSON, as
`scraper changes` prints it) and `after`, the id of the entry before. A consumer that finds another
`after` than the last id that it read has missed entries, which the stream's bound has removed.
"""

from __future__ import annotations

import redis
import sqlalchemy as sa
import structlog

from scraper.domain import Message
from scraper.feed import reader as changes
from scraper.feed import store as store
from scraper.feed.reader import Change, ChangeReader
from scraper.infra import redis_clients
from scraper.infra.statements import lua
from scraper.plugins.stream.settings import StreamSettings
from scraper.settings import Settings

log = structlog.get_logger()

BATCH = 500
# A tick releases the lock after this time, so that the next one can continue.
AT_ONCE_S = 10.0
# A Redis that hangs must not hold a transaction longer than it may be idle.
TIMEOUT_S = 5.0

LOCK = sa.text("SELECT pg_try_advisory_xact_lock(hashtextextended(:what, 0))")

_logged_streams: set[str] = set()


def publish(engine: sa.Engine, settings: Settings) -> list[Message]:
    """Adds the changes that the stream lacks. Returns an empty list: no task follows."""
    own = settings.of(StreamSettings)
    name = own.changes_stream
    if name is None:
        return []
    # The transaction only reads; it is there for the lock.
    with engine.begin() as connection:
        if not connection.execute(LOCK, {"what": f"scraper: publish changes to {name}"}).scalar():
            return []
        with redis_clients.connect(settings.valkey_url, timeout_s=TIMEOUT_S) as client:
            ChangeStream(client, name, own.changes_stream_max).fill(connection)
    return []


class ChangeStream:
    def __init__(self, client: redis.Redis, name: str, max_entries: int) -> None:
        self._client = client
        self._name = name
        self._max_entries = max_entries
        self._add = client.register_script(lua("plugins/stream/add_changes.lua"))

    def fill(self, connection: sa.Connection) -> int:
        """Adds missing changes for at most `AT_ONCE_S`. Returns the stream's new position."""
        last = self.read_position()
        newest = store.last_position(connection)
        if last == newest:
            return last
        lost, trimmed = False, store.read_start(connection).trimmed
        if last is None:
            last = store.position_before_newest(connection, self._max_entries)
            log.info("stream resumes from the newest changes", stream=self._name, after=last)
        elif last < trimmed:
            log.warning(
                "stream skips changes that the feed no longer has",
                stream=self._name,
                after=last,
                upto=trimmed,
            )
            last = trimmed
        elif (common := store.common_position(connection, last)) != last:
            lost, last = True, common
        elif last > newest:
            _log_ahead(self._name, last, newest)
            return last
        reader = ChangeReader(connection, last, rows=BATCH)
        for batch in changes.ready_batches(reader, AT_ONCE_S):
            if lost:
                log.warning(
                    "stream has changes that PostgreSQL lost when it was replaced",
                    stream=self._name,
                    common=last,
                )
            lost, last = False, self.add_changes(batch, last)
        return last

    def read_position(self) -> int | None:
        """Returns the position of the newest entry that was ever in the stream; None without a
        stream."""
        if not self._client.exists(self._name):
            return None
        entry_id = str(_decode_text(self._client.xinfo_stream(self._name)["last-generated-id"]))
        return int(entry_id.partition("-")[0])

    def add_changes(self, batch: list[Change], after: int) -> int:
        """Adds changes that follow the one at `after`. Returns the stream's new position."""
        words: list[str | int] = [self._max_entries]
        for change in batch:
            words += [change.cursor, after, change.site, change.event, change.id, change.json()]
            after = change.cursor
        return int(self._add(keys=[self._name], args=words))


def _decode_text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _log_ahead(name: str, stream_at: int, feed_at: int) -> None:
    """Logs once per process and stream that the stream does not recover by itself."""
    if name not in _logged_streams:
        _logged_streams.add(name)
        log.error(
            "stream is ahead of the feed and receives no changes: another database or program "
            "filled it, or this database was restored from a backup (fix: delete the stream, or "
            "name another one)",
            stream=name, stream_at=stream_at, feed_at=feed_at,
        )  # fmt: skip

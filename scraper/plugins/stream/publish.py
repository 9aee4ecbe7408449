"""Fills a Redis Stream from the feed of changes, in its order and without doubles. A tick of the
coordinator, where SCRAPER_CHANGES_STREAM names a stream.

How far it has come is what the stream itself says: an entry's id is `<position>-0`, and Redis knows
the last one. So a coordinator that dies between two steps has nothing to remember, a Redis that
lost its last seconds gets these again, and one that was emptied gets the newest
SCRAPER_CHANGES_STREAM_MAX changes anew; who goes on after the id that he has read last meets each
change once all the same. A script adds a batch whole or not at all, and skips what is there, so
that not even two coordinators at once (one was frozen and has lost its lock) double an entry,
change the order or leave a gap.

Fields of an entry: `site`, `event`, `id` (the product's), `change` (all of it, JSON, as `scraper
changes` prints it) and `after`, the id of the entry before: who finds another one there than he has
read last was overtaken by the stream's bound.
"""

from __future__ import annotations

import redis
import sqlalchemy as sa
import structlog

from scraper.domain import Message
from scraper.feed import reader as changes
from scraper.feed import store as store
from scraper.feed.reader import Change, ChangeReader
from scraper.plugins.stream.settings import StreamSettings
from scraper.settings import Settings

log = structlog.get_logger()

BATCH = 500
# A tick releases the lock after this time, for the next one.
AT_ONCE_S = 10.0
# A Redis that hangs must not hold a transaction longer than it may be idle.
TIMEOUT_S = 5.0

ALONE = sa.text("SELECT pg_try_advisory_xact_lock(hashtextextended(:what, 0))")

_complained: set[str] = set()

# KEYS[1] the stream. ARGV: how many entries it may hold, then six an entry: position, after, site,
# event, id, change. Returns the last position that is in the stream. A first refusal ends it before
# anything is added (no memory, not a stream).
ADD = """
local last = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = tonumber(string.match(info[i + 1], '^%d+')) end
  end
end
for i = 2, #ARGV, 6 do
  if tonumber(ARGV[i]) > last then
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], ARGV[i] .. '-0',
               'after', ARGV[i + 1] .. '-0', 'site', ARGV[i + 2],
               'event', ARGV[i + 3], 'id', ARGV[i + 4], 'change', ARGV[i + 5])
    last = tonumber(ARGV[i])
  end
end
return last
"""


def publish(engine: sa.Engine, settings: Settings) -> list[Message]:
    """Adds what the stream does not have yet. Returns nothing to send."""
    own = settings.of(StreamSettings)
    name = own.changes_stream
    if name is None:
        return []
    # The transaction only reads; it is there for the lock.
    with engine.begin() as connection:
        if not connection.execute(ALONE, {"what": f"scraper: publish changes to {name}"}).scalar():
            return []
        with redis.Redis.from_url(
            settings.valkey_url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S
        ) as client:
            Stream(client, name, own.changes_stream_max).fill(connection)
    return []


class Stream:
    def __init__(self, client: redis.Redis, name: str, max_entries: int) -> None:
        self._client = client
        self._name = name
        self._max_entries = max_entries
        self._add = client.register_script(ADD)

    def fill(self, connection: sa.Connection) -> int:
        """Adds what is missing, for some seconds at the most. Returns the position that the stream
        has come to."""
        last = self.last()
        newest = store.last_position(connection)
        if last is not None and last > newest:
            _complain(self._name, last, newest)
            return last
        if last == newest:
            return last
        trimmed = store.read_start(connection).trimmed
        if last is None:
            last = store.position_before_newest(connection, self._max_entries)
            log.info("the stream gets the newest changes", stream=self._name, after=last)
        elif last < trimmed:
            log.warning(
                "the stream misses changes that the feed has forgotten",
                stream=self._name,
                after=last,
                upto=trimmed,
            )
            last = trimmed
        reader = ChangeReader(connection, last, rows=BATCH)
        for batch in changes.ready_batches(reader, AT_ONCE_S):
            last = self.add(batch, last)
        return last

    def last(self) -> int | None:
        """The position of the newest entry that ever was in the stream; None where there is no
        stream."""
        if not self._client.exists(self._name):
            return None
        entry_id = str(_text(self._client.xinfo_stream(self._name)["last-generated-id"]))
        return int(entry_id.partition("-")[0])

    def add(self, added: list[Change], after: int) -> int:
        """Adds changes that follow the one at `after`. Returns the position that the stream has
        come to."""
        words: list[str | int] = [self._max_entries]
        for change in added:
            words += [change.cursor, after, change.site, change.event, change.id, change.json()]
            after = change.cursor
        return int(self._add(keys=[self._name], args=words))


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _complain(name: str, stream_at: int, feed_at: int) -> None:
    """Once a process and stream: it does not recover by itself."""
    if name not in _complained:
        _complained.add(name)
        log.error(
            "the stream is ahead of the feed, and gets nothing: it was filled from another "
            "database or by somebody else, or this database was restored from a backup (fix: "
            "delete the stream, or name another one)",
            stream=name, stream_at=stream_at, feed_at=feed_at,
        )  # fmt: skip

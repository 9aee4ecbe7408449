"""A standby takes over that lacks the last changes: each reader of the feed is warned, and skips nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import redis
import sqlalchemy as sa
from click.testing import CliRunner, Result

from scraper import api
from scraper import settings as settings_module
from scraper.cli.main import main
from scraper.errors import CursorError
from scraper.feed import consumers, store
from scraper.feed import reader as feed
from scraper.feed.reader import ChangeReader
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.rules import PriceRule
from scraper.plugins.changes import command as changes_module
from scraper.plugins.matching.linking import step
from scraper.plugins.stream.publish import ChangeStream
from scraper.settings import Settings
from tests.support.judged_crawls import priced
from tests.support.making import rows
from tests.support.servers.replication import Pair, open_pair
from tests.support.shops.crawled_shop import Shop
from tests.support.waiting import until

pytestmark = pytest.mark.slow

FELL = [PriceRule.model_validate({"name": "fell", "when": "fell"})]
CHEAPEST = [PriceRule.model_validate({"name": "cheapest", "when": "cheapest"})]
OFFERS = """
SELECT jsonb_agg(jsonb_build_object('site', site, 'id', '7', 'url', NULL, 'title', 'A', 'price', price,
                                    'currency', 'EUR', 'in_stock', true) ORDER BY price)
  FROM (VALUES ('shop', %s), ('other', 8)) AS offers (site, price)
"""
EVENT = sa.text(
    f"INSERT INTO article_events (article_id, before, after) SELECT 1, ({OFFERS % 9}), ({OFFERS % 7})"
)
REPLACED = "PostgreSQL was replaced"


@pytest.fixture
def pair(environment: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    with open_pair(synchronous=False) as made:
        monkeypatch.setenv("DATABASE_URL", made.url)
        settings_module.load.cache_clear()
        yield made


@pytest.fixture
def engine(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    made = make_engine(settings_module.load().postgres_url)
    migrations.upgrade(made)
    monkeypatch.setattr(changes_module, "open_engine", lambda: made)
    try:
        yield made
    finally:
        made.dispose()


class Readers:
    """One of each kind, which read all that there is."""

    def __init__(self, engine: sa.Engine, client: Any) -> None:
        self.engine, self.client = engine, client

    def read(self) -> None:
        changes("--consumer", "lake")
        self.fill()
        outbox.collect(self.engine, FELL)
        outbox.collect_market(self.engine, CHEAPEST)

    def fill(self) -> int:
        with self.engine.connect() as connection:
            return ChangeStream(self.client, "changes", 1000).fill(connection)

    def position(self, consumer: str) -> int | None:
        with self.engine.connect() as connection:
            return consumers.read_position(connection, consumer, None)

    def alerts(self, rule: str) -> list[object]:
        query = f"SELECT abs(change_id) FROM price_alerts WHERE rule = '{rule}' ORDER BY 1"
        return [position for (position,) in rows(self.engine, query)]


@pytest.fixture
def readers(engine: sa.Engine, environment: Settings) -> Iterator[Readers]:
    with redis.Redis.from_url(environment.valkey_url, decode_responses=True) as client:
        yield Readers(engine, client)


def changes(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["changes", *words])
    assert result.exit_code == code, result.output
    return result


def fail_over(pair: Pair, engine: sa.Engine) -> None:
    pair.fail_over()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if rows(engine, "SELECT pg_is_in_recovery()") == [(False,)]:
                return
        except sa.exc.DBAPIError:
            time.sleep(0.1)
    raise AssertionError("the standby was not promoted")


def record_event(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(EVENT)


def test_every_reader_is_warned_and_none_skips(
    pair: Pair, engine: sa.Engine, readers: Readers, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(engine)
    readers.read()
    step.run(engine, 5)
    priced(shop, "20.00", "19.00", "18.00")
    record_event(engine)
    readers.read()
    common = store.current_cursor(engine)
    said: list[str] = []
    errors: list[BaseException] = []
    stop, has_read = threading.Event(), threading.Event()

    def follow() -> None:
        own = make_engine(settings_module.load().postgres_url)
        try:
            for change in feed.follow(own, "oldest", stop=stop, say=said.append):
                if change.cursor > common:
                    has_read.set()
        except CursorError as error:
            errors.append(error)
        own.dispose()

    thread = threading.Thread(target=follow)
    thread.start()
    pair.detach_standby()
    # More than the values of a sequence that its log keeps in hand.
    with engine.begin() as connection:
        connection.execute(
            sa.text("SELECT count(nextval('changes_id_seq')) FROM generate_series(1, 99)")
        )
    priced(shop, "17.00", "16.00")
    record_event(engine)
    readers.read()
    lost = store.current_cursor(engine)
    assert has_read.wait(60)
    fail_over(pair, engine)
    capsys.readouterr()

    # Nothing was changed since, so the new primary has no position of its own.
    assert f"go on from cursor {common}," in changes("--since", str(lost), code=6).stderr
    consumer = changes("--consumer", "lake")
    assert (consumer.stdout, f"all changes up to cursor {common};" in consumer.stderr) == ("", True)
    thread.join(60)
    assert REPLACED in str(errors) and not stop.is_set()
    assert readers.fill() == common
    assert "stream" not in capsys.readouterr().out, "before the next change there is nothing to add"
    with pytest.raises(CursorError, match=REPLACED):
        list(api.read_changes(lost))
    assert list(api.read_changes(common, say=said.append)) == [] and REPLACED in said[-1]

    priced(shop, "15.00", "14.00")
    for _ in range(2):
        record_event(engine)
    new = [
        row[0] for row in rows(engine, f"SELECT id FROM changes WHERE id > {common} ORDER BY id")
    ]
    assert len(new) == 2 and int(str(new[0])) > lost, "no position is given out twice"
    consumer = changes("--consumer", "lake")
    assert len(consumer.stdout.splitlines()) == 2
    assert f"all changes up to cursor {common};" in consumer.stderr
    assert REPLACED not in changes("--consumer", "lake").stderr, "once"
    changes("--since", str(lost), code=6)
    for _ in range(2):
        readers.read()
        step.run(engine, 5)
    after = [fields["after"] for _, fields in readers.client.xrange("changes")]
    assert after[-2:] == [f"{common}-0", f"{new[0]}-0"]
    assert readers.alerts("fell") == [2, 3, *new]
    events = [row[0] for row in rows(engine, "SELECT id FROM article_events ORDER BY id")]
    assert (readers.alerts("cheapest"), readers.position("market-alerts")) == (events, events[-1])
    log = capsys.readouterr().out
    for line in (
        "stream has changes that PostgreSQL lost",
        f"{REPLACED}; price alerts",
        f"{REPLACED}; alerts over all shops",
    ):
        assert log.count(line) == 1, log


@pytest.mark.slow
def test_the_first_transaction_of_a_new_installation_is_missed(
    pair: Pair, engine: sa.Engine
) -> None:
    """The standby has never seen a change, and knows that its primary may have made some."""
    with pair.connect() as primary, pair.connect(node=1) as standby:
        written = primary.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        assert written
        replayed = "SELECT pg_last_wal_replay_lsn() >= %s"
        until(lambda: standby.execute(replayed, written).fetchone() == (True,), timeout_s=60)
    pair.detach_standby()
    priced(Shop(engine), "20.00", "19.00")
    read = changes("--consumer", "lake").stdout.splitlines()
    lost = store.current_cursor(engine)
    assert len(read) == 2 and REPLACED not in changes("--since", str(lost)).stderr
    fail_over(pair, engine)
    assert "go on from cursor 0," in changes("--since", str(lost), code=6).stderr
    priced(Shop(engine), "18.00", "17.00", "16.00")
    assert "go on from cursor 0," in changes("--since", str(lost), code=6).stderr
    consumer = changes("--consumer", "lake", "--since", "oldest")
    assert len(consumer.stdout.splitlines()) == 3
    (first,) = rows(engine, "SELECT min(id) FROM changes")
    assert int(str(first[0])) > lost, "no position is given out twice"


@pytest.mark.slow
def test_a_reader_does_not_go_on_at_a_standby(pair: Pair, engine: sa.Engine) -> None:
    """It has no locks that show whose changes are under way. `--follow` waits for its promotion."""
    shop = Shop(engine)
    priced(shop, "20.00")
    hosts = ",".join(f"127.0.0.1:{port}" for port in pair.ports)
    either = make_engine(
        Settings(database_url=f"postgresql://scraper@{hosts}/scraper").postgres_url
    )
    reader = ChangeReader(either, 0)
    assert [change.data["price"] for change in reader.next()] == [Decimal("20.00")]
    priced(shop, "19.00")
    with pair.connect(node=1) as standby:
        counted = "SELECT count(*) FROM changes"
        until(lambda: standby.execute(counted).fetchone() == (2,), timeout_s=60)
    reader.close()
    either.dispose()
    pair.kill_primary()
    with pytest.raises(store.StandbyError):
        reader.next()
    said: list[str] = []
    stream = feed.follow_batches(reader, threading.Event(), said.append)
    threading.Timer(1.5, pair.promote_standby).start()
    assert [change.data["price"] for change in next(stream)] == [Decimal("19.00")]
    assert [text.split(":")[0] for text in said] == [
        "PostgreSQL does not answer; goes on when it does",
        "PostgreSQL answers again",
        REPLACED,
    ]
    stream.close()
    either.dispose()

"""The feed on a real PostgreSQL: each change once and in order, whatever commits late, is rolled
back, or is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.coordinator import reap
from scraper.domain import Outcome, Status, Verdict
from scraper.errors import CursorError, NotFoundError, ScraperError
from scraper.feed import reader as changes
from scraper.feed import store as store
from scraper.feed.reader import Change, ChangeReader
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.results.judgement import crawl_quality
from scraper.results.transaction import PageResult
from scraper.settings import Settings
from tests.support.judged_crawls import put
from tests.support.making import (
    a_site,
    add,
    at_once,
    claimed,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    with_product,
)
from tests.support.making import store as settle
from tests.support.shops.crawled_shop import A, B, Shop


@pytest.fixture
def shop(engine: sa.Engine) -> Shop:
    return Shop(engine)


def told(
    engine: sa.Engine, since: changes.Since = 0, site: str | None = None
) -> list[tuple[str, str, int]]:
    return [(one.event, one.id, one.version) for one in changes.read(engine, since, site=site)]


# --- what the feed reports


def test_new_changed_delisted_and_relisted(shop: Shop) -> None:
    shop.once(title="A", price=Decimal("9.90"), gone=1)
    shop.once(title="A", price=Decimal("8.50"), extra=True)
    for _ in range(2):
        shop.once(external_id="8", url=B, title="B")
    shop.once(title="A", price=Decimal("8.50"), extra=True)
    found = list(changes.read(shop.engine, 0))
    assert [(one.event, one.id, one.version) for one in found] == [
        ("new", "7", 1), ("changed", "7", 2), ("new", "8", 1), ("delisted", "7", 2), ("relisted", "7", 2),
    ]  # fmt: skip
    new, changed, _, delisted, relisted = found
    assert (
        new.data == {"title": "A", "price": Decimal("9.90"), "gone": 1}
        and new.changed == ()
        and new.before == {}
    )
    assert changed.changed == ("extra", "gone", "price")
    assert changed.before == {"extra": None, "gone": 1, "price": Decimal("9.90")}
    assert str(changed.data["price"]) == "8.50", "every digit"
    assert (
        delisted.data == relisted.data == changed.data
        and delisted.changed == relisted.changed == ()
    )
    assert [one.crawl for one in found] == [1, 2, 3, 4, 5] and {one.site for one in found} == {
        "shop"
    }
    assert [one.cursor for one in found] == sorted({one.cursor for one in found})
    assert all(one.at.tzinfo is not None for one in found)


def test_what_is_found_as_it_was_is_not_a_change(shop: Shop) -> None:
    for _ in range(3):
        shop.once(title="A")
    assert told(shop.engine) == [("new", "7", 1)]


def test_the_hours_guard_and_a_page_that_moves_write_no_change(shop: Shop) -> None:
    shop.once(title="A")
    with shop.engine.begin() as connection:
        connection.execute(sa.text("UPDATE products SET fetched_at = now() - interval '2 hours'"))
    shop.once(title="A")
    shop.once(url=B, title="A")
    shop.once(url=B, title="A")
    assert rows(
        shop.engine, "SELECT pg.url FROM products p JOIN pages pg ON pg.id = p.page_id"
    ) == [(B,)]
    assert told(shop.engine) == [("new", "7", 1)]


def test_listed_again_with_another_content_is_one_change(shop: Shop) -> None:
    shop.once(price=10)
    for _ in range(2):
        shop.once(external_id="8", url=B)
    shop.once(price=11)
    (*_, last) = changes.read(shop.engine, 0)
    assert (last.event, last.id, last.version, last.changed, last.before) == (
        "relisted",
        "7",
        2,
        ("price",),
        {"price": 10},
    )


def test_listed_again_by_a_page_that_gave_nothing_new(shop: Shop) -> None:
    """A 304, or an age below the revisit age: the product is not written, only its page is there
    again."""
    shop.once(price=10)
    for _ in range(2):
        shop.once(external_id="8", url=B)
    pages = shop.begin(A)
    page_id, lease_id = pages[A]
    verdict = Verdict(Status.UNCHANGED, 0.0, True)
    settle(
        shop.engine,
        shop.crawl,
        [PageResult(page_id, shop.crawl[1], lease_id, Outcome.NOT_MODIFIED, verdict)],
    )
    shop.end()
    assert told(shop.engine)[-1] == ("relisted", "7", 1)


def test_a_crawl_that_is_not_whole_or_suspect_delists_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.once(title="A")
    monkeypatch.setattr(crawl_quality, "judge_data", lambda *_: True)
    for _ in range(3):
        shop.once(external_id="8", url=B)
    assert told(shop.engine) == [("new", "7", 1), ("new", "8", 1)]


def test_a_lost_lease_reports_nothing(shop: Shop) -> None:
    pages = shop.begin(A)
    shop.give(pages[A], "7", title="A")
    shop.give(pages[A], "7", title="other")
    assert told(shop.engine) == [("new", "7", 1)]


def test_only_one_sites_changes(engine: sa.Engine) -> None:
    one, other = Shop(engine), Shop(engine)
    other.site = a_site("other")
    one.once(title="A")
    crawl = open_crawl(engine, other.site)
    add(engine, [new_page(crawl, "https://other.example/p/1")])
    (batch,) = lease_all(engine, "other.example")
    lease = claimed(engine, batch)
    assert lease is not None
    page = settled(lease.pages[0].id, crawl, lease.id)
    settle(engine, crawl, [with_product(page, crawl, "9", {"title": "O"})])
    one.once(title="A2")
    assert told(engine, site="shop") == [("new", "7", 1), ("changed", "7", 2)]
    assert told(engine, site="other") == [("new", "9", 1)]
    assert len(told(engine)) == 3
    with pytest.raises(NotFoundError, match="no site named 'nowhere'"):
        told(engine, site="nowhere")


# --- the gap


@pytest.fixture
def two(database: str) -> Iterator[tuple[sa.Connection, sa.Connection]]:
    """Two connections of different engines, each with a transaction of its own."""
    engines = [make_engine(database) for _ in range(2)]
    connections = [engine.connect() for engine in engines]
    yield connections[0], connections[1]
    for connection in connections:
        connection.close()
    for engine in engines:
        engine.dispose()


@pytest.fixture
def products(shop: Shop) -> list[int]:
    """Ids of five products, whose own changes are read."""
    urls = [f"https://shop.example/p/{n}" for n in range(5)]
    pages = shop.begin(*urls)
    for number, url in enumerate(urls):
        shop.give(pages[url], str(number), title=url)
    return [
        int(str(row[0]))
        for row in rows(shop.engine, "SELECT id FROM products ORDER BY external_id")
    ]


def ids(found: list[Change]) -> list[str]:
    return [one.id for one in found]


@pytest.fixture
def reader_of(engine: sa.Engine) -> Iterator[Callable[..., ChangeReader]]:
    """Readers that let their connections go in the end."""
    readers = []

    def make(since: int = 0, **more: Any) -> ChangeReader:
        readers.append(ChangeReader(engine, since, **more))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()


def until_quiet(reader: ChangeReader) -> list[Change]:
    found = []
    while True:
        batch = reader.next()
        found += batch
        if not batch and not reader.waits:
            return found


def test_who_commits_late_is_not_passed_over(
    engine: sa.Engine,
    products: list[int],
    two: tuple[sa.Connection, sa.Connection],
    reader_of: Callable[..., ChangeReader],
) -> None:
    """The lower positions become visible last. `WHERE id > cursor` would lose them, which is shown
    too."""
    reader = reader_of()
    until_quiet(reader)
    late, early = two
    put(late, products[0])
    put(early, products[1])
    put(late, products[2])
    early.commit()
    naive = "SELECT max(id) FROM changes"
    seen_so_far = int(str(rows(engine, naive)[0][0]))
    assert [reader.next() for _ in range(20)] == [[]] * 20 and reader.waits
    late.commit()
    assert ids(until_quiet(reader)) == ["0", "1", "2"]
    lost = rows(
        engine,
        f"SELECT count(*) FROM changes WHERE id < {seen_so_far} AND product_id = {products[0]}",
    )
    assert lost == [(2,)], (
        "one of its own first, and the one that a naive reader would have passed over"
    )


def test_what_is_decided_is_read_while_another_transaction_is_open(
    engine: sa.Engine,
    products: list[int],
    two: tuple[sa.Connection, sa.Connection],
    reader_of: Callable[..., ChangeReader],
) -> None:
    reader = reader_of()
    until_quiet(reader)
    first, second = two
    put(first, products[0])
    assert reader.next() == [] and reader.waits  # waits for the first
    put(second, products[1])
    first.commit()
    assert ids(reader.next()) == ["0"], (
        "the second one began later, and does not hold up what was asked for before"
    )
    second.commit()
    assert ids(until_quiet(reader)) == ["1"]


def test_a_transaction_that_is_rolled_back_leaves_a_gap_and_nothing_else(
    engine: sa.Engine,
    products: list[int],
    two: tuple[sa.Connection, sa.Connection],
    reader_of: Callable[..., ChangeReader],
) -> None:
    reader = reader_of()
    until_quiet(reader)
    cursor = reader.cursor
    put(two[0], products[0])
    two[0].rollback()
    assert until_quiet(reader) == []
    assert reader.cursor == cursor, "a cursor is a row's, not one that was only given out"
    put(two[1], products[1])
    two[1].commit()
    assert ids(until_quiet(reader)) == ["1"]


def test_foreign_transactions_hold_nothing_up(
    engine: sa.Engine, products: list[int], two: tuple[sa.Connection, sa.Connection]
) -> None:
    """A backup, a report, a long write to another table: the oldest transaction there is, and none
    of the feed's business."""
    backup, migration = two
    backup.execution_options(isolation_level="REPEATABLE READ").execute(
        sa.text("SELECT count(*) FROM changes")
    )
    migration.execute(sa.text("CREATE TABLE elsewhere AS SELECT 1 AS one"))
    migration.execute(sa.text("SELECT count(*) FROM changes"))
    with engine.begin() as connection:
        put(connection, products[3])
    assert ids(list(changes.read(engine, 0)))[-1] == "3"
    held = rows(
        engine,
        "SELECT pg_snapshot_xmin(pg_current_snapshot()) <= max(CAST(CAST(xmin AS text) AS xid8)) FROM changes",
    )
    assert held == [(True,)], "by the oldest transaction, the change would not be there yet"


def test_who_holds_it_up_is_named(
    engine: sa.Engine, products: list[int], two: tuple[sa.Connection, sa.Connection]
) -> None:
    put(two[0], products[0])
    process = two[0].execute(sa.text("SELECT pg_backend_pid()")).scalar()
    with pytest.raises(
        ScraperError, match=rf"process {process} of 'scraper'.*pg_terminate_backend\({process}\)"
    ):
        store.current_cursor(engine, patience_s=0.05)


def test_many_writers_and_three_readers(
    engine: sa.Engine, products: list[int], database: str, reader_of: Callable[..., ChangeReader]
) -> None:
    """Each reader has each row once, versions of a product in order, at whatever pace."""
    start = store.current_cursor(engine)
    write = sa.text("""
        WITH locked AS (SELECT id FROM products WHERE id = :id FOR UPDATE),
             bumped AS (UPDATE products SET version = version + 1 WHERE id IN (SELECT id FROM locked) RETURNING id, version)
        INSERT INTO changes (site_id, product_id, crawl_id, version, event) SELECT 1, id, 1, version, 'delisted' FROM bumped
        RETURNING id, version""")
    done = threading.Event()
    written: list[tuple[int, int]] = []
    sleeps = [0.0, 0.001, 0.01]

    def writer(number: int) -> None:
        own = make_engine(database)
        for step in range(40):
            connection = own.connect()
            for product in sorted({products[(number + step) % 5], products[(number * step) % 5]}):
                connection.execute(write, {"id": product})
            connection.execute(sa.text("SELECT pg_sleep(:s)"), {"s": 0.002 * ((number + step) % 4)})
            connection.rollback() if step % 7 == 0 else connection.commit()
            connection.close()
        own.dispose()

    def read(reader: ChangeReader, into: list[tuple[str, int]], pause: float) -> None:
        while True:
            over = done.is_set()
            batch = reader.next()
            into += [(one.id, one.cursor) for one in batch]
            if over and not batch and not reader.waits:
                return
            done.wait(pause)

    seen: list[list[tuple[str, int]]] = [[], [], []]
    readers = [reader_of(start, rows=7) for _ in seen]
    threads = [
        threading.Thread(target=read, args=each) for each in zip(readers, seen, sleeps, strict=True)
    ]
    for thread in threads:
        thread.start()
    at_once([lambda n=n: writer(n) for n in range(4)])  # type: ignore[misc]
    done.set()
    for thread in threads:
        thread.join(60)
    stored = rows(engine, f"SELECT id, version FROM changes WHERE id > {start} ORDER BY id")
    written = [(int(str(one)), int(str(two))) for one, two in stored]
    assert len(written) > 150
    for found in seen:
        assert [cursor for _, cursor in found] == [position for position, _ in written]
    by_product = rows(
        engine, "SELECT count(*) FROM (SELECT version > lag(version) OVER (PARTITION BY product_id ORDER BY id) AS ok "
        f"FROM changes WHERE id > {start}) AS each WHERE NOT ok")  # fmt: skip
    assert by_product == [(0,)]


# --- where to begin, and what is forgotten


def test_a_reader_of_a_quiet_site_does_not_stay_behind(
    engine: sa.Engine, shop: Shop, reader_of: Callable[..., ChangeReader]
) -> None:
    """Its cursor moves with the others' changes: what it has nothing of may be forgotten."""
    shop.once(title="A")
    quiet = a_site("quiet")
    open_crawl(engine, quiet)
    reader = reader_of(site="quiet")
    assert until_quiet(reader) == []
    assert [(reader.cursor,)] == rows(engine, "SELECT max(id) FROM changes")


def test_forgotten_from_the_oldest_on(engine: sa.Engine, shop: Shop, environment: Settings) -> None:
    for price in range(6):
        shop.once(price=price)
    positions = [one.cursor for one in changes.read(engine, 0)]
    with engine.begin() as connection:
        for position in positions[:4]:
            age = sa.text("UPDATE changes SET at = now() - interval '31 days' WHERE id = :id")
            connection.execute(age, {"id": position})
    # a younger one among the old ones: what comes after it stays as well
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE changes SET at = now() WHERE id = :id"), {"id": positions[2]}
        )
    reap.reap(engine, environment)
    assert [one.cursor for one in changes.read(engine, "oldest")] == positions[2:]
    assert [one.cursor for one in changes.read(engine, positions[1])] == positions[2:]
    for gone in (0, positions[0]):
        with pytest.raises(
            CursorError,
            match=rf"what came after cursor {gone}: it begins at {positions[1]} .*whole",
        ):
            list(changes.read(engine, gone))
    with pytest.raises(CursorError, match="does not reach back"):
        list(changes.read(engine, datetime.now(UTC) - timedelta(days=40)))
    hour = datetime.now(UTC) - timedelta(hours=1)
    assert [one.cursor for one in changes.read(engine, hour)] == positions[2:]
    reap.reap(engine, environment)
    assert rows(engine, "SELECT count(*) FROM changes") == [(4,)]


def test_trimming_is_bounded(
    engine: sa.Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.once(title="A")
    old = "INSERT INTO changes (site_id, product_id, crawl_id, version, event, at) SELECT 1, 1, 1, 1, 'new', "
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM changes"))
        connection.execute(sa.text(f"{old} now() - interval '40 days' FROM generate_series(1, 50)"))
    monkeypatch.setattr(store, "TRIM_ROWS", 20)
    left = []
    for _ in range(4):
        with engine.begin() as connection:
            store.trim_feed(connection, 30)
        left += [row[0] for row in rows(engine, "SELECT count(*) FROM changes")]
    assert left == [30, 10, 0, 0]
    assert list(changes.read(engine, "oldest")) == [] == list(changes.read(engine, "now"))


def test_a_cursor_of_another_database(engine: sa.Engine, shop: Shop) -> None:
    shop.once(title="A")
    with pytest.raises(CursorError, match="cursor 4711 is ahead of the feed"):
        list(changes.read(engine, 4711))


def test_now_and_a_time(engine: sa.Engine, shop: Shop) -> None:
    shop.once(price=1)
    between = rows(engine, "SELECT clock_timestamp()")[0][0]
    assert told(engine, "now") == []
    cursor = changes.resolve_cursor(engine, "now")
    shop.once(price=2)
    assert isinstance(between, datetime)
    assert told(engine, between) == told(engine, cursor) == [("changed", "7", 2)]
    assert told(engine, datetime.now(UTC) + timedelta(days=1)) == []


@pytest.mark.usefixtures("own_database")
def test_databases_that_had_products_before(engine: sa.Engine, shop: Shop) -> None:
    """The migration of a database with products: a reader that wants all takes an export first."""
    shop.once(title="A")
    migrations.downgrade(engine, "0009")
    migrations.upgrade(engine)
    with pytest.raises(CursorError):
        list(changes.read(engine, 0))
    with pytest.raises(CursorError):
        list(changes.read(engine, datetime.now(UTC) - timedelta(days=1)))
    with store.open_view(engine) as view:
        cursor = view.cursor
    assert cursor is not None
    shop.once(title="B")
    assert told(engine, cursor) == told(engine, "oldest") == [("changed", "7", 2)]


# --- views of one moment


def test_a_view_and_what_follows_it_are_everything_once(
    engine: sa.Engine, products: list[int], two: tuple[sa.Connection, sa.Connection]
) -> None:
    """A transaction that has written, and one that is about to: the view is after the one and
    before the other."""
    writing, later = two
    put(writing, products[0])
    taken = threading.Event()
    found: list[tuple[int, bool, int]] = []

    def take() -> None:
        with store.open_view(engine) as view:
            taken.set()
            query = sa.text("SELECT count(*) FROM changes")
            assert view.cursor is not None
            late.wait(30)
            found.append(
                (view.cursor, view.exact, int(view.connection.execute(query).scalar_one()))
            )

    late = threading.Event()
    thread = threading.Thread(target=take)
    thread.start()
    assert not taken.wait(0.4), (
        "while a transaction is open that has written to the feed there is no such moment"
    )
    writing.commit()
    assert taken.wait(30)
    put(later, products[1])
    later.commit()
    late.set()
    thread.join(30)
    ((cursor, exact, seen),) = found
    after = list(changes.read(engine, cursor))
    assert exact and ids(after) == ["1"]
    assert rows(engine, "SELECT count(*) FROM changes") == [(seen + 1,)]


def test_a_view_does_not_stop_writers(
    engine: sa.Engine, products: list[int], two: tuple[sa.Connection, sa.Connection]
) -> None:
    with store.open_view(engine) as view:
        put(two[0], products[0])
        two[0].commit()
        assert view.connection.execute(sa.text("SELECT count(*) FROM changes")).scalar() == 5
    assert ids(list(changes.read(engine, view.cursor or 0))) == ["0"]


def test_a_view_without_a_moment_of_rest_is_a_little_early(
    engine: sa.Engine,
    products: list[int],
    two: tuple[sa.Connection, sa.Connection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "LOCK_TRIES", 2)
    monkeypatch.setattr(store, "LOCK_MS", 20)
    with engine.begin() as connection:
        put(connection, products[0])
    put(two[0], products[1])
    given_up = iter([two[0].commit] + [lambda: None] * 10_000)
    with store.open_view(engine, sleep=lambda _: next(given_up)()) as view:
        pass
    put(two[1], products[2])
    slept = 0

    def sleep(_: float) -> None:
        nonlocal slept
        slept += 1
        if slept == 3:
            two[1].commit()

    with store.open_view(engine, sleep=sleep) as view:
        seen = {row.id for row in view.connection.execute(sa.text("SELECT id FROM changes"))}
    assert not view.exact and view.cursor is not None
    assert {one.cursor for one in changes.read(engine, 0)} == seen | {
        one.cursor for one in changes.read(engine, view.cursor)
    }


def test_a_role_that_may_only_read_still_exports(
    engine: sa.Engine, database: str, products: list[int]
) -> None:
    role = f"reader_{database.rpartition('/')[2].partition('?')[0]}"
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE ROLE {role} LOGIN"))
        connection.execute(sa.text(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"))
        connection.execute(sa.text(f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}"))
    reading = make_engine(database)

    @sa.event.listens_for(reading, "connect")
    def _become(connection: object, _: object) -> None:
        connection.execute(f"SET ROLE {role}")  # type: ignore[attr-defined]
        connection.commit()  # type: ignore[attr-defined]

    try:
        with store.open_view(reading) as view:
            assert view.connection.execute(sa.text("SELECT count(*) FROM changes")).scalar() == 5
        assert not view.exact and view.cursor == changes.resolve_cursor(engine, "now")
        assert len(list(changes.read(reading, 0))) == 5
    finally:
        reading.dispose()
        with engine.begin() as connection:
            connection.execute(sa.text(f"DROP OWNED BY {role}"))
            connection.execute(sa.text(f"DROP ROLE {role}"))

"""Migrations on an empty database: there and back, equal to the models, and data survives the
newest one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from scraper.errors import ServerUnavailableError
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.results import held_values
from tests.support.making import (
    a_site,
    add,
    claimed,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    urls,
    with_product,
)
from tools.migrations import down, revisions, there_and_back

TABLES = ("sites", "crawls", "pages", "leases", "products", "product_versions")


@pytest.fixture
def empty(empty_database: str) -> Iterator[sa.Engine]:
    engine = make_engine(empty_database)
    yield engine
    engine.dispose()


def test_there_and_back_again(empty: sa.Engine) -> None:
    there_and_back(empty)


def _upgrade(url: str) -> None:
    migrations.upgrade(make_engine(url))


def test_two_at_once_migrate_once_and_again_does_nothing(
    empty: sa.Engine, empty_database: str
) -> None:
    """Two processes, for Alembic keeps one migration a process."""
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_upgrade, args=(empty_database,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert migrations.upgrade(empty) == migrations.head() == revisions()[-1]
    assert rows(empty, "SELECT version_num FROM alembic_version") == [(revisions()[-1],)]


def test_a_database_that_is_behind_says_what_to_type(empty: sa.Engine) -> None:
    with pytest.raises(ServerUnavailableError, match="scraper migrate"):
        migrations.require_current(empty)
    migrations.upgrade(empty)
    migrations.require_current(empty)


@pytest.mark.parametrize("revision", revisions()[-3:-1])
def test_data_survives_the_newest_revisions(empty: sa.Engine, revision: str) -> None:
    migrations.upgrade(empty)
    some_data(empty)
    before = {table: rows(empty, f"SELECT count(*) FROM {table}") for table in TABLES}
    products = rows(empty, "SELECT external_id, data ->> 'title', version FROM products ORDER BY 1")
    leased = rows(empty, "SELECT * FROM leased_pages ORDER BY page_id")
    assert len(leased) == 1
    down(empty, revision)
    migrations.upgrade(empty)
    assert {table: rows(empty, f"SELECT count(*) FROM {table}") for table in TABLES} == before
    assert (
        rows(empty, "SELECT external_id, data ->> 'title', version FROM products ORDER BY 1")
        == products
    )
    assert rows(empty, "SELECT * FROM leased_pages ORDER BY page_id") == leased


def some_data(engine: sa.Engine) -> None:
    """A row at least in every table."""
    for title in ("A", "B", "C"):
        crawl = open_crawl(engine, a_site(revisit="0s"))
        add(engine, [new_page(crawl, url) for url in urls(3)])
        (batch,) = lease_all(engine, "shop.example", 2)
        lease = claimed(engine, batch)
        assert lease is not None
        first = settled(lease.pages[0].id, crawl, batch.id)
        store(engine, crawl, [with_product(first, crawl, "7", {"title": title})])
        if title != "C":
            store(engine, crawl, [settled(lease.pages[1].id, crawl, batch.id)])
            with engine.begin() as connection:
                connection.execute(sa.text("UPDATE crawls SET status = 'completed'"))
                held_values.accept_values(connection, crawl[1])
                held_values.release_values(connection, crawl[1])


def test_the_data_of_these_tests_is_in_every_table(engine: sa.Engine) -> None:
    some_data(engine)
    assert [table for table in TABLES if rows(engine, f"SELECT FROM {table}") == []] == []

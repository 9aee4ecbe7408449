"""Deletes a site: its products with their history, its part of the feed, pages, crawls, what
plug-ins keep, and what Redis has stored for it. Or deletes some of its products.

It deletes a bounded number of rows at a time, in a transaction of their own, so that no other
transaction waits for long. After an interruption, call it again. The site is paused and disabled
first, so that nothing begins in between; its own row is deleted last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import sqlalchemy as sa

from scraper.errors import BusyError
from scraper.frontier import crawls
from scraper.infra import migrations
from scraper.infra.database import run_transaction
from scraper.plugin import Hooks
from scraper.registry import installed_hooks
from scraper.views.named_sites import no_site

BATCH = 10_000
# In the order of deletion: each table refers to those after it.
TABLES = ("changes", "products", "pages", "crawls")

COUNT = sa.text("""
SELECT (SELECT count(*) FROM changes WHERE site_id = :id) AS changes,
       (SELECT count(*) FROM products WHERE site_id = :id) AS products,
       (SELECT count(*) FROM pages WHERE site_id = :id) AS pages,
       (SELECT count(*) FROM crawls WHERE site_id = :id) AS crawls
""")

CLOSE = sa.text("""
UPDATE sites SET enabled = false, paused = true, updated_at = now() WHERE id = :id
""")

# The feed is read in the order of its ids, once from beginning to end.
CHANGES = sa.text(f"""
WITH chosen AS (
    SELECT id FROM changes WHERE site_id = :id AND id > :after ORDER BY id LIMIT {BATCH}
), deleted AS (
    DELETE FROM changes WHERE id IN (SELECT id FROM chosen)
)
SELECT id FROM chosen ORDER BY id
""")

# Versions and held values are deleted with their product, figures with their crawl.
PRODUCTS = sa.text(f"""
DELETE FROM products WHERE id IN (SELECT id FROM products WHERE site_id = :id LIMIT {BATCH // 10})
""")
PAGES = sa.text(f"""
DELETE FROM pages WHERE id IN (SELECT id FROM pages WHERE site_id = :id LIMIT {BATCH})
""")
# Chosen products are deleted with their changes. Their pages are read whole again, since a page
# that has not changed would confirm a product that is no longer stored.
CHOSEN = sa.text("""
WITH deleted AS (
    DELETE FROM products WHERE site_id = :id AND id = ANY (:rows) RETURNING id, page_id
), read_again AS (
    UPDATE pages SET fetched_at = NULL, content_hash = NULL, body_hash = NULL, extractor_hash = NULL
     WHERE id IN (SELECT page_id FROM deleted)
)
DELETE FROM changes WHERE site_id = :id AND product_id IN (SELECT id FROM deleted) RETURNING id
""")
LOCK = sa.text("SELECT FROM sites WHERE id = :id FOR UPDATE")
CRAWLS = sa.text("""
WITH chosen AS (SELECT id FROM crawls WHERE site_id = :id ORDER BY id LIMIT 1),
     buckets AS (DELETE FROM throughput WHERE crawl_id IN (SELECT id FROM chosen)),
     at_hosts AS (DELETE FROM crawl_hosts WHERE crawl_id IN (SELECT id FROM chosen))
DELETE FROM crawls WHERE id IN (SELECT id FROM chosen)
""")
SITE = sa.text("""
WITH routes AS (DELETE FROM host_routes WHERE site_id = :id),
     readers AS (DELETE FROM consumers WHERE site = :name),
     leases AS (DELETE FROM consumer_locks WHERE site = :name)
DELETE FROM sites WHERE id = :id
""")

# Called with the name of a count of `count_rows`, and how many of its rows were just deleted.
Progress = Callable[[str, int], None]


def count_rows(connection: sa.Connection, name: str) -> tuple[int, dict[str, int]]:
    """Returns a site's id, and how many rows of each table it has. Raises `NotFoundError`, and
    `BusyError` while it is being crawled."""
    site_id = _require_idle(connection, name)
    counted = connection.execute(COUNT, {"id": site_id}).mappings().one()
    rows = {table: int(counted[table]) for table in TABLES}
    for hooks in _hooks_with_tables(connection).values():
        rows |= hooks.count_site(connection, site_id)
    return site_id, rows


def delete_products(engine: sa.Engine, name: str, row_ids: Sequence[int]) -> None:
    """Deletes products of a site with their history and their part of the feed. A crawl that finds
    them again stores them as new. Raises as `count_rows` does."""

    def delete_batch(rows: Sequence[int], connection: sa.Connection) -> None:
        values = {"id": _require_idle(connection, name), "rows": list(rows)}
        # The lock keeps crawls from beginning before the commit.
        connection.execute(LOCK, values)
        _require_idle(connection, name)
        _forget_changes(connection, connection.execute(CHOSEN, values).scalars().all())

    for start in range(0, len(row_ids), BATCH):
        run_transaction(engine, partial(delete_batch, row_ids[start : start + BATCH]))


def delete_site(engine: sa.Engine, name: str, progress: Progress) -> int:
    """Deletes everything of a site in PostgreSQL. Returns its id. Archived files are deleted by the
    next pruning."""
    with engine.begin() as connection:
        site_id = _require_idle(connection, name)
        connection.execute(CLOSE, {"id": site_id})
    after = 0
    while True:
        delete_changes = partial(_delete_changes, site_id=site_id, after=after)
        rows, after = run_transaction(engine, delete_changes)
        progress("changes", rows)
        if rows < BATCH:
            break
    for table, statement in (("products", PRODUCTS), ("pages", PAGES)):
        _delete_all(engine, table, partial(_delete_rows, statement, site_id), progress)
    for label, piece in _pieces_of_plugins(engine, site_id):
        _delete_all(engine, label, piece, progress)
    _delete_all(engine, "crawls", partial(_delete_rows, CRAWLS, site_id), progress)
    with engine.begin() as connection:
        connection.execute(SITE, {"id": site_id, "name": name})
    return site_id


def _require_idle(connection: sa.Connection, name: str) -> int:
    row = connection.execute(sa.text("SELECT id FROM sites WHERE name = :n"), {"n": name}).first()
    if row is None:
        raise no_site(name)
    running = crawls.running_ids(connection, name)
    if running:
        raise BusyError(
            f"{name}: crawl {running[0]} is running "
            f"(fix: run `scraper stop {running[0]}`, then retry)"
        )
    return int(row.id)


def _delete_all(
    engine: sa.Engine, table: str, piece: Callable[[sa.Connection], int], progress: Progress
) -> None:
    while rows := run_transaction(engine, piece):
        progress(table, rows)


def _delete_changes(connection: sa.Connection, site_id: int, after: int) -> tuple[int, int]:
    change_ids = connection.execute(CHANGES, {"id": site_id, "after": after}).scalars().all()
    _forget_changes(connection, change_ids)
    return len(change_ids), max(change_ids, default=after)


def _forget_changes(connection: sa.Connection, change_ids: Sequence[int]) -> None:
    for hooks in _hooks_with_tables(connection).values():
        hooks.forget_changes(connection, change_ids)


def _hooks_with_tables(connection: sa.Connection) -> dict[str, Hooks]:
    """The hooks of all installed plug-ins, but those that were never on: these have no tables."""
    missing = migrations.unmigrated_plugins(connection)
    return {name: hooks for name, hooks in installed_hooks().items() if name not in missing}


def _pieces_of_plugins(
    engine: sa.Engine, site_id: int
) -> Iterator[tuple[str, Callable[[sa.Connection], int]]]:
    with engine.connect() as connection:
        counted = [
            (" and ".join(hooks.count_site(connection, site_id)), hooks)
            for hooks in _hooks_with_tables(connection).values()
        ]
    for label, hooks in counted:
        yield label, partial(_delete_piece, hooks, site_id)


def _delete_piece(hooks: Hooks, site_id: int, connection: sa.Connection) -> int:
    return hooks.delete_site(connection, site_id, BATCH)


def _delete_rows(statement: sa.TextClause, site_id: int, connection: sa.Connection) -> int:
    return connection.execute(statement, {"id": site_id}).rowcount

"""Takes a site out: its products with their history, its part of the feed, pages, archive, crawls,
and what Redis remembers of it. Or some of its products.

A bounded piece at a time, each in a transaction of its own, so that nobody waits for long; whoever
is interrupted calls it again. First the site is paused and disabled, so that nothing begins
meanwhile; its own row goes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import sqlalchemy as sa

from scraper.errors import BusyError
from scraper.frontier import crawls
from scraper.infra.database import retry_transaction
from scraper.plugin import Hooks
from scraper.registry import installed_hooks
from scraper.views.named_sites import no_site

BATCH = 10_000
# In the order in which they go: each refers to those after it.
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

# The feed is read in the order of its ids, once from its beginning to its end.
CHANGES = sa.text(f"""
WITH chosen AS (
    SELECT id FROM changes WHERE site_id = :id AND id > :after ORDER BY id LIMIT {BATCH}
), alerted AS (
    DELETE FROM price_alerts WHERE change_id IN (SELECT id FROM chosen)
), deleted AS (
    DELETE FROM changes WHERE id IN (SELECT id FROM chosen)
)
SELECT count(*) AS rows, coalesce(max(id), :after) AS last FROM chosen
""")

# Versions and held values go with their product, figures and alerts with their crawl.
PRODUCTS = sa.text(f"""
DELETE FROM products WHERE id IN (SELECT id FROM products WHERE site_id = :id LIMIT {BATCH // 10})
""")
PAGES = sa.text(f"""
DELETE FROM pages WHERE id IN (SELECT id FROM pages WHERE site_id = :id LIMIT {BATCH})
""")
# Products that are chosen go with their changes. Their pages are read anew by whoever finds them: a
# page that has not changed stands for a product that is stored.
CHOSEN = sa.text("""
WITH gone AS (
    DELETE FROM products WHERE site_id = :id AND id = ANY (:rows) RETURNING id, page_id
), read_anew AS (
    UPDATE pages SET fetched_at = NULL, content_hash = NULL, body_hash = NULL, extractor_hash = NULL
     WHERE id IN (SELECT page_id FROM gone)
), fed AS (
    DELETE FROM changes WHERE site_id = :id AND product_id IN (SELECT id FROM gone) RETURNING id
), alerted AS (
    DELETE FROM price_alerts WHERE change_id IN (SELECT id FROM fed)
)
SELECT count(*) FROM gone
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
     readers AS (DELETE FROM consumers WHERE site = :name)
DELETE FROM sites WHERE id = :id
""")

# It is called with what is deleted of, and how many rows just went.
Progress = Callable[[str, int], None]


def counts(connection: sa.Connection, name: str) -> tuple[int, dict[str, int]]:
    """A site's id, and how many rows of each sort it has. Raises `NotFoundError`, and `BusyError`
    while it is being crawled."""
    site_id = _resting(connection, name)
    counted = connection.execute(COUNT, {"id": site_id}).mappings().one()
    rows = {table: int(counted[table]) for table in TABLES}
    for hooks in installed_hooks().values():
        rows |= hooks.count_site(connection, site_id)
    return site_id, rows


def delete_products(engine: sa.Engine, name: str, row_ids: Sequence[int]) -> None:
    """Deletes these products of a site with their history and their part of the feed; a crawl that
    finds them again stores them as new. Raises as `counts` does."""

    def once(rows: Sequence[int]) -> None:
        with engine.begin() as connection:
            values = {"id": _resting(connection, name), "rows": list(rows)}
            # No crawl begins before it is committed.
            connection.execute(LOCK, values)
            _resting(connection, name)
            connection.execute(CHOSEN, values)

    for start in range(0, len(row_ids), BATCH):
        retry_transaction(partial(once, row_ids[start : start + BATCH]))


def delete_site(engine: sa.Engine, name: str, progress: Progress) -> int:
    """Deletes everything of a site in PostgreSQL. Returns its id. Archived files go with the next
    pruning."""
    with engine.begin() as connection:
        site_id, _ = counts(connection, name)
        connection.execute(CLOSE, {"id": site_id})
    after = 0
    while True:
        rows, after = retry_transaction(partial(_changes, engine, site_id, after))
        progress("changes", rows)
        if rows < BATCH:
            break
    for what, statement in (("products", PRODUCTS), ("pages", PAGES)):
        _empty(engine, what, partial(_rows, statement, site_id), progress)
    for name_of_rows, piece in _pieces_of_plugins(site_id):
        _empty(engine, name_of_rows, piece, progress)
    _empty(engine, "crawls", partial(_rows, CRAWLS, site_id), progress)
    with engine.begin() as connection:
        connection.execute(SITE, {"id": site_id, "name": name})
    return site_id


def _resting(connection: sa.Connection, name: str) -> int:
    row = connection.execute(sa.text("SELECT id FROM sites WHERE name = :n"), {"n": name}).first()
    if row is None:
        raise no_site(name)
    running = crawls.running_ids(connection, name)
    if running:
        raise BusyError(
            f"{name}: crawl {running[0]} is running (fix: scraper stop {running[0]}, then again)"
        )
    return int(row.id)


def _empty(
    engine: sa.Engine, what: str, piece: Callable[[sa.Connection], int], progress: Progress
) -> None:
    def once() -> int:
        with engine.begin() as connection:
            return piece(connection)

    while rows := retry_transaction(once):
        progress(what, rows)


def _changes(engine: sa.Engine, site_id: int, after: int) -> tuple[int, int]:
    with engine.begin() as connection:
        row = connection.execute(CHANGES, {"id": site_id, "after": after}).one()
        return row.rows, row.last


def _pieces_of_plugins(site_id: int) -> Iterator[tuple[str, Callable[[sa.Connection], int]]]:
    for name, hooks in installed_hooks().items():
        yield name, partial(_delete_piece, hooks, site_id)


def _delete_piece(hooks: Hooks, site_id: int, connection: sa.Connection) -> int:
    return hooks.delete_site(connection, site_id, BATCH)


def _rows(statement: sa.TextClause, site_id: int, connection: sa.Connection) -> int:
    return connection.execute(statement, {"id": site_id}).rowcount

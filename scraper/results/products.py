"""Products and their versions: the upsert, what a 304 confirms, and the readers behind export and
history.

A product has one row. It is written if its content differs or the stored row is older than an hour,
never over something that was fetched later, and only by a page that may write it
(`results/may_write.sql`). A product of a platform's interface moves from page to page: in each
crawl it belongs to the first page that gives it, and is written once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import value
from scraper.infra.database import dumps, loads
from scraper.infra.statements import sql

# An unchanged product is not rewritten more often than this; both statements have the same number.
GUARD = "1 hour"

UPSERT = sa.text(sql("results/upsert_products.sql"))
CONFIRM = sa.text(sql("results/confirm_products.sql"))

EXPORT = sa.text("""
SELECT p.external_id, p.url, p.first_seen_at, p.changed_at, p.fetched_at, p.delisted_at, p.version,
       CAST(p.data AS text) AS data
  FROM products p JOIN sites s ON s.id = p.site_id
 WHERE s.name = :site AND (:delisted OR p.delisted_at IS NULL)
 ORDER BY p.external_id COLLATE "C"
""")

EXPORT_SINCE = sa.text(
    str(EXPORT).replace(
        "(:delisted OR p.delisted_at IS NULL)",
        "p.id IN (SELECT c.product_id FROM changes c WHERE c.site_id = s.id AND c.id > :since)",
    )
)

HISTORY = sa.text("""
SELECT version, valid_from, valid_to, CAST(data AS text) AS data FROM product_history
 WHERE site = :site AND external_id = :external_id ORDER BY version
""")


@value
class NewProduct:
    """A product as a page gave it. `content_hash` is the hash of `data`, which is JSON-able.
    `moves` marks products of a platform's interface, which may be on another page any day."""

    site_id: int
    external_id: str
    page_id: int
    crawl_id: int
    url: str
    data: Any
    content_hash: UUID
    moves: bool = False


@dataclass(frozen=True, slots=True)
class WrittenProduct:
    """What the upsert did with a product. A `strayed` product was not written: it came from another
    product's page, and has a page of its own. `repriced` means that a price changed within its
    currency."""

    crawl_id: int
    inserted: bool
    changed: bool
    strayed: bool
    repriced: bool


def parse_data(text: str) -> dict[str, Any]:
    """Returns a product's stored data with every digit."""
    data: dict[str, Any] = loads(text)
    return data


def upsert_products(
    connection: sa.Connection, products: Sequence[NewProduct], holding: Collection[int] = ()
) -> list[WrittenProduct]:
    """Stores products in one statement. Returns a row for each product that was written or strayed.
    New products of the crawls in `holding` wait in `held_products`."""
    if not products:
        return []
    values = {"rows": dumps(products), "holding": list(holding)}
    return [WrittenProduct(*row) for row in connection.execute(UPSERT, values).all()]


def confirm_products(connection: sa.Connection, pages: Sequence[tuple[int, int]]) -> None:
    """Marks the products of pages that have not changed as seen. `pages` are pairs of a page's id
    and its crawl's."""
    if pages:
        rows = [{"page_id": page_id, "crawl_id": crawl_id} for page_id, crawl_id in pages]
        connection.execute(CONFIRM, {"rows": dumps(rows)})


def export_products(
    connection: sa.Connection, site: str, *, delisted: bool, since: int | None = None
) -> Iterator[sa.Row[Any]]:
    """Streams a site's products in the order of their ids, with a server-side cursor; `data` is
    JSON text. With `since`, only products with a change after that position of the feed, delisted
    ones included."""
    streaming = connection.execution_options(stream_results=True, max_row_buffer=1000)
    if since is None:
        yield from streaming.execute(EXPORT, {"site": site, "delisted": delisted})
    else:
        yield from streaming.execute(EXPORT_SINCE, {"site": site, "since": since})


def read_history(connection: sa.Connection, site: str, external_id: str) -> list[sa.Row[Any]]:
    """Returns every version of a product, oldest first. The last has `valid_to` None unless the
    product is delisted."""
    return list(connection.execute(HISTORY, {"site": site, "external_id": external_id}))

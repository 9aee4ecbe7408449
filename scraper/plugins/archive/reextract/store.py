"""Writes products from archived pages, in the name of a crawl of their own.

That crawl fetches nothing and has no pages, so it is never active: its row says `stopped` until the
last product is written. If the command is killed in between, the row is still true, and does not
keep the site from being crawled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.crawls import REEXTRACT
from scraper.infra.database import dumps
from scraper.results import products
from scraper.results.products import NewProduct
from scraper.sites.definition import Site

UNDER_WAY = "re-extraction running or interrupted; the same command does the rest"

OPEN = sa.text("""
INSERT INTO crawls (site_id, slot, trigger, status, definition, definition_hash, rate_per_s,
                    concurrency, note, started_at, finished_at, judged_at)
VALUES (:site_id, clock_timestamp(), :trigger, 'stopped', CAST(:definition AS json), :hash, :rate,
        :concurrency, :note, now(), now(), now())
RETURNING id
""")

DONE = sa.text(
    "UPDATE crawls SET status = 'completed', finished_at = now(), note = :note WHERE id = :id"
)

OTHERWISE = sa.text("""
SELECT id FROM crawls WHERE site_id = :site_id AND status IN ('planned', 'running')
   AND definition_hash <> :hash
""")

_COLUMNS = (
    "id, external_id, page_id, CAST(data AS text) AS data, content_hash, fetched_at, "
    "missed_crawls, delisted_at, absent_since"
)
KNOWN = sa.text(f"""
SELECT {_COLUMNS} FROM products
 WHERE site_id = :site_id AND (external_id = ANY (:ids) OR page_id = ANY (:pages)) ORDER BY id
""")
LOCKED = sa.text(f"""
SELECT {_COLUMNS} FROM products WHERE site_id = :site_id AND external_id = ANY (:ids)
 ORDER BY id FOR UPDATE
""")
# A page that is missing from the frontier was moved to its site's Bloom filter, and is not gone.
GONE = sa.text("SELECT id FROM pages WHERE id = ANY (:ids) AND status = 'gone'")

# What the last answers of pages contained.
PAGE_HASHES = sa.text("SELECT id, content_hash FROM pages WHERE id = ANY (:ids)")

# The upsert marks products as just fetched and listed; these were neither.
AS_OF = sa.text("""
UPDATE products p SET fetched_at = i.fetched_at, missed_crawls = i.missed_crawls
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(
         external_id text, fetched_at timestamptz, missed_crawls int)
 WHERE p.site_id = :site_id AND p.external_id = i.external_id
""")


@dataclass(frozen=True, slots=True)
class Extract:
    """A product as extracted now from an archived page, which was fetched at `fetched_at`, and
    whose content had the hash `page_hash` then."""

    product: NewProduct
    fetched_at: datetime
    page_hash: UUID | None


def find_blocking_crawl(connection: sa.Connection, site_id: int, site: Site) -> int | None:
    """Returns the site's active crawl if its definition differs: it would overwrite the
    re-extracted products."""
    return connection.execute(OTHERWISE, {"site_id": site_id, "hash": site.content_hash}).scalar()


def open_crawl(connection: sa.Connection, site_id: int, site: Site) -> int:
    values = {
        "site_id": site_id,
        "trigger": REEXTRACT,
        "definition": dumps(site.model_dump(mode="json")),
        "hash": site.content_hash,
        "rate": site.rate_per_s,
        "concurrency": site.concurrency,
        "note": UNDER_WAY,
    }
    return int(connection.execute(OPEN, values).scalar_one())


def finish_crawl(connection: sa.Connection, crawl_id: int, note: str) -> None:
    connection.execute(DONE, {"id": crawl_id, "note": note})


def find_products(
    connection: sa.Connection, site_id: int, external_ids: Sequence[str], page_ids: Sequence[int]
) -> list[sa.Row[Any]]:
    """Returns the products with those ids, and those extracted from those pages."""
    return list(
        connection.execute(
            KNOWN, {"site_id": site_id, "ids": list(external_ids), "pages": list(page_ids)}
        )
    )


def read_page_hashes(connection: sa.Connection, page_ids: Sequence[int]) -> dict[int, UUID | None]:
    """Returns the hash of what each page of the frontier contained when it was last read."""
    rows = connection.execute(PAGE_HASHES, {"ids": list(page_ids)})
    return {row.id: row.content_hash for row in rows}


def reason_to_keep(stored: Any, extract: Extract, page_hash: UUID | None) -> str | None:
    """Returns why a stored product must stay as it is; None: it may be written. `page_hash` is the
    hash of what its page contained when it was last read, if that is known.

    The release of a held product, and answers that equal the archived one, make a product fresher
    than its archived page, which is still what the product was read from.
    """
    is_same = page_hash is not None and page_hash == extract.page_hash
    if stored.fetched_at > extract.fetched_at and not is_same:
        return "fetched later"
    if stored.delisted_at is not None:
        return "delisted"
    if stored.absent_since is not None:
        return "no longer on its page"
    if stored.page_id != extract.product.page_id:
        return "read from another page"
    return None


def write_products(
    connection: sa.Connection, site_id: int, crawl_id: int, extracts: Sequence[Extract]
) -> tuple[int, int]:
    """Upserts a batch of products, keeping versions. Returns how many were new, and how many
    changed. A product that has become newer, equal or another page's since the preview is left."""
    page_ids = [extract.product.page_id for extract in extracts]
    gone = set(connection.execute(GONE, {"ids": page_ids}).scalars())
    ids = [extract.product.external_id for extract in extracts]
    stored = {
        row.external_id: row for row in connection.execute(LOCKED, {"site_id": site_id, "ids": ids})
    }
    page_hashes = read_page_hashes(connection, page_ids)
    chosen: dict[str, Extract] = {}
    for extract in extracts:
        product, row = extract.product, stored.get(extract.product.external_id)
        if product.page_id in gone or product.external_id in chosen:
            continue
        if row is not None and (
            row.content_hash == product.content_hash
            or reason_to_keep(row, extract, page_hashes.get(product.page_id))
        ):
            continue
        chosen[product.external_id] = extract
    written = products.upsert_products(
        connection, [replace(extract.product, crawl_id=crawl_id) for extract in chosen.values()]
    )
    times = []
    for external_id, extract in chosen.items():
        row = stored.get(external_id)
        missed = row.missed_crawls if row is not None else 0
        # A later answer equalled this one in the fields of then, which says nothing of new ones.
        at = extract.fetched_at
        times.append({"external_id": external_id, "fetched_at": at, "missed_crawls": missed})
    if times:
        connection.execute(AS_OF, {"site_id": site_id, "rows": dumps(times)})
    counts = CountsByCrawl()
    for product_write in written:
        counts[crawl_id].products_new += product_write.inserted
        counts[crawl_id].products_changed += product_write.changed
        counts[crawl_id].products_repriced += product_write.repriced
    add_counts(connection, counts)
    counts_written = counts[crawl_id]
    return counts_written.products_new, counts_written.products_changed

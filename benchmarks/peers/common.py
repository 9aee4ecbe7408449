"""What every peer does alike: the shop's addresses, the eight fields, the table, and waiting for
the start.

Runs in the peers' own environment and imports nothing of this project. Extraction is parsel's, which Scrapy
and Crawlee hand out as well; the statement is the same for all; who batches, batches 100 rows a
transaction (psycopg sends them in pipeline mode). A peer says `ready` once everything is imported
and set up, and is measured from the answer on.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import psycopg

if os.environ.get("BENCH_READ"):
    import large

SHOP = os.environ["BENCH_SHOP"]
DATABASE = os.environ["BENCH_DATABASE"]
TABLE = os.environ["BENCH_TABLE"]
REDIS_SOCKET = os.environ["BENCH_REDIS_SOCKET"]
# What is read of large pages; empty for the small ones.
READ = os.environ.get("BENCH_READ")
REDIS_DB = 1
CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])
START = f"{SHOP}/all?page=1"
BATCH = 100

COLUMNS: tuple[str, ...] = (
    "external_id",
    "url",
    "name",
    "price",
    "brand",
    "sku",
    "stock",
    "available",
    "category",
    "description",
)
if READ:
    COLUMNS = ("external_id", "url", "data")
UPSERT = (
    f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))}) "
    f"ON CONFLICT (external_id) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in COLUMNS[1:])}, fetched_at = now()"
)

PRODUCT_LINKS = "a.product-link::attr(href)"
_LAST = re.compile(r"of (\d+)")
_ID = re.compile(r"/p/(\d+)-")
_STOCK = re.compile(r"Only (\d+) left")
_NUMBER = re.compile(r"[\d.,]*\d")


def more_listings(page: Any) -> list[str]:
    """The second listing page to the last one, from the first one's "Page 1 of 42"."""
    count = ".pager .count"
    text = page.css(f"{count}::text").get() if _is_parsel(page) else page.css_first(count).text()
    last = _LAST.search(text)
    return [f"{SHOP}/all?page={number}" for number in range(2, int(last[1]) + 1)]


def product_links(page: Any) -> list[str]:
    if _is_parsel(page):
        return page.css(PRODUCT_LINKS).getall()
    return [node.attributes["href"] for node in page.css("a.product-link")]


def _is_parsel(page: Any) -> bool:
    return hasattr(page, "xpath")


def row(page: Any, url: str) -> tuple[Any, ...]:
    """A product page's row, in the order of COLUMNS. `page` is anything with parsel's `.css()`."""
    if READ:
        return large.row(page, url)
    stock = _STOCK.search(page.css(".stock::text").get())
    return (
        _ID.search(url)[1],
        url.partition("?")[0],
        page.css("h1::text").get().strip(),
        price(page.css(".product .price::text").get()),
        page.css(".brand::text").get(),
        page.css("td.sku::text").get(),
        int(stock[1]) if stock else None,
        page.css(".availability::text").get() == "In stock",
        page.css(".crumbs .category a::text").get(),
        page.css("p.description::text").get(),
    )


def price(text: str) -> str:
    """Prices have two decimals here, whatever separates them.

    >>> price("1.299,90 €"), price("$1,299.90")
    ('1299.90', '1299.90')
    """
    number = _NUMBER.search(text)[0]
    return re.sub(r"\D", "", number[:-3]) + "." + number[-2:]


def wait_for_go() -> None:
    # The first ones: Celery puts a logger in place of stdout.
    assert sys.__stdout__ is not None and sys.__stdin__ is not None
    print("ready", file=sys.__stdout__, flush=True)
    sys.__stdin__.readline()


class Batches:
    """Rows on their way into the table, 100 a transaction."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    async def open(self) -> None:
        self.connection = await psycopg.AsyncConnection.connect(DATABASE)

    async def add(self, values: tuple[Any, ...]) -> None:
        self.rows.append(values)
        if len(self.rows) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        rows, self.rows = self.rows, []
        if rows:
            async with self.connection.cursor() as cursor:
                await cursor.executemany(UPSERT, rows)
            await self.connection.commit()

    async def close(self) -> None:
        await self.flush()
        await self.connection.close()

"""Products that listings suddenly no longer name: before the crawl ends, some of their pages are
requested. If these are gone, the shop took the products off sale. If not, the listings are wrong.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from scraper.infra.database import roll_back
from scraper.plugins.confirm.second_readings import limit_pages
from scraper.results import missed_products
from scraper.results.judgement.earlier_crawls import SuspectCrawl
from scraper.results.judgement.plausibility import HELD_LEAST, ShownTwice

# The products that a crawl has missed for the first time: whose pages it requested for that, which
# of these are gone, and how many it found gone although a listing names them.
FIRST_MISSED = sa.text("""
SELECT count(*) FILTER (WHERE asked) AS asked, count(*) FILTER (WHERE asked AND gone) AS gone,
       count(*) FILTER (WHERE gone AND NOT asked) AS named
  FROM (SELECT pr.asked_by IS NOT DISTINCT FROM c.id AS asked,
               pg.crawl_id = c.id AND pg.status = 'gone' AS gone
          FROM crawls c JOIN products pr ON pr.site_id = c.site_id
          JOIN pages pg ON pg.id = pr.page_id
         WHERE c.id = :id AND pr.missed_crawls = 1) AS missed
""")


def misses_any(connection: sa.Connection, crawl: sa.Row[Any]) -> bool:
    """Returns whether a complete crawl misses a product for the first time."""
    with connection.begin_nested() as savepoint:
        misses = missed_products.delist_missed(connection, crawl, None, confirmed=True)
        roll_back(connection, savepoint)
    return bool(misses.missed)


def is_surprising(
    connection: sa.Connection, crawl: sa.Row[Any], before: SuspectCrawl | None
) -> bool:
    """Returns whether a complete crawl misses more products than usual. Counts the misses, which
    the caller takes back."""
    misses = missed_products.delist_missed(connection, crawl, None, confirmed=True)
    odd = missed_products.judge_misses(connection, crawl, misses, ShownTwice(), before)
    return odd is not None


def request_pages(connection: sa.Connection, crawl: sa.Row[Any]) -> int:
    """Takes some pages of products that the crawl misses for the first time into it. Returns how
    many."""
    most = limit_pages(crawl.product_total)
    return missed_products.request_missed(connection, crawl, None, after=1, most=most)


def are_gone(connection: sa.Connection, crawl_id: int) -> bool:
    """Returns whether the pages that were requested are gone, all of them. Pages that are gone
    although a listing names them say that the shop is out of order."""
    row = connection.execute(FIRST_MISSED, {"id": crawl_id}).one()
    return bool(0 < row.asked == row.gone and row.named < HELD_LEAST)

"""Missed products: those that a shop no longer lists are counted, requested and delisted.

An incomplete listing looks like products that have disappeared. So a product is delisted only after
a second complete crawl in a row has missed it, and its page confirms that: before such a crawl
ends, it requests the pages of products that it would delist, or a sample of them. If a page still
gives its product, the listing may be wrong, and it takes a third crawl. The same holds if a listing
names a product whose page answers 404.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.domain import Kind, Status
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.pages import PageChange, route_pages
from scraper.infra.statements import sql
from scraper.registry import first_answer, plugin_hooks
from scraper.results.judgement import plausibility
from scraper.results.judgement.earlier_crawls import EARLIER, SuspectCrawl
from scraper.results.judgement.plausibility import ShownTwice
from scraper.rules.quality import Reason
from scraper.sites.definition import Site
from scraper.sites.grammar import scalars
from scraper.sites.quality_keys import Quality

# How many complete crawls in a row must miss a product before it is delisted, if its page confirms
# that; one more if it does not.
DELISTED_AFTER = 2
# If this share of the requested pages still give their products, the others probably do as well.
ALIVE_SHARE = 0.1
# A listing has lost its products if at least this many of them are in no listing any longer.
LOST_LEAST = 4

REQUEST = sa.text(sql("results/request_missed.sql"))

MARK = sa.text(sql("results/mark_missed.sql"))
LOST_LISTINGS = sa.text(sql("results/lost_listings.sql"))

REPLACED = sa.text(sql("results/mark_replaced.sql"))

# Another page that gives such a product takes it over as soon as it is read whole.
READ_WHOLE = sa.text("""
UPDATE pages SET extractor_hash = NULL
 WHERE site_id = (SELECT site_id FROM crawls WHERE id = :id) AND extractor_hash IS NOT NULL
   AND content_hash = ANY (:contents) AND id <> ALL (:page_ids)
""")

# The requested products whose page still gives them.
ALIVE = sa.text("""
SELECT count(*) AS asked, count(*) FILTER (WHERE pg.status IN ('ok', 'unchanged')) AS alive,
       count(DISTINCT pg.id) FILTER (WHERE pg.status IN ('ok', 'unchanged')) AS pages,
       min(pg.url) FILTER (WHERE pg.status IN ('ok', 'unchanged')) AS example
  FROM products pr JOIN pages pg ON pg.id = pr.page_id
 WHERE pr.site_id = :site_id AND pr.asked_by = :id
""")

STORE_MISSES = sa.text("""
UPDATE crawl_quality SET missed = :missed, repeated = :repeated, lost = :lost WHERE crawl_id = :id
""")

# The share of products that recent crawls have missed for the first time, and how many of their
# listings repeated another one. What three crawls in a row have shown is usual, even if they were
# suspect.
USUAL_MISSES = sa.text(f"""
WITH recent AS (
    SELECT c.suspect, q.products, q.missed, q.repeated, q.lost,
           row_number() OVER (ORDER BY c.id DESC) AS n
      FROM crawls c JOIN crawl_quality q ON q.crawl_id = c.id
     WHERE {EARLIER} AND c.status = 'completed' AND q.missed IS NOT NULL
     ORDER BY c.id DESC LIMIT 20
)
SELECT now.products, (
    SELECT max(CAST(missed AS float8) / (products + missed)) FROM (
        SELECT * FROM recent WHERE NOT suspect AND products > 0 ORDER BY n LIMIT 7) AS good
    ) AS missed, (
    SELECT greatest(max(repeated) FILTER (WHERE NOT suspect),
                    CASE WHEN count(*) FILTER (WHERE n <= 3) = 3
                         THEN min(repeated) FILTER (WHERE n <= 3) END) FROM recent) AS repeated, (
    SELECT coalesce(max(lost) FILTER (WHERE NOT suspect), 0) FROM recent) AS lost
  FROM crawl_quality now WHERE now.crawl_id = :id
""")


class Misses(NamedTuple):
    """How many products a crawl delisted, how many it missed for the first time (None if that is
    unknown), and how many listings lost their products, with an example in words."""

    delisted: int
    missed: int | None
    lost: int = 0
    example: str | None = None


def request_missed(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    doubted: int | None,
    after: int = DELISTED_AFTER,
    most: int = 100,
) -> int:
    """Takes at most `most` pages of products that this number of crawls have missed into the crawl,
    once. Returns how many. `doubted` is the previous crawl, if its misses count with this one's."""
    if crawl.filter_id is not None or crawl.asking:
        return 0
    values = _parameters_of(crawl, doubted) | {"delisted_after": after, "most": most}
    if values["moving"]:
        return 0
    pages = connection.execute(REQUEST, values).all()
    if pages:
        _route_pages(connection, crawl, pages)
    counts = CountsByCrawl()
    for _ in pages:
        counts[crawl.id].count_added(PageChange(crawl.id, Kind.PRODUCT, Status.DUE))
    add_counts(connection, counts)
    return len(pages)


def _route_pages(
    connection: sa.Connection, crawl: sa.Row[Any], pages: Sequence[sa.Row[Any]]
) -> None:
    try:
        preferences = Site.model_validate(crawl.definition).routing_preferences
    except ValidationError:  # stored by another version
        return
    route_pages(connection, preferences, pages)


def count_alive(connection: sa.Connection, crawl: sa.Row[Any]) -> tuple[int, str | None]:
    """Returns how many requested pages still give their products, and a note on them."""
    if not crawl.asking:
        return 0, None
    row = connection.execute(ALIVE, {"id": crawl.id, "site_id": crawl.site_id}).one()
    if not row.alive:
        return 0, None
    note = (
        f"{row.alive} of {row.asked} products that no listing names still exist, such as "
        f"{row.example}: they are not delisted yet"
    )
    return row.pages, note


def delist_missed(
    connection: sa.Connection, crawl: sa.Row[Any], doubted: int | None, *, confirmed: bool
) -> Misses:
    """Counts a complete crawl's misses, with the doubted ones of the previous crawl if this one
    agrees, and delists products. `confirmed` says that products were requested by that count."""
    misses = first_answer(hooks.delist(connection, crawl) for hooks in plugin_hooks().values())
    if misses is not None:
        return misses
    values = _parameters_of(crawl, doubted) | {"confirmed": confirmed}
    values |= {"alive_share": ALIVE_SHARE}
    delisted, missed = connection.execute(MARK, values).one()
    lost, example = _find_lost(connection, values) if missed else (0, None)
    return Misses(delisted, missed, lost, example)


def _find_lost(connection: sa.Connection, values: dict[str, Any]) -> tuple[int, str | None]:
    """Returns how many listings lost their products, and what to say of one."""
    row = connection.execute(LOST_LISTINGS, values | {"lost_min": LOST_LEAST}).first()
    if row is None:
        return 0, None
    named = row.last_item_count or 0
    example = f"{row.url} names {named} products, and {row.missed} that it named are in no listing"
    return row.lost, example


def judge_misses(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    misses: Misses,
    listings: ShownTwice,
    before: SuspectCrawl | None,
) -> Reason | None:
    """Returns why a judged crawl's misses do not count, or None: it has missed too many products at
    once, or in a way that points to broken listings. `before` is the previous crawl, if that was
    suspect."""
    missed = misses.missed
    if not missed:
        return None
    values = {"id": crawl.id, "site_id": crawl.site_id}
    usual = connection.execute(USUAL_MISSES, values).first()
    judged = Quality.model_validate(crawl.definition.get("quality", {}))
    if usual is None or usual.products is None or scalars.parse_share(judged.products) <= 0:
        return None
    repeated = plausibility.judge_repeats(missed, listings, usual.repeated)
    if repeated is not None or (before is not None and before.found_as_many(usual.products)):
        return repeated
    odd = plausibility.judge_misses(missed, usual.products, usual.missed or 0.0)
    if misses.lost > usual.lost:
        odd = Reason(None, "listings", misses.example or "")
    answers = (hooks.explain_misses(connection, crawl.id) for hooks in plugin_hooks().values())
    return None if odd and any(answers) else odd


def store_misses(
    connection: sa.Connection, crawl_id: int, misses: Misses, listings: ShownTwice
) -> None:
    """Stores a crawl's misses, which later crawls are compared with."""
    values = {"id": crawl_id, "missed": misses.missed, "lost": misses.lost}
    values["repeated"] = listings.repeated
    connection.execute(STORE_MISSES, values)


def mark_replaced(connection: sa.Connection, crawl_id: int) -> None:
    """Marks the old products of pages that give another product than before, in a crawl that is
    believed. They are missed from the next crawl on, unless their page gives them again."""
    replaced = connection.execute(REPLACED, {"id": crawl_id}).all()
    if replaced:
        page_ids, contents = map(list, zip(*replaced, strict=True))
        others = {"id": crawl_id, "page_ids": page_ids, "contents": contents}
        connection.execute(READ_WHOLE, others)


def _parameters_of(crawl: sa.Row[Any], doubted: int | None) -> dict[str, Any]:
    return {
        "crawl_id": crawl.id,
        "site_id": crawl.site_id,
        "delisted_after": DELISTED_AFTER,
        "doubted": doubted,
        "moving": crawl.definition.get("platform") is not None,
        "several": (crawl.definition.get("product") or {}).get("items") is not None,
    }

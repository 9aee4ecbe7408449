"""Products that a shop does not list any more: missed, asked for, delisted.

A listing that is not whole looks like products that are gone. So a product is delisted once a
second complete crawl in a row has missed it and its page says so, too: before such a crawl ends,
the pages of those it would delist are asked for, a sample of many. Where a page still gives its
product, the listing may be wrong: then it takes a third crawl. So it does where a listing names a
product, and its page answers 404.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.domain import Kind, Status
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.pages import PageChange
from scraper.registry import first_answer, plugin_hooks
from scraper.results.judgement import plausibility
from scraper.results.judgement.earlier_crawls import EARLIER, SuspectCrawl
from scraper.results.judgement.plausibility import ShownTwice
from scraper.rules.quality import Reason
from scraper.sites.grammar import scalars
from scraper.sites.quality import Quality

# So many complete crawls in a row miss a product before it counts as delisted, where its page is
# gone, too; one more where it is not.
DELISTED_AFTER = 2
# A crawl asks for no more pages than that. Where this share of them is alive, it is likely to be so
# of the others.
ASKED_MOST, ALIVE_SHARE = 100, 0.1

# A listing has lost its products where so many of them, and as many as it names now, are in no
# listing any more. (What leaves a shop day by day was on different ones.)
LOST_LEAST = 4

# It is asked for products alone that their page gave no more.
BEGAN = "(SELECT started_at FROM crawls WHERE id = :crawl_id)"

# What the crawl before had missed, and that was doubted, counts with this one (`doubted`).
_MISSES = f"""pr.missed_crawls + CASE WHEN pg.crawl_id < CAST(:doubted AS bigint)
                                     OR (:moving AND pg.kind = 'listing'
                                         AND pr.crawl_id < CAST(:doubted AS bigint))
                                     OR pr.absent_since < {BEGAN}
                                   THEN 2 ELSE 1 END"""

# Those that were asked for once, and were alive, have been missed so often already.
ASK = sa.text(f"""
WITH chosen AS MATERIALIZED (
    SELECT pr.id, pr.page_id FROM products pr JOIN pages pg ON pg.id = pr.page_id
     WHERE pr.site_id = :site_id AND pg.site_id = :site_id AND pr.delisted_at IS NULL
       AND pr.missed_crawls < :delisted_after AND {_MISSES} >= :delisted_after
       AND pr.absent_since IS NULL AND pg.crawl_id < :crawl_id AND pg.kind = 'product'
     ORDER BY hashint8(pr.id) LIMIT {ASKED_MOST}
), marked AS (
    UPDATE products pr SET asked_by = :crawl_id FROM chosen WHERE pr.id = chosen.id
)
UPDATE pages pg
   SET crawl_id = :crawl_id, status = 'due', attempts = 0, host_attempts = 0, losses = 0,
       level = NULL, blocked = 0, probe = false, not_before = now(), error = NULL, excerpt = NULL,
       response_head = NULL
 WHERE pg.id IN (SELECT page_id FROM chosen)
RETURNING pg.id
""")
ASKING = sa.text("UPDATE crawls SET asking = true WHERE id = :id")

# A product whose page this crawl reached and did not find gone is listed. Products of an interface
# move between its pages (`moving`): they are listed where they were written. A product's page is of
# its site: said twice, so that the pages of other sites are not read. Of a page with several
# products each is listed that the page gave when it was last read; one that it did not give then
# (`absent_since`) is missed by a crawl that has read the page, or was told that it is as it was.
# What is newly missed counts by pages where these have `several`: each product for its share.
DELIST = sa.text(f"""
WITH seen AS MATERIALIZED (
    SELECT pr.id, pg.crawl_id = :crawl_id AND pg.status <> 'gone' AND pr.asked_by IS DISTINCT FROM
                  CAST(:crawl_id AS bigint) AND pr.absent_since IS NULL
                  AND (pr.crawl_id = :crawl_id OR NOT :moving OR pg.kind <> 'listing') AS listed,
           pg.crawl_id = :crawl_id AND pg.status = 'gone' AS gone,
           pr.absent_since IS NOT NULL AS absent,
           pr.asked_by IS NOT DISTINCT FROM CAST(:crawl_id AS bigint) AS asked,
           pg.status NOT IN ('gone', 'invalid') OR pg.last_outcome = 'doubtful' AS alive,
           {_MISSES} AS misses, pr.missed_crawls,
           pr.missed_crawls = 0 AS first, pr.delisted_at IS NOT NULL AS was_delisted
      FROM products pr JOIN pages pg ON pg.id = pr.page_id
     WHERE pr.site_id = :site_id AND pg.site_id = :site_id
       AND (pr.absent_since IS NULL OR pg.crawl_id < :crawl_id OR pg.status = 'gone'
            OR pg.fetched_at >= {BEGAN})
), sample AS (
    SELECT count(*) FILTER (WHERE alive) >= {ALIVE_SHARE} * count(*) AND count(*) > 0 AS alive
      FROM seen WHERE asked
), decided AS (
    SELECT seen.*,
           CASE WHEN listed THEN 0 WHEN NOT asked THEN misses WHEN :confirmed
                THEN greatest(misses, :delisted_after) ELSE 1 END AS counted,
           CASE WHEN listed THEN false WHEN was_delisted THEN true WHEN asked THEN NOT seen.alive
                WHEN misses < :delisted_after THEN false
                ELSE missed_crawls >= :delisted_after OR absent OR NOT (gone OR sample.alive)
           END AS delists
      FROM seen CROSS JOIN sample
), marked AS (
    UPDATE products pr
       SET missed_crawls = least(counted, 1000),
           delisted_at = CASE WHEN delists THEN coalesce(pr.delisted_at, now()) END
      FROM decided
     WHERE pr.id = decided.id AND (NOT listed OR pr.missed_crawls > 0 OR pr.delisted_at IS NOT NULL)
    RETURNING pr.id, pr.page_id, pr.version, coalesce(pr.delisted_at = now(), false) AS delisted,
              NOT decided.listed AND decided.first AS newly_missed,
              decided.was_delisted AND pr.delisted_at IS NULL AS relisted
), fed AS (
    INSERT INTO changes (site_id, product_id, crawl_id, version, event)
    SELECT :site_id, id, :crawl_id, version, CASE WHEN delisted THEN 'delisted' ELSE 'relisted' END
      FROM marked WHERE delisted OR relisted ORDER BY id
), lost AS (
    SELECT l.url, l.last_item_count, count(*) AS missed
      FROM marked JOIN pages pg ON pg.id = marked.page_id JOIN pages l ON l.id = pg.found_on
     WHERE newly_missed AND pg.crawl_id < :crawl_id AND l.crawl_id = :crawl_id
       AND l.kind = 'listing' AND l.status IN ('ok', 'unchanged')
     GROUP BY l.id HAVING count(*) >= greatest({LOST_LEAST}, l.last_item_count)
)
SELECT count(*) FILTER (WHERE delisted) AS delisted,
       CAST(CASE WHEN :several
                 THEN ceil(coalesce(sum(1.0 / (SELECT count(*) FROM products o
                                                WHERE o.page_id = marked.page_id))
                                    FILTER (WHERE newly_missed), 0))
                 ELSE count(*) FILTER (WHERE newly_missed) END AS bigint) AS missed,
       (SELECT count(*) FROM lost) AS lost,
       (SELECT format('%s names %s products, and %s that it named are in no listing', url,
                      last_item_count, missed) FROM lost ORDER BY missed DESC, url LIMIT 1) AS
                      example
  FROM marked
""")

# A page that gives one product has that product's content. Where a crawl has read such a page, what
# the page gave before is absent from then on. (Of a page with several, `page_items` knows.)
REPLACED = sa.text("""
WITH shared AS MATERIALIZED (
    SELECT page_id FROM products
     WHERE site_id = (SELECT site_id FROM crawls WHERE id = :id) AND absent_since IS NULL
     GROUP BY page_id HAVING count(*) > 1
), replaced AS MATERIALIZED (
    SELECT o.id FROM crawls c CROSS JOIN shared
      JOIN pages pg ON pg.id = shared.page_id AND pg.crawl_id = c.id
      JOIN products p ON p.page_id = pg.id AND p.crawl_id = c.id
                     AND p.content_hash = pg.content_hash
      JOIN products o ON o.page_id = pg.id AND o.crawl_id < c.id AND o.absent_since IS NULL
     WHERE c.id = :id AND c.definition #>> '{product,items}' IS NULL
       AND pg.kind = 'product' AND pg.last_outcome = 'fetched'
     ORDER BY o.id FOR UPDATE OF o
)
UPDATE products SET absent_since = now() FROM replaced WHERE products.id = replaced.id
RETURNING page_id, content_hash
""")

# Another page that gives such a product takes it over once that is read whole.
READ_WHOLE = sa.text("""
UPDATE pages SET extractor_hash = NULL
 WHERE site_id = (SELECT site_id FROM crawls WHERE id = :id) AND extractor_hash IS NOT NULL
   AND content_hash = ANY (:contents) AND id <> ALL (:page_ids)
""")

# Of those that were asked for, whose page still gives them.
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

# How many products recent crawls have missed for the first time, as a share, and how many of their
# listings showed what another one shows. What three crawls in a row have shown is usual, whoever
# doubted it.
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
    """How many products became delisted with a crawl, and how many it has missed for the first
    time (None: nobody knows). `lost`: so many listings lost their products, such as `example`."""

    delisted: int
    missed: int | None
    lost: int = 0
    example: str | None = None


def ask(connection: sa.Connection, crawl: sa.Row[Any], doubted: int | None) -> int:
    """Takes the pages of products that a crawl would delist into it, once. Returns how many.
    `doubted`: the crawl before, where its misses may count with this one's."""
    if crawl.filter_id is not None or crawl.asking:
        return 0
    values = _values(crawl, doubted)
    if values["moving"]:
        return 0
    asked = len(connection.execute(ASK, values).all())
    if asked:
        connection.execute(ASKING, {"id": crawl.id})
    counts = CountsByCrawl()
    for _ in range(asked):
        counts[crawl.id].count_added(PageChange(crawl.id, Kind.PRODUCT, Status.DUE))
    add_counts(connection, counts)
    return asked


def alive(connection: sa.Connection, crawl: sa.Row[Any]) -> tuple[int, str | None]:
    """On how many pages products that a crawl has asked for are there still, and what to say of
    it."""
    if not crawl.asking:
        return 0, None
    row = connection.execute(ALIVE, {"id": crawl.id, "site_id": crawl.site_id}).one()
    if not row.alive:
        return 0, None
    note = (
        f"{row.alive} of {row.asked} products that no listing names are there still, such as "
        f"{row.example}: they are not delisted yet"
    )
    return row.pages, note


def delist(
    connection: sa.Connection, crawl: sa.Row[Any], doubted: int | None, *, confirmed: bool
) -> Misses:
    """Counts a complete crawl's misses, and those of the crawl before where they were doubted and
    this one says the same. `confirmed`: products were asked for by that very count."""
    misses = first_answer(hooks.delist(connection, crawl) for hooks in plugin_hooks().values())
    if misses is not None:
        return misses
    values = _values(crawl, doubted) | {"confirmed": confirmed}
    return Misses(*connection.execute(DELIST, values).one())


def judge_misses(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    misses: Misses,
    listings: ShownTwice,
    before: SuspectCrawl | None,
) -> Reason | None:
    """Whether a judged crawl has missed so many products at once, or in such a way, that none of
    them counts. `before`: the crawl before, if it was suspect."""
    missed = misses.missed
    values = {"id": crawl.id, "site_id": crawl.site_id}
    usual = connection.execute(USUAL_MISSES, values).first()
    judged = Quality.model_validate(crawl.definition.get("quality", {}))
    if (
        not missed
        or usual is None
        or usual.products is None
        or scalars.parse_share(judged.products) <= 0
    ):
        return None
    repeated = plausibility.judge_repeats(missed, listings, usual.repeated)
    if repeated is not None or (before is not None and before.found_as_many(usual.products)):
        return repeated
    if misses.lost > usual.lost:
        return Reason(None, "listings", misses.example or "")
    return plausibility.judge_misses(missed, usual.products, usual.missed or 0.0)


def store_misses(
    connection: sa.Connection, crawl_id: int, misses: Misses, listings: ShownTwice
) -> None:
    values = {"id": crawl_id, "missed": misses.missed, "lost": misses.lost}
    values["repeated"] = listings.repeated
    connection.execute(STORE_MISSES, values)


def mark_replaced(connection: sa.Connection, crawl_id: int) -> None:
    """Of pages that give another product than before, in a crawl that is believed: the old one is
    missed from the next crawl on, unless its page gives it again."""
    replaced = connection.execute(REPLACED, {"id": crawl_id}).all()
    if replaced:
        page_ids, contents = map(list, zip(*replaced, strict=True))
        others = {"id": crawl_id, "page_ids": page_ids, "contents": contents}
        connection.execute(READ_WHOLE, others)


def _values(crawl: sa.Row[Any], doubted: int | None) -> dict[str, Any]:
    return {
        "crawl_id": crawl.id,
        "site_id": crawl.site_id,
        "delisted_after": DELISTED_AFTER,
        "doubted": doubted,
        "moving": crawl.definition.get("platform") is not None,
        "several": (crawl.definition.get("product") or {}).get("items") is not None,
    }

"""A crawl's data judged against recent crawls, once, when it has ended; and what follows for the
values it kept.

`judge` runs in the transaction that ends the crawl, so that what depends on it (delisting) does
too; crawls that end otherwise (stopped, stalled) are judged by a tick. A person, or the definition,
may take a suspect crawl as the new usual: then what it kept goes as well, and nothing before it is
compared with any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.domain import CrawlStatus
from scraper.frontier.counters import CountsByCrawl, add_counts
from scraper.frontier.crawls import REPLAY
from scraper.infra.database import dumps
from scraper.rules import quality as policy
from scraper.rules.quality import Figures, Reason, Usual
from scraper.settle import fill_rates, products
from scraper.settle.fill_rates import FieldBaseline, FieldSums
from scraper.settle.products import NewProduct, content_hash
from scraper.sites.definition import Site

# So many examples of a field that is in breach are kept.
EXAMPLES = 3
BATCH = 1000
# The values of so many products are compared with each other.
SAMPLED = 20_000

UNJUDGED = sa.text("""
SELECT id FROM crawls WHERE judged_at IS NULL AND status IN ('completed', 'stopped', 'failed')
 ORDER BY id LIMIT 20
""")

# It goes by what the crawl has counted: product pages may have left the frontier. Where those that
# are remembered are not even in the crawl, what its listings named counts.
GOOD = sa.text("""
SELECT greatest(c.ok + c.unchanged - (
           SELECT count(*) FROM pages
            WHERE site_id = :site_id AND crawl_id = :id AND kind <> 'product'
              AND status IN ('ok', 'unchanged')),
       c.products_listed - c.gone - c.dead - c.invalid)
  FROM crawls c WHERE c.id = :id
""")


# Hashes are counted, since texts of any length would have to be sorted.
def _distinct_of(sample: str) -> sa.TextClause:
    return sa.text(f"""
SELECT key AS field, count(*) AS sampled,
       count(DISTINCT hashtextextended(CAST(value AS text), 0)) AS distinct_values
  FROM ({sample} LIMIT {SAMPLED}) AS sample, jsonb_each(sample.data)
 WHERE jsonb_typeof(value) <> 'null' GROUP BY key
""")


# What was read in this crawl counts, not what was fresh.
DISTINCT = _distinct_of("""
        SELECT pr.data FROM pages pg JOIN products pr ON pr.page_id = pg.id
         WHERE pg.site_id = :site_id AND pg.crawl_id = :id AND pg.status IN ('ok', 'unchanged')
           AND pg.last_outcome = 'fetched'""")

# Where pages have left the frontier, it goes by what the crawl has written, which is nearly all
# that it read.
DISTINCT_WRITTEN = _distinct_of(
    "SELECT data FROM products WHERE site_id = :site_id AND crawl_id = :id"
)

ADD_FIELDS = sa.text("""
INSERT INTO crawl_fields (crawl_id, field, records, found, mistyped, kept, distinct_values,
                          sampled, usual_fill, usual_mistyped, usual_distinct, line, breach)
SELECT :id, i.* FROM jsonb_to_recordset(CAST(:rows AS jsonb))
  AS i(field text, records int, found int, mistyped int, kept int, distinct_values int,
       sampled int, usual_fill float8, usual_mistyped float8, usual_distinct float8, line float8,
       breach text)
""")

JUDGED = sa.text("""
UPDATE crawls SET judged_at = now(), suspect = :suspect, reasons = CAST(:reasons AS jsonb)
 WHERE id = :id
""")

COUNTED = sa.text("""
UPDATE crawl_quality SET products = :products, usual_products = :usual WHERE crawl_id = :id
""")

ALERT = sa.text("INSERT INTO alerts (crawl_id) VALUES (:id) ON CONFLICT DO NOTHING")

BEFORE = sa.text("""
SELECT suspect, reasons FROM crawls
 WHERE site_id = :site_id AND id < :id AND trigger NOT IN ('replay', 'reextract')
   AND status IN ('completed', 'failed')
 ORDER BY id DESC LIMIT :crawls
""")

PRUNE_EXAMPLES = sa.text(f"""
DELETE FROM crawl_examples e USING (
    SELECT field, url, row_number() OVER (PARTITION BY field ORDER BY seen_at DESC, url) AS place
      FROM crawl_examples WHERE crawl_id = :id) AS placed
 WHERE e.crawl_id = :id AND e.field = placed.field AND e.url = placed.url
   AND (e.field <> ALL (:fields) OR placed.place > {EXAMPLES})
""")

# It is for fields of which the worker gave no example: a Python function's, say.
MORE_EXAMPLES = sa.text(f"""
INSERT INTO crawl_examples (crawl_id, field, url, problem, excerpt, known)
SELECT k.crawl_id, name, pr.url, 'it came without', '', pr.data ->> name
  FROM unnest(CAST(:fields AS text[])) AS name
 CROSS JOIN LATERAL (SELECT * FROM kept_values WHERE crawl_id = :id AND name = ANY (fields)
                     LIMIT {EXAMPLES}) AS k
  JOIN products pr ON pr.id = k.product_id
 WHERE NOT EXISTS (SELECT FROM crawl_examples WHERE crawl_id = :id AND field = name)
ON CONFLICT DO NOTHING
""")

# A page that a later crawl has reached has been asked since.
KEPT = sa.text(f"""
SELECT k.product_id, k.fields, CAST(k.came AS text) AS came, p.site_id, p.external_id, p.page_id,
       p.url,
       CAST(p.data AS text) AS data
  FROM kept_values k JOIN products p ON p.id = k.product_id LEFT JOIN pages pg ON pg.id = p.page_id
 WHERE k.crawl_id = :id AND k.product_id > :after AND coalesce(pg.crawl_id = :id, p.crawl_id <= :id)
   AND NOT k.fields <@ CAST(:stay AS text[])
 ORDER BY k.product_id LIMIT {BATCH} FOR UPDATE OF p
""")

SETTLED = sa.text("""
DELETE FROM kept_values k USING crawls c
 WHERE c.id = k.crawl_id AND c.site_id = :site_id
   AND (c.id < :id OR c.id = :id AND k.fields && CAST(:gone AS text[])
        AND NOT k.fields && CAST(:stay AS text[]))
""")

ACCEPT = sa.text("""
UPDATE crawls SET suspect = false, accepted_at = now()
 WHERE id = :id AND judged_at IS NOT NULL AND accepted_at IS NULL
RETURNING site_id
""")


def unjudged(connection: sa.Connection) -> list[int]:
    """Crawls that have ended without being judged: stopped or stalled ones, normally none."""
    return list(connection.execute(UNJUDGED).scalars())


def lock_unjudged(connection: sa.Connection, crawl_id: int) -> sa.Row[Any] | None:
    query = sa.text("""
        SELECT * FROM crawls WHERE id = :id AND judged_at IS NULL
               AND status IN ('completed', 'stopped', 'failed')
           FOR UPDATE SKIP LOCKED""")
    return connection.execute(query, {"id": crawl_id}).first()


def judge(connection: sa.Connection, crawl: sa.Row[Any], status: CrawlStatus) -> bool:
    """Judges a crawl whose row is locked, and which ends with that status. True: it is suspect."""
    try:
        site = Site.model_validate(crawl.definition)
    except ValidationError:
        # It was stored by another version, which is no reason not to end.
        _store_judgement(connection, crawl.id, False, [])
        _alert(connection, crawl, status, suspect=False)
        return False
    fill_rates.begin(connection, crawl.id)
    sums = fill_rates.read_sums(connection, crawl.id)
    good = connection.execute(GOOD, {"id": crawl.id, "site_id": crawl.site_id}).scalar_one()
    share = sums.stored.records / max(1, good)
    usual = fill_rates.read_baseline(connection, crawl.site_id, crawl.id, share)
    lines = usual.lines(site.tolerances)
    names = list(site.product.fields) or sorted(sums.names | lines.keys())
    whole = crawl.trigger != REPLAY and status in (CrawlStatus.COMPLETED, CrawlStatus.FAILED)
    figures = _figures(connection, crawl, sums, names)
    breaches = _breaches(figures, lines, site)
    reasons = list(breaches.values())
    missing = policy.judge_products(good, usual.products, site.tolerances) if whole else None
    if missing is not None:
        reasons.insert(0, missing)
    expected = policy.usual_number(usual.products)
    values = {"id": crawl.id, "products": good if whole else None, "usual": expected}
    connection.execute(COUNTED, values)
    _store_fields(connection, crawl.id, figures, lines, breaches)
    suspect = bool(reasons) and crawl.trigger != REPLAY
    _store_judgement(connection, crawl.id, suspect, reasons)
    stay = [name for name, now in figures.items() if _stays(name, now, lines, breaches)]
    settle_kept(connection, crawl.id, crawl.site_id, stay)
    for statement in (MORE_EXAMPLES, PRUNE_EXAMPLES):
        connection.execute(statement, {"id": crawl.id, "fields": list(breaches)})
    if suspect and _agrees(connection, crawl, reasons, site.quality.accept_after):
        accept(connection, crawl.id)
        suspect = False
    _alert(connection, crawl, status, suspect=suspect)
    return suspect


def _alert(
    connection: sa.Connection, crawl: sa.Row[Any], status: CrawlStatus, *, suspect: bool
) -> None:
    """A person who stops or replays something is looking at it."""
    failed = status is CrawlStatus.FAILED and crawl.trigger != REPLAY
    if failed or (suspect and status is not CrawlStatus.STOPPED):
        connection.execute(ALERT, {"id": crawl.id})


def accept(connection: sa.Connection, crawl_id: int) -> bool:
    """Takes a judged crawl as the new usual; what it kept goes. False where it was accepted before,
    or is not judged."""
    row = connection.execute(ACCEPT, {"id": crawl_id}).first()
    if row is None:
        return False
    settle_kept(connection, crawl_id, row.site_id, [])
    return True


def settle_kept(
    connection: sa.Connection, crawl_id: int, site_id: int, stay: Collection[str]
) -> None:
    """Takes the values that a crawl kept, but for those of the fields that break: these stay for
    good, or until somebody accepts the crawl. What earlier crawls kept is settled with that."""
    after, counts = 0, CountsByCrawl()
    gone: set[str] = set()
    while True:
        rows = connection.execute(KEPT, {"id": crawl_id, "after": after, "stay": list(stay)}).all()
        emptied = [_without_kept(row, crawl_id, stay) for row in rows]
        for written in products.upsert(connection, emptied):
            counts[crawl_id].products_changed += written.changed
        gone.update(name for row in rows for name in row.fields if name not in stay)
        if len(rows) < BATCH:
            break
        after = rows[-1].product_id
    values = {"id": crawl_id, "site_id": site_id, "gone": sorted(gone), "stay": list(stay)}
    connection.execute(SETTLED, values)
    add_counts(connection, counts)


def _without_kept(row: sa.Row[Any], crawl_id: int, stay: Collection[str]) -> NewProduct:
    data, came = fill_rates.parsed(row.data), fill_rates.parsed(row.came)
    for name in row.fields:
        if name not in stay:
            for key in fill_rates.keys_of(name):
                data.pop(key, None)
                if key in came:
                    data[key] = came[key]
    return NewProduct(
        site_id=row.site_id,
        external_id=row.external_id,
        page_id=row.page_id,
        crawl_id=crawl_id,
        url=row.url,
        data=data,
        content_hash=content_hash(data),
    )


def _figures(
    connection: sa.Connection, crawl: sa.Row[Any], sums: FieldSums, names: list[str]
) -> dict[str, Figures]:
    statement = DISTINCT if crawl.filter_id is None else DISTINCT_WRITTEN
    rows = connection.execute(statement, {"id": crawl.id, "site_id": crawl.site_id})
    values = {row.field: (row.distinct_values, row.sampled) for row in rows}
    return {name: sums.figures(name, *values.get(name, (0, 0))) for name in names}


def _breaches(
    figures: Mapping[str, Figures], lines: Mapping[str, FieldBaseline], site: Site
) -> dict[str, Reason]:
    breaches = {}
    for name, now in figures.items():
        usual = lines[name].usual if name in lines else Usual()
        reason = policy.judge_field(name, now, usual, site.tolerances)
        if reason is not None:
            breaches[name] = reason
    return breaches


def _stays(
    name: str, now: Figures, lines: Mapping[str, FieldBaseline], breaches: Mapping[str, Reason]
) -> bool:
    if name not in lines:
        return False
    usual, line = lines[name]
    return name in breaches or policy.broken(now, line, usual.fill or 0.0)


def _store_fields(
    connection: sa.Connection,
    crawl_id: int,
    figures: Mapping[str, Figures],
    lines: Mapping[str, FieldBaseline],
    breaches: Mapping[str, Reason],
) -> None:
    rows = []
    for name, now in figures.items():
        usual, line = lines.get(name, FieldBaseline(Usual(), 0.0))
        rows.append(
            {
                "field": name,
                "records": now.records,
                "found": now.found,
                "mistyped": now.mistyped,
                "kept": now.kept,
                "distinct_values": now.distinct,
                "sampled": now.sampled,
                "usual_fill": usual.fill,
                "usual_mistyped": usual.mistyped,
                "usual_distinct": usual.distinct,
                "line": line,
                "breach": breaches[name].what if name in breaches else None,
            }
        )
    connection.execute(ADD_FIELDS, {"id": crawl_id, "rows": dumps(rows)})


def _store_judgement(
    connection: sa.Connection, crawl_id: int, suspect: bool, reasons: list[Reason]
) -> None:
    values = {"id": crawl_id, "suspect": suspect, "reasons": dumps(reasons) if reasons else None}
    connection.execute(JUDGED, values)


def _agrees(
    connection: sa.Connection, crawl: sa.Row[Any], reasons: list[Reason], wanted: int | None
) -> bool:
    if wanted is None:
        return False
    sets = [frozenset((reason.field, str(reason.what)) for reason in reasons)]
    values = {"id": crawl.id, "site_id": crawl.site_id, "crawls": wanted - 1}
    for row in connection.execute(BEFORE, values):
        if row.reasons:
            stored = row.reasons if row.suspect else []
            sets.append(frozenset((reason["field"], reason["what"]) for reason in stored))
    return policy.agree(sets, wanted)

"""A crawl's data judged against recent crawls, once, when it has ended; and what follows for the
values that wait for that.

`judge` runs in the transaction that ends the crawl, so that what depends on it (delisting) does
too; crawls that end otherwise (stopped, stalled) are judged by a tick. A person, or the definition,
may take a suspect crawl as the new usual: then what is held of it is released, and nothing before
it is compared with any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.domain import CrawlStatus
from scraper.frontier.crawls import REEXTRACT, REPLAY
from scraper.infra.database import dumps
from scraper.rules import quality as policy
from scraper.rules.quality import Figures, Reason, Tolerances, Usual
from scraper.settle import fill_rates, held_products, held_values, missed_products, plausibility
from scraper.settle.fill_rates import FieldBaseline, FieldSums, SiteBaseline
from scraper.settle.held_values import Mark
from scraper.settle.missed_products import Misses
from scraper.settle.plausibility import Changes, DoubtfulPages, ShownTwice, Votes
from scraper.sites.definition import Site
from scraper.sites.grammar import scalars
from scraper.sites.quality import Quality

# So many examples of a field that is in breach are kept.
EXAMPLES = 3
# Of fields that are doubted for these, the held values are the examples.
HELD_REASONS = ("implausible", "changed")
# Fields of these types are mostly stocks.
STOCKS = ("bool", "int")
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


# The crawls of a site before one, but for those that somebody asked for some pages only.
_EARLIER = f"""c.site_id = :site_id AND c.id < :id
   AND c.trigger NOT IN ('{REPLAY}', '{REEXTRACT}')"""

# Product pages that were not believed, and those that were good in the crawl before and lack what
# is required.
DOUBTFUL = sa.text(f"""
SELECT count(*) AS pages, count(known) AS known, mode() WITHIN GROUP (ORDER BY why) AS why,
       (array_agg(url ORDER BY url))[1] AS example
  FROM (SELECT pg.url, pg.error AS why, (SELECT min(pr.id) FROM products pr
                                          WHERE pr.page_id = pg.id) AS known
          FROM pages pg WHERE pg.site_id = :site_id AND pg.crawl_id = :id
           AND pg.kind = 'product' AND pg.status = 'invalid'
           AND (pg.last_outcome = 'doubtful' OR pg.fetched_at >= (
                SELECT started_at FROM crawls c
                 WHERE {_EARLIER} AND c.status IN ('completed', 'failed')
                 ORDER BY c.id DESC LIMIT 1))) AS of_crawl
""")


# Hashes are counted, since texts of any length would have to be sorted.
# What waits counts as it was read.
def _distinct_of(sample: str) -> sa.TextClause:
    return sa.text(f"""
SELECT key AS field, count(*) AS sampled,
       count(DISTINCT hashtextextended(CAST(value AS text), 0)) AS distinct_values
  FROM ({sample} LIMIT {SAMPLED}) AS sample
  LEFT JOIN LATERAL (
       SELECT jsonb_object_agg(e.key, e.value) AS data
         FROM held_values h CROSS JOIN jsonb_each(h.value) AS e
        WHERE h.product_id = sample.id AND h.crawl_id = :id) AS waiting ON true,
       jsonb_each(sample.data || coalesce(waiting.data, '{{}}'))
 WHERE jsonb_typeof(value) <> 'null' GROUP BY key
""")


# What was read in this crawl counts, not what was fresh.
DISTINCT = _distinct_of("""
        SELECT pr.id, pr.data FROM pages pg JOIN products pr ON pr.page_id = pg.id
         WHERE pg.site_id = :site_id AND pg.crawl_id = :id AND pg.status IN ('ok', 'unchanged')
           AND pg.last_outcome = 'fetched'""")

# Where pages have left the frontier, it goes by what the crawl has written, which is nearly all
# that it read.
DISTINCT_WRITTEN = _distinct_of(
    "SELECT id, data FROM products WHERE site_id = :site_id AND crawl_id = :id"
)

ADD_FIELDS = sa.text("""
INSERT INTO crawl_fields (crawl_id, field, records, found, mistyped, vanished, distinct_values,
                          sampled, compared, changed, held, votes, usual_fill,
                          usual_mistyped, usual_distinct, line, breach)
SELECT :id, i.* FROM jsonb_to_recordset(CAST(:rows AS jsonb))
  AS i(field text, records int, found int, mistyped int, vanished int, distinct_values int,
       sampled int, compared int, changed int, held int, votes jsonb, usual_fill float8,
       usual_mistyped float8, usual_distinct float8, line float8, breach text)
""")

JUDGED = sa.text("""
UPDATE crawls SET judged_at = now(), suspect = :suspect, reasons = CAST(:reasons AS jsonb)
 WHERE id = :id
""")

COUNTED = sa.text("""
UPDATE crawl_quality SET products = :products, usual_products = :usual WHERE crawl_id = :id
""")

ALERT = sa.text("INSERT INTO alerts (crawl_id) VALUES (:id) ON CONFLICT DO NOTHING")

MISSED = sa.text("""
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
     WHERE {_EARLIER} AND c.status = 'completed' AND q.missed IS NOT NULL
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

# The crawl before counts, whoever doubted it: what stays so is usual.
STRAYED = sa.text(f"""
SELECT strayed, coalesce((
    SELECT q.strayed FROM crawls c JOIN crawl_quality q ON q.crawl_id = c.id
     WHERE {_EARLIER} AND c.status = 'completed' ORDER BY c.id DESC LIMIT 1), 0) AS usual
  FROM crawl_quality WHERE crawl_id = :id
""")

BEFORE_SUSPECT = sa.text(f"""
SELECT c.id, c.reasons, q.products, q.missed
  FROM crawls c LEFT JOIN crawl_quality q ON q.crawl_id = c.id
 WHERE {_EARLIER} AND c.status IN ('completed', 'failed') ORDER BY c.id DESC LIMIT 1
""")

ALSO_SUSPECT = sa.text("""
UPDATE crawls SET suspect = true,
       reasons = coalesce(reasons, '[]') || CAST(:reasons AS jsonb) WHERE id = :id
""")
# Listings that were empty in an accepted crawl are believed.
EMPTY_LISTINGS = sa.text("""
UPDATE pages SET known_for = NULL
 WHERE crawl_id = :id AND kind <> 'product' AND status = 'invalid'
""")

BEFORE = sa.text(f"""
SELECT c.suspect, c.reasons FROM crawls c
 WHERE {_EARLIER} AND c.status IN ('completed', 'failed') ORDER BY c.id DESC LIMIT :crawls
""")

PRUNE_EXAMPLES = sa.text(f"""
DELETE FROM crawl_examples e USING (
    SELECT field, url, row_number() OVER (PARTITION BY field ORDER BY seen_at DESC, url) AS place
      FROM crawl_examples WHERE crawl_id = :id) AS placed
 WHERE e.crawl_id = :id AND e.field = placed.field AND e.url = placed.url
   AND (e.field <> ALL (:fields) OR placed.place > {EXAMPLES})
""")

NOWHERE = sa.text("""
SELECT field FROM crawl_examples WHERE crawl_id = :id AND known IS NOT NULL
 GROUP BY field HAVING count(*) >= :least AND bool_and(nowhere)
""")

# It is for fields whose values are held, and those of which the worker gave no example, since a
# Python function left them out. A currency stands beside its price.
MORE_EXAMPLES = sa.text(f"""
INSERT INTO crawl_examples (crawl_id, field, url, problem, excerpt, known)
SELECT :id, name, pr.url, CASE h.difference WHEN 'vanished' THEN 'it came without'
                          ELSE 'it came as ' || left(concat_ws(' ', h.value ->> name,
                                                     h.value ->> (name || '_currency')), 200) END,
       '', nullif(left(concat_ws(' ', pr.data ->> name,
                                 pr.data ->> (name || '_currency')), 200), '')
  FROM unnest(CAST(:fields AS text[])) AS name
 CROSS JOIN LATERAL (SELECT * FROM held_values WHERE crawl_id = :id AND field = name
                     ORDER BY difference = 'vanished', product_id LIMIT {EXAMPLES}) AS h
  JOIN products pr ON pr.id = h.product_id
 WHERE name = ANY (:held) AND h.difference <> 'vanished'
    OR NOT EXISTS (SELECT FROM crawl_examples WHERE crawl_id = :id AND field = name)
ON CONFLICT DO NOTHING
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


def judge(
    connection: sa.Connection, crawl: sa.Row[Any], status: CrawlStatus, unlisted: int = 0
) -> bool:
    """Judges a crawl whose row is locked, and which ends with that status. True: it is suspect.
    `unlisted`: good pages that no listing has named."""
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
    good -= unlisted
    share = sums.stored.records / max(1, good)
    usual = fill_rates.read_baseline(connection, crawl.site_id, crawl.id, share)
    lines = usual.lines(site.tolerances)
    names = list(site.product.all_fields) or sorted(sums.names | lines.keys())
    whole = crawl.trigger != REPLAY and status in (CrawlStatus.COMPLETED, CrawlStatus.FAILED)
    figures = _figures(connection, crawl, sums, names)
    breaches = _breaches(figures, lines, site)
    # What answers 304 was asked and has not changed.
    new = crawl.products_new + held_products.count(connection, crawl.id)
    compared = max(0, sums.stored.records + crawl.not_modified - new)
    votes = {name: sums.votes_of(name) for name in names}
    before = suspect_before(connection, crawl)
    # What no good crawl has read is not worth keeping.
    tolerances = site.tolerances if usual.products else replace(site.tolerances, changed=1.0)
    gone = _gone(connection, crawl, site, lines, before)
    contrary = _hold(
        connection, crawl, site, tolerances, usual, compared, figures, lines, breaches, votes, gone
    )
    read = max((now.records for now in figures.values()), default=0)
    odd = _odd_pages(connection, crawl, site, contrary, compared, read)
    reasons = [*odd, *breaches.values()]
    missing = policy.judge_products(good, usual.products, site.tolerances) if whole else None
    if missing is not None and not (missing.what == "products" and _found_as_many(before, good)):
        reasons.insert(0, missing)
    expected = policy.usual_number(usual.products)
    values = {"id": crawl.id, "products": good if whole else None, "usual": expected}
    connection.execute(COUNTED, values)
    suspect = bool(reasons) and crawl.trigger != REPLAY
    _store_judgement(connection, crawl.id, suspect, reasons)
    seldom = [
        name
        for name, now in figures.items()
        if policy.is_seldom(lines[name].usual.fill if name in lines else None, now.fill)
    ]
    values = {
        "id": crawl.id,
        "fields": [*breaches, *seldom],
        "held": [name for name, breach in breaches.items() if breach.what in HELD_REASONS],
    }
    for statement in (MORE_EXAMPLES, PRUNE_EXAMPLES):
        connection.execute(statement, values)
    held = held_values.release(connection, crawl.id)
    _store_fields(connection, crawl.id, figures, lines, breaches, held, votes)
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
    """Takes a judged crawl as the new usual, and releases what is held of it. False where it was
    accepted before, or is not judged."""
    row = connection.execute(ACCEPT, {"id": crawl_id}).first()
    if row is None:
        return False
    held_values.take(connection, crawl_id)
    held_values.release(connection, crawl_id)
    held_products.take(connection, crawl_id)
    missed_products.mark_replaced(connection, crawl_id, row.site_id)
    connection.execute(EMPTY_LISTINGS, {"id": crawl_id})
    return True


def _hold(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    site: Site,
    tolerances: Tolerances,
    baseline: SiteBaseline,
    compared: int,
    figures: dict[str, Figures],
    lines: Mapping[str, FieldBaseline],
    breaches: dict[str, Reason],
    votes: Mapping[str, Votes],
    gone: Collection[str],
) -> int:
    """Marks what is not believed of a crawl's changes, and adds what follows to its figures and
    breaches. Returns how many products' pages contradict what is known of them. `gone`: fields that
    the shop does not say any more."""
    prices, texts, switches = (_of_type(site, type_) for type_ in ("price", "text", "bool"))
    stocks = _of_type(site, *STOCKS)
    usuals = {name: _usual_of(lines, name) for name in figures}
    judged = tolerances.changed < 1
    own = [name for name in figures if _is_own(figures[name], usuals[name])]
    if judged:
        lasting = [name for name in figures if plausibility.may_not_vanish(name, tolerances)]
        fields = held_values.Fields(
            list(figures), prices, own, lasting, switches, [*baseline.agreeing]
        )
        held_values.classify(connection, crawl.id, fields, compared)
    changes, contrary = held_values.changes(connection, crawl.id, compared, prices)
    agreed = _agreed(changes, votes, prices)
    switched = held_values.switched(connection, crawl.id, switches)
    marks = []
    for name, now in figures.items():
        change = replace(changes.get(name, Changes(compared)), agreed=name in agreed)
        figures[name] = replace(now, compared=compared, changed=change.changed)
        if name in switched:
            change = replace(change, vanished=0)
        price, text = name in prices, name in own and name in texts
        usual = usuals[name].changed
        reason = plausibility.judge_changes(name, change, usual, tolerances, price=price)
        doubt = plausibility.doubt(
            name, change, usual, tolerances, price=price, text=text, steady=name not in stocks
        )
        if doubt is not None:
            marks.append(Mark(name, doubt, doubt, fresh=True))
            marks += [
                Mark(other, doubt, "vanished", fresh=True)
                for other, switch in switched.items()
                if switch == name
            ]
        breach = breaches.get(name)
        if name in switched and breach is not None and breach.what in ("fill", "late"):
            del breaches[name]
            breach = None
        elif name in gone and not sum(no for _, no in votes[name].values()):
            breaches.pop(name, None)
            breach = None
        elif name in lines and policy.broken(now, lines[name].line, usuals[name].fill or 0.0):
            marks.append(Mark(name, "fill", "vanished", fresh=False))
        if breach is not None and name in lines:
            difference = None if breach.what in ("mistyped", "distinct") else "vanished"
            marks.append(Mark(name, breach.what, difference, fresh=False))
        if reason is not None:
            breaches.setdefault(name, reason)
    held_values.mark(connection, crawl.id, marks, prices)
    return contrary


def _of_type(site: Site, *types: str) -> list[str]:
    return [name for name, spec in site.product.all_fields.items() if spec.type in types]


def _usual_of(lines: Mapping[str, FieldBaseline], name: str) -> Usual:
    return lines[name].usual if name in lines else Usual()


def _agreed(
    changes: Mapping[str, Changes], votes: Mapping[str, Votes], prices: Collection[str]
) -> set[str]:
    """The fields of which the pages' other sources say the same; and prices of which there are no
    others, but that rise with one of these."""
    agreed = {name for name in votes if plausibility.agreed(votes[name])}
    risen = plausibility.risen(
        [replace(changes[name], agreed=name in agreed) for name in prices if name in changes]
    )
    silent = [name for name in prices if name in changes and not votes[name]]
    return agreed.union(name for name in silent if plausibility.follows(changes[name], risen))


def _odd_pages(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    site: Site,
    contrary: int,
    compared: int,
    read: int,
) -> list[Reason]:
    """Why a crawl as a whole is odd: of `read` pages too many are not their products'."""
    if site.tolerances.changed >= 1:
        return []
    values = {"id": crawl.id, "site_id": crawl.site_id}
    row = connection.execute(DOUBTFUL, values).one()
    doubtful = DoubtfulPages(row.pages, row.known, row.why or "", row.example or "")
    several = site.product.items is not None
    prices = _of_type(site, "price")
    others = held_products.mark(connection, crawl.id, crawl.site_id, prices, several=several)
    odd = [
        plausibility.judge_pages(contrary, compared, doubtful, read),
        plausibility.judge_ids(others, read),
    ]
    if not several:
        strayed = connection.execute(STRAYED, values).one()
        odd.append(plausibility.judge_strayed(strayed.strayed, strayed.usual, read))
    return [reason for reason in odd if reason is not None]


def _gone(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    site: Site,
    lines: Mapping[str, FieldBaseline],
    before: sa.Row[Any] | None,
) -> set[str]:
    """The fields that were missing in the crawl before already, and whose last values, which seldom
    changed, are in no place of the pages now: the shop does not say them any more."""
    missing = {reason["field"] for reason in before.reasons} if before is not None else set()
    rows = connection.execute(NOWHERE, {"id": crawl.id, "least": plausibility.GONE_LEAST})
    return {
        row.field
        for row in rows
        if row.field in missing
        and site.product.all_fields[row.field].type == "text"
        and (_usual_of(lines, row.field).changed or 0.0) <= plausibility.SELDOM_CHANGES
    }


def _is_own(now: Figures, usual: Usual) -> bool:
    """Whether a field's values mostly differ from product to product."""
    share = usual.own_share or (now.distinct / now.sampled if now.sampled else 0.0)
    return share >= plausibility.OWN_VALUES


def judge_misses(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    misses: Misses,
    listings: ShownTwice,
    before: sa.Row[Any] | None,
) -> Reason | None:
    """Whether a judged crawl has missed so many products at once, or in such a way, that none of
    them counts. `before`: as `suspect_before` says."""
    missed = misses.missed
    values = {"id": crawl.id, "site_id": crawl.site_id}
    usual = connection.execute(USUAL_MISSES, values).first()
    judged = Quality.model_validate(crawl.definition.get("quality", {}))
    if not missed or usual is None or usual.products is None or scalars.share(judged.products) <= 0:
        return None
    twice = plausibility.judge_repeats(missed, listings, usual.repeated)
    if twice is not None or _found_as_many(before, usual.products):
        return twice
    if misses.lost > usual.lost:
        return Reason(None, "listings", misses.example or "")
    return plausibility.judge_misses(missed, usual.products, usual.missed or 0.0)


def store_misses(
    connection: sa.Connection, crawl_id: int, misses: Misses, listings: ShownTwice
) -> None:
    values = {"id": crawl_id, "missed": misses.missed, "lost": misses.lost}
    values["repeated"] = listings.repeated
    connection.execute(MISSED, values)


def suspect_also(connection: sa.Connection, crawl_id: int, reason: Reason) -> bool:
    """Makes a judged crawl suspect for one reason more."""
    connection.execute(ALSO_SUSPECT, {"id": crawl_id, "reasons": dumps([reason])})
    connection.execute(ALERT, {"id": crawl_id})
    return True


def suspect_before(connection: sa.Connection, crawl: sa.Row[Any]) -> sa.Row[Any] | None:
    """The crawl before, if it was suspect: its id and reasons, its good products, and how many it
    missed (None: nobody looked)."""
    values = {"id": crawl.id, "site_id": crawl.site_id}
    row = connection.execute(BEFORE_SUSPECT, values).first()
    return row if row is not None and row.reasons else None


def missed_before(before: sa.Row[Any] | None) -> int | None:
    """The crawl before, where its misses were looked at and did not count: they may count with
    this one's."""
    return int(before.id) if before is not None and before.missed is not None else None


def doubted_before(
    connection: sa.Connection, crawl: sa.Row[Any], before: sa.Row[Any] | None
) -> int | None:
    """The crawl before, where its misses were looked at and did not count, and this one has found
    the same number of products: what both have missed is missed twice."""
    if before is None or before.missed is None:
        return None
    query = sa.text("SELECT products FROM crawl_quality WHERE crawl_id = :id")
    products = connection.execute(query, {"id": crawl.id}).scalar()
    same = products is not None and plausibility.says_the_same(products, before.products or 0)
    return int(before.id) if same else None


def _found_as_many(before: sa.Row[Any] | None, products: int) -> bool:
    """Whether the crawl before was suspect, so that its misses did not count, and had found the
    same number of products."""
    return (
        before is not None
        and before.products is not None
        and plausibility.says_the_same(products, before.products)
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


def _store_fields(
    connection: sa.Connection,
    crawl_id: int,
    figures: Mapping[str, Figures],
    lines: Mapping[str, FieldBaseline],
    breaches: Mapping[str, Reason],
    held: Mapping[str, int],
    votes: Mapping[str, Votes],
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
                "vanished": now.vanished,
                "distinct_values": now.distinct,
                "sampled": now.sampled,
                "compared": now.compared,
                "changed": now.changed,
                "held": held.get(name, 0),
                "votes": votes[name],
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

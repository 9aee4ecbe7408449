"""A crawl's data judged against recent crawls, once, when it has ended; and what follows for the
values that wait for that.

`judge` runs in the transaction that ends the crawl, so that what depends on it (delisting) does
too; crawls that end otherwise (stopped, stalled) are judged by a tick. A person, or the definition,
may take a suspect crawl as the new usual: then what is held of it is released, and nothing before
it is compared with any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.domain import CrawlStatus
from scraper.frontier.crawls import REPLAY
from scraper.infra.database import dumps
from scraper.results import (
    earlier_crawls,
    fill_rates,
    held_products,
    held_values,
    implausible_values,
    plausibility,
)
from scraper.results.earlier_crawls import EARLIER, SuspectCrawl
from scraper.results.fill_rates import FieldBaseline, FieldCounts
from scraper.results.implausible_values import FieldMark
from scraper.results.plausibility import Changes, DoubtfulPages
from scraper.rules import quality as policy
from scraper.rules.quality import FieldFigures, Reason, UsualFigures
from scraper.sites.definition import Site

# So many examples of a field that is in breach are kept.
EXAMPLES = 3
# Of fields that are doubted for these, the held values are the examples.
HELD_REASONS = ("implausible", "changed")
# Fields of these types are mostly stocks.
STOCKS = ("bool", "int")
NO_BASELINE = FieldBaseline(UsualFigures(), 0.0)
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
                 WHERE {EARLIER} AND c.status IN ('completed', 'failed')
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
  AS i(field text, records int, found int, mistyped int, vanished int, "distinct" int,
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

# The crawl before counts, whoever doubted it: what stays so is usual.
STRAYED = sa.text(f"""
SELECT strayed, coalesce((
    SELECT q.strayed FROM crawls c JOIN crawl_quality q ON q.crawl_id = c.id
     WHERE {EARLIER} AND c.status = 'completed' ORDER BY c.id DESC LIMIT 1), 0) AS usual
  FROM crawl_quality WHERE crawl_id = :id
""")

ALSO_SUSPECT = sa.text("""
UPDATE crawls SET suspect = true,
       reasons = coalesce(reasons, '[]') || CAST(:reasons AS jsonb) WHERE id = :id
""")
# Listings that were empty in an accepted crawl are believed.
EMPTY_LISTINGS = sa.text("""
UPDATE pages SET last_item_count = NULL
 WHERE crawl_id = :id AND kind <> 'product' AND status = 'invalid'
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


def unjudged_crawls(connection: sa.Connection) -> list[int]:
    """Crawls that have ended without being judged: stopped or stalled ones, normally none."""
    return list(connection.execute(UNJUDGED).scalars())


def lock_unjudged(connection: sa.Connection, crawl_id: int) -> sa.Row[Any] | None:
    query = sa.text("""
        SELECT * FROM crawls WHERE id = :id AND judged_at IS NULL
               AND status IN ('completed', 'stopped', 'failed')
           FOR UPDATE SKIP LOCKED""")
    return connection.execute(query, {"id": crawl_id}).first()


def judge_data(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    status: CrawlStatus,
    before: SuspectCrawl | None,
    unlisted: int = 0,
) -> bool:
    """Judges a crawl whose row is locked, and which ends with that status. True: it is suspect.
    `before`: the crawl before, if it was suspect; `unlisted`: good pages that no listing has
    named."""
    try:
        site = Site.model_validate(crawl.definition)
    except ValidationError:
        # It was stored by another version, which is no reason not to end.
        _store_judgement(connection, crawl.id, False, [])
        _queue_alert(connection, crawl, status, suspect=False)
        return False
    judgement = Judgement(connection, crawl, site, before, unlisted)
    contrary = judgement.doubt_changes()
    whole = crawl.trigger != REPLAY and status in (CrawlStatus.COMPLETED, CrawlStatus.FAILED)
    judgement.store_number(whole=whole)
    reasons = judgement.reasons(contrary, whole=whole)
    suspect = bool(reasons) and crawl.trigger != REPLAY
    _store_judgement(connection, crawl.id, suspect, reasons)
    judgement.keep_examples()
    judgement.store_fields(held_values.release_values(connection, crawl.id))
    wanted = site.quality.accept_after
    if suspect and earlier_crawls.have_same_reasons(connection, crawl, reasons, wanted):
        accept_crawl(connection, crawl.id)
        suspect = False
    _queue_alert(connection, crawl, status, suspect=suspect)
    return suspect


def _queue_alert(
    connection: sa.Connection, crawl: sa.Row[Any], status: CrawlStatus, *, suspect: bool
) -> None:
    """A person who stops or replays something is looking at it."""
    failed = status is CrawlStatus.FAILED and crawl.trigger != REPLAY
    if failed or (suspect and status is not CrawlStatus.STOPPED):
        connection.execute(ALERT, {"id": crawl.id})


def accept_crawl(connection: sa.Connection, crawl_id: int) -> bool:
    """Takes a judged crawl as the new usual, and releases what is held of it. False where it was
    accepted before, or is not judged."""
    row = connection.execute(ACCEPT, {"id": crawl_id}).first()
    if row is None:
        return False
    held_values.accept_values(connection, crawl_id)
    held_values.release_values(connection, crawl_id)
    held_products.accept_products(connection, crawl_id)
    connection.execute(EMPTY_LISTINGS, {"id": crawl_id})
    return True


class Judgement:
    """What a crawl's pages said of its fields, held against what is usual at its site.

    `figures`, `votes` and `breaches` are by field; `compared`: so many products were known before;
    `good`: so many product pages were good.
    """

    def __init__(
        self,
        connection: sa.Connection,
        crawl: sa.Row[Any],
        site: Site,
        before: SuspectCrawl | None,
        unlisted: int,
    ) -> None:
        self._connection, self._crawl, self._site, self._before = connection, crawl, site, before
        self._ids = {"id": crawl.id, "site_id": crawl.site_id}
        fill_rates.begin_sums(connection, crawl.id)
        sums = fill_rates.read_sums(connection, crawl.id)
        self.good = connection.execute(GOOD, self._ids).scalar_one() - unlisted
        share = sums.stored.records / max(1, self.good)
        self._usual = fill_rates.read_baseline(connection, crawl.site_id, crawl.id, share)
        self._lines = self._usual.lines(site.tolerances)
        names = list(site.product.all_fields) or sorted(sums.names | self._lines.keys())
        self.figures = self._read_figures(sums, names)
        self.votes = {name: sums.votes_of(name) for name in names}
        self.breaches = self._broken_fields()
        # What answers 304 was asked and has not changed.
        new = crawl.products_new + held_products.count_held(connection, crawl.id)
        self.compared = max(0, sums.stored.records + crawl.not_modified - new)
        # What no good crawl has read is not worth keeping.
        usual = self._usual.products
        self._tolerances = site.tolerances if usual else replace(site.tolerances, changed=1.0)

    def _read_figures(self, sums: FieldCounts, names: list[str]) -> dict[str, FieldFigures]:
        statement = DISTINCT if self._crawl.filter_id is None else DISTINCT_WRITTEN
        rows = self._connection.execute(statement, self._ids)
        values = {row.field: (row.distinct_values, row.sampled) for row in rows}
        return {name: sums.figures(name, *values.get(name, (0, 0))) for name in names}

    def _broken_fields(self) -> dict[str, Reason]:
        breaches = {}
        for name, now in self.figures.items():
            usual = self._baseline(name).usual
            reason = policy.judge_field(name, now, usual, self._site.tolerances)
            if reason is not None:
                breaches[name] = reason
        return breaches

    def _baseline(self, name: str) -> FieldBaseline:
        return self._lines.get(name, NO_BASELINE)

    def _of_type(self, *types: str) -> list[str]:
        fields = self._site.product.all_fields
        return [name for name, spec in fields.items() if spec.type in types]

    def _is_own(self, name: str) -> bool:
        """Whether a field's values mostly differ from product to product."""
        now, usual = self.figures[name], self._baseline(name).usual
        share = usual.own_share or (now.distinct / now.sampled if now.sampled else 0.0)
        return share >= plausibility.OWN_VALUES

    def doubt_changes(self) -> int:
        """Marks what is not believed of the crawl's changes, and adds what follows to the figures
        and breaches. Returns how many products' pages contradict what is known of them."""
        prices, switches = self._of_type("price"), self._of_type("bool")
        self._classify(prices, switches)
        values = self._connection, self._crawl.id
        changes, contrary = implausible_values.read_changes(*values, self.compared, prices)
        agreed = self._agreed(changes, prices)
        switched = implausible_values.read_switched(*values, switches)
        gone = self._gone_fields()
        marks: list[FieldMark] = []
        for name, now in self.figures.items():
            change = replace(changes.get(name, Changes(self.compared)), agreed=name in agreed)
            self.figures[name] = replace(now, compared=self.compared, changed=change.changed)
            if name in switched:
                change = replace(change, vanished=0)
            marks += self._marks_of_change(name, change, switched)
            marks += self._marks_of_breach(name, switched=name in switched, gone=name in gone)
            usual, price = self._baseline(name).usual.changed, name in prices
            reason = plausibility.judge_changes(name, change, usual, self._tolerances, price=price)
            if reason is not None:
                self.breaches.setdefault(name, reason)
        implausible_values.mark_fields(*values, marks, prices)
        return contrary

    def _classify(self, prices: list[str], switches: list[str]) -> None:
        """Marks single values."""
        tolerances = self._tolerances
        if tolerances.changed >= 1:
            return
        fields = implausible_values.FieldRoles(
            fields=list(self.figures),
            prices=prices,
            own=[name for name in self.figures if self._is_own(name)],
            lasting=[
                name for name in self.figures if plausibility.may_not_vanish(name, tolerances)
            ],
            switches=switches,
            agreeing=[*self._usual.agreeing],
        )
        implausible_values.mark_implausible(self._connection, self._crawl.id, fields, self.compared)

    def _agreed(self, changes: Mapping[str, Changes], prices: list[str]) -> set[str]:
        """The fields of which the pages' other sources say the same; and prices of which there are
        no others, but that rise with one of these."""
        agreed = {name for name, votes in self.votes.items() if plausibility.sources_agree(votes)}
        changed = [name for name in prices if name in changes]
        risen = plausibility.rise_factors(
            [replace(changes[name], agreed=name in agreed) for name in changed]
        )
        silent = [name for name in changed if not self.votes[name]]
        return agreed.union(
            name for name in silent if plausibility.follows_rise(changes[name], risen)
        )

    def _gone_fields(self) -> set[str]:
        """The fields that were missing in the crawl before already, and whose last values, which
        seldom changed, are in no place of the pages now: the shop does not say them any more."""
        if self._before is None:
            return set()
        missing = {reason["field"] for reason in self._before.reasons}
        values = {"id": self._crawl.id, "least": plausibility.GONE_LEAST}
        texts = self._of_type("text")
        return {
            name
            for name in self._connection.execute(NOWHERE, values).scalars()
            if name in missing
            and name in texts
            and (self._baseline(name).usual.changed or 0.0) <= plausibility.SELDOM_CHANGES
        }

    def _marks_of_change(
        self, name: str, change: Changes, switched: Mapping[str, str]
    ) -> Iterator[FieldMark]:
        """What is held of a field that changed on too many products, and of those that vanished
        with it, where it is a switch."""
        doubt = plausibility.find_doubt(
            name,
            change,
            self._baseline(name).usual.changed,
            self._tolerances,
            price=name in self._of_type("price"),
            text=name in self._of_type("text") and self._is_own(name),
            steady=name not in self._of_type(*STOCKS),
        )
        if doubt is not None:
            yield FieldMark(name, doubt, doubt, fresh=True)
            for other, switch in switched.items():
                if switch == name:
                    yield FieldMark(other, doubt, "vanished", fresh=True)

    def _marks_of_breach(self, name: str, *, switched: bool, gone: bool) -> Iterator[FieldMark]:
        """What is held of a field that is missing or wrong on too many pages. It is no breach where
        it went with a switch, or where the shop does not say it any more."""
        breach = self.breaches.get(name)
        with_switch = switched and breach is not None and breach.what in ("fill", "late")
        if with_switch or (gone and not sum(no for _, no in self.votes[name].values())):
            self.breaches.pop(name, None)
        elif name in self._lines:
            usual, line = self._lines[name]
            if policy.is_broken(self.figures[name], line, usual.fill or 0.0):
                yield FieldMark(name, "fill", "vanished", fresh=False)
            if breach is not None:
                difference = None if breach.what in ("mistyped", "distinct") else "vanished"
                yield FieldMark(name, breach.what, difference, fresh=False)

    def reasons(self, contrary: int, *, whole: bool) -> list[Reason]:
        """Why the crawl is suspect, its number of products first."""
        reasons = [*self._odd_pages(contrary), *self.breaches.values()]
        missing = self._missing_products() if whole else None
        return reasons if missing is None else [missing, *reasons]

    def _missing_products(self) -> Reason | None:
        reason = policy.judge_products(self.good, self._usual.products, self._site.tolerances)
        if reason is not None and reason.what == "products" and self._before is not None:
            return None if self._before.found_as_many(self.good) else reason
        return reason

    def _odd_pages(self, contrary: int) -> list[Reason]:
        """Why the crawl as a whole is odd: too many pages that were read are not their
        products'."""
        if self._site.tolerances.changed >= 1:
            return []
        read = max((now.records for now in self.figures.values()), default=0)
        row = self._connection.execute(DOUBTFUL, self._ids).one()
        doubtful = DoubtfulPages(row.pages, row.known, row.why or "", row.example or "")
        crawl, several = self._crawl, self._site.product.items is not None
        others = held_products.mark_implausible(
            self._connection, crawl.id, crawl.site_id, self._of_type("price"), several=several
        )
        odd = [
            plausibility.judge_pages(contrary, self.compared, doubtful, read),
            plausibility.judge_ids(others, read),
        ]
        if not several:
            strayed = self._connection.execute(STRAYED, self._ids).one()
            odd.append(plausibility.judge_strayed(strayed.strayed, strayed.usual, read))
        return [reason for reason in odd if reason is not None]

    def store_number(self, *, whole: bool) -> None:
        values = {"id": self._crawl.id, "products": self.good if whole else None}
        values["usual"] = policy.usual_product_count(self._usual.products)
        self._connection.execute(COUNTED, values)

    def keep_examples(self) -> None:
        """A few of each field in breach, and of those that are seldom there; no others."""
        breaches = self.breaches.items()
        seldom = [
            name
            for name, now in self.figures.items()
            if policy.is_rare(self._baseline(name).usual.fill, now.fill)
        ]
        values = {
            "id": self._crawl.id,
            "fields": [*self.breaches, *seldom],
            "held": [name for name, breach in breaches if breach.what in HELD_REASONS],
        }
        for statement in (MORE_EXAMPLES, PRUNE_EXAMPLES):
            self._connection.execute(statement, values)

    def store_fields(self, held: Mapping[str, int]) -> None:
        """`held`: how many values of each stay held."""
        rows = []
        for name, now in self.figures.items():
            usual, line = self._baseline(name)
            rows.append(
                {
                    **asdict(now),
                    "field": name,
                    "held": held.get(name, 0),
                    "votes": self.votes[name],
                    "usual_fill": usual.fill,
                    "usual_mistyped": usual.mistyped,
                    "usual_distinct": usual.distinct,
                    "line": line,
                    "breach": self.breaches[name].what if name in self.breaches else None,
                }
            )
        self._connection.execute(ADD_FIELDS, {"id": self._crawl.id, "rows": dumps(rows)})


def add_reason(connection: sa.Connection, crawl_id: int, reason: Reason) -> bool:
    """Makes a judged crawl suspect for one reason more."""
    connection.execute(ALSO_SUSPECT, {"id": crawl_id, "reasons": dumps([reason])})
    connection.execute(ALERT, {"id": crawl_id})
    return True


def _store_judgement(
    connection: sa.Connection, crawl_id: int, suspect: bool, reasons: list[Reason]
) -> None:
    values = {"id": crawl_id, "suspect": suspect, "reasons": dumps(reasons) if reasons else None}
    connection.execute(JUDGED, values)

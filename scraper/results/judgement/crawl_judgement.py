"""The judgement of one crawl: what its pages say of each field, against what is usual at its
site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.results import fill_rates, held_products
from scraper.results.fill_rates import ADD_EXAMPLES, FieldBaseline, FieldCounts
from scraper.results.judgement import implausible_values, plausibility
from scraper.results.judgement.earlier_crawls import EARLIER, SuspectCrawl
from scraper.results.judgement.implausible_values import FieldMark
from scraper.results.judgement.plausibility import Changes, DoubtfulPages
from scraper.rules import quality as policy
from scraper.rules.quality import FieldFigures, Reason, UsualFigures
from scraper.sites.definition import Site

# How many examples of each broken field are kept.
EXAMPLES = 3
# Held values are the examples of fields that are in breach for these reasons.
HELD_REASONS = ("implausible", "changed")
# Fields of these types are mostly stocks.
STOCKS = ("bool", "int")
NO_BASELINE = FieldBaseline(UsualFigures(), 0.0)
# The values of this many products are compared with each other.
SAMPLED = 20_000

# It counts what the crawl has counted, since product pages may have left the frontier. If a filter
# keeps known pages out of the crawl, what its listings named counts.
GOOD = sa.text("""
SELECT greatest(c.ok + c.unchanged - (
           SELECT count(*) FROM pages
            WHERE site_id = :site_id AND crawl_id = :id AND kind <> 'product'
              AND status IN ('ok', 'unchanged')),
       c.products_listed - c.gone - c.dead - c.invalid)
  FROM crawls c WHERE c.id = :id
""")

# Product pages that were not believed, and those that were good in the previous crawl and now lack
# required fields.
DOUBTFUL = sa.text(f"""
SELECT count(*) AS pages, count(product_id) AS of_known, mode() WITHIN GROUP (ORDER BY why) AS why,
       (array_agg(url ORDER BY url))[1] AS example
  FROM (SELECT pg.url, pg.error AS why, (SELECT min(pr.id) FROM products pr
                                          WHERE pr.page_id = pg.id) AS product_id
          FROM pages pg WHERE pg.site_id = :site_id AND pg.crawl_id = :id
           AND pg.kind = 'product' AND pg.status = 'invalid'
           AND (pg.last_outcome = 'doubtful' OR pg.fetched_at >= (
                SELECT started_at FROM crawls c
                 WHERE {EARLIER} AND c.status IN ('completed', 'failed')
                 ORDER BY c.id DESC LIMIT 1))) AS of_crawl
""")


# Hashes are counted, since texts of any length would have to be sorted. Values that wait count as
# they were read.
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


# What the crawl has read counts, not what was fresh.
DISTINCT = _distinct_of("""
        SELECT pr.id, pr.data FROM pages pg JOIN products pr ON pr.page_id = pg.id
         WHERE pg.site_id = :site_id AND pg.crawl_id = :id AND pg.status IN ('ok', 'unchanged')
           AND pg.last_outcome = 'fetched'""")

# If pages have left the frontier, what the crawl has written counts: nearly all that it has read.
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

COUNTED = sa.text("""
UPDATE crawl_quality SET products = :products, usual_products = :usual WHERE crawl_id = :id
""")

# The previous crawl counts even if it was suspect: what stays the same is usual.
STRAYED = sa.text(f"""
SELECT strayed, coalesce((
    SELECT q.strayed FROM crawls c JOIN crawl_quality q ON q.crawl_id = c.id
     WHERE {EARLIER} AND c.status = 'completed' ORDER BY c.id DESC LIMIT 1), 0) AS usual
  FROM crawl_quality WHERE crawl_id = :id
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

# Examples of fields whose values are held, and of fields without an example from the worker, which
# a Python function left out. A price is followed by its currency.
HELD_EXAMPLES = sa.text(f"""
SELECT name AS field, pr.url, h.difference,
       left(concat_ws(' ', h.value ->> name, h.value ->> (name || '_currency')), 200) AS value,
       nullif(left(concat_ws(' ', pr.data ->> name, pr.data ->> (name || '_currency')), 200), '')
         AS known
  FROM unnest(CAST(:fields AS text[])) AS name
 CROSS JOIN LATERAL (SELECT * FROM held_values WHERE crawl_id = :id AND field = name
                     ORDER BY difference = 'vanished', product_id LIMIT {EXAMPLES}) AS h
  JOIN products pr ON pr.id = h.product_id
 WHERE name = ANY (:held) AND h.difference <> 'vanished'
    OR NOT EXISTS (SELECT FROM crawl_examples WHERE crawl_id = :id AND field = name)
""")


class CrawlJudgement:
    """Compares a crawl's fields with what is usual at its site.

    `figures`, `votes` and `breaches` are by field. `compared` counts the products that were known
    before, `good` the good product pages.
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
        self._lines = self._usual.baselines(site.tolerances)
        names = list(site.product.all_fields) or sorted(sums.names | self._lines.keys())
        self.figures = self._read_figures(sums, names)
        self.votes = {name: sums.votes_of(name) for name in names}
        self.breaches = self._broken_fields()
        # Pages that answer 304 were requested and have not changed.
        new = crawl.products_new + held_products.count_held(connection, crawl.id)
        self.compared = max(0, sums.stored.records + crawl.not_modified - new)
        # Without a good crawl before, no stored value is worth keeping.
        usual = self._usual.products
        self._tolerances = site.tolerances if usual else replace(site.tolerances, changed=1.0)

    def _read_figures(self, sums: FieldCounts, names: list[str]) -> dict[str, FieldFigures]:
        statement = DISTINCT if self._crawl.filter_id is None else DISTINCT_WRITTEN
        rows = self._connection.execute(statement, self._ids)
        values = {row.field: (row.distinct_values, row.sampled) for row in rows}
        return {name: sums.figures_of(name, *values.get(name, (0, 0))) for name in names}

    def _broken_fields(self) -> dict[str, Reason]:
        breaches = {}
        for name, now in self.figures.items():
            usual = self._baseline_of(name).usual
            reason = policy.judge_field(name, now, usual, self._site.tolerances)
            if reason is not None:
                breaches[name] = reason
        return breaches

    def _baseline_of(self, name: str) -> FieldBaseline:
        return self._lines.get(name, NO_BASELINE)

    def _of_type(self, *types: str) -> list[str]:
        fields = self._site.product.all_fields
        return [name for name, spec in fields.items() if spec.type in types]

    def _is_own(self, name: str) -> bool:
        """Returns True if a field's values mostly differ from product to product."""
        now, usual = self.figures[name], self._baseline_of(name).usual
        share = usual.own_share or (now.distinct / now.sampled if now.sampled else 0.0)
        return share >= plausibility.OWN_VALUES

    def doubt_changes(self) -> int:
        """Marks the changes that are not believed, and adds them to the figures and breaches.
        Returns how many products' pages contradict what is known of them."""
        prices, switches = self._of_type("price"), self._of_type("bool")
        self._mark_implausible(prices, switches)
        values = self._connection, self._crawl.id
        changes, contrary = implausible_values.read_changes(*values, self.compared, prices)
        agreed = self._agreed_fields(changes, prices)
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
            usual, price = self._baseline_of(name).usual.changed, name in prices
            reason = plausibility.judge_changes(name, change, usual, self._tolerances, price=price)
            if reason is not None:
                self.breaches.setdefault(name, reason)
        implausible_values.mark_fields(*values, marks, prices)
        return contrary

    def _mark_implausible(self, prices: list[str], switches: list[str]) -> None:
        """Marks single values that are implausible."""
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

    def _agreed_fields(self, changes: Mapping[str, Changes], prices: list[str]) -> set[str]:
        """Returns the fields that other sources of the pages confirm, and the prices without other
        sources that rise with one of these."""
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
        """Returns the fields that the shop no longer shows: they were missing in the previous crawl
        already, and their last values, which seldom changed, are nowhere on the pages now."""
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
            and (self._baseline_of(name).usual.changed or 0.0) <= plausibility.SELDOM_CHANGES
        }

    def _marks_of_change(
        self, name: str, change: Changes, switched: Mapping[str, str]
    ) -> Iterator[FieldMark]:
        """Yields what to hold of a field that changed on too many products, and of the fields that
        vanished with it, if it is a switch."""
        doubt = plausibility.find_doubt(
            name,
            change,
            self._baseline_of(name).usual.changed,
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
        """Yields what to hold of a field that is missing or wrong on too many pages. A field that
        went with a switch, or that the shop no longer shows, is not in breach."""
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

    def find_reasons(self, contrary: int, *, whole: bool) -> list[Reason]:
        """Returns why the crawl is suspect, its number of products first."""
        reasons = [*self._odd_pages(contrary), *self.breaches.values()]
        missing = self._missing_products() if whole else None
        return reasons if missing is None else [missing, *reasons]

    def _missing_products(self) -> Reason | None:
        reason = policy.judge_products(self.good, self._usual.products, self._site.tolerances)
        if reason is not None and reason.what == "products" and self._before is not None:
            return None if self._before.found_as_many(self.good) else reason
        return reason

    def _odd_pages(self, contrary: int) -> list[Reason]:
        """Returns why the crawl as a whole is odd: too many pages are not their products' pages."""
        if self._site.tolerances.changed >= 1:
            return []
        read = max((now.records for now in self.figures.values()), default=0)
        row = self._connection.execute(DOUBTFUL, self._ids).one()
        doubtful = DoubtfulPages(row.pages, row.of_known, row.why or "", row.example or "")
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
        """Stores the number of good products, unless the crawl is only a part of the site."""
        values = {"id": self._crawl.id, "products": self.good if whole else None}
        values["usual"] = policy.usual_product_count(self._usual.products)
        self._connection.execute(COUNTED, values)

    def keep_examples(self) -> None:
        """Keeps a few examples of each field that is in breach or seldom filled, and no others."""
        seldom = [
            name
            for name, now in self.figures.items()
            if policy.is_rare(self._baseline_of(name).usual.fill, now.fill)
        ]
        held = [name for name, breach in self.breaches.items() if breach.what in HELD_REASONS]
        values = {"id": self._crawl.id, "fields": [*self.breaches, *seldom], "held": held}
        rows = [
            {
                "crawl_id": self._crawl.id,
                "field": row.field,
                "url": row.url,
                "problem": "it came without"
                if row.difference == "vanished"
                else f"it came as {row.value}",
                "excerpt": "",
                "known": row.known,
                "nowhere": False,
            }
            for row in self._connection.execute(HELD_EXAMPLES, values)
        ]
        if rows:
            self._connection.execute(ADD_EXAMPLES, {"rows": dumps(rows)})
        self._connection.execute(PRUNE_EXAMPLES, values)

    def store_fields(self, held: Mapping[str, int]) -> None:
        """Stores the judged figures. `held` says how many values of each field stay held."""
        rows = []
        for name, now in self.figures.items():
            usual, line = self._baseline_of(name)
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

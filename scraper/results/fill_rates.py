"""Fill rates: what a crawl's pages say of its fields, counted while they are settled.

`crawl_quality` has one row with the sums of a crawl, so that a group of pages of a hundred crawls
costs a hundred short updates and not a thousand. The row changes in the transaction that settles
the pages, so the readings of a lost lease are not counted, and none is counted twice. It is created
with the crawl's first page, together with the usual figures, which stay the same until the crawl's
end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.domain import Example, FieldObservations, Status
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.results.excerpts import is_absent, shorten_excerpt
from scraper.results.judgement.plausibility import Votes, sources_agree
from scraper.results.products import parse_data
from scraper.rules import quality
from scraper.rules.quality import FieldFigures, Tolerances, UsualFigures
from scraper.sites.quality_keys import read_tolerances

# Pages with these statuses were read.
COUNTED = (Status.OK, Status.UNCHANGED, Status.INVALID)
# A crawl counts at most this many fields, since a Python function may yield any keys.
FIELDS_MAX = 500
# Each new record reduces the weight of earlier ones to this: about fifty records count.
FADES = 0.98
# How many crawls are searched for the usual figures.
SEARCHED = 20

SUMS = sa.text("""
SELECT crawl_id, records, found, mistyped, vanished, votes, strayed, recent_records, recent, usual
  FROM crawl_quality WHERE crawl_id = ANY (:ids)
""")

BEGIN = sa.text("""
INSERT INTO crawl_quality (crawl_id, usual) VALUES (:crawl_id, CAST(:usual AS jsonb))
 ON CONFLICT DO NOTHING
""")

COUNT = sa.text(sql("results/count_fill_rates.sql"))

ADD_EXAMPLES = sa.text("""
INSERT INTO crawl_examples (crawl_id, field, url, problem, excerpt, known, nowhere)
SELECT crawl_id, field, url, problem, excerpt, known, nowhere
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(crawl_id bigint, field text, url text, problem text, excerpt text, known text,
         nowhere boolean)
ON CONFLICT DO NOTHING
""")

# The comparable crawls of a site: whole passes that were not suspect, none before the last one that
# a person accepted as the new usual. Crawls that have read enough are searched separately: fresh
# pages and 304 answers are not read, and a month of such crawls must not displace the usual
# figures.
USABLE = sa.text("""
SELECT c.id, q.products, q.records FROM crawls c LEFT JOIN crawl_quality q ON q.crawl_id = c.id
 WHERE c.site_id = :site_id AND c.id < :id AND c.status = 'completed' AND c.trigger <> 'replay'
   AND NOT c.suspect
   AND c.judged_at IS NOT NULL AND q.products IS NOT NULL
   AND c.id >= coalesce((SELECT max(id) FROM crawls
                         WHERE site_id = :site_id AND accepted_at IS NOT NULL AND id < :id), 0)
   AND q.records >= :records
 ORDER BY c.id DESC LIMIT :searched
""")

PAST_FIELDS = sa.text("""
SELECT field, votes, records, found, mistyped, distinct_values AS "distinct", sampled, vanished,
       compared, changed
  FROM crawl_fields
 WHERE crawl_id = ANY (:ids) ORDER BY crawl_id DESC
""")


class FieldBaseline(NamedTuple):
    """A field's usual figures, and the fill rate below which it is broken."""

    usual: UsualFigures
    line: float


class ReadPage(NamedTuple):
    """A settled page that was read."""

    crawl_id: int
    page_id: int
    observations: FieldObservations


@dataclass(frozen=True, slots=True)
class SiteBaseline:
    """The usual figures of a site: its fields, and the numbers of good products of recent crawls,
    the newest first. Other sources of the pages confirm the fields in `agreeing`."""

    fields: Mapping[str, UsualFigures]
    products: Sequence[int]
    agreeing: frozenset[str] = frozenset()

    def baselines(self, tolerances: Tolerances) -> dict[str, FieldBaseline]:
        baselines = {}
        for name in sorted(self.fields.keys() | tolerances.floors.keys()):
            usual = self.fields.get(name, UsualFigures())
            baselines[name] = FieldBaseline(usual, quality.fill_threshold(name, usual, tolerances))
        return baselines


class FieldCounts:
    """A crawl's stored sums, and those that a settling transaction adds to them."""

    def __init__(self, row: sa.Row[Any]) -> None:
        self.stored = row
        self.records = 0
        self.found: Counter[str] = Counter()
        self.mistyped: Counter[str] = Counter()
        self.vanished: Counter[str] = Counter()
        self.strayed = 0
        # The keys name a field, a source, and whether they agree: `price jsonld yes`.
        self.votes: Counter[str] = Counter()

    def add_observations(self, observations: FieldObservations) -> None:
        self.records += observations.records
        self.found.update(observations.found)
        if observations.mistyped:
            self.mistyped.update(observations.mistyped)
        if observations.votes:
            self.votes.update(
                f"{vote.field} {vote.source} {'yes' if vote.agrees else 'no'}"
                for vote in observations.votes
            )

    @property
    def names(self) -> set[str]:
        """Every field that has had a value so far."""
        return set(self.stored.found) | set(self.found)

    def figures_of(self, name: str, distinct: int = 0, sampled: int = 0) -> FieldFigures:
        """Returns the figures of a field, including this group's."""
        row, fade = self.stored, FADES ** min(self.records, 1000)
        return FieldFigures(
            records=row.records + self.records,
            found=round(row.found.get(name, 0)) + self.found[name],
            mistyped=round(row.mistyped.get(name, 0)) + self.mistyped[name],
            distinct=distinct,
            sampled=sampled,
            vanished=round(row.vanished.get(name, 0)) + self.vanished[name],
            recent_records=row.recent_records * fade + self.records,
            recent_found=row.recent.get(name, 0.0) * fade + self.found[name],
        )

    def votes_of(self, name: str) -> Votes:
        votes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for key, number in self.stored.votes.items():
            field, source, agrees = key.rsplit(" ", 2)
            if field == name:
                votes[source][agrees == "no"] += round(number)
        return {source: (yes, no) for source, (yes, no) in votes.items()}

    def row_of(self, crawl_id: int) -> dict[str, Any]:
        return {
            "crawl_id": crawl_id,
            "records": self.records,
            "found": self._limit_fields(self.found),
            "mistyped": self._limit_fields(self.mistyped),
            "vanished": dict(self.vanished),
            "votes": dict(self.votes),
            "strayed": self.strayed,
        }

    def _limit_fields(self, counts: Counter[str]) -> dict[str, int]:
        counted = self.stored.found.keys() | self.stored.usual.keys()
        new = [name for name in counts if name not in counted]
        left_out = set(new[max(0, FIELDS_MAX - len(counted)) :])
        return {name: count for name, count in counts.items() if name not in left_out}


class FillRates:
    """What one settling transaction reads and counts of its crawls' fields."""

    def __init__(self, sums: Mapping[int, FieldCounts], pages: Sequence[ReadPage]) -> None:
        self._sums = sums
        self._pages = pages

    def add_vanished(self, counts: Mapping[int, Counter[str]]) -> None:
        """Adds how often a field vanished from a product, by crawl."""
        for crawl_id, names in counts.items():
            if crawl_id in self._sums:
                self._sums[crawl_id].vanished.update(names)

    def add_strayed(self, crawl_id: int, number: int) -> None:
        """Adds pages that gave another product than their own."""
        if number and crawl_id in self._sums:
            self._sums[crawl_id].strayed += number

    def store_counts(self, connection: sa.Connection) -> None:
        """Adds to the crawls' stored sums. Call it late: other transactions wait for these rows."""
        if not self._sums:
            return
        rows = [sums.row_of(crawl_id) for crawl_id, sums in sorted(self._sums.items())]
        connection.execute(COUNT, {"rows": dumps(rows), "fades": FADES})
        # Few pages have examples: see `scraper.worker.observations`.
        pages = [page for page in self._pages if page.observations.examples]
        if pages:
            data = _data_of(connection, [page.page_id for page in pages])
            rows = [
                _example_row(page, example, data.get(page.page_id, {}))
                for page in pages
                for example in page.observations.examples
            ]
            connection.execute(ADD_EXAMPLES, {"rows": dumps(rows)})


def read_fill_rates(connection: sa.Connection, pages: Iterable[ReadPage]) -> FillRates:
    """Reads the sums of the pages' crawls, and creates missing ones."""
    pages = list(pages)
    ids = sorted({page.crawl_id for page in pages})
    if not ids:
        return FillRates({}, [])
    stored = {row.crawl_id: row for row in connection.execute(SUMS, {"ids": ids})}
    if len(stored) < len(ids):
        for crawl_id in ids:
            if crawl_id not in stored:
                _begin_sums(connection, crawl_id)
        stored = {row.crawl_id: row for row in connection.execute(SUMS, {"ids": ids})}
    sums = {crawl_id: FieldCounts(stored[crawl_id]) for crawl_id in ids}
    for page in pages:
        sums[page.crawl_id].add_observations(page.observations)
    return FillRates(sums, pages)


def read_sums(connection: sa.Connection, crawl_id: int) -> FieldCounts:
    """Returns the sums of a crawl, and creates them if they are missing."""
    values = {"ids": [crawl_id]}
    row = connection.execute(SUMS, values).first()
    if row is None:
        _begin_sums(connection, crawl_id)
        row = connection.execute(SUMS, values).one()
    return FieldCounts(row)


def _begin_sums(connection: sa.Connection, crawl_id: int) -> None:
    """Creates the row of a crawl with the usual figures of its site, unless it exists."""
    query = sa.text("SELECT site_id, definition FROM crawls WHERE id = :id")
    row = connection.execute(query, {"id": crawl_id}).one()
    lines = read_baseline(connection, row.site_id, crawl_id).baselines(
        read_tolerances(row.definition)
    )
    usual = {name: baseline._asdict() for name, baseline in lines.items()}
    connection.execute(BEGIN, {"crawl_id": crawl_id, "usual": dumps(usual)})


def read_baseline(
    connection: sa.Connection, site_id: int, before: int, share: float | None = None
) -> SiteBaseline:
    """Returns the usual figures of a site before that crawl. `share` is the part of its good
    product pages that the crawl has read; None if that is not known yet."""
    values = {"site_id": site_id, "id": before, "searched": SEARCHED}
    usable = connection.execute(USABLE, values | {"records": 0}).all()
    read = [row for row in usable if row.records >= quality.FEW]
    if len(read) < len(usable) == SEARCHED:
        read = list(connection.execute(USABLE, values | {"records": quality.FEW}))
    shares = {row.id: row.records / max(1, row.products) for row in read or usable}
    figures: dict[str, list[FieldFigures]] = defaultdict(list)
    votes: dict[str, list[Votes]] = defaultdict(list)
    rows = connection.execute(
        PAST_FIELDS, {"ids": sorted(quality.comparable_crawls(shares, share))}
    )
    for row in rows.mappings():
        counted = dict(row)
        name = counted.pop("field")
        votes[name].append(counted.pop("votes"))
        figures[name].append(FieldFigures(**counted))
    usual = {name: quality.usual_figures(past) for name, past in figures.items()}
    agreeing = frozenset(name for name, past in votes.items() if sources_agree(*past))
    return SiteBaseline(usual, [row.products for row in usable], agreeing)


def _data_of(connection: sa.Connection, page_ids: list[int]) -> dict[int, dict[str, Any]]:
    query = sa.text("""
        SELECT page_id, CAST(data AS text) AS data FROM products WHERE page_id = ANY (:ids)""")
    return {
        row.page_id: parse_data(row.data) for row in connection.execute(query, {"ids": page_ids})
    }


def _example_row(page: ReadPage, example: Example, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an example with the value that the product had, and its surroundings on the page now,
    where a new selector should point."""
    value = data.get(example.field)
    plain = None if value is None or isinstance(value, bool | list | dict) else str(value)
    return {
        "crawl_id": page.crawl_id,
        "field": example.field,
        "url": example.url,
        "problem": example.problem,
        "excerpt": shorten_excerpt(example.excerpt, plain),
        "known": plain and plain[:200],
        "nowhere": plain is not None and is_absent(example.excerpt, plain, cut=example.cut),
    }

"""What a crawl's pages said of its fields: counted while they are settled, and what is done to a
product that would lose a value meanwhile.

One row a crawl (`crawl_quality`) holds the sums, so that a group of pages of a hundred crawls costs
a hundred short updates and not a thousand. It changes in the transaction that settles the pages:
what a lost lease has read is not counted, and nothing twice. The row is made with the crawl's first
page, together with what is usual, which stays the same until its end.

**A value is kept** where a page comes without a field that its product had, while nobody can tell
whether the field breaks (`policy.quality.guards`). What was kept is noted in `kept_values`; the
crawl's end (`stores.judgement`) takes the values that are really gone, and leaves the others.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper.domain import Example, FieldObservations, Status, filled
from scraper.infra.database import dumps
from scraper.rules import quality
from scraper.rules.quality import Figures, Tolerances, Usual
from scraper.settle.excerpts import shown
from scraper.settle.products import NewProduct, content_hash
from scraper.sites.quality import tolerances_of

# the final answers that were read
COUNTED = (Status.OK, Status.UNCHANGED, Status.INVALID)
# of a crawl: a Python function may yield any keys
FIELDS_MAX = 500
# a record's weight among the recent ones, once another one has come: fifty of them count
FADES = 0.98
# crawls that are looked at for what is usual
SEARCHED = 20

READ = sa.text("""
SELECT crawl_id, records, found, mistyped, kept, recent_records, recent, usual FROM crawl_quality
 WHERE crawl_id = ANY (:ids)
""")

BEGIN = sa.text("""
INSERT INTO crawl_quality (crawl_id, usual) VALUES (:crawl_id, CAST(:usual AS jsonb))
 ON CONFLICT DO NOTHING
""")


def _added(column: str, weight: str = "1") -> str:
    """The sums of two mappings of numbers. Most groups add nothing to most of them."""
    return f"""CASE WHEN i.{column} = '{{}}' AND '{weight}' = '1' THEN q.{column} ELSE (
        SELECT coalesce(jsonb_object_agg(key, n), '{{}}') FROM (
            SELECT key, sum(n) AS n FROM (
                SELECT key, CAST(value AS float8) * {weight} AS n FROM jsonb_each(q.{column})
                UNION ALL SELECT key, CAST(value AS float8) FROM jsonb_each(i.{column})) AS both_of
             GROUP BY key) AS summed) END"""


_FADED = f"power({FADES}, least(i.records, 1000))"
COUNT = sa.text(f"""
UPDATE crawl_quality q
   SET records = q.records + i.records, found = {_added("found")}, mistyped = {_added("mistyped")},
       kept = {_added("kept")}, recent_records = q.recent_records * {_FADED} + i.records,
       recent = {_added("found", _FADED).replace("q.found", "q.recent")}
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(crawl_id bigint, records int, found jsonb, mistyped jsonb, kept jsonb)
 WHERE q.crawl_id = i.crawl_id
""")

# Locked, so that what is put together with the new data is still what the upsert finds.
STORED = sa.text("""
SELECT p.id, p.site_id, p.external_id, p.page_id, CAST(p.data AS text) AS data, p.content_hash,
       EXISTS (SELECT FROM pages pg WHERE pg.id = p.page_id) AS owned
  FROM products p
  JOIN jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(site_id int, external_id text)
    ON i.site_id = p.site_id AND i.external_id = p.external_id
 ORDER BY p.id FOR UPDATE OF p
""")

KEEP = sa.text("""
INSERT INTO kept_values (crawl_id, product_id, fields, came)
SELECT crawl_id, product_id, fields, came
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(crawl_id bigint, product_id bigint, fields text[], came jsonb)
ON CONFLICT (crawl_id, product_id) DO UPDATE SET fields = excluded.fields, came = excluded.came
""")

ADD_EXAMPLES = sa.text("""
INSERT INTO crawl_examples (crawl_id, field, url, problem, excerpt, known)
SELECT crawl_id, field, url, problem, excerpt, known
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(crawl_id bigint, field text, url text, problem text, excerpt text, known text)
ON CONFLICT DO NOTHING
""")

# Crawls of a site that are comparable: whole passes that nobody has doubted, none before the last
# one that a person took as the new usual. Those that have read enough are looked for apart: pages
# that are fresh or answer 304 are not read, and a month of such crawls must not make anybody forget
# what was usual.
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

HISTORY = sa.text("""
SELECT field, records, found, mistyped, distinct_values, sampled, kept FROM crawl_fields
 WHERE crawl_id = ANY (:ids) ORDER BY crawl_id DESC
""")


class Known(NamedTuple):
    """What is usual of a field, and the fill rate below which it breaks."""

    usual: Usual
    line: float


class Read(NamedTuple):
    """A settled page that was read."""

    crawl_id: int
    page_id: int
    reading: FieldObservations


@dataclass(frozen=True, slots=True)
class History:
    """What is usual at a site: its fields, and the numbers of good products of recent crawls, the
    newest first."""

    fields: Mapping[str, Usual]
    products: Sequence[int]

    def lines(self, tolerances: Tolerances) -> dict[str, Known]:
        names = self.fields.keys() | tolerances.floors.keys()
        usual = {name: self.fields.get(name, Usual()) for name in names}
        return {
            name: Known(usual[name], quality.line_of(name, usual[name], tolerances))
            for name in sorted(names)
        }


class Tally:
    """One crawl's sums as a settling transaction finds them, with its own group's added."""

    def __init__(self, row: sa.Row[Any]) -> None:
        self.stored = row
        self.records = 0
        self.found: Counter[str] = Counter()
        self.mistyped: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()

    def add(self, reading: FieldObservations) -> None:
        self.records += reading.records
        self.found.update(reading.found)
        if reading.mistyped:
            self.mistyped.update(reading.mistyped)

    @property
    def names(self) -> set[str]:
        """Every field that was found so far."""
        return set(self.stored.found) | set(self.found)

    def figures(self, name: str, distinct: int = 0, sampled: int = 0) -> Figures:
        """Of a field, with this group's."""
        row, found = self.stored, self.found[name]
        fade = FADES ** min(self.records, 1000)
        return Figures(
            records=row.records + self.records,
            found=round(row.found.get(name, 0)) + found,
            mistyped=round(row.mistyped.get(name, 0)) + self.mistyped[name],
            distinct=distinct,
            sampled=sampled,
            kept=round(row.kept.get(name, 0)) + self.kept[name],
            recent_records=row.recent_records * fade + self.records,
            recent_found=row.recent.get(name, 0.0) * fade + found,
        )

    @property
    def guarded(self) -> set[str]:
        """The fields that no product may lose now. Of those that each record of this group has,
        nobody asks."""
        return {
            name
            for name, known in self.stored.usual.items()
            if self.found[name] < self.records
            and quality.guards(
                self.figures(name), known["line"], known["usual"]["fill"] or 0.0, self._group(name)
            )
        }

    def _group(self, name: str) -> tuple[int, int]:
        return self.found[name], self.records

    def row(self, crawl_id: int) -> dict[str, Any]:
        return {
            "crawl_id": crawl_id,
            "records": self.records,
            "found": self._bounded(self.found),
            "mistyped": self._bounded(self.mistyped),
            "kept": dict(self.kept),
        }

    def _bounded(self, counts: Counter[str]) -> dict[str, int]:
        known = self.stored.found.keys() | self.stored.usual.keys()
        room = FIELDS_MAX - len(known)
        chosen = {}
        for name, count in counts.items():
            if name not in known:
                room -= 1
                if room < 0:
                    continue
            chosen[name] = count
        return chosen


class FillRates:
    """What one settling transaction reads and counts of its crawls' fields."""

    def __init__(self, tallies: Mapping[int, Tally], pages: Sequence[Read]) -> None:
        self._tallies = tallies
        self._pages = pages
        # pages whose products are stored otherwise than they were read
        self.keeping: set[int] = set()

    def guarded(self, connection: sa.Connection, products: list[NewProduct]) -> list[NewProduct]:
        """The products to be stored: those that would lose a value they must not lose have it
        still."""
        fields = {crawl_id: tally.guarded for crawl_id, tally in self._tallies.items()}
        if not any(fields.values()):
            return products
        readings = {page.page_id: page.reading for page in self._pages}
        losing: dict[tuple[int, str], list[tuple[int, NewProduct, list[str]]]] = defaultdict(list)
        for place, product in enumerate(products):
            guarded, reading = fields.get(product.crawl_id), readings.get(product.page_id)
            if guarded and reading is not None:
                found = reading.found if reading.records == 1 else filled(product.data)
                missing = sorted(guarded.difference(found))
                if missing:
                    losing[product.site_id, product.external_id].append((place, product, missing))
        if not losing:
            return products
        products, noted = list(products), []
        keys = [{"site_id": site_id, "external_id": external_id} for site_id, external_id in losing]
        for row in connection.execute(STORED, {"rows": dumps(keys)}):
            stored = parsed(row.data)
            for place, product, missing in losing[row.site_id, row.external_id]:
                lost = [name for name in missing if loses(name, stored, product.data)]
                if not lost:
                    continue
                products[place] = _keeping(product, stored, row.content_hash, lost)
                self.keeping.add(product.page_id)
                if row.owned and row.page_id != product.page_id:
                    # a page that shares the id: not its value to lose
                    continue
                came = {
                    key: product.data[key]
                    for name in lost
                    for key in keys_of(name)
                    if key in product.data
                }
                noted.append(
                    {
                        "crawl_id": product.crawl_id,
                        "product_id": row.id,
                        "fields": lost,
                        "came": came,
                    }
                )
                self._tallies[product.crawl_id].kept.update(lost)
        if noted:
            connection.execute(KEEP, {"rows": dumps(noted)})
        return products

    def count(self, connection: sa.Connection) -> None:
        """Adds to the crawls' sums, late in the transaction: others queue for these rows."""
        if not self._tallies:
            return
        rows = [tally.row(crawl_id) for crawl_id, tally in sorted(self._tallies.items())]
        connection.execute(COUNT, {"rows": dumps(rows)})
        # few: see `scraper.worker.observations`
        showing = [page for page in self._pages if page.reading.examples]
        if showing:
            data = _data_of(connection, [page.page_id for page in showing])
            rows = [
                _example(page, one, data.get(page.page_id, {}))
                for page in showing
                for one in page.reading.examples
            ]
            connection.execute(ADD_EXAMPLES, {"rows": dumps(rows)})


def watch(connection: sa.Connection, pages: Iterable[Read]) -> FillRates:
    """Reads the sums of the pages' crawls, which are made where there are none yet."""
    pages = list(pages)
    ids = sorted({page.crawl_id for page in pages})
    if not ids:
        return FillRates({}, [])
    found = {row.crawl_id: row for row in connection.execute(READ, {"ids": ids})}
    if len(found) < len(ids):
        for crawl_id in ids:
            if crawl_id not in found:
                begin(connection, crawl_id)
        found = {row.crawl_id: row for row in connection.execute(READ, {"ids": ids})}
    tallies = {crawl_id: Tally(found[crawl_id]) for crawl_id in ids}
    for page in pages:
        tallies[page.crawl_id].add(page.reading)
    return FillRates(tallies, pages)


def tally(connection: sa.Connection, crawl_id: int) -> Tally:
    """The sums of a crawl that has begun."""
    return Tally(connection.execute(READ, {"ids": [crawl_id]}).one())


def begin(connection: sa.Connection, crawl_id: int) -> None:
    """Makes the row of a crawl, with what is usual at its site. One that is there stays."""
    row = connection.execute(
        sa.text("SELECT site_id, definition FROM crawls WHERE id = :id"), {"id": crawl_id}
    ).one()
    lines = history(connection, row.site_id, crawl_id).lines(tolerances_of(row.definition))
    usual = {name: {"usual": known.usual, "line": known.line} for name, known in lines.items()}
    connection.execute(BEGIN, {"crawl_id": crawl_id, "usual": dumps(usual)})


def history(
    connection: sa.Connection, site_id: int, before: int, share: float | None = None
) -> History:
    """What is usual at a site, for a crawl with that id. `share`: how much of its good product
    pages it has read; None: nobody knows yet."""
    values = {"site_id": site_id, "id": before, "searched": SEARCHED}
    usable = connection.execute(USABLE, values | {"records": 0}).all()
    read = connection.execute(USABLE, values | {"records": quality.FEW}).all()
    shares = {row.id: row.records / max(1, row.products) for row in read or usable}
    figures: dict[str, list[Figures]] = defaultdict(list)
    for row in connection.execute(HISTORY, {"ids": sorted(quality.alike(shares, share))}):
        figures[row.field].append(
            Figures(
                row.records, row.found, row.mistyped, row.distinct_values, row.sampled, row.kept
            )
        )
    usual = {name: quality.usual_of(each) for name, each in figures.items()}
    return History(usual, [row.products for row in usable])


def parsed(text: str) -> dict[str, Any]:
    """A product's data as it was stored, every digit."""
    data: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return data


def keys_of(name: str) -> tuple[str, str]:
    """The keys that a field's value may have: a price has two."""
    return name, f"{name}_currency"


def loses(name: str, stored: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Whether a stored value would be replaced by what stands for none: nothing, or another value
    that was not found."""
    return bool(filled({name: stored.get(name)})) and stored[name] != data.get(name)


def _keeping(
    product: NewProduct, stored: Mapping[str, Any], stored_hash: Any, lost: list[str]
) -> NewProduct:
    kept = {key: stored[key] for name in lost for key in keys_of(name) if key in stored}
    data = {**product.data, **kept}
    return replace(
        product, data=data, content_hash=stored_hash if data == stored else content_hash(data)
    )


def _data_of(connection: sa.Connection, page_ids: list[int]) -> dict[int, dict[str, Any]]:
    query = sa.text(
        "SELECT page_id, CAST(data AS text) AS data FROM products WHERE page_id = ANY (:ids)"
    )
    return {row.page_id: parsed(row.data) for row in connection.execute(query, {"ids": page_ids})}


def _example(page: Read, example: Example, data: Mapping[str, Any]) -> dict[str, Any]:
    """With the value that the product had, and what surrounds it on the page now: there the new
    selector points."""
    value = data.get(example.field)
    known = None if value is None or isinstance(value, bool | list | dict) else str(value)
    return {
        "crawl_id": page.crawl_id,
        "field": example.field,
        "url": example.url,
        "problem": example.problem,
        "excerpt": shown(example.excerpt, known),
        "known": known and known[:200],
    }

"""A report on a crawl's data, for `scraper report`, alerts, Flower and metrics. Changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.errors import NotFoundError
from scraper.frontier.progress import read_coverage
from scraper.plugin import Coverage
from scraper.quality.block_pages import explain_examples
from scraper.results import fill_rates, held_products
from scraper.results.judgement.plausibility import Votes, why_held
from scraper.sites.definition import Site

# The columns, except the definition, are the fields of a `Report`.
CRAWL = sa.text("""
SELECT c.id AS crawl_id, s.name AS site, c.status, c.trigger, c.suspect, c.note, c.judged_at,
       c.accepted_at, c.product_done, c.fresh, coalesce(q.records, 0) AS records, q.products,
       q.usual_products, coalesce(c.reasons, '[]') AS reasons, c.definition
  FROM crawls c JOIN sites s ON s.id = c.site_id
  LEFT JOIN crawl_quality q ON q.crawl_id = c.id WHERE c.id = :id
""")

# Held values, with an example of each reason. A price is followed by its currency.
HELD = sa.text("""
SELECT DISTINCT ON (h.field, h.reason) h.field, h.reason, p.url,
       nullif(left(concat_ws(' ', p.data ->> h.field, p.data ->> (h.field || '_currency')), 200),
              '') AS known,
       nullif(left(concat_ws(' ', h.value ->> h.field, h.value ->> (h.field || '_currency')), 200),
              '') AS value,
       count(*) OVER (PARTITION BY h.field, h.reason) AS number
  FROM held_values h JOIN products p ON p.id = h.product_id
 WHERE h.crawl_id = :id AND h.reason IS NOT NULL ORDER BY h.field, h.reason, h.product_id
""")

# Products that wait as a whole, in the same form.
HELD_PRODUCTS = sa.text("""
SELECT NULL AS field, reason, min(url) AS url, NULL AS known, NULL AS value, count(*) AS number
  FROM held_products
 WHERE crawl_id = :id AND reason IS NOT NULL GROUP BY reason ORDER BY reason
""")

# The columns are the fields of a `FieldReport`.
FIELDS = sa.text("""
SELECT field, records, found, mistyped, vanished, distinct_values AS distinct, sampled, usual_fill,
       usual_mistyped, usual_distinct, line, breach, compared, changed, held, votes
  FROM crawl_fields WHERE crawl_id = :id ORDER BY field
""")

EXAMPLES = sa.text("""
SELECT field, url, problem, excerpt, known FROM crawl_examples WHERE crawl_id = :id
        ORDER BY field, seen_at DESC, url
""")


# Another source that disagrees on at least this many pages of the sample is reported.
CONTRADICTED = 3
# Kinds of reasons for which values that vanished wait for a person.
LOSSES = ("fill", "floor", "late", "mistyped")
SOURCES = {"jsonld": "JSON-LD", "microdata": "microdata", "rdfa": "RDFa", "meta": "a meta tag"}


@dataclass(frozen=True, slots=True)
class FieldReport:
    """One field of a crawl, compared with what was usual. `breach` says what is wrong with it: None
    if nothing is, or the crawl still runs. `held` counts values that wait. `votes` are those of
    other sources on a sample of pages."""

    field: str
    records: int
    found: int
    mistyped: int
    vanished: int
    distinct: int
    sampled: int
    usual_fill: float | None
    usual_mistyped: float
    usual_distinct: float
    line: float
    breach: str | None = None
    compared: int = 0
    changed: int = 0
    held: int = 0
    votes: Votes | None = None

    @property
    def contradicted(self) -> dict[str, tuple[int, int]]:
        """The other sources that mostly disagree, with how often each agrees and disagrees."""
        return {
            source: (yes, no)
            for source, (yes, no) in (self.votes or {}).items()
            if no >= CONTRADICTED and no > yes
        }

    @property
    def fill(self) -> float | None:
        return self.found / self.records if self.records else None


@dataclass(frozen=True, slots=True)
class HeldReport:
    """How many values of a field are held for one reason, and an example: its page, the product's
    value (`known`) and the page's value (None: no value). `field` is None for new products."""

    field: str | None
    reason: str
    number: int
    url: str
    known: str | None
    value: str | None

    @property
    def why(self) -> str:
        """The reason in words."""
        if self.field is None:
            return held_products.REASONS[self.reason]
        return why_held(self.reason)


@dataclass(frozen=True, slots=True)
class Report:
    """The report on one crawl. `reasons` are those of `crawls.reasons`, `examples` are by field,
    `products` is None while it runs, `product_done` counts its product pages, `fresh` those
    of them that were not due, and `held` is what the crawl still holds."""

    crawl_id: int
    site: str
    status: str
    trigger: str
    suspect: bool
    note: str | None
    judged_at: datetime | None
    accepted_at: datetime | None
    product_done: int
    fresh: int
    records: int
    products: int | None
    usual_products: float | None
    reasons: list[dict[str, Any]]
    fields: list[FieldReport]
    examples: Mapping[str, list[dict[str, Any]]]
    selectors: Mapping[str, str] = field(default_factory=dict)
    held: Sequence[HeldReport] = ()
    coverage: Coverage | None = None

    def selector(self, name: str) -> str | None:
        """Returns the field's selector in the crawl's definition."""
        return self.selectors.get(name)

    @property
    def suspicions(self) -> list[dict[str, Any]]:
        """The reasons that make the crawl suspect; the others are notices."""
        return [reason for reason in self.reasons if reason.get("level") != "notice"]

    @property
    def answers(self) -> list[str]:
        """What a suspect crawl withholds, why, and what happens if the operator does nothing."""
        held = [f"{row.number:,} {row.field or 'new products'}" for row in self.held]
        lost = any(reason["what"] in LOSSES for reason in self.suspicions)
        wait = "vanished values stay until you accept; " if lost else ""
        return [
            f"withheld: {', '.join([*held, 'all delistings'])}",
            f"why: {self.suspicions[0]['text']}",
            f"if you do nothing: {wait}the next crawl publishes what it reads again",
        ]

    @property
    def contradictions(self) -> list[str]:
        """A sentence for each field that another source mostly contradicts."""
        return [
            f"{figures.field}: {SOURCES[source]} disagrees with "
            f"{self.selector(figures.field) or 'the definition'} on {against:,} of "
            f"{agreeing + against:,} pages that were checked"
            for figures in self.fields
            for source, (agreeing, against) in figures.contradicted.items()
        ]

    @property
    def block(self) -> str:
        """The reason why pages that lack a field look like a captcha; "" if they do not."""
        return _explain_block(self.examples)

    @property
    def products_phrase(self) -> str:
        good = "unknown" if self.products is None else f"{self.products:,}"
        usual = "" if self.usual_products is None else f", usually {self.usual_products:,.0f}"
        return f"{good} good products{usual}"


def read_fields(connection: sa.Connection, crawl_id: int) -> list[FieldReport]:
    """Returns the figures of a crawl's fields: as judged, or the current ones of a running crawl.
    Returns an empty list if nothing was counted."""
    rows = connection.execute(FIELDS, {"id": crawl_id}).mappings()
    return [FieldReport(**row) for row in rows] or _running_fields(connection, crawl_id)


def _running_fields(connection: sa.Connection, crawl_id: int) -> list[FieldReport]:
    row = connection.execute(fill_rates.SUMS, {"ids": [crawl_id]}).first()
    if row is None:
        return []
    counts, shown = fill_rates.FieldCounts(row), []
    for name in sorted(counts.names | row.usual.keys()):
        expected = row.usual.get(name, {"usual": {}, "line": 0.0})
        usual, now = expected["usual"], counts.figures_of(name)
        shown.append(
            FieldReport(
                field=name,
                records=now.records,
                found=now.found,
                mistyped=now.mistyped,
                vanished=now.vanished,
                distinct=0,
                sampled=0,
                usual_fill=usual.get("fill"),
                usual_mistyped=usual.get("mistyped", 0.0),
                usual_distinct=usual.get("distinct", 0.0),
                line=expected["line"],
            )
        )
    return shown


def read_report(connection: sa.Connection, crawl_id: int) -> Report:
    """Reads the report on a crawl. Raises `NotFoundError`."""
    row = connection.execute(CRAWL, {"id": crawl_id}).mappings().first()
    if row is None:
        raise NotFoundError(f"no crawl has the id {crawl_id}; `scraper status` shows ids")
    values = dict(row)
    selectors = _selectors_of(values.pop("definition"))
    held = [
        HeldReport(**row)
        for statement in (HELD, HELD_PRODUCTS)
        for row in connection.execute(statement, {"id": crawl_id}).mappings()
    ]
    return Report(
        **values,
        fields=read_fields(connection, crawl_id),
        examples=_read_examples(connection, crawl_id),
        selectors=selectors,
        held=held,
        coverage=read_coverage(connection, [crawl_id]).get(crawl_id),
    )


def read_block(connection: sa.Connection, crawl_id: int) -> str:
    """Returns why a crawl's pages look like a captcha or block; "" if they do not."""
    return _explain_block(_read_examples(connection, crawl_id))


def _explain_block(examples: Mapping[str, list[dict[str, Any]]]) -> str:
    excerpts = {name: [row["excerpt"] for row in rows] for name, rows in examples.items()}
    return explain_examples(excerpts)


def _read_examples(connection: sa.Connection, crawl_id: int) -> dict[str, list[dict[str, Any]]]:
    """Returns the pages on which each field was not found, by field."""
    examples: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for example in connection.execute(EXAMPLES, {"id": crawl_id}).mappings():
        shown = dict(example)
        examples[shown.pop("field")].append(shown)
    return dict(examples)


def resolve_crawl(connection: sa.Connection, word: str) -> int:
    """Returns the id of a crawl that is named by its id or its site. Raises `NotFoundError`."""
    is_id = word.isascii() and word.isdecimal() and len(word) < 19
    return int(word) if is_id else newest_crawl(connection, word)


def newest_crawl(connection: sa.Connection, site: str) -> int:
    """Returns the id of a site's newest crawl that has begun. Raises `NotFoundError`."""
    query = sa.text("""
        SELECT c.id FROM crawls c JOIN sites s ON s.id = c.site_id
         WHERE s.name = :site AND c.started_at IS NOT NULL ORDER BY c.id DESC LIMIT 1""")
    crawl_id = connection.execute(query, {"site": site}).scalar()
    if crawl_id is None:
        raise NotFoundError(
            f"{site!r} is not a site that was crawled; `scraper status` shows crawls and sites"
        )
    return int(crawl_id)


def as_json(report: Report) -> dict[str, Any]:
    """Returns what `scraper report --json` prints: each field with its selector, fill rate and
    examples."""
    values = asdict(report)
    values["crawl"] = values.pop("crawl_id")
    examples, selectors = values.pop("examples"), values.pop("selectors")
    for shown, field_report in zip(values["fields"], report.fields, strict=True):
        shown["fill"] = field_report.fill
        shown["selector"] = selectors.get(field_report.field)
        shown["examples"] = examples.get(field_report.field, [])
    return values


def _selectors_of(definition: Mapping[str, Any]) -> dict[str, str]:
    try:
        site = Site.model_validate(definition)
    except ValidationError:  # stored by another version
        return {}
    return {
        name: " or ".join(reading.described for reading in spec.readings)
        for name, spec in site.product.all_fields.items()
    }

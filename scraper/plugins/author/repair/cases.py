"""The pages that prove a source: a page of today, the known values of its product, and the recorded
page that they were read from. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scraper.domain import Fetched, as_json
from scraper.extract.document import Document
from scraper.extract.items.reader import ItemsReader
from scraper.extract.sources import SELECTOR_ERRORS, compile_source
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.trial import PATIENT, field_reader
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSpec

# Of a page with several products, this many serve as cases.
ITEMS_LOOKED_AT = 4
CURRENCY = "_currency"


@dataclass(slots=True)
class RepairCase:
    """`expected`: the known values. `now`: the page of today. `old`: the recorded page, if any."""

    expected: dict[str, Any]
    now: Document
    old: Document | None = None
    sample: ProductSample = field(init=False)

    def __post_init__(self) -> None:
        self.sample = ProductSample(self.now, None)


@dataclass(frozen=True, slots=True)
class ValueCount:
    """Of `pages` with a known value: how many show it (`right`), and how many another value
    (`wrong`)."""

    right: int
    wrong: int
    pages: int

    def __str__(self) -> str:
        return f"{self.right} of {self.pages}"

    @property
    def right_share(self) -> float:
        return self.right / max(1, self.pages)

    @property
    def wrong_share(self) -> float:
        return self.wrong / max(1, self.pages)


def make_case(
    expected: dict[str, Any], asked: str, now: Fetched, old: Fetched | None = None
) -> RepairCase:
    """`asked`: the URL that both pages were requested by."""
    return RepairCase(
        json.loads(as_json(expected)),
        Document(now, asked, PATIENT),
        None if old is None else Document(old, asked, PATIENT),
    )


def make_item_cases(
    site: Site, rows: Mapping[str, dict[str, Any]], asked: str, now: Fetched, old: Fetched | None
) -> list[RepairCase]:
    """Returns cases for some products of one page, each with its part of the page. `rows`: the
    products by their ids."""
    reader = ItemsReader(site.product, site.url_rules)
    pages = [None if page is None else Document(page, asked, PATIENT) for page in (now, old)]
    cases = []
    for external_id in list(rows)[:: max(1, len(rows) // ITEMS_LOOKED_AT)]:
        part, before = (page and reader.find_item(page, external_id) for page in pages)
        if part is not None:
            cases.append(RepairCase(json.loads(as_json(rows[external_id])), part, before))
    return cases


def read_values(
    name: str,
    spec: FieldSpec,
    cases: Sequence[RepairCase],
    *,
    old: bool = False,
    wrong_max: int | None = None,
) -> list[Any]:
    """Returns the field's value on each page. Stops after more than `wrong_max` wrong values."""
    reader = field_reader(name, spec)
    values: list[Any] = []
    wrong = 0
    for case in cases:
        document = case.old if old else case.now
        assert document is not None
        data = json.loads(as_json(reader(document)[0]))
        value, currency = data.get(name), f"{name}{CURRENCY}"
        if value == case.expected.get(name) and data.get(currency) != case.expected.get(currency):
            # An amount in another currency, or without one, is another price.
            value = None
        if old and spec.when is not None and not read_texts(spec, document):
            # A page without the element does not say "no".
            value = None
        values.append(value)
        wrong += value != case.expected.get(name)
        if wrong_max is not None and wrong > wrong_max:
            break
    return values


def count_values(name: str, cases: Sequence[RepairCase], values: Sequence[Any]) -> ValueCount:
    """Counts right and wrong values. A value where none is known is wrong."""
    expected_values = [case.expected.get(name) for case in cases]
    pairs = list(zip(expected_values, values, strict=False))
    return ValueCount(
        sum(expected is not None and value == expected for expected, value in pairs),
        sum(value is not None and value != expected for expected, value in pairs),
        sum(expected is not None for expected in expected_values),
    )


def read_texts(spec: FieldSpec, document: Document) -> list[str]:
    """Returns the first match of each source, before it becomes a value."""
    texts: list[str] = []
    for reading in spec.readings:
        try:
            texts += compile_source(reading)(document, False)[:1]
        except SELECTOR_ERRORS:
            continue
    return texts

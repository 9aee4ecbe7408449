"""What a definition gives on one page, field by field: the value, the source that gave it, what the
other sources of the field would give, and what is wrong. What a selector alone matches. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from scraper.domain import Fetched, Kind
from scraper.extract.bounds import ReadLimits
from scraper.extract.document import Document
from scraper.extract.extractor import compile_site
from scraper.extract.field_reader import FieldReader
from scraper.extract.items.reader import ItemsReader
from scraper.extract.sources import compile_source
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSource, FieldSpec
from scraper.sites.grammar.sources import SOURCES, Source

ReadField = Callable[[Document], tuple[dict[str, Any], list[str]]]
FUNCTION = "function"
# Somebody waits at a terminal, and each source of each field is read by itself.
PATIENT = ReadLimits(300.0, isolated=True)
_KEYED = re.compile(rf"({'|'.join(SOURCES)}):\s*(.+)", re.DOTALL)
# Where a CSS selector may be cut: before a descendant, and before a class, id or attribute.
_CUTS = re.compile(r"\s*[>+~]\s*|\s+|(?=[.#\[:])")


@dataclass(frozen=True, slots=True)
class Rival:
    """A further source of a field, and what it gives here."""

    source: str
    value: Any


@dataclass(frozen=True, slots=True)
class FieldTrial:
    """`source` is empty where no source gave the value: it is None, or the default."""

    name: str
    value: Any
    source: str
    rivals: tuple[Rival, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemTrial:
    """A product of a page with several, and what it has of its own."""

    external_id: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PageTrial:
    """`complete`: a crawl would store it. `external_id`: None where the page gives no product. Of
    several, `items`, it is the one whose fields are shown. `gone`: the shop sells it no
    longer."""

    url: str
    external_id: str | None
    complete: bool
    fields: tuple[FieldTrial, ...] = ()
    problems: tuple[str, ...] = ()
    items: tuple[ItemTrial, ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True)
class ListingTrial:
    url: str
    products: tuple[str, ...] = ()
    listings: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())


def try_listing(
    site: Site, page: Fetched, page_url: str, allowed: tuple[str, ...], kind: Kind = Kind.LISTING
) -> ListingTrial:
    """The links that a listing page or sitemap gives. Raises `FunctionFailed`."""
    extracted = compile_site(site, allowed).extract(kind, page, page_url=page_url, depth=0)
    products = tuple(link.url for link in extracted.links if link.kind is Kind.PRODUCT)
    listings = tuple(link.url for link in extracted.links if link.kind is not Kind.PRODUCT)
    return ListingTrial(page.url, products, listings, tuple(extracted.problems))


def try_product(
    site: Site,
    page: Fetched,
    page_url: str,
    allowed: tuple[str, ...],
    external_id: str | None = None,
) -> PageTrial:
    """What a crawl would store of the page, and of several products how the first one is read, or
    that of the id. Raises `FunctionFailed`."""
    extracted = compile_site(site, allowed).extract(Kind.PRODUCT, page, page_url=page_url, depth=1)
    ids = [product.external_id for product in extracted.products]
    shown = external_id if external_id in ids else ids[0] if ids else None
    if site.product.function is not None:
        fields = tuple(
            FieldTrial(name, value, FUNCTION)
            for product in extracted.products[:1]
            for name, value in product.data.items()
        )
    else:
        document = Document(page, page_url, PATIENT)
        item = _item(site, document, shown)
        own = site.product.own_fields if item else {}
        fields = tuple(
            trial
            for name, spec in {**site.product.fields, **own}.items()
            for trial in _try_field(name, spec, item if item and name in own else document)
        )
    named = site.product.own_fields
    items = [
        ItemTrial(
            product.external_id,
            {key: value for key, value in product.data.items() if _field_of(key) in named},
        )
        for product in extracted.products
        if extracted.items is not None and named
    ]
    return PageTrial(
        page.url,
        shown,
        extracted.complete,
        fields,
        tuple(problem for problem in extracted.problems if not _is_of(problem, fields)),
        tuple(items),
    )


def _item(site: Site, document: Document, external_id: str | None) -> Document | None:
    """The part of the page that the product is read from; None where that is the page."""
    if site.product.items is None:
        return None
    return ItemsReader(site.product, site.url_rules).find(document, external_id)


def _field_of(key: str) -> str:
    return key.removesuffix("_currency")


def _is_of(problem: str, fields: Iterable[FieldTrial]) -> bool:
    """Whether the problem is shown with its field."""
    return any(problem in trial.problems for trial in fields)


def _try_field(name: str, spec: FieldSpec, document: Document) -> list[FieldTrial]:
    """A row for each key that the field gives: a price has its currency beside it."""
    value, problems = field_reader(name, spec)(document)
    source, rivals = "", []
    for reading in spec.readings:
        alone, _ = field_reader(name, _alone(spec, reading))(document)
        if name not in alone:
            continue
        if not source:
            source = reading.described
        else:
            rivals.append(Rival(reading.described, alone[name]))
    rows = [FieldTrial(name, value.get(name), source, tuple(rivals), tuple(problems))]
    rows += [FieldTrial(key, value[key], source) for key in value if key != name]
    return rows


def _alone(spec: FieldSpec, reading: FieldSource) -> FieldSpec:
    """The field with this source alone, and nothing that stands in for it."""
    options = {key: getattr(reading, key) for key in FieldSource.model_fields}
    return spec.model_copy(update={**options, "any": (), "default": None, "required": True})


def field_reader(name: str, spec: FieldSpec) -> ReadField:
    """From a page to the field's keys and problems, by the reader that crawls use."""
    reader = FieldReader(name, spec)

    def read(document: Document) -> tuple[dict[str, Any], list[str]]:
        data: dict[str, Any] = {}
        problems: list[str] = []
        reader.read(document, data, problems, [], [])
        return data, problems

    return read


@dataclass(frozen=True, slots=True)
class Matches:
    url: str
    source: str
    matches: tuple[str, ...]
    nearest: str | None = None


def source_of_text(text: str) -> Source:
    """CSS; XPath where it begins as that does; or `key:value` with a source's key. Raises
    pydantic's ValidationError."""
    keyed = _KEYED.fullmatch(text)
    if keyed is not None and keyed[1] != "url":
        return Source.model_validate({keyed[1]: keyed[2]})
    key = "xpath" if text.startswith(("/", "(", "./")) else "css"
    return Source.model_validate({key: text})


def select(source: Source, page: Fetched) -> Matches:
    document = Document(page, page.url)
    matches = tuple(compile_source(source)(document, True))
    nearest = None
    if not matches and source.css is not None:
        nearest = _nearest(source.css, document)
    return Matches(page.url, source.described, matches, nearest)


def _nearest(css: str, document: Document) -> str | None:
    """The longest beginning of the selector that matches something."""
    for end in sorted({match.start() for match in _CUTS.finditer(css)}, reverse=True):
        try:
            shorter = Source.model_validate({"css": css[:end].strip()})
        except ValueError:
            continue
        if compile_source(shorter)(document, False):
            return shorter.css
    return None

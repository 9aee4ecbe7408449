"""What a definition gives on one page: each field's value, the source that gave it, what its other
sources would give, and its problems. Also what a selector alone matches. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scraper.domain import Extracted, Fetched, Kind
from scraper.extract.bounds import ReadLimits
from scraper.extract.document import Document
from scraper.extract.extractor import compile_site
from scraper.extract.field_reader import FieldReader
from scraper.extract.items.reader import ItemsReader
from scraper.extract.sources import compile_source
from scraper.plugins.author.discovery.block_pages import explain_captcha
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSource, FieldSpec
from scraper.sites.grammar.sources import SOURCES, Source

ReadField = Callable[[Document], tuple[dict[str, Any], list[str]]]
FUNCTION = "function"
# A person waits at a terminal, and each source of each field is read by itself.
PATIENT = ReadLimits(300.0, isolated=True)
_KEYED = re.compile(rf"({'|'.join(SOURCES)}):\s*(.+)", re.DOTALL)
# Where a CSS selector can be cut: before a descendant, and before a class, id or attribute.
_CUTS = re.compile(r"\s*[>+~]\s*|\s+|(?=[.#\[:])")


@dataclass(frozen=True, slots=True)
class Rival:
    """Another source of a field, and what it gives on this page."""

    source: str
    value: Any


@dataclass(frozen=True, slots=True)
class FieldTrial:
    """A field's value. `source` is empty if no source gave it: it is None, or the default."""

    name: str
    value: Any
    source: str
    rivals: tuple[Rival, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemTrial:
    """One product of a page with several, and its own fields."""

    external_id: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PageTrial:
    """A product page. `complete`: a crawl would store it. `external_id`: the product whose fields
    are shown; None if the page gives none. `gone`: the page no longer exists."""

    url: str
    external_id: str | None
    complete: bool
    fields: tuple[FieldTrial, ...] = ()
    problems: tuple[str, ...] = ()
    items: tuple[ItemTrial, ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True)
class ListingTrial:
    """A listing page or sitemap, with its links to products and to further listings."""

    url: str
    products: tuple[str, ...] = ()
    listings: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())


def try_listing(
    site: Site, page: Fetched, page_url: str, allowed: tuple[str, ...], kind: Kind = Kind.LISTING
) -> ListingTrial:
    """Returns the links of a listing page or sitemap. Raises `FunctionFailed` and `TooSlow`."""
    extracted = compile_site(site, allowed).extract(kind, page, page_url=page_url, depth=0)
    products = tuple(link.url for link in extracted.links if link.kind is Kind.PRODUCT)
    listings = tuple(link.url for link in extracted.links if link.kind is not Kind.PRODUCT)
    captcha = "" if extracted.links else explain_captcha(page)
    problems = (captcha,) if captcha else tuple(extracted.problems)
    return ListingTrial(page.url, products, listings, problems)


def try_product(
    site: Site,
    page: Fetched,
    page_url: str,
    allowed: tuple[str, ...],
    external_id: str | None = None,
) -> PageTrial:
    """Returns what a crawl would store of the page, with the fields of the first product, or of the
    one with `external_id`. Raises `FunctionFailed` and `TooSlow`."""
    extracted = compile_site(site, allowed).extract(Kind.PRODUCT, page, page_url=page_url, depth=1)
    captcha = "" if extracted.complete else explain_captcha(page)
    if captcha:
        return PageTrial(page.url, None, False, problems=(captcha,))
    ids = [product.external_id for product in extracted.products]
    shown = external_id if external_id in ids else ids[0] if ids else None
    if site.product.function is not None:
        data = next(
            (product.data for product in extracted.products if product.external_id == shown), {}
        )
        fields = tuple(FieldTrial(name, value, FUNCTION) for name, value in data.items())
    else:
        fields = _try_fields(site, Document(page, page_url, PATIENT), shown)
    of_fields = {problem for trial in fields for problem in trial.problems}
    return PageTrial(
        page.url,
        shown,
        extracted.complete,
        fields,
        tuple(problem for problem in extracted.problems if problem not in of_fields),
        _list_items(site, extracted),
    )


def _try_fields(site: Site, document: Document, external_id: str | None) -> tuple[FieldTrial, ...]:
    """Reads each field from the page, or from the part with the product."""
    item = None
    if site.product.items is not None:
        item = ItemsReader(site.product, site.url_rules).find_item(document, external_id)
    own = site.product.own_fields if item else {}
    return tuple(
        trial
        for name, spec in {**site.product.fields, **own}.items()
        for trial in _try_field(name, spec, item if item and name in own else document)
    )


def _list_items(site: Site, extracted: Extracted) -> tuple[ItemTrial, ...]:
    """Returns the products of a page with several, each with its own fields."""
    own = site.product.own_fields
    if extracted.items is None or not own:
        return ()
    return tuple(
        ItemTrial(
            product.external_id,
            {
                key: value
                for key, value in product.data.items()
                if key.removesuffix("_currency") in own
            },
        )
        for product in extracted.products
    )


def _try_field(name: str, spec: FieldSpec, document: Document) -> list[FieldTrial]:
    """Returns a row for each key that the field gives; a price also gives its currency."""
    value, problems = field_reader(name, spec)(document)
    source, rivals = "", []
    for reading in spec.readings:
        data, _ = field_reader(name, _isolate_source(spec, reading))(document)
        if name not in data:
            continue
        if not source:
            source = reading.described
        else:
            rivals.append(Rival(reading.described, data[name]))
    rows = [FieldTrial(name, value.get(name), source, tuple(rivals), tuple(problems))]
    rows += [FieldTrial(key, value[key], source) for key in value if key != name]
    return rows


def _isolate_source(spec: FieldSpec, reading: FieldSource) -> FieldSpec:
    """Returns the field with this source alone, without alternatives and without a default."""
    options = {key: getattr(reading, key) for key in FieldSource.model_fields}
    return spec.model_copy(update={**options, "any": (), "default": None, "required": True})


def field_reader(name: str, spec: FieldSpec) -> ReadField:
    """Returns a function from a page to the field's keys and problems, as a crawl reads them."""
    reader = FieldReader(name, spec)

    def read(document: Document) -> tuple[dict[str, Any], list[str]]:
        data: dict[str, Any] = {}
        problems: list[str] = []
        reader.read(document, data, problems, [], [])
        return data, problems

    return read


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of a source on a page. `nearest`: if none, the longest part that matches."""

    url: str
    source: str
    matches: tuple[str, ...]
    nearest: str | None = None


def parse_source(text: str) -> Source:
    """Reads CSS, XPath, or `key:value` with the key of a source. Raises pydantic's
    ValidationError."""
    keyed = _KEYED.fullmatch(text)
    if keyed is not None and keyed[1] != "url":
        return Source.model_validate({keyed[1]: keyed[2]})
    key = "xpath" if text.startswith(("/", "(", "./")) else "css"
    return Source.model_validate({key: text})


def match_source(source: Source, page: Fetched) -> Matches:
    document = Document(page, page.url)
    matches = tuple(compile_source(source)(document, True))
    nearest = None
    if not matches and source.css is not None:
        nearest = _find_nearest(source.css, document)
    return Matches(page.url, source.described, matches, nearest)


def _find_nearest(css: str, document: Document) -> str | None:
    """Returns the longest beginning of the selector that matches something."""
    for end in sorted({match.start() for match in _CUTS.finditer(css)}, reverse=True):
        try:
            shorter = Source.model_validate({"css": css[:end].strip()})
        except ValueError:
            continue
        if compile_source(shorter)(document, False):
            return shorter.css
    return None

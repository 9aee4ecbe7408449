"""Reads the fields that a shop's interface lacks from its product pages. Pure.

A page's structured data may describe another product, such as a recommended one. Values from it
count if it names the product: by its name, its number or its address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from scraper.domain import Fetched, content_hash, filled
from scraper.extract.bounds import ON_LOOP, ReadElsewhere, TooSlow
from scraper.extract.document import Document
from scraper.extract.field_reader import FieldReader
from scraper.extract.heuristics.codes import GTIN_PATHS, read_gtin
from scraper.extract.structured import jsonld
from scraper.extract.text import unescape_twice
from scraper.plugins.platforms.keys import PlatformsKeys, page_field
from scraper.results.differences import value_of
from scraper.rules import urls
from scraper.rules.decoding import clean_text
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.selectors import parse_jsonld
from scraper.sites.grammar.sources import STRUCTURED

# A page that variants share has one code for all of them.
CODES = frozenset({"gtin", "ean", "isbn", "upc", "mpn", "sku"})


@dataclass(frozen=True, slots=True)
class PageValues:
    """What a page says: `given` by selectors of the definition, and `described` by its structured
    data, which is about a product with one of these names, numbers or addresses."""

    given: Mapping[str, Any]
    described: Mapping[str, Any]
    names: frozenset[str]
    numbers: frozenset[str]
    addresses: frozenset[str]

    @property
    def is_empty(self) -> bool:
        return not (self.given or self.described)

    def values_for(self, row: Mapping[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
        """Returns the keys and values of the wanted fields of a product."""
        about = self.describes(row)
        data = {**(self.described if about else {}), **self.given}
        return {key: value for name in wanted for key, value in value_of(data, name).items()}

    def describes(self, row: Mapping[str, Any]) -> bool:
        """Returns whether the page's structured data is about the product."""
        return (
            _plain_name(str(row.get("title", ""))) in self.names
            or str(row.get("sku", "")) in self.numbers
            or urls.canonical(str(row.get("url", ""))) in self.addresses
        )


class PageFields:
    """The fields of `platform.pages`, compiled once for each crawl. `reading` is the same as long
    as they are read alike."""

    def __init__(self, site: Site) -> None:
        platform = site.of(PlatformsKeys).platform
        self.names = platform.pages if platform is not None else ()
        specs = {name: spec for name in self.names if (spec := page_field(site, name)) is not None}
        self.reading: UUID = content_hash(
            {name: spec.model_dump(mode="json") for name, spec in specs.items()}
        )
        self._readers = {name: FieldReader(name, spec) for name, spec in specs.items()}

    def list_wanted(self, row: Mapping[str, Any]) -> list[str]:
        """Returns the fields that a product lacks and its page may have."""
        given, is_variant = filled(row), bool(row.get("variant"))
        return [
            name for name in self.names if name not in given and not (is_variant and name in CODES)
        ]

    def read(self, page: Fetched, page_url: str) -> PageValues | None:
        """Returns what a page says, or None if reading it has no certain bound."""
        document = Document(page, page_url, ON_LOOP)
        try:
            return self._read(document)
        except (ReadElsewhere, TooSlow):
            return None

    def _read(self, document: Document) -> PageValues:
        given: dict[str, Any] = {}
        described: dict[str, Any] = {}
        for name, reader in self._readers.items():
            data: dict[str, Any] = {}
            if name == "gtin" and _is_auto(reader.spec):
                data = {name: _read_gtin(document)}
            else:
                reader.read(document, data, [], [], [])
                document.budget.check(name)
            if name in filled(data):
                target = described if _is_structured(reader.spec) else given
                target.update(value_of(data, name))
        return PageValues(
            given,
            described,
            frozenset(_plain_name(text) for text in _list_texts(document, "name")),
            frozenset(_list_texts(document, "sku")),
            frozenset(urls.canonical(text) for text in _list_texts(document, "url", "@id")),
        )


def _is_auto(spec: FieldSpec) -> bool:
    return all(reading.auto is not None for reading in spec.readings)


def _is_structured(spec: FieldSpec) -> bool:
    keys = ("auto", *STRUCTURED)
    return any(getattr(reading, key) is not None for reading in spec.readings for key in keys)


def _read_gtin(document: Document) -> str | None:
    """Returns the GTIN of the page's structured data. Its visible text may be about others."""
    texts = map(read_gtin, _list_texts(document, *GTIN_PATHS))
    return next((digits for digits in texts if digits is not None), None)


def _list_texts(document: Document, *paths: str) -> Iterator[str]:
    """Yields the texts at these paths of the first product of JSON-LD, of microdata and of RDFa."""
    for path in paths:
        parsed = parse_jsonld(path)
        for origin in STRUCTURED:
            for text in jsonld.find_texts(getattr(document, origin), parsed, False):
                yield unescape_twice(clean_text(text))


def _plain_name(text: str) -> str:
    return " ".join(text.split()).casefold()

"""The currency of a shop's prices, for pages whose prices do not say it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scraper.extract.heuristics.amounts import find_amounts
from scraper.extract.heuristics.state_fields import find_currencies
from scraper.extract.sources import compile_source
from scraper.plugins.author.discovery.fields.readings import CandidateReading
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.sites.grammar.sources import Source

# Languages of countries that write "kr" for a currency of their own.
_CROWNS = {"da": "DKK", "nb": "NOK", "nn": "NOK", "no": "NOK", "sv": "SEK", "is": "ISK"}
_CURRENCIES = [
    compile_source(Source.model_validate(source))
    for source in (
        {"jsonld": "offers.priceCurrency"},
        {"microdata": "offers.priceCurrency"},
        {"rdfa": "offers.priceCurrency"},
        {"meta": "product:price:currency"},
        {"meta": "og:price:currency"},
    )
]


def find_currency(
    readings: Sequence[CandidateReading], samples: Sequence[ProductSample]
) -> str | None:
    """Returns the currency that the definition has to name, if any.

    It has to if some prices come without a currency, or with a sign that several countries use.
    `readings`: the chosen source of the price first, then its rivals.
    """
    if not readings:
        return None
    shown = {
        code
        for reading in readings
        for code, value in zip(reading.currencies, reading.values, strict=True)
        if value is not None
    }
    stated = {code for sample in samples for code in stated_currencies(sample)}
    if not stated and shown == {None}:
        stated = set(_find_signs(readings[0], samples))
    if not stated and shown <= {None, "SEK", "DKK"}:
        html = samples[0].document.dom.css_first("html[lang]")
        language = (html.attributes.get("lang") or "")[:2] if html is not None else ""
        stated = {_CROWNS[language]} if language in _CROWNS else set()
    return next(iter(stated)) if len(stated) == 1 and shown != stated else None


def stated_currencies(sample: ProductSample) -> Iterator[str]:
    """Yields the codes that the page states for machines."""
    yield from find_currencies(sample.document.state)
    for source in _CURRENCIES:
        for text in source(sample.document, False):
            if re.fullmatch(r"[A-Za-z]{3}", text):
                yield text.upper()


def _find_signs(reading: CandidateReading, samples: Sequence[ProductSample]) -> Iterator[str]:
    """Yields the currencies of visible amounts that equal the reading's value."""
    for sample, value in zip(samples, reading.values, strict=True):
        body = sample.document.dom.body
        for amount in find_amounts(body, sample.others) if body is not None else ():
            if amount.value == value and amount.currency is not None:
                yield amount.currency

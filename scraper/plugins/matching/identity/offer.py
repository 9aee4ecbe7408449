"""An offer: what one shop sells, as far as it identifies the product."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from scraper.extract.prices.currencies import THOUSANDTHS
from scraper.feed.prices import CURRENCY, as_number, stock_field, title_of
from scraper.plugins.matching.identity.attributes import Attributes, read_attributes
from scraper.plugins.matching.identity.codes import normalize_brand, normalize_mpn, parse_gtin
from scraper.plugins.matching.identity.measures import read_measures, unit_price
from scraper.plugins.matching.identity.words import fold_text, split_words

TITLE_MAX = 500
GTIN_FIELDS = ("gtin", "gtin13", "gtin14", "gtin12", "gtin8", "ean", "upc", "isbn", "barcode")
MPN_FIELDS = ("mpn", "modelno", "model", "part_number", "manufacturer_number")
BRAND_FIELDS = ("brand", "manufacturer")
_THOUSANDS = re.compile(r"(?<!\d)[1-9]\d{0,2}([.,])\d{3}(?!\d)")
UNIT_PRICE_FIELDS = ("unit_price", "base_price", "price_per_unit")


@dataclass(frozen=True, slots=True)
class OfferIdentity:
    """What identifies an offer's product: normalised codes, attributes of the variant, and the
    words of the title. `gtin` is the single article's; `level` is above 0 for a box."""

    title: str
    gtin: str | None = None
    level: int = 0
    brand: str | None = None
    mpn: str | None = None
    attributes: Attributes = field(default_factory=dict)
    words: tuple[str, ...] = ()

    @property
    def gtin_key(self) -> str | None:
        """The GTIN, and for a box of the article its level after a slash."""
        if self.gtin is None or self.level == 0:
            return self.gtin
        return f"{self.gtin}/{self.level}"


@dataclass(frozen=True, slots=True)
class OfferTerms:
    """For how much an offer is sold: prices are None if unknown, `in_stock` likewise."""

    price: Decimal | None = None
    currency: str | None = None
    unit_price: Decimal | None = None
    unit: str | None = None
    in_stock: bool | None = None


def read_offer(data: Mapping[str, Any]) -> tuple[OfferIdentity, OfferTerms]:
    """Returns the identity and the terms of a product's fields."""
    title = title_of(data)[:TITLE_MAX]
    measures = read_measures(title)
    gtin = next(
        (code for key in GTIN_FIELDS if data.get(key) and (code := parse_gtin(data[key]))), None
    )
    identity = OfferIdentity(
        title,
        None if gtin is None else gtin.article,
        0 if gtin is None else gtin.level,
        _first_value(data, BRAND_FIELDS, normalize_brand),
        _first_value(data, MPN_FIELDS, normalize_mpn),
        read_attributes(title, measures, data),
        tuple(split_words(fold_text(title))),
    )
    price = as_number(data.get("price"))
    quoted = " ".join(str(data[key]) for key in UNIT_PRICE_FIELDS if data.get(key))
    per_unit = unit_price(price, measures, quoted)
    terms = OfferTerms(
        price,
        data.get("price" + CURRENCY),
        None if per_unit is None else per_unit.price,
        None if per_unit is None else per_unit.unit,
        _read_stock(data),
    )
    return identity, terms


def _first_value(data: Mapping[str, Any], keys: tuple[str, ...], normalize: Any) -> str | None:
    return next((value for key in keys if data.get(key) and (value := normalize(data[key]))), None)


def _read_stock(data: Mapping[str, Any]) -> bool | None:
    key = stock_field(data)
    return None if key is None else bool(data[key])


def parse_price(text: str, currency: str | None = None) -> Decimal | None:
    """Returns a price as a catalogue's file writes it, or None. A mark before three digits may
    group thousands: such a price is refused, except "12.500" in a currency with three decimals."""
    grouped = _THOUSANDS.search(text)
    if grouped is not None and (grouped[1] == "," or currency not in THOUSANDTHS):
        return None
    try:
        value = Decimal(text.strip().replace(",", ".")) if text.strip() else None
    except InvalidOperation:
        return None
    return value if value is not None and value.is_finite() and value >= 0 else None

"""A shop's interface may give what is not a number of a price: such a page is refused at once."""

from __future__ import annotations

import pytest

from scraper.domain import Extracted, Fetched, Kind
from scraper.extract import compile_site
from scraper.plugins.platforms.adapters import ADAPTERS
from scraper.sites.definition import Site

BODIES = {
    "shopify": """{"products": [{"id": 1, "title": "A", "handle": "a", "variants":
        [{"id": 2, "price": %s, "compare_at_price": %s, "place": %s}]}]}""",
    "woocommerce": """[{"id": 1, "name": "A", "type": "simple", "prices": {"price": %s,
        "regular_price": %s, "currency_code": "EUR", "currency_minor_unit": %s}}]""",
}
HUGE = "1e999999999"


def read(name: str, *numbers: str) -> Extracted:
    site = {
        "name": "shop",
        "start": "https://shop.example/",
        "platform": name,
        "listing": {"products": "a"},
        "product": {"id": {"url": r"(\d+)"}, "fields": {"title": "h1"}},
    }
    url = f"https://shop.example{ADAPTERS[name].paths[-1]}"
    page = Fetched(url, 200, {}, (BODIES[name] % numbers).encode())
    extractor = compile_site(Site.model_validate(site))
    return extractor.extract(Kind.LISTING, page, page_url=url, depth=1)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    ("price", "usual"),
    [
        ('"NaN"', '"5"'),
        ('"5"', '"NaN"'),
        ("NaN", "5"),
        ("Infinity", "5"),
        ('"Infinity"', "null"),
        (HUGE, "5"),
    ],
)
def test_what_is_not_a_price_is_refused(name: str, price: str, usual: str) -> None:
    assert read(name, '"5"', '"7"', "2").products
    extracted = read(name, price, usual, "2")
    assert (extracted.complete, extracted.products) == (False, [])


@pytest.mark.parametrize("unit", [HUGE, "-1", "10", "Infinity", "[]", "1.5"])
def test_a_unit_has_few_decimal_places(unit: str) -> None:
    """As an integer, the largest would occupy the process for hours."""
    assert not read("woocommerce", '"5"', '"7"', unit).products

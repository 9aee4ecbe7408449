"""Which pages are proposed as several products."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from scraper.extract.document import Document
from scraper.plugins.author.discovery.fields.candidates import Candidate
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.fields.readings import CandidateReading
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.fields.variants import propose_items
from tests.unit.extract.extracting import URL, fetched

PAGES = 4


def read_sample(number: int) -> ProductSample:
    offers = [
        {"@type": "Offer", "sku": f"{number}-{size}", "price": 10 + size, "priceCurrency": "EUR"}
        for size in range(3)
    ]
    group = {"@type": "Product", "name": "Kettle", "offers": offers}
    body = f'<script type="application/ld+json">{json.dumps(group)}</script><h1>Kettle</h1>'
    return ProductSample(Document(fetched(body, content_type="text/html"), URL), None)


@pytest.mark.parametrize(
    ("shown", "rival", "proposed"),
    [
        ([12] * PAGES, [None] * PAGES, True),
        ([12, 12, 12, None], [None] * PAGES, True),
        ([12, 12, None, None], [None, None, 11, None], True),
        ([12, 12, 12, 99], [None] * PAGES, False),
        ([None] * PAGES, [None] * PAGES, False),
        ([12, 12, None, None], [None] * PAGES, False),
    ],
)
def test_variants_are_proposed_only_if_enough_pages_show_the_price_of_one(
    shown: list[int | None], rival: list[int | None], proposed: bool
) -> None:
    best, other = (
        CandidateReading(
            Candidate({"css": ".price"}, "css", 0),
            [None if price is None else Decimal(price) for price in prices],
            ["EUR"] * PAGES,
        )
        for prices in (shown, rival)
    )
    fields = {"price": FieldChoice("price", best, [other])}
    choice = propose_items([read_sample(number) for number in range(PAGES)], fields)
    assert (choice is not None) is proposed

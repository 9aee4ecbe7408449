"""What readings of fields and links of cards mean, on values of odd kinds."""

from __future__ import annotations

from decimal import Decimal

from scraper.domain import Fetched
from scraper.extract.document import Document
from scraper.plugins.author.discovery.fields.candidates import Candidate
from scraper.plugins.author.discovery.fields.possible_values import drop_cents
from scraper.plugins.author.discovery.fields.readings import CandidateReading, is_equal
from scraper.plugins.author.discovery.listings.cards import find_link_groups


def test_ratings_are_equal_as_numbers() -> None:
    assert is_equal("rating", Decimal("4.50"), 4.5) and is_equal("rating", 5, Decimal("5.0"))
    assert not is_equal("rating", 4.5, 4.6)


def test_a_price_of_many_digits_may_be_in_cents() -> None:
    state = Candidate("state", {"state": "app.price"}, 0)
    reading = CandidateReading(state, [Decimal("9" * 38)] * 3, [None] * 3)
    assert drop_cents("price", [reading], []) == []


def test_links_to_a_folder_called_feed_may_lead_to_products() -> None:
    links = "".join(f"<li><a href=/horses/feed/{name}>x</a>" for name in ("oats", "hay", "bran"))
    body = f"<ul>{links}</ul><a href=/horses/feed/>RSS</a>"
    page = Fetched("https://shop.example/", 200, {"content-type": "text/html"}, body.encode())
    (group,) = find_link_groups(Document(page, page.url), lambda url: True)
    assert len(group.cards) == 3

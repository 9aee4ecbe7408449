"""Chains of listings that bring nothing new, settled page by page as a worker does."""

from __future__ import annotations

from itertools import combinations
from uuid import UUID

import pytest
import sqlalchemy as sa

from scraper.domain import Kind, Outcome, Status, Verdict
from scraper.frontier.pages import NewPage
from scraper.results.listing_traps import combine_fingerprints, max_barren_depth
from scraper.results.transaction import CrawlLimits, PageResult, settle_pages
from scraper.rules.urls import fingerprint
from tests.support.making import a_site, add, claimed, lease_all, new_page, open_crawl, rows

HOST = "shop.example"
OK = Verdict(Status.OK, 0.0, charged=True)


class Chain:
    """A crawl of one chain of listings: page n shows some products and leads to page n + 1."""

    def __init__(self, engine: sa.Engine, fruitless: int = 4) -> None:
        self.engine = engine
        self.crawl = open_crawl(engine, a_site())
        self.limits = CrawlLimits(10_000, 10_000, max_barren_depth(fruitless))
        add(engine, [new_page(self.crawl, f"https://{HOST}/l/0", Kind.LISTING)])
        self.number = 0

    def step(self, products: list[int]) -> bool:
        """Settles the listing page that is due, if there is one."""
        due = [
            (lease, page)
            for batch in lease_all(self.engine, HOST, 10_000)
            if (lease := claimed(self.engine, batch)) is not None
            for page in lease.pages
        ]
        self.number += 1
        shown = [f"https://{HOST}/p/{n}" for n in products]
        links: list[NewPage] = [new_page(self.crawl, url) for url in shown]
        links.append(new_page(self.crawl, f"https://{HOST}/l/{self.number}", Kind.LISTING))
        hashes = [fingerprint(url).int for url in shown]
        results = [
            PageResult(
                page.id,
                page.crawl_id,
                lease.id,
                Outcome.FETCHED,
                OK,
                links=links if page.kind is Kind.LISTING else (),
                lists=UUID(int=combine_fingerprints(hashes)) if hashes else None,
            )
            for lease, page in due
        ]
        if results:
            with self.engine.begin() as connection:
                settle_pages(connection, results, {self.crawl[1]: self.limits})
        return any(page.kind is Kind.LISTING for _, page in due)

    def cut(self) -> int:
        return int(rows(self.engine, "SELECT links_fruitless FROM crawls")[0][0])


@pytest.fixture
def chain(engine: sa.Engine) -> Chain:
    return Chain(engine)


def test_empty_pages_end_a_chain(chain: Chain) -> None:
    assert chain.step([1, 2])
    pages = 0
    while chain.step([]):
        pages += 1
        assert pages < 20
    assert pages == 5 and chain.cut() == 1


def test_the_same_products_again_end_it_after_two_and_a_half_times_as_many(chain: Chain) -> None:
    pages = 0
    while chain.step([1, 2]):
        pages += 1
        assert pages < 20
    assert pages == 12 and chain.cut() == 1


def test_a_new_product_makes_good_for_all_before(chain: Chain) -> None:
    for number in range(30):
        assert chain.step([] if number % 4 else [number])
    assert chain.cut() == 0


def test_known_products_in_other_sets_may_go_on_five_times_as_long(chain: Chain) -> None:
    """A catalogue of which this many pages in a row show products of pages before."""
    shown = [10 * number for number in range(12)]
    for number in shown:
        assert chain.step([number, number + 1])
    pages = 0
    for pair in combinations(shown, 2):
        if not chain.step(list(pair)):
            break
        pages += 1
    assert pages == 21 and chain.cut() == 1

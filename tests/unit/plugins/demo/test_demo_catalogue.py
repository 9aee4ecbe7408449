"""The sample shop's catalogue is a function of its seed, and moves as it says between visits."""

from __future__ import annotations

import pytest
import yaml
from parsel import Selector

from scraper.plugins import demo
from scraper.plugins.demo import pages
from scraper.plugins.demo.catalogue import GHOSTS, Catalogue, changed_ids, count_pages, make_slug
from scraper.plugins.demo.faults import Fault, ShopOptions, choose_fault

BASE = "http://127.0.0.1:8800"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue(1000, seed=7)


def test_equal_seeds_give_equal_shops_and_others_do_not(catalogue: Catalogue) -> None:
    assert Catalogue(1000, seed=7).truth(3, BASE) == catalogue.truth(3, BASE)
    assert Catalogue(1000, seed=8).truth(3, BASE) != catalogue.truth(3, BASE)


def test_the_first_visit_has_all_products_and_42_pages(catalogue: Catalogue) -> None:
    now = catalogue.at(1)
    assert len(now.items) == 1000
    assert len(now.gone) == GHOSTS
    assert count_pages(len(now.listings["all"]), pages.PAGE_SIZE) == 42


def test_products_are_linked_from_several_listings(catalogue: Catalogue) -> None:
    now = catalogue.at(1)
    links = [i for ids in now.listings.values() for i in ids]
    assert len(links) > 2 * len(now.items)
    assert set(links) == set(now.items) | set(now.gone)


@pytest.mark.parametrize("visit", [2, 3, 10])
def test_between_two_visits_some_prices_change_and_a_few_come_and_go(
    catalogue: Catalogue, visit: int
) -> None:
    before, after = catalogue.at(visit - 1), catalogue.at(visit)
    assert 100 <= len(list(changed_ids(before, after))) <= 200
    vanished, appeared = set(before.items) - set(after.items), set(after.items) - set(before.items)
    assert 1 <= len(vanished) <= 15 and len(appeared) == 5
    assert vanished < set(after.gone), "what has just vanished is still linked"
    for number in set(before.items) & set(after.items):
        old, new = before.items[number].record(BASE), after.items[number].record(BASE)
        assert {key for key in new if old[key] != new[key]} <= {"price", "old_price"}


def test_a_visit_that_there_is_not(catalogue: Catalogue) -> None:
    for visit in (0, -1, 1_000_000):
        with pytest.raises(ValueError, match="between 1 and 1000"):
            catalogue.at(visit)


def test_every_product_page_shows_the_truth(catalogue: Catalogue) -> None:
    """The selectors of shop.yaml, without anything of the scraper's: page and truth agree."""
    sizes = []
    for item in catalogue.at(2).items.values():
        body = pages.product_page(item, [item] * 6, BASE)
        page, record = Selector(body.decode()), item.record(BASE)
        sizes.append(len(body))
        assert page.css("h1::text").get("").strip() == record["name"]
        assert page.css("p.description::text").get() == record["description"]
        assert page.css(".crumbs .category a::text").get() == record["category"]
        assert page.css(".product .price::text").get() == pages.format_money(
            item.price, item.currency
        )
        assert page.css(".product .old::text").get() == (
            None if item.old_price is None else pages.format_money(item.old_price, item.currency)
        )
        assert page.css(".brand::text").get() == record["brand"]
        assert page.css(".sku::text").get() == record["sku"]
    assert 6_500 < sum(sizes) / len(sizes) < 8_500


def test_pages_need_decoding() -> None:
    """The shop is worth testing on: entities, umlauts, quotes, emoji, other scripts all occur."""
    text = "".join(
        str(record["name"]) + str(record["brand"]) for record in Catalogue().truth(1, BASE)
    )
    assert all(sign in text for sign in "&<>\"'üßéñł☕💡抹Л’")


def test_slug() -> None:
    assert make_slug("Große Löffel & Söhne, 2 €") == "grosse-loffel-sohne-2"
    assert make_slug("無印") == "item"


def test_faults_are_the_same_each_time_and_pass() -> None:
    options = ShopOptions(fail_share=0.3, hang_share=0.1)
    paths = [f"/p/{number}-x" for number in range(1000)]
    first = [choose_fault(options, 7, path, 1, attempt=1) for path in paths]
    assert first == [choose_fault(options, 7, path, 1, attempt=1) for path in paths]
    assert first != [choose_fault(options, 7, path, 2, attempt=1) for path in paths]
    assert set(first) == {None, *Fault}
    assert 350 < sum(one is not None for one in first) < 450
    assert not any(choose_fault(options, 7, path, 1, attempt=3) for path in paths)
    assert not any(choose_fault(ShopOptions(), 7, path, 1, attempt=1) for path in paths)


def test_the_definition_names_the_shop_that_runs() -> None:
    text = demo.definition("http://127.0.0.1:4711/")
    site = yaml.safe_load(text)
    assert site["start"] == "http://127.0.0.1:4711/all?page=1"
    assert "8800" not in text
    produced = {*site["product"]["fields"], "price_currency", "old_price_currency", "id", "url"}
    assert produced == set(Catalogue(1).truth(1, BASE)[0])

"""Which proxy is blamed for incomplete pages."""

from __future__ import annotations

from random import Random

from scraper.proxies.contents import ProxyContents

HOST, PROXIES = "shop.example", "abc"


def blamed_proxies(seed: int, *, shop: int = 0, liar: int = 0, pages: int = 150) -> set[str]:
    """The shop gives one page in `shop` incompletely at first, and proxy c one in `liar`. Another
    proxy gets each of these pages whole."""
    random, contents, blamed = Random(seed), ProxyContents(), set()
    order = list(range(pages))
    random.shuffle(order)
    for number in order:
        first, second = random.sample(PROXIES, 2)
        lied = bool(liar) and first == "c" and random.randrange(liar) == 0
        if lied or (shop and number % shop == 0):
            contents.record_whole(HOST, second, product=True)
            if contents.record_bad(HOST, first):
                blamed.add(first)
        else:
            contents.record_whole(HOST, first, product=True)
    return blamed


def test_chance_blames_hardly_any_proxy_for_what_the_shop_does() -> None:
    """It was one crawl in eighty when the share of the others counted as certain."""
    assert sum(bool(blamed_proxies(seed, shop=3)) for seed in range(1000)) <= 2


def test_a_proxy_that_lies_now_and_then_is_blamed_and_no_other() -> None:
    assert {frozenset(blamed_proxies(seed, liar=5, pages=300)) for seed in range(100)} == {
        frozenset("c")
    }

"""Which products `scraper new` reads, by what their cards show."""

from __future__ import annotations

from scraper.extract.document import Document
from scraper.plugins.author.discovery.listings.cards import Card, find_link_groups
from scraper.plugins.author.discovery.product_pages import PRODUCTS, _choose_samples
from scraper.plugins.author.discovery.rare_cards import is_reduced, is_sold_out, lacks_picture
from tests.unit.extract.extracting import fetched

SHOP = "https://shop.example/"
COUNT = 80
SOLD_OUT, REDUCED, ON_SALE, BARE = (5, 41, 66), (13, 14, 15, 16), (33,), (50, 71)
QUOTED, QUOTE = 28, ' 12"'


def write_price(number: int) -> str:
    if number in REDUCED:
        return f'<del>${number + 90}.00</del> <b class="special">${number + 9}.00</b>'
    if number in ON_SALE:
        return f'<s>${number + 90}.00</s> <b class="sale">${number + 9}.00</b>'
    return f'<b class="base">${number + 9}.00</b>'


def list_cards(wrap: str = "cost") -> dict[str, Card]:
    items = "".join(
        f'<li><a href="/p/{n}">{"" if n in BARE else f"<img src=/i/{n}.jpg>"}Kettle {n}{QUOTE * (n == QUOTED)}</a>'
        f'<div class="{wrap}">{write_price(n)}</div>'
        f"{'<p>Ausverkauft</p>' if n in SOLD_OUT else '<p>Auf Lager</p>'}</li>"
        for n in range(COUNT)
    )
    page = fetched(f"<ul>{items}</ul>", f"{SHOP}list", content_type="text/html; charset=utf-8")
    groups = find_link_groups(Document(page, f"{SHOP}list"), lambda url: True)
    return {card.url: card for card in groups[0].cards}


def numbers_of(urls: list[str]) -> set[int]:
    return {int(url.rpartition("/")[2]) for url in urls}


def test_each_rare_kind_is_sampled_and_none_crowds_out_the_others() -> None:
    cards = list_cards()
    chosen = numbers_of(_choose_samples(list(cards), cards))
    assert len(chosen) == PRODUCTS
    assert len(chosen & set(SOLD_OUT)) >= 2 and len(chosen & set(BARE)) == 2
    assert len(chosen & {*REDUCED, *ON_SALE}) >= 3 and chosen >= {*ON_SALE, QUOTED}
    usual = chosen - {*SOLD_OUT, *REDUCED, *ON_SALE, *BARE, QUOTED}
    assert len(usual) >= 3 and max(usual) - min(usual) > COUNT / 2


def test_the_place_of_a_price_in_a_list_is_not_its_former_price() -> None:
    cards = list_cards("list-price")
    kinds = {
        name: numbers_of([url for url, card in cards.items() if is_kind(card)])
        for name, is_kind in (
            ("reduced", is_reduced),
            ("sold out", is_sold_out),
            ("bare", lacks_picture),
        )
    }
    assert kinds == {
        "reduced": {*REDUCED, *ON_SALE},
        "sold out": set(SOLD_OUT),
        "bare": set(BARE),
    }

"""Values of other products on a product's page, and prices that no single selector gives."""

from __future__ import annotations

from typing import Any

import pytest

from scraper.extract.document import Document
from scraper.plugins.author.discovery.fields.induction import choose_fields
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.listings.cards import Card, find_link_groups
from scraper.plugins.author.discovery.listings.sitemap_search import (
    _find_shared,
    _group_by,
    _group_by_folder,
    _read_ending,
    _read_mark,
)
from scraper.plugins.author.discovery.product_pages import find_lone_cards
from tests.unit.extract.extracting import fetched

SHOP = "https://shop.example/"
OFFER = '<aside><p><a href="/p/7">Mug 7</a></p><p>{0}</p></aside>'
REDUCED = '<b class="old">$99.00</b> <b class="special">$40.00</b>'


def parse(body: str, path: str) -> Document:
    page = fetched(body, SHOP + path, content_type="text/html; charset=utf-8")
    return Document(page, SHOP + path)


def list_cards(shown: list[str]) -> dict[str, Card]:
    items = "".join(
        f'<li><a href="/p/{n}"><img src="/{n}.jpg">Kettle {n}</a> {price}</li>'
        for n, price in enumerate(shown)
    )
    groups = find_link_groups(parse(f"<ul>{items}</ul>", "list"), lambda url: True)
    return {card.url: card for card in groups[0].cards}


def choose(shown: list[str], more: str = "") -> dict[str, Any]:
    """Returns the fields chosen for pages of products that show these prices."""
    cards = list_cards(shown)
    samples = []
    for n, price in enumerate(shown):
        body = (
            f"<title>Kettle {n}</title><h1>Kettle {n}</h1><div class=cost>{price}</div><p>Now</p>"
        )
        page, url = parse(body + more, f"p/{n}"), f"{SHOP}p/{n}"
        others = frozenset(find_lone_cards(page, url, [f"{SHOP}p/{m}" for m in range(12)]))
        samples.append(ProductSample(page, cards[url], others))
    return choose_fields(samples)


def show_prices(count: int) -> list[str]:
    return [
        f'<b class="normal">${60 + n}.00</b> <b class="special">${50 + n}.00</b>'
        if n % 3 == 0
        else f"${20 + n}.00"
        for n in range(count)
    ]


@pytest.mark.parametrize("offer", ["", OFFER.format(REDUCED)])
def test_reduced_prices_have_a_source_of_their_own_where_no_selector_gives_all(offer: str) -> None:
    fields = choose(show_prices(9), offer)
    values = fields["price"].combined.values
    assert [int(value) for value in values] == [50 + n if n % 3 == 0 else 20 + n for n in range(9)]
    former = fields["list_price"].best
    assert former is not None
    assert [value and int(value) for value in former.values] == [
        60 + n if n % 3 == 0 else None for n in range(9)
    ]


def test_a_price_is_not_completed_by_one_that_the_cards_do_not_show() -> None:
    shown = [f"${20 + n}.00" if n % 3 else "" for n in range(9)]
    fields = choose(shown, '<p class="fee">$50.00</p>')
    assert [value and int(value) for value in fields["price"].combined.values] == [
        20 + n if n % 3 else None for n in range(9)
    ]


@pytest.mark.parametrize(
    ("href", "is_other"),
    [
        ("/p/7", True),
        ("/kitchen/p/7", True),
        ("/p/3", False),
        ("/kitchen/p/3?from=offer", False),
        ("/cart", False),
    ],
)
def test_a_card_alone_leads_to_another_product(href: str, is_other: bool) -> None:
    page = parse(
        f'<h1>Mug 3</h1><p>$9.00</p><div><a href="{href}">Mug</a> <i>$5.00</i></div>', "p/3"
    )
    known = [f"{SHOP}p/{n}" for n in range(9)]
    found = set(find_lone_cards(page, f"{SHOP}p/3", known))
    assert bool(found) is is_other
    heading = page.dom.css_first("h1")
    assert heading is not None and heading.mem_id not in found


def test_a_sitemap_is_grouped_by_files_and_parameters_and_lists_may_have_more_of_them() -> None:
    products = [f"{SHOP}index.php?page=product&id={n}" for n in range(5)]
    lists = [f"{SHOP}index.php?page=list&path={n}" for n in range(3)]
    plain = [f"{SHOP}about.html", f"{SHOP}help.html"]
    assert sorted(map(len, _group_by_folder([*products, *lists, *plain]))) == [2, 3, 5]
    listed = {f"{SHOP}index.php?page=product&path=1_{n}&id={n}" for n in (1, 2, 9)}
    assert _find_shared(products, listed) == products[1:3]
    assert _find_shared(lists, listed) == []
    assert _find_shared(products, {f"{SHOP}index.php?page=product"}) == []


def test_a_sitemap_is_grouped_by_endings_where_products_are_in_folders_of_categories() -> None:
    products = [f"{SHOP}pots/a.html", f"{SHOP}pots/b.html", f"{SHOP}pans/c.html"]
    lists = [f"{SHOP}pots/", f"{SHOP}pans/", f"{SHOP}v1.2/pans"]
    assert _group_by(_read_ending, [*products, *lists]) == [products, lists]


def test_a_sitemap_is_grouped_by_the_mark_before_a_number() -> None:
    products = [f"{SHOP}pots-c-1/red-p-105", f"{SHOP}pans-c-2/deep-c-3/iron-p-7"]
    lists = [f"{SHOP}pots-c-1/", f"{SHOP}pans-c-2/deep-c-3/"]
    assert _group_by(_read_mark, [*products, *lists]) == [products, lists]


def show_marked(marks: dict[int, str]) -> list[str]:
    return [marks.get(n, f'<b class="base">${20 + n}.00</b>') for n in range(12)]


def test_each_markup_of_a_reduced_price_gets_a_source() -> None:
    former = '<b class="normal">$99.00</b>'
    marks = {n: f'{former} <b class="special">${40 + n}.00</b>' for n in (1, 5)}
    marks |= {n: f'<b class="sale">${40 + n}.00</b> {former}' for n in (3, 8)}
    prices = choose(show_marked(marks))["price"].combined
    assert prices is not None
    assert prices.values == [(40 if n in marks else 20) + n for n in range(12)]


def test_which_of_three_amounts_is_the_price_is_not_guessed() -> None:
    marked = (
        '<b class="usual">$120.00</b> <b class="special">$90.00</b> <b class="sale">$108.00</b>'
    )
    choice = choose(show_marked({4: marked}))["price"]
    assert choice.combined is not None and choice.combined.values[4] is None
    assert sum(value is not None for value in choice.combined.values) == 11

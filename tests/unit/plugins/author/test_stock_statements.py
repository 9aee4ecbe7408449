"""Stock statements of product pages: hidden ones, and those of products that are sold out."""

from __future__ import annotations

from typing import Any

import pytest

from scraper.extract.document import Document
from scraper.plugins.author.discovery.fields.induction import choose_fields
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.listings.cards import Card, find_link_groups
from tests.unit.extract.extracting import fetched

SHOP = "https://shop.example/"
SOLD_OUT = (2, 5)
HIDDEN = ('style="display: none"', "hidden", 'class="label hidden"', 'style="visibility:hidden;"')
OFFER = '<p itemscope itemtype="https://schema.org/Offer" itemprop="offers">{0}<meta itemprop="price" content="{1}.00"></p>'  # fmt: skip


def parse(body: str, path: str) -> Document:
    page = fetched(body, SHOP + path, content_type="text/html; charset=utf-8")
    return Document(page, SHOP + path)


def list_cards(count: int, sold_out: str) -> dict[str, Card]:
    items = "".join(
        f'<li><a href="/p/{n}"><img src="/{n}.jpg">Kettle {n}</a> ${20 + n}.00 '
        f"<i>{sold_out if n in SOLD_OUT else ''}</i></li>"
        for n in range(count)
    )
    groups = find_link_groups(parse(f"<ul>{items}</ul>", "list"), lambda url: True)
    return {card.url: card for card in groups[0].cards}


def choose(available: str, denied: str, *, sold_out: str = "Out of stock") -> list[Any]:
    """Returns the availability of eight products by their pages and cards."""
    cards = list_cards(8, sold_out)
    samples = []
    for n in range(8):
        shown = (denied if n in SOLD_OUT else available).replace("{price}", str(20 + n))
        body = f"<title>Kettle {n}</title><h1>Kettle {n}</h1><b class=cost>${20 + n}.00</b>{shown}"
        samples.append(ProductSample(parse(body, f"p/{n}"), cards[f"{SHOP}p/{n}"]))
    combined = choose_fields(samples)["availability"].combined
    return combined.values if combined is not None else [None] * 8


RIGHT = [n not in SOLD_OUT for n in range(8)]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_hidden_statement_is_not_read(hidden: str) -> None:
    warning = f'<div id="stock"><span id="last" {hidden}>Last items in stock!</span></div>'
    assert choose(warning, warning) == [None] * 8
    assert choose(warning, warning, sold_out="") == [None] * 8


def test_a_statement_that_one_page_shows_and_others_hide_is_not_read() -> None:
    shown = '<div><span id="last">Last items in stock!</span></div>'
    hidden = '<div><span id="last" style="display:none">Last items in stock!</span></div>'
    assert choose(shown, hidden) == [None] * 8


def test_a_statement_is_not_read_where_cards_deny_it() -> None:
    banner = '<p class="availability">Everything in stock</p>'
    visible = '<p class="state">{0}</p>'
    values = choose(banner + visible.format("In stock"), banner + visible.format("Sold out"))
    assert values == RIGHT


def test_markup_without_sold_out_products_is_completed_by_the_text() -> None:
    stock = '<link itemprop="availability" href="https://schema.org/InStock">'
    empty = '<p id="state" style="display:none"><span class="label"></span></p>'
    denied = '<p id="state"><span class="label">This product is no longer in stock</span></p>'
    shop = '<div itemscope itemtype="https://schema.org/Product"><i itemprop="name">K</i>{0}</div>'
    values = choose(
        shop.format(OFFER.format(stock, "{price}")) + empty,
        shop.format(OFFER.format("", "{price}")) + denied,
    )
    assert values == RIGHT


@pytest.mark.parametrize(
    "text", ["Only {} pieces left in stock", "In stock: {} pieces", "Auf Lager: {}pcs"]
)
def test_a_count_behind_a_space_is_a_stock(text: str) -> None:
    cards = list_cards(8, "")
    samples = []
    for n in range(8):
        stock = f"<p class=stock>{text.format(3 + n)}</p>"
        body = f"<title>Kettle {n}</title><h1>Kettle {n}</h1><b class=cost>${20 + n}.00</b>{stock}"
        samples.append(ProductSample(parse(body, f"p/{n}"), cards[f"{SHOP}p/{n}"]))
    combined = choose_fields(samples)["stock"].combined
    assert combined is not None and combined.values == list(range(3, 11))

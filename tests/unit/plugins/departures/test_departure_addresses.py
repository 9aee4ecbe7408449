"""Which addresses are another page than a product's own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from scraper.domain import Extracted, Fetched, Kind, LeasedPage, Product
from scraper.plugins.departures.absence import find_absence
from scraper.plugins.departures.addresses import Departure, find_departure
from scraper.plugins.departures.worker_part import CRAWLS_KEPT, AddressCounts
from scraper.sites.definition import Site

SHOP = "https://shop.example"


def site(**product: Any) -> Site:
    fields = {"title": {"css": "h1", "required": True}, "text": {"css": "p"}}
    return Site.model_validate(
        {
            "name": "shop",
            "start": SHOP,
            "listing": {"products": "a"},
            "product": {"fields": fields, **product},
        }
    )


def departure(
    url: str, target: str | None, body: bytes = b"", of: Site | None = None
) -> Departure | None:
    page = LeasedPage(
        1, 1, SHOP + url, Kind.PRODUCT, "shop.example", 0, 0, 1, 0, last_content=UUID(int=1)
    )
    final = target if target is not None and "://" in target else SHOP + (target or url)
    fetched = Fetched(final, 200, {}, body, redirects=target is not None)
    extracted = Extracted(products=[Product("1", {"title": "Pots", "text": "All"})])
    return find_departure(page, fetched, extracted, of or site())


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("/p/1", "/p/1/"),
        ("/p/1/", "/p/1"),
        ("/p/1", "/P/1"),
        ("/p/1", "http://shop.example/p/1"),
        ("/p/1", "https://www.shop.example/p/1"),
        ("/p/1", "https://m.shop.example/p/1"),
        ("/p/1", "/de/p/1"),
        ("/en/p/1", "/de/p/1"),
        ("/en-gb/p/1", "/p/1"),
        ("/p/1", "/p/1?sid=4711&lang=de"),
        ("/p/1", "/p/1;jsessionid=4711"),
        ("/p/1", "/p/1?utm_source=mail"),
        ("/p/1", "/shop/p/1"),
        ("/p/1", "/p/1.html"),
        ("/p?id=1", "/p?sid=7&id=1"),
        ("/p?id=1", "/de/p?id=1&sid=7"),
        ("/p/töpfe", "/p/t%C3%B6pfe"),
        ("/p/1", "/account?next=%2Fp%2F1"),
        ("/p?id=1", "/login?to=%2Fp%3Fid%3D1"),
        ("/", "/en/"),
        ("/", "/welcome"),
    ],
)
def test_another_address_of_the_same_page_is_not_a_departure(url: str, target: str) -> None:
    assert departure(url, target) is None


@pytest.mark.parametrize(
    ("url", "target", "home"),
    [
        ("/p/1", "/", True),
        ("/p/1", "/?utm_source=gone", True),
        ("/de/p/1", "/de/", True),
        ("/p/1", "/en-gb", True),
        ("/p/1", "/?p=7", False),
        ("/p/1", "/pots", False),
        ("/pots/1", "/pots", False),
        ("/p/1", "/p/12", False),
        ("/p/pot", "/p/pot-2", False),
        ("/p?id=1", "/p?id=2", False),
        ("/p?id=1", "/p", False),
    ],
)
def test_a_page_leads_elsewhere(url: str, target: str, home: bool) -> None:
    found = departure(url, target)
    assert found is not None and found.redirected
    assert found.home is home
    assert found.names == {"title": "Pots"}


def test_the_definition_says_which_addresses_products_have() -> None:
    by_url = site(id={"url": r"/p/(\d+)"})
    for of, target, alike in (
        (by_url, "/pots", False),
        (by_url, "/p/7", True),
        (site(id={"css": "main::attr(id)"}), "/p/7", None),
        (site(), "/p/7", None),
    ):
        found = departure("/p/1", target, of=of)
        assert found is not None and found.alike is alike


@pytest.mark.parametrize(
    ("head", "leads_to"),
    [
        (b'<link rel="canonical" href="/pots">', "/pots"),
        (b"<link rel=canonical href=/pots>", "/pots"),
        (b"<link href='/pots?a=1&amp;b=2' rel='canonical'>", "/pots?a=1&b=2"),
        (b'<link rel="canonical" href="/de/p/1">', None),
        (b'<link rel="canonical" href="">', None),
        (b'<link rel="canonical" href="javascript:no">', None),
        (b'<link rel="alternate" href="/canonical">', None),
        (b"<p>canonical</p>", None),
    ],
)
def test_a_canonical_link_may_lead_elsewhere(head: bytes, leads_to: str | None) -> None:
    found = departure("/p/1", None, head)
    assert (found and found.url) == (leads_to and SHOP + leads_to)
    assert found is None or not (found.redirected or found.home)


@pytest.mark.parametrize(
    ("target", "leads"), [("/i.php?id=7", False), ("/i.php?cat=3", True), ("/i.php?id=8", True)]
)
@pytest.mark.parametrize("redirected", [True, False])
def test_a_page_with_fewer_parameters_and_the_same_id_is_the_same(
    target: str, leads: bool, redirected: bool
) -> None:
    of = site(id={"url": r"[?&]id=(\d+)"})
    head = f'<link rel="canonical" href="{target}">'.encode()
    to = (target, b"") if redirected else (None, head)
    assert (departure("/i.php?sort=3d&cat=3&id=7", *to, of) is not None) is leads


def test_departures_are_seldom_while_most_pages_are_at_their_own_address() -> None:
    counts = AddressCounts()
    assert not counts.is_seldom(1)
    for leads in (False, True):
        counts.add_page(1, leads=leads)
    assert not counts.is_seldom(1)
    counts.add_page(1, leads=False)
    assert counts.is_seldom(1)
    for crawl_id in range(2, CRAWLS_KEPT + 2):
        counts.add_page(crawl_id, leads=True)
    assert not counts.is_seldom(1)


def test_the_reason_names_the_address() -> None:
    found = departure("/p/1", "/pots")
    assert found is not None
    assert found.text == (
        "the product is no longer on its page: it redirects to https://shop.example/pots"
    )


def test_a_successor_is_known_without_the_parameters_that_products_do_not_need() -> None:
    found = departure("/p?id=1", "/p?id=2&page=3", of=site(strip_params="page"))
    assert found is not None and found.url == f"{SHOP}/p?id=2"


def absence(body: str, **data: str) -> Departure | None:
    page = LeasedPage(1, 1, f"{SHOP}/p/1", Kind.PRODUCT, "shop.example", 0, 0, 1, 0)
    fetched = Fetched(page.url, 200, {"content-type": "text/html; charset=utf-8"}, body.encode())
    extracted = Extracted(products=[Product("1", dict(data))], found=tuple(data))
    return find_absence(page, fetched, extracted if data else None, site())


@pytest.mark.parametrize(
    "body",
    [
        "<title>Product not found!</title>",
        "<h1 class=big>Oops, the page you are looking for <b>does not exist</b></h1>",
        "<title>Pots</title><div class='alert alert-danger' role=alert> D&#39;oh. Not found! </div>",
        "<h2>Dieser Artikel ist leider nicht mehr verfügbar</h2>",
        "<h1>Cette page n’existe plus</h1>",
        "<h1>ページが見つかりません</h1>",
    ],
)
def test_a_page_says_that_it_has_no_product(body: str) -> None:
    found = absence(body)
    assert found is not None and found.poor and found.says in found.text


@pytest.mark.parametrize(
    "body",
    [
        "<title>Pots</title><p>The product was not found</p>",
        "<h1>Knot foundation kit</h1>",
        "<h1>Unknown artist, landscape</h1>",
        "<h1>" + "A text that goes on and on. " * 5 + "Not found</h1>",
        "",
    ],
)
def test_a_page_does_not_say_that_it_has_no_product(body: str) -> None:
    assert absence(body) is None


def test_of_a_page_with_a_product_only_the_name_says_that_it_has_none() -> None:
    body = "<h1>Pot</h1><div class=message>Page not found</div>"
    assert absence(body, title="Pot", text="Blue") is None
    found = absence(body, title="Not found", text="Blue")
    assert found is not None and not found.poor

"""How `scraper new` distinguishes things: ids in URLs, numbers of pages, check digits, and texts that
become YAML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.extract.document import Document
from scraper.extract.heuristics.codes import is_gtin
from scraper.plugins.author.commands.one_shop import name_site
from scraper.plugins.author.discovery.addresses import split_address
from scraper.plugins.author.discovery.css_paths import find_paths, matches_first
from scraper.plugins.author.discovery.fields.identity import choose_id
from scraper.plugins.author.discovery.fields.induction import FieldChoice, choose_fields
from scraper.plugins.author.discovery.fields.readings import read_candidate
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.listings.cards import find_link_groups
from scraper.plugins.author.discovery.listings.link_selectors import find_url_pattern
from scraper.plugins.author.discovery.listings.listing_page import ListingPage, is_product_page
from scraper.plugins.author.discovery.listings.next_links import find_next_link, find_second_links
from scraper.plugins.author.discovery.listings.page_numbers import (
    Numbering,
    find_numbered_links,
    find_page_counts,
    find_sent_params,
    infer_numbering,
    skips_pages,
)
from scraper.plugins.author.discovery.writing import write_inline
from scraper.sites.grammar import yaml12
from tests.unit.extract.extracting import URL, fetched

NO_SKU = {"sku": FieldChoice("sku", None, [])}


def document(body: str, url: str = URL) -> Document:
    return Document(fetched(body, url, content_type="text/html; charset=utf-8"), url)


@pytest.mark.parametrize(
    ("paths_", "pattern"),
    [
        (["/a-light_1000/index.html", "/b_3/index.html"], r"_(\d+)/index\.html"),
        (["/p/12-chair", "/p/13-lamp-2"], r"/p/(\d+)-"),
        (["/chair-5512.html", "/lamp-no-3-5513.html"], r"-(\d{3,})\.html"),
        (["/show.php?lang=en&id=7", "/show.php?lang=en&id=8"], r"[?&]id=([\w-]+)"),
        (["/item/no-3", "/item/no-4"], r"/([^/?#]+?)(?:\.\w+)?/?(?:[?#]|$)"),
        (["/a/chair", "/b/lamp/"], r"/([^/?#]+?)(?:\.\w+)?/?(?:[?#]|$)"),
    ],
)
def test_an_id_is_what_every_url_has_in_one_place_and_each_another(
    paths_: list[str], pattern: str
) -> None:
    assert choose_id([f"https://shop.example{path}" for path in paths_], NO_SKU, []) == {
        "url": pattern
    }


@pytest.mark.parametrize(
    ("path", "other", "is_same"),
    [
        ("/a/kettle", "/kettle?colour=red", True),
        ("/a/kettle_1/index.html", "/b/jug_2/index.html", False),
        ("/a/kettle_1/index.html", "/kettle_1/", True),
        ("/index.php?id=1", "/index.php?id=2", False),
        ("/index.php?id=1", "/shop/index.php?id=1&size=s", True),
    ],
)
def test_addresses_that_may_be_of_one_page(path: str, other: str, is_same: bool) -> None:
    addresses = [split_address(f"https://shop.example{text}") for text in (path, other)]
    assert addresses[0].may_be(addresses[1]) is is_same


def test_a_number_that_two_products_share_is_not_an_id() -> None:
    urls = ["https://shop.example/2024/x", "https://shop.example/2024/y"]
    assert choose_id(urls, NO_SKU, []) == {"url": r"/([^/?#]+?)(?:\.\w+)?/?(?:[?#]|$)"}


@pytest.mark.parametrize(
    ("second", "third", "expected"),
    [
        ("https://s.example/l?page=2", "https://s.example/l?page=3", Numbering(1, 1, param="page")),
        ("https://s.example/l?o=24", "https://s.example/l?o=48", Numbering(0, 24, param="o")),
        ("https://s.example/l?page=1", "https://s.example/l?page=2", Numbering(0, 1, param="page")),
        (
            "https://s.example/l/page-2.html",
            "https://s.example/l/page-3.html",
            Numbering(1, 1, template="https://s.example/l/page-{page}.html"),
        ),
        ("https://s.example/l?page=2", None, Numbering(1, 1, param="page")),
        ("https://s.example/l2/a", None, None),
        ("https://s.example/1/2", "https://s.example/2/3", None),
        # No definition may count so.
        ("https://s.example/l?after=1700000", "https://s.example/l?after=1800050", None),
        ("https://s.example/l?p=1", "https://s.example/l?p=6", None),
        ("https://s.example/l?p$x=2", "https://s.example/l?p$x=3", None),
    ],
)
def test_pages_are_numbered_by_the_one_number_that_changes(
    second: str, third: str | None, expected: Numbering | None
) -> None:
    assert infer_numbering(second, third) == expected


@pytest.mark.parametrize(
    "body",
    [
        '<a href="/2" rel="next">x</a>',
        '<a href="/0">1</a><a href="/2">Weiter »</a>',
        '<div class="pagination"><a href="/1">‹</a><a href="/2">›</a></div>',
        '<li class="next"><a href="/2">2</a></li>',
        '<a href="/2" aria-label="Página siguiente"></a><a href="/2" title="Siguiente">+</a>',
    ],
)
def test_the_link_to_the_next_page(body: str) -> None:
    page = document(body, "https://shop.example/1")
    following = find_next_link(page)
    assert following is not None and following[1] == "https://shop.example/2"


NUMBERED = "<b>1</b>" + "".join(f"<a href='?page={n}'>{n}</a>" for n in range(2, 6))


@pytest.mark.parametrize(
    ("pager", "skips"),
    [
        (NUMBERED + "<a class=pg_next href='?page=6'>다음</a>", True),
        (NUMBERED + "<a href='?page=20'>»</a>", True),
        (NUMBERED + "<a rel=next href='?page=2'>»</a>", False),
        (NUMBERED + "<a rel=next href='/l?page=2&sort=x'>»</a>", False),
        ("<a rel=next href='?page=9'>»</a>", False),
        (NUMBERED + "<a rel=next href='/other'>»</a>", False),
    ],
)
def test_a_link_to_the_next_page_may_skip_those_with_numbers(pager: str, skips: bool) -> None:
    page = document(f"<nav class=pagination>{pager}</nav>", "https://shop.example/l")
    following = find_next_link(page)
    assert following is not None
    assert skips_pages(following[1], find_numbered_links(page), page.url) is skips


def test_a_link_that_is_called_next_week_is_none() -> None:
    assert find_next_link(document('<a href="/2">Next week: new lamps</a>')) is None


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ('<a href="/things/before/2">Older things</a><a href="/things/old-lamp">Lamp</a>', 1),
        ('<a href="/things/before/2">»»</a><a href="/things/lamps-c2">Lamps</a>', 1),
        ('<a href="/things/shelf-1">Shelf 1</a><a href="/things/shelf-2">Shelf 2</a>', 0),
        ('<a href="/things/12">A dozen</a><a href="/about/2">About</a>', 0),
        ('<a href="/things/lamps-c2">Lamps</a><a href="/things/pots-c1">Pots</a>', 0),
        ('<a href="/things/lamp2.html">Lamp</a>', 0),
    ],
)
def test_a_second_page_is_known_by_its_address(body: str, links: int) -> None:
    listed = find_second_links(document(body, "https://shop.example/things"))
    assert len(listed) == links
    assert not links or listed[0][1] == "https://shop.example/things/before/2"


@pytest.mark.parametrize("path", ["?start=2", "/page2", "/seite-2/", "/page-2.html"])
def test_the_second_page_may_be_named(path: str) -> None:
    shown = document(f'<a href="/things{path}">Older</a>', "https://shop.example/things")
    assert [url for _, url in find_second_links(shown)] == [f"https://shop.example/things{path}"]


def test_gtin_have_a_check_digit() -> None:
    assert is_gtin("4006381333931") and is_gtin("96385074")
    assert not is_gtin("4006381333932") and not is_gtin("12345") and not is_gtin("a897fe39b1053632")


@given(st.text(max_size=60))
def test_whatever_a_shop_writes_is_one_text_of_the_yaml(text: str) -> None:
    line = f"a: {write_inline({'css': text, 'n': 1, 'b': True})}\nb: 2\n"
    if "\x00" in text or any(0xD800 <= ord(char) < 0xE000 for char in text):
        return
    parsed = yaml12.parse(line)
    assert parsed.data == {"a": {"css": text, "n": 1, "b": True}, "b": 2}, line


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://www.books.example/", "books"),
        ("https://shop.ferro.co.uk/x", "ferro"),
        ("http://127.0.0.1:8800/", "local-8800"),
        ("https://example.com", "example"),
    ],
)
def test_a_site_is_named_after_its_host(url: str, name: str) -> None:
    assert name_site(url) == name


CARDS = "".join(
    f'<div class="card"><a href="/thing/{n}"><img src="/{n}.jpg"><b>Thing {n}</b></a><i>{n}.50 €</i></div>'
    for n in range(1, 6)
)
MENU = "".join(f'<a href="/c/{n}">Group {n}</a>' for n in range(9))


def test_products_are_links_with_cards_of_their_own() -> None:
    groups = find_link_groups(document(f"<nav>{MENU}</nav><div>{CARDS}</div>"), lambda url: True)
    assert groups[0].is_products and len(groups[0].cards) == 5
    assert not any(group.is_products for group in groups[1:])
    assert [str(card.prices[0]) for card in groups[0].cards][:2] == ["1.50", "2.50"]
    assert find_url_pattern(groups[0].urls) is not None


def test_a_selector_is_written_by_what_lasts() -> None:
    page = document(
        '<div class="css-1x2y3z"><p id="p1234567" class="cost col-6" itemprop="price">1</p></div>'
    )
    element = page.dom.css_first("p")
    assert element is not None
    written = [path.css for path in find_paths(element)]
    assert written[:2] == ["[itemprop=price]", ".cost"]
    assert not any("1x2y3z" in css or "1234567" in css for css in written)
    assert all(matches_first(css, element, page.dom) for css in written)


def test_what_never_changes_is_the_frame_and_what_differs_is_the_field() -> None:
    bodies = [
        f"<title>{name} - Shop</title><h2 class=claim>Free delivery from £5.00</h2>"
        f"<h1>{name}</h1><p class=cost>£{n}.25</p><p>SKU: AB-{n}</p><p>Brand: Ferro</p>"
        for n, name in enumerate(["Chair", "Lamp", "Shelf", "Vase"], 3)
    ]
    fields = choose_fields(
        [ProductSample(document(body, f"{URL}{n}"), None) for n, body in enumerate(bodies)]
    )
    title, price, sku = (fields[name].best for name in ("title", "price", "sku"))
    assert title is not None and title.values == ["Chair", "Lamp", "Shelf", "Vase"]
    assert price is not None and [str(value) for value in price.values] == [
        "3.25",
        "4.25",
        "5.25",
        "6.25",
    ]
    assert sku is not None and sku.values == ["AB-3", "AB-4", "AB-5", "AB-6"]
    assert fields["gtin"].best is None and fields["rating"].best is None


@pytest.mark.parametrize(
    ("body", "product"),
    [
        ('{"@type": "Product", "name": "K", "offers": {}}', True),
        ('{"@type": ["Product"], "name": "K", "offers": {}}', True),
        ('{"@type": "ProductGroup", "hasVariant": [{"@type": "Product", "offers": {}}, {"@type": "Product", "offers": {}}]}', True),
        ('[{"@type": "Product", "offers": {}}, {"@type": "Product", "offers": {}}]', False),
        ('{"@type": "Organization"}', False),
    ],
)  # fmt: skip
def test_a_page_about_one_product_says_so(body: str, product: bool) -> None:
    page = fetched(f'<script type="application/ld+json">{body}</script>')
    assert is_product_page(ListingPage(URL, page, Document(page, URL), [])) is product


def _product_page(number: int, *, brand: str = "", former: str = "") -> ProductSample:
    """A product page with a footer whose link "Brands" is a label in other places."""
    maker = f"<li>Brands: <a href='/b'>{brand}</a></li>" if brand else ""
    body = f"""<title>Kettle {number}</title><h1>Kettle {number}</h1>
    <ul class="list-unstyled">{maker}<li>Product Code: K-{number}</li></ul>
    <ul class="list-unstyled">{former}<li><h2>${number}.00</h2></li></ul>
    <form><input type="hidden" name="product_id" value="{number}"></form>
    <footer><ul><li><a href="/brands">Brands</a></li><li><a href="/aff">Affiliate</a></li></ul>
    </footer>"""
    return ProductSample(document(body, f"https://shop.example/x/kettle-{number}"), None)


def test_a_link_of_the_footer_is_not_a_brand() -> None:
    makers = ["Norrland", "", "Arbor", "", "", "Ferro"]
    samples = [_product_page(20 + n, brand=maker) for n, maker in enumerate(makers)]
    best = choose_fields(samples)["brand"].best
    assert best is not None
    assert best.values == [maker or None for maker in makers]


def test_a_former_price_is_found_by_its_line() -> None:
    line = '<li><span style="text-decoration: line-through;">$99.00</span></li>'
    samples = [_product_page(20 + n, former=line if n % 3 == 0 else "") for n in range(9)]
    best = choose_fields(samples)["list_price"].best
    assert best is not None
    assert [value is not None for value in best.values] == [n % 3 == 0 for n in range(9)]


@pytest.mark.parametrize(
    "reduced",
    [
        "<div class=box><del>$99.00</del> <b class=price>$20.00</b></div>",
        '<div class=box><b class=price>$20.00</b><span class="txt Old-Price">$99.00</span></div>',
        '<span style="text-decoration: line-through">$99.00</span><div class=box><b class=price>$20.00</b></div>',
        "<div class=box><b class=price>$20.00</b></div><s>$99.00</s>",
    ],
)
def test_where_nothing_is_reduced_a_former_price_is_expected_at_the_price(reduced: str) -> None:
    related = """<aside><h2>Related</h2><div class=card><a href=/x/7>Pan 7</a><div class=box>
    <del>$70.00</del><b class=price>$7.00</b></div></div></aside>"""

    def page(number: int, price: str, more: str = "") -> ProductSample:
        return ProductSample(
            document(
                f"<title>Pot {number}</title><h1>Pot {number}</h1><main><p>Oak</p>{price}{more}</main>"
            ),
            None,
        )

    plain = "<div class=box><b class=price>${}.00</b></div>"
    samples = [page(n, plain.format(20 + n)) for n in range(6)]
    choice = choose_fields(samples)["list_price"]
    assert choice.best is not None and choice.best.count == 0
    assert choice.definition()["floor"] == 0
    for more in ("", related):
        read = [
            reading.values[0]
            for chosen in choice.readings
            if (reading := read_candidate("list_price", chosen.candidate, [page(9, reduced, more)]))
        ]
        assert read[:1] == [99], choice.definition()


def test_a_mark_that_each_page_has_is_not_one_of_a_former_price() -> None:
    def page(number: int) -> ProductSample:
        price = f'<div class=box><b class="price regular">${number}.00</b></div>'
        return ProductSample(document(f"<title>Pot</title><h1>Pot</h1>{price}"), None)

    definition = choose_fields([page(20 + n) for n in range(6)])["list_price"].definition()
    assert "del" in str(definition) and "regular" not in str(definition)


def test_the_number_that_goes_to_the_cart_identifies_a_product_of_two_addresses() -> None:
    samples = [_product_page(20 + n) for n in range(6)]
    urls = ["https://shop.example/kettle", "https://shop.example/pots/kettle"]
    chosen = choose_id(urls, choose_fields(samples), samples)
    assert chosen == {"css": 'input[name="product_id"]::attr(value)'}


def test_a_number_that_many_products_share_is_not_an_id() -> None:
    samples = [_product_page(20 + n) for n in range(6)]
    for sample in samples[1:]:
        hidden = sample.document.dom.css_first("input")
        assert hidden is not None
        hidden.attrs["value"] = "20"
    chosen = choose_id(["https://shop.example/a"] * 2, choose_fields(samples), samples)
    assert chosen is None or "css" not in chosen or "input" not in chosen["css"]


def _page_of_an_engine(number: int, former: str = "", related: str = "") -> ProductSample:
    """As a widely used engine writes it: a listing's card and a related product's are alike, and
    only on pages of few products."""
    price = f'<span class="price-new">${number}.00</span>'
    block = f"<li><h2>{price}</h2></li>"
    if former:
        block = f'<li><span class="price-old">{former}</span></li>{block}'
    card = f"""<div class="thumb"><a href="/x/{number}"><img src="/{number}.jpg">Kettle {number}</a>
    <div class="price">{price}{f'<span class="price-old">{former}</span>' if former else ""}</div>
    </div>"""
    page = document(
        f"""<title>Kettle {number}</title><div id="content"><h1>Kettle {number}</h1>
    <ul class="list-unstyled"><li>Model: K-{number}</li></ul>
    <ul class="list-unstyled">{block}</ul>{related}</div>""",
        f"https://shop.example/x/{number}",
    )
    others = "".join(
        f'<div class="thumb"><a href="/x/{n}"><img src="/{n}.jpg">Pan {n}</a><div>${n}.00</div></div>'
        for n in (7, 8, 9)
    )
    [group, *_] = find_link_groups(document(f"<div>{card}{others}</div>"), lambda url: True)
    return ProductSample(page, group.cards[0])


def test_a_price_is_not_read_from_a_related_product() -> None:
    samples = [_page_of_an_engine(20 + n, former="$99.00" if n % 3 == 0 else "") for n in range(9)]
    fields = choose_fields(samples)
    for name in ("price", "list_price"):
        assert len(fields[name].readings) > 0, name
    # None of the samples has a related product; this page does.
    related = """<div class="thumb"><a href="/x/3"><img src="/3.jpg">Pot</a><div class="price">
    <span class="price-new">$3.00</span><span class="price-old">$9.00</span></div></div>"""
    page = _page_of_an_engine(50, related=related)
    best = fields["list_price"].best
    assert best is not None
    reading = read_candidate("list_price", best.candidate, [page])
    assert reading is None, reading
    price = page.document.dom.css_first("#content h2")
    assert price is not None
    price.decompose()
    best = fields["price"].best
    assert best is not None
    reading = read_candidate("price", best.candidate, [page])
    assert reading is None, reading


@pytest.mark.parametrize(
    ("text", "pages"),
    [
        ("1-12 of 82", []),
        ("Items 1 to 12 of 82 total", []),
        ("1–12 von 82", []),
        ("Page 1 of 7", [7]),
        ("1-12 of 82</p><p>Page 1 of 7", [7]),
    ],
)
def test_a_span_of_products_is_not_a_count_of_pages(text: str, pages: list[int]) -> None:
    counts = find_page_counts(document(f'<p class="amount">{text}</p>'), Numbering(1, 1, param="p"))
    assert sorted({count.pages for count in counts}) == pages


@pytest.mark.parametrize(
    ("form", "params"),
    [
        ('<form><button name="page" value="2">Next</button></form>', ["page"]),
        ('<form method="GET"><input type="submit" name="p" value="2"></form>', ["p"]),
        ('<form method="post"><button name="page" value="2">Next</button></form>', []),
        ('<form><button name="page" value="2" type="button">2</button></form>', []),
        ('<form><button name="qty" value="2">2</button><input name="page" value="2"></form>', []),
        ('<button name="page" value="2">Next</button>', []),
    ],
)
def test_buttons_of_a_form_ask_for_the_second_page(form: str, params: list[str]) -> None:
    assert find_sent_params(document(form)) == params

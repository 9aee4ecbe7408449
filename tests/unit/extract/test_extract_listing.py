from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Kind, Link
from scraper.sites.page import Page
from tests.unit.extract.extracting import fetched, listing, site, urls

PAGE1 = "https://shop.example/catalogue/page-1.html"
CARDS = (
    '<div class="card"><h3><a href="p/1">one</a></h3></div>'
    '<div class="card"><a name="x"></a><a href="p/2?utm_source=x#y">two</a></div>'
)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("'.card a'", ["catalogue/p/1", "catalogue/p/2"]),
        (".card", ["catalogue/p/1", "catalogue/p/2"]),
        ("'.card a::attr(href)'", ["catalogue/p/1", "catalogue/p/2"]),
        ("{xpath: '//h3/a'}", ["catalogue/p/1"]),
        ("{xpath: '//h3/a/@href'}", ["catalogue/p/1"]),
        ("{css: .card a, match: '/2$'}", ["catalogue/p/2"]),
        ("{regex: 'href=\"(p/\\d)'}", ["catalogue/p/1", "catalogue/p/2"]),
        ("[h3 a, .card]", ["catalogue/p/1", "catalogue/p/2"]),
        ("{css: a, attr: name}", ["catalogue/x"]),
    ],
)
def test_a_link_selector(selector: str, expected: list[str]) -> None:
    assert urls(listing(f"{{products: {selector}}}", CARDS, PAGE1)) == expected


def test_jsonld_links_come_from_every_object() -> None:
    body = '<script type="application/ld+json">[{"@type":"Product","url":"/a"},{"@type":"Product","url":"/b"}]</script>'
    assert urls(listing("{products: {jsonld: url}}", body, PAGE1)) == ["a", "b"]


def test_links_elsewhere_and_no_links_are_dropped_in_silence() -> None:
    hrefs = [
        "mailto:a@b.example",
        "javascript:void(0)",
        "https://other.example/x",
        "http://[",
        "#",
        "https://u:p@shop.example/",
        "x" * 2100,
        "https://m.shop.example/ok",
        "//shop.example/ok2",
        "\ud800",
        "",
    ]
    body = "".join(f'<a href="{href}">' for href in hrefs)
    found = listing("{products: a}", body.encode("utf-8", "replace"), PAGE1, depth=1)
    kept = [link.url for link in found.links]
    assert "https://m.shop.example/ok" in kept
    assert "https://shop.example/ok2" in kept
    assert all("other.example" not in url and "@" not in url for url in kept)


def test_a_start_page_without_links_is_broken_and_says_which_selector() -> None:
    found = listing("{products: .card a, listings: nav a}", "<p>maintenance</p>", PAGE1)
    assert not found.complete
    assert found.problems == [
        "listing.products: nothing matched css '.card a'",
        "listing.listings: nothing matched css 'nav a'",
    ]
    assert listing("{products: .card a}", "<p>empty category</p>", PAGE1, depth=1).complete


def test_a_start_page_with_foreign_links_alone_points_at_hosts() -> None:
    found = listing("{products: a}", '<a href="https://other.example/">', PAGE1)
    assert not found.complete
    assert "1 on hosts that are not the site's (see `hosts`)" in found.problems[0]
    assert listing(
        "{products: a}", '<a href="https://other.example/">', PAGE1, extra="hosts: other.example\n"
    ).complete


def test_a_url_is_one_link() -> None:
    found = listing(
        "{products: a, next: a}", '<a href="x"><a href="x#y"><a href="x?utm_id=1">', PAGE1
    )
    assert [(link.url, link.kind) for link in found.links] == [
        ("https://shop.example/catalogue/x", Kind.PRODUCT)
    ]


def test_next() -> None:
    found = listing(
        "{products: .card a, next: 'li.next a'}", CARDS + '<li class="next"><a href="?p=2">', PAGE1
    )
    assert urls(found, Kind.LISTING) == ["catalogue/page-1.html?p=2"]


def pages(
    spec: str,
    body: str = "<li>Page 1 of 4</li>",
    url: str = PAGE1,
    depth: int = 0,
    extra: str = "",
    asked: str | None = None,
) -> list[str]:
    return urls(
        listing(f"{{products: .card a, pages: {spec}}}", CARDS + body, url, depth, extra, asked),
        Kind.LISTING,
    )


COUNT = "{css: li, regex: 'of (\\d+)', url: 'page-{page}.html'}"


def test_a_count_fans_out_from_the_first_page_alone() -> None:
    others = [f"catalogue/page-{number}.html" for number in (2, 3, 4)]
    assert pages(COUNT) == others
    assert pages(COUNT, depth=3) == others
    assert pages(COUNT, url="https://shop.example/catalogue/", depth=1) == others
    assert pages(COUNT, url="https://shop.example/catalogue/page-3.html", depth=1) == []
    assert (
        pages(
            COUNT,
            url="https://shop.example/catalogue/",
            depth=1,
            asked="https://shop.example/catalogue/page-3.html",
        )
        == []
    )


def test_a_start_page_in_the_middle_fans_out_too() -> None:
    found = pages(COUNT, url="https://shop.example/catalogue/page-3.html", depth=0)
    assert found == [f"catalogue/page-{number}.html" for number in (1, 2, 4)]


def test_a_deeper_pattern_is_recognised_on_its_own_pages() -> None:
    spec = "{css: li, regex: 'of (\\d+)', url: 'catalogue/page-{page}.html'}"
    assert pages(spec, url="https://shop.example/") == [
        f"catalogue/page-{number}.html" for number in (2, 3, 4)
    ]
    assert pages(spec, url="https://shop.example/catalogue/page-2.html", depth=1) == []


@pytest.mark.parametrize("spec", ["{css: li, param: page}", "{css: li, url: '?page={page}'}"])
def test_a_query_parameter(spec: str) -> None:
    assert pages(spec, url="https://shop.example/c") == ["c?page=2", "c?page=3", "c?page=4"]
    assert pages(spec, url="https://shop.example/c?page=2", depth=1) == []
    assert pages(spec, url="https://shop.example/c?page=1", depth=1) == [
        "c?page=2",
        "c?page=3",
        "c?page=4",
    ]


def test_a_parameter_keeps_the_others() -> None:
    found = pages(
        "{last: 3, param: 'p'}", url="https://shop.example/c?sort=x&p=1&q=%C3%BC", depth=1
    )
    assert found == ["c?sort=x&p=2&q=%C3%BC", "c?sort=x&p=3&q=%C3%BC"]


def test_products_counted_in_place_of_pages() -> None:
    spec = "{css: b, regex: '([\\d,]+) products', per_page: 500, param: page}"
    assert len(pages(spec, "<b>1,001 products</b>")) == 2
    assert len(pages(spec, "<b>1,000 products</b>")) == 1
    assert pages(spec, "<b>no products</b>") == []


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("« 1 2 3 4 5 »", 5),
        ("98 99 100", 100),
        ("99 100", 100),
        ("1 002", 1002),
        ("123 124", 124),
        ("100 101 102", 102),
        ("1 … 47 48. Next", 48),
        ("1 2 3 100", 100),
        ("1 034 pages", 1034),
        ("1 - 48 of 1 004.", 1004),
        ("of 1.034", 1034),
        ("of 1’034", 1034),
    ],
)
def test_the_last_number_counts(text: str, last: int) -> None:
    found = pages("{css: nav, param: page}", f"<nav>{text}</nav>")
    assert len(found) == last - 1


def test_steps() -> None:
    assert pages("{param: start, first: 0, step: 24, last: 72}", url="https://shop.example/c") == [
        "c?start=24",
        "c?start=48",
        "c?start=72",
    ]
    assert pages(
        "{param: start, first: 0, step: 24}", url="https://shop.example/c?start=24", depth=1
    ) == ["c?start=48"]


def test_without_a_last_page_it_walks_until_a_page_has_no_products() -> None:
    assert pages("{param: page}", url="https://shop.example/c") == ["c?page=2"]
    assert pages("{param: page}", url="https://shop.example/c?page=7", depth=6) == ["c?page=8"]
    assert (
        urls(
            listing(
                "{products: .none, pages: {param: page}}", "", "https://shop.example/c?page=8", 7
            ),
            Kind.LISTING,
        )
        == []
    )


def test_fan_out_is_bounded_by_the_limit() -> None:
    assert len(pages(COUNT, "<li>1 of 999999999</li>", extra="limits: {listings: 50}\n")) == 49
    assert (
        pages(
            "{param: page}",
            url="https://shop.example/c?page=50",
            depth=1,
            extra="limits: {listings: 50}\n",
        )
        == []
    )


def test_an_absurd_count_is_a_problem() -> None:
    found = listing(
        f"{{products: .card a, pages: {COUNT}}}", CARDS + f"<li>1 of {'9' * 40}</li>", PAGE1
    )
    assert urls(found, Kind.LISTING) == []
    assert found.problems[0].startswith("listing.pages: ")
    assert found.complete


@given(
    st.binary(max_size=200),
    st.sampled_from([PAGE1, "https://shop.example/?page=" + "9" * 30, "nonsense", "http://["]),
    st.integers(0, 3),
)
def test_no_page_raises(body: bytes, url: str, depth: int) -> None:
    spec = "{products: [a, {regex: 'href=(.+)'}, {jsonld: url}], next: '[rel=next]', pages: {css: li, param: page}}"
    listing(spec, b"<a href='" + body + b"'><li>" + body, url, depth)


@pytest.mark.parametrize(
    ("head", "header", "query"),
    [
        ("<meta charset=windows-1251>", "", "%F7%E0%E9%ED%E8%EA"),
        ("", "text/html; charset=windows-1251", "%F7%E0%E9%ED%E8%EA"),
        ("<meta charset=koi8-r>", "", "%DE%C1%CA%CE%C9%CB"),
        ("<meta charset=utf-8>", "", "%D1%87%D0%B0%D0%B9%D0%BD%D0%B8%D0%BA"),
        ("<meta charset=utf-16le>", "", "%D1%87%D0%B0%D0%B9%D0%BD%D0%B8%D0%BA"),
    ],
)
def test_queries_are_in_the_encoding_of_their_page(head: str, header: str, query: str) -> None:
    """The path is always in UTF-8, as browsers send it."""
    encoding = "cp1251" if "1251" in head + header else "koi8-r" if "koi8" in head else "utf-8"
    body = f'{head}<a href="/чай?q=чайник&amp;n=1#чай">x</a>'.encode(encoding)
    page = fetched(body, PAGE1, **({"content_type": header} if header else {}))
    extractor = site(f"start: {PAGE1}\nlisting: {{products: a}}\nproduct: {{fields: {{a: b}}}}\n")
    links = extractor.extract(Kind.LISTING, page, page_url=PAGE1, depth=0).links
    assert [link.url for link in links] == [
        f"https://shop.example/%D1%87%D0%B0%D0%B9?q={query}&n=1"
    ]


def test_a_letter_that_an_encoding_lacks_is_sent_as_its_number() -> None:
    body = '<meta charset=windows-1251><a href="/x?q=caf&eacute;&amp;n=1">x</a>'
    assert urls(listing("{products: a}", body, PAGE1)) == ["x?q=caf%26%23233%3B&n=1"]


@pytest.mark.parametrize("fragment", ["#/product/{}", "#!/product/{}", "{here}#/product/{}"])
def test_fragments_as_pages_are_named(fragment: str) -> None:
    hrefs = [fragment.format(n, here=PAGE1) for n in range(3)]
    body = "".join(f'<a class=p href="{href}">x</a>' for href in hrefs)
    extracted = listing("{products: a.p}", body, PAGE1)
    assert not extracted.complete and not extracted.links
    assert "only fragments of one page (#/product/5)" in extracted.problems[0]


def test_a_fragment_behind_another_page_is_that_page() -> None:
    body = '<a href="/12-shirt.html#/1-size-s/8-color-white">x</a><a href="#top">up</a>'
    assert "12-shirt.html" in urls(listing("{products: a}", body, PAGE1))


@pytest.mark.parametrize("named_by", ["listing", "sitemap", "function"])
def test_parameters_of_products_are_dropped_whatever_names_them(
    named_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("shop_under_test")
    monkeypatch.setitem(sys.modules, "shop_under_test", module)
    monkeypatch.setattr(module, "links", _yield_links, raising=False)
    _yield_links.__module__ = "shop_under_test"
    spec = {
        "listing": "listing: {products: a.p, next: a.n}\n",
        "sitemap": "sitemap: {products: /p/, listings: /all, url: https://shop.example/s.xml}\n"
        "listing: {products: a.p}\n",
        "function": "listing: {function: 'shop_under_test:links'}\n",
    }[named_by]
    text = f"start: {PAGE1}\n{spec}product: {{fields: {{a: b}}, strip_params: page}}\n"
    links = "<a class=p href='/p/1?page=2'></a><a class=n href='/all?page=2'></a>"
    entries = "".join(f"<url><loc>https://shop.example/{path}</loc></url>" for path in NAMED)
    body = f"<urlset>{entries}</urlset>" if named_by == "sitemap" else links
    kind = Kind.SITEMAP if named_by == "sitemap" else Kind.LISTING
    extracted = site(text).extract(kind, fetched(body, PAGE1), page_url=PAGE1, depth=0)
    assert urls(extracted) == ["p/1"]
    assert urls(extracted, Kind.LISTING) == ["all?page=2"]


NAMED = ("p/1?page=2", "all?page=2")


def _yield_links(page: Page) -> Iterator[Link]:
    for path, kind in zip(NAMED, (Kind.PRODUCT, Kind.LISTING), strict=True):
        yield Link(f"/{path}", kind)

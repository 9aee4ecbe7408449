from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Extracted, Kind
from scraper.extract import sitemap as module
from tests.unit.extract.extracting import fetched, site, urls

NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'


def urlset(*paths: str) -> str:
    entries = "".join(
        f"<url><loc>\n https://shop.example/{path} </loc><image:image><image:loc>https://shop.example/i.png</image:loc></image:image></url>"
        for path in paths
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {NS}>{entries}</urlset>'


def read(
    body: str | bytes,
    spec: str = "https://shop.example/sitemap.xml",
    url: str = "https://shop.example/sitemap.xml",
) -> Extracted:
    extractor = site(f"sitemap: {spec}\nlisting: {{products: a}}\nproduct: {{fields: {{a: b}}}}\n")
    return extractor.extract(Kind.SITEMAP, fetched(body, url), page_url=url, depth=0)


def test_every_url_is_a_product_by_default_and_images_are_not() -> None:
    assert urls(read(urlset("a", "b", "a"))) == ["a", "b"]


@pytest.mark.parametrize(
    ("rules", "products", "listings"),
    [
        ("products: '/p/'", ["p/1"], []),
        ("listings: '/c/'", ["p/1", "x"], ["c/1"]),
        ("products: '/p/', listings: '/c/'", ["p/1"], ["c/1"]),
    ],
)
def test_rules_separate_products_from_listings(
    rules: str, products: list[str], listings: list[str]
) -> None:
    found = read(urlset("p/1", "c/1", "x"), f"{{url: https://shop.example/s.xml, {rules}}}")
    assert urls(found) == products
    assert urls(found, Kind.LISTING) == listings


LASTMOD = [
    ("2026-02-01", datetime(2026, 2, 1, tzinfo=UTC)),
    (" 2026-02-01T10:20:30Z ", datetime(2026, 2, 1, 10, 20, 30, tzinfo=UTC)),
    ("2026-02-01T10:20+02:00", datetime(2026, 2, 1, 8, 20, tzinfo=UTC)),
    ("2026-02-01T10:20:30.5+00:00", datetime(2026, 2, 1, 10, 20, 30, 500_000, tzinfo=UTC)),
    ("2026-02-01T10:20:30+20:00", datetime(2026, 1, 31, 14, 20, 30, tzinfo=UTC)),
    ("9999-12-31T23:59:59-10:00", None),
    ("", None),
    ("yesterday", None),
    ("2026-02-31", None),
    ("0001-01-01T00:00:00+00:00", None),
    ("1970-01-01", None),
    ("20260201", None),
]


@pytest.mark.parametrize(("written", "lastmod"), LASTMOD)
@pytest.mark.parametrize("follow", ["true", "false"])
def test_products_are_named_with_their_dates(
    written: str, lastmod: datetime | None, follow: str
) -> None:
    entries = "".join(
        f"<url><loc>https://shop.example/{path}</loc><lastmod>{written}</lastmod></url>"
        for path in ("p/1", "c/1", "p/1", "p/2?utm_source=x")
    )
    rules = f"{{url: https://shop.example/s.xml, products: '/p/', follow: {follow}}}"
    found = read(f"<urlset {NS}>{entries}</urlset>", rules)
    products = ["https://shop.example/p/1", "https://shop.example/p/2"]
    assert [*found.named] == [(url, lastmod) for url in products]
    # PostgreSQL refuses offsets of 16 hours and more.
    assert all(at is None or at.utcoffset() == timedelta(0) for _, at in found.named)
    assert len(found.links) == (2 if follow == "true" else 0)


def test_an_index_leads_to_sitemaps() -> None:
    body = f"<sitemapindex {NS}><sitemap><loc>https://shop.example/s1.xml.gz</loc></sitemap></sitemapindex>"
    assert urls(read(body), Kind.SITEMAP) == ["s1.xml.gz"]


def test_gzip_in_one_part_or_more() -> None:
    body = urlset("a").encode()
    assert urls(read(gzip.compress(body))) == ["a"]
    assert urls(read(gzip.compress(body[:50]) + gzip.compress(body[50:]))) == ["a"]


def test_a_gzip_bomb_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNPACKED_MAX_BYTES", 1000)
    found = read(gzip.compress(urlset("a").encode() + b" " * 10_000_000))
    assert urls(found) == ["a"]
    assert "larger than 50 MB" in found.problems[0]


def test_broken_gzip_gives_what_it_has() -> None:
    packed = gzip.compress(urlset(*map(str, range(3000))).encode())
    assert 0 < len(urls(read(packed[: len(packed) // 2]))) < 3000
    assert not read(b"\x1f\x8bnonsense").complete


def test_robots_txt_and_plain_lists() -> None:
    robots = (
        "User-agent: *\nDisallow: /x\nSitemap: https://shop.example/s.xml\nsitemap: /t.xml # no\n"
    )
    found = read(robots, "https://shop.example/robots.txt", "https://shop.example/robots.txt")
    assert urls(found, Kind.SITEMAP)[0] == "s.xml"
    assert urls(
        read("\ufeffhttps://shop.example/a\n\nhttps://shop.example/b\nnonsense\n".encode())
    )[:2] == ["a", "b"]


def test_foreign_urls_are_left_out_with_a_problem() -> None:
    found = read(
        urlset("a").replace("</urlset>", "<url><loc>https://other.example/</loc></url></urlset>")
    )
    assert urls(found) == ["a"]
    assert "1 URLs of the sitemap are on hosts that are not the site's" in found.problems[0]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html><body>not found</body></html>",
        "{}",
        "nope",
        "<",
        "<?xml version='1.0'?>",
        b"\x00\xff",
        b"\xff\xfe<",
    ],
)
def test_a_body_that_is_not_a_sitemap_is_incomplete(body: str | bytes) -> None:
    assert not read(body).complete


def test_an_empty_sitemap_is_a_sitemap() -> None:
    assert read(urlset()).complete


def test_broken_xml_gives_what_comes_before() -> None:
    assert urls(
        read(
            urlset("a", "b").replace(
                "</urlset>", "<url><loc>https://shop.example/c?x=1&y=2</loc></url><<<"
            )
        )
    )[:2] == ["a", "b"]


@pytest.mark.parametrize(("repeats", "expected"), [(2, ["a?b=1&c=2"]), (1000, [])])
def test_entities_are_not_expanded(repeats: int, expected: list[str]) -> None:
    bomb = f'<!ENTITY b "{"&a;" * repeats}"><!ENTITY c "{"&b;" * repeats}">'
    doctype = f'<!DOCTYPE urlset [<!ENTITY a "https://shop.example/x">{bomb}<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    entries = "".join(
        f"<url><loc>{loc}</loc></url>"
        for loc in ("&c;", "&f;", "https://shop.example/a?b=1&amp;c=2")
    )
    found = read(f"<?xml version='1.0'?>{doctype}<urlset {NS}>{entries}</urlset>")
    assert urls(found) == expected
    assert found.complete is bool(expected)


def test_at_most_50000_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "URLS_MAX", 2)
    found = read(urlset("a", "b", "c"))
    assert urls(found) == ["a", "b"]
    assert "the others are left out" in found.problems[0]


@given(
    st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=100).map(lambda junk: urlset("a").encode()[:-20] + junk),
    )
)
def test_no_body_raises(body: bytes) -> None:
    read(body)
    read(body, url="https://shop.example/robots.txt")


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("s?q=1&page=2&amp;sort=up", "s?q=1&page=2&sort=up"),
        ("a&b/c", "a&b/c"),
        ("cr&egrave;me-br&ucirc;l&eacute;e", "cr%C3%A8me-br%C3%BBl%C3%A9e"),
        ("<![CDATA[https://shop.example/s?q=1&eacute;=2]]>", "s?q=1&eacute;=2"),
        ("s?a=1&#38;b=&#x32;&nosuch;", "s?a=1&b=2&nosuch;"),
        ("s?copy=1&copy=2", "s?copy=1&copy=2"),
    ],
)
def test_an_ampersand_that_is_not_escaped_stays_in_the_url(written: str, path: str) -> None:
    body = urlset("x", "y").replace("https://shop.example/x", f"https://shop.example/{written}")
    body = body.replace("https://shop.example/<![", "<![")
    assert urls(read(body)) == [path, "y"]


@pytest.mark.parametrize("label", ["UTF-16", "utf-16le", "unicode", "UCS-2"])
def test_a_declared_encoding_that_cannot_be_is_ignored(label: str) -> None:
    assert urls(read(urlset("a", "b").replace("UTF-8", label))) == ["a", "b"]
    real = urlset("ä", "b").replace("UTF-8", "UTF-16").encode("utf-16")
    assert urls(read(real)) == ["%C3%A4", "b"]


def test_warnings_before_a_sitemap_are_left_out() -> None:
    for noise in ("Warning: x in /y.php on line 3\n", "<br />\n<b>Notice</b>: x<br />\n"):
        assert urls(read(noise + urlset("a"))) == ["a"]
        assert urls(read(noise + urlset("a").partition("\n")[2])) == ["a"]
    assert not read("<html><body><a href='/urlset'>x</a></body></html>").complete


@pytest.mark.parametrize(
    "broken",
    [
        "<url><loc><!-- one -->{a}</loc></url><url><loc>{b}</loc></url>",
        "<url><loc>{a}</loc><url><loc>{b}</loc></url>",
        "<url><loc><a href='{a}'>{a}</a></loc></url><url><loc>'{b}'</loc></url>",
        '<url><loc>"{a}"</loc></url><url><loc> {b}\n</loc><br></url>',
    ],
)
def test_what_shops_write_around_a_url_hides_none(broken: str) -> None:
    entries = broken.format(a="https://shop.example/a", b="https://shop.example/b")
    assert sorted(urls(read(f"<urlset {NS}>{entries}</urlset>"))) == ["a", "b"]


def test_a_url_that_was_escaped_twice_is_what_it_was() -> None:
    body = urlset("s?a=1&amp;amp;b=2")
    assert urls(read(body)) == ["s?a=1&b=2"]


def test_a_file_that_was_packed_twice() -> None:
    assert urls(read(gzip.compress(gzip.compress(urlset("a").encode())))) == ["a"]


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_plain_list_may_have_comments_and_dates(codec: str) -> None:
    text = "# made today\n\nhttps://shop.example/a\t2026-01-01\r\nhttps://shop.example/ä 0.5\n"
    assert urls(read(text.encode(codec))) == ["a", "%C3%A4"]

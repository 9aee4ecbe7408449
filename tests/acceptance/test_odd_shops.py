"""A dozen odd shops crawled at once by one coordinator and one worker: every page's end, every
product, every request."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from scraper.settings import Settings
from scraper.views import crawl_progress as progress
from tests.acceptance.commands import Commands, assert_counted, until
from tests.support.servers import forked
from tests.support.shops import odd_functions
from tests.support.shops.odd_shop import (
    Answer,
    OddShop,
    Page,
    at_first,
    bomb,
    drip,
    endless,
    garbage,
    hang,
    listing,
    product,
    redirect,
    reset,
    reset_in_body,
)

BODY_MAX = 1_000_000
LISTED, SITEMAP_URLS = 48, 3000
TRAP_LISTINGS, TRAP_PRODUCTS = 30, 40
SLOW_PAGES, CRAWL_DELAY_S = 5, 0.4
OPEN = """
import sys
from scraper import settings
from scraper.actions import crawls
from scraper.infra.database import make_engine
s = settings.load()
for name in sys.argv[1:]:
    crawls.open_site(make_engine(s.postgres_url), s, name, refetch=False)
"""


@dataclass
class Expected:
    """What one site's crawl must come to."""

    status: str = "completed"
    # URL -> (status, last outcome)
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    products: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Crawled:
    shop: OddShop
    expected: dict[str, Expected]
    engine: sa.Engine

    def crawl(self, site: str) -> dict[str, Any]:
        with self.engine.connect() as connection:
            query = sa.text(
                "SELECT c.id FROM crawls c JOIN sites s ON s.id = c.site_id WHERE s.name = :site"
            )
            crawl_id = connection.execute(query, {"site": site}).scalar_one()
        return progress.as_json(progress.read_one(self.engine, crawl_id))

    def pages(self, site: str) -> dict[str, Any]:
        query = "SELECT p.* FROM pages p JOIN sites s ON s.id = p.site_id WHERE s.name = :site"
        with self.engine.connect() as connection:
            return {row.url: row for row in connection.execute(sa.text(query), {"site": site})}

    def products(self, site: str) -> dict[str, dict[str, Any]]:
        query = """
            SELECT external_id, url, CAST(data AS text) AS data FROM products p JOIN sites s ON s.id = p.site_id
             WHERE s.name = :site"""
        with self.engine.connect() as connection:
            rows = list(connection.execute(sa.text(query), {"site": site}))
        return {
            row.external_id: {"url": row.url, **json.loads(row.data, parse_float=Decimal)}
            for row in rows
        }


class Maker:
    """Builds one site: its pages on the shop, its definition, and what is expected."""

    def __init__(self, shop: OddShop, folder: Path, name: str, port: int = 0) -> None:
        self.shop, self.name, self.port = shop, name, port
        self.expected = Expected()
        self.folder = folder

    def define(self, **definition: Any) -> None:
        base = {
            "allow_private": True,
            "rate": "unlimited",
            "concurrency": 40,
            "revisit": "0",
            "limits": {"attempts": 2},
        }
        (self.folder / f"{self.name}.yaml").write_text(json.dumps({**base, **definition}))

    def listing(self, target: str, page: Page, status: str = "ok", outcome: str = "fetched") -> str:
        url = self.shop.serve(target, page, self.port)
        self.expected.pages[url] = (status, outcome)
        return url

    def page(
        self,
        target: str,
        page: Page | Callable[[int], Page],
        status: str = "ok",
        outcome: str = "fetched",
    ) -> str:
        """A page with its expected end; returns its target, to be linked."""
        self.expected.pages[self.shop.serve(target, page, self.port)] = (status, outcome)
        return target

    def good(
        self,
        target: str,
        page: Page | Callable[[int], Page],
        id_: str,
        final: str = "",
        **data: Any,
    ) -> str:
        """A page that gives a product; `final` is where it is found in the end."""
        url = self.shop.url(final or target, self.port)
        prices = {"price": Decimal("9.99"), "price_currency": "EUR"} if "price" not in data else {}
        self.expected.products[id_] = {"url": url, **prices, **data}
        return self.page(target, page)


FIELDS = {
    "title": {"css": "h1", "required": True},
    "price": {"css": ".price", "type": "price", "required": True},
    "stock": {"css": ".stock", "type": "int"},
    "note": {"css": ".note"},
    "told": {"jsonld": "description"},
}
BY_ID = {"id": {"css": "body::attr(data-id)"}, "fields": FIELDS}
PRICES = {
    "1.299,00 €": ("1299.00", "EUR"), "€ 12,50": ("12.50", "EUR"), "$1,299.99": ("1299.99", "USD"),
    "£5": ("5", "GBP"), "CHF 1'234.50": ("1234.50", "CHF"), "1 299,90 zł": ("1299.90", "PLN"),
    "12.999,- €": ("12999", "EUR"), "19,90": ("19.90", None), "Free": ("0", None), "₹ 1,49,900": ("149900", "INR"),
    "from 0.99 GBP": ("0.99", "GBP"),
}  # fmt: skip


def odd(m: Maker) -> None:
    """One shop whose start pages link everything."""
    links: list[str] = []

    def plain(name: str, title: str = "Plain", **more: Any) -> str:
        return m.good(f"/p/{name}", product(name, title, **more).encode(), name, title=title)

    links += [plain("plain"), plain("Case", "Upper"), plain("case", "lower")]
    links += [
        plain("slash", "without"),
        m.good("/p/slash/", product("slash/", "with").encode(), "slash/", title="with"),
    ]
    links += [
        f"{plain('tracked')}?{query}"
        for query in ("utm_source=a", "utm_source=b&gclid=1", "fbclid=9")
    ]
    links += [f"{plain('session')}?{query}" for query in ("sid=1", "sid=2", "SESSid=3")]
    links += [f"{plain('fragment')}#{anchor}" for anchor in ("a", "b", "")]
    links += [
        m.shop.url("/p/plain"),
        "//" + m.shop.url("/p/plain").partition("//")[2],
        "  /p/plain\n",
        "p/plain",
    ]
    links += [
        m.good("/p/a?y=2&x=1", product("query", "Q").encode(), "query", title="Q"),
        "/p/a?x=1&y=2",
    ]
    m.good("/p/" + quote("ü b"), product("spaced", "Spaced").encode(), "spaced", title="Spaced")
    links += ["/p/ü b", "/p/%C3%BC%20b"]
    links += [
        "mailto:a@b.example",
        "javascript:void(0)",
        "data:text/html,x",
        "http://u:pw@127.0.0.1/p/plain",
        "http://[",
    ]
    links += [
        "/p/" + "x" * 2100,
        "http://elsewhere.example/p/1",
        "http://169.254.169.254.nip.example/",
        "ftp://x/",
    ]

    charsets(m, links)
    trouble(m, links)
    for number, (text, (amount, currency)) in enumerate(PRICES.items()):
        body = product(f"price-{number}", "Priced", text).encode()
        prices = {"price": Decimal(amount), "price_currency": currency}
        target = m.good(f"/price/{number}", body, f"price-{number}", title="Priced", **prices)
        for value in m.expected.products[f"price-{number}"].values():
            assert value is None or value != ""
        links.append(target)

    m.good("/deep/p/based", product("based", "Based").encode(), "based", title="Based")
    m.listing("/start", listing(links))
    m.listing("/based", listing(["p/based"], head='<base href="/deep/">'))
    m.listing(
        "/sloppy",
        b"<ul><li><a class=p href=/p/plain>a<li><a class='p' href=/p/case>b</a><table><a class=p",
    )
    for number in range(1, LISTED + 1):
        hrefs = []
        for letter in "ab":
            id_ = f"{number}{letter}"
            hrefs.append(
                m.good(
                    f"/l/{id_}", product(id_, f"Listed {id_}").encode(), id_, title=f"Listed {id_}"
                )
            )
        m.listing(
            f"/list?page={number}",
            listing(hrefs, f'<p class="count">Page {number} of {LISTED}</p>'),
        )
    m.shop.serve("/robots.txt", Answer(b"User-agent: *\nDisallow: /private\n", kind="text/plain"))
    m.define(
        start=[m.shop.url(path) for path in ("/start", "/based", "/sloppy", "/list?page=1")],
        hosts=["169.254.169.254"],
        strip_params=["*sid"],
        listing={
            "products": "a.p",
            "pages": {"css": ".count", "regex": r"of (\d+)", "url": "?page={page}"},
        },
        product=BY_ID,
    )


def charsets(m: Maker, links: list[str]) -> None:
    def encoded(
        name: str, title: str, codec: str, label: str | None, meta: str = "", shown: str = ""
    ) -> None:
        head = f'<meta charset="{meta}">' if meta else ""
        body = product(name, title, "9.99 EUR", head=head).encode(codec)
        kind = "text/html" + (f"; charset={label}" if label else "")
        links.append(m.good(f"/c/{name}", Answer(body, kind=kind), name, title=shown or title))

    encoded("utf8-unsaid", "Żółć 茶", "utf-8", None)
    encoded("latin-1", "Café Größe", "latin-1", "ISO-8859-1")
    encoded("cp1252", "“Quoted” – Š", "cp1252", None, meta="windows-1252")
    encoded("utf-16", "Žluťoučký 茶", "utf-16", None)
    encoded("gbk", "茶碗", "gbk", None, meta="gbk")
    encoded("sjis", "抹茶茶碗", "shift_jis", "Shift_JIS")
    encoded("nonsense", "Café", "utf-8", "klingon")
    encoded("not-utf8", "Café", "latin-1", "utf-8", shown="Caf�")
    encoded("not-latin", "Café", "utf-8", "iso-8859-1", shown="CafÃ©")
    links.append(
        m.good(
            "/c/untyped",
            Answer(product("untyped", "Größe").encode(), kind=None),
            "untyped",
            title="Größe",
        )
    )
    links.append(m.good("/c/nul", product("nul", "a\0b").encode(), "nul", title="ab"))
    ld = '<script type="application/ld+json">{"@type":"Product","description":"x\\ud800y\\u0000z"}</script>'
    body = product(
        "surrogate", "S&#xD800;T", head=ld, raw_title=True, more='<p class="note">&#0;n</p>'
    ).encode()
    # A browser shows U+FFFD for &#xD800; and &#0; (WHATWG HTML, 13.2.5.80); in JSON they are left
    # out.
    links.append(
        m.good("/c/surrogate", body, "surrogate", title="S\ufffdT", told="xyz", note="\ufffdn")
    )
    body = product("long", "Long", more=f'<p class="note">{"n" * 300_000}</p>').encode()
    links.append(m.good("/c/long", body, "long", title="Long", note="n" * 100_000))
    body = product("bigint", "Big", more='<p class="stock">99999999999999999999</p>').encode()
    links.append(m.good("/c/bigint", body, "bigint", title="Big"))
    body = product("int", "Int", more='<p class="stock">9223372036854775807 left</p>').encode()
    links.append(m.good("/c/int", body, "int", title="Int", stock=2**63 - 1))


def trouble(m: Maker, links: list[str]) -> None:
    """Statuses, redirects, bodies and connections."""

    def fine(name: str) -> Answer:
        return Answer(product(name, "Fine").encode())

    def late(target: str, bad: Any) -> None:
        name = target.rpartition("/")[2]
        links.append(m.good(target, at_first(bad, fine(name)), name, title="Fine"))

    def bad(target: str, page: Any, status: str, outcome: str) -> None:
        links.append(m.page(target, page, status, outcome))

    for status in (404, 410):
        bad(f"/e/{status}", Answer(b"gone", status), "gone", "not_found")
    for status in (401, 403, 451, 418):
        bad(f"/e/{status}", Answer(b"no", status), "dead", "refused")
    bad("/e/500", Answer(b"oops", 500), "dead", "server_error")
    bad("/e/503", Answer(b"busy", 503), "dead", "server_error")
    late("/e/500-once", Answer(b"oops", 500))
    late("/e/503-once", Answer(b"busy", 503, headers=("Retry-After: 1",)))
    late("/e/429-once", Answer(b"slow", 429, headers=("Retry-After: 1",)))
    late("/e/408-once", Answer(b"slow", 408))

    m.good("/r/old", redirect("/r/new", 301), "moved", final="/r/new", title="Fine")
    m.shop.serve("/r/new", fine("moved"))
    links.append("/r/old")
    bad("/r/elsewhere", redirect("http://elsewhere.example/x"), "dead", "off_site")
    bad(
        "/r/metadata",
        redirect("http://169.254.169.254/latest/meta-data/"),
        "dead",
        "forbidden_address",
    )
    bad("/r/private", redirect("http://10.0.0.1/admin"), "dead", "off_site")
    bad("/r/file", redirect("file:///etc/passwd"), "dead", "malformed")
    bad("/r/self", redirect("/r/self"), "dead", "redirect_loop")
    for hop in range(20):
        m.shop.serve(f"/r/20/{hop}", redirect(f"/r/20/{hop + 1}"))
        m.shop.serve(f"/r/5/{hop}", redirect(f"/r/5/{hop + 1}"))
    bad("/r/20/0", redirect("/r/20/1"), "dead", "redirect_loop")
    m.good("/r/5/0", redirect("/r/5/1"), "hopped", final="/r/5/5", title="Fine")
    m.shop.serve("/r/5/5", fine("hopped"))
    links += ["/r/5/0", "http://169.254.169.254/direct"]
    m.expected.pages["http://169.254.169.254/direct"] = ("dead", "forbidden_address")
    bad("/r/into-private", redirect("/private/secret"), "dead", "robots_disallowed")
    bad("/private/page", fine("private"), "dead", "robots_disallowed")

    bad("/h/hang", hang, "dead", "timeout")
    bad("/h/drip", drip, "dead", "timeout")
    bad("/h/endless", endless, "dead", "too_large")
    bad("/h/bomb", bomb(64 * BODY_MAX), "dead", "too_large")
    bad("/h/large", Answer(b"x" * (BODY_MAX + 1)), "dead", "too_large")
    bad("/h/reset", reset, "dead", "unreachable")
    bad("/h/reset-in-body", reset_in_body, "dead", "unreachable")
    bad("/h/garbage", garbage, "dead", "malformed")
    bad(
        "/h/not-gzip",
        Answer(b"<h1>plain</h1>", headers=("Content-Encoding: gzip",)),
        "dead",
        "malformed",
    )
    bad("/h/empty", b"", "invalid", "not_extracted")
    bad(
        "/h/pdf",
        Answer(b"%PDF-1.7\n\xff\xfe\0\1\2" * 50, kind="application/pdf"),
        "invalid",
        "not_extracted",
    )
    bad("/h/no-price", product("x", "No price", None).encode(), "invalid", "not_extracted")
    bad("/h/no-title", product("x", None).encode(), "invalid", "not_extracted")
    bad("/h/no-id", product("", "No id").encode(), "invalid", "not_extracted")
    bad("/h/challenge", b"<h1>Are you a robot?</h1>", "invalid", "not_extracted")
    late("/h/reset-once", reset)
    late("/h/hang-once", hang)
    late("/h/challenge-once", b"<h1>Are you a robot?</h1>")
    deep = product("deep", "Deep", more="<div>" * 5000 + "x").encode()
    links.append(m.good("/h/deep", deep, "deep", title="Deep"))
    broken = b"<body data-id=broken><h1>Bro<b>ken</h1><p class=price>9.99 EUR<p><table><tr><td></b></i><div"
    links.append(m.good("/h/broken", broken, "broken", title="Broken"))


def twice(m: Maker) -> None:
    """One id on two URLs: one product, and it stays the one page's."""
    m.page("/twice/a", product("dup", "A").encode())
    m.page("/twice/b", product("dup", "B").encode())
    m.listing("/twice", listing(["/twice/a", "/twice/b"]))
    m.define(start=m.shop.url("/twice"), listing={"products": "a.p"}, product=BY_ID)


def traps(m: Maker) -> None:
    """Next links and new products without end: the limits hold."""
    for day in range(1, 3 * TRAP_LISTINGS):
        hrefs = [f"/trap/{day}/{n}" for n in range(3)]
        for href in hrefs:
            m.shop.serve(href, product(href, "Trap").encode())
        m.shop.serve(
            f"/trap?day={day}", listing(hrefs, f'<a class="next" href="?day={day + 1}">next</a>')
        )
    m.define(
        start=m.shop.url("/trap?day=1"),
        limits={"attempts": 2, "listings": TRAP_LISTINGS, "products": TRAP_PRODUCTS},
        listing={"products": "a.p", "next": "a.next"},
        product=BY_ID,
    )


def numbered(
    m: Maker, pages: dict[str, Any], count: int, text: str, empty: bool = False, last_next: str = ""
) -> None:
    """A listing of `count` pages with two products each, whose pages are found the given way."""
    prefix = f"/{m.name}"
    for number in range(1, count + 1):
        ids = [f"{number}-{letter}" for letter in "ab"]
        for id_ in ids:
            m.good(f"{prefix}/{id_}", product(id_, "Good").encode(), id_, title="Good")
        following = f"?page={number + 1}" if number < count else last_next
        more = f'<p class="count">{text}</p>' + (
            f'<a class="next" href="{following}">' if following else ""
        )
        m.listing(f"{prefix}?page={number}", listing([f"{prefix}/{id_}" for id_ in ids], more))
    if empty:
        m.listing(f"{prefix}?page={count + 1}", listing([]))
    m.define(
        start=m.shop.url(f"{prefix}?page=1"), listing={"products": "a.p", **pages}, product=BY_ID
    )


def sitemaps(m: Maker) -> None:
    """robots.txt -> index -> gzip children, one of them broken, one not there; on a port of its
    own."""
    children = []
    for child in range(3):
        urls = []
        for number in range(child * SITEMAP_URLS // 3, (child + 1) * SITEMAP_URLS // 3):
            body = product(str(number), "Mapped").encode()
            urls.append(
                m.shop.url(m.good(f"/m/{number}", body, str(number), title="Mapped"), m.port)
            )
        xml = "".join(
            f"<url><loc>{url}</loc></url>" for url in [*urls, m.shop.url("/about", m.port)]
        )
        body = gzip.compress(
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{xml}</urlset>'.encode()
        )
        children.append(m.listing(f"/map{child}.xml.gz", Answer(body, kind="application/gzip")))
    last = m.shop.url(
        m.good("/m/last", product("last", "Mapped").encode(), "last", title="Mapped"), m.port
    )
    noise = base64.b64encode(random.Random(7).randbytes(5000)).decode()
    cut = gzip.compress(f"<urlset><url><loc>{last}</loc></url><!-- {noise} --></urlset>".encode())
    children.append(m.listing("/cut.xml.gz", Answer(cut[:3000])))
    children.append(m.listing("/cut-short.xml.gz", Answer(cut[:12]), "invalid", "not_extracted"))
    children.append(m.listing("/nothing.xml", Answer(b"", 404), "gone", "not_found"))
    children.append("http://elsewhere.example/sitemap.xml")
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in children)
    index = m.listing(
        "/index.xml", Answer(f"<sitemapindex>{entries}</sitemapindex>".encode(), kind="text/xml")
    )
    robots = m.listing(
        "/robots.txt", Answer(f"User-agent: *\nSitemap: {index}\n".encode(), kind="text/plain")
    )
    m.define(sitemap={"url": robots, "products": "/m/"}, product=BY_ID)


def jsonld(m: Maker) -> None:
    def page(sku: str, name: str, price: str) -> bytes:
        text = f"""
            {{"@context": "https://schema.org", "@graph": [{{"@type": "BreadcrumbList"}}, {{"@type": ["Product"],
             "sku": {sku}, "name": "{name}", "offers": [{{"price": {price}, "priceCurrency": "EUR"}}]}}]}}"""
        script = '<script type="application/ld+json">'
        return f"{script}not json</script>{script}{text}</script>".encode()

    def good(id_: str, sku: str, written: str, name: str, price: str, amount: str) -> str:
        prices = {"price": Decimal(amount), "price_currency": "EUR"}
        return m.shop.url(m.good(f"/ld/{id_}", page(sku, written, price), id_, name=name, **prices))

    urls = [
        good(
            "12345678901234567890123",
            "12345678901234567890123",
            "Line\nbreak",
            "Line break",
            "19.90",
            "19.90",
        ),
        good("B-7", '"B-7"', "lone \\ud800 half \\u0000", "lone half", '"1299.00"', "1299.00"),
        good("C", '"C"', "&amp; \\ud83d\\ude00", "& 😀", "5", "5"),
    ]
    urls.append(
        m.shop.url(m.page("/ld/none", page('""', "No sku", "1"), "invalid", "not_extracted"))
    )
    items = json.dumps(
        {
            "@type": "ItemList",
            "itemListElement": [{"@type": "ListItem", "url": url} for url in urls],
        }
    )
    m.listing("/ld", f'<script type="application/ld+json">{items}</script>'.encode())
    m.define(
        start=m.shop.url("/ld"),
        listing={"products": {"jsonld": "ItemList.itemListElement.url"}},
        product={
            "id": {"jsonld": "sku"},
            "fields": {
                "name": {"jsonld": "name"},
                "price": {"jsonld": "offers.price", "type": "price"},
            },
        },
    )


def functions(m: Maker) -> None:
    def served(number: int, body: str) -> Answer:
        return Answer(body.encode(), kind="application/json")

    nested = {"nested": {"a": [1, None, True]}}
    m.good(
        "/fn/1.json",
        served(1, '{"id": 1, "name": "x\\ud800\\u0000y", "price": 1.10}'),
        "1",
        name="xy",
        price=1,
        **nested,
    )
    m.expected.products["1"]["price"] = Decimal("1.1")
    m.page("/fn/2.json", served(2, '{"id": 2}'), "invalid", "function_failed")
    m.page("/fn/3.json", served(3, "<html>"), "invalid", "function_failed")
    m.listing("/fn", Answer(b'{"items": [1, 2, 3]}', kind="application/json"))
    m.define(
        start=m.shop.url("/fn"),
        listing={"function": f"{odd_functions.__name__}:links"},
        product={"function": f"{odd_functions.__name__}:product"},
    )


def slow(m: Maker) -> None:
    """robots.txt asks for a crawl delay; on a port of its own."""
    m.shop.serve(
        "/robots.txt", Answer(f"User-agent: *\nCrawl-delay: {CRAWL_DELAY_S}\n".encode()), m.port
    )
    hrefs = [
        m.good(f"/{n}", product(str(n), "Slow").encode(), str(n), title="Slow")
        for n in range(SLOW_PAGES)
    ]
    m.define(start=m.listing("/", listing(hrefs)), listing={"products": "a.p"}, product=BY_ID)


def guarded(m: Maker) -> None:
    """The same machine, without leave to visit private addresses; on a port of its own."""
    m.expected.status = "failed"
    start = m.listing("/", listing(["/x"]), "dead", "forbidden_address")
    m.define(start=start, allow_private=False, listing={"products": "a.p"}, product=BY_ID)


@pytest.fixture
def crawled(
    run: Commands, engine: sa.Engine, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Crawled]:
    """All the sites, crawled."""
    folder = environment.sites_dir
    settings = {
        "SCRAPER_SITE_FUNCTIONS": odd_functions.__name__,
        "SCRAPER_PAGE_TIMEOUT_S": "2.5",
        "SCRAPER_READ_TIMEOUT_S": "2",
        "SCRAPER_BODY_MAX_BYTES": str(BODY_MAX),
        "SCRAPER_WIRE_MAX_BYTES": str(BODY_MAX),
    }
    for setting, value in settings.items():
        monkeypatch.setenv(setting, value)
    with OddShop(ports=4) as shop:
        sites: dict[str, Callable[[Maker], None]] = {
            "odd": odd,
            "twice": twice,
            "traps": traps,
            "perpage": lambda m: numbered(
                m, {"pages": {"css": ".count", "per_page": 2, "param": "page"}}, 6, "12 found"
            ),
            "until": lambda m: numbered(m, {"pages": {"param": "page"}}, 4, "", empty=True),
            "nextonly": lambda m: numbered(m, {"next": "a.next"}, 7, "", last_next="?page=7"),
            "jsonld": jsonld,
            "functions": functions,
        }
        own_port: dict[str, Callable[[Maker], None]] = {
            "slow": slow,
            "sitemaps": sitemaps,
            "guarded": guarded,
        }
        makers = {name: Maker(shop, folder, name) for name in sites}
        makers |= {name: Maker(shop, folder, name, port) for port, name in enumerate(own_port, 1)}
        for name, maker in makers.items():
            (sites | own_port)[name](maker)
        run.coordinator()
        run.worker("residential,datacenter")
        run.scraper("sites", "check")
        opened = forked.run_program(OPEN, *makers)
        assert opened.returncode == 0, opened.stderr

        def ended() -> bool:
            with engine.connect() as connection:
                active = sa.text(
                    "SELECT count(*) FROM crawls WHERE status IN ('planned', 'running')"
                )
                return connection.execute(active).scalar() == 0

        until(ended, 240, every_s=0.25)
        yield Crawled(shop, {name: maker.expected for name, maker in makers.items()}, engine)


EVERY = [
    "odd",
    "perpage",
    "until",
    "nextonly",
    "jsonld",
    "functions",
    "slow",
    "sitemaps",
    "guarded",
]


def test_odd_shops(crawled: Crawled, run: Commands, subtests: pytest.Subtests) -> None:
    """One test, since one fleet crawls them all; a subtest for each question."""
    for site in EVERY:
        for check in (every_page_ends_as_it_should, every_product_is_right):
            with subtests.test(check.__name__, site=site):
                check(crawled, site)
    for ask in (failures_say_why, one_id_on_two_pages_is_one_product, limits_hold_in_a_trap):
        with subtests.test(ask.__name__):
            ask(crawled)
    for ask in (only_what_may_be_asked_is_asked, crawl_delay_is_kept):
        with subtests.test(ask.__name__):
            ask(crawled)
    with subtests.test("nothing crashed"):
        logs = run.logs(whole=True)
        assert "page crashed" not in logs and "Traceback" not in logs


def every_page_ends_as_it_should(crawled: Crawled, site: str) -> None:
    expected = crawled.expected[site]
    crawl = crawled.crawl(site)
    assert crawl["status"] == expected.status, crawl
    assert_counted(crawled.engine, crawl)
    found = {url: (page.status, page.last_outcome) for url, page in crawled.pages(site).items()}
    assert {u: e for u, e in found.items() if expected.pages.get(u) != e} == {}
    assert found.keys() == expected.pages.keys()


def every_product_is_right(crawled: Crawled, site: str) -> None:
    expected, found = crawled.expected[site].products, crawled.products(site)
    assert {i: (found[i], expected.get(i)) for i in found if expected.get(i) != found[i]} == {}
    assert found.keys() == expected.keys()


def failures_say_why(crawled: Crawled) -> None:
    for site in EVERY:
        for url, page in crawled.pages(site).items():
            if page.status in ("dead", "invalid"):
                assert page.error and len(page.error) <= 500, url


def one_id_on_two_pages_is_one_product(crawled: Crawled) -> None:
    assert crawled.crawl("twice")["status"] == "completed"
    (stored,) = crawled.products("twice").values()
    assert stored["url"].endswith(f"/twice/{stored['title'].lower()}")
    assert {page.status for page in crawled.pages("twice").values()} == {"ok"}


def limits_hold_in_a_trap(crawled: Crawled) -> None:
    crawl = crawled.crawl("traps")
    assert (crawl["status"], crawl["discovery_total"], crawl["product_total"]) == (
        "completed",
        30,
        40,
    )
    assert crawl["links_cut"] > 0 and "limits" in crawl["note"]
    assert len(crawled.products("traps")) == TRAP_PRODUCTS
    assert_counted(crawled.engine, crawl)


def only_what_may_be_asked_is_asked(crawled: Crawled) -> None:
    asked = crawled.shop.asked()
    assert [target for target in asked if target.startswith("/private")] == []
    assert crawled.shop.asked(port=3) == [], "private addresses were not allowed"
    assert asked.count("/robots.txt") == 1
    assert not any("sid=" in target.lower() or "utm_" in target for target in asked)
    # On a machine that does nothing for a page's whole time, a page meets a timeout, too. That is
    # charged to its host, and the page has as many tries of its own as before. A page that fails
    # has as many tries of its host's as the host is well.
    pages = crawled.pages("odd")
    for target, own, of_host in (
        ("/p/plain", 1, range(3)),
        ("/p/tracked", 1, range(3)),
        ("/p/session", 1, range(3)),
        ("/e/404", 1, range(3)),
        ("/e/403", 2, range(3)),
        ("/h/empty", 2, range(3)),
        ("/e/500", 0, range(2, 5)),
    ):
        page = pages[crawled.shop.url(target)]
        assert page.attempts == own and page.host_attempts in of_host, target
        assert asked.count(target) == page.attempts + page.host_attempts, target
    first = pages[crawled.shop.url("/r/20/0")]
    assert 1 <= asked.count("/r/20/8") <= first.attempts + first.host_attempts <= 3
    assert first.attempts == 1 and "/r/20/9" not in asked


def crawl_delay_is_kept(crawled: Crawled) -> None:
    times = crawled.shop.times(port=1)
    again = sum(page.host_attempts for page in crawled.pages("slow").values())
    assert len(times) == SLOW_PAGES + 2 + again
    # From the first page on; single gaps may be shorter after one that a busy machine made longer.
    gaps = [later - earlier for earlier, later in pairwise(times[1:])]
    assert sum(gaps) > CRAWL_DELAY_S * (len(gaps) - 1)

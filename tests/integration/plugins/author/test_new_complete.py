"""`scraper new` finds every product of a shop by its home address: lists that no menu names, and
products that only the sitemap names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scraper.cli.main import main
from scraper.domain import Fetched, Kind
from scraper.extract import compile_site
from scraper.plugins.coverage.keys import CoverageKeys
from scraper.sites.definition import Site
from scraper.sites.loader import load_file
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.usefixtures("project")

CATEGORY = "/index.php?route=product/category&amp;path="
PARENTS = {"20": "Lamps", "30": "Pots", "40": "Toys", "50": "Tools"}
# A sub-category in a drop-down, and one that only its parent's own page names.
BELOW = {"20_21": "Desk lamps", "20_22": "Floor lamps", "30_31": "Pans", "40_41": "Trains"}
IN_MENU = ("20_21", "20_22", "40_41")
EACH = 6


def _write_product(number: int, where: str) -> str:
    return f"/index.php?route=product/product&amp;path={where}&amp;product_id={number}"


def _write_card(number: int, where: str) -> str:
    url = _write_product(number, where)
    return (
        f'<div class="thumb"><div class="image"><a href="{url}"><img src="/i/{number}.png" '
        f'alt="Thing {number}"></a></div><h4><a href="{url}">Thing {number}</a></h4>'
        f'<p class="price">${number}.00</p></div>'
    )


def _write_menu() -> str:
    items = ""
    for path, name in PARENTS.items():
        below = "".join(
            f'<li><a href="{CATEGORY}{inner}" class="dropdown-item">{BELOW[inner]} ({EACH})</a></li>'
            for inner in IN_MENU
            if inner.startswith(path)
        )
        drop = f'<div class="dropdown-inner"><ul>{below}</ul></div>' if below else ""
        items += f'<li class="nav-item"><a href="{CATEGORY}{path}">{name}</a>{drop}</li>'
    return f'<nav id="menu"><ul class="navbar-nav">{items}</ul></nav>'


@pytest.fixture
def shop() -> Iterator[StaticShop]:
    """A shop whose products are each in one category, the half of them in sub-categories."""
    menu, pages = _write_menu(), {}
    number = 100
    for path, name in {**PARENTS, **BELOW}.items():
        cards = ""
        for _ in range(EACH):
            number += 1
            cards += _write_card(number, path)
            pages[_write_product(number, path).replace("&amp;", "&")] = (
                f"<title>Thing {number}</title>{menu}<h1>Thing {number}</h1>"
                f'<ul><li>Product Code: T-{number}</li></ul><h2 class="price">${number}.00</h2>'
            )
        refine = "".join(
            f'<li><a href="{CATEGORY}{inner}">{BELOW[inner]} ({EACH})</a></li>'
            for inner in BELOW
            if inner.startswith(f"{path}_")
        )
        sort = "".join(
            f'<option value="{CATEGORY}{path}&amp;sort={key}">{key}</option>' for key in ("a", "b")
        )
        pages[f"{CATEGORY}{path}".replace("&amp;", "&")] = (
            f"<title>{name}</title>{menu}<h2>{name}</h2><ul>{refine}</ul><select>{sort}</select>"
            f'<div id="list">{cards}</div>'
        )
    pages["/"] = f"<title>Shop</title>{menu}<p>Welcome</p>"
    with StaticShop(pages) as server:
        yield server


def run(url: str, name: str) -> Result:
    result = CliRunner().invoke(main, ["new", url, name, "--rate", "1000/s"])
    assert result.exit_code == 0, result.output
    return result


def crawl(site: Site, server: StaticShop) -> set[str]:
    """Returns the ids of all products that the definition leads to."""
    extractor = compile_site(site)
    due = [(url, Kind.LISTING, 0) for url in site.start]
    due += [(url, Kind.SITEMAP, 0) for url in (site.sitemap.urls if site.sitemap else ())]
    seen, ids = {url for url, _, _ in due}, set[str]()
    while due:
        url, kind, depth = due.pop()
        body = server.pages[url.removeprefix(server.url)].encode()
        page = Fetched(url, 200, {"content-type": "text/html; charset=utf-8"}, body)
        extracted = extractor.extract(kind, page, page_url=url, depth=depth)
        ids |= {product.external_id for product in extracted.products}
        for link in extracted.links:
            if link.url not in seen and link.url.removeprefix(server.url) in server.pages:
                seen.add(link.url)
                due.append((link.url, link.kind, depth + 1))
    return ids


def test_sub_categories_that_no_selector_names_are_followed(
    shop: StaticShop, project: Path
) -> None:
    result = run(f"{shop.url}/", "tree")
    site = load_file(project / "sites" / "tree.yaml")
    numbers = range(101, 101 + EACH * (len(PARENTS) + len(BELOW)))
    assert crawl(site, shop) == set(map(str, numbers)), result.output
    assert "have the same form of address" in result.output
    assert len(shop.asked) <= 60


@pytest.fixture
def closed_shop() -> Iterator[StaticShop]:
    """A shop whose category shows its first products only, and whose sitemap names all, and pages
    that are not products."""
    pages = {"/about": "<title>About us</title><h1>About us</h1><p>We sell things.</p>"}
    for number in range(1, 41):
        pages[f"/thing/{number}-name"] = (
            f"<title>Thing {number}</title><h1>Thing {number}</h1>"
            f'<p class="price">${number}.00</p><p>Product Code: T-{number}</p>'
        )
    cards = "".join(
        f'<div class="card"><a href="/thing/{n}-name"><img src="/{n}.png" alt="">Thing {n}</a>'
        f'<p class="price">${n}.00</p></div>'
        for n in range(1, 13)
    )
    pages["/all"] = f'<title>Shop</title><div id="list">{cards}</div>'
    with StaticShop(pages) as server:
        named = "".join(f"<url><loc>{server.url}{path}</loc></url>" for path in list(pages))
        server.pages["/all.xml"] = (
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{named}</urlset>'
        )
        server.pages["/robots.txt"] = f"User-agent: *\nSitemap: {server.url}/all.xml\n"
        yield server


def test_a_sitemap_that_names_more_products_than_the_lists_is_read_too(
    closed_shop: StaticShop, project: Path
) -> None:
    result = run(f"{closed_shop.url}/all", "closed")
    site = load_file(project / "sites" / "closed.yaml")
    assert crawl(site, closed_shop) == set(map(str, range(1, 41))), result.output
    assert "/all.xml names 40: both are read" in result.output


@pytest.fixture
def shop_of_files() -> Iterator[StaticShop]:
    """A shop whose products are in the folders of their categories, and whose sitemap has a file of
    products. No list has the lids."""
    pages, named = {"/": "<title>Shop</title><p>Welcome</p>"}, []
    for number in range(1, 41):
        path = f"/{('pots', 'pans', 'cups', 'pots/lids')[number % 4]}/red-thing-{number}"
        named.append(path)
        pages[path] = (
            f"<title>Thing {number}</title><h1>Thing {number}</h1>"
            f'<p class="price">${number}.00</p><p>Product Code: T-{number}</p>'
        )
    for category in ("pots", "pans", "cups"):
        cards = "".join(
            f'<div class="card"><a href="{path}">{path[-2:]}</a><p class="price">$1.00</p></div>'
            for path in named
            if path.startswith(f"/{category}/red")
        )
        pages[f"/{category}"] = f'<title>{category}</title><div id="list">{cards}</div>'
    with StaticShop(pages) as server:
        for file, paths in (
            ("pages", ["/pots", "/pans", "/cups"]),
            ("products", named),
        ):
            locations = "".join(f"<url><loc>{server.url}{path}</loc></url>" for path in paths)
            server.pages[f"/sitemap-{file}.xml"] = f"<urlset>{locations}</urlset>"
        server.pages["/sitemap.xml"] = "<sitemapindex>{}</sitemapindex>".format(
            "".join(
                f"<sitemap><loc>{server.url}/sitemap-{file}.xml</loc></sitemap>"
                for file in ("pages", "products")
            )
        )
        server.pages["/robots.txt"] = f"Sitemap: {server.url}/sitemap.xml\n"
        yield server


@pytest.mark.parametrize(
    "menu", ["", "<ul><li><a href=/pots>Pots</a><li><a href=/pans>Pans</a></ul>"]
)
def test_a_file_of_the_sitemap_that_names_products_has_all(
    shop_of_files: StaticShop, project: Path, menu: str
) -> None:
    shop_of_files.pages["/"] += menu
    result = run(f"{shop_of_files.url}/", "files")
    site = load_file(project / "sites" / "files.yaml")
    assert site.sitemap is not None and len(site.sitemap.urls) == 1, result.output
    assert crawl(site, shop_of_files) == {f"T-{number}" for number in range(1, 41)}, result.output


def test_an_id_that_products_of_different_titles_share_is_refused(
    closed_shop: StaticShop, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {"url": "/(thing)/"}
    monkeypatch.setattr("scraper.plugins.author.discovery.surveyor.choose_id", lambda *_: shared)
    result = CliRunner().invoke(main, ["new", f"{closed_shop.url}/all", "one", "--rate", "1000/s"])
    assert result.exit_code != 0
    assert "pages of different titles have the id thing" in result.output
    assert not (project / "sites" / "one.yaml").exists()


@pytest.fixture
def turning_shop() -> Iterator[StaticShop]:
    """A shop whose lists turn by script: the pager's links lead nowhere, and `?page=2` works."""
    menu = "".join(f'<li><a href="/{name}">{name}</a></li>' for name in ("pots", "pans", "cups"))
    frame = f'<nav class="menu"><ul>{menu}</ul></nav>'
    pages, number = {"/": f"<title>Shop</title>{frame}<p>Welcome</p>"}, 0
    pager = '<ul class="pager"><li>1</li><li><a href="#">2</a></li><li><a href="#">3</a></li></ul>'
    for name in ("pots", "pans", "cups"):
        for page in (1, 2, 3):
            cards = ""
            for _ in range(8):
                number += 1
                cards += (
                    f'<div class="card"><a href="/{name}/thing-{number:03}"><img src="/{number}.png"'
                    f' alt="">Thing {number}</a><span class="price">${number}.00</span></div>'
                )
                pages[f"/{name}/thing-{number:03}"] = (
                    f"<title>Thing {number}</title>{frame}<h1>Thing {number}</h1>"
                    f'<p class="price">${number}.00</p><p>SKU: T-{number}</p>'
                )
            text = f'{frame}<h1>{name}</h1><div class="list">{cards}</div><p>24 products</p>{pager}'
            pages[f"/{name}" + (f"?page={page}" if page > 1 else "")] = text
        pages[f"/{name}?page=4"] = f"{frame}<h1>{name}</h1><p>No products</p>"
    with StaticShop(pages) as server:
        yield server


def test_lists_turn_by_a_parameter_that_no_link_has(
    turning_shop: StaticShop, project: Path
) -> None:
    result = run(f"{turning_shop.url}/", "turning")
    site = load_file(project / "sites" / "turning.yaml")
    assert len(crawl(site, turning_shop)) == 72, result.output
    assert len(turning_shop.asked) <= 60


def _write_turning_shop(sizes: list[int]) -> dict[str, str]:
    """A shop with a category of each size, whose lists show five products a page."""
    menu = "".join(
        f'<li><a href="/c/{number}">Aisle {number}</a></li>' for number in range(len(sizes))
    )
    head, pages = f"<title>Shop</title><nav><ul class=menu>{menu}</ul></nav>", {}
    for number, size in enumerate(sizes):
        ids = [f"{100 * (number + 1) + place}" for place in range(size)]
        for first in range(0, size, 5):
            cards = "".join(
                f'<li class=card><a href="/p/{id_}"><img src="/i/{id_}.jpg"><h3>Thing {id_}</h3></a>'
                f"<p class=price>{id_}.00 €</p></li>"
                for id_ in ids[first : first + 5]
            )
            page = first // 5 + 1
            further = f'<a rel=next href="/c/{number}?page={page + 1}">Next</a>'
            url = f"/c/{number}" + (f"?page={page}" if first else "")
            pages[url] = f"{head}<h1>Aisle {number}</h1><ul>{cards}</ul>" + (
                further if first + 5 < size else ""
            )
        for id_ in ids:
            pages[f"/p/{id_}"] = (
                f"{head}<h1>Thing {id_}</h1><p class=sku>T-{id_}</p><p class=price>{id_}.00 €</p>"
            )
    return pages | {"/": f"{head}<p>Welcome</p>"}


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([6] * 8, id="one-on-the-last-page"),
        pytest.param([3, 3, 4, 3, 13, 2, 3, 4], id="one-list-turns"),
        pytest.param([3, 3, 4, 3, 3, 6, 3, 4], id="one-list-turns-to-one-product"),
    ],
)
def test_lists_that_seldom_turn_or_to_a_single_product_are_followed(
    project: Path, sizes: list[int]
) -> None:
    with StaticShop(_write_turning_shop(sizes)) as server:
        run(server.url, "shop")
        found = crawl(load_file(project / "sites" / "shop.yaml"), server)
        assert len(found) == sum(sizes)


def test_a_sitemap_that_agrees_with_the_lists_is_counted_by_each_crawl(
    turning_shop: StaticShop, project: Path
) -> None:
    named = "".join(
        f"<url><loc>{turning_shop.url}{path}</loc></url>"
        for path in turning_shop.pages
        if "/thing-" in path and path < "/pots/thing-017" and path.startswith("/pots")
    )
    turning_shop.pages["/map.xml"] = f"<urlset>{named}</urlset>"
    turning_shop.pages["/robots.txt"] = f"Sitemap: {turning_shop.url}/map.xml\n"
    result = run(f"{turning_shop.url}/pots", "counted")
    site = load_file(project / "sites" / "counted.yaml")
    assert site.sitemap is not None and not site.sitemap.follow, result.output
    assert len(crawl(site, turning_shop)) == 24


def _query(route: str, **params: object) -> str:
    pairs = "".join(f"&{name}={value}" for name, value in params.items())
    return f"/index.php?route={route}{pairs}"


def _make_shop_of_queries() -> dict[str, str]:
    """Lists of six products and two pages each, in which links carry the list and its page. Product
    999 is in two lists."""
    menu = "".join(
        f'<li><a href="{_query("list", path=path)}">{name}</a></li>'
        for path, name in PARENTS.items()
    )
    frame = f'<nav class="menu"><ul>{menu}</ul></nav>'
    pages = {"/": f"<title>Shop</title>{frame}<p>Welcome</p>"}
    for path, name in PARENTS.items():
        numbers = [999 if path in ("20", "30") else int(path) * 10 + 11]
        numbers += [int(path) * 10 + n for n in range(11)]
        for page, listed in ((1, numbers[:6]), (2, numbers[6:])):
            here = {"path": path} if page == 1 else {"path": path, "page": 2}
            cards = ""
            for n in listed:
                url = _query("item", **here, item_id=n)
                cards += (
                    f'<div class="thumb"><a href="{url}"><img src="/i/{n}.png" alt="">Thing {n}</a>'
                    f'<p class="price">${n}.00</p></div>'
                )
                for address in (url, _query("item", path=path, item_id=n)):
                    pages[address] = (
                        f"<title>Thing {n}</title>{frame}<ul class=breadcrumb><li><a href=/>Home</a>"
                        f'</li><li><a href="{_query("list", path=path)}">{name}</a></li></ul>'
                        f'<h1>Thing {n}</h1><p>Code: T-{n}</p><h2 class="price">${n}.00</h2>'
                    )
            on = f'<a rel="next" href="{_query("list", path=path, page=2)}">Next</a>'
            pages[_query("list", **here)] = (
                f'<title>{name}</title>{frame}<div id="list">{cards}</div>{on if page == 1 else ""}'
            )
    return pages


def test_the_page_of_a_list_is_dropped_from_the_addresses_of_products(project: Path) -> None:
    """Otherwise a product that moves to another page of its list has another address. The list
    itself stays: it is where the product's category is from."""
    with StaticShop(_make_shop_of_queries()) as server:
        result = run(f"{server.url}/", "queries")
        site = load_file(project / "sites" / "queries.yaml")
        assert site.product.strip_params == ("page",), result.output
        assert not site.strip_params
        # The category of product 999 differs by its address.
        assert site.of(CoverageKeys).one_address, result.output
        assert len(crawl(site, server)) == 4 * 12 - 1, result.output
        assert len(server.asked) <= 60
    asked = compile_site(site).extract(
        Kind.LISTING,
        Fetched(f"{server.url}/x", 200, {}, server.pages[_query("list", path=20, page=2)].encode()),
        page_url=f"{server.url}/x",
        depth=1,
    )
    addresses = [link.url for link in asked.links if link.kind is Kind.PRODUCT]
    assert addresses and not any("page=" in url for url in addresses)


def test_addresses_of_different_pages_are_all_read(project: Path) -> None:
    """Different pages with one id must all be read."""
    with StaticShop({}) as server:
        server.pages = {
            path: re.sub(r"\$999\.00", f"${path.partition('path=')[2][:2]}1.00", page)
            for path, page in _make_shop_of_queries().items()
        }
        result = run(f"{server.url}/", "apart")
        site = load_file(project / "sites" / "apart.yaml")
        assert not site.of(CoverageKeys).one_address, result.output


class _VisitPages(dict[str, str]):
    """Pages that carry a new visit in each link whenever they are read."""

    visits, step = 0, 1

    def get(self, path: str, default: Any = None) -> Any:
        page = super().get(re.sub(r"[?&]besuch=\w+", "", path), default)
        self.visits += self.step
        visit = f"besuch={self.visits:06x}Qz81LkvU0pWm"
        return page and re.sub(
            r'href="(/[^"]*)"',
            lambda link: f'href="{link[1]}{"&" if "?" in link[1] else "?"}{visit}"',
            page,
        )


def test_a_visit_under_an_unknown_name_is_dropped_everywhere(project: Path) -> None:
    with StaticShop({}) as server:
        server.pages = _VisitPages(_make_shop_of_queries())
        result = run(f"{server.url}/", "visits")
        site = load_file(project / "sites" / "visits.yaml")
        assert "besuch" in site.strip_params, result.output
        assert site.product.strip_params == ("page",)
        assert len(server.asked) <= 60
        assert len(crawl(site, server)) == 4 * 12 - 1


def _write_windowed_shop(pages: int, window: int) -> dict[str, str]:
    """A shop with one list, whose pager shows a block of numbers and the link to the next page. Its
    links have a parameter that the first page's address lacks."""
    shop = {"/": "<title>Shop</title><a href='/new.x'>All products</a><p>Welcome</p>"}
    for page in range(1, pages + 1):
        ids = range(100 * page, 100 * page + 6)
        cards = "".join(
            f'<div class=card><a href="/thing.x?item_id={n}"><img src="/{n}.png" alt="">Thing {n}</a>'
            f'<p class="price">${n}.00</p></div>'
            for n in ids
        )
        begin = (page - 1) // window * window + 1
        shown = range(begin, min(begin + window, pages + 1))
        links = [f'<li><a href="/new.x?sort=3d&page={n}">{n}</a></li>' for n in shown]
        for number, label in ((page - 1, "Previous Page"), (page + 1, "Next Page")):
            if 1 <= number <= pages:
                link = f'<a href="/new.x?sort=3d&page={number}" aria-label="{label}"><i></i></a>'
                links.insert(0 if number < page else len(links), f"<li>{link}</li>")
        text = f"<h1>All</h1>{cards}<ul class=pagination>{''.join(links)}</ul>"
        shop[f"/new.x?page={page}"] = shop[f"/new.x?sort=3d&page={page}"] = text
        for n in ids:
            shop[f"/thing.x?item_id={n}"] = (
                f"<title>Thing {n}</title><h1>Thing {n}</h1><p>SKU: T-{n}</p>"
                f'<p class="price">${n}.00</p>'
            )
    return shop | {"/new.x": shop["/new.x?page=1"]}


@pytest.mark.parametrize("pages", [7, 15])
def test_the_last_number_of_a_pager_is_not_the_last_page(project: Path, pages: int) -> None:
    with StaticShop({}) as server:
        server.pages = _VisitPages(_write_windowed_shop(pages, 5))
        server.pages.step = 0
        result = run(f"{server.url}/", "windows")
        site = load_file(project / "sites" / "windows.yaml")
        assert "besuch" in site.strip_params, result.output
        assert len(crawl(site, server)) == 6 * pages, result.output

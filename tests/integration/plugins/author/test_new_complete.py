"""`scraper new` finds every product of a shop by its home address: lists that no menu names, and
products that only the sitemap names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scraper.cli.main import main
from scraper.domain import Fetched, Kind
from scraper.extract import compile_site
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


def test_an_id_that_products_of_different_titles_share_is_refused(
    closed_shop: StaticShop, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {"url": "/(thing)/"}
    monkeypatch.setattr("scraper.plugins.author.discovery.surveyor.choose_id", lambda *_: shared)
    result = CliRunner().invoke(main, ["new", f"{closed_shop.url}/all", "one", "--rate", "1000/s"])
    assert result.exit_code != 0
    assert "pages of different titles have the id thing" in result.output
    assert not (project / "sites" / "one.yaml").exists()

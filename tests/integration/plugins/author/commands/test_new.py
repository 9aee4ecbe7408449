"""`scraper new` on shops of which it knows only the address: the definition that it writes
finds every product, and reads every field of every one of them right."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scraper.cli.main import main
from scraper.domain import Fetched, Kind
from scraper.extract import compile_site
from scraper.plugins.author.commands.one_shop import is_own_name
from scraper.plugins.platforms.adapters import ADAPTERS
from scraper.sites.definition import Site
from scraper.sites.loader import load_file, load_text
from tests.support.machine import everyday
from tests.support.shops import (
    engine_templates,
    odd_templates,
    shop_templates,
    stateful_templates,
    unseen_templates,
)
from tests.support.shops.platform_shops import PlatformShop
from tests.support.shops.shop_templates import Shop
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.usefixtures("project")

TEMPLATES = {
    **shop_templates.TEMPLATES,
    **engine_templates.ENGINES,
    **odd_templates.ODD,
    **unseen_templates.UNSEEN,
    **stateful_templates.STATEFUL,
}
CURRENCIES = {
    **shop_templates.CURRENCIES,
    **engine_templates.CURRENCIES,
    **odd_templates.CURRENCIES,
    **unseen_templates.CURRENCIES,
    **stateful_templates.CURRENCIES,
}


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["new", *words, "--rate", "1000/s"])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(params=everyday(TEMPLATES, *list(TEMPLATES)[::3]))
def template(request: pytest.FixtureRequest) -> Iterator[tuple[str, Shop, StaticShop]]:
    name = request.param
    shop = TEMPLATES[name]()
    with StaticShop({}) as server:
        server.pages = {
            path: page.replace("{host}", server.url) for path, page in shop.pages.items()
        }
        yield name, shop, server


def crawled(site: Site, server: StaticShop) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Every product's data and id by its path, as a crawl without a fetcher."""
    extractor = compile_site(site)
    sitemaps = [(url, Kind.SITEMAP, 0) for url in (site.sitemap.urls if site.sitemap else ())]
    due = [(url, Kind.LISTING, 0) for url in site.start] + sitemaps
    seen = {url for url, _, _ in due}
    rows, ids = {}, {}
    while due:
        url, kind, depth = due.pop()
        path = url.removeprefix(server.url)
        page = Fetched(
            url, 200, {"content-type": "text/html; charset=utf-8"}, server.pages[path].encode()
        )
        extracted = extractor.extract(kind, page, page_url=url, depth=depth)
        for product in extracted.products:
            rows[path], ids[path] = dict(product.data), product.external_id
        for link in extracted.links:
            if link.url not in seen and link.url.removeprefix(server.url) in server.pages:
                seen.add(link.url)
                due.append((link.url, link.kind, depth + 1))
    return rows, ids


def test_a_shop_of_which_nothing_is_known(
    template: tuple[str, Shop, StaticShop], project: Path
) -> None:
    name, shop, server = template
    run(f"{server.url}{shop.start}", name)
    assert len(server.asked) <= 60
    site = load_file(project / "sites" / f"{name}.yaml")
    rows, ids = crawled(site, server)
    text = (project / "sites" / f"{name}.yaml").read_text()
    assert rows.keys() == shop.truth.keys(), text
    wrong = {
        (path, field): (rows[path].get(field), value)
        for path, truth in shop.truth.items()
        for field, value in truth.items()
        if rows[path].get(field) != value
    }
    assert not wrong, f"{text}\n{dict(list(wrong.items())[:9])}"
    assert {row["price_currency"] for row in rows.values()} == {CURRENCIES.get(name, "EUR")}, text
    assert len(set(ids.values())) == len(shop.truth), text
    assert site.product.required == ["title"]


@pytest.mark.parametrize("name", ["wordpress", "dawn", "luma"])
def test_the_home_page_leads_to_the_list_of_all_products(name: str, project: Path) -> None:
    """It shows some products itself, and no way on from them."""
    shop = TEMPLATES[name]()
    first = shop.pages[shop.start]
    home = re.sub(
        r'<(nav|div) class="(?:woocommerce-pagination|pagination|pages)".*?</\1>', "", first
    )
    assert home != first
    with StaticShop({**shop.pages, "/": home}) as server:
        run(f"{server.url}/", name)
        site = load_file(project / "sites" / f"{name}.yaml")
        assert site.start == (server.url + shop.start,)
        assert crawled(site, server)[0].keys() == shop.truth.keys()


def test_what_is_written_is_proved_commented_and_never_overwritten(project: Path) -> None:
    shop = TEMPLATES["workshop"]()
    with StaticShop(shop.pages) as server:
        result = run(f"{server.url}/all")
        (path,) = project.glob("sites/local-*.yaml")
        text = path.read_text()
        assert "allow_private: true" in text and "allow_private: true was written" in result.stderr
        assert "agrees with: listing card" in text
        assert "about 48 products" in result.stdout
        assert "# gtin: nothing on the pages was certain enough" in text
        asked = len(server.asked)
        assert "is there already" in run(f"{server.url}/all", code=2).stderr
        assert path.read_text() == text
        assert len(server.asked) == asked


@pytest.mark.parametrize("says_so", [True, False])
def test_a_product_page_leads_to_the_list_that_it_is_in(project: Path, says_so: bool) -> None:
    shop = TEMPLATES["winkel"]()
    pages = {**shop.pages, "/c/1": shop.pages["/nl/alles/pagina/1"]}
    product = next(iter(shop.truth))
    if says_so:
        pages[product] = f'<meta property="og:type" content="product">{pages[product]}'
    with StaticShop(pages) as server:
        shown = json.loads(run(server.url + product, "winkel", "--json").stdout)
        assert load_file(project / "sites/winkel.yaml").start == (f"{server.url}/c/1",)
        assert shown["fields"]["title"]["pages"] == shown["pages"] == 12


def test_no_page_that_robots_txt_disallows_is_read() -> None:
    shop = TEMPLATES["workshop"]()
    with StaticShop(shop.pages, "User-agent: *\nDisallow: /item/\n") as server:
        assert "robots_disallowed" in run(f"{server.url}/all", "x", code=1).stderr
        assert not [path for path in server.paths if path.startswith("/item/")]


def test_a_page_without_products_is_not_a_shop(project: Path) -> None:
    pages = {"/": "<title>News</title><h1>News</h1><p>Nothing to buy.</p>"}
    with StaticShop(pages) as server:
        assert "no list of products was found" in run(server.url, "x", code=1).stderr
    assert list(project.glob("sites/*.yaml")) == []


def test_a_blog_is_not_a_shop_though_its_articles_have_pictures(project: Path) -> None:
    cards = "".join(
        f'<article><img src="/{n}.jpg"><h2><a href="/post-{n}">On subject {n}</a></h2></article>'
        for n in range(8)
    )
    posts = {
        f"/post-{n}": f"<title>On subject {n} - Blog</title><h1>On subject {n}</h1><p>{'Words. ' * 40}</p>"
        for n in range(8)
    }
    with StaticShop({"/": f"<title>Blog</title>{cards}", **posts}) as server:
        result = run(f"{server.url}/", "blog", code=1)
    assert "they may be articles (fix: " in result.output
    assert not (project / "sites" / "blog.yaml").exists()


def test_what_cannot_be_read_is_said_with_a_fix(project: Path) -> None:
    with StaticShop({}, robots="User-agent: *\nDisallow: /private\n") as server:
        missing = run(f"{server.url}/shop", "shop", code=1).output
        private = run(f"{server.url}/private/", "shop", code=1).output
    assert "404 (fix: open the shop in a browser" in missing
    assert "disallows" in private and "`robots: ignore`" in private


@pytest.mark.parametrize(
    ("other", "own"),
    [
        ("https://www.shop.example/de/", True),
        ("https://shop.example/", True),
        ("https://shop.example.evil/", False),
        ("https://myshop.example/", False),
    ],
)
def test_a_redirect_to_another_name_of_the_shop_is_followed(other: str, own: bool) -> None:
    assert is_own_name("http://shop.example/", other) is own


def test_a_name_that_a_shop_puts_into_its_pages_cannot_leave_its_line(project: Path) -> None:
    """What a shop writes comes into comments and quotes: it must not become YAML of its own."""
    shop = TEMPLATES["workshop"]()
    evil = {
        path: page.replace('<h1 class="name">', '<h1 class="name">\u2028x: y\n\'#"} ')
        for path, page in shop.pages.items()
    }
    with StaticShop(evil) as server:
        CliRunner().invoke(main, ["new", f"{server.url}/all", "evil", "--rate", "1000/s"])
    for path in project.glob("sites/*.yaml"):
        load_text(path.read_text(), path)
        assert "x: y" not in [line.strip() for line in path.read_text().splitlines()]


def test_outside_a_project_nothing_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert "is not a project" in run("http://127.0.0.1:9/", code=2).stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_platform_whose_interface_is_open_is_found_and_proved(name: str, project: Path) -> None:
    with PlatformShop(name) as shop:
        result = run(f"{shop.url}/", "shop")
        site = load_file(project / "sites/shop.yaml")
        assert site.platform.name == name
        assert f"platform: {name}: its interface gives" in result.stdout
        assert "1.05" in result.stdout
        assert len(shop.asked) <= 60


@pytest.mark.parametrize("products", [12, 240])
def test_what_only_the_pages_of_a_platform_have_is_named_with_its_price(
    products: int, project: Path
) -> None:
    with PlatformShop("woocommerce", products, varied=0) as shop:
        result = run(f"{shop.url}/", "shop")
        added = f"{products} requests more; platform: {{name: woocommerce, pages: [gtin"
        assert "gtin" in result.stdout.partition(" on the pages alone: ")[0].splitlines()[-1]
        assert f"on the pages alone: {added}" in result.stdout
        written = (project / "sites/shop.yaml").read_text()
        (comment,) = [line for line in written.splitlines() if added in line]
        assert len(shop.asked) <= 60
        proposed = comment.partition("; ")[2]
        written = re.sub("(?m)^platform: .*", proposed, written)
        (project / "sites/shop.yaml").write_text(written)
        assert "gtin" in load_file(project / "sites/shop.yaml").platform.pages
        tried = CliRunner().invoke(main, ["try", "shop"])
        assert tried.exit_code == 0, tried.output
        assert "gtin" in tried.stdout and "4006381" in tried.stdout


@pytest.mark.parametrize("name", ["shopify"])
def test_a_platform_whose_interface_has_all_names_no_page(name: str, project: Path) -> None:
    with PlatformShop(name) as shop:
        answers = shop.answer

        def answer(path: str) -> Any:
            status, headers, text = answers(path)
            return status, headers, text.replace('"mpn"', '"color"')

        shop.answer = answer  # type: ignore[method-assign]
        assert "on the pages alone" not in run(f"{shop.url}/", "shop").stdout


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_platform_whose_interface_is_closed_is_read_by_its_pages(
    name: str, project: Path
) -> None:
    with PlatformShop(name) as shop:
        shop.closed = 403
        result = run(f"{shop.url}/", "shop")
        assert load_file(project / "sites/shop.yaml").platform is None
        assert f"looks like {name}, whose interface is not open" in result.stderr


def test_a_platform_whose_pages_only_scripts_fill_is_read_by_its_interface(project: Path) -> None:
    with PlatformShop("shopify") as shop:
        answers = shop.answer
        empty = '<script src="https://cdn.shopify.com/app.js"></script><div id="root"></div>'
        shop.answer = lambda path: (  # type: ignore[method-assign]
            (200, {"Content-Type": "text/html"}, empty) if path == "/" else answers(path)
        )
        result = run(f"{shop.url}/", "shop")
        assert "written for its interface alone" in result.stderr
        assert load_file(project / "sites/shop.yaml").platform.name == "shopify"
        shop.closed = 404
        (project / "sites/shop.yaml").unlink()
        assert "no list of products was found" in run(f"{shop.url}/", "shop", code=1).stderr


def test_the_proposed_command_cannot_run_what_a_redirect_names(project: Path) -> None:
    """The shop redirects to an address whose host or path would run a command in a shell."""
    for path in ("/$(touch$IFS/tmp/x);reboot", "/`reboot`'\"&x"):
        with StaticShop({}) as server:
            target = f"http://other.invalid{path}"
            server.redirects["/"] = target
            error = run(f"{server.url}/", code=1).stderr
        command = error[error.index("`scraper new") + 1 : error.rindex("`")]
        program, name, address = shlex.split(command)
        assert (program, name) == ("scraper", "new")
        assert address.startswith("http://other.invalid/") and "\n" not in command

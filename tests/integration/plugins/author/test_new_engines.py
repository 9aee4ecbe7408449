"""`scraper new` on the default themes of engines: which rows a crawl of its definition gives, and
which of their values are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.domain import Fetched, Kind
from scraper.extract import compile_site
from scraper.sites.definition import Site
from scraper.sites.loader import load_file
from tests.support.machine import everyday
from tests.support.shops.engines.builders import BUILDERS
from tests.support.shops.engines.by_path import BY_PATH
from tests.support.shops.engines.by_query import BY_QUERY
from tests.support.shops.engines.by_query_boxes import WITH_BOXES
from tests.support.shops.engines.catalogue import UNLISTED
from tests.support.shops.engines.english import ENGLISH, NopCommerce
from tests.support.shops.engines.filters_and_forms import FILTERS_AND_FORMS, MagentoOne
from tests.support.shops.engines.german import GERMAN
from tests.support.shops.engines.react import REACT
from tests.support.shops.engines.russian import RUSSIAN
from tests.support.shops.shop_templates import Shop
from tests.support.shops.static_shop import StaticShop

pytestmark = [pytest.mark.usefixtures("project"), pytest.mark.slow]

ENGINES = {
    **ENGLISH,
    **BY_PATH,
    **BY_QUERY,
    **WITH_BOXES,
    **GERMAN,
    **RUSSIAN,
    **BUILDERS,
    **REACT,
    **FILTERS_AND_FORMS,
}
# Products that only the sitemap names, among lists at the same level as products.
LOST = {"NopCommerce": 1, "JtlShop": 1, "MagentoOne": 1}


def crawl(site: Site, server: StaticShop) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns the id and the data of each product page, by its path."""
    extractor = compile_site(site)
    due = [(url, Kind.LISTING, 0) for url in site.start]
    due += [(url, Kind.SITEMAP, 0) for url in (site.sitemap.urls if site.sitemap else ())]
    seen, rows = {url for url, _, _ in due}, {}
    while due:
        url, kind, depth = due.pop()
        path = url.removeprefix(server.url)
        body = server.pages[path].encode()
        page = Fetched(url, 200, {"content-type": "text/html; charset=utf-8"}, body)
        extracted = extractor.extract(kind, page, page_url=url, depth=depth)
        for product in extracted.products:
            rows[path] = (product.external_id, dict(product.data))
        for link in extracted.links:
            if link.url not in seen and link.url.removeprefix(server.url) in server.pages:
                seen.add(link.url)
                due.append((link.url, link.kind, depth + 1))
    return rows


def define(server: StaticShop, shop: Shop, without: Collection[str] = ()) -> str:
    """Serves a shop `without` some pages, has its definition written, and returns what was said."""
    server.pages = {
        path: page.replace("{host}", server.url)
        for path, page in shop.pages.items()
        if path not in without
    }
    result = CliRunner().invoke(main, ["new", f"{server.url}/", "it", "--rate", "1000/s"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", everyday(ENGINES, "NopCommerce", "Oxid", "Saleor", "ZenCart"))
def test_the_lists_of_an_engine_lead_to_all_products(name: str, project: Path) -> None:
    engine = ENGINES[name]()
    shop = engine.build()
    with StaticShop({}) as server:
        output = define(server, shop, ("/robots.txt", "/sitemap.xml"))
        rows = crawl(load_file(project / "sites" / "it.yaml"), server)
    text = f"{output}\n{(project / 'sites' / 'it.yaml').read_text()}"
    listed = {item.number for n, item in enumerate(engine.shop.items) if n != UNLISTED}
    numbers = {shop.truth[path]["number"] if path in shop.truth else path for path in rows}
    assert numbers == listed, text


@pytest.mark.parametrize(
    "name", everyday(ENGINES, "JtlShop", "Bitrix", "WixStores", "MagentoOne", "OsCommerce")
)
def test_the_default_theme_of_an_engine_is_read_whole(name: str, project: Path) -> None:
    engine = ENGINES[name]()
    shop = engine.build()
    with StaticShop({}) as server:
        output = define(server, shop)
        assert len(server.asked) <= 60
        site = load_file(project / "sites" / "it.yaml")
        rows = crawl(site, server)
    said = f"{output}\n{(project / 'sites' / 'it.yaml').read_text()}"
    foreign = sorted(rows.keys() - shop.truth.keys())
    assert not foreign, f"{foreign}\n{said}"
    numbers = {path: shop.truth[path]["number"] for path in rows}
    lost = {item.number for item in engine.shop.items} - set(numbers.values())
    assert len(lost) == LOST.get(name, 0), f"{lost}\n{said}"
    ids = {(external_id, numbers[path]) for path, (external_id, _) in rows.items()}
    assert len(ids) == len(set(numbers.values())) == len({number for number, _ in ids}), (
        f"{ids}\n{said}"
    )
    wrong: list[object] = []
    right, due = Counter[str](), Counter[str]()
    for path, (_, data) in rows.items():
        truth = shop.truth[path]
        for field in engine.fields:
            value, expected = data.get(field), truth[field]
            due[field] += expected is not None
            right[field] += expected is not None and value == expected
            if value is not None and value != expected:
                wrong.append((path, field, value, expected))
        if data.get("category") not in {None, *truth["category"]}:
            wrong.append((path, "category", data["category"]))
        if data.get("stock") not in {None, truth["stock"]}:
            wrong.append((path, "stock", data["stock"], truth["stock"]))
        wrong += [(path, n, data[n]) for n in ("sku", "gtin", "brand", "mpn", "rating") if n in data and n not in engine.fields]  # fmt: skip
    assert not wrong, f"{wrong[:9]}\n{said}"
    assert {row["price_currency"] for _, row in rows.values()} == {engine.currency}, said
    short = {field: (right[field], due[field]) for field in due if right[field] < due[field] * 0.95}
    assert not short, f"{short}\n{said}"


def test_the_filters_of_a_list_are_not_followed(project: Path) -> None:
    engine = MagentoOne()
    with StaticShop({}) as server:
        define(server, engine.build())
        extractor = compile_site(load_file(project / "sites" / "it.yaml"))
        for leaf in engine.shop.leaves:
            path = engine.list_url(leaf)
            page = Fetched(server.url + path, 200, {}, server.pages[path].encode())
            links = extractor.extract(Kind.LISTING, page, page_url=page.url, depth=1).links
            listed = {link.url.removeprefix(server.url) for link in links}
            assert listed and not [url for url in listed if "price=" in url or "mode=" in url]
            # "1-6 of 10" are products: no page has the number 10.
            assert engine.list_url(leaf, len(leaf.items)) not in listed


class ShortMenu(NopCommerce):
    """A shop whose menu leaves out a category, of which the first page shows products."""

    def _menu(self) -> str:
        tops = self.shop.tops
        self.shop.tops = tops[:-1]
        try:
            return super()._menu()
        finally:
            self.shop.tops = tops

    def home(self) -> str:
        hidden = [
            i for leaf in self.shop.leaves if self.shop.tops[-1] in leaf.chain for i in leaf.items
        ]
        boxes = "".join(map(self._box, [*self.shop.items[8:11], *hidden[:3]]))
        return f'<div class="product-grid home-page-product-grid"><div class="item-grid">{boxes}</div></div>'


def test_a_category_that_no_menu_names_is_found_by_the_first_pages_products(project: Path) -> None:
    engine = ShortMenu()
    shop = engine.build()
    with StaticShop({}) as server:
        output = define(server, shop, ("/robots.txt", "/sitemap.xml"))
        site = load_file(project / "sites" / "it.yaml")
        rows = crawl(site, server)
        hidden = engine.shop.tops[-1]
        assert site.start[1:] == (f"{server.url}/{hidden.slug}",)
    assert f"no menu names '{hidden.name}'" in output
    listed = {item.number for n, item in enumerate(engine.shop.items) if n != UNLISTED}
    assert {shop.truth[path]["number"] for path in rows} == listed

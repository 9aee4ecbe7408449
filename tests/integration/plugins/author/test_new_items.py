"""`scraper new` on shops whose pages have variants: `items:` is written where each can be named and
nothing speaks against it."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.domain import Fetched, Kind
from scraper.extract import compile_site
from scraper.sites.definition import Site
from scraper.sites.loader import load_file
from tests.support.shops.shop_templates import Item, items
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.usefixtures("project")

SIZES = ("S", "M", "L")
Write = Callable[[Item, list[dict[str, Any]]], str]


def variants_of(i: Item) -> list[dict[str, Any]]:
    """None of some, so that they are one product."""
    if i.number % 5 == 0:
        return []
    return [
        {"sku": f"{i.sku}-{size}", "size": size, "price": f"{i.price + at:.2f}", "there": at != 1}
        for at, size in enumerate(SIZES)
    ]


def _offer(variant: dict[str, Any], **more: Any) -> dict[str, Any]:
    state = "InStock" if variant["there"] else "OutOfStock"
    return {
        "@type": "Offer", "price": variant["price"], "priceCurrency": "EUR",
        "availability": f"https://schema.org/{state}", **more,
    }  # fmt: skip


def _jsonld(data: dict[str, Any]) -> str:
    return f'<script type="application/ld+json">{json.dumps(data)}</script>'


def group(i: Item, variants: list[dict[str, Any]]) -> str:
    if not variants:
        one = {"sku": i.sku, "price": f"{i.price:.2f}", "there": True}
        return _jsonld({"@type": "Product", "name": i.title, "sku": i.sku, "offers": _offer(one)})
    listed = [
        {"@type": "Product", "sku": variant["sku"], "size": variant["size"], "offers": _offer(variant)}
        for variant in variants
    ]  # fmt: skip
    return _jsonld({"@type": "ProductGroup", "name": i.title, "hasVariant": listed})


def offers(i: Item, variants: list[dict[str, Any]]) -> str:
    one = {"sku": i.sku, "price": f"{i.price:.2f}", "there": True}
    listed = [_offer(variant, sku=variant["sku"]) for variant in variants or [one]]
    return _jsonld({"@type": "Product", "name": i.title, "offers": listed})


def state(i: Item, variants: list[dict[str, Any]]) -> str:
    listed = [
        {"id": at, "sku": variant["sku"], "size": {"name": variant["size"]},
         "price": {"value": variant["price"]}, "inStock": variant["there"]}
        for at, variant in enumerate(variants)
    ]  # fmt: skip
    product = {"name": i.title, "price": {"value": f"{i.price:.2f}", "currency": "EUR"},
               "variants": listed, "sku": i.sku}  # fmt: skip
    return f"<script>window.__APP__ = {json.dumps({'product': product})};</script>"


def written(project: Path, pages: dict[str, str]) -> Site:
    with StaticShop(pages) as server:
        words = ["new", f"{server.url}/all", "sizes", "--rate", "1000/s"]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        return load_file(project / "sites/sizes.yaml")


def shop(
    write: Write, change: Callable[[int, list[dict[str, Any]]], Any] = lambda *_: None
) -> dict[str, str]:
    pages = {}
    cards = ""
    for at, i in enumerate(items(20)):
        variants = variants_of(i)
        change(at, variants)
        path = f"/product/{i.slug}"
        cards += f'<li class="tile"><a href="{path}"><img src="{i.image}">{i.title}</a> <b class="price">€{i.price:,.2f}</b></li>'
        pages[path] = (
            f"<title>{i.title} | Sizes</title>{write(i, variants)}<h1>{i.title}</h1><p class=price>€{i.price:,.2f}</p>"
        )
    pages["/all"] = f"<title>All</title><ul>{cards}</ul>"
    return pages


@pytest.mark.parametrize("write", [group, offers, state])
def test_every_variant_is_a_product(write: Write, project: Path) -> None:
    pages = shop(write)
    site = written(project, pages)
    assert site.product.items is not None
    extractor = compile_site(site)
    for i in items(20):
        path = f"/product/{i.slug}"
        page = Fetched(
            f"{site.start[0]}{path}", 200, {"content-type": "text/html"}, pages[path].encode()
        )
        extracted = extractor.extract(Kind.PRODUCT, page, page_url=page.url, depth=1)
        assert extracted.complete, extracted.problems
        given = {
            product.data.get("sku", product.external_id): (
                product.data["title"], product.data["price"], product.data["price_currency"],
                product.data.get("availability", True),
            )
            for product in extracted.products
        }  # fmt: skip
        truth = {
            variant["sku"]: (i.title, Decimal(variant["price"]), "EUR", variant["there"])
            for variant in variants_of(i)
        } or {i.sku: (i.title, i.price, "EUR", True)}
        assert given == truth, (project / "sites/sizes.yaml").read_text()


def no_number(at: int, variants: list[dict[str, Any]]) -> None:
    if variants and at % 2:
        variants[1]["sku"] = ""


def the_same_numbers(at: int, variants: list[dict[str, Any]]) -> None:
    for variant in variants:
        variant["sku"] = variant["size"]


def other_prices(at: int, variants: list[dict[str, Any]]) -> None:
    for variant in variants:
        variant["price"] = f"{Decimal(variant['price']) + 100}"


def no_price(at: int, variants: list[dict[str, Any]]) -> None:
    if variants:
        variants[2]["price"] = ""


@pytest.mark.parametrize("change", [no_number, the_same_numbers, other_prices, no_price])
def test_what_is_not_sure_stays_one_product(
    change: Callable[[int, list[dict[str, Any]]], None], project: Path
) -> None:
    assert written(project, shop(state, change)).product.items is None

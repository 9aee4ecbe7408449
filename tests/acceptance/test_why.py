"""`scraper why`: where a stored value comes from, and what else its page says."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.support.shops.odd_shop import OddShop, listing, product

TEA = '<script type="application/ld+json">{"@type": "Product", "offers": {"price": "%s"}}</script>'


def test_a_value_says_where_it_comes_from_and_who_says_otherwise(
    run: Commands, engine: sa.Engine, environment: Settings, tmp_path: Path
) -> None:
    run.env["SCRAPER_ARCHIVE"] = str(tmp_path / "kept")
    with OddShop() as shop:

        def sells(price: str, other: str) -> None:
            shop.serve("/p/1", product("1", "Tea", price, head=TEA % other).encode())

        sells("9.99 €", "9.99")
        shop.serve("/", listing(["/p/1"]))
        price = {"any": [{"css": ".price"}, {"jsonld": "offers.price"}], "type": "price"}
        definition: dict[str, Any] = {
            "start": shop.url("/"), "allow_private": True, "rate": "unlimited", "revisit": "0", "archive": True,
            "listing": {"products": "a.p"},
            "product": {"id": {"css": "body::attr(data-id)"},
                        "fields": {"title": {"css": "h1", "required": True}, "price": price}},
        }  # fmt: skip
        (environment.sites_dir / "shop.yaml").write_text(json.dumps(definition))
        run.coordinator()
        run.worker("datacenter", "--concurrency=1")
        first = run.crawl(engine, "shop")
        sells("8.50 €", "9.99")
        second = run.crawl(engine, "shop")

        def explain_second() -> Any:
            """The page is archived a moment after the crawl's end."""
            answer = run.json("why", "shop", "1")
            is_second = (answer["archived"] or {}).get("crawl_id") == second["id"]
            return answer if is_second else None

        told = until(explain_second, 20)
        by_name = {field["field"]: field for field in told["fields"]}
        assert by_name["title"]["crawl"] == first["id"]
        assert (by_name["title"]["source"], by_name["title"]["rivals"]) == ("css 'h1'", [])
        cost = by_name["price"]
        assert (cost["value"], cost["crawl"], cost["version"]) == (Decimal("8.5"), second["id"], 2)
        assert cost["source"] == "css '.price'" and cost["held"] is None
        assert [rival["value"] for rival in cost["rivals"]] == [Decimal("9.99")]
        assert cost["definition"] and told["read"] == "archive"
        assert told["archived"]["crawl_id"] == second["id"]

        sells("7.00 €", "6.00")
        now = run.json("why", "shop", "1", "price", "--fetch")
        assert now["read"] == "now" and len(now["fields"]) == 1
        assert [rival["value"] for rival in now["fields"][0]["rivals"]] == [6]
        text = run.scraper("why", "shop", "1", "price").stdout
        assert "by the page as archived" in text and "9.99" in text
    assert "has no product '2'" in run.scraper("why", "shop", "2", code=None).stderr
    assert (
        "has no 'colour': title, price, price_currency"
        in run.scraper("why", "shop", "1", "colour", code=None).stderr
    )

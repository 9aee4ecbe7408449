"""`scraper crawl SITE --preview`: a crawl's way to some products, without servers and a trace."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from click.testing import CliRunner, Result

from scraper.cli.main import main
from tests.support.shops.static_shop import StaticShop
from tests.support.shops.things_shop import DEFINITION, define

PAGED = DEFINITION.replace("products: a.p", "products: a.p, next: a.next")


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["crawl", "things", *words])
    assert result.exit_code == code, result.output
    return result


def test_products_by_as_few_requests_and_no_trace(shop: StaticShop) -> None:
    define(shop)
    rows = json.loads(run("--preview", "3", "--json").stdout)
    assert [(row["id"], row["title"], row["price"]) for row in rows] == [
        ("1", "Thing 1", 1.5),
        ("2", "Thing 2", 2.5),
        ("3", "Thing 3", 3.5),
    ]
    assert rows[0]["price_currency"] == "GBP"
    assert shop.paths == ["/robots.txt", "/", "/p/1", "/p/2", "/p/3"]
    assert sorted(path.name for path in Path().rglob("*")) == ["sites", "things.yaml"]


def test_all_there_are_are_written_to_a_file(shop: StaticShop) -> None:
    define(shop)
    shown = run("--preview", "-o", "things.csv")
    assert "7 products" in shown.stderr and "would end here" in shown.stderr
    rows = list(csv.DictReader(Path("things.csv").read_text().splitlines()))
    assert [row["price"] for row in rows] == [f"{n}.50" for n in range(1, 8)]
    told = json.loads(run("--preview", "1", "-o", "things.csv", "--json").stdout)
    assert (told["site"], told["output"], told["products"]) == ("things", "things.csv", 1)


def test_what_robots_disallow_and_what_is_not_good_is_reported_and_left_out(
    shop: StaticShop,
) -> None:
    pages = {
        "/": '<a class=p href="/secret">s</a><a class=p href="/p/1">1</a>'
        '<a class=next href="/2">n</a>',
        "/2": '<a class=p href="/p/1">1</a><a class=p href="/p/8">8</a><a class=p href="/p/2">2</a>',
        "/p/8": "<h1>No price</h1>",
    }
    shop.pages.update(pages)
    define(shop, text=PAGED)
    shown = run("--preview", "--json")
    assert [row["id"] for row in json.loads(shown.stdout)] == ["1", "2"]
    assert "/secret" not in shop.paths and "/secret" in shown.stderr
    assert "price" in shown.stderr
    assert shop.paths == ["/robots.txt", "/", "/p/1", "/2", "/p/8", "/p/2"]


def test_nothing_good_and_wrong_usage_exit_with_their_codes(shop: StaticShop) -> None:
    define(shop, text=DEFINITION.replace(".price", ".none"))
    assert "no product would be stored" in run("--preview", "2", code=1).output
    assert "--preview" in run("--preview", "2", "--wait", code=2).output

"""`scraper repair` as it is typed, against a shop that has redesigned its pages: what is proposed, what
is written, and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from scraper import settings
from scraper.cli.main import main
from scraper.coordinator import finish
from scraper.rules.urls import host_of
from scraper.settings import Settings
from scraper.sites.loader import load_file
from tests.support.making import (
    add,
    claimed,
    lease_all,
    new_page,
    open_crawl,
    settled,
    store,
    with_product,
)
from tests.support.shops.static_shop import StaticShop

NUMBERS = range(1, 16)
CARDS = "".join(f'<a class="p" href="/p/{n}">Thing {n}</a>' for n in NUMBERS)
STATE = {True: "In stock", False: "Sold out"}


def page(n: int, frame: str, claim: str = "Free from £9.00") -> str:
    """`frame` has places for title, price and state."""
    here = frame.format(title=f"Thing {n}", price=f"£{n}.50", state=STATE[n % 3 > 0])
    return f"<header><b>{claim}</b></header>{here}<footer>Sold by Things Ltd</footer>"


OLD = "<h1 class=name>{title}</h1><b class=price>{price}</b><i class=state>{state}</i>"
NEW = (
    "<section><div><i class=k1>{state}</i></div><p><span class=offer>{price}</span></p></section>"
    "<h1 class=name>{title}</h1>"
)
DEFINITION = """\
# The shop of things.
start: {url}/
rate: 500/s      # It allows more.
allow_private: true
listing: {{products: a.p}}
product:
  id: {{url: '/p/(\\d+)'}}
  fields:
    title: .name   # never moves
    price:
      # With tax.
      css: .price
      type: price
      required: true   # Without it, an offer is missing.
    state: {{css: .state, type: bool}}   # "Sold out" is false
"""


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StaticShop]:
    for name in ("DATABASE_URL", "REDIS_URL", "SCRAPER_HOME", "SCRAPER_SITES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    settings.load.cache_clear()
    pages = {"/": CARDS, **{f"/p/{n}": page(n, OLD) for n in NUMBERS}}
    with StaticShop(pages) as server:
        Path("sites").mkdir()
        Path("sites/things.yaml").write_text(DEFINITION.format(url=server.url))
        run("sites", "record", "things")
        yield server
    settings.load.cache_clear()


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output
    return result


def redesign(shop: StaticShop, frame: str, **more: str) -> None:
    shop.pages.update({f"/p/{n}": page(n, frame, **more) for n in NUMBERS})


def definition() -> str:
    return Path("sites/things.yaml").read_text()


def test_a_redesign_is_repaired_and_only_its_lines_change(shop: StaticShop) -> None:
    redesign(shop, NEW)
    before = definition()
    out = run("repair", "things").stdout
    assert "proposed: .offer: 15 of 15 pages of today, 0 of 15 recorded pages (0 wrong)" in out
    assert "-      css: .price\n+      css: .offer\n" in out
    assert "title" not in out.split("---")[0]
    assert definition() == before
    run("repair", "things", "--apply")
    expected = before.replace("css: .price", "css: .offer")
    after = definition().splitlines()
    assert after[:-1] == expected.splitlines()[:-1]
    assert after[-1].startswith("    state: {") and after[-1].endswith('# "Sold out" is false')
    run("sites", "check", "things")
    assert json.loads(run("try", "things", "--json").stdout)["products"][0]["complete"]
    assert "nothing to repair" in run("repair", "things").stdout


def test_newlines_stay_what_they_are(shop: StaticShop) -> None:
    redesign(shop, NEW)
    file = Path("sites/things.yaml")
    before = file.read_bytes().replace(b"\n", b"\r\n")
    file.write_bytes(before)
    run("repair", "things", "price", "--apply")
    assert file.read_bytes() == before.replace(b"css: .price", b"css: .offer")


def test_one_field_alone_and_its_json(shop: StaticShop) -> None:
    redesign(shop, NEW)
    shown = json.loads(run("repair", "things", "price", "--json").stdout)
    assert [one["name"] for one in shown["fields"]] == ["price"]
    assert shown["fields"][0]["confidence"] >= 0.9 and not shown["applied"]
    assert "state" not in [line[1:].split(":")[0].strip() for line in shown["diff"].splitlines()[2:] if line[0] in "+-"]  # fmt: skip


def test_what_left_the_pages_is_not_proposed_from_elsewhere(shop: StaticShop) -> None:
    """The state is gone; the claim above all pages says what most products said."""
    redesign(shop, NEW.replace("{state}", ""), claim="In stock")
    before = definition()
    out = run("repair", "things", "state", "--apply", code=1)
    assert "nothing is certain enough" in out.output
    assert definition() == before


def test_a_sale_is_not_a_redesign(shop: StaticShop) -> None:
    """Every price is another: none of them is what the field was, and none is taken for it."""
    redesign(shop, OLD.replace("{price}", "{price}0 <s>{price}</s>").replace("£", ""))
    before = definition()
    result = run("repair", "things", "price", code=1)
    assert "+" not in result.stdout.partition("@@")[2]
    assert definition() == before


def test_pages_that_do_not_answer_are_too_few(shop: StaticShop) -> None:
    shop.pages = {"/": CARDS}
    assert "too few" in run("repair", "things", code=1).output


def test_a_field_that_is_not_there_names_the_nearest(shop: StaticShop) -> None:
    assert "did you mean 'price'?" in run("repair", "things", "prise", code=2).output


def test_stored_products_are_what_is_known_where_nothing_was_recorded(
    environment: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        import_module("scraper.plugins.author.commands.repair"), "open_engine", lambda: engine
    )
    with StaticShop({f"/p/{n}": page(n, NEW) for n in NUMBERS}) as server:
        path = environment.sites_dir / "things.yaml"
        path.write_text(DEFINITION.format(url=server.url))
        crawl = open_crawl(engine, load_file(path))
        urls = {f"{server.url}/p/{n}": n for n in NUMBERS}
        add(engine, [new_page(crawl, url) for url in urls])
        (batch,) = lease_all(engine, host_of(server.url))
        lease = claimed(engine, batch)
        assert lease is not None
        for leased in lease.pages:
            n = urls[leased.url]
            price = {"price": Decimal(f"{n}.50"), "price_currency": "GBP"}
            result = with_product(
                settled(leased.id, crawl, batch.id),
                crawl,
                str(n),
                {"title": f"Thing {n}", **price, "state": n % 3 > 0},
            )
            (product,) = result.products
            store(engine, crawl, [replace(result, products=[replace(product, url=leased.url)])])
        finish.finish(engine, crawl[1])
        shown = json.loads(run("repair", "things", "price", "--apply", "--json").stdout)
    assert (shown["known"], shown["pages"]) == ("the stored products", 15)
    assert shown["fields"][0]["now"] == {"right": 15, "wrong": 0, "pages": 15}
    assert "css: .offer" in path.read_text()


ROWS = """\
  items:
    css: table tr
    id: ::attr(data-sku)
    optional: true
    fields:
      size: .size
      # Each has its own.
      cost: {css: .cost, type: price, required: true}
"""
OBJECTS = """\
  items:
    state: __APP__.skus
    id: sku
    optional: true
    fields: {size: size, cost: {path: cost.now, type: price, currency: GBP, required: true}}
"""


def row(n: int, size: str, frame: str) -> str:
    return frame.format(sku=f"{n}-{size}", size=size, cost=f"£{n}{len(size)}.25")


def objects(n: int, cost: str) -> str:
    skus = [
        {"sku": f"{n}-{size}", "size": size, **json.loads(cost.replace("?", f"{n}{len(size)}.25"))}
        for size in ("S", "XXL")
    ]
    return f"<script>window.__APP__ = {json.dumps({'skus': skus})}</script>"


def with_items(shop: StaticShop, written: str, parts: Callable[[int], str]) -> None:
    path = Path("sites/things.yaml")
    path.write_text(path.read_text().replace("  fields:\n", f"{written}  fields:\n", 1))
    redesign_items(shop, parts)
    run("sites", "record", "things")


def redesign_items(shop: StaticShop, parts: Callable[[int], str]) -> None:
    shop.pages.update({f"/p/{n}": page(n, OLD) + parts(n) for n in NUMBERS})


def table(frame: str) -> Callable[[int], str]:
    return lambda n: f"<table>{''.join(row(n, size, frame) for size in ('S', 'XXL'))}</table>"


def test_a_field_of_items_is_repaired_within_them(shop: StaticShop) -> None:
    old = "<tr data-sku={sku}><td class=size>{size}</td><td class=cost>{cost}</td></tr>"
    new = "<tr data-sku={sku}><td><i class=sz>{size}</i></td><td><s>£99.00</s><b class=now>{cost}</b></td></tr>"
    with_items(shop, ROWS, table(old))
    assert "nothing to repair" in run("repair", "things").stdout
    redesign_items(shop, table(new))
    out = run("repair", "things", "--apply").stdout
    assert "items.cost: the definition gives the known value on 0 of 30 pages" in out
    own = load_file(Path("sites/things.yaml")).product.items.fields  # type: ignore[union-attr]
    assert own["cost"].css.endswith(".now") and own["size"].css.endswith(".sz")  # type: ignore[union-attr]
    assert "# Each has its own." in definition()
    assert "nothing to repair" in run("repair", "things").stdout


def test_a_field_of_objects_is_repaired_by_their_paths(shop: StaticShop) -> None:
    with_items(shop, OBJECTS, lambda n: objects(n, '{"cost": {"now": "?"}}'))
    redesign_items(shop, lambda n: objects(n, '{"was": "99.00", "amounts": [{"value": "?"}]}'))
    shown = json.loads(run("repair", "things", "cost", "--json").stdout)
    assert [repair["name"] for repair in shown["fields"]] == ["items.cost"]
    assert shown["fields"][0]["value"]["path"] == "amounts[0].value"
    assert "size" not in run("repair", "things", "--apply").stdout.split("---")[0]
    own = load_file(Path("sites/things.yaml")).product.items.fields  # type: ignore[union-attr]
    assert own["cost"].path == "amounts[0].value" and own["cost"].currency == "GBP"


def test_items_that_are_not_found_are_for_people_to_fix(shop: StaticShop) -> None:
    with_items(
        shop,
        ROWS,
        table("<tr data-sku={sku}><td class=size>{size}</td><td class=cost>{cost}</td></tr>"),
    )
    redesign_items(shop, table("<tr><td class=size>{size}</td><td class=cost>{cost}</td></tr>"))
    before = definition()
    assert "the scope and id of items" in run("repair", "things", code=1).stderr
    assert "items.cost" not in run("repair", "things", "price").output
    assert definition() == before

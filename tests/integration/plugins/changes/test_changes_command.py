"""`scraper changes` and `scraper consumers` in this process: what they print and exit with."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from scraper.cli.main import main
from scraper.settings import Settings
from tests.support.making import a_site, rows
from tests.support.shops.crawled_shop import Shop

MODULES = ("plugins.changes.command", "cli.data.export", "cli.data.products")
COMMANDS = [import_module(f"scraper.{name}") for name in MODULES]
Run = Callable[..., Result]


@pytest.fixture
def run(environment: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Run:
    # a process that ends lets its connections go; this one does not end
    for module in COMMANDS:
        monkeypatch.setattr(module, "open_engine", lambda: engine)

    def command(*words: str, code: int = 0) -> Result:
        done = CliRunner().invoke(main, list(words), catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done

    return command


@pytest.fixture
def shop(engine: sa.Engine) -> Shop:
    """A site with five products, and this many changes."""
    shop = Shop(engine)
    urls = [f"https://shop.example/p/{n}" for n in range(5)]
    pages = shop.begin(*urls)
    for number, url in enumerate(urls):
        shop.give(pages[url], str(number), title=f"no. {number}", price=Decimal(number))
    shop.end()
    return shop


def records(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line, parse_float=Decimal) for line in done.stdout.splitlines()]


def stored(shop: Shop) -> list[object]:
    return [row[0] for row in rows(shop.engine, "SELECT id FROM changes ORDER BY id")]


def change(shop: Shop, count: int = 1) -> None:
    query = """INSERT INTO changes (site_id, product_id, crawl_id, version, event)
               SELECT site_id, id, crawl_id, version, 'relisted' FROM products, generate_series(1, :count)
                WHERE external_id = '1'"""
    with shop.engine.begin() as connection:
        connection.execute(sa.text(query), {"count": count})


def test_once_limited_and_from_somewhere(run: Run, shop: Shop) -> None:
    every = records(run("changes"))
    assert [one["cursor"] for one in every] == stored(shop) and {one["event"] for one in every} == {
        "new"
    }
    assert list(every[0]) == [
        "cursor", "event", "site", "id", "url", "version", "crawl", "at", "changed", "before", "data"
    ]  # fmt: skip
    assert records(run("changes", "shop", "--limit", "2")) == every[:2]
    assert records(run("changes", "--since", str(every[2]["cursor"]))) == every[3:]
    assert records(run("changes", "--since", "1h")) == every
    assert run("changes", "--since", "now").stdout == ""
    assert records(run("changes", "--follow", "--limit", "5")) == every
    assert "no site named 'nowhere'" in run("changes", "nowhere", code=2).stderr
    assert "neither a cursor nor a time" in run("changes", "--since", "soon", code=2).stderr
    assert "ahead of the feed" in run("changes", "--since", "999999", code=6).stderr


def test_a_consumer_goes_on_where_it_was(run: Run, shop: Shop) -> None:
    every = records(run("changes"))
    assert records(run("changes", "--consumer", "one", "--limit", "3")) == every[:3]
    assert records(run("changes", "--consumer", "one")) == every[3:]
    assert run("changes", "--consumer", "one").stdout == ""
    assert records(run("changes", "shop", "--consumer", "one")) == every, (
        "of one site it is another place"
    )
    change(shop, 2)
    assert len(records(run("changes", "--consumer", "one"))) == 2
    assert (
        records(run("changes", "--consumer", "one", "--since", str(every[3]["cursor"])))[0]
        == every[4]
    ), "set back"
    listed = json.loads(run("consumers", "--json").stdout)
    assert [(one["name"], one["site"], one["behind"], one["expired"]) for one in listed] == [
        ("one", None, 0, False), ("one", "shop", 2, False)
    ]  # fmt: skip
    assert "one\tshop\t" in run("consumers").stdout


def test_lines_that_were_not_written_are_not_noted(
    run: Run, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise BrokenPipeError

    with monkeypatch.context() as patch:
        patch.setattr(COMMANDS[0], "_write_batch", broken)
        run("changes", "--consumer", "one")
    assert len(records(run("changes", "--consumer", "one"))) == 5


def test_more_than_a_batch(run: Run, shop: Shop) -> None:
    change(shop, 2500)
    assert [
        one["cursor"] for one in records(run("changes", "shop", "--consumer", "one"))
    ] == stored(shop)
    assert len(records(run("changes", "--limit", "1700"))) == 1700


def test_what_is_forgotten_is_exit_code_6(run: Run, shop: Shop, tmp_path: Path) -> None:
    first, *_ = stored(shop)
    run("changes", "shop", "--consumer", "late", "--limit", "1")
    with shop.engine.begin() as connection:
        connection.execute(
            sa.text("DELETE FROM changes WHERE id IN (SELECT id FROM changes ORDER BY id LIMIT 3)")
        )
        connection.execute(
            sa.text(
                "UPDATE feed SET trimmed = (SELECT min(id) - 1 FROM changes), trimmed_at = now()"
            )
        )
    for words in (("--since", "1"), ("--consumer", "late"), ("--consumer", "new")):
        errors = run("changes", "shop", *words, code=6).stderr
        assert (
            "has forgotten what came after cursor" in errors
            and "`scraper export`" in errors.replace("\n", " ")
        )
    (late,) = json.loads(run("consumers", "--json").stdout)
    assert (late["name"], late["site"], late["cursor"], late["expired"]) == (
        "late",
        "shop",
        first,
        True,
    )
    out = str(tmp_path / "all.jsonl")
    told = json.loads(run("export", "shop", "-o", out, "--consumer", "late", "--json").stdout)
    assert (told["products"], told["exact"], told["since"]) == (5, True, None)
    change(shop)
    assert [one["event"] for one in records(run("changes", "shop", "--consumer", "late"))] == [
        "relisted"
    ]
    run("consumers", "--forget", "late")
    assert (
        json.loads(run("consumers", "--json").stdout) == []
        and run("consumers", "--forget", "late", code=2).stderr
    )


def test_a_pipe_gets_whole_values(run: Run, shop: Shop) -> None:
    name = "A very long name of a product " * 5 + "and its end"
    shop.once(external_id="4", url="https://shop.example/p/4", title=name, price=Decimal(4))
    for words in (("products", "shop"), ("history", "shop", "4"), ("changes", "shop")):
        told = run(*words).stdout
        assert name in told and "…" not in told, words


def test_prices_that_drop(run: Run, shop: Shop) -> None:
    shop.site = a_site(revisit="0s", quality="none")
    for price in ("10.00", "9.90", "8.00", "12.00"):
        shop.once("7", title="Pan", price=Decimal(price), price_currency="EUR")
    drops = records(run("changes", "--event", "price-drop", "--min", "5%"))
    assert [(one["before"]["price"], one["data"]["price"]) for one in drops] == [
        (Decimal("9.90"), Decimal("8.00"))
    ]
    assert len(records(run("changes", "--event", "price-drop"))) == 2
    assert len(records(run("changes", "--event", "price-rise", "--event", "new"))) == 7
    limited = records(run("changes", "--event", "price-drop", "--limit", "1"))
    assert [one["data"]["price"] for one in limited] == [Decimal("9.90")]
    assert len(records(run("changes", "--event", "price-drop", "--consumer", "drops"))) == 2
    assert run("changes", "--event", "price-drop", "--consumer", "drops").stdout == ""
    assert (
        "not a percentage" in run("changes", "--event", "price-drop", "--min", "x", code=2).stderr
    )


def test_one_field_through_time(run: Run, shop: Shop) -> None:
    for title, price in (("A", "10.00"), ("B", "10.00"), ("B", "8.00"), ("B", "12.00")):
        shop.once("7", title=title, price=Decimal(price), price_currency="EUR")
    points = json.loads(run("history", "shop", "7", "--field", "price", "--json").stdout)
    assert [(one["value"], one["currency"], one["percent"]) for one in points] == [
        (10.0, "EUR", None), (8.0, "EUR", -20.0), (12.0, "EUR", 50.0)
    ]  # fmt: skip
    assert points[0]["valid_to"] == points[1]["valid_from"] and points[2]["valid_to"] is None
    shown = run("history", "shop", "7", "--field", "price")
    assert "8.00 EUR\t-20.0%" in shown.stdout and "▄▁█  8.00 to 12.00" in shown.stderr
    assert (
        "never had a 'prize': price"
        in run("history", "shop", "7", "--field", "prize", code=2).stderr
    )


def test_products_are_filtered_and_sorted(run: Run, shop: Shop) -> None:
    shop.site = a_site(revisit="0s", quality="none")
    urls = [f"https://shop.example/p/{name}" for name in ("10", "x")]
    pages = shop.begin(*urls)
    shop.give(pages[urls[0]], "10", title="Ten; DROP", price=Decimal("10.5"))
    shop.give(pages[urls[1]], "x", title="No price")
    shop.end()

    def ids(*words: str) -> list[str]:
        return [one["id"] for one in json.loads(run("products", "shop", *words, "--json").stdout)]

    assert ids() == ["0", "1", "2", "3", "4", "10", "x"], "numbers come as numbers do"
    assert ids("--sort", "-id") == ["10", "4", "3", "2", "1", "0", "x"]
    assert ids("--sort", "-price") == ["10", "4", "3", "2", "1", "0", "x"]
    assert ids("--where", "price<2") == ["0", "1"]
    assert ids("--where", "price >= 2", "--where", "price!=3") == ["2", "4", "10"]
    assert ids("--where", "title~DROP") == ["10"] and ids("--where", "title=no. 1") == ["1"]
    assert ids("--where", "id=x") == ["x"] and len(ids("--where", "url~SHOP.EX")) == 7
    assert ids("--limit", "2", "--sort", "title") == ["x", "0"]
    assert "is not a condition" in run("products", "shop", "--where", "cheap", code=2).stderr
    assert (
        "does not compare with a number"
        in run("products", "shop", "--where", "price<x", code=2).stderr
    )
    assert "no field 'prize'" in run("products", "shop", "--where", "prize<1", code=2).stderr
    assert "no field 'prize'" in run("products", "shop", "--sort", "prize", code=2).stderr


def test_a_price_is_next_to_its_currency(run: Run, shop: Shop) -> None:
    shop.site = a_site(revisit="0s", quality="none")
    shop.once("7", title="Pan", price=Decimal("9.90"), price_currency="EUR")
    head, *lines = run("products", "shop", "--where", "id=7").stdout.splitlines()
    assert "price_currency" not in head and "9.90 EUR" in lines[0]

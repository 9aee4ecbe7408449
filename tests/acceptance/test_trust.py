"""A shop that changes its markup, as an operator lives through it: real servers, a coordinator, a
worker, a webhook, mail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, assert_counted, until
from tests.support.servers.receivers import PASSWORD, TOKEN, Mailbox, Webhook, receivers
from tests.support.shops.odd_shop import OddShop, listing, product

PRODUCTS = 60
DEFINITION = """
start: {start}
rate: unlimited
concurrency: 8
revisit: 0s
allow_private: true
listing: {{products: a.p}}
product:
  id: {{css: "body::attr(data-id)"}}
  fields:
    title: {{css: h1, required: true}}
    price: {{css: {price}, type: price{required}}}
    brand: .brand
"""


class Shop:
    """The shop, its definition, and what is stored."""

    def __init__(self, server: OddShop, folder: Path, engine: sa.Engine) -> None:
        self.server, self.folder, self.engine = server, folder, engine
        self.define()
        self.sell(range(PRODUCTS))

    def define(self, price: str = ".price", required: str = "") -> None:
        text = DEFINITION.format(start=self.server.url("/all"), price=price, required=required)
        (self.folder / "shop.yaml").write_text(text)

    def sell(self, numbers: range, price: str = '<p class="price">{}</p>') -> None:
        self.server.serve("/all", listing([f"/p/{number}" for number in numbers]))
        for number in numbers:
            more = price.format(f"{number + 1}.90 €") + f'<p class="brand">brand {number % 7}</p>'
            self.server.serve(
                f"/p/{number}", product(str(number), f"thing {number}", None, more).encode()
            )

    def stored(self) -> dict[str, tuple[str, str]]:
        query = "SELECT external_id, data ->> 'price' AS price, data ->> 'price_currency' AS currency FROM products"
        with self.engine.connect() as connection:
            return {
                row.external_id: (row.price, row.currency)
                for row in connection.execute(sa.text(query))
            }

    def delisted(self) -> int:
        with self.engine.connect() as connection:
            query = sa.text(
                "SELECT count(*) FROM products WHERE delisted_at IS NOT NULL OR missed_crawls > 0"
            )
            return int(connection.execute(query).scalar_one())

    def alerts_left(self) -> int:
        with self.engine.connect() as connection:
            return int(
                connection.execute(
                    sa.text("SELECT count(*) FROM alerts WHERE done_at IS NULL")
                ).scalar_one()
            )


ALL = {str(number): (f"{number + 1}.90", "EUR") for number in range(PRODUCTS)}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[tuple[Webhook, Mailbox, Path]]:
    with receivers(tmp_path) as found:
        yield found


@pytest.fixture
def server() -> Iterator[OddShop]:
    with OddShop() as found:
        yield found


@pytest.fixture
def shop(server: OddShop, environment: Settings, engine: sa.Engine) -> Shop:
    return Shop(server, environment.sites_dir, engine)


def test_a_selector_breaks_and_is_fixed(
    run: Commands, shop: Shop, engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, mailbox, path = told
    run.coordinator(env={"SCRAPER_ALERTS": str(path), "SCRAPER_LOG_LEVEL": "DEBUG"})
    run.worker("datacenter")
    for _ in range(2):
        crawl = run.crawl(engine, "shop")
        assert crawl["status"] == "completed" and not crawl["suspect"]
    assert shop.stored() == ALL
    assert "as usual" in run.scraper("report", "shop").stdout

    # The shop has a new look, in which the selector finds nothing; and it lists less.
    # What it does not list any more looks as it did, and says nothing of the selector.
    shop.sell(range(PRODUCTS - 20), price='<div class="cost"><b>{}</b></div>')
    broken = run.crawl(engine, "shop", code=5)
    assert broken["status"] == "completed" and broken["suspect"]
    assert_counted(engine, broken)
    assert shop.stored() == ALL, "no price is emptied"
    assert shop.delisted() == 0 and broken["products_changed"] == 0
    number = broken["id"]

    until(lambda: shop.alerts_left() == 0, 60)
    (where, message), (to, subject, text) = webhook.got[0], mailbox.got[0]
    assert where == f"/hooks/{TOKEN}" and to == "people@shop.example"
    assert message["title"] == subject == f"shop: crawl {number} is suspect"
    assert [one["field"] for one in message["reasons"]] == [
        "price"
    ] and f"scraper report {number}" in text

    shown = run.scraper("report", str(number), code=5)
    assert "Fix the definition and crawl again (`scraper repair shop price` looks)" in shown.stdout
    assert (
        "SUSPECT" in shown.stdout
        and "price: found on 0 of 40 product pages (0%), usually on 100%" in shown.stdout
    )
    assert (
        "selector: css '.price'" in shown.stdout
        and f"page: {shop.server.url('/p/')}" in shown.stdout
    )
    assert '<div class="cost"><b>' in shown.stdout and f"scraper accept {number}" in shown.stdout
    assert "is suspect" in shown.stderr
    report: dict[str, Any] = run.json("report", "shop", code=5)
    price = next(one for one in report["fields"] if one["field"] == "price")
    assert (
        price["breach"] == "fill" and price["held"] == price["records"] == 40 and price["fill"] == 0
    )
    assert price["selector"] == "css '.price'" and len(price["examples"]) == 3
    for example in price["examples"]:
        assert (
            example["url"].startswith(shop.server.url("/p/"))
            and example["known"] in example["excerpt"]
        )

    # The selector is repaired, and everything is well again.
    shop.define(price=".cost")
    repaired = run.crawl(engine, "shop")
    assert not repaired["suspect"] and shop.stored() == ALL
    assert shop.delisted() == 20, "missed by a crawl that is not suspect, for the first time"
    assert run.scraper("report", str(repaired["id"])).returncode == 0
    assert len(webhook.got) == len(mailbox.got) == 1
    logs = run.logs(whole=True)
    assert "alert sent" in logs
    for secret in (TOKEN, PASSWORD):
        assert secret not in logs


def test_a_required_field_breaks_and_the_shop_has_changed_for_good(
    run: Commands, shop: Shop, engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, mailbox, path = told
    run.coordinator(env={"SCRAPER_ALERTS": str(path)})
    run.worker("datacenter")
    shop.define(required=", required: true")
    run.crawl(engine, "shop")
    shop.sell(range(PRODUCTS), price="<i>{}</i>")
    failed = run.crawl(engine, "shop", code=4)
    assert failed["status"] == "failed" and failed["suspect"] and shop.stored() == ALL
    until(lambda: shop.alerts_left() == 0, 60)
    assert [message["title"] for _, message in webhook.got] == [
        f"shop: crawl {failed['id']} failed"
    ]
    assert len(mailbox.got) == 1
    shown = run.scraper("report", str(failed["id"]), code=5).stdout
    assert (
        "price: found on 0 of 60 product pages" in shown
        and "selector: css '.price'" in shown
        and "<i>" in shown
    )

    # It shows no prices any more: the definition no longer wants them, and a person takes that as
    # the new usual.
    shop.define()
    suspect = run.crawl(engine, "shop", code=5)
    assert shop.stored() == ALL
    assert "are released" in run.scraper("accept", str(suspect["id"])).stdout
    assert set(shop.stored().values()) == {(None, None)}
    assert not run.crawl(engine, "shop")["suspect"]


def test_what_a_person_may_type_wrongly(
    run: Commands, shop: Shop, engine: sa.Engine, tmp_path: Path
) -> None:
    assert "no crawl has the id 4711" in run.scraper("report", "4711", code=2).stderr
    assert "'nowhere' is not a site" in run.scraper("report", "nowhere", code=2).stderr
    assert "SCRAPER_ALERTS is not set" in run.scraper("alerts", "test", code=2).stderr
    path = tmp_path / "list"
    path.write_text("https://ok.example/x\nsecret words\n")
    wrong = run.scraper("alerts", "test", code=2, env={"SCRAPER_ALERTS": str(path)})
    assert f"{path}:2: not an address" in wrong.stderr and "secret words" not in wrong.stderr
    text = DEFINITION.format(start="https://a.example/", price=".p", required="")
    (shop.folder / "shop.yaml").write_text(f"{text}quality:\n  fill: 150%\n")
    checked = run.scraper("sites", "check", code=2)
    assert (
        "shop.yaml:15: quality.fill: '150%' is not a share (fix: "
        in checked.stdout + checked.stderr
    )


def test_alerts_are_tested_by_hand(run: Commands, told: tuple[Webhook, Mailbox, Path]) -> None:
    webhook, mailbox, path = told
    env = {"SCRAPER_ALERTS": str(path)}
    shown = run.scraper("alerts", "test", env=env)
    assert shown.stdout.splitlines() == [
        "line\tkind\tresult",
        "2\thttp\tdelivered",
        "3\tmailto\tdelivered",
    ]
    assert webhook.got[0][1]["title"] == mailbox.got[0][1] == "scraper: a test"
    webhook.status = 503
    refused = run.scraper("alerts", "test", code=1, env=env)
    assert "2\thttp\tnot reached" in refused.stdout and "1 of 2 recipients" in refused.stderr
    assert (
        TOKEN not in refused.stdout + refused.stderr
        and PASSWORD not in refused.stdout + refused.stderr
    )

"""Alerts as a mail server receives them, with titles that try to be headers and markup."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper.plugins.alerts.crawls import alert_crawls
from scraper.plugins.alerts.prices import outbox
from scraper.settings import Settings
from tests.support.judged_crawls import crawled, good, shop, without
from tests.support.servers.receivers import Mailbox, Webhook
from tests.support.shops.crawled_shop import Shop

TITLE = "Lamp\r\nBcc: all@evil.example <script>alert(1)</script>\u202e<img src=x> & Co"
TAB = "https://crawls.example/f"


def test_price_alerts_are_a_table(
    engine: sa.Engine, people: tuple[Webhook, Mailbox, Path], tmp_path: Path
) -> None:
    webhook, mailbox, recipients = people
    rules = tmp_path / "alerts.yaml"
    rules.write_text("- {name: drops, when: fell 5%}")
    settings = Settings(alerts=recipients, alert_rules=rules, alert_tab=TAB)
    outbox.alert_prices(engine, settings)
    products = Shop(engine)
    for price in ("20.00", "12.00"):
        products.once(name=TITLE, price=Decimal(price), price_currency="EUR")
    outbox.alert_prices(engine, settings)
    ((to, subject, text),) = mailbox.got
    ((_, message),) = webhook.got
    assert subject == "shop: 1 price fell 40 %: Lamp Bcc: all@evil.example alert(1) & Co"
    assert to == "people@shop.example" and "Bcc" not in mailbox.headers[0]
    assert "<td>20.00 EUR</td><td>12.00 EUR</td><td>-40.0%</td>" in mailbox.html[0]
    lines = text.splitlines()
    start = lines.index("Lamp Bcc: all@evil.example alert(1) & Co")
    address = message["alerts"][0]["url"]
    assert [line for line in lines[start:] if line][1:6] == [
        *("shop", "20.00 EUR", "12.00 EUR", "-40.0%"), address,
    ]  # fmt: skip
    assert f'<a href="{address}"' in mailbox.html[0] and f"{TAB}/crawls/alerts" in text
    for part in (text, mailbox.html[0]):
        assert not any(sign in part for sign in ("<script", "<img", "\u202e"))
    assert message["alerts"][0]["name"] == TITLE and message["title"].startswith("drops: Lamp")


@pytest.mark.parametrize("tab", ["", TAB])
def test_crawl_alerts_link_to_the_tab(
    engine: sa.Engine, people: tuple[Webhook, Mailbox, Path], tab: str
) -> None:
    webhook, mailbox, recipients = people
    crawled(engine, shop(), range(30))
    crawl = crawled(engine, shop(), range(30), lambda number: without(good(number), "price"))
    alert_crawls(engine, Settings(alerts=recipients, alert_tab=tab))
    ((_, subject, text),) = mailbox.got
    assert subject == f"shop: crawl {crawl.id} is suspect" == webhook.got[0][1]["title"]
    assert "read by css '.p'" in text and f"scraper report {crawl.id}" in text
    assert (f"{TAB}/crawls/{crawl.id}" in text) is bool(tab) is ("<a " in mailbox.html[0])

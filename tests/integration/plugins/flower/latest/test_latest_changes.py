"""The newest changes as JSON and as an Atom feed: of shops that write markup, in order, bounded."""

from __future__ import annotations

from decimal import Decimal
from xml.etree import ElementTree

import httpx
import pytest
import sqlalchemy as sa

from scraper.errors import NotFoundError
from scraper.plugins.flower.access.users import change_users, with_token
from scraper.plugins.flower.latest import changes as latest
from scraper.plugins.flower.latest.atom import write_feed
from scraper.plugins.flower.latest.changes import read_changes
from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.support.judged_crawls import priced
from tests.support.making import a_site
from tests.support.servers.flower import Flower
from tests.support.shops.crawled_shop import B, Shop

EVIL = "]]></title><script>alert(1)</script>&lt;b&gt; \x08\x1b\u202e\ufffe\U0001f4a9 <!--"
ATOM = "{http://www.w3.org/2005/Atom}"


def read(engine: sa.Engine, site: str | None = None, **more: str) -> list[dict[str, object]]:
    with engine.connect() as connection:
        return read_changes(connection, site, **more)


def test_the_newest_change_comes_first(engine: sa.Engine) -> None:
    assert read(engine) == []
    shop = Shop(engine)
    shop.once(name="Pot", price=Decimal("20.00"), price_currency="EUR", brand="A")
    shop.once(name="Pan", price=Decimal("10.00"), price_currency="EUR")
    told = read(engine, "shop")
    assert [one["event"] for one in told] == ["changed", "new"]
    assert told[0]["fields"] == [
        {"field": "price", "before": "20.00 EUR", "after": "10.00 EUR", "percent": "-50.0%"},
        {"field": "brand", "before": "A", "after": "", "percent": ""},
        {"field": "name", "before": "Pot", "after": "Pan", "percent": ""},
    ]
    assert told[1]["fields"] == [] and told[1]["price"] == "20.00 EUR"
    assert [one["event"] for one in read(engine, event="new")] == ["new"]
    a_site("quiet")
    with pytest.raises(NotFoundError):
        read(engine, "nobody")


def test_a_flood_of_another_shop_costs_no_more(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(Shop(engine), *(f"{number}.00" for number in range(1, 6)))
    monkeypatch.setattr(latest, "SEARCHED_MAX", 2)
    assert len(read(engine, "shop")) == 2
    assert len(read(engine, "shop", event="new")) == 0


def test_what_a_shop_writes_is_text_in_the_feed(engine: sa.Engine) -> None:
    shop = Shop(engine)
    shop.once(f"7{EVIL}", name=EVIL, price=Decimal("20.00"), price_currency=EVIL)
    shop.once(f"7{EVIL}", name=EVIL, price=Decimal("10.00"), price_currency=EVIL)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE products SET url = 'javascript:alert(1)'"))
    told = read(engine)
    told[0]["title"] = f"{told[0]['title']}\ud800"
    text = write_feed(told, "shop", 'http://h"><x/>/', "http://h/crawls")  # type: ignore[arg-type]
    feed = ElementTree.fromstring(text)
    assert {element.tag.removeprefix(ATOM) for element in feed.iter()} == {
        "feed", "title", "id", "updated", "link", "entry", "author", "name", "category", "content",
    }  # fmt: skip
    first = feed.find(f"{ATOM}entry")
    assert first is not None and "</title><script>" in str(first.findtext(f"{ATOM}title"))
    assert "\u202e" not in text.decode() and "\x1b" not in text.decode()
    links = [link.get("href", "") for link in feed.iter(f"{ATOM}link")]
    assert not any(link.startswith("javascript") for link in links)
    ids = [entry.findtext(f"{ATOM}id") for entry in feed.iter(f"{ATOM}entry")]
    assert len(set(ids)) == 2
    again = ElementTree.fromstring(write_feed(told[1:], None, "http://h/", "http://h/crawls"))
    assert again.find(f"{ATOM}entry").findtext(f"{ATOM}id") == ids[1], "ids never move"  # type: ignore[union-attr]


def test_a_feed_reader_with_a_token_reads_and_asks_again(
    run: Commands, environment: Settings, engine: sa.Engine
) -> None:
    shop = Shop(engine)
    priced(shop, "20.00", "10.00")
    shop.once("8", B, name="Lid")
    with change_users(environment.home_dir) as users:
        users["reader"], token = with_token("reader", "read")
    flower = Flower(run, environment, "--url_prefix=flower", prefix="/flower")
    path = f"{flower.url}/api/changes.atom?site=shop"
    assert httpx.get(path, timeout=180).status_code == 401
    headers = {"Authorization": f"Bearer {token}", "Host": "monitor.example"}
    answer = httpx.get(path, headers=headers, timeout=180)
    assert answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    feed = ElementTree.fromstring(answer.content)
    assert len(feed.findall(f"{ATOM}entry")) == len(flower.json("/api/changes")["changes"])
    assert (
        feed.find(f"{ATOM}link").get("href")
        == "http://monitor.example/flower/api/changes.atom?site=shop"
    )  # type: ignore[union-attr]
    links = [link.get("href", "") for link in feed.iter(f"{ATOM}link")]
    assert "http://monitor.example/flower/crawls/products?site=shop&id=8" in links
    known = {**headers, "If-None-Match": answer.headers["ETag"]}
    assert httpx.get(path, headers=known, timeout=180).status_code == 304
    for query, status in (("?site=nobody", 404), ("?event=x", 400), ("?event=new", 200)):
        for form in ("", ".atom"):
            assert flower.get(f"/api/changes{form}{query}").status_code == status
    assert httpx.post(path, headers=headers, timeout=180).status_code in (403, 405)

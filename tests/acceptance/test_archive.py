"""Raw pages archived by real workers, on disk and in a bucket, and re-extracted without a request."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from warcio.archiveiterator import ArchiveIterator

from scraper.infra.objects import Objects, open_place
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until, until_completed
from tests.support.shops.odd_shop import Answer, OddShop, listing, product

PRODUCTS = 120
DEFINITION = """
start: {start}
rate: unlimited
concurrency: 8
revisit: 0s
allow_private: true
archive: {archive}
listing: {{products: a.p}}
product:
  id: {{css: "body::attr(data-id)"}}
  fields:
    title: {{css: h1, required: true}}
    price: {{css: {price}, type: price}}
{more}
"""


class Shop:
    """Products with a price now and a price before, of which the definition reads one."""

    def __init__(self, server: OddShop, folder: Path) -> None:
        self.server, self.folder = server, folder
        server.serve("/all", listing([f"/p/{number}" for number in range(PRODUCTS)]))
        for number in range(PRODUCTS):
            server.serve(f"/p/{number}", self.page(number))

    def page(self, number: int) -> Answer:
        more = f'<p class="before">{number + 2}.50 €</p>' + (
            '<p class="brand">ACME</p>' if number % 2 else ""
        )
        body = product(str(number), f"thing {number} – é", f"{number + 1}.90 €", more).encode()
        return Answer(body, headers=("Set-Cookie: who=me", "X-Shop: odd"))

    def define(self, *, archive: str = "true", price: str = ".price", more: str = "") -> None:
        text = DEFINITION.format(
            start=self.server.url("/all"), archive=archive, price=price, more=more
        )
        (self.folder / "shop.yaml").write_text(text)


@pytest.fixture
def server() -> Iterator[OddShop]:
    with OddShop() as found:
        yield found


@pytest.fixture
def shop(server: OddShop, environment: Settings) -> Shop:
    return Shop(server, environment.sites_dir)


@pytest.fixture(params=["gzip on disk", "zstd on disk", "gzip in a bucket"])
def kept(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Objects:
    """Where pages are kept, as the settings of workers and commands say."""
    codec, _, where = request.param.partition(" ")
    there = (
        str(tmp_path / "kept") if "disk" in where else request.getfixturevalue("bucket") + "/raw"
    )
    monkeypatch.setenv("SCRAPER_ARCHIVE", there)
    monkeypatch.setenv("SCRAPER_ARCHIVE_CODEC", codec)
    return open_place(there, "test")


def rows(engine: sa.Engine, query: str) -> list[sa.Row[Any]]:
    with engine.connect() as connection:
        return list(connection.execute(sa.text(query)))


def prices(engine: sa.Engine) -> dict[str, str]:
    return {
        row.id: row.price
        for row in rows(engine, "SELECT external_id AS id, data ->> 'price' AS price FROM products")
    }


def test_a_shop_is_crawled_and_read_again_without_a_request(
    run: Commands, shop: Shop, engine: sa.Engine, kept: Objects, environment: Settings
) -> None:
    shop.define()
    run.coordinator()
    run.worker("datacenter")
    # Without the option the second would find the same bytes, and keep nothing.
    for options in ((), ("--refetch",)):
        crawl = run.crawl(engine, "shop", *options)
        assert crawl["status"] == "completed" and crawl["dead"] == 0
    (summary,) = run.json("archive", "list", "shop")
    assert (summary["pages"], summary["urls"], summary["keep_s"]) == (
        2 * PRODUCTS,
        PRODUCTS,
        30 * 86400,
    )
    assert run.json("archive", "verify") == {"pages": 2 * PRODUCTS, "broken": 0, "problems": []}
    assert list((environment.home_dir / "tmp").iterdir()) == [], "nothing is left behind"
    segments = list(kept.listed())
    assert (
        sum(each.size for each in segments) >= summary["bytes"]
        and len(segments) == summary["segments"]
    )
    if "gzip" in os.environ["SCRAPER_ARCHIVE_CODEC"]:
        assert_others_read_it(kept, shop)
    asked_for = len(shop.server.requests)
    before = prices(engine)

    # Another selector, and a field more: shown, and nothing written.
    shop.define(price=".before", more="    brand: .brand")
    asked = run.json("reextract", "shop", "--diff", "--show", "1000")
    assert asked["products"] == {
        "same": 0,
        "changed": PRODUCTS,
        "new": 0,
        "vanished": 0,
        "left_alone": {},
    }
    assert (asked["pages"], asked["unreadable"], asked["not_extracted"], asked["written"]) == (
        PRODUCTS,
        0,
        0,
        None,
    )
    price, brand = asked["fields"]["price"], asked["fields"]["brand"]
    assert (price["gained"], price["changed"], price["lost"]) == (0, PRODUCTS, 0)
    assert (brand["gained"], brand["changed"], brand["lost"]) == (PRODUCTS // 2, 0, 0)
    assert (brand["fill_before"], float(brand["fill_after"])) == (0, 0.5)
    shown = {one["id"]: one["fields"] for one in asked["changes"]}
    for number in range(PRODUCTS):
        fields = shown[str(number)]
        assert {str(value) for value in fields["price"].values()} == {
            f"{number + 1}.90",
            f"{number + 2}.50",
        }
        assert fields.get("brand") == ({"before": None, "after": "ACME"} if number % 2 else None)
        assert set(fields) <= {"price", "brand"}
    assert prices(engine) == before and not rows(engine, "SELECT FROM product_versions")

    told = run.scraper("reextract", "shop", "--yes").stdout
    assert f"written: {PRODUCTS} products changed, 0 new" in told
    assert prices(engine) == {str(number): f"{number + 2}.50" for number in range(PRODUCTS)}
    versions = run.json("history", "shop", "7")
    assert [(one["version"], str(one["data"]["price"])) for one in versions] == [
        (1, "8.90"),
        (2, "9.50"),
    ]
    assert (
        rows(
            engine,
            "SELECT FROM products p JOIN pages g ON g.id = p.page_id WHERE p.fetched_at > g.fetched_at",
        )
        == []
    )
    crawl = run.crawls("shop")[0]
    assert (crawl["trigger"], crawl["status"], crawl["products_changed"]) == (
        "reextract",
        "completed",
        PRODUCTS,
    )

    again = run.json("reextract", "shop")
    assert again["products"]["same"] == PRODUCTS and again["written"] is None

    # A selector that finds nothing is not written over good data, unless an option says so.
    shop.define(price=".nowhere", more="    brand: .brand")
    refused = run.scraper("reextract", "shop", "--yes", code=5)
    assert "price: found on 0 of 120 product pages (0%), usually on 100%" in refused.stderr
    assert prices(engine)["7"] == "9.50"
    run.scraper("reextract", "shop", "--yes", "--accept")
    assert set(prices(engine).values()) == {None}
    assert len(shop.server.requests) == asked_for, "all of this without a request"


def assert_others_read_it(kept: Objects, shop: Shop) -> None:
    """With warcio alone: whole files, digests checked."""
    pages = []
    for each in kept.listed():
        records = ArchiveIterator(BytesIO(kept.read(each.key)), check_digests="raise")
        for number, record in enumerate(records):
            assert record.rec_type == ("response" if number else "warcinfo")
            body = record.content_stream().read()
            if not number:
                assert b"software: scraper\r\n" in body
                continue
            url = record.rec_headers.get_header("WARC-Target-URI")
            head = record.http_headers
            assert head.get_statuscode() == "200" and head.get_header("X-Shop") == "odd"
            assert head.get_header("Set-Cookie") is None
            assert body == shop.page(int(url.rpartition("/")[2])).body
            pages.append(url)
    assert sorted(pages) == sorted(
        2 * [shop.server.url(f"/p/{number}") for number in range(PRODUCTS)]
    )


@pytest.mark.timeout(900)
def test_whatever_is_killed_rows_point_at_records_that_can_be_read(
    run: Commands, shop: Shop, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_ARCHIVE", str(tmp_path / "kept"))
    monkeypatch.setenv("SCRAPER_LEASE_S", "5")
    monkeypatch.setenv("SCRAPER_BATCH_PAGES", "5")
    shop.define(archive="{pages: all}")
    run.coordinator()
    # batches at once: what a killed worker has under way is not archived, and enough must be left
    few = ("-c", "2")
    worker = run.worker("datacenter", *few)
    run.until_ready(worker)
    crawl_id = int(run.scraper("crawl", "shop").stdout)
    archived = "SELECT FROM archived_pages"
    for kill in range(1, 4):
        until(lambda kill=kill: len(rows(engine, archived)) >= 10 * kill, 100, every_s=0.005)
        run.end(worker, signal.SIGKILL)
        assert run.json("archive", "verify")["broken"] == 0
        worker = run.worker("datacenter", *few)
    until_completed(engine, crawl_id, 240)
    assert run.crawls("shop")[0]["id"] == crawl_id and run.crawls("shop")[0]["ok"] == PRODUCTS + 1
    done = run.json("archive", "verify")
    assert done["broken"] == 0 and 30 <= done["pages"] <= PRODUCTS + 1
    assert len(rows(engine, "SELECT DISTINCT page_id FROM archived_pages")) == done["pages"], (
        "none twice"
    )

    # What the killed ones had begun is swept once it is old, and what is kept stays as it is.
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO archive_segments (place, key, codec) SELECT place, 'x/y', codec "
                                   "FROM archive_segments LIMIT 1"))  # fmt: skip
        connection.execute(
            sa.text("UPDATE archive_segments SET created_at = created_at - interval '2 days'")
        )
    (tmp_path / "kept" / "x").mkdir()
    (tmp_path / "kept" / "x" / "y").touch()
    run.scraper("archive", "prune")
    assert not (tmp_path / "kept" / "x").exists() and not rows(
        engine, "SELECT FROM archive_segments WHERE pages = 0"
    )
    assert len(list(open_place(str(tmp_path / "kept"), "test").listed())) == len(
        rows(engine, "SELECT FROM archive_segments")
    )
    assert run.json("archive", "verify") == done


def test_a_worker_that_stops_archives_what_it_has_fetched(
    run: Commands, shop: Shop, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_ARCHIVE", str(tmp_path / "kept"))
    shop.define()
    run.coordinator()
    worker = run.worker("datacenter")
    run.scraper("crawl", "shop")
    good = "SELECT FROM pages WHERE kind = 'product' AND status = 'ok'"
    until(lambda: rows(engine, good), 60, every_s=0.005)
    assert run.end(worker, signal.SIGTERM) == 0
    assert len(rows(engine, "SELECT FROM archived_pages")) == len(rows(engine, good)) > 0


def test_a_place_that_cannot_be_written_to_costs_no_page(
    run: Commands, shop: Shop, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCRAPER_ARCHIVE", str(tmp_path / "file" / "kept"))
    shop.define()
    run.coordinator()
    worker = run.worker("datacenter")
    crawl = run.crawl(engine, "shop")
    assert crawl["status"] == "completed" and crawl["ok"] == PRODUCTS + 1 and crawl["dead"] == 0
    assert "pages could not be stored for the archive" in run.log(worker)
    assert not rows(engine, "SELECT FROM archived_pages")
    assert "no archived product pages of shop" in run.scraper("reextract", "shop", code=1).stderr

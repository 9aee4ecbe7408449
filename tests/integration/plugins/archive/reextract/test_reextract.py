"""Archived pages read again against a real PostgreSQL: what would change, what may be written, and
what never is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.coordinator.finish import finish
from scraper.domain import Extracted, Fetched, FieldObservations, Kind, content_hash
from scraper.errors import BusyError
from scraper.extract import compile_site
from scraper.frontier import sites
from scraper.plugins.archive.keys import ArchiveKeys
from scraper.plugins.archive.reextract import run as step
from scraper.plugins.archive.reextract.differences import FieldChange
from scraper.plugins.archive.reextract.run import Preview, Reextraction, WriteResult
from scraper.plugins.archive.spool import Archive
from scraper.plugins.archive.worker_part import NAME, confirm_archived
from scraper.results.judgement import crawl_quality
from scraper.results.products import NewProduct
from scraper.results.transaction import CrawlLimits, PageResult, settle_pages
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.views import queue_stats as state
from tests.support.making import (
    a_site,
    add,
    claimed,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    urls,
)

PAGES = 30
PRODUCT = {"id": {"css": "b"}, "fields": {"title": {"css": "h1", "required": True}, "price": "i"}}

LATER = "fetched_at = now() + interval '1 hour'"


def definition(**fields: Any) -> Site:
    product = PRODUCT | {"fields": PRODUCT["fields"] | fields}  # type: ignore[operator]
    return a_site(archive=True, product=product)


class Shop:
    """Pages fetched and archived, as a worker would have done it, by the definition of yesterday."""

    def __init__(self, engine: sa.Engine, settings: Settings) -> None:
        self.engine, self.settings = engine, settings
        self.site = definition()
        self.crawl = open_crawl(engine, self.site)
        add(engine, [new_page(self.crawl, url) for url in urls(PAGES)])
        self.fetch()

    @staticmethod
    def body(number: int) -> bytes:
        brand = "<u>ACME</u>" if number % 3 == 0 else ""
        return f"<b>{number}</b><h1>thing {number}</h1><i>{number}.50</i><s>{number}.90</s>{brand}".encode()

    def fetch(self) -> None:
        async def work() -> None:
            archive = Archive(self.engine, self.settings)
            spool = archive.open_spool()
            assert spool is not None and self.site.of(ArchiveKeys).archive is not None
            (batch,) = lease_all(self.engine, "shop.example")
            lease = claimed(self.engine, batch)
            assert lease is not None
            group = []
            for page in lease.pages:
                number = int(page.url.rpartition("/")[2])
                captured = {"api": (b"{}", b'{"stock": %d}' % number)} if number % 2 else {}
                fetched = Fetched(
                    page.url,
                    200,
                    {"content-type": "text/html"},
                    self.body(number),
                    captured=captured,
                )
                extracted = compile_site(self.site).extract(
                    Kind.PRODUCT, fetched, page_url=page.url, depth=1
                )
                spooled = await archive.add(
                    spool, page, fetched, self.crawl[0], self.site.of(ArchiveKeys).archive
                )
                group.append(
                    self._settled(
                        settled(page.id, self.crawl, lease.id), extracted, page.url, spooled
                    )
                )
            with self.engine.begin() as connection:
                stored = settle_pages(connection, group, {self.crawl[1]: CrawlLimits(1000, 1000)})
            confirm_archived(stored)
            await archive.finish(spool)
            assert archive.stored == len(lease.pages)

        asyncio.run(work())
        finish(self.engine, self.crawl[1])

    def _settled(self, one: Any, extracted: Extracted, url: str, spooled: Any) -> PageResult:
        (product,) = extracted.products
        hashed = content_hash(product.data)
        new = NewProduct(
            self.crawl[0],
            product.external_id,
            one.page_id,
            self.crawl[1],
            url,
            product.data,
            hashed,
        )
        reading = FieldObservations(1, extracted.found, extracted.mistyped)
        return replace(
            one, products=[new], content_hash=hashed, observations=reading, extras={NAME: spooled}
        )

    def execute(self, query: str, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.text(query), values)

    def data(self) -> dict[str, dict[str, Any]]:
        with self.engine.connect() as connection:
            found = connection.execute(sa.text("SELECT external_id, data FROM products"))
            return {row.external_id: row.data for row in found}


@pytest.fixture
def shop(engine: sa.Engine, environment: Settings, tmp_path: Path) -> Shop:
    return Shop(engine, environment.model_copy(update={"archive": str(tmp_path / "kept")}))


def reextract(
    shop: Shop, site: Site, *, write: bool = True, show: int = 100, limit: int | None = None
) -> tuple[Preview, WriteResult | None]:
    with Reextraction(shop.engine, shop.settings, site) as extraction:
        preview = extraction.read(
            shop.crawl[0], show=show, limit=limit, tick=lambda done, total: None
        )
        if not write:
            return preview, None
        with shop.engine.begin() as connection:
            sites.store_definitions(connection, [site])
        return preview, extraction.write(shop.crawl[0], lambda done, total: None)


def test_the_same_definition_changes_nothing(shop: Shop) -> None:
    preview, written = reextract(shop, shop.site)
    assert (preview.pages, preview.same, preview.to_write, preview.reasons) == (PAGES, PAGES, 0, [])
    assert written is not None and (written.new, written.changed) == (0, 0)


def test_what_would_change_is_what_then_changes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "BATCH", 7)
    site, before = definition(price="s", brand="u"), shop.data()
    preview, _ = reextract(shop, site, write=False)
    assert shop.data() == before and rows(shop.engine, "SELECT count(*) FROM crawls") == [(1,)]
    for one in preview.shown:
        number = int(one.external_id)
        expected = {"price": FieldChange(f"{number}.50", f"{number}.90")}
        assert one.fields == expected | (
            {"brand": FieldChange(None, "ACME")} if number % 3 == 0 else {}
        )
    assert (preview.changed, preview.new, preview.same, len(preview.shown)) == (PAGES, 0, 0, PAGES)
    sums = preview.sums.fields
    assert (sums["brand"].gained, sums["brand"].before, sums["brand"].after) == (10, 0, 10)
    assert (sums["price"].changed, sums["title"].before, sums["title"].after) == (
        PAGES,
        PAGES,
        PAGES,
    )

    times = "SELECT external_id, fetched_at, first_seen_at, missed_crawls, page_id FROM products ORDER BY 1"
    known = rows(shop.engine, times)
    _, written = reextract(shop, site)
    assert written is not None and (written.new, written.changed) == (0, PAGES)
    after = shop.data()
    for number in range(PAGES):
        brand = {"brand": "ACME"} if number % 3 == 0 else {}
        assert after[str(number)] == {"title": f"thing {number}", "price": f"{number}.90"} | brand
    assert rows(shop.engine, times) == known, "as old as its page, not as new as this"
    assert rows(
        shop.engine, "SELECT count(*), min(version), max(crawl_id) FROM product_versions"
    ) == [(PAGES, 1, written.crawl_id)]
    query = "SELECT trigger, status, products_changed, product_total, note FROM crawls ORDER BY id DESC LIMIT 1"
    note = "archived pages re-extracted: 0 products new, 30 changed"
    assert rows(shop.engine, query) == [("reextract", "completed", PAGES, 0, note)]
    assert reextract(shop, site)[0].same == PAGES


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (LATER, "fetched later"),
        ("delisted_at = now(), missed_crawls = 2", "delisted"),
        ("page_id = (SELECT max(id) FROM pages)", "read from another page"),
    ],
)
def test_products_that_are_left_alone(shop: Shop, change: str, why: str) -> None:
    shop.execute(f"UPDATE products SET {change} WHERE external_id IN ('1', '2')")
    if change == LATER:
        shop.execute("UPDATE pages SET content_hash = gen_random_uuid()")
    known = rows(shop.engine, "SELECT * FROM products WHERE external_id IN ('1', '2') ORDER BY id")
    preview, written = reextract(shop, definition(price="s"))
    assert preview.left == {why: 2} and written is not None and written.changed == PAGES - 2
    assert (
        rows(shop.engine, "SELECT * FROM products WHERE external_id IN ('1', '2') ORDER BY id")
        == known
    )


def test_a_product_that_was_confirmed_later_is_written_as_old_as_its_page(shop: Shop) -> None:
    shop.execute("UPDATE archived_pages SET fetched_at = fetched_at - interval '1 hour'")
    shop.execute("DELETE FROM pages WHERE url LIKE '%/p/4'")  # a filter remembers it
    preview, written = reextract(shop, definition(price="s"))
    assert preview.left == {"fetched later": 1}
    assert written is not None and written.changed == PAGES - 1
    assert shop.data()["5"]["price"] == "5.90"
    as_old = "SELECT count(*) FROM products p JOIN archived_pages a USING (page_id, fetched_at)"
    assert rows(shop.engine, as_old) == [(PAGES - 1,)]


def test_what_happens_between_the_look_and_the_writing_wins(shop: Shop) -> None:
    with Reextraction(shop.engine, shop.settings, definition(price="s")) as extraction:
        extraction.read(shop.crawl[0], tick=lambda done, total: None)
        shop.execute(f"UPDATE products SET {LATER} WHERE external_id = '1'")
        shop.execute("UPDATE pages SET content_hash = gen_random_uuid() WHERE url LIKE '%/p/1'")
        shop.execute("UPDATE products SET delisted_at = now() WHERE external_id = '2'")
        shop.execute("UPDATE pages SET status = 'gone' WHERE url LIKE '%/p/3'")
        with shop.engine.begin() as connection:
            sites.store_definitions(connection, [definition(price="s")])
        written = extraction.write(shop.crawl[0], lambda done, total: None)
    assert written.changed == PAGES - 3
    assert {id_: shop.data()[id_]["price"] for id_ in "1234"} == {
        "1": "1.50",
        "2": "2.50",
        "3": "3.50",
        "4": "4.90",
    }


def test_a_page_that_is_gone_is_not_read_and_one_that_left_the_frontier_is(shop: Shop) -> None:
    shop.execute("UPDATE pages SET status = 'gone' WHERE url LIKE '%/p/3'")
    shop.execute("DELETE FROM pages WHERE url LIKE '%/p/4'")  # a filter remembers it
    assert reextract(shop, definition(price="s"))[0].pages == PAGES - 1


def test_what_a_browser_captured_is_read_again_too(shop: Shop) -> None:
    product = PRODUCT | {
        "fields": PRODUCT["fields"] | {"stock": {"response": "api", "path": "stock", "type": "int"}}
    }  # type: ignore[operator]
    site = a_site(
        archive=True, product=product, queue="browser", browser={"responses": {"api": "/api/"}}
    )
    preview, written = reextract(shop, site)
    assert (
        preview.pages == PAGES
        and preview.unreadable == 0
        and written is not None
        and written.changed == PAGES // 2
    )
    assert {id_: data.get("stock") for id_, data in shop.data().items()} == {
        str(number): number if number % 2 else None for number in range(PAGES)
    }


def test_another_id_makes_new_products_and_says_which_vanish(shop: Shop) -> None:
    site = a_site(archive=True, product=PRODUCT | {"id": {"css": "h1"}})
    preview, written = reextract(shop, site)
    assert (preview.new, preview.vanished, preview.same) == (PAGES, PAGES, 0)
    assert written is not None and (written.new, written.changed) == (PAGES, 0)
    assert rows(
        shop.engine,
        "SELECT count(*) FROM products p JOIN archived_pages a USING (page_id, fetched_at)",
    ) == [(2 * PAGES,)]


def test_an_id_that_all_pages_share_gives_one_product(shop: Shop) -> None:
    site = a_site(archive=True, product=PRODUCT | {"id": {"css": "b", "regex": "()"}})
    site = a_site(archive=True, product=PRODUCT | {"id": {"url": "(shop)"}})
    preview, written = reextract(shop, site)
    assert (preview.new, preview.left) == (1, {"given by several pages": PAGES - 1})
    assert written is not None and written.new == 1


def test_a_selector_that_breaks_is_reported_as_in_a_crawl(shop: Shop) -> None:
    preview, _ = reextract(shop, definition(price="em"), write=False)
    (reason,) = preview.reasons
    assert (reason.field, reason.what) == ("price", "fill")
    assert preview.sums.fields["price"].lost == PAGES
    required, _ = reextract(shop, definition(price={"css": "em", "required": True}), write=False)
    assert (required.not_extracted, required.to_write, required.vanished) == (PAGES, 0, PAGES)
    assert required.problems[0][1].startswith("price")


def test_nothing_is_written_during_a_crawl_by_another_definition(shop: Shop) -> None:
    open_crawl(shop.engine, shop.site)
    with pytest.raises(
        BusyError, match=r"crawl 2 of shop runs with another definition, .* `scraper stop 2`"
    ):
        reextract(shop, definition(price="s"))
    assert shop.data()["1"]["price"] == "1.50"


def test_one_that_is_broken_off_says_so_and_is_done_by_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "BATCH", 10)
    site = definition(price="s")
    with Reextraction(shop.engine, shop.settings, site) as extraction:
        extraction.read(shop.crawl[0], tick=lambda done, total: None)
        with shop.engine.begin() as connection:
            sites.store_definitions(connection, [site])

        def interrupt(done: int, total: int) -> None:
            if done == 20:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            extraction.write(shop.crawl[0], interrupt)
    assert rows(
        shop.engine, "SELECT status, products_changed FROM crawls ORDER BY id DESC LIMIT 1"
    ) == [("stopped", 20)]
    with shop.engine.connect() as connection:
        assert crawl_quality.unjudged_crawls(connection) == []
    preview, written = reextract(shop, site)
    assert (
        (preview.same, preview.changed) == (20, 10)
        and written is not None
        and written.changed == 10
    )


def test_it_is_not_a_crawl_of_the_site_to_those_who_ask_when_that_was(shop: Shop) -> None:
    shop.execute("UPDATE crawls SET finished_at = now() - interval '3 days'")
    reextract(shop, definition(price="s"))
    with shop.engine.connect() as connection:
        (site,) = state.read_freshness(connection)
    assert site.complete_s is not None and site.complete_s > 2 * 86400


def test_records_that_cannot_be_read_are_reported_and_the_others_read(
    shop: Shop, tmp_path: Path
) -> None:
    (file,) = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    preview, _ = reextract(shop, definition(price="s"), write=False)
    assert 0 < preview.unreadable < PAGES and preview.changed == PAGES - preview.unreadable
    assert "cannot be used" in preview.problems[0][1]
    file.unlink()
    preview, _ = reextract(shop, definition(price="s"), write=False)
    assert preview.unreadable == PAGES and "No such file" in preview.problems[0][1]


def test_the_newest_answer_counts_and_a_limit_is_kept(shop: Shop) -> None:
    shop.execute("UPDATE archived_pages SET fetched_at = fetched_at - interval '3 days'")
    with shop.engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET status = 'due', not_before = now(), crawl_id = :id"), {
            "id": open_crawl(shop.engine, shop.site)[1]
        })  # fmt: skip
    shop.crawl = shop.crawl[0], rows(shop.engine, "SELECT max(id) FROM crawls")[0][0]  # type: ignore[assignment]
    shop.fetch()
    assert rows(shop.engine, "SELECT count(*) FROM archived_pages") == [(2 * PAGES,)]
    preview, _ = reextract(shop, definition(price="s"), write=False)
    assert preview.pages == preview.changed == PAGES and preview.left == {}
    assert reextract(shop, definition(price="s"), write=False, limit=5)[0].pages == 5


def test_no_temporary_file_is_left(shop: Shop) -> None:
    reextract(shop, definition(price="s"))
    assert list((shop.settings.home_dir / "tmp").iterdir()) == []

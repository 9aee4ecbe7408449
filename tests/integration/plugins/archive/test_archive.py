"""A worker's archive against a real PostgreSQL, a folder and a bucket: fenced, bounded, never in
the way; retention."""

from __future__ import annotations

import asyncio
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.domain import Fetched, Kind, LeasedPage
from scraper.frontier import sites
from scraper.infra.objects import open_place
from scraper.plugins.archive import rows as store
from scraper.plugins.archive import spool as archive_module
from scraper.plugins.archive.keys import ArchiveKeys, ArchiveUse
from scraper.plugins.archive.prune import prune
from scraper.plugins.archive.reader import read_all
from scraper.plugins.archive.rows import SpooledPage
from scraper.plugins.archive.settings import archive_place
from scraper.plugins.archive.spool import Archive, Spool
from scraper.plugins.archive.worker_part import NAME, confirm_archived
from scraper.results.transaction import CrawlLimits, settle_pages
from scraper.settings import Settings
from scraper.sites.definition import Site
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
    with_product,
)

LIMITS = CrawlLimits(1000, 1000)
HEADERS = {"content-type": "text/html; charset=utf-8"}


class Shop:
    """A running crawl with leased product pages, whose answers are archived as a worker does it."""

    def __init__(self, engine: sa.Engine, settings: Settings, site: Site, pages: int = 3) -> None:
        self.engine, self.site = engine, site
        self.crawl = open_crawl(engine, site)
        add(engine, [new_page(self.crawl, url) for url in urls(pages)])
        self.archive = Archive(engine, settings)

    def lease(self) -> Any:
        (batch,) = lease_all(self.engine, "shop.example")
        return claimed(self.engine, batch)

    def again(self) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.text("UPDATE pages SET status = 'due', not_before = now()"))

    def body(self, page: LeasedPage) -> bytes:
        return f"<h1>{page.url}</h1>".encode()

    async def put_aside(
        self, spool: Spool, page: LeasedPage, body: bytes | None = None
    ) -> SpooledPage | None:
        use = self.site.of(ArchiveKeys).archive
        assert use is not None
        fetched = Fetched(
            page.url + "?seen", 200, HEADERS, self.body(page) if body is None else body
        )
        return await self.archive.add(spool, page, fetched, self.crawl[0], use)

    def settle(
        self, lease: Any, page: LeasedPage, spooled: SpooledPage | None, title: str = "thing"
    ) -> int:
        one = with_product(
            settled(page.id, self.crawl, lease.id), self.crawl, str(page.id), {"title": title}
        )
        one = replace(one, extras={NAME: spooled})
        with self.engine.begin() as connection:
            stored = settle_pages(connection, [one], {self.crawl[1]: LIMITS})
        confirm_archived(stored)
        return stored.held

    def batch(self, title: str = "thing") -> None:
        """A whole batch, good."""

        async def work() -> None:
            lease, spool = self.lease(), self.archive.open_spool()
            assert spool is not None
            for page in lease.pages:
                self.settle(lease, page, await self.put_aside(spool, page), title)
            await self.archive.finish(spool)

        asyncio.run(work())

    def found(self) -> list[Any]:
        with self.engine.connect() as connection:
            records = store.list_records(connection, None, None, (0, -1), 1000)
        return list(read_all([row._asdict() for row in records], 10_000_000))


@pytest.fixture
def settings(environment: Settings, tmp_path: Path) -> Settings:
    return environment.model_copy(update={"archive": str(tmp_path / "kept")})


@pytest.fixture
def shop(engine: sa.Engine, settings: Settings) -> Shop:
    return Shop(engine, settings, a_site(archive=True))


def test_a_batch_is_one_segment_and_its_rows_read_each_page(
    shop: Shop, tmp_path: Path, engine: sa.Engine
) -> None:
    shop.batch()
    (listed,) = open_place(str(tmp_path / "kept"), "test").listed()
    assert listed.key.endswith(".warc.gz")
    assert rows(engine, "SELECT pages, bytes, stored_at IS NOT NULL FROM archive_segments") == [
        (3, listed.size, True)
    ]
    for found in shop.found():
        assert (
            found.answer is not None
            and found.answer.body == f"<h1>{found.row['url']}</h1>".encode()
        )
        assert found.row["final_url"] == found.answer.url == found.row["url"] + "?seen"
    assert rows(engine, "SELECT FROM archived_pages a JOIN pages p ON p.id = a.page_id AND p.fetched_at = a.fetched_at"
                        " AND p.content_hash = a.content_hash") == [(), (), ()]  # fmt: skip
    path = tmp_path / "kept" / listed.key
    assert (
        stat.S_IMODE(path.stat().st_mode) == 0o600
        and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    )
    assert (shop.archive.stored, shop.archive.lost) == (3, 0)


def test_a_page_whose_lease_was_lost_is_not_archived(shop: Shop, engine: sa.Engine) -> None:
    async def work() -> None:
        lease, spool = shop.lease(), shop.archive.open_spool()
        assert spool is not None
        spooled = [await shop.put_aside(spool, page) for page in lease.pages]
        with engine.begin() as connection:
            query = "UPDATE leases SET page_ids = array_replace(page_ids, :id, 0)"
            connection.execute(sa.text(query), {"id": lease.pages[1].id})
        held = [
            shop.settle(lease, page, each) for page, each in zip(lease.pages, spooled, strict=True)
        ]
        assert held == [1, 0, 1]
        await shop.archive.finish(spool)
        assert [
            row[0] for row in rows(engine, "SELECT page_id FROM archived_pages ORDER BY start")
        ] == [
            lease.pages[0].id,
            lease.pages[2].id,
        ]

    asyncio.run(work())


def test_only_what_has_changed(engine: sa.Engine, settings: Settings) -> None:
    shop = Shop(engine, settings, a_site(archive={"answers": "changed"}))
    for title in ("thing", "thing", "another"):
        shop.batch(title)
        shop.again()
    assert rows(engine, "SELECT pages FROM archive_segments ORDER BY id") == [(3,), (3,)]


def test_bodies_wait_in_a_file_once_they_are_many(
    shop: Shop, engine: sa.Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "WAITING_BYTES", 1000)
    folder = settings.home_dir / "tmp"

    async def work() -> None:
        lease, spool = shop.lease(), shop.archive.open_spool()
        assert spool is not None
        bodies = {page.id: bytes([65 + number]) * 900 for number, page in enumerate(lease.pages)}
        spooled = [await shop.put_aside(spool, page, bodies[page.id]) for page in lease.pages]
        assert spool.waiting_bytes == 900 and spool._file is not None
        assert list(folder.iterdir()) == [], (
            "it has no name, so nothing of it is left by a killed process"
        )
        for page, each in zip(lease.pages, spooled, strict=True):
            shop.settle(lease, page, each)
        await shop.archive.finish(spool)
        assert {found.row["page_id"]: found.answer.body for found in shop.found()} == bodies

    asyncio.run(work())
    assert list(folder.iterdir()) == [] and stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_cancelled_page_never_moves_the_bodies_of_others(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "WAITING_BYTES", 1)
    is_free = threading.Event()

    async def work() -> None:
        lease, spool = shop.lease(), shop.archive.open_spool()
        assert spool is not None
        first, second, _ = lease.pages
        shop.archive._writing.submit(is_free.wait)
        page = asyncio.ensure_future(shop.put_aside(spool, first))
        await asyncio.sleep(0)
        page.cancel()
        await asyncio.wait({page})
        is_free.set()
        shop.settle(lease, second, await shop.put_aside(spool, second))
        await shop.archive.finish(spool)

    asyncio.run(work())
    assert shop.found() == [] and shop.archive.lost == 2


def test_a_place_that_fails_costs_its_pages_and_is_left_in_peace_for_a_while(
    engine: sa.Engine, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(engine, settings, a_site(archive=True))
    (tmp_path / "kept").touch()  # no folder
    shop.batch()
    assert shop.archive.lost == 3 and not shop.found()
    (tmp_path / "kept").unlink()
    shop.again()
    shop.batch()
    assert shop.archive.lost == 6, "not tried at once"
    monkeypatch.setattr(shop.archive, "_rests_until", 0.0)
    shop.again()
    shop.batch()
    assert (shop.archive.stored, shop.archive.lost, len(shop.found())) == (3, 6, 3)


def test_a_segment_that_was_swept_gets_no_rows(
    shop: Shop, engine: sa.Engine, tmp_path: Path
) -> None:
    put = archive_module.Archive._run_transaction
    calls = []

    def late(self: Archive, work: Any) -> Any:
        calls.append(work)
        # between the file and its rows, a day goes by
        if len(calls) == 2:
            with engine.begin() as connection:
                connection.execute(
                    sa.text("UPDATE archive_segments SET created_at = now() - interval '2 days'")
                )
            prune(engine)
        return put(self, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_module.Archive, "_run_transaction", late)
        shop.batch()
    assert len(calls) == 2 and shop.archive.lost == 3
    assert (
        rows(engine, "SELECT FROM archived_pages")
        == rows(engine, "SELECT FROM archive_segments")
        == []
    )
    assert list(open_place(str(tmp_path / "kept"), "test").listed()) == []


def test_storing_a_segment_once_more_does_nothing(shop: Shop, engine: sa.Engine) -> None:
    shop.batch()
    (segment_id,) = rows(engine, "SELECT id FROM archive_segments")[0]
    with engine.begin() as connection:
        assert store.store_segment(connection, segment_id, 1, [])  # type: ignore[arg-type]
    assert rows(engine, "SELECT count(*), max(pages) FROM archived_pages, archive_segments") == [
        (3, 3)
    ]


def test_nowhere_to_keep_pages_is_said_once(
    engine: sa.Engine, environment: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    # a PostgreSQL of one's own, and no SCRAPER_ARCHIVE
    shop = Shop(engine, environment, a_site(archive=True))
    assert shop.archive.open_spool() is shop.archive.open_spool() is None and shop.archive.lost == 2
    assert capsys.readouterr().out.count("SCRAPER_ARCHIVE is not set") == 1
    embedded = environment.model_copy(update={"database_url": None})
    assert archive_place(embedded) == str(environment.home_dir / "archive")


def age(engine: sa.Engine, days: int) -> None:
    with engine.begin() as connection:
        query = "UPDATE archived_pages SET fetched_at = fetched_at - :days * interval '1 day'"
        connection.execute(sa.text(query), {"days": days})


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_what_is_too_old_goes_with_its_file_and_nothing_else(
    engine: sa.Engine, settings: Settings, where: str, request: pytest.FixtureRequest
) -> None:
    if where == "bucket":
        settings = settings.model_copy(
            update={"archive": request.getfixturevalue("bucket") + "/raw"}
        )
    kept = open_place(settings.archive or "", "test")
    shop = Shop(engine, settings, a_site(archive={"keep": "7d"}))
    shop.batch()
    age(engine, 6)
    assert (prune(engine).pages, len(list(kept.listed()))) == (0, 1)
    shop.again()
    shop.batch()
    # one page of the older segment is too old
    with engine.begin() as connection:
        query = "UPDATE archived_pages SET fetched_at = now() - interval '8 days' WHERE (segment_id, start) IN ("
        query += "SELECT segment_id, start FROM archived_pages ORDER BY 1, 2 LIMIT 1)"
        connection.execute(sa.text(query))
    done = prune(engine)
    assert (done.pages, done.segments, len(list(kept.listed())), len(shop.found())) == (1, 0, 2, 5)
    age(engine, 2)
    done = prune(engine)
    assert (done.pages, done.segments, len(list(kept.listed())), len(shop.found())) == (2, 1, 1, 3)
    assert all(found.answer for found in shop.found())


def test_a_site_that_archives_nothing_any_more_keeps_what_it_has_as_it_said_last(
    engine: sa.Engine, settings: Settings
) -> None:
    shop = Shop(engine, settings, a_site(archive={"keep": "90d"}))
    shop.batch()
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site()])
    age(engine, 60)
    assert prune(engine).pages == 0
    age(engine, 31)
    assert (prune(engine).pages, rows(engine, "SELECT FROM archive_segments")) == (3, [])


def test_files_that_cannot_be_deleted_are_tried_again(
    shop: Shop, engine: sa.Engine, tmp_path: Path
) -> None:
    shop.batch()
    age(engine, 40)
    # as on a machine that does not have the folder
    (tmp_path / "kept").rename(tmp_path / "elsewhere")
    done = prune(engine)
    assert (done.pages, done.segments) == (
        3,
        0,
    ) and "the folder does not exist here" in done.problems[0]
    (tmp_path / "elsewhere").rename(tmp_path / "kept")
    assert (prune(engine).segments, list((tmp_path / "kept").iterdir())) == (1, [])


def test_listing_pages_are_archived_where_that_is_said() -> None:
    page = LeasedPage(1, 1, "https://shop.example/", Kind.LISTING, "shop.example", 0, 0, 0, 0)

    async def put_aside(use: ArchiveUse, spool: Spool) -> SpooledPage | None:
        archive = Archive(None, Settings())  # type: ignore[arg-type]
        return await archive.add(spool, page, Fetched(page.url, 200, {}, b""), 1, use)

    spool = Spool(Path())
    assert asyncio.run(put_aside(ArchiveUse(), spool)) is None
    assert asyncio.run(put_aside(ArchiveUse(pages="all"), spool)) is spool.pages[0]

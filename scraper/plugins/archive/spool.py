"""Spools a batch's good answers while it runs, and writes them as one segment at its end.

Answers wait in memory, and beyond some hundred kilobytes in an unnamed file, which disappears with
the process. The segment holds the answers whose verdicts are stored; a page whose lease was lost
has none. First the segment's row is announced, then its file is written, then its pages' rows are
added (`scraper.plugins.archive.rows`).

Archiving never blocks a crawl. If the folder or bucket cannot be written to, the batches that end
during that time are not archived, which is logged and counted; no page fails, and no batch waits
longer than `FINISH_S`. A worker that is killed loses the archive of its running batches.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeVar
from uuid import uuid4

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

from scraper.domain import Fetched, LeasedPage
from scraper.errors import ConfigError, ScraperError
from scraper.infra import objects, outages
from scraper.infra.database import run_transaction
from scraper.infra.objects import Objects
from scraper.plugins.archive import rows as store
from scraper.plugins.archive import warc
from scraper.plugins.archive.keys import ArchiveUse
from scraper.plugins.archive.rows import SpooledPage
from scraper.plugins.archive.settings import ArchiveSettings, archive_place
from scraper.settings import Settings

log = structlog.get_logger()

T = TypeVar("T")

# A batch keeps this much of its bodies in memory, and the rest in a file.
WAITING_BYTES = 262_144
# A batch waits this long for its segment.
FINISH_S = 30.0
# After a failure, batches that end within this time give up their pages at once, instead of each
# one waiting for a timeout.
REST_S = 20.0
# Storing a segment waits this long for PostgreSQL to answer again.
DATABASE_S = 20.0
# A process writes this many segments at once.
UPLOADS = 2
# An older file is the leftover of a killed process.
STALE_S = 86_400.0
NOWHERE = (
    "a site has `archive`, but SCRAPER_ARCHIVE is not set (fix: set it to a folder that all "
    "workers and coordinators share, or to s3://bucket/prefix)"
)


class Spool:
    """The answers of one batch. The event loop fills it; one thread at a time writes and reads
    it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self.waiting_bytes = 0
        self.pages: list[SpooledPage] = []
        self.failed = False

    def add(
        self, page: LeasedPage, fetched: Fetched, site_id: int, changed_only: bool
    ) -> SpooledPage:
        body, captured = fetched.body, warc.pack_captured(fetched.captured)
        spooled = SpooledPage(
            site_id=site_id,
            page_id=page.id,
            crawl_id=page.crawl_id,
            kind=page.kind,
            page_url=page.url,
            url=fetched.url,
            status=fetched.status,
            headers=fetched.headers,
            start=self._size,
            size=len(body),
            captured_size=len(captured),
            at=datetime.fromtimestamp(time.time(), UTC),
            changed_only=changed_only,
        )
        self._size += len(body) + len(captured)
        self.waiting_bytes += len(body) + len(captured)
        self._waiting += (body, captured) if captured else (body,)
        self.pages.append(spooled)
        return spooled

    def take(self) -> list[bytes]:
        """Takes the bodies in memory out, for `write`. Called on the event loop."""
        waiting, self._waiting, self.waiting_bytes = self._waiting, [], 0
        return waiting

    def write(self, bodies: list[bytes]) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file.seek(0, os.SEEK_END)
        self._file.writelines(bodies)

    def read_body(self, spooled: SpooledPage) -> tuple[bytes, bytes]:
        """Reads an answer's body and its captured answers."""
        assert self._file is not None
        self._file.seek(spooled.start)
        return self._file.read(spooled.size), self._file.read(spooled.captured_size)

    def close(self) -> None:
        self._waiting = []
        if self._file is not None:
            self._file.close()


class Archive:
    """The archive of a worker process, used on its event loop. It raises nothing: errors are
    logged, and counted in `lost`."""

    def __init__(self, engine: sa.Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._folder = settings.home_dir / "tmp"
        # A single thread keeps bodies in order.
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._finishing = ThreadPoolExecutor(UPLOADS, thread_name_prefix="segment")
        self._objects: Objects | None = None
        self._unusable = False
        self._rests_until = 0.0
        self.stored = 0  # pages
        self.lost = 0

    def open_spool(self) -> Spool | None:
        """Returns a spool for a batch with a page to keep; None, counting the page as lost, if the
        archive is unusable."""
        if self._objects is None and not self._unusable:
            self._open_storage()
        if self._unusable:
            self.lost += 1
            return None
        return Spool(self._folder)

    async def add(
        self, spool: Spool, page: LeasedPage, fetched: Fetched, site_id: int, use: ArchiveUse
    ) -> SpooledPage | None:
        """Spools a good answer; writes the spool if much is in memory. Returns None if the
        answer is not kept."""
        if not use.wants(page.kind):
            return None
        if spool.failed:
            self.lost += 1
            return None
        spooled = spool.add(page, fetched, site_id, changed_only=use.answers == "changed")
        if spool.waiting_bytes >= WAITING_BYTES:
            try:
                await asyncio.get_running_loop().run_in_executor(
                    self._writing, spool.write, spool.take()
                )
            except OSError as error:
                spool.failed = True
                self._record_failure("spooled", len(spool.pages), error)
            except asyncio.CancelledError:
                # The cancelled write may have been the bodies' only copy.
                spool.failed = True
                self.lost += len(spool.pages)
                raise
        return spooled

    async def finish(self, spool: Spool) -> None:
        """Writes the batch's segment, once all its pages' verdicts are stored."""
        loop = asyncio.get_running_loop()
        pages = [page for page in spool.pages if page.wanted]
        if not pages or spool.failed:
            spool.close()
            return
        if time.monotonic() < self._rests_until:
            self.lost += len(pages)
            spool.close()
            return
        done = loop.run_in_executor(
            self._finishing, self._write_segment, spool, pages, spool.take()
        )
        await asyncio.wait({done}, timeout=FINISH_S)
        if not done.done():
            self._rests_until = time.monotonic() + REST_S
            log.error(
                "the archive is slow; batch ended without waiting for its segment",
                pages=len(pages),
            )

    def close(self) -> None:
        """Ends the threads after the last batch; unfinished writes have used up their time."""
        self._writing.shutdown(wait=False, cancel_futures=True)
        self._finishing.shutdown(wait=False, cancel_futures=True)

    def _open_storage(self) -> None:
        where = archive_place(self._settings)
        try:
            if where is None:
                raise ConfigError(NOWHERE)
            self._objects = objects.open_place(where, "SCRAPER_ARCHIVE")
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sweep_leftovers()
        except (ConfigError, OSError) as error:
            self._unusable = True
            log.error("pages are not archived", reason=str(error))

    def _sweep_leftovers(self) -> None:
        for path in self._folder.glob("segment-*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > STALE_S:
                    path.unlink()

    def _write_segment(self, spool: Spool, pages: list[SpooledPage], waiting: list[bytes]) -> None:
        try:
            spool.write(waiting)
            self._store_segment(spool, pages)
            self.stored += len(pages)
        except (ScraperError, SQLAlchemyError, OSError) as error:
            self._record_failure("stored", len(pages), error)
        except Exception:
            self.lost += len(pages)
            log.exception("pages not archived", pages=len(pages))
        finally:
            spool.close()

    def _store_segment(self, spool: Spool, pages: list[SpooledPage]) -> None:
        place = self._objects
        assert place is not None
        codec = self._settings.of(ArchiveSettings).archive_codec
        name = f"{uuid4().hex}{warc.SUFFIXES[codec]}"
        key = f"{datetime.fromtimestamp(time.time(), UTC):%Y/%m/%d}/{name}"
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="segment-") as segment:
            segment.write(warc.make_warcinfo(name, codec))
            records = []
            for page in pages:
                body, captured = spool.read_body(page)
                answer = warc.ArchivedResponse(
                    page.url, page.page_url, page.status, page.headers, body, page.at
                )
                packed = warc.make_response(answer, codec)
                metadata = warc.make_captured(answer, captured, codec) if captured else b""
                records.append(page.record(segment.tell(), len(packed), len(metadata)))
                segment.write(packed + metadata)
            size = segment.tell()
            segment.flush()
            segment_id = self._run_transaction(
                lambda connection: store.announce_segment(connection, place.where, key, codec)
            )
            place.put(key, Path(segment.name))
        if not self._run_transaction(
            lambda connection: store.store_segment(connection, segment_id, size, records)
        ):
            raise ScraperError(
                "the segment was swept before its pages were stored: this process was suspended "
                "for a day"
            )

    def _run_transaction(self, work: Callable[[sa.Connection], T]) -> T:
        """Runs a transaction, and retries it for a while if PostgreSQL does not answer."""
        return outages.retry_until_available(
            lambda: run_transaction(self._engine, work), DATABASE_S, pause_s=0.5, pause_max_s=8.0
        )

    def _record_failure(self, verb: str, pages: int, error: Exception) -> None:
        self.lost += pages
        self._rests_until = time.monotonic() + REST_S
        log.error(
            f"pages could not be {verb} for the archive",
            pages=pages,
            reason=str(error)[:500],
            lost=self.lost,
        )

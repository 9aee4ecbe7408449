"""The tables of the plug-in. Revision 0009 of the core's history creates them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, Index, SmallInteger, text
from sqlalchemy.orm import Mapped, mapped_column

from scraper.models import Base, count_column, now_column, partial_index, row_number


class ArchiveSegment(Base):
    """A file of archived pages; see `scraper.plugins.archive.rows`."""

    __tablename__ = "archive_segments"
    __table_args__ = (partial_index("archive_segments_empty_idx", "created_at", where="pages = 0"),)

    id: Mapped[int] = row_number()
    place: Mapped[str] = mapped_column(comment="a folder, or s3://bucket/prefix")
    key: Mapped[str] = mapped_column(comment="the file within its place")
    codec: Mapped[str] = mapped_column(comment="gzip or zstd")
    pages: Mapped[int] = count_column("rows of archived_pages")
    bytes: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    created_at: Mapped[datetime] = now_column()
    stored_at: Mapped[datetime | None] = mapped_column(comment="null: its file may not be whole")
    doomed_at: Mapped[datetime | None] = mapped_column(comment="since then its file may be gone")


class ArchivedPage(Base):
    """A page's answer, as a record of a segment."""

    __tablename__ = "archived_pages"
    __table_args__ = (Index("archived_pages_site_id_fetched_at_idx", "site_id", "fetched_at"),)

    segment_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    start: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, autoincrement=False, comment="the first byte of its record"
    )
    size: Mapped[int] = mapped_column(comment="of its record, in bytes")
    body_bytes: Mapped[int] = mapped_column(comment="unpacked")
    captured_size: Mapped[int] = count_column(
        "of the record right behind it, in bytes: what a browser captured; 0: nothing"
    )
    site_id: Mapped[int]
    page_id: Mapped[int] = mapped_column(BigInteger)
    crawl_id: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[str]
    url: Mapped[str]
    final_url: Mapped[str | None] = mapped_column(
        comment="where it was answered; null: at its own URL"
    )
    http_status: Mapped[int] = mapped_column(SmallInteger)
    content_hash: Mapped[UUID | None] = mapped_column(comment="of what was extracted")
    fetched_at: Mapped[datetime]

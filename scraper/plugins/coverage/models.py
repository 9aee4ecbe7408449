"""The tables of the plug-in: what pages say of a shop's size, how much crawls found, and the
times in sitemaps."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, Index
from sqlalchemy.orm import Mapped, mapped_column

from scraper.models import Base


class CoverageClaim(Base):
    """What a page of a running crawl says of the number of products, until the crawl is judged."""

    __tablename__ = "coverage_claims"
    __table_args__ = (Index("coverage_claims_site_id_idx", "site_id"),)

    crawl_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    page_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    site_id: Mapped[int]
    kind: Mapped[str] = mapped_column(comment="list, sitemap or platform")
    list_url: Mapped[str] = mapped_column(comment="a list's URL without the page's number")
    claimed: Mapped[int | None] = mapped_column(comment="products that the page counts")
    named: Mapped[int] = mapped_column(comment="products that the page names")


class CrawlCoverage(Base):
    """What a crawl found, and how many products there are by the evidence. The last three numbers
    measure `lastmod`, and are null without a sitemap."""

    __tablename__ = "crawl_coverage"
    __table_args__ = (Index("crawl_coverage_site_id_idx", "site_id"),)

    crawl_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    site_id: Mapped[int]
    products: Mapped[int]
    expected: Mapped[int]
    evidence: Mapped[str]
    moved: Mapped[int | None] = mapped_column(comment="products read whose lastmod has moved")
    moved_changed: Mapped[int | None] = mapped_column(comment="of these: changed")
    changed: Mapped[int | None] = mapped_column(comment="changed products that a sitemap names")


class SitemapEntry(Base):
    """The `lastmod` of a page in its site's sitemaps."""

    __tablename__ = "sitemap_entries"

    site_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    fingerprint: Mapped[UUID] = mapped_column(primary_key=True, comment="as in pages")
    lastmod: Mapped[datetime | None]
    earlier: Mapped[datetime | None] = mapped_column(comment="before it moved")
    moved_crawl: Mapped[int | None] = mapped_column(
        BigInteger, comment="the last crawl in which it had moved"
    )
    crawl_id: Mapped[int] = mapped_column(BigInteger, comment="the last crawl that read it")


class RepeatedPages(Base):
    """How many product pages of a running crawl gave a product that another page had given."""

    __tablename__ = "crawl_repeated_pages"
    __table_args__ = (Index("crawl_repeated_pages_site_id_idx", "site_id"),)

    crawl_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    site_id: Mapped[int]
    pages: Mapped[int]


class ProductAddress(Base):
    """The address at which a product of a site with `one_address` is read."""

    __tablename__ = "product_addresses"

    site_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    external_id: Mapped[str] = mapped_column(primary_key=True, comment="as the address gives it")
    url: Mapped[str]
    fingerprint: Mapped[UUID] = mapped_column(comment="as in pages")
    crawl_id: Mapped[int] = mapped_column(BigInteger, comment="the last crawl that found it linked")

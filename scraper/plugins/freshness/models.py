"""The tables of the plug-in: a site's plan, and what is known of each page's changes."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import REAL, BigInteger, Float, Index, Numeric, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from scraper.models import Base


class SitePlanRow(Base):
    """The plan of a site, and how it was kept."""

    __tablename__ = "site_plans"

    site_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    allocation: Mapped[list[float]] = mapped_column(
        ARRAY(Float), comment="how requests are shared among pages"
    )
    mean_rate: Mapped[float] = mapped_column(comment="of changes a day")
    requests: Mapped[float] = mapped_column(comment="a day, of all kinds; 0: not known yet")
    visits: Mapped[float] = mapped_column(comment="of these: for product pages")
    promised: Mapped[float] = mapped_column(comment="the share of products that is true")
    planned_at: Mapped[datetime]
    wanted: Mapped[dict[str, Any]] = mapped_column(
        JSONB, comment="the keys of the definition for which it was made"
    )
    hours: Mapped[list[float]] = mapped_column(ARRAY(Float), comment="changes by hour (UTC)")
    days: Mapped[list[float]] = mapped_column(ARRAY(Float), comment="changes by weekday")
    hours_even: Mapped[list[float]] = mapped_column(
        ARRAY(Float),
        server_default=text("'{}'"),
        comment="changes by hour (UTC) that were expected if all were alike",
    )
    days_even: Mapped[list[float]] = mapped_column(
        ARRAY(Float),
        server_default=text("'{}'"),
        comment="changes by weekday that were expected if all were alike",
    )
    seen_days: Mapped[float] = mapped_column(server_default=text("0"), comment="between looks")
    kept_days: Mapped[float] = mapped_column(
        server_default=text("0"), comment="of these: what was stored was true; older ones fade"
    )
    promise_days: Mapped[float] = mapped_column(
        server_default=text("0"), comment="of these: it was true within the promised time"
    )
    hosts: Mapped[int] = mapped_column(server_default=text("1"), comment="of the site's pages")
    loaded: Mapped[int] = mapped_column(
        BigInteger, server_default=text("0"), comment="the last whole crawl whose pages are in"
    )
    needed: Mapped[float] = mapped_column(
        server_default=text("0"), comment="requests a day that the promise needs; 0: no promise"
    )
    broken: Mapped[str | None] = mapped_column(
        comment="why the contract is broken; null: it is kept"
    )
    cards: Mapped[list[float]] = mapped_column(
        ARRAY(Float),
        server_default=text("'{0,0,0,0}'"),
        comment="signals of cards: right, wrong, missed, wrong by chance",
    )
    dates: Mapped[list[float]] = mapped_column(
        ARRAY(Float),
        server_default=text("'{0,0,0,0}'"),
        comment="signals of sitemaps' dates: right, wrong, missed, wrong by chance",
    )
    season: Mapped[list[float]] = mapped_column(
        ARRAY(Float),
        server_default=text("'{}'"),
        comment="changes that came lately, those that were to come, and when, in days",
    )
    modelled: Mapped[float] = mapped_column(
        server_default=text("0"), comment="the share that is true by the formula"
    )
    foreseen_days: Mapped[float] = mapped_column(
        server_default=text("0"), comment="of the days between looks: true by the formula"
    )


class PageVisitRow(Base):
    """What is known of a product page's changes, and when it is visited next."""

    __tablename__ = "page_visits"
    __table_args__ = (
        Index("page_visits_site_id_next_visit_idx", "site_id", "next_visit"),
        Index(
            "page_visits_round_id_idx", "round_id", postgresql_where=text("round_id IS NOT NULL")
        ),
        {"postgresql_with": {"fillfactor": 80}},
    )

    page_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    site_id: Mapped[int]
    changes: Mapped[float] = mapped_column(REAL, comment="looks that found one")
    changed_days: Mapped[float] = mapped_column(REAL, comment="between looks with a change")
    quiet_days: Mapped[float] = mapped_column(REAL, comment="between the others")
    quiet_looks: Mapped[float] = mapped_column(
        REAL, server_default=text("0"), comment="looks that found no change"
    )
    returns: Mapped[float] = mapped_column(
        REAL, server_default=text("0"), comment="changes back to the content before"
    )
    other_looks: Mapped[float] = mapped_column(
        REAL, server_default=text("0"), comment="looks that found the content before"
    )
    same: Mapped[float] = mapped_column(
        REAL,
        server_default=text("0"),
        comment="the share of the time with one of two contents; 0: they do not alternate",
    )
    rate: Mapped[float] = mapped_column(REAL, comment="of changes a day")
    weight: Mapped[float] = mapped_column(REAL)
    content_hash: Mapped[UUID | None]
    older_hash: Mapped[UUID | None] = mapped_column(comment="of the content before the last change")
    looked_at: Mapped[datetime]
    next_visit: Mapped[datetime]
    round_id: Mapped[int | None] = mapped_column(BigInteger, comment="the crawl that visits it now")
    signalled: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="a card has changed since the last look"
    )
    dated: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="a sitemap's date is later than the last look"
    )


class SiteTrafficRow(Base):
    """What a site's requests have used in ten minutes."""

    __tablename__ = "site_traffic"
    __table_args__ = ({"postgresql_with": {"fillfactor": 80}},)

    site_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime] = mapped_column(primary_key=True, comment="when the ten minutes begin")
    product: Mapped[bool] = mapped_column(primary_key=True, comment="false: all other pages")
    requests: Mapped[int] = mapped_column(BigInteger)
    sized: Mapped[int] = mapped_column(BigInteger, comment="of these: of a known size")
    bytes: Mapped[int] = mapped_column(BigInteger, comment="of their bodies, as they came")
    proxied: Mapped[int] = mapped_column(BigInteger, comment="requests through proxies")
    proxy_sized: Mapped[int] = mapped_column(BigInteger)
    proxy_bytes: Mapped[int] = mapped_column(BigInteger)


class PageCardRow(Base):
    """What a listing's card says of a product page."""

    __tablename__ = "page_cards"
    __table_args__ = ({"postgresql_with": {"fillfactor": 80}},)

    site_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    fingerprint: Mapped[UUID] = mapped_column(primary_key=True, comment="as in pages")
    prices: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))
    available: Mapped[bool | None]
    stock_changed: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="the last change was of what is available"
    )
    changed_at: Mapped[datetime]
    quiet_until: Mapped[datetime] = mapped_column(comment="when it was last read before it changed")
    read_at: Mapped[datetime]


class PageDateRow(Base):
    """When a product page was last modified, as a sitemap says."""

    __tablename__ = "page_dates"
    __table_args__ = ({"postgresql_with": {"fillfactor": 80}},)

    site_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    fingerprint: Mapped[UUID] = mapped_column(primary_key=True, comment="as in pages")
    lastmod: Mapped[datetime]
    moved_at: Mapped[datetime] = mapped_column(comment="when it was first read as it is")
    quiet_until: Mapped[datetime] = mapped_column(comment="when it was last read before it moved")
    read_at: Mapped[datetime]

"""The tables of the plug-in. Offers outlive their crawls, as links that a person confirmed do."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Float, ForeignKey, Index, Numeric, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from scraper.models import Base, now_column, partial_index, row_number

EMPTY = text("'{}'")


class OfferRow(Base):
    """One shop's offer of a product, or a row of the operator's own catalogue."""

    __tablename__ = "offers"
    __table_args__ = (
        Index("offers_site_external_id_key", "site", "external_id", unique=True),
        partial_index("offers_gtin_idx", "gtin", where="gtin IS NOT NULL"),
        partial_index("offers_mpn_idx", "mpn", where="mpn IS NOT NULL"),
        partial_index("offers_brand_idx", "brand", where="brand IS NOT NULL"),
        partial_index("offers_unproposed_idx", "id", where="proposed_at IS NULL"),
        Index("offers_article_id_idx", "article_id"),
    )

    id: Mapped[int] = row_number()
    site: Mapped[str] = mapped_column(comment="the name of the shop, or of the own catalogue")
    external_id: Mapped[str]
    url: Mapped[str | None]
    title: Mapped[str]
    gtin: Mapped[str | None] = mapped_column(comment="14 digits of the single article; a box: /1")
    brand: Mapped[str | None] = mapped_column(comment="normalised")
    mpn: Mapped[str | None] = mapped_column(comment="normalised part number")
    attributes: Mapped[dict[str, list[str]]] = mapped_column(JSONB, server_default=EMPTY)
    words: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=EMPTY)
    price: Mapped[Decimal | None] = mapped_column(Numeric)
    currency: Mapped[str | None]
    unit_price: Mapped[Decimal | None] = mapped_column(Numeric)
    unit: Mapped[str | None] = mapped_column(comment="l, kg, m or piece")
    in_stock: Mapped[bool | None]
    listed: Mapped[bool] = mapped_column(server_default=text("true"))
    article_id: Mapped[int] = mapped_column(
        BigInteger, comment="the lowest id among the offers of its article"
    )
    proposed_at: Mapped[datetime | None] = mapped_column(
        comment="when offers with similar titles were looked for; null: not yet"
    )
    updated_at: Mapped[datetime] = now_column()


class OfferLinkRow(Base):
    """Two offers that are one product, may be, or are not."""

    __tablename__ = "offer_links"
    __table_args__ = (
        CheckConstraint("left_id < right_id", name="ordered"),
        CheckConstraint(
            "state IN ('linked', 'proposed', 'confirmed', 'refused')", name="state_known"
        ),
        Index("offer_links_right_id_idx", "right_id"),
        partial_index(
            "offer_links_proposed_idx",
            *("confidence", "left_id", "right_id"),
            where="state = 'proposed'",
        ),
    )

    left_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("offers.id", ondelete="CASCADE"), primary_key=True
    )
    right_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("offers.id", ondelete="CASCADE"), primary_key=True
    )
    method: Mapped[str] = mapped_column(comment="gtin, mpn, title or person")
    state: Mapped[str] = mapped_column(comment="confirmed and refused: by a person, for good")
    confidence: Mapped[float] = mapped_column(Float)
    evidence: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY)
    created_at: Mapped[datetime] = now_column()
    decided_by: Mapped[str | None]
    decided_at: Mapped[datetime | None]


class OfferWordRow(Base):
    """How many offers have a word in their titles, about."""

    __tablename__ = "offer_words"

    word: Mapped[str] = mapped_column(primary_key=True)
    offers: Mapped[int]


class OfferPostingRow(Base):
    """The offers of a shop that have a word in their titles, or had it."""

    __tablename__ = "offer_postings"

    word: Mapped[str] = mapped_column(primary_key=True)
    site: Mapped[str] = mapped_column(primary_key=True)
    ids: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))


class ArticleEventRow(Base):
    """How the offers of an article changed: one row per article and batch of changes."""

    __tablename__ = "article_events"
    __table_args__ = (Index("article_events_article_id_idx", "article_id"),)

    id: Mapped[int] = row_number()
    at: Mapped[datetime] = now_column()
    article_id: Mapped[int] = mapped_column(BigInteger)
    crawl_id: Mapped[int | None] = mapped_column(
        BigInteger, comment="of the last change; null: the own catalogue's"
    )
    before: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, comment="each shop's best offer")
    after: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)


class MatchingStateRow(Base):
    """How far the plug-in has read, and what links have taught it, in one row."""

    __tablename__ = "matching_state"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position: Mapped[int | None] = mapped_column(
        BigInteger, comment="in the feed; null: products are being loaded"
    )
    start: Mapped[int] = mapped_column(
        BigInteger, comment="where in the feed it goes on, once products are loaded"
    )
    loaded: Mapped[int] = mapped_column(
        BigInteger, server_default=text("0"), comment="the id of the last product that was loaded"
    )
    brands: Mapped[dict[str, str]] = mapped_column(JSONB, server_default=EMPTY)
    price_factor: Mapped[float] = mapped_column(Float)
    learned_at: Mapped[datetime | None]

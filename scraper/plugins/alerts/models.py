"""The tables of the plug-in. Revisions 0005 and 0018 of the core's history create them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, SmallInteger, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from scraper.models import EMPTY, Base, crawl_key, now_column, partial_index, row_number


class AlertRow(Base):
    """An alert about a crawl that is suspect or has failed: one per crawl."""

    __tablename__ = "alerts"
    __table_args__ = (partial_index("alerts_due_idx", "not_before", where="done_at IS NULL"),)

    crawl_id: Mapped[int] = crawl_key()
    created_at: Mapped[datetime] = now_column()
    not_before: Mapped[datetime] = now_column()
    attempts: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    delivered: Mapped[list[str]] = mapped_column(
        ARRAY(Text),
        server_default=EMPTY,
        comment="recipients that have it: kind and a short hash, never the address",
    )
    done_at: Mapped[datetime | None] = mapped_column(comment="when all had it, or it was given up")
    error: Mapped[str | None] = mapped_column(
        comment="which recipients could not be reached last time"
    )


class PriceAlertRow(Base):
    """An alert about a change: one for each rule that matches it; see
    `scraper.plugins.alerts.prices.outbox`."""

    __tablename__ = "price_alerts"
    __table_args__ = (
        UniqueConstraint("rule", "change_id"),
        partial_index("price_alerts_due_idx", "not_before", where="done_at IS NULL"),
    )

    id: Mapped[int] = row_number()
    rule: Mapped[str]
    change_id: Mapped[int] = mapped_column(BigInteger, comment="the position in the feed")
    crawl_id: Mapped[int] = mapped_column(BigInteger)
    details: Mapped[dict[str, Any]] = mapped_column(JSONB, comment="what webhooks get")
    created_at: Mapped[datetime] = now_column()
    not_before: Mapped[datetime] = now_column()
    attempts: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    delivered: Mapped[list[str]] = mapped_column(
        ARRAY(Text), server_default=EMPTY, comment="recipients that have it: kind and a short hash"
    )
    done_at: Mapped[datetime | None] = mapped_column(comment="when all had it, or it was given up")
    error: Mapped[str | None]

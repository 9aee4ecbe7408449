"""The tables and indexes of the plug-in."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from scraper.models import Base, now_column

# The index belongs to the same history.
from scraper.plugins.flower.search import models as search_models  # noqa: F401


class ProductPictureRow(Base):
    """A picture of a shop that a person has looked at, or why there is none. The newest are kept,
    see `scraper.plugins.flower.pictures.store`."""

    __tablename__ = "product_pictures"

    site_id: Mapped[int] = mapped_column(
        ForeignKey("sites.id", ondelete="CASCADE"), primary_key=True
    )
    url_hash: Mapped[bytes] = mapped_column(primary_key=True, comment="SHA-256")
    fetched_at: Mapped[datetime] = now_column()
    media_type: Mapped[str | None]
    body: Mapped[bytes | None]
    size: Mapped[int] = mapped_column(comment="of the body, in bytes")
    problem: Mapped[str | None] = mapped_column(comment="why there is no picture")

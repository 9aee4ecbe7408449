"""The log of what was changed in the browser. It outlives its sites."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, text
from sqlalchemy.orm import Mapped, mapped_column

from scraper.models import Base, now_column, row_number


class DefinitionChange(Base):
    """One change of a definition file."""

    __tablename__ = "definition_changes"
    __table_args__ = (Index("definition_changes_site_idx", "site", "id"),)

    id: Mapped[int] = row_number()
    at: Mapped[datetime] = now_column()
    changed_by: Mapped[str]
    site: Mapped[str]
    action: Mapped[str] = mapped_column(comment="added, changed or undone")
    file: Mapped[str]
    before: Mapped[str | None] = mapped_column(comment="the file's text; null: there was none")
    after: Mapped[str | None] = mapped_column(comment="likewise; null: the file was removed")
    masked: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="true: secrets are masked in both texts, which cannot be restored",
    )

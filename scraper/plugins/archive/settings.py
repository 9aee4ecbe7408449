"""Settings that the plug-in `archive` adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from scraper.settings import Settings


class ArchiveSettings(BaseModel):
    archive: str | None = Field(
        None,
        description=(
            "where raw pages are archived: a folder, or s3://bucket/prefix; unset: "
            "SCRAPER_HOME/archive"
        ),
    )
    archive_codec: Literal["gzip", "zstd"] = Field(
        "gzip", description="the compression of archived pages"
    )


def archive_place(settings: Settings) -> str | None:
    """Returns the folder or bucket of raw pages. With a PostgreSQL that other machines may use, it
    has no default: each machine would look in its own folder."""
    place = settings.of(ArchiveSettings).archive
    if place is None and settings.database_url is None:
        return str(settings.home_dir / "archive")
    return place

"""Settings that the plug-in `browser` adds."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class BrowserSettings(BaseModel):
    chromium: Path | None = Field(
        None, description="the browser of browser workers; unset: chromium or google-chrome on PATH"
    )
    browser_pages: int | None = Field(
        None,
        ge=1,
        le=64,
        description="open pages per browser worker process; unset: by cores and memory",
    )
    browser_context_pages: int = Field(
        20,
        ge=1,
        le=10_000,
        description="the maximum number of pages per identity's browser context",
    )
    browser_restart_pages: int = Field(
        500, ge=1, le=1_000_000, description="pages after which a browser is restarted"
    )
    browser_memory_max_mb: int = Field(
        2048, ge=256, description="the memory above which a browser is restarted"
    )

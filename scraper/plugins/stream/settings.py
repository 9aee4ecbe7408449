"""Settings that the plug-in `stream` adds."""

from __future__ import annotations

from pydantic import BaseModel, Field


class StreamSettings(BaseModel):
    changes_stream: str | None = Field(
        None, description="a Redis Stream that gets every change; unset: none"
    )
    changes_stream_max: int = Field(
        100_000, ge=100, description="the approximate number of changes in the stream"
    )

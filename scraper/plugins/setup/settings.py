"""Settings that the plug-in `setup` adds."""

from __future__ import annotations

from pydantic import BaseModel, Field


class SetupSettings(BaseModel):
    setup_private: bool = Field(
        True, description="whether the Crawls tab adds shops in your own network"
    )

"""Settings that the plug-in `alerts` adds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field


class AlertsSettings(BaseModel):
    alerts: Path | None = Field(
        None,
        description="a secret file of the recipients of alerts, one address per line",
    )
    alert_rules: Path | None = Field(
        None, description="a file with rules of price alerts for all sites"
    )
    alert_tab: Annotated[str, Field(pattern=r"^(?:https?://[^\s\"'<>?#]+)?$")] = Field(
        "", description="the address of the Crawls tab, for links in mail: https://crawls.example"
    )

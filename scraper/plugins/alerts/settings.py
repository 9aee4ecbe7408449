"""Settings that the plug-in `alerts` adds."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class AlertsSettings(BaseModel):
    alerts: Path | None = Field(
        None,
        description="a secret file of who is told of suspect and failed crawls, one address a line",
    )
    alert_rules: Path | None = Field(
        None, description="a file of rules of price alerts: which changes people are told of"
    )

"""Settings that the plug-in `metrics` adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from scraper.settings import Settings


class MetricsSettings(BaseModel):
    metrics_host: str = Field(
        "127.0.0.1", description="the address that serves metrics, of the exporter and of workers"
    )
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="the port of a worker process's own metrics; 0: any free one; unset: none",
    )
    exporter_port: int = Field(
        9750, ge=0, le=65535, description="the port of `scraper metrics`; 0: any free one"
    )


def targets_dir(settings: Settings) -> Path:
    """Returns the folder of the worker processes' target files for Prometheus."""
    return settings.home_dir / "metrics"

"""What the plug-in `parquet` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="parquet",
    summary="exports products as Parquet",
    requires={"pyarrow": "'celery-scraper[parquet]'"},
    exports={"parquet": "scraper.plugins.parquet.writer:FORM"},
)

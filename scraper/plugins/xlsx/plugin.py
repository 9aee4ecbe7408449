"""What the plug-in `xlsx` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="xlsx",
    summary="exports products as a workbook, a sheet for each site",
    requires={"xlsxwriter": "'celery-scraper[xlsx]'"},
    exports={"xlsx": "scraper.plugins.xlsx.writer:FORM"},
)

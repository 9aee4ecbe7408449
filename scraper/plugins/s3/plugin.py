"""What the plug-in `s3` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="s3",
    summary="keeps archives and exports in buckets",
    requires={"boto3": "'celery-scraper[s3]'"},
    services={"Buckets": "scraper.plugins.s3.bucket:Bucket"},
)

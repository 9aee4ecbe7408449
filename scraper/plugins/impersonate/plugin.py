"""What the plug-in `impersonate` adds."""

from __future__ import annotations

from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="impersonate",
    summary="connects with the handshake of a browser, and by HTTP/2",
    requires={"curl_cffi": "'celery-scraper[impersonate]'"},
    keys="scraper.plugins.impersonate.keys:ImpersonateKeys",
    hooks="scraper.plugins.impersonate.handshake:HOOKS",
)

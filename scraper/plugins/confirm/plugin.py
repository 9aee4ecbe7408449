"""What the plug-in `confirm` adds."""

from __future__ import annotations

from scraper.plugin import CRAWLS, Command, Plugin

PLUGIN = Plugin(
    name="confirm",
    summary="fetches pages with surprising changes again, and takes an operator's decision",
    hooks="scraper.plugins.confirm.hooks:HOOKS",
    worker="scraper.plugins.confirm.worker_part:ConfirmPart",
    commands={
        "accept": Command(CRAWLS, "scraper.plugins.confirm.decisions"),
        "reject": Command(CRAWLS, "scraper.plugins.confirm.decisions"),
    },
)

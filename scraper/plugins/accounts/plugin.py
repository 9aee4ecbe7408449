"""What the plug-in `accounts` adds."""

from __future__ import annotations

from scraper.plugin import FLEET, Command, Plugin

PLUGIN = Plugin(
    name="accounts",
    summary="logs in to sites with accounts of your own",
    requires={"cryptography": "'celery-scraper[accounts]'"},
    settings="scraper.plugins.accounts.settings:AccountsSettings",
    keys="scraper.plugins.accounts.login_keys:AccountsKeys",
    hooks="scraper.plugins.accounts.hooks:HOOKS",
    worker="scraper.plugins.accounts.worker_part:AccountsPart",
    commands={"login": Command(FLEET, "scraper.plugins.accounts.command")},
)

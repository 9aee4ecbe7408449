"""What the plug-in `flower` adds."""

from __future__ import annotations

from scraper.plugin import FLEET, Command, Plugin

PLUGIN = Plugin(
    name="flower",
    summary="the Crawls tab in Flower",
    settings="scraper.plugins.flower.settings:FlowerSettings",
    commands={"users": Command(FLEET, "scraper.plugins.flower.access.command")},
    on_load="scraper.plugins.flower.hooks:load_app",
    hooks="scraper.plugins.flower.hooks:HOOKS",
    models="scraper.plugins.flower.pictures.models",
    migrations="scraper.plugins.flower.migrations",
    tab_pages={"search": "scraper.plugins.flower.search.page"},
    services={"FlowerLogin": "scraper.plugins.flower.login:LOGIN"},
)

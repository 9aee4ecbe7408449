"""What the plug-in `author` adds."""

from __future__ import annotations

from scraper.plugin import DATA, SETUP, Command, Plugin

PLUGIN = Plugin(
    name="author",
    summary="creates projects; writes, tries, tests and repairs site definitions",
    commands={
        "init": Command(SETUP, "scraper.plugins.author.commands.init"),
        "new": Command(SETUP, "scraper.plugins.author.commands.new"),
        "try": Command(SETUP, "scraper.plugins.author.commands.trying"),
        "repair": Command(SETUP, "scraper.plugins.author.commands.repair"),
        "shell": Command(SETUP, "scraper.plugins.author.commands.shell"),
        "why": Command(DATA, "scraper.plugins.author.commands.why"),
        "sites pick": Command(SETUP, "scraper.plugins.author.commands.pick"),
        "sites record": Command(SETUP, "scraper.plugins.author.commands.recorded"),
        "sites schema": Command(SETUP, "scraper.plugins.author.commands.shown"),
        "sites show": Command(SETUP, "scraper.plugins.author.commands.shown"),
        "sites test": Command(SETUP, "scraper.plugins.author.commands.recorded"),
    },
    services={"SitePreview": "scraper.plugins.author.commands.preview:preview_site"},
)

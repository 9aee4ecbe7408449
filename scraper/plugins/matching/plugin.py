"""What the plug-in `matching` adds."""

from __future__ import annotations

from scraper.plugin import DATA, Command, Plugin, Tick

PLUGIN = Plugin(
    name="matching",
    summary="links the offers of all shops that sell one product",
    requires={"rapidfuzz": "'celery-scraper[matching]'"},
    models="scraper.plugins.matching.models",
    migrations="scraper.plugins.matching.migrations",
    hooks="scraper.plugins.matching.hooks:HOOKS",
    commands={
        "articles": Command(DATA, "scraper.plugins.matching.commands.articles"),
        "links": Command(DATA, "scraper.plugins.matching.commands.links"),
    },
    services={"MarketEvents": "scraper.plugins.matching.events:EVENTS"},
    tab_pages={"articles": "scraper.plugins.matching.tab"},
    ticks=[Tick("match", 10.0, "scraper.plugins.matching.linking.step:link_offers")],
)

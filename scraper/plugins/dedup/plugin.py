"""What the plug-in `dedup` adds."""

from __future__ import annotations

from scraper.plugin import FLEET, Command, Plugin, Tick

PLUGIN = Plugin(
    name="dedup",
    summary="remembers finished pages in a Bloom filter, for crawls of millions",
    keys="scraper.plugins.dedup.keys:DedupKeys",
    hooks="scraper.plugins.dedup.hooks:HOOKS",
    worker="scraper.plugins.dedup.worker_part:DedupPart",
    commands={"dedup": Command(FLEET, "scraper.plugins.dedup.command")},
    ticks=[Tick("clear", 2.0, "scraper.plugins.dedup.remembered_links:clear")],
)

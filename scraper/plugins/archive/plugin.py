"""What the plug-in `archive` adds."""

from __future__ import annotations

from scraper.plugin import DATA, Command, Plugin, Tick

PLUGIN = Plugin(
    name="archive",
    summary="keeps raw pages, and extracts them again",
    requires={"warcio": "'celery-scraper[archive]'"},
    settings="scraper.plugins.archive.settings:ArchiveSettings",
    keys="scraper.plugins.archive.keys:ArchiveKeys",
    hooks="scraper.plugins.archive.hooks:HOOKS",
    models="scraper.plugins.archive.models",
    worker="scraper.plugins.archive.worker_part:ArchivePart",
    commands={
        "archive": Command(DATA, "scraper.plugins.archive.command"),
        "reextract": Command(DATA, "scraper.plugins.archive.reextract.command"),
    },
    ticks=[Tick("prune", 60.0, "scraper.plugins.archive.prune:tick")],
    services={"ArchivedPages": "scraper.plugins.archive.reader:PAGES"},
)
